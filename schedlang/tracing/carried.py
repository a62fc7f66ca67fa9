"""The dtypes of numbers that loops carry: Python numbers take the dtype of what follows them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from schedlang.compute.tensor import Tensor
from schedlang.expr.nodes import Cast, Const, Expr
from schedlang.language.construct import cast, convert, settle
from schedlang.tracing.trace import Carry, HostLoop, Value


def is_wider(start: Value, carry: Carry) -> bool:
    """Return whether a number leaves an iteration in a dtype that holds all values of its own."""
    if not isinstance(start, Expr) or not isinstance(carry.leaving, Expr):
        return False
    before, after = carry.entering.dtype, dtype_of(carry.leaving)
    return before != after and bool(np.can_cast(before, after))


def python_numbers(values: list[Value], numbers: set[int]) -> list[Value]:
    """Return values of which the parts ``numbers`` are numbers of Python."""
    return [
        Cast(v, v.dtype, weak=True) if k in numbers and isinstance(v, Expr) else v
        for k, v in enumerate(values)
    ]


def widened(starts: Sequence[Value], loop: HostLoop) -> list[Value]:
    """Return the values before a loop, Python numbers in the dtype of what follows them.

    One that this dtype cannot hold, such as a float before integers, has a dtype that holds both,
    and an integer beyond an integer dtype raises ``ComputeTypeError``. A number that a Python
    number follows waits until the dtypes of the others are known, and stays one of Python.
    """
    weak = [is_weak(v) for v in starts]
    typed = [w and not is_weak(c.leaving) for w, c in zip(weak, loop.carries)]
    if any(typed):
        return [
            cast(v, _holding(v, c.leaving)) if now and isinstance(v, Expr) else v
            for v, now, c in zip(starts, typed, loop.carries)
        ]
    return [
        Cast(cast(v, kind), kind, weak=True) if isinstance(v, Expr) and v.dtype != kind else v
        for v, w, c in zip(starts, weak, loop.carries)
        for kind in (_holding(v, c.leaving) if w and isinstance(v, Expr) else v.dtype,)
    ]


def _holding(start: Expr, leaving: Value) -> str:
    """Return the dtype of what follows a Python number, or one that holds the number, too."""
    kinds = "b", "iu", "f", "c"
    before, after = (
        next(k for k, kind in enumerate(kinds) if np.dtype(d).kind in kind)
        for d in (start.dtype, leaving.dtype)
    )
    if kinds[before] == kinds[after] == "iu" and isinstance(start, Const):
        # raises for an integer beyond the dtype
        convert(start, leaving.dtype)
    if before <= after:
        return leaving.dtype
    return str(np.promote_types(start.dtype, leaving.dtype))


def held(loop: HostLoop, starts: Sequence[Value]) -> HostLoop:
    """Return a loop whose Python numbers begin and leave an iteration in the dtypes in it."""
    carries = [
        replace(c, start=cast(c.start, c.entering.dtype), leaving=cast(c.leaving, c.entering.dtype))
        if is_weak(v) and isinstance(c.start, Expr) and isinstance(c.leaving, Expr)
        else c
        for v, c in zip(starts, loop.carries)
    ]
    return replace(loop, carries=(*carries, *loop.carries[len(carries) :]))


def is_weak(value: Value) -> bool:
    """Return whether a value is a number of Python that takes the dtype of what it meets."""
    return isinstance(value, Expr) and value.weak and value.dtype != "bool"


def is_python_bool(value: Value) -> bool:
    return isinstance(value, Expr) and value.weak and value.dtype == "bool"


def dtype_of(value: Value) -> str:
    return value.dtype if isinstance(value, Tensor) else settle(value).dtype
