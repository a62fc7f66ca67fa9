"""Loop nest to numba source."""
