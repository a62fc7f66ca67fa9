"""Refusals of Python's functions of numbers, such as ``math.exp``, of what has no value yet."""

from __future__ import annotations

import ast
import builtins
import linecache
import sys
from types import FrameType
from typing import Any, NoReturn

from schedlang.errors import ComputeTypeError, explain
from schedlang.expr.functions import FUNCTIONS
from schedlang.parsing import parse_source

_CONVERSIONS = {"float": "'float32'", "complex": "'complex64'", "int": "'int64'"}
# functions of math and cmath, and what to write instead, besides the functions of the language
_INSTEAD = {
    **{name: f"np.{name}" for name in (
        "cbrt", "hypot", "fabs", "fmod", "copysign", "ldexp", "degrees", "radians", "nextafter",
        "gcd", "lcm")},
    "pow": "np.power", "round": "sl.round", "fma": "x * y + z", "dist": "np.hypot",
    "fsum": "sl.sum(..., axis=k)", "sumprod": "sl.sum(..., axis=k)",
    "phase": "np.arctan2(z.imag, z.real)", "int": "sl.cast(x, 'int64')",
    **{f.name: f.spelled for f in FUNCTIONS.values() if f.name != "round"},
}  # fmt: skip


def number_function(frame: FrameType | None = None) -> str:
    """Return the function of numbers that ``frame`` is calling, as ``"math.exp"``.

    By default ``frame`` is the one that called the caller of this one. Return "" for Python's
    conversions, as ``float``, and if it cannot be told.
    """
    name = called_function(frame or sys._getframe(2))
    return "" if name in _CONVERSIONS else name


def instead_of(name: str) -> str:
    """Return what to write instead of a function of numbers, as ``"math.exp"``; "" if unknown."""
    module, _, last = name.rpartition(".")
    return _INSTEAD.get(last, "") if module in ("math", "cmath", "") else ""


def refuse_number(text: str, why: str) -> NoReturn:
    """Raise for the function of numbers, as ``math.exp``, that called the caller of this one.

    Its argument is ``text``, and ``why`` says what that lacks.
    """
    name = called_function(sys._getframe(2)) or "float"
    last = name.rpartition(".")[2]
    if name in _CONVERSIONS:
        raise ComputeTypeError(
            f"{name}({text}): {why}; use .astype({_CONVERSIONS[name]}), and np.exp or sl.exp in "
            "place of math.exp"
        )
    instead = _INSTEAD.get(last, "it with the functions of sl.* and np.*")
    raise ComputeTypeError(
        explain(f"{name} of {text}", f"it computes with a number, and {why}", f"Write {instead}.")
    )


def called_function(frame: FrameType) -> str:
    """Return the function that ``frame`` is calling as written in full, ``"math.exp"``.

    "" if that cannot be told, as before Python 3.11, and for other code than a call.
    """
    call = _written_call(frame)
    if call is None:
        return ""
    function = _value_of(call, frame)
    module, name = getattr(function, "__module__", None), getattr(function, "__name__", None)
    if not isinstance(name, str) or not name.isidentifier() or not isinstance(module, str):
        return ast.unparse(call)
    return name if module == "builtins" else f"{module}.{name}"


def _written_call(frame: FrameType) -> ast.expr | None:
    """Return the function of the call that ``frame`` is at, from the text of its file."""
    code = frame.f_code
    if sys.version_info < (3, 11) or frame.f_lasti < 0:
        return None
    first, last, start, end = [*code.co_positions()][frame.f_lasti // 2]
    if first is None or last is None or start is None or end is None:
        return None
    lines = [
        linecache.getline(code.co_filename, number, frame.f_globals).encode()
        for number in range(first, last + 1)
    ]
    lines[-1] = lines[-1][:end]
    lines[0] = lines[0][start:]
    try:
        (statement,) = parse_source(f"({b''.join(lines).decode(errors='replace')})").body
    except (SyntaxError, ValueError):
        return None
    call = statement.value if isinstance(statement, ast.Expr) else None
    return call.func if isinstance(call, ast.Call) else None


def _value_of(written: ast.expr, frame: FrameType) -> Any:
    """Return the value of a name or of attributes of one; ``None`` if unknown."""
    if isinstance(written, ast.Name):
        for names in (frame.f_locals, frame.f_globals, vars(builtins)):
            if written.id in names:
                return names[written.id]
    if isinstance(written, ast.Attribute):
        owner = _value_of(written.value, frame)
        # of modules and classes alone: an attribute of another object may run code
        return vars(owner).get(written.attr) if isinstance(owner, type(sys)) else None
    return None
