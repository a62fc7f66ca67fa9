"""The mode of denormal numbers in uncompiled kernels, which always compute with them."""

# the compiled functions of the same names have the docstrings

from __future__ import annotations


def flush_denormals() -> int:
    return 0


def restore_mode(mode: int) -> int:
    return mode
