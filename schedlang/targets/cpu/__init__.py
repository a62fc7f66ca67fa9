"""The target of the CPU, by numba."""
