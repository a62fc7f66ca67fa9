"""TVM's ``topi.utils``, as far as programs use it: extents as Python integers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from schedlang.errors import ComputeError, MissingNameError, explain, nearest
from schedlang.expr.nodes import Const, Expr


def get_const_int(expr: Any) -> int:
    """Return an extent as an integer; raise ``ComputeError`` for a symbolic one.

    >>> get_const_int(3)
    3
    """
    value = expr.value if isinstance(expr, Const) else expr
    if isinstance(value, (bool, Expr)) or not hasattr(value, "__index__"):
        raise ComputeError(
            explain(
                f"topi.utils.get_const_int({expr})",
                f"{expr} has no value before a kernel is called",
                "Declare the tensor with a number in place of the size.",
            )
        )
    return int(value.__index__())


def get_const_tuple(in_tuple: Iterable[Any]) -> tuple[Any, ...]:
    """Return a shape with its numbers as integers; symbolic sizes are unchanged.

    >>> import schedlang as sl
    >>> get_const_tuple(sl.placeholder((2, sl.var("n")), name="A").shape)
    (2, n)
    """
    extents = []
    for extent in in_tuple:
        symbolic = isinstance(extent, Expr) and not isinstance(extent, Const)
        extents.append(extent if symbolic else get_const_int(extent))
    return tuple(extents)


def __getattr__(name: str) -> Any:
    raise MissingNameError(
        f"module 'schedlang.topi.utils' has no attribute {name!r}{nearest(name, __all__)}"
    )


__all__ = ["get_const_int", "get_const_tuple"]
