"""Loop nest to machine nest: typed scalars, vectors and registers over flat arrays."""
