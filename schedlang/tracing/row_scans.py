"""Loops that write a row of an array in each iteration, from rows of the iterations before.

Such a loop, as ``y[:, j] = x[:, j] + 0.5 * y[:, j - 1]``, becomes a scan whose states are single
rows. A scan over whole arrays would store the array once for each iteration.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from schedlang.arrays.naming import automatic_name, mark_automatic
from schedlang.arrays.stages import axis_names, data_axes, each, read
from schedlang.compute.define import define, finish
from schedlang.compute.math import if_then_else
from schedlang.compute.read import Read
from schedlang.compute.scan import scan
from schedlang.compute.tensor import ComputeOp, Tensor, placeholder
from schedlang.expr.lazy import both
from schedlang.expr.nodes import Axis, Expr
from schedlang.expr.visit import postorder
from schedlang.index.linear import Lin, to_expr
from schedlang.index.ranges import Ranges
from schedlang.index.simplify import to_lin
from schedlang.language.construct import as_expr, settle
from schedlang.tracing.indexing import assign_elements, parts_of
from schedlang.tracing.lifted import Map, Recurrence, checked, form_of, lowest, within
from schedlang.tracing.recurrence import Body, dependences, same_value
from schedlang.tracing.spans import ranges_of_loops
from schedlang.tracing.spread import spread
from schedlang.tracing.trace import HostLoop, Value, run_as_current


def row_scan(loop: HostLoop) -> list[Value] | None:
    """Return the values of the carries after a loop; ``None`` if it does not write by rows."""
    try:
        with run_as_current(loop.body):
            forms = {
                c.entering: form_of(loop, c)
                for c in loop.carries
                if not same_value(c.leaving, c.entering)
            }
            ops = checked(loop, list(forms.values()), in_order=True)
            maps = {t: f for t, f in forms.items() if isinstance(f, Map) and len(f.regions) == 1}
            back = _farthest(loop, maps, ops)
        for form in maps.values():
            within(loop, form)
    except Recurrence:
        return None
    strided = any(p.step != 1 for f in maps.values() for p in _parts(f))
    if len(maps) < len(forms) or back is None or strided:
        return None
    if not all(_has_rows_before(loop, form, back) for form in maps.values()):
        return None
    return _scanned(loop, maps, ops, back)


def _has_rows_before(loop: HostLoop, form: Map, back: int) -> bool:
    """Return whether the array has the places of ``back`` iterations before the first."""
    first = form.first + max(loop.lo, 0) * form.sign
    ends = [first - form.sign, first - back * form.sign]
    extent, ranges = to_lin(form.carry.entering.shape[form.dim]), Ranges()
    return all(ranges.nonneg(end) and ranges.nonneg(extent - 1 - end) for end in ends)


def _parts(form: Map) -> list[Any]:
    (region,) = form.regions
    return [*parts_of(region.base, region.item)]


def _farthest(loop: HostLoop, maps: Mapping[Tensor, Map], ops: list[ComputeOp]) -> int | None:
    """Return how many iterations back one reads; ``None`` if that is not constant or not at all."""
    farthest = 0
    roots = [r for f in maps.values() for r in f.roots if isinstance(r, Expr)]
    for node in postorder([*(e for op in ops for e in op.roots), *roots]):
        if isinstance(node, Read) and node.tensor in maps:
            distance = _distance(loop, maps[node.tensor], node)
            if distance is None:
                return None
            farthest = max(farthest, distance)
    return farthest or None


def _distance(loop: HostLoop, form: Map, node: Read) -> int | None:
    index = to_lin(node.indices[form.dim], ranges=ranges_of_loops(loop.body))
    distance = (form.place - index).const
    return None if distance is None else distance * form.sign


@dataclass(frozen=True)
class _Rows(Body):
    """The stages of a body over rows, of which the first ``before`` precede the loop."""

    maps: Mapping[Tensor, Map] = field(default_factory=dict)

    def state_element(self, node: Read, at: Expr) -> Expr:
        """Return what an iteration reads: a row before, or what the array had before the loop."""
        form = self.maps[node.tensor]
        number = to_lin(at)
        ranges = Ranges({
            leaf: (Lin.of(self.before), to_lin(self.rows) - 1)
            for leaf in number.leaves() if isinstance(leaf, Axis)
        })  # fmt: skip
        place = form.place.substitute({self.index: number + self.first})
        distance = (place - to_lin(node.indices[form.dim], ranges=ranges)).const
        assert distance is not None
        distance *= form.sign
        if distance <= 0:
            start = form.carry.start
            assert isinstance(start, Tensor)
            return read(start, node.indices)
        rest = [i for dim, i in enumerate(node.indices) if dim != form.dim]
        row = to_expr(number + self.before - distance)
        return Read(self.states[node.tensor], (row, *rest), node.dtype)


def _scanned(
    loop: HostLoop, maps: Mapping[Tensor, Map], ops: list[ComputeOp], back: int
) -> list[Value]:
    assert isinstance(loop.hi, int)
    count = loop.hi - loop.lo
    rows = count + back
    name = automatic_name("loop")
    states = {
        t: placeholder((rows, *_cross(form)), t.dtype, name=f"{name}.state{k}")
        for k, (t, form) in enumerate(maps.items())
    }
    values: dict[Tensor, Value] = {t: v for v, t in loop.read}
    values |= {c.entering: c.start for c in loop.carries if c.entering not in maps}
    carried, indexed = dependences(loop, ops)
    first = max(loop.lo, 0)
    body = _Rows(
        loop.index, first, rows, values, states, frozenset(carried),
        frozenset(t for op in indexed for t in op.outputs), before=back, maps=maps,
    )  # fmt: skip
    for op in ops:
        body.add(op)
    firsts = [
        _first(form, states[t], back, first, f"{name}.first{k}")
        for k, (t, form) in enumerate(maps.items())
    ]
    updates = [_update(body, f, f"{name}.step{k}") for k, f in enumerate(maps.values())]
    scanned = scan(firsts, updates, list(states.values()), name=name)
    results = dict(zip(maps, scanned if isinstance(scanned, list) else [scanned]))
    mark_automatic(next(iter(results.values())))
    return [
        _stored(loop, maps[c.entering], results[c.entering], back)
        if c.entering in maps
        else c.start
        for c in loop.carries
    ]


def _cross(form: Map) -> tuple[Any, ...]:
    """Return the shape of a row: of the array without the dimension that the loop goes along."""
    return tuple(n for dim, n in enumerate(form.carry.entering.shape) if dim != form.dim)


def _at(form: Map, place: Lin, axes: Any) -> tuple[Expr, ...]:
    """Return the indices of an element of the row at ``place``."""
    indices = [as_expr(a) for a in axes]
    indices.insert(form.dim, to_expr(place))
    return tuple(indices)


def _first(form: Map, state: Tensor, back: int, first: int, name: str) -> Tensor:
    """Return the ``back`` rows before the loop, whose first index is ``first``."""
    axes = (Axis("t", back), *data_axes(state.shape[1:]))
    place = form.first + (Lin.of(axes[0]) + first - back) * form.sign
    start = form.carry.start
    assert isinstance(start, Tensor)
    return define(name, axes, read(start, _at(form, place, axes[1:])))


def _update(body: _Rows, form: Map, name: str) -> Tensor:
    """Return the rows that the iterations write, and what they leave of each row."""
    names = axis_names(len(_cross(form)))
    row = Axis(body.index.name if body.index.name not in names else "t", body.rows)
    cross = data_axes(_cross(form), names)
    parts = _parts(form)
    parts.pop(form.dim)
    (region,) = form.regions
    shape = tuple(p.extent for p in parts if p.extent is not None)
    source = spread(region.value, shape, "an assignment")
    inside: Expr | None = None
    places: list[Expr] = []
    for axis, part, extent in zip(cross, parts, _cross(form)):
        length = 1 if part.extent is None else part.extent
        if part.extent is not None:
            places.append(axis - part.start)
        if to_lin(length) != to_lin(extent):
            test = both(axis >= part.start, axis < part.start + length)
            inside = test if inside is None else both(inside, test)
    value = as_expr(source(places))
    if inside is not None:
        entering = form.carry.entering
        old = Read(entering, _at(form, form.place, cross), entering.dtype)
        value = if_then_else(inside, value, old)
    element = settle(body.row_moved(value, row, row - body.before))
    update = finish(ComputeOp(name, (row, *cross), (element,)), 1, first={row: body.before})
    mark_automatic(update)
    return update


def _stored(loop: HostLoop, form: Map, rows: Tensor, back: int) -> Value:
    """Return the array after the loop."""
    assert isinstance(loop.hi, int)
    count, low = loop.hi - loop.lo, lowest(loop, form)

    def element(*axes: Axis) -> Expr:
        k = axes[form.dim] if form.sign > 0 else count - 1 - axes[form.dim]
        cross = [a for dim, a in enumerate(axes) if dim != form.dim]
        return rows.element((k + back, *cross))

    shape = list(_cross(form))
    shape.insert(form.dim, count)
    items: list[Any] = [slice(None)] * len(shape)
    items[form.dim] = slice(to_expr(low), to_expr(low + count))
    return assign_elements(form.carry.start, tuple(items), each("rows", tuple(shape), element))
