"""A schedule as data: stages with their axes and placement, and the primitives on them."""
