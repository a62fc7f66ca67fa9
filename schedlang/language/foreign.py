"""Refusals of functions that other libraries compiled, of expressions and tensors.

Numba asks an argument for its ``_numba_type_``, and NumPy's protocol hands over every ufunc, those
of SciPy, numba and ``np.frompyfunc`` too.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn

import numpy as np

from schedlang.errors import ComputeTypeError, explain, text_of
from schedlang.expr.functions import FUNCTIONS

_UMATH = sys.modules["numpy._core.umath"]
_NO_VALUE = "{} describes a computation and has no value yet"
# functions of scipy.special, and what to write instead
_SCIPY = {
    "expit": "sl.sigmoid",
    **{f.name: f.spelled for f in FUNCTIONS.values() if f.rule == "float" and not f.ufunc},
}


def refuse_compiled(value: Any) -> NoReturn:
    """Raise for the function of numba that asks for the type of ``value``."""
    function = _compiled_by_numba(sys._getframe(1))
    raise _compiled_for_values(function, text_of(value))


def refuse_if_compiled(value: Any) -> None:
    """Raise if a function of numba asks for an attribute of ``value``."""
    function = _compiled_by_numba(sys._getframe(2))
    if function is not None:
        raise _compiled_for_values(function, text_of(value))


@contextmanager
def functions_of_user() -> Iterator[None]:
    """Raise :class:`~schedlang.errors.ComputeTypeError` for functions that take no expressions.

    Numba's CUDA functions refuse a call without a launch configuration before they look at its
    arguments, and ``torch.tensor`` asks no argument how to convert it.
    """
    try:
        yield
    except ValueError as error:
        at = error.__traceback__
        while at is not None and at.tb_next is not None:
            at = at.tb_next
        function = None if at is None else _compiled_by_numba(at.tb_frame, 1)
        if function is None:
            raise
        raise _compiled_for_values(function, "an expression") from error
    except RuntimeError as error:
        if not str(error).startswith("Could not infer dtype of "):
            raise
        raise ComputeTypeError(
            explain(
                "a tensor of PyTorch that holds an expression",
                _NO_VALUE.format("an expression"),
                "Leave out torch.tensor: the functions of sl.* and np.* take the expression.",
            )
        ) from error


def is_of_numpy(ufunc: Any) -> bool:
    """Return whether ``ufunc`` is one of NumPy's own."""
    return getattr(_UMATH, ufunc.__name__, None) is ufunc


def is_of_scipy(ufunc: Any) -> bool:
    """Return whether ``ufunc`` is one of ``scipy.special``."""
    return getattr(sys.modules.get("scipy.special"), ufunc.__name__, None) is ufunc


def check_ufunc(ufunc: Any, what: str) -> None:
    """Raise unless ``ufunc`` is one of NumPy's, whose name says what it computes."""
    if is_of_numpy(ufunc):
        return
    name = ufunc.__name__
    scipy = is_of_scipy(ufunc)
    if type(ufunc).__module__.startswith("numba"):
        raise _compiled_for_values(ufunc, what)
    if scipy:
        instead = _SCIPY.get(name) or (f"np.{name}" if hasattr(np, name) else "")
        name = f"scipy.special.{name}"
        hint = f"Write {instead}." if instead else "Write it with the functions of sl.* and np.*."
    else:
        name = name.removesuffix(" (vectorized)")
        hint = "Call the Python function that it was made of, or write it with sl.* functions."
    raise ComputeTypeError(
        explain(
            f"{name} of {what}",
            f"it is not a ufunc of NumPy, and {_NO_VALUE.format(what)}",
            hint,
        )
    )


def _compiled_by_numba(frame: FrameType | None, most: int = 30) -> Any:
    """Return the function of numba in whose call ``frame`` is, by at most ``most`` frames."""
    for _ in range(most):
        if frame is None:
            break
        module, caller = str(frame.f_globals.get("__name__")), frame.f_locals.get("self")
        if module.partition(".")[0] in ("numba", "numba_cuda"):
            if hasattr(caller, "py_func") or type(caller).__name__ == "StencilFunc":
                return caller
        frame = frame.f_back
    return None


def _compiled_for_values(function: Any, what: str) -> ComputeTypeError:
    """Return the error for a function that numba compiled, of ``what``."""
    python = getattr(function, "py_func", None)
    name = getattr(python or function, "__name__", type(function).__name__)
    hint = "Write it with the functions of sl.* and np.*"
    if python is not None:
        own = name if name.isidentifier() else "f"
        hint = f"Take the Python function that was compiled, {own}.py_func; or write it with sl.*"
        hint += " functions.\nTo call it with arrays, in a stage of its own, is sl.extern"
    return ComputeTypeError(
        explain(
            f"{name} of {what}",
            f"numba compiled {name} for values, and {_NO_VALUE.format(what)}",
            f"{hint}.",
        )
    )


NUMBA_TYPE = property(refuse_compiled, doc="Raises: numba computes with values.")
