"""Tensors, reductions and recurrences, which say what to compute; the package is ``sl.compute``."""

import schedlang.compute.data  # noqa: F401 - lets tensors pickle
import schedlang.compute.latex  # noqa: F401 - gives tensors their latex()
from schedlang.callable_module import make_callable
from schedlang.compute.define import compute
from schedlang.compute.tensor import Tensor, placeholder, var

__all__ = ["Tensor", "compute", "placeholder", "var"]

make_callable(__name__, compute)
