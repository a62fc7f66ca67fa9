"""Loops whose iterations write slices that grow or shrink with the index: triangular maps.

Row ``i`` of a triangle has ``n - i`` elements. Here all rows are computed in a rectangle, so that
they have one shape and a schedule, and the elements that the loop writes are chosen from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from schedlang.arrays.naming import mark_automatic
from schedlang.arrays.stages import stage
from schedlang.compute.define import finish
from schedlang.compute.graph import operations
from schedlang.compute.math import all as all_of
from schedlang.compute.math import if_then_else
from schedlang.compute.read import Read, reads
from schedlang.compute.tensor import ComputeOp, Tensor
from schedlang.expr.nodes import Axis, Expr
from schedlang.expr.visit import postorder, rewrite
from schedlang.index.linear import Lin, to_expr
from schedlang.index.simplify import simplify, to_lin
from schedlang.language.construct import as_expr, cast, settle
from schedlang.tracing.conditional import unconditional
from schedlang.tracing.indexing import Part, parts_of
from schedlang.tracing.recurrence import Body, dependent, same_value
from schedlang.tracing.spans import ranges_of_loops
from schedlang.tracing.spread import spread
from schedlang.tracing.trace import Carry, HostLoop, Region, Value, run_as_current


class _NotTriangular(Exception):
    """The loop has another form."""


@dataclass(frozen=True)
class _Rows:
    """A region that an iteration writes: place ``at`` of dimension ``dim``, slices of others."""

    region: Region
    parts: tuple[Part, ...]
    dim: int
    at: Lin


def triangular(loop: HostLoop) -> list[Value] | None:
    """Return the values of the carries after a loop that is a triangular map, else ``None``."""
    if loop.tested or loop.body.loops or not isinstance(loop.hi, int):
        return None
    try:
        with run_as_current(loop.body):
            moving = [c for c in loop.carries if not same_value(c.leaving, c.entering)]
            rows = {c.entering: [_rows(loop, r) for r in _regions(loop, c)] for c in moving}
            for written in rows.values():
                _check_apart(loop, written)
            builder = _builder(loop, [r for written in rows.values() for r in written])
        values: list[Value] = []
        for c in loop.carries:
            value = c.start
            for r in rows.get(c.entering, ()):
                with run_as_current(loop.body):
                    element = builder.element(r)
                value = _assigned(builder, value, r, element)
            values.append(value)
        return values
    except _NotTriangular:
        return None


def _regions(loop: HostLoop, carry: Carry) -> list[Region]:
    regions: list[Region] = []
    value = carry.leaving
    while value is not carry.entering:
        region = loop.body.regions.get(value) if isinstance(value, Tensor) else None
        if region is None:
            raise _NotTriangular
        regions.insert(0, unconditional(region))
        value = region.base
    return regions


def _rows(loop: HostLoop, region: Region) -> _Rows:
    """Return a region that is an element of one dimension, and slices of the others."""
    parts = tuple(parts_of(region.base, region.item))
    index = Lin({(loop.index,): 1})
    single = [k for k, p in enumerate(parts) if p.extent is None]
    if len(single) != 1:
        raise _NotTriangular
    (dim,) = single
    at = to_lin(parts[dim].start, ranges=ranges_of_loops())
    if (at - index).const is None:
        raise _NotTriangular
    for p in parts:
        ends = (p.start,) if p.extent is None else (p.start, p.extent)
        if p.step != 1 or any(True for _ in reads([as_expr(end) for end in ends])):
            raise _NotTriangular
    if not all(isinstance(e, int) for e in region.base.shape):
        raise _NotTriangular
    return _Rows(region, parts, dim, at)


def _check_apart(loop: HostLoop, written: Sequence[_Rows]) -> None:
    """Raise unless no two iterations write the same element."""
    index = Lin({(loop.index,): 1})
    for n, a in enumerate(written):
        for b in written[:n]:
            if a.dim == b.dim:
                if a.at != b.at:
                    raise _NotTriangular
                continue
            # an element of both: iteration k of a has index k + (a.at - index) there, and so on
            start_a = (to_lin(a.parts[b.dim].start) - index).const
            start_b = (to_lin(b.parts[a.dim].start) - index).const
            place_a, place_b = (a.at - index).const, (b.at - index).const
            if start_a is None or start_b is None or place_a is None or place_b is None:
                raise _NotTriangular
            # k - l <= place_b - start_a and k - l >= start_b - place_a hold for k = l alone
            if place_b - start_a > 0 or start_b - place_a < 0:
                raise _NotTriangular


def _builder(loop: HostLoop, rows: Sequence[_Rows]) -> _Builder:
    tensors = []
    for r in rows:
        value = r.region.value
        if isinstance(value, Tensor):
            tensors.append(value)
        else:
            tensors += [
                node.tensor for node in postorder([as_expr(value)]) if isinstance(node, Read)
            ]
    ops = operations(tensors)
    carried = {c.entering for c in loop.carries if not same_value(c.leaving, c.entering)}
    if any(t in carried for t in tensors):
        raise _NotTriangular
    shaped = []
    for op in ops:
        if not isinstance(op, ComputeOp):
            if op.input_tensors:
                raise _NotTriangular
            continue
        if op.destination is not None or any(a.bounds is not None for a in op.reduce_axis):
            raise _NotTriangular
        if not carried.isdisjoint(op.input_tensors):
            raise _NotTriangular
        extents = [a.extent for a in (*op.axis, *op.reduce_axis) if isinstance(a.extent, Expr)]
        if any(node is loop.index for node in postorder(extents)):
            if len(op.body) > 1 or any(isinstance(a.extent, Expr) for a in op.reduce_axis):
                raise _NotTriangular
            shaped.append(op)
    assert isinstance(loop.hi, int)
    if not shaped:
        raise _NotTriangular
    count = loop.hi - loop.lo
    known: dict[Tensor, Value] = {t: v for v, t in loop.read}
    known |= {c.entering: c.start for c in loop.carries}
    body = Body(
        loop.index, max(loop.lo, 0), count + 1, known, {}, frozenset(), dependent(loop, ops)
    )
    inside = {t for op in shaped for t in op.outputs}
    for op in ops:
        if isinstance(op, ComputeOp) and op not in shaped:
            if not inside.isdisjoint(op.input_tensors):
                raise _NotTriangular
            body.add(op)
    return _Builder(loop, body, frozenset(inside), count)


@dataclass
class _Builder:
    """The stages of the body over all iterations; a ``shaped`` body has rectangles."""

    loop: HostLoop
    body: Body
    shaped: frozenset[Tensor]
    count: int
    made: dict[object, Tensor] = field(default_factory=dict)

    def element(self, rows: _Rows) -> tuple[tuple[Axis, ...], Expr]:
        """Return axes over the whole array, and what an iteration writes at them."""
        base = rows.region.base
        axes = tuple(Axis(f"x{k}", e) for k, e in enumerate(base.shape))
        at = [simplify(x - p.start) for x, p in zip(axes, rows.parts) if p.extent is not None]
        shape = tuple(p.extent for p in rows.parts if p.extent is not None)
        value = cast(as_expr(spread(rows.region.value, shape, "an assignment")(at)), base.dtype)
        return axes, self._whole(value)

    def _whole(self, value: Expr) -> Expr:
        """Return an expression without reads of stages whose shape depends on the index."""

        def swap(node: Expr) -> Expr | None:
            if not isinstance(node, Read) or node.tensor not in self.shaped:
                return None
            op = node.tensor.op
            assert isinstance(op, ComputeOp)
            if op.reduce_axis:
                return self._rectangle(op, node)
            places = dict(zip(op.axis, node.indices))
            inner = rewrite(
                settle(op.body[0]), lambda n: places.get(n) if isinstance(n, Axis) else None
            )
            return self._whole(inner)

        return rewrite(value, swap)

    def _rectangle(self, op: ComputeOp, read: Read) -> Expr:
        """Return the read of a reduction that all iterations compute over a rectangle."""
        axes: list[Axis] = []
        swap: dict[Axis, Expr] = {}
        places: list[Expr] = []
        key: list[object] = [op]
        for axis, index in zip(op.axis, read.indices):
            lin = to_lin(index)
            own = [n for n in postorder([index]) if isinstance(n, Axis)]
            if not isinstance(axis.extent, Expr):
                axes.append(axis)
                places.append(index)
                continue
            if len(own) != 1 or lin.terms.get((own[0],), 0) != 1:
                raise _NotTriangular
            shift = lin - Lin.of(own[0])
            if any(isinstance(leaf, Axis) for leaf in shift.leaves()):
                raise _NotTriangular
            wide = Axis(axis.name, own[0].extent)
            axes.append(wide)
            swap[axis] = simplify(wide + to_expr(shift))
            places.append(own[0])
            key += [shift, own[0].extent]
        tensor = self.made.get(tuple(key))
        if tensor is None:
            tensor = self.made[tuple(key)] = self._stage(op, axes, swap)
        # the iteration stands first; ``moved`` puts its number there
        return Read(tensor, (self.loop.index - self.body.first, *places), read.dtype)

    def _stage(self, op: ComputeOp, axes: Sequence[Axis], swap: dict[Axis, Expr]) -> Tensor:
        lead = Axis(self.loop.index.name, self.count)

        def moved(value: Expr) -> Expr:
            inner = rewrite(value, lambda n: swap.get(n) if isinstance(n, Axis) else None)
            inner = simplified(self._whole(inner))
            self._check_bounds(inner)
            return self.body.moved(inner, lead)

        new = replace(
            op,
            axis=(lead, *axes),
            body=tuple(map(moved, op.body)),
            where=None if op.where is None else moved(op.where),
            init=None if op.init is None else tuple(map(moved, op.init)),
            outputs=(),
            view=False,
        )
        tensor: Tensor
        (tensor,) = finish(new, len(op.body), True, None)
        tensor.name = op.outputs[0].name
        mark_automatic(tensor)
        return tensor

    def _check_bounds(self, value: Expr) -> None:
        """Raise unless each read is in bounds, also for elements that no iteration writes."""
        ranges = ranges_of_loops(self.loop.body)
        for node in postorder([value]):
            if not isinstance(node, Read):
                continue
            for index, extent in zip(node.indices, node.tensor.shape):
                place = to_lin(index, ranges=ranges)
                if not ranges.nonneg(place) or not ranges.nonneg(to_lin(extent) - place - 1):
                    raise _NotTriangular


def simplified(value: Expr) -> Expr:
    """Return an expression whose reads have indices in their shortest form."""

    def swap(node: Expr) -> Expr | None:
        if not isinstance(node, Read):
            return None
        return Read(node.tensor, tuple(map(simplify, node.indices)), node.dtype)

    return rewrite(value, swap)


def _assigned(
    builder: _Builder, base: Value, rows: _Rows, made: tuple[tuple[Axis, ...], Expr]
) -> Tensor:
    """Return an array with the elements that all iterations write."""
    axes, value = made
    assert isinstance(base, Tensor)
    loop, body = builder.loop, builder.body
    index = axes[rows.dim] - to_expr(rows.at - Lin({(loop.index,): 1}))
    at = simplify(index - body.first)
    tests: list[Any] = [at >= 0, at < builder.count]
    for x, p in zip(axes, rows.parts):
        if p.extent is not None and not p.whole:
            low = simplify(body.moved(as_expr(p.start), at))
            high = simplify(body.moved(as_expr(p.start + p.extent), at))
            tests += [x >= low, x < high]
    new = simplified(body.moved(value, at))
    old = Read(base, axes, base.dtype)
    return stage("mapped", axes, if_then_else(all_of(*tests), new, old))


__all__ = ["triangular"]
