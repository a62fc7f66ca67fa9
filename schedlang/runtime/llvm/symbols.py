"""The symbols of compiled code: its functions, and the objects of Python that it uses."""

from __future__ import annotations

import numpy as np
from llvmlite import binding

# the names by which code knows objects of Python
ARRAY_CLASS, TYPE_ERROR, MEMORY_ERROR, NONE = (
    f"schedlang_{name}" for name in ("numpy_ndarray", "type_error", "memory_error", "none")
)


def symbol_of(prefix: str, name: str) -> str:
    """Return the symbol of a function: its length stands before its name, as in C++ and numba."""
    return f"{prefix}.{len(name)}{name}"


def name_objects() -> None:
    """Let LLVM's code find the objects of Python that it uses, which live as long as Python."""
    objects = {
        ARRAY_CLASS: np.ndarray, TYPE_ERROR: TypeError, MEMORY_ERROR: MemoryError, NONE: None,
    }  # fmt: skip
    for name, named in objects.items():
        binding.add_symbol(name, id(named))
