"""Taps of convolutions that meet nothing but padding, left out.

A ResNet shrinks a picture of 28 by 28 pixels to one pixel, around which a kernel of 3 by 3 reads
zeros with eight of its nine taps.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schedlang.compute.define import define
from schedlang.compute.graph import operations
from schedlang.compute.read import Read
from schedlang.compute.tensor import ComputeOp, Tensor
from schedlang.expr.nodes import Axis, Binary, Expr, Select
from schedlang.gradient.algebra import is_number
from schedlang.index.enumeration import count, spans_of
from schedlang.index.linear import Lin
from schedlang.index.simplify import simplify, to_lin
from schedlang.networks.affine import with_values
from schedlang.networks.ahead import known_tensors
from schedlang.networks.blocks import may_be_rewritten
from schedlang.networks.folding import is_sum
from schedlang.networks.reading import with_fields, with_inputs, with_operands

# the most steps of an axis that are tried, one by one
MOST_TAPS = 64


@dataclass(frozen=True, eq=False)
class _Padded:
    """A sum of products of padded data with weights.

    ``tests`` are the conditions under which the data are not padding, and ``value`` is what they
    are then, both over the axes of the sum.
    """

    data: Read
    weights: Read
    tests: tuple[Expr, ...]
    value: Expr


def without_padding_taps(outputs: Any, params: Collection[Tensor] = ()) -> tuple[Tensor, ...]:
    """Return tensors that compute ``outputs`` without the taps that multiply padding alone.

    ``params`` are the placeholders that are weights. Take a sum of products of weights with data,
    one factor of which is a stage that is 0 outside of its bounds. The first and the last steps of
    a reduction axis are left out if they read zeros at all points. If no step reads padding then,
    the sum reads the data themselves. Results differ only where a weight that is left out is
    infinite or NaN, as 0 times that is NaN.

    >>> import schedlang as sl
    >>> from schedlang import topi
    >>> A, W = sl.placeholder((1, 8, 1, 1), name="A"), sl.placeholder((4, 8, 3, 3), name="W")
    >>> (made,) = without_padding_taps(topi.nn.conv2d_nchw(A, W, 1, 1, 1), [W])
    >>> made.op.input_tensors
    [Tensor(A: float32[1, 8, 1, 1]), Tensor(W_taps: float32[4, 8, 1, 1])]
    """
    tensors = tuple(outputs) if isinstance(outputs, (list, tuple)) else (outputs,)
    ops = operations(tensors)
    if not may_be_rewritten(ops):
        return tensors
    known = known_tensors(ops, params)
    replaced: dict[Tensor, Tensor] = {}
    for op in ops:
        if not isinstance(op, ComputeOp):
            replaced.update(with_inputs(op, replaced))
            continue
        twin = with_operands(op, replaced)
        padded = _padded(twin, known)
        shorter = None if padded is None else _shorter(twin, padded)
        if shorter is not None:
            replaced[op.outputs[0]] = shorter
        elif twin is not op:
            replaced.update(zip(op.outputs, twin.outputs))
            known.update((new, None) for old, new in zip(op.outputs, twin.outputs) if old in known)
    return tuple(replaced.get(t, t) for t in tensors)


def _padded(op: ComputeOp, known: Collection[Tensor]) -> _Padded | None:
    """Return an operation as a sum of products of padded data with weights, if it is one."""
    if op.where is not None or not is_sum(op):
        return None
    body = op.body[0]
    if not isinstance(body, Binary) or body.op != "*":
        return None
    sides = [side for side in (body.a, body.b) if isinstance(side, Read)]
    if len(sides) < 2:
        return None
    data, weights = sorted(sides, key=lambda side: side.tensor in known)
    source = data.tensor.op
    if weights.tensor not in known or not isinstance(source, ComputeOp):
        return None
    if source.reducer is not None or source.destination is not None:
        return None
    choice = source.body[0]
    if len(source.body) > 1 or not isinstance(choice, Select) or not is_number(choice.b, 0):
        return None
    at = dict(zip(source.axis, data.indices))
    tests = tuple(with_values(test, at) for test in _tests(choice.cond))
    return _Padded(data, weights, tests, with_values(choice.a, at))


def _tests(cond: Expr) -> Iterator[Expr]:
    """Yield the conditions that hold together where ``cond`` does."""
    if isinstance(cond, Binary) and cond.op == "&":
        yield from _tests(cond.a)
        yield from _tests(cond.b)
    else:
        yield cond


def _shorter(op: ComputeOp, padded: _Padded) -> Tensor | None:
    """Return the sum with fewer steps, ``None`` if each of its steps reads data somewhere."""
    spans = {a: (0, a.extent) for a in (*op.axis, *op.reduce_axis) if isinstance(a.extent, int)}
    if any(a.lo != 0 or a.bounds for a in (*op.axis, *op.reduce_axis)):
        return None
    kept: dict[Axis, tuple[int, int]] = {}
    for axis in op.reduce_axis:
        if axis not in spans or spans[axis][1] > MOST_TAPS or _of_weights(axis, padded) is None:
            continue
        used = _used(axis, padded.tests, spans)
        if used is not None and used != spans[axis]:
            kept[axis] = used
    if not kept:
        return None
    spans.update(kept)
    whole = all(_holds(test, spans) for test in padded.tests)
    steps = {a: Axis(a.name, length, a.kind) for a, (_, length) in kept.items()}
    later = {a: simplify(step + kept[a][0]) for a, step in steps.items()}
    data = with_values(padded.value if whole else padded.data, later)
    taps = _taps(padded.weights, {_of_weights(a, padded): span for a, span in kept.items()})
    weights = taps.element(tuple(with_values(index, steps) for index in padded.weights.indices))
    body = op.body[0]
    first = isinstance(body, Binary) and body.a is padded.data
    a, b = (data, weights) if first else (weights, data)
    return with_fields(
        op,
        body=(Binary("*", a, b, body.dtype),),
        reduce_axis=tuple(steps.get(a, a) for a in op.reduce_axis),
    ).outputs[0]


def _of_weights(axis: Axis, padded: _Padded) -> int | None:
    """Return the dimension of the weights that a reduction axis alone is the index of."""
    forms = [to_lin(index) for index in padded.weights.indices]
    places = [k for k, form in enumerate(forms) if axis in form.leaves()]
    return places[0] if len(places) == 1 and forms[places[0]] == Lin.of(axis) else None


def _used(
    axis: Axis, tests: Sequence[Expr], spans: Mapping[Axis, tuple[int, int]]
) -> tuple[int, int] | None:
    """Return the first step that reads data and the number up to the last one that does."""
    own = [test for test in tests if axis in (spans_of([test], spans) or ())]
    steps = [
        at
        for at in range(spans[axis][1])
        if all(_points(test, {**spans, axis: (at, 1)}) != 0 for test in own)
    ]
    return (steps[0], steps[-1] - steps[0] + 1) if steps else None


def _points(test: Expr, spans: Mapping[Axis, tuple[int, int]]) -> int | None:
    """Return the number of points at which a condition holds, ``None`` if it is not known."""
    own = spans_of([test], spans)
    return None if own is None else count([(test, True)], own)


def _holds(test: Expr, spans: Mapping[Axis, tuple[int, int]]) -> bool:
    own = spans_of([test], spans)
    return own is not None and count([(test, False)], own) == 0


def _taps(weights: Read, kept: Mapping[int | None, tuple[int, int]]) -> Tensor:
    """Return the part of the weights of some steps along some of their dimensions."""
    source = weights.tensor
    axes = tuple(Axis(f"i{k}", kept[k][1] if k in kept else n) for k, n in enumerate(source.shape))
    places = tuple(a + kept[k][0] if k in kept else a for k, a in enumerate(axes))
    return define(f"{source.name}_taps", axes, source.element(places))
