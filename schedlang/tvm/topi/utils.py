"""TVM's ``topi.utils``, as far as programs use it: extents, and stages before a last one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from schedlang.compute.tensor import ComputeOp, Operation
from schedlang.errors import ComputeError, MissingNameError, explain, nearest
from schedlang.expr.nodes import Const, Expr

if TYPE_CHECKING:
    from schedlang.schedule.schedule import Schedule


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


def equal_const_int(expr: Any, value: int) -> bool:
    """Return whether an extent is the number ``value``; a symbolic one is not.

    >>> equal_const_int(3, 3)
    True
    """
    number = expr.value if isinstance(expr, Const) else expr
    return not isinstance(number, Expr) and bool(number == value)


def prod(x: Iterable[Any]) -> Any:
    """Return the product of extents, 1 of none.

    >>> prod((2, 3, 4))
    24
    """
    product: Any = 1
    for extent in x:
        product = product * extent
    return product


def simplify(expr: Any) -> Any:
    """Return an extent as it is, a constant as a number: extents here are always simplified."""
    return expr.value if isinstance(expr, Const) else expr


def traverse_inline(
    s: Schedule, final_op: Operation, callback: Callable[[Operation], object]
) -> None:
    """Inline the stages without a reduction before an operation, and call a function on each.

    It goes on from ``final_op`` through stages without a reduction, outputs excepted from the
    inlining, and stops at others, on which it calls ``callback`` too, after those that they read.
    """
    visited: set[Operation] = set()
    outputs = {tensor.op for tensor in s.outputs}
    pending: list[tuple[Operation, bool]] = [(final_op, False)]
    while pending:
        op, read = pending.pop()
        if read:
            callback(op)
        elif op not in visited:
            visited.add(op)
            pending.append((op, True))
            if isinstance(op, ComputeOp) and op.reducer is None and op.destination is None:
                if op not in outputs:
                    s[op].compute_inline()
                producers = [t.op for t in op.input_tensors if isinstance(t.op, ComputeOp)]
                pending.extend((producer, False) for producer in reversed(producers))


def __getattr__(name: str) -> Any:
    raise MissingNameError(
        f"module 'schedlang.topi.utils' has no attribute {name!r}{nearest(name, __all__)}"
    )


__all__ = [
    "equal_const_int", "get_const_int", "get_const_tuple", "prod", "simplify", "traverse_inline",
]  # fmt: skip
