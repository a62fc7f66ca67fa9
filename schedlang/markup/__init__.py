"""The looks of things: HTML of notebooks and reports, and a line for what takes long."""
