"""Hints to LLVM, numba's decorator and its parallel range, which all do nothing here."""

# the compiled function of the same name has the docstring

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from schedlang.intrinsics.twins.arithmetic import Array, Value


def apart(*arrays: Array) -> None:
    """Do nothing: there is no compiler."""


def rolled(vectors: int) -> None:
    """Do nothing: there is no vectorizer."""


def rounded(x: Value) -> Value:
    return x


def njit(**options: object) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator, in place of numba's, that leaves the function uncompiled."""
    return lambda function: function


prange = range
