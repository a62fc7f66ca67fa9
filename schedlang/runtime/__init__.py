"""Kernels: compiled, checked, called, timed."""

from schedlang.nd import enabled

__all__ = ["enabled"]
