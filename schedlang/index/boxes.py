"""Boxes that stores cover: a proof that each element of a range is written exactly once.

An index that is a mixed-radix number over its loops reaches each value of a range once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations

from schedlang.expr.nodes import Axis, Binary, Expr, Var
from schedlang.expr.visit import axes_in
from schedlang.index.conditions import facts_of
from schedlang.index.contraction import Digits
from schedlang.index.digits import Span, radix, varies
from schedlang.index.fused import digit
from schedlang.index.linear import Lin
from schedlang.index.ranges import Ranges
from schedlang.index.simplify import merge_div_mod, to_lin

Loop = tuple[object, Axis, Lin]


@dataclass(frozen=True, eq=False)
class Piece:
    """The elements that one store reaches: its indices, its loops and its conditions.

    A loop is a key, equal for the pieces that it holds, with its axis and extent.
    """

    indices: list[Lin]
    loops: tuple[Loop, ...]
    conds: tuple[Expr, ...]
    ranges: Ranges


def piece_of(
    indices: Sequence[Lin], loops: Sequence[Loop], conds: Iterable[Expr], ranges: Ranges
) -> Piece:
    """Return the piece that a store at ``indices`` under ``conds`` reaches.

    A condition that only bounds one loop shortens that loop's extent.
    """
    extents = {axis: extent for _, axis, extent in loops}
    fixed: dict[Axis | Var, Lin] = {}
    left = []
    for cond in conds:
        test = _own_range(cond, extents, ranges)
        if test is None or test[0] in fixed:
            # another condition of an axis with one value may exclude it
            left.append(cond)
        elif test[1] == "==":
            fixed[test[0]] = test[2]
        else:
            extents[test[0]] = test[2]
    moving = tuple((key, axis, extents[axis]) for key, axis, _ in loops if axis not in fixed)
    reached = [merge_div_mod(i.substitute(fixed) if fixed else i) for i in indices]
    return Piece(reached, moving, tuple(left), ranges)


def _own_range(
    cond: Expr, extents: Mapping[Axis, Lin], ranges: Ranges
) -> tuple[Axis, str, Lin] | None:
    """Return ``(axis, op, bound)`` of a condition ``axis < bound`` or ``axis == bound``.

    Return ``None`` for another condition, or if ``bound`` may exceed the loop's extent.
    """
    if not isinstance(cond, Binary) or cond.op not in ("<", "=="):
        return None
    axis, bound = cond.a, to_lin(cond.b)
    if not isinstance(axis, Axis) or axis not in extents or varies(bound, extents):
        return None
    room = extents[axis] - bound - (1 if cond.op == "==" else 0)
    fits = ranges.nonneg(bound) and ranges.nonneg(room)
    return (axis, cond.op, bound) if fits else None


def covered_box(pieces: Sequence[Piece]) -> list[Span] | None:
    """Return the box that ``pieces`` cover once together; ``None`` if that is not proven.

    Each piece must cover a box, and the boxes must touch.

    >>> i, j = Axis("i", 3), Axis("j", 4)
    >>> loops = [(i, i, Lin.of(3)), (j, j, Lin.of(4))]
    >>> covered_box([piece_of([Lin.of(i) * 4 + Lin.of(j)], loops, [i * 4 + j < 10], Ranges())])
    [(0, 10)]
    """
    boxes = [_box(p, 0) for p in pieces]
    certain = [box for box in boxes if box is not None]
    whole = _one_box(certain) if len(certain) == len(boxes) else None
    if whole is None and len(pieces) > 1:
        whole = _covered_from(pieces, 0)
    # an end that depends on a loop bounds no box
    return None if whole is None or any(map(_depends_on_a_loop, whole)) else whole


def _depends_on_a_loop(span: Span) -> bool:
    return any(isinstance(leaf, Axis) for end in span for leaf in end.leaves())


def _covered_from(pieces: Sequence[Piece], depth: int) -> list[Span] | None:
    """Return the box that ``pieces`` cover from loop ``depth`` on.

    Pieces in one loop, such as the parts of a cut, are joined first.
    """
    groups: dict[object, list[Piece]] = {}
    for k, piece in enumerate(pieces):
        key = piece.loops[depth][0] if depth < len(piece.loops) else k
        groups.setdefault(key, []).append(piece)
    boxes = []
    for group in groups.values():
        one = group[0] if len(group) == 1 else _join_pieces(group, depth)
        box = None if one is None else _box(one, depth)
        if box is None:
            return None
        boxes.append(box)
    return _one_box(boxes)


def _join_pieces(group: Sequence[Piece], depth: int) -> Piece | None:
    """Return the pieces of one loop as one piece, with a digit for each dimension of their box."""
    first = group[0]
    inner = {axis for p in group for _, axis, _ in p.loops[depth + 1 :]}
    shared = [
        cond
        for cond in first.conds
        if all(any(c is cond for c in p.conds) for p in group) and inner.isdisjoint(axes_in([cond]))
    ]
    inside = [
        replace(p, conds=tuple(c for c in p.conds if not any(c is s for s in shared)))
        for p in group
    ]
    spans = _covered_from(inside, depth + 1)
    if spans is None or any(varies(hi - lo) for lo, hi in spans):
        return None
    indices, loops = [], list(first.loops[: depth + 1])
    for lo, hi in spans:
        place = digit(hi - lo)
        loops.append((place, place, hi - lo))
        indices.append(lo if (hi - lo).const == 1 else lo + Lin.of(place))
    return Piece(indices, tuple(loops), tuple(shared), first.ranges)


def _box(piece: Piece, depth: int) -> list[Span] | None:
    """Return the box that ``piece`` covers once from loop ``depth`` on.

    Return ``None`` if its indices are not mixed-radix numbers over these loops.
    """
    ranges = piece.ranges
    extents = {axis: extent for _, axis, extent in piece.loops[depth:]}
    digits = Digits(list(piece.indices), extents, [], ranges)
    late: list[Expr] = []
    for cond in piece.conds:
        if set(extents).isdisjoint(axes_in([cond])):
            late.append(cond)
            continue
        exact = _exact_facts(cond, ranges)
        if exact is None:
            return None
        digits.facts += [merge_div_mod(fact) for fact in exact]
    digits.contract()
    used: set[Axis] = set()
    spans: list[Span] = []
    for lin in digits.indices:
        number = radix(lin, digits.extents, ranges)
        if number is None or used & number[1]:
            return None
        spans.append((number[0], number[0] + number[2]))
        used |= number[1]
    if any(axis not in used and extent.const != 1 for axis, extent in digits.extents.items()):
        return None
    for fact in digits.facts:
        if not _clip(fact, digits, spans):
            return None
    for cond in late:
        if _empty_without(cond, spans, ranges):
            continue
        exact = _exact_facts(cond, ranges)
        if exact is None or not all(_clip(f, digits, spans) for f in exact):
            return None
    return [(lo, merge_div_mod(hi)) for lo, hi in spans]


def _empty_without(cond: Expr, spans: list[Span], ranges: Ranges) -> bool:
    """Return whether ``spans`` are empty for all sizes at which ``cond`` is false."""
    if _conjuncts(cond) != 1:
        return False
    facts = facts_of(cond, False, ranges)
    narrowed = ranges.assuming(facts)
    return any(
        narrowed.le(merge_div_mod(hi), lo)
        or any(ranges.nonneg(-merge_div_mod(hi - lo - fact)) for fact in facts)
        for lo, hi in spans
    )


def _clip(fact: Lin, digits: Digits, spans: list[Span]) -> bool:
    """Cut ``spans`` by ``fact``; return whether it compares one index with a number."""
    for k, lin in enumerate(digits.indices):
        above, below = lin - fact, -fact - lin
        lo, hi = spans[k]
        if not varies(above, digits.extents):
            limit = above + 1
            spans[k] = (lo, limit)
            return digits.ranges.le(limit, hi)
        if not varies(below, digits.extents):
            limit = -below
            spans[k] = (limit, hi)
            return digits.ranges.le(lo, limit)
    return False


def _exact_facts(cond: Expr, ranges: Ranges) -> tuple[Lin, ...] | None:
    """Return polynomials that are all at most 0 exactly where ``cond`` holds, if there are any."""
    facts = facts_of(cond, True, ranges)
    return facts if facts and len(facts) == _conjuncts(cond) else None


def _conjuncts(cond: Expr) -> int:
    """Return how many comparisons ``cond`` joins by ``&``; 0 if it holds any other operation."""
    count, stack = 0, [cond]
    while stack:
        node = stack.pop()
        op = getattr(node, "op", "")
        if op == "&":
            stack += node.children
        elif op in ("<", "<=", ">", ">="):
            count += 1
        else:
            return 0
    return count


def _one_box(boxes: list[list[Span]]) -> list[Span] | None:
    """Join boxes that touch along one dimension until one is left."""
    rest = list(boxes)
    while len(rest) > 1:
        pairs = ((a, b, _join(rest[a], rest[b])) for a, b in permutations(range(len(rest)), 2))
        joined = next(((a, b, box) for a, b, box in pairs if box is not None), None)
        if joined is None:
            return None
        a, b, box = joined
        rest = [x for k, x in enumerate(rest) if k not in (a, b)] + [box]
    return rest[0] if rest else None


def _join(a: list[Span], b: list[Span]) -> list[Span] | None:
    differ = [k for k in range(len(a)) if a[k] != b[k]]
    if len(differ) != 1:
        return None
    (k,) = differ
    if a[k][1] != b[k][0]:
        return None
    return [*a[:k], (a[k][0], b[k][1]), *a[k + 1 :]]
