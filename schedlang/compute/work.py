"""The arithmetic operations of a computation, counted without a schedule.

:func:`operations_of` defines a flop for ``sl.cost``, for the GFLOP/s of ``sl.evaluate`` and for the
tuner's estimates.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from math import prod
from typing import Any

from schedlang.compute.extern_op import ExternOp
from schedlang.compute.graph import first_computed_rows, operations
from schedlang.compute.ragged import without_ranges
from schedlang.compute.read import Read
from schedlang.compute.reduce import Reducer
from schedlang.compute.segments import find_segments
from schedlang.compute.tensor import ComputeOp, Extent, Operation, Tensor
from schedlang.expr.dtypes import is_complex
from schedlang.expr.evaluate import evaluate
from schedlang.expr.functions import SATURATED
from schedlang.expr.lazy import conditions
from schedlang.expr.nodes import Axis, Binary, Call, Expr, Unary, Var
from schedlang.expr.operators import ARITHMETIC, COMPARISON, OPERATORS
from schedlang.index.enumeration import count, leaves_of

# reducers whose step counts as one comparison, though their combiners have more
_SELECTING = ("argmax", "argmin")


def flops(outputs: Sequence[Tensor], sizes: Mapping[Var, Any] | None = None) -> int:
    """Return the number of operations of ``outputs``, if each stage is computed once, completely.

    :func:`operations_of` says which operations count; a multiply-add is 2. A ragged range
    counts its own points only, as far as they are known: elements of a monotonic input divide the
    box, other elements leave it whole. The steps of a scan count from the first row that they
    compute. ``sizes`` gives the values of symbolic extents. A function of the user's counts what
    ``sl.extern(flops=)`` says, or nothing.

    >>> import schedlang as sl
    >>> A, B = sl.placeholder((4, 8), name="A"), sl.placeholder((8, 2), name="B")
    >>> k = sl.reduce_axis(8, name="k")
    >>> C = sl.compute((4, 2), lambda i, j: sl.sum(A[i, k] * B[k, j], axis=k), name="C")
    >>> flops([C])
    128
    """
    ops = operations(outputs)
    values, rows = sizes or {}, first_computed_rows(ops, outputs)
    total = _of_functions(ops, values)
    for op in compute_operations(outputs):
        tests = conditions(op.where)[: len(op.limits)]
        points = _in_ranges(op, values, rows, tests)
        if points is None:
            points = _points(op, values, rows)
        total += points * of_point(op) + _starts(op, values)
    return total


def needed_flops(outputs: Sequence[Tensor], sizes: Mapping[Var, Any] | None = None) -> int | None:
    """Return the count of :func:`flops` without the points that a reduction's ``where`` leaves out.

    Return ``None`` if the condition reads elements or has too many points to try, and if nobody
    knows the operations of a function of the user's.

    >>> import schedlang as sl
    >>> A, k = sl.placeholder((8,), name="A"), sl.reduce_axis(8, name="k")
    >>> C = sl.compute((8,), lambda i: sl.sum(A[k], axis=k, where=k <= i), name="C")
    >>> flops([C]), needed_flops([C])
    (64, 36)
    """
    ops = operations(outputs)
    if uncounted(outputs):
        return None
    total, rows = _of_functions(ops, sizes or {}), first_computed_rows(ops, outputs)
    for op in compute_operations(outputs):
        tests = conditions(op.where)
        if tests:
            count_in_ranges = _in_ranges(op, sizes or {}, rows, tests)
            if count_in_ranges is None:
                return None
            points = count_in_ranges
        else:
            points = _points(op, sizes or {}, rows)
        total += points * of_point(op) + _starts(op, sizes or {})
    return total


def uncounted(outputs: Sequence[Tensor]) -> tuple[str, ...]:
    """Return the names of the functions of users whose operations nobody knows, each once."""
    ops = [op for op in operations(outputs) if isinstance(op, ExternOp)]
    return tuple(dict.fromkeys(op.function.name for op in ops if op.flops is None))


def _of_functions(ops: Sequence[Operation], sizes: Mapping[Var, Any]) -> int:
    """Return the operations of functions of users, as far as they are known."""
    counts = (op.flops for op in ops if isinstance(op, ExternOp))
    return sum(_value(count, sizes) for count in counts if count is not None)


def compute_operations(outputs: Sequence[Tensor]) -> list[ComputeOp]:
    """Return the compute operations behind ``outputs``, producers first."""
    return [op for op in operations(outputs) if isinstance(op, ComputeOp)]


def _points(
    op: ComputeOp,
    sizes: Mapping[Var, Any],
    rows: Mapping[ComputeOp, Extent],
    apart: Container[Axis] = (),
) -> int:
    """Return the number of points of the domain of ``op`` except ``apart``."""
    axes = op.domain
    extents = [1 if axis in apart else _value(axis.extent, sizes) for axis in axes]
    if op in rows and op.axis and axes[0] not in apart:
        extents[0] = max(0, extents[0] - _value(rows[op], sizes))
    return prod(extents)


def _in_ranges(
    op: ComputeOp,
    sizes: Mapping[Var, Any],
    rows: Mapping[ComputeOp, Extent],
    tests: Sequence[Expr],
) -> int | None:
    """Return the number of points of ``op`` at which ``tests`` hold; ``None`` if not known."""
    segments = find_segments(tests)
    used = {id(test) for segment in segments for test in segment.conditions}
    every = _points(op, sizes, rows, {axis for segment in segments for axis in segment.rows})
    rest = [test for test in tests if id(test) not in used]
    if not rest:
        return every
    first, *others = rest
    for test in others:
        first = Binary("&", first, test, "bool")
    part = _count_where(first, sizes)
    return None if part is None else every * part[0] // part[1]


def _starts(op: ComputeOp, sizes: Mapping[Var, Any]) -> int:
    """Return the operations of ``init=`` at all data points."""
    each = of_start(op)
    return each and each * prod(_value(axis.extent, sizes) for axis in op.axis)


def of_point(op: ComputeOp) -> int:
    """Return the operations at one point of the data and reduction axes."""
    combined = 0 if op.reducer is None else of_step(op.reducer)
    # the loops run over the ranges of ragged axes, so that nothing tests them
    own = without_ranges(op.where, len(op.limits))
    tested = () if own is None else (own,)
    return _operations((*op.body, *tested)) + combined


def of_start(op: ComputeOp) -> int:
    """Return the operations of ``init=`` at one data point."""
    return _operations(op.init or ())


def of_step(reducer: Reducer) -> int:
    """Return the operations that combine one more value, at least 1; 1 for argmin and argmax.

    An update that overwrites has none.
    """
    if reducer.parts:
        return sum(of_step(part.reducer) for part in reducer.parts)
    if reducer.overwrites:
        return 0
    if reducer.name in _SELECTING:
        return 1
    return max(1, _operations(reducer.result))


def operations_of(node: Expr) -> int:
    """Return the operations of one expression node, without its children: 0 or 1.

    An operation on complex numbers counts those on its parts: an addition 2, a product 6, a
    quotient 11.

    These count as one: arithmetic on elements (``+ - * / // % **`` and negation), bitwise
    operations and shifts of integers, comparisons of elements, and every math function, including
    ``min`` and ``max``. These do not count: reads, index arithmetic, comparisons of indices,
    conversions, choices, and logic on bools. Both sides of a choice count.

    >>> from schedlang.expr.nodes import Axis
    >>> x = Var("x", "float32", weak=False)
    >>> operations_of(x * 2), operations_of(x > 0), operations_of(Axis("i", 4) * 2)
    (1, 1, 0)
    """
    if node.weak:
        return 0
    if is_complex(node.dtype) and isinstance(node, (Binary, Unary)):
        return OPERATORS[node.op].on_parts if isinstance(node, Binary) else 2
    if isinstance(node, Call):
        return int(not node.fn.startswith(SATURATED))
    if isinstance(node, Unary):
        return int(node.op == "-" or node.dtype != "bool")
    if not isinstance(node, Binary):
        return 0
    kind = OPERATORS[node.op].kind
    if kind == COMPARISON:
        return int(not (node.a.weak and node.b.weak))
    return int(kind == ARITHMETIC or node.dtype != "bool")


def _count_where(cond: Expr, sizes: Mapping[Var, Any]) -> tuple[int, int] | None:
    """Return the number of points at which ``cond`` holds, and of all points of its axes."""
    leaves = leaves_of([cond])
    if not all(isinstance(node, Axis) or node in sizes for node in leaves):
        return None
    spans = {
        axis: (_value(axis.lo, sizes), _value(axis.extent, sizes))
        for axis in leaves
        if isinstance(axis, Axis)
    }
    every = prod(length for _, length in spans.values())
    number = count([(cond, True)], spans, sizes) if every > 0 else None
    return None if number is None else (number, every)


def _operations(roots: Sequence[Expr]) -> int:
    """Return the operations of an expression graph; shared parts count once, indices not at all."""
    visited: set[int] = set()
    stack, count = list(roots), 0
    while stack:
        node = stack.pop()
        if id(node) in visited or isinstance(node, Read) or node.weak:
            continue
        visited.add(id(node))
        count += operations_of(node)
        stack.extend(node.children)
    return count


def _value(extent: Extent, sizes: Mapping[Var, Any]) -> int:
    return extent if isinstance(extent, int) else int(evaluate(extent, sizes))
