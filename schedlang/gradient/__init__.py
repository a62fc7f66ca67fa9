"""Gradients of computations, as computations; the package is ``sl.gradient``."""

from schedlang.callable_module import make_callable
from schedlang.gradient.reverse import gradient

__all__ = ["gradient"]

make_callable(__name__, gradient)
