"""Tensors, reductions and recurrences, which say what to compute; the package is ``sl.compute``.

``tensor.py`` has tensors and the operations that define them; ``read.py`` is a read of a tensor in
an expression. ``define.py`` is ``sl.compute``, which checks every read against its tensor
(``bounds.py``). ``reduce.py``, ``joint.py``, ``scan.py``, ``scatter.py`` and ``boundary.py`` make
the other kinds of stages. ``ragged.py`` and ``facts.py`` have ranges that data decide, and what is
declared about the data.

``reference.py`` is the oracle: it evaluates a computation with NumPy, without a schedule, in chunks
(``chunks.py``, ``ragged_chunks.py``), with the reductions of ``fold.py``. Two forms serve other
code: plain data for JSON (``data.py``) and pickles (``pieces.py``), and a part cut out as a
computation of its own (``extraction.py``). ``array_methods.pyi`` and ``functions.pyi`` are for type
checkers.
"""

from importlib import import_module

import schedlang.compute.data  # noqa: F401 - lets tensors pickle
import schedlang.compute.latex  # noqa: F401 - gives tensors their latex()
from schedlang.callable_module import make_callable
from schedlang.compute.define import compute
from schedlang.compute.tensor import Tensor, placeholder, var

__all__ = ["Tensor", "compute", "placeholder", "var"]

make_callable(__name__, compute)
import_module("schedlang.arrays")  # gives tensors the operators and methods of NumPy's arrays
