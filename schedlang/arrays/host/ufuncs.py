"""Ufuncs of NumPy and of SciPy that no expression computes: they are called on the host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from schedlang.arrays.host.calls import on_host
from schedlang.arrays.host.row import Row
from schedlang.arrays.shapes import broadcast
from schedlang.expr.dtypes import is_complex
from schedlang.expr.functions import FUNCTIONS
from schedlang.language.foreign import is_of_numpy, is_of_scipy
from schedlang.language.ufuncs import has_form

# NumPy's ufuncs whose expressions take real numbers alone
_REAL = {f.ufunc for f in FUNCTIONS.values() if not f.complex} | {"sign"}


def is_on_host(ufunc: Any, inputs: Sequence[Any]) -> bool:
    """Return whether ``ufunc`` is NumPy's or SciPy's, element by element, and has no expression.

    NumPy computes more functions of complex ``inputs``, such as ``np.sqrt``.
    """
    if ufunc.signature is not None or ufunc.__name__ == "divmod":
        return False
    if not is_of_numpy(ufunc):
        return is_of_scipy(ufunc)
    if not has_form(ufunc.__name__):
        return True
    takes_complex = ufunc.__name__ in _REAL and "D->D" in ufunc.types
    return takes_complex and any(is_complex(str(getattr(x, "dtype", ""))) for x in inputs)


def ufunc_on_host(ufunc: Any, inputs: tuple[Any, ...]) -> Any:
    """Return the stage that calls ``ufunc``, or the tuple of its results."""
    names = [f"x{k}" for k in range(ufunc.nin)]
    name = f"scipy.special.{ufunc.__name__}" if is_of_scipy(ufunc) else ufunc.__name__

    def shape(**given: Any) -> Any:
        shapes = [s if isinstance(s, tuple) else () for s in given.values()]
        common = broadcast(shapes, name)
        return [common] * ufunc.nout if ufunc.nout > 1 else common

    parameters = " ".join(names)
    row = Row(parameters, parameters, shape, leading=ufunc.nin)
    return on_host(name, row, **dict(zip(names, inputs)))
