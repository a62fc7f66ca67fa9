"""Kernels: compiled, checked, called, timed."""
