"""Loops that need no order: maps, whose iterations write elements of their own, and reductions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from schedlang.arrays.stages import each, stage
from schedlang.compute.graph import operations
from schedlang.compute.math import if_then_else
from schedlang.compute.read import Read
from schedlang.compute.reduce import reduce_axis
from schedlang.compute.reduce import sum as sum_of
from schedlang.compute.tensor import ComputeOp, Tensor
from schedlang.expr.nodes import Axis, Binary, Const, Expr, Select, Var
from schedlang.expr.visit import postorder, rewrite
from schedlang.index.linear import Lin, number_or_expr, to_expr
from schedlang.index.simplify import to_lin
from schedlang.language.construct import as_expr, cast, settle
from schedlang.tracing.conditional import unconditional
from schedlang.tracing.indexing import Part, assign_elements, parts_of, select
from schedlang.tracing.recurrence import MOST_ELEMENTS, Body, dependent, same_value
from schedlang.tracing.spans import likely, ranges_of_loops
from schedlang.tracing.spread import spread
from schedlang.tracing.trace import Carry, HostLoop, Region, Trace, Value, run_as_current


@dataclass(frozen=True)
class Lifted:
    """The values after a loop without a recurrence, or the ``reason`` why it has one."""

    values: list[Value] | None = None
    form: str = ""
    reason: str = ""


@dataclass(frozen=True)
class Map:
    """Assignments of a loop's body to one place of dimension ``dim`` in each iteration.

    The place is ``sign*k + first`` in iteration ``k``.
    """

    carry: Carry
    regions: tuple[Region, ...]
    dim: int
    sign: int
    first: Lin
    place: Lin

    @property
    def roots(self) -> list[Value]:
        return [region.value for region in self.regions]


@dataclass(frozen=True)
class _Sum:
    """A number, or the elements of a ``region``, to which each iteration adds ``term``."""

    carry: Carry
    region: Region | None
    term: Callable[..., Expr]

    @property
    def roots(self) -> list[Value]:
        if self.region is None or isinstance(self.region.value, Expr):
            return [self.term()]
        axes = self.region.value.op.axis
        return [self.term(*axes)]


class Recurrence(Exception):
    """An iteration needs the ones before; the text says why."""


def lifted(trace: Trace, loop: HostLoop) -> Lifted:
    """Return the values of the carries after a loop whose iterations need no order."""
    try:
        with run_as_current(loop.body):
            forms = [
                None if same_value(c.leaving, c.entering) else form_of(loop, c)
                for c in loop.carries
            ]
            moving = [form for form in forms if form is not None]
            ops = checked(loop, moving)
        _check_size(trace, loop, ops)
        for form in moving:
            within(loop, form)
    except Recurrence as why:
        return Lifted(reason=str(why))
    body = _body(loop, ops)
    values = [
        c.start
        if form is None
        else _mapped(loop, form, body)
        if isinstance(form, Map)
        else _summed(loop, form, body)
        for c, form in zip(loop.carries, forms)
    ]
    kinds = {type(form) for form in moving}
    words = {Map: "a map", _Sum: "a reduction"}
    return Lifted(values, " and ".join(w for kind, w in words.items() if kind in kinds) or "a map")


def form_of(loop: HostLoop, carry: Carry) -> Map | _Sum:
    """Return what the iterations do to a carry; raise ``Recurrence`` if it has no such form."""
    if isinstance(carry.leaving, Expr):
        return _Sum(carry, None, _term(carry.leaving, lambda e: _is_entry(e, carry)))
    # x += y replaces the whole array
    regions = _regions(loop, carry) or [Region(carry.entering, ..., carry.leaving)]
    places = [_place(loop, region) for region in regions]
    if all(place is None for place in places) and len(regions) == 1:
        return _sum_into(loop, carry, regions[0])
    if any(place != places[0] or place is None for place in places):
        raise Recurrence("it writes elements in several places")
    assert places[0] is not None
    dim, sign, first, place = places[0]
    return Map(carry, tuple(regions), dim, sign, first, place)


def _regions(loop: HostLoop, carry: Carry) -> list[Region]:
    """Return the assignments that lead from the value of a carry before to the one after."""
    regions: list[Region] = []
    value = carry.leaving
    while value is not carry.entering:
        region = loop.body.regions.get(value) if isinstance(value, Tensor) else None
        if region is None:
            return []
        regions.insert(0, unconditional(region))
        value = region.base
    return regions


def _place(loop: HostLoop, region: Region) -> tuple[int, int, Lin, Lin] | None:
    """Return the dimension in which a region moves with the index, and where it is there."""
    place: tuple[int, int, Lin, Lin] | None = None
    for dim, part in enumerate(parts_of(region.base, region.item)):
        start = _lin(loop, part.start)
        moves = _uses(loop, part.start)
        if part.extent is not None:
            if moves or _uses(loop, part.extent):
                raise Recurrence("the slice that it writes depends on its index")
            continue
        if not moves:
            continue
        sign = start.terms.get((loop.index,), 0)
        if place is not None or sign not in (1, -1):
            raise Recurrence("the place that it writes is more than its index and a number")
        first = start - Lin({(loop.index,): sign})
        if _uses(loop, number_or_expr(first)):
            raise Recurrence("the place that it writes is more than its index and a number")
        place = dim, sign, first, start
    return place


def _lin(loop: HostLoop, value: Any) -> Lin:
    """Return a number in the body of a loop as a polynomial."""
    return to_lin(value, ranges=ranges_of_loops(loop.body))


def _uses(loop: HostLoop, value: Any) -> bool:
    """Return whether a number depends on the index of a loop."""
    return isinstance(value, Expr) and any(n is loop.index for n in postorder([value]))


def checked(loop: HostLoop, forms: Sequence[Map | _Sum], in_order: bool = False) -> list[ComputeOp]:
    """Return the operations of a body; raise where one needs what another iteration wrote.

    If iterations run ``in_order``, they may read elements that others wrote.
    """
    roots = [root for form in forms for root in form.roots]
    entering = {form.carry.entering: form for form in forms}
    tensors = [t for root in roots for t in _tensors(root)]
    ops: list[ComputeOp] = []
    for op in operations(tensors):
        if isinstance(op, ComputeOp):
            if op.destination is not None:
                raise Recurrence(f"its body has the scatter {op.name}")
            extents = [a.extent for a in (*op.axis, *op.reduce_axis) if isinstance(a.extent, Expr)]
            if any(_uses(loop, extent) for extent in extents):
                raise Recurrence(f"the shape of {op.name} depends on its index")
            ops.append(op)
        elif op.input_tensors:
            raise Recurrence(f"its body has the recurrence {op.name}")
    exprs = [e for op in ops for e in op.roots] + [r for r in roots if isinstance(r, Expr)]
    for node in postorder(exprs):
        if not isinstance(node, Read) or node.tensor not in entering:
            continue
        form = entering[node.tensor]
        own = in_order or (
            isinstance(form, Map) and _lin(loop, node.indices[form.dim]) == form.place
        )
        if not own:
            raise Recurrence(_said(loop, node, form))
    for root in roots:
        if isinstance(root, Tensor) and root in entering:
            raise Recurrence("an iteration reads the whole array that others write")
    return ops


def _said(loop: HostLoop, node: Read, form: Map | _Sum) -> str:
    """Return which element an iteration reads that another one may write."""
    written = form.carry.leaving
    # == of tensors is a tensor
    places = (k for k, made in loop.body.made.items() if any(written is t for t in made))
    names = map(loop.body.targets.get, places)
    name = next((name for name in names if name), "")
    own = Lin({(Var(loop.user_index[0]),): 1}) - loop.user_index[1]
    indices = ", ".join(str(to_expr(to_lin(i, {loop.index: own}))) for i in node.indices)
    if not name:
        return "an iteration reads what the ones before it wrote"
    return f"{name}[{indices}] is read" if indices else f"{name} is read"


def _check_size(trace: Trace, loop: HostLoop, ops: Sequence[ComputeOp]) -> None:
    """Raise if the stages of all iterations at once have too many elements to be kept."""
    count = likely(loop.hi - loop.lo) or 0
    indexed = dependent(loop, ops)
    elements = 0
    for op in ops:
        if op.outputs[0] in indexed and op.reduce_axis:
            size = count
            for axis in op.axis:
                extent = likely(axis.extent)
                size *= 1 if extent is None else extent
            elements += size
    if trace.rule.host and elements > MOST_ELEMENTS:
        raise Recurrence(
            f"what all iterations compute has {elements:,} elements, more than {MOST_ELEMENTS:,}"
        )


def _body(loop: HostLoop, ops: Sequence[ComputeOp]) -> Body:
    count = loop.hi - loop.lo
    known: dict[Tensor, Value] = {t: v for v, t in loop.read}
    known |= {c.entering: c.start for c in loop.carries}
    body = Body(
        loop.index, max(loop.lo, 0), count + 1, known, {}, frozenset(), dependent(loop, ops)
    )  # fmt: skip
    for op in ops:
        body.add(op)
    return body


def _mapped(loop: HostLoop, form: Map, body: Body) -> Value:
    value: Any = form.carry.start
    dtype = form.carry.entering.dtype
    count = loop.hi - loop.lo
    for region in form.regions:
        parts = parts_of(region.base, region.item)
        low = lowest(loop, form)
        at = sum(p.extent is not None for p in parts[: form.dim])
        shape = [p.extent for p in parts if p.extent is not None]
        source = spread(region.value, tuple(shape), "an assignment")

        def element(*axes: Axis, at: int = at, source: Any = source) -> Expr:
            k: Any = axes[at]
            k = k if form.sign > 0 else count - 1 - k
            stored = cast(as_expr(source((*axes[:at], *axes[at + 1 :]))), dtype)
            return settle(body.moved(stored, k))

        shape.insert(at, count)
        new = each("mapped", tuple(shape), element)
        items = [item_of(p) for p in parts]
        items[form.dim] = slice(number_or_expr(low), number_or_expr(low + to_lin(count)))
        items = [_around(body, item) for item in items]
        value = assign_elements(value, tuple(items), new)
    return value


def lowest(loop: HostLoop, form: Map) -> Lin:
    """Return the lowest place that a loop writes."""
    first = form.first + form.sign * max(loop.lo, 0)
    return first if form.sign > 0 else first - to_lin(loop.hi - loop.lo) + 1


def within(loop: HostLoop, form: Map | _Sum) -> None:
    """Raise if a loop writes elements that may lie outside of the array."""
    if isinstance(form, Map):
        ranges, low = ranges_of_loops(), lowest(loop, form)
        extent = to_lin(form.carry.entering.shape[form.dim])
        if not ranges.nonneg(low) or not ranges.le(low + to_lin(loop.hi - loop.lo), extent):
            raise Recurrence("the elements that it writes may lie outside of the array")


def item_of(part: Part) -> Any:
    if part.extent is None:
        return part.start
    if part.step == 1:
        return slice(part.start, part.start + part.extent)
    stop = part.start + part.step * part.extent
    return slice(part.start, None if stop < 0 else stop, part.step)


def _summed(loop: HostLoop, form: _Sum, body: Body) -> Value:
    count = loop.hi - loop.lo
    start = form.carry.start
    dtype = form.carry.entering.dtype
    k = reduce_axis(count, name=loop.index.name)
    if form.region is None:
        term = cast(body.moved(form.term(), k), dtype)
        init = cast(start[()] if isinstance(start, Tensor) else settle(as_expr(start)), dtype)
        return stage("sum", (), sum_of(term, axis=k, init=init))[()]
    region = form.region
    parts = parts_of(region.base, region.item)
    shape = tuple(p.extent for p in parts if p.extent is not None)
    item = _around(body, region.item)
    before = select(start, item)

    def element(*axes: Axis) -> Any:
        term = cast(body.moved(form.term(*axes), k), dtype)
        return sum_of(term, axis=k, init=before[axes] if axes else before)

    total = each("sum", shape, element)
    return assign_elements(start, item, total if shape else total[()])


def _around(body: Body, item: Any) -> Any:
    """Return an index of a body that does not depend on its loop as one around the loop."""
    if isinstance(item, tuple):
        return tuple(_around(body, part) for part in item)
    if isinstance(item, slice):
        return slice(*(_around(body, end) for end in (item.start, item.stop, item.step)))
    return body.moved(item, None) if isinstance(item, Expr) else item


def _is_entry(value: Expr, carry: Carry) -> bool:
    return isinstance(value, Read) and value.tensor is carry.entering and not value.indices


def _term(value: Expr, is_before: Callable[[Expr], bool]) -> Callable[..., Expr]:
    """Return what is added to a sum, whose value before an iteration ``is_before`` recognizes."""
    term = _added(value, is_before)
    if term is None:
        raise Recurrence("each iteration computes a number from the one before")
    return lambda *_: term


def _added(value: Expr, is_before: Callable[[Expr], bool]) -> Expr | None:
    """Return what ``value`` adds to a sum; ``None`` if it is anything but a sum."""
    if is_before(value):
        return Const(0, value.dtype)
    if isinstance(value, Select):
        a, b = _added(value.a, is_before), _added(value.b, is_before)
        return None if a is None or b is None else if_then_else(value.cond, a, b)
    if not isinstance(value, Binary) or value.op not in ("+", "-") or value.dtype == "bool":
        return None
    left = _added(value.a, is_before)
    if left is not None:
        if value.op == "+":
            return value.b if _is_zero(left) else left + value.b
        return -value.b if _is_zero(left) else left - value.b
    right = _added(value.b, is_before) if value.op == "+" else None
    if right is None:
        return None
    return value.a if _is_zero(right) else value.a + right


def _is_zero(term: Expr) -> bool:
    return isinstance(term, Const) and term.value == 0


def _sum_into(loop: HostLoop, carry: Carry, region: Region) -> _Sum:
    """Return the sum of a loop that adds to the same elements in each iteration."""
    parts = parts_of(region.base, region.item)

    def is_before(value: Expr, axes: Sequence[Axis]) -> bool:
        source = _source(value)
        if not isinstance(source, Read) or source.tensor is not carry.entering:
            return False
        rest = iter(axes)
        wanted = [
            _lin(loop, p.start if p.extent is None else p.start + next(rest) * p.step)
            for p in parts
        ]
        return [_lin(loop, i) for i in source.indices] == wanted

    count = sum(p.extent is not None for p in parts)
    if isinstance(region.value, Expr) and not count:
        return _Sum(carry, region, _term(region.value, lambda e: is_before(e, ())))
    op = None if isinstance(region.value, Expr) else region.value.op
    if not isinstance(op, ComputeOp) or op.reduce_axis or len(op.axis) != count:
        raise Recurrence("each iteration replaces the same elements")
    term = _added(op.body[0], lambda e: is_before(e, op.axis))
    if term is None:
        raise Recurrence("each iteration replaces the same elements")

    def at(*axes: Axis) -> Expr:
        return rewrite(term, partial(_swapped, dict(zip(op.axis, axes))))

    return _Sum(carry, region, at)


def _source(value: Expr) -> Expr:
    """Return the element that a read of a copy stands for."""
    while isinstance(value, Read):
        op = value.tensor.op
        if not isinstance(op, ComputeOp) or op.reduce_axis or not isinstance(op.body[0], Read):
            break
        places = dict(zip(op.axis, value.indices))
        value = rewrite(op.body[0], partial(_swapped, places))
    return value


def _swapped(places: Mapping[Axis, Expr], node: Expr) -> Expr | None:
    return places.get(node) if isinstance(node, Axis) else None


def _tensors(value: Value) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    return [node.tensor for node in postorder([value]) if isinstance(node, Read)]


__all__ = ["Lifted", "lifted"]
