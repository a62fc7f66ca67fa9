"""Ragged ranges in gradients: which of them contain an element, and their transposes.

A reduction over ``k in 0..i + 1`` that reads ``B[k]`` adds to ``B_grad[k]`` for ``i in k..n``: the
condition that is the range of ``k`` is one on ``i``, too. The ranges ``P[i]..P[i + 1]`` of a
monotonic ``P`` do not overlap, so that an element ``k`` lies in one at most, whose number a stage
finds for all elements at once. This is the row index of the coordinate format of a sparse matrix.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from schedlang.compute.facts import elements
from schedlang.compute.ragged import has_box, is_ragged, ragged_axis, with_ranges
from schedlang.compute.read import Read, reads
from schedlang.compute.scatter import scatter
from schedlang.compute.segments import find_segments
from schedlang.compute.tensor import Tensor
from schedlang.expr import dtypes
from schedlang.expr.lazy import is_both
from schedlang.expr.nodes import Axis, Binary, Cast, Expr
from schedlang.expr.visit import axes_in, rewrite
from schedlang.gradient.algebra import same
from schedlang.index.digits import coefficient
from schedlang.index.linear import Lin, number_or_expr, to_expr
from schedlang.index.ranges import Ranges
from schedlang.index.rules import extreme, floordiv
from schedlang.index.simplify import ceildiv, to_lin
from schedlang.language.calls import call
from schedlang.language.construct import binary


def conjuncts(conditions: Sequence[Expr]) -> list[Expr]:
    """Return the conditions that ``conditions`` join by ``&`` or one after the other."""
    parts: list[Expr] = []
    stack = list(conditions)[::-1]
    while stack:
        node = stack.pop()
        if isinstance(node, Binary) and node.op == "&" and node.dtype == "bool":
            stack += [node.b, node.a]
        elif is_both(node):
            stack += [node.a, node.cond]
        else:
            parts.append(node)
    return parts


def range_conditions(axes: Sequence[Axis]) -> list[Expr]:
    """Return the conditions that are the ranges of the ragged ones of ``axes``."""
    return conjuncts([cond] if (cond := with_ranges(axes, None)[0]) is not None else [])


def copies(axes: Sequence[Axis], at: Mapping[Axis, Expr] | None = None) -> dict[Axis, Expr]:
    """Return ``at`` and a new axis for each reduction axis in ``axes``, with the same range.

    ``at`` are the values of other axes, on which ranges may depend.
    """
    values: dict[Axis, Expr] = dict(at or {})
    for axis in axes:
        copy = Axis(axis.name, axis.extent, "reduce", axis.lo)
        if axis.bounds is not None:
            ends = tuple(b if isinstance(b, int) else replace_axes(b, values) for b in axis.bounds)
            copy = clip_range(axis, ends[0], ends[1])
        values[axis] = copy
    return values


def replace_axes(value: Expr, at: Mapping[Axis, Expr]) -> Expr:
    """Return ``value`` with axes replaced."""
    return rewrite(value, lambda node: at.get(node) if isinstance(node, Axis) else None)


def clip_range(box: Axis, low: int | Expr, high: int | Expr) -> Axis:
    """Return a reduction axis over ``low..high``, as far as that lies in the range of ``box``.

    >>> i, k = Axis("i", 4), Axis("k", 4, "reduce")
    >>> clip_range(k, 0, i + 1).bounds, clip_range(k, 0, i + 2).bounds
    ((0, i + 1), (0, min(4, i + 2)))
    """
    facts = Ranges()
    first = to_lin(box.lo)
    last = first + to_lin(box.extent)
    if not (is_ragged(low) or is_ragged(high)):
        start = extreme("max", (first, to_lin(low)), facts)
        count = extreme("min", (last, to_lin(high)), facts) - start
        count = extreme("max", (count, Lin.of(0)), facts)
        return Axis(box.name, number_or_expr(count), "reduce", number_or_expr(start))
    ragged = ragged_axis(low, high, box.name)
    if has_box(ragged):
        start = to_lin(ragged.lo)
        if facts.le(first, start) and facts.le(start + to_lin(ragged.extent), last):
            return ragged
    names = elements()
    low, high = (
        names.expr(extreme(fn, (end, names.lin(own)), names.within(facts)))
        for fn, end, own in (("max", first, low), ("min", last, high))
    )
    return ragged_axis(low, high, box.name)


def transpose_ranges(
    free: Sequence[Axis], conditions: Sequence[Expr], ranges: Sequence[Expr]
) -> tuple[dict[Axis, Axis], tuple[Expr, ...]]:
    """Return what replaces ``free`` reduction axes, and the conditions that are not their ranges.

    ``ranges`` are the ``conditions`` that are ranges of axes. The range of an axis may depend on
    the axes before it. The remaining conditions are still over the old axes.

    >>> i, k = Axis("i", 4, "reduce"), Axis("k", 4)
    >>> swap, left = transpose_ranges([i], [k < i + 1, i != 2], [k < i + 1])
    >>> swap[i].bounds, left
    ((k, 4), (i != 2,))
    """
    ends: dict[Axis, tuple[list[Expr], list[Expr]]] = {axis: ([], []) for axis in free}
    rest: list[Expr] = []
    late: list[Expr] = []
    for cond in conjuncts(conditions):
        if any(True for _ in reads([cond])):
            late.append(cond)
        elif not (_is_one_of(cond, ranges) and _note_range(cond, ends)):
            rest.append(cond)
    # what is left may keep the reads of later conditions in bounds
    guarded = set(axes_in(rest))
    for cond in late:
        is_range = _is_one_of(cond, ranges) and guarded.isdisjoint(axes_in([cond]))
        if not (is_range and _note_range(cond, ends)):
            rest.append(cond)
    swap: dict[Axis, Axis] = {}
    for axis, sides in ends.items():
        lows, highs = ([replace_axes(end, swap) for end in side] for side in sides)
        low = _outermost("max", lows) if lows else axis.lo
        high = _outermost("min", highs) if highs else axis.lo + axis.extent
        swap[axis] = clip_range(axis, low, high) if lows or highs else axis
    return swap, tuple(rest)


def _is_one_of(cond: Expr, known: Sequence[Expr]) -> bool:
    return any(same(cond, other) for other in known)


def _outermost(fn: str, ends: Sequence[Expr]) -> Expr:
    return ends[0] if len(ends) == 1 else call(fn, *ends)


def _note_range(cond: Expr, ends: Mapping[Axis, tuple[list[Expr], list[Expr]]]) -> bool:
    """Add the end of a range to ``ends`` if ``cond`` is one for the last of its axes."""
    if not isinstance(cond, Binary) or cond.op not in ("<", "<=", ">", ">="):
        return False
    inside = set(axes_in([cond]))
    axis = next((a for a in reversed(list(ends)) if a in inside), None)
    if axis is None or not all(dtypes.is_integer(side.dtype) for side in cond.children):
        return False
    names = elements()
    small, large = map(names.lin, cond.children[:: 1 if cond.op[0] == "<" else -1])
    # the condition is: factor*axis + rest >= 0
    lin = large - small - (1 if cond.op in ("<", ">") else 0)
    step, rest = coefficient(lin, axis)
    factor = None if step is None else step.const
    if not factor or names.depend(rest, {axis}):
        return False
    if factor > 0:
        ends[axis][0].append(names.expr(ceildiv(-rest, Lin.of(factor))))
    else:
        ends[axis][1].append(names.expr(floordiv(rest, Lin.of(-factor), Ranges()) + 1))
    return True


@dataclass(frozen=True, eq=False)
class Rows:
    """The stages that number the ranges ``P[i]..P[i + 1]``, one for each ``P`` and box."""

    numbers: dict[tuple[Tensor, Lin, Lin], Tensor] = field(default_factory=dict)

    def number(self, starts: Tensor, index: Expr, box: Axis) -> Expr:
        """Return the number of the range of ``starts`` in which ``index`` lies, or -1.

        ``index`` lies in the range of ``box``.
        """
        low, count = to_lin(box.lo), to_lin(box.extent)
        key = starts, low, count
        if key not in self.numbers:
            rows = to_lin(starts.shape[0]) - 1
            i = Axis("i", number_or_expr(rows), "reduce")
            k = clip_range(box, starts[i], starts[i + 1])
            self.numbers[key] = scatter(
                (box.extent,),
                (i, k),
                lambda i, k: (k - box.lo, i),
                "last",
                init=-1,
                name=f"{starts.name}.row",
            )
        return self.numbers[key][index - box.lo]


def number_rows(
    rows: Rows, free: Sequence[Axis], conditions: Sequence[Expr], boxes: Sequence[Axis]
) -> tuple[Axis, Lin, tuple[Expr, ...]] | None:
    """Return one of the ``free`` axes that tells in which range of a monotonic tensor an index
    lies.

    The others are its value by ``rows``, and what is left of ``conditions``. ``boxes`` are the
    ragged axes of the reader.
    """
    parts = conjuncts(conditions)
    for segments in find_segments(parts):
        start, stop = segments.conditions
        assert isinstance(start, Binary)
        index, first = start.a, start.b.a if isinstance(start.b, Cast) else start.b
        assert isinstance(first, Read)
        axis = next((a for a in free if a in segments.rows), None)
        if axis is None or axis in segments.inside:
            continue
        step, rest = coefficient(to_lin(first.indices[0]), axis)
        box = next((b for b in boxes if _is_range(b, first.tensor)), None)
        if step is None or step.const != 1 or box is None:
            continue
        row = rows.number(first.tensor, index, box)
        before = [c for c in parts if c is not start and c is not stop]
        tests = [binary(">=", row, 0)]
        value = to_lin(row) - rest
        tests += _inside(axis, value, rest, first.tensor)
        return axis, value, (*_inside_box(index, box), *tests, *before)
    return None


def _is_range(axis: Axis, starts: Tensor) -> bool:
    """Return whether the range of ``axis`` starts at an element of ``starts``."""
    low = None if axis.bounds is None else axis.bounds[0]
    return any(read.tensor is starts for read in reads([low])) if isinstance(low, Expr) else False


def _inside_box(index: Expr, box: Axis) -> list[Expr]:
    """Return the conditions that ``index`` is in the range of ``box``, if that is not certain."""
    facts, lin = Ranges(), to_lin(index)
    low, high = to_lin(box.lo), to_lin(box.lo) + to_lin(box.extent)
    tests = [] if facts.le(low, lin) else [binary(">=", index, to_expr(low))]
    return tests if facts.le(lin, high - 1) else [*tests, binary("<", index, to_expr(high))]


def _inside(axis: Axis, value: Lin, rest: Lin, starts: Tensor) -> list[Expr]:
    """Return the conditions that ``value``, a number of a range, is in the range of ``axis``."""
    facts = Ranges()
    low, high = to_lin(axis.lo), to_lin(axis.lo) + to_lin(axis.extent)
    # a number is in 0..rows
    tests = [] if facts.le(low, -rest) else [binary(">=", to_expr(value), to_expr(low))]
    if not facts.le(to_lin(starts.shape[0]) - 1 - rest, high):
        tests.append(binary("<", to_expr(value), to_expr(high)))
    return tests
