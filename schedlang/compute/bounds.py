"""The check of indices: a read that is provably out of bounds raises an error in ``compute``."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import NamedTuple, Optional

from schedlang.compute.facts import elements, span_of
from schedlang.compute.ragged import without_ranges
from schedlang.compute.read import Read
from schedlang.compute.tensor import ComputeOp, PlaceholderOp, shape_text
from schedlang.errors import BoundsError, explain
from schedlang.expr.evaluation_order import around_uses
from schedlang.expr.nodes import Axis, Expr, Var
from schedlang.expr.visit import postorder
from schedlang.index.conditions import Held, facts_of, facts_of_extent
from schedlang.index.enumeration import leaves_of, value_range
from schedlang.index.linear import Lin, Opaque, to_expr
from schedlang.index.ranges import Ranges
from schedlang.index.relax import lower, upper
from schedlang.index.simplify import to_lin

# the conditions around a node, outer to inner, each with its truth value
Path = tuple[Held, ...]
# (conditional, facts, path) of a node: whether it is evaluated conditionally, the facts known
# there, and the exact conditions around it (None if its uses are under different ones)
Guard = tuple[bool, tuple[Lin, ...], Optional[Path]]
_ALWAYS: Guard = (False, (), ())
# most facts and conditions that are kept for a node
_MOST_FACTS = 32


class Outside(NamedTuple):
    """The ends at which an index leaves its dimension, and the values that it takes."""

    below: bool
    above: bool
    values: str


def check_reads(op: ComputeOp, first: Mapping[Axis, int] | None = None, late: bool = False) -> None:
    """Raise :class:`BoundsError` for a read that is certainly out of bounds.

    ``first`` gives the start of axes that start later than 0 (a scan's time axis). Unless the whole
    graph is known (``late``), a placeholder may be read a fixed number of rows before the current
    row, since it may be the state of a scan.
    """
    ranges = Ranges()
    for axis, start in (first or {}).items():
        ranges.known[axis] = (Lin.of(start), to_lin(axis.extent) - 1)
    starts = first or {}
    if any(isinstance(a.extent, int) and a.extent <= starts.get(a, 0) for a in op.domain):
        return
    # a read needs an iteration, so each extent is at least 1
    facts = (
        f
        for a in (*op.axis, *op.reduce_axis)
        if not _is_zero(a.extent)
        for f in facts_of_extent(to_lin(a.extent) - starts.get(a, 0))
    )
    ranges = ranges.assuming(tuple(facts))
    order = postorder(op.roots)
    guards = guards_of(op, order, ranges)
    unknown = unknown_nodes(order)
    note = ""
    for node in order:
        if isinstance(node, Read):
            guard = guards[id(node)]
            note = _check_read(op, node, ranges, guard, late, note, unknown) or note
    if op.destination is not None:
        _check_destination(op, op.destination, ranges, unknown)


def _is_zero(extent: object) -> bool:
    return isinstance(extent, int) and extent == 0


def _check_destination(
    op: ComputeOp, destination: Sequence[Expr], scope: Ranges, unknown: Container[int]
) -> None:
    """Raise :class:`BoundsError` for a scatter that certainly updates outside its result."""
    guard = _ALWAYS
    if op.where is not None:
        guard = (True, facts_of(op.where, True, scope), ((op.where, True),))
    ranges = scope.assuming(guard[1])
    for position, (index, axis) in enumerate(zip(destination, op.axis)):
        lin, size = to_lin(index, ranges=ranges), to_lin(axis.extent)
        outside = _values_outside(index, lin, size, scope, guard, unknown)
        outside = outside or _outside_at_any_size(lin, size, scope, guard[0])
        if outside is None:
            continue
        place = ", ".join(map(str, destination))
        low, _, high = outside.values.partition("..")
        takes = f"takes the values {outside.values}" if high and low != high else f"is {low}"
        raise BoundsError(
            explain(
                f"sl.scatter for {op.name} updates {op.name}[{place}]",
                f"index {position} {takes}, but {op.name} of shape {shape_text(op.shape)} has "
                f"extent {axis.extent} there",
                f"Clamp the index with {_clamped(index, size, outside.below, outside.above)}, "
                "leave "
                'such updates out with mode="drop" or where=..., or enlarge the shape.',
            )
        )


def unknown_nodes(order: Sequence[Expr]) -> set[int]:
    """Return the ``id`` of each node whose value depends on data or on a symbolic size.

    One walk serves all reads, since a walk for each would take cubic time in a deep expression.
    """
    unknown: set[int] = set()
    for node in order:
        if isinstance(node, (Var, Read)) or any(id(child) in unknown for child in node.children):
            unknown.add(id(node))
    return unknown


def guards_of(op: ComputeOp, order: Sequence[Expr], ranges: Ranges) -> dict[int, Guard]:
    """Return the guard of each node, by ``id``: the facts that hold at all of its uses."""
    guards: dict[int, Guard] = {id(root): _ALWAYS for root in op.roots}
    if op.where is not None:
        guarded: Guard = (True, facts_of(op.where, True, ranges), ((op.where, True),))
        guards.update({id(root): guarded for root in op.updates if root is not op.where})

    def inside(around: Guard, cond: Expr, holds: bool) -> Guard:
        _, facts, path = around
        inner = None
        if path is not None and len(path) < _MOST_FACTS:
            inner = (*path, (cond, holds))
        return True, (*facts, *facts_of(cond, holds, ranges))[-_MOST_FACTS:], inner

    return around_uses(order, guards, inside, _either)


def _either(before: Guard, here: Guard) -> Guard:
    """Return what holds in two uses."""
    shared = tuple(f for f in here[1] if f in before[1])
    return here[0] and before[0], shared, _start(here[2], before[2])


def _start(a: Path | None, b: Path | None) -> Path | None:
    """Return the shorter path if the longer one begins with it, since it then covers both."""
    if a is None or b is None:
        return None
    short, long = (a, b) if len(a) <= len(b) else (b, a)
    same = all(x[0] is y[0] and x[1] == y[1] for x, y in zip(short, long))
    return short if same else None


def _check_read(
    op: ComputeOp,
    read: Read,
    scope: Ranges,
    guard: Guard,
    late: bool,
    note: str,
    unknown: Container[int],
) -> str:
    """Raise if ``read`` is out of bounds, unless its tensor may be the state of a scan.

    In that case return a note, which the error message of a later read appends. ``note`` is the
    note of an earlier read. ``unknown`` is the result of :func:`unknown_nodes`.
    """
    ranges = scope.assuming(guard[1])
    for position, (index, extent) in enumerate(zip(read.indices, read.tensor.shape)):
        if _is_axis_inside(index, extent):
            continue
        lin, size = to_lin(index, ranges=ranges), to_lin(extent)
        outside = _values_outside(index, lin, size, scope, guard, unknown)
        outside = outside or _outside_at_any_size(lin, size, scope, guard[0])
        if outside is None and size.const == 0 and not guard[0]:
            raise BoundsError(_of_nothing(op, read, position))
        if outside is None and not (guard[0] and not _only_in_range(op, guard)):
            outside = _declared_outside(index, size, ranges)
        if outside is None or _never_reached(guard[1], scope):
            continue
        below, above, values = outside
        scan = isinstance(read.tensor.op, PlaceholderOp) and position == 0 and not above
        scan = scan and bool(op.axis) and not _has_axes(lin - Lin.of(op.axis[0]))
        if scan and not late:
            note = note or f"\n{read} is out of bounds too: index 0 takes {values}."
            continue
        note += _recurrence(op, read) if scan else ""
        takes = f"takes the values {values}" if ".." in values or "up" in values else f"is {values}"
        raise BoundsError(
            explain(
                f"{op.name} reads {read}",
                f"index {position} {takes}, but {read.tensor.name} of shape "
                f"{shape_text(read.tensor.shape)} has extent {extent} there",
                _remedy(index, read, size, below, above) + note,
            )
        )
    return note


def _is_axis_inside(index: Expr, extent: int | Expr) -> bool:
    """Return whether an index is an axis that stays in its dimension, which most are."""
    if not isinstance(index, Axis) or not isinstance(extent, int) or not extent:
        return False
    first, count = index.lo, index.extent
    return isinstance(first, int) and isinstance(count, int) and 0 <= first <= extent - count


def _of_nothing(op: ComputeOp, read: Read, position: int) -> str:
    """Return the message for a read of an empty dimension, by an index of unknown values."""
    return explain(
        f"{op.name} reads {read}",
        f"{read.tensor.name} of shape {shape_text(read.tensor.shape)} is empty in dimension "
        f"{position}, so that no index is in range",
        f"Guard the read with sl.if_then_else(cond, {read}, ...), or give {op.name} no elements.",
    )


def _never_reached(facts: Sequence[Lin], scope: Ranges) -> bool:
    """Return whether one of ``facts`` is known to fail where those before it hold."""
    return any(scope.assuming(tuple(facts[:n])).nonneg(fact - 1) for n, fact in enumerate(facts))


def _values_outside(
    index: Expr, lin: Lin, size: Lin, scope: Ranges, guard: Guard, unknown: Container[int]
) -> Outside | None:
    """Return the values of ``index`` if it has known ones that are out of bounds."""
    conditional, facts, path = guard
    ranges = scope.assuming(facts)
    low, high = ranges.interval(lin)
    below = low is not None and low < 0 and not ranges.nonneg(lin)
    above = high is not None and size.const is not None and high >= size.const
    above = above and not ranges.nonneg(size - 1 - lin)
    opaque = any(isinstance(leaf, Opaque) for leaf in lin.leaves())
    if not (below or above or opaque):
        return None
    if size.const is None and any(isinstance(leaf, Var) for leaf in lin.leaves()):
        # only some sizes leave the dimension, such as n = 0 for the index n - 1
        return None
    uncertain = opaque or (conditional and not _certain(lin, size, ranges))
    if uncertain or not _linear(lin):
        last = size.const
        exact = exact_range(index, path, scope, unknown) if last is not None else None
        if exact is not None and last is not None:
            low, high = exact
            below, above = low < 0, high >= last
        if not (below or above) or (uncertain and exact is None):
            return None
    if high is None:
        return Outside(below, above, f"{low} and up")
    return Outside(below, above, f"{low}" if low == high else f"{low}..{high}")


def _only_in_range(op: ComputeOp, guard: Guard) -> bool:
    """Return whether a node is conditional only because of the ranges of ragged axes."""
    path = guard[2]
    whole = path is not None and len(path) == 1 and path[0][0] is op.where
    return whole and without_ranges(op.where, len(op.limits)) is None


def _declared_outside(index: Expr, size: Lin, ranges: Ranges) -> Outside | None:
    """Return the values that an index may have by the ranges that ``sl.assume`` declared.

    Return ``None`` if none of its reads has a declared range, or if it is in bounds.
    """
    used = [node for node in postorder([index]) if isinstance(node, Read)]
    spans = [span_of(read.tensor) for read in used]
    if not used or any(low is None or high is None for low, high in spans):
        return None
    names = elements()
    lin = names.lin(index, ranges)
    inside = names.within(ranges)
    first, last = lower(lin, inside), upper(lin, inside)
    if first is None or last is None:
        return None
    below, above = inside.nonneg(-first - 1), inside.nonneg(last - size)
    return Outside(below, above, f"{to_expr(first)}..{to_expr(last)}") if below or above else None


def _outside_at_any_size(lin: Lin, size: Lin, scope: Ranges, conditional: bool) -> Outside | None:
    """Return the values of an index that is out of bounds whatever the sizes of a call are.

    A read must be out of bounds at one point, which exists, since no axis is empty. A conditional
    read must be out of bounds at every point.
    """
    if size.const is not None and not any(isinstance(leaf, Var) for leaf in lin.leaves()):
        return None
    if not _reaches_its_ends(lin):
        return None
    first, last = lower(lin, scope), upper(lin, scope)
    if first is None or last is None:
        return None
    least, most = (last, first) if conditional else (first, last)
    below, above = scope.nonneg(-least - 1), scope.nonneg(most - size)
    if not (below or above):
        return None
    single = f"{to_expr(first)}"
    return Outside(below, above, single if first == last else f"{single}..{to_expr(last)}")


def _reaches_its_ends(lin: Lin) -> bool:
    """Return whether the bounds of ``lin`` over its axes are values that it takes.

    They are if each axis occurs once, alone or times sizes.
    """
    visited: set[Axis] = set()
    for product in lin.terms:
        if not _has_axes(Lin({product: 1})):
            continue
        axes = {atom for atom in product if isinstance(atom, Axis)}
        others = [atom for atom in product if not isinstance(atom, Axis)]
        if len(product) - len(others) != 1 or axes & visited:
            return False
        if not all(isinstance(atom, Var) for atom in others):
            return False
        visited |= axes
    return True


def _has_axes(lin: Lin) -> bool:
    return any(isinstance(leaf, Axis) for leaf in lin.leaves())


def _recurrence(op: ComputeOp, read: Read) -> str:
    """Return advice for a read of an earlier row of an input, which looks like a recurrence."""
    state = read.tensor
    if [to_lin(e) for e in state.shape] != [to_lin(e) for e in op.shape]:
        return ""
    return (
        f"\nIf {state.name} holds the earlier rows of {op.name}, this is a recurrence: write "
        f"sl.scan(init, {op.name}, {state.name}), where init computes the first rows."
    )


def _linear(lin: Lin) -> bool:
    """Return whether ``lin`` is linear in axes, so that its interval is exact."""
    return all(not p or (len(p) == 1 and isinstance(p[0], Axis)) for p in lin.terms)


def _remedy(index: Expr, read: Read, size: Lin, below: bool, above: bool) -> str:
    """Return what to write instead of ``index``, which is one of the indices of ``read``."""
    if size.const is None and above and not _has_axes(to_lin(index)):
        return f"The last index is {to_expr(size - 1)}."
    wraps = (
        f"\nUnlike in NumPy, -1 is not the last element: to read on from the other end, write "
        f"({index}) % {to_expr(size)}."
    )
    return (
        f"Clamp the index with {_clamped(index, size, below, above)}, guard the read with "
        f"sl.if_then_else(cond, {read}, ...) (sl.select evaluates both sides), pad with sl.pad, or "
        f"shrink the shape{' and start later' * below}.{wraps * below}"
    )


def _clamped(index: Expr, size: Lin, below: bool, above: bool) -> str:
    """Return ``index``, clamped at the ends of ``0..size`` that it exceeds, as text."""
    last = to_expr(size - 1)
    text = f"sl.min({index}, {last})" if above or not below else str(index)
    return f"sl.max({text}, 0)" if below or not above else text


def exact_range(
    index: Expr, path: Path | None, ranges: Ranges, unknown: Container[int]
) -> tuple[int, int] | None:
    """Return the least and the largest ``index`` over all points where ``path`` holds.

    Return ``None`` if no point satisfies it, if the value is unknown, or if there are too many
    points to try.
    """
    if path is None or any(id(node) in unknown for node in (index, *(cond for cond, _ in path))):
        return None
    spans: dict[Axis, tuple[int, int]] = {}
    for axis in leaves_of([index, *(cond for cond, _ in path)]):
        assert isinstance(axis, Axis)
        low, high = ranges.of(axis)
        if low.const is None or high is None or high.const is None:
            return None
        spans[axis] = (low.const, high.const - low.const + 1)
    return value_range(index, path, spans)


def _certain(lin: Lin, size: Lin, ranges: Ranges) -> bool:
    """Return whether a read is out of bounds at every point.

    Only then is a conditional read certainly wrong.
    """
    low, high = ranges.interval(lin)
    last = size.const
    return (high is not None and high < 0) or (low is not None and last is not None and low >= last)
