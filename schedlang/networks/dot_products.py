"""Weights of integer sums in the order of the processor's dot products.

A dot product such as AVX-512's ``vpdpbusd`` multiplies 4 adjacent steps of the data with 4 steps
for each of 16 results, and adds them up. So the weights of these 4 steps stand side by side, for
one result after the other. In this order they are computed ahead; in any other one a kernel would
copy them in each call. Steps that are adjacent in the data are the channels of a block, or the rows
of a matrix. No operator is known by name: the order follows from the indices of reads.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from schedlang.autotune.tactics.cpu.dot_products import instructions
from schedlang.compute.define import define
from schedlang.compute.graph import operations
from schedlang.compute.read import Read
from schedlang.compute.tensor import ComputeOp, Tensor
from schedlang.expr.nodes import Axis, Binary, Cast, Expr
from schedlang.index.linear import Lin
from schedlang.index.simplify import simplify, to_lin
from schedlang.instructions.box import steps_of
from schedlang.language.construct import const, select
from schedlang.networks.affine import with_values
from schedlang.networks.ahead import known_tensors
from schedlang.networks.blocks import lone_axis, may_be_rewritten
from schedlang.networks.folding import is_sum
from schedlang.networks.reading import with_fields, with_inputs, with_operands
from schedlang.target import Target


@dataclass(frozen=True)
class _Steps:
    """A reduction axis whose steps dot products take, ``count`` at once.

    It is the index of dimension ``along`` of the weights, and the last data axis the index of
    dimension ``across``.
    """

    axis: Axis
    along: int
    across: int
    count: int

    @property
    def extent(self) -> int:
        assert isinstance(self.axis.extent, int)
        return self.axis.extent

    @property
    def added(self) -> int:
        """The steps after the last one, by which the extent divides by ``count``."""
        return -self.extent % self.count


def in_dot_products(
    outputs: Sequence[Tensor], params: Collection[Tensor], target: Target
) -> tuple[Tensor, ...]:
    """Return tensors that compute ``outputs``, with weights in the order of dot products.

    ``params`` are the placeholders that are weights. A sum of products has such weights if

    * ``target`` has a dot product of their dtypes, which this processor has, too,
    * adjacent elements of the data are steps of a reduction axis, and
    * that axis and the last data axis are indices of the weights, and the data do not change along
      the latter, which has a vector of elements or more.

    If the steps do not divide by the steps of the dot product, zeros follow the weights and the
    data, at most as many as there are steps. The results are the same.

    >>> import schedlang as sl
    >>> from schedlang import topi
    >>> x, w = sl.placeholder((2, 8), "uint8", name="x"), sl.placeholder((8, 32), "int8", name="w")
    >>> product = topi.nn.matmul(x, w, out_dtype="int32")
    >>> in_dot_products([product], [w], sl.Target("cpu", vector_bytes=64))
    (Tensor(matmul: int32[2, 32]),)
    """
    ops = operations(outputs)
    if not may_be_rewritten(ops):
        return tuple(outputs)
    rewriting = _Rewriting(known_tensors(ops, params), target)
    for op in ops:
        if isinstance(op, ComputeOp):
            rewriting.add(op)
        else:
            rewriting.replaced.update(with_inputs(op, rewriting.replaced))
    return tuple(rewriting.replaced.get(t, t) for t in outputs)


class _Rewriting:
    """The operations of a network, rewritten one by one, producers first."""

    def __init__(self, known: dict[Tensor, None], target: Target) -> None:
        self.known, self.target = known, target
        self.replaced: dict[Tensor, Tensor] = {}
        self._weights: dict[tuple[Tensor, int, int, int], Tensor] = {}
        self._wider: dict[tuple[Tensor, int], Tensor] = {}

    def add(self, op: ComputeOp) -> None:
        """Rewrite an operation whose producers were added before."""
        twin = with_operands(op, self.replaced)
        factors = self._factors(twin)
        steps = None if factors is None else self._steps(twin, *factors)
        if factors is not None and steps is not None:
            self.replaced[op.outputs[0]] = self._dot(twin, *factors, steps)
        elif twin is not op:
            pairs = list(zip(op.outputs, twin.outputs))
            self.replaced.update(pairs)
            self.known.update((new, None) for old, new in pairs if old in self.known)

    def _factors(self, op: ComputeOp) -> tuple[Read, Read] | None:
        """Return the data and the weights of a sum of products."""
        if op.where is not None or not is_sum(op) or not op.axis or op.outputs[0] in self.known:
            return None
        body = op.body[0]
        if not isinstance(body, Binary) or body.op != "*":
            return None
        sides = [side.a if isinstance(side, Cast) else side for side in (body.a, body.b)]
        data, weights = sorted(sides, key=lambda s: isinstance(s, Read) and s.tensor in self.known)
        if not isinstance(data, Read) or not isinstance(weights, Read):
            return None
        both = data.tensor not in self.known and weights.tensor in self.known
        return (data, weights) if both else None

    def _steps(self, op: ComputeOp, data: Read, weights: Read) -> _Steps | None:
        """Return the axis of which dot products take several steps with the fewest zeros."""
        kinds = data.tensor.dtype, weights.tensor.dtype, op.outputs[0].dtype
        lane = op.axis[-1]
        width = self.target.vector_width(kinds[2])
        if not isinstance(lane.extent, int) or lane.extent < width:
            return None
        counts = [steps_of(declared) for declared in instructions(self.target, kinds)]
        across = _own_dimension(weights, lane)
        fixed = not any(to_lin(index).depends_on({lane}) for index in data.indices)
        if not counts or across is None or not fixed:
            return None
        possible = []
        for axis in op.reduce_axis:
            along = _own_dimension(weights, axis)
            if along is not None and isinstance(axis.extent, int) and _contiguous(data, axis):
                possible.append(_Steps(axis, along, across, counts[0]))
        fitting = [steps for steps in possible if steps.added <= steps.extent]
        return min(fitting, key=lambda steps: steps.added / steps.extent, default=None)

    def _dot(self, op: ComputeOp, data: Read, weights: Read, steps: _Steps) -> Tensor:
        """Return a sum with weights in the order of a dot product."""
        key = (weights.tensor, steps.along, steps.across, steps.count)
        if key not in self._weights:
            self._weights[key] = _side_by_side(weights.tensor, steps)
        source = data.tensor
        if steps.added:
            wide = (source, steps.added)
            if wide not in self._wider:
                self._wider[wide] = _wider(*wide)
            source = self._wider[wide]
        axis, count, own = steps.axis, steps.count, (steps.along, steps.across)
        over = Axis(f"{axis.name}o", -(-steps.extent // count), "reduce")
        inner = Axis(f"{axis.name}i", count, "reduce")
        places = [simplify(with_values(i, {axis: over * count + inner})) for i in data.indices]
        others = [index for k, index in enumerate(weights.indices) if k not in own]
        packed = self._weights[key]
        reads = (
            Read(source, tuple(places), source.dtype),
            Read(packed, (*others, over, op.axis[-1], inner), packed.dtype),
        )
        dtype = op.body[0].dtype
        a, b = (read if read.dtype == dtype else Cast(read, dtype) for read in reads)
        order = [over if step is axis else step for step in op.reduce_axis]
        body = (Binary("*", a, b, dtype),)
        return with_fields(op, body=body, reduce_axis=(*order, inner)).outputs[0]


def _own_dimension(read: Read, axis: Axis) -> int | None:
    """Return the dimension, of the extent of an axis, whose index is the axis alone."""
    moving = [k for k, index in enumerate(read.indices) if to_lin(index).depends_on({axis})]
    if len(moving) != 1 or lone_axis(read.indices[moving[0]]) is not axis:
        return None
    return moving[0] if read.tensor.shape[moving[0]] == axis.extent else None


def _contiguous(read: Read, axis: Axis) -> bool:
    """Return whether steps of an axis read adjacent elements of the last dimension."""
    if not read.indices:
        return False
    *others, last = read.indices
    form = to_lin(last)
    alone = not any(to_lin(index).depends_on({axis}) for index in others)
    return alone and form.terms.get((axis,)) == 1 and not (form - Lin.of(axis)).depends_on({axis})


def _side_by_side(weights: Tensor, steps: _Steps) -> Tensor:
    """Return weights with ``count`` steps behind each element of dimension ``across``."""
    shape, count = weights.shape, steps.count
    own = (steps.along, steps.across)
    others = {k: Axis(f"i{k}", extent) for k, extent in enumerate(shape) if k not in own}
    over, inner = Axis("o", -(-steps.extent // count)), Axis("i", count)
    lane = Axis("l", shape[steps.across])
    step = over * count + inner
    places: dict[int, Expr] = {**others, steps.along: step, steps.across: lane}
    value = weights.element(tuple(places[k] for k in range(len(shape))))
    if steps.added:
        value = select(step < steps.extent, value, const(0, weights.dtype), lazy=True)
    return define(f"{weights.name}_dots", (*others.values(), over, lane, inner), value)


def _wider(data: Tensor, added: int) -> Tensor:
    """Return data with zeros after the last element of the last dimension."""
    *first, last = data.shape
    axes = (*(Axis(f"i{k}", extent) for k, extent in enumerate(first)), Axis("i", last + added))
    value = select(axes[-1] < last, data.element(axes), const(0, data.dtype), lazy=True)
    return define(f"{data.name}_wider", axes, value)


__all__ = ["in_dot_products"]
