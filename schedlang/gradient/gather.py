"""Gradients in gather form: the stages that compute the adjoint of a tensor from its sites.

Each element sums over the iterations that read it, and over no others. Iterations that differ
between the residues of a stride become a stage for each residue. A condition that only keeps an
index of the reader's adjoint in range becomes zeros around that adjoint, in a stage of its own, as
one writes the gradient of a convolution by hand.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import NoReturn

from schedlang.compute.boundary import pad
from schedlang.compute.define import defined
from schedlang.compute.read import Read, reads
from schedlang.compute.reduce import sum as reduce_sum
from schedlang.compute.tensor import ScanOp, Shape, Tensor
from schedlang.errors import ComputeError, explain
from schedlang.expr.lazy import both
from schedlang.expr.nodes import Axis, Binary, Const, Expr, Var
from schedlang.expr.visit import postorder, rewrite
from schedlang.gradient.adjoint import Adjoint
from schedlang.gradient.algebra import guarded, number, plus, same, times
from schedlang.gradient.invert import Inverse, NotInvertible, invert
from schedlang.gradient.pieces import Piece, assembled, cut, whole
from schedlang.gradient.simplify import index_of, scope, substituted
from schedlang.gradient.site import Site, cases
from schedlang.gradient.stages import Walk
from schedlang.index.conjunctions import narrowed
from schedlang.index.linear import Extreme, Lin, Opaque, to_expr
from schedlang.index.ranges import Ranges
from schedlang.index.relax import lower, upper
from schedlang.index.simplify import to_lin
from schedlang.language.construct import binary, cast

# the most iterations of a quotient or remainder that become terms of a sum
_MOST_TERMS = 9


@dataclass(frozen=True, eq=False)
class _Draft:
    """The gradient of the elements of ``piece`` by one site, before its stage is made.

    ``shifts`` are ranges of indices of the adjoint ``site.head``, by dimension: the adjoint is to
    have zeros there, in place of a condition.
    """

    site: Site
    piece: Piece
    inverse: Inverse
    value: Expr
    conditions: tuple[Expr, ...]
    free: tuple[Axis, ...]
    shifts: dict[int, tuple[int, int]]


def gathered(walk: Walk, tensor: Tensor, sites: Sequence[Site], name: str) -> Adjoint:
    """Return the adjoint of ``tensor``, whose elements are read at ``sites``.

    The last stage is called ``name``, and the names of others begin with it.

    Raises :class:`~schedlang.errors.ComputeError` for a read at an index that depends on data.
    """
    shape = (*tensor.shape, *(axis.extent for axis in walk.batch))
    every: list[tuple[Site, list[_Draft]]] = []
    names = _axis_names(tensor, walk.batch, sites)
    for site in sites:
        try:
            for case in cases(site):
                every.append((site, _drafts(walk, _of(walk, case), names, shape)))
        except NotInvertible as unknown:
            _refuse_scatter(tensor, site, unknown.dim)
    every = [(site, drafts) for site, drafts in every if drafts]
    pads = _paddings([draft for _, drafts in every for draft in drafts])
    element = whole(names, shape)
    at = list(element.axes)
    zero = number(0, tensor.dtype)
    total: Expr = zero
    labels = _Labels(name, only=len(every) == 1)
    for site, drafts in every:
        parts: list[tuple[Piece, Expr]] = []
        for draft in drafts:
            if draft.free:
                made = _reduction(draft, pads, labels.of(site, draft.piece))
                if len(every) == 1 and draft.piece.is_whole:
                    return Adjoint(tensor=made)
                value = made[tuple(draft.piece.position(at))]
            else:
                moved = dict(zip(draft.piece.axes, map(to_lin, draft.piece.position(at))))
                value = substituted(_guarded(draft.conditions, draft.value), moved, scope(at))
            parts.append((draft.piece, value))
        if drafts[0].piece.is_whole:
            for _, value in parts:
                total = plus(total, value)
        else:
            total = plus(total, assembled(parts, at, zero))
    if _is_copy(total, at, shape):
        assert isinstance(total, Read)
        return Adjoint(tensor=total.tensor)
    if isinstance(total, Const):
        return Adjoint(axes=tuple(at), value=total)
    return Adjoint(tensor=defined(name, tuple(at), total))


def _of(walk: Walk, site: Site) -> Site:
    return replace(site, head=None) if walk.by_row else site


def _is_copy(value: Expr, axes: Sequence[Axis], shape: Shape) -> bool:
    """Return whether ``value`` is the element of another tensor of this shape at ``axes``."""
    if not isinstance(value, Read) or not all(i is a for i, a in zip(value.indices, axes)):
        return False
    return [to_lin(n) for n in value.tensor.shape] == [to_lin(n) for n in shape]


class _Labels:
    """The names of the stages of one adjoint."""

    def __init__(self, name: str, only: bool) -> None:
        self.name = name
        self.only = only
        self.used: set[str] = set()

    def of(self, site: Site, piece: Piece) -> str:
        parts = [self.name, *([] if self.only else [site.stage]), *filter(None, [piece.label])]
        stem = found = ".".join(parts)
        count = 1
        while found in self.used:
            count += 1
            found = f"{stem}_{count}"
        self.used.add(found)
        return found


def _axis_names(tensor: Tensor, batch: Sequence[Axis], sites: Sequence[Site]) -> list[str]:
    """Return names for the axes of an adjoint: its tensor's own, or those of the axes that read it.
    """
    rest = [axis.name for axis in batch]
    names = [axis.name for axis in _own_axes(tensor)]
    if not names and sites:
        for index in sites[0].indices[: tensor.ndim]:
            axes = [n for n in postorder([index]) if isinstance(n, Axis)]
            # of the axes of an index, a data axis has the name of a dimension
            axes.sort(key=lambda axis: axis.is_reduce)
            names.append(axes[0].name if axes else "")
    names = names if len(names) == tensor.ndim else [""] * tensor.ndim
    made: list[str] = []
    for k, name in enumerate([*names, *rest]):
        made.append(_unused(name or f"i{k}", made))
    return made


def _own_axes(tensor: Tensor) -> tuple[Axis, ...]:
    """Return the axes over which a tensor is computed; none for an input."""
    op = tensor.op
    if isinstance(op, ScanOp):
        op = op.update[tensor.value_index].op
    return op.axis


def _unused(name: str, used: Sequence[str]) -> str:
    found, count = name, 1
    while found in used:
        count += 1
        found = f"{name}_{count}"
    return found


def _drafts(walk: Walk, site: Site, names: Sequence[str], shape: Shape) -> list[_Draft]:
    """Return the drafts of one site, one for each piece of the tensor with iterations of its own.
    """
    piece = whole(names, shape)
    first = _draft(site, piece)
    if first is None:
        return []
    if not first.free:
        return [first]
    if first.free and set(first.free) <= first.inverse.digits:
        unrolled = _unrolled(first)
        if unrolled is not None:
            return unrolled
    own = set(site.axes)
    points = {
        dim: lin for dim, lin in enumerate(to_lin(index) for index in site.indices)
        if not lin.depends_on(own) and to_lin(shape[dim]).const != 1
        and not any(isinstance(leaf, Opaque) for leaf in lin.leaves())
    }  # fmt: skip
    moduli, spans = dict(first.inverse.splits), _spans(first)
    if walk.by_row:
        for dimensions in (moduli, points, spans):
            dimensions.pop(0, None)
    if not points and not moduli and not spans:
        return [first]
    pieces = cut(names, shape, moduli, points, spans)
    found = [_draft(site, part) for part in pieces]
    return [draft for draft in found if draft is not None]


def _spans(draft: _Draft) -> dict[int, tuple[Lin, Lin]]:
    """Return the dimensions in which only some elements have iterations, with their ranges."""
    held = [(cond, True) for cond in draft.conditions if not any(True for _ in reads([cond]))]
    inside = narrowed(Ranges(), held)
    spans: dict[int, tuple[Lin, Lin]] = {}
    for dim, axis in enumerate(draft.piece.axes):
        if inside is None or dim in draft.inverse.splits:
            continue
        low, high = inside.of(axis)
        whole_range = Ranges().of(axis)
        simple = high is not None and not any(
            isinstance(atom, Extreme) for lin in (low, high) for atom in lin.atoms()
        )
        if simple and high is not None and (low, high) != whole_range:
            spans[dim] = low, high + 1
    return spans


def _draft(site: Site, piece: Piece) -> _Draft | None:
    inverse = invert(site.axes, site.indices, piece.element, site.held)
    if inverse is None:
        return None
    taken = [axis.name for axis in piece.axes]
    renamed: dict[Axis | Var, Lin] = {}
    free: list[Axis] = []
    for axis in inverse.free:
        made = Axis(_unused(axis.name, taken), axis.extent, "reduce", axis.lo)
        taken.append(made.name)
        renamed[axis] = Lin.of(made)
        free.append(made)
    points = scope((*piece.axes, *free))
    values = {axis: lin.substitute(renamed) for axis, lin in inverse.values.items()}
    moved = [(cond, substituted(cond, values, points)) for cond in site.held]
    conditions = [now for _, now in moved]
    open_conditions = [cond for cond, now in moved if not isinstance(now, Const)]
    shifts, padded = _shifts(site, open_conditions, inverse, values, points)
    conditions += [substituted(cond, renamed, points) for cond in inverse.conditions]
    conditions += [
        cond for axis in inverse.bounds if axis not in padded
        for cond in _in_range(axis, values[axis], points)
    ]  # fmt: skip
    kept: list[Expr] = []
    for cond in conditions:
        if isinstance(cond, Const):
            if not cond.value:
                return None
        elif not any(same(cond, known) for known in kept):
            kept.append(cond)
    value = substituted(site.value, values, points)
    used = {node for node in postorder([value, *kept]) if isinstance(node, Axis)}
    for axis in free:
        if axis not in used:
            value = times(value, cast(axis.extent, value.dtype))
    left = tuple(axis for axis in free if axis in used)
    digits = frozenset(m for a, m in zip(inverse.free, free) if a in inverse.digits)
    plain = Inverse(values, left, inverse.bounds, (), digits, inverse.splits)
    return _Draft(site, piece, plain, value, tuple(kept), left, shifts)


def _in_range(axis: Axis, value: Lin, points: Ranges) -> Iterator[Expr]:
    """Yield the conditions under which ``value`` is in the range of ``axis``."""
    low = to_lin(axis.lo)
    high = low + to_lin(axis.extent)
    # the constant goes to the right: i >= 3, and not i - 3 >= 0
    varying = index_of(value - value.offset)
    if not points.le(low, value):
        yield binary(">=", varying, index_of(low - value.offset))
    if not points.nonneg(high - value - 1):
        yield binary("<", varying, index_of(high - value.offset))


def _shifts(
    site: Site, held: Sequence[Expr], inverse: Inverse, values: dict[Axis, Lin], points: Ranges
) -> tuple[dict[int, tuple[int, int]], set[Axis]]:
    """Return how far indices of the adjoint leave their ranges, and the axes for which zeros do.

    Zeros around the adjoint take the place of a condition on an axis that the value uses only as an
    index of the adjoint, and none of the conditions ``held`` uses. How far it leaves its range must
    be a number.
    """
    shifts: dict[int, tuple[int, int]] = {}
    padded: set[Axis] = set()
    if site.head is None or not inverse.free:
        return shifts, padded
    uses = [read for read in reads([site.value]) if read.tensor is site.head]
    others = [n for n in postorder(held) if isinstance(n, Axis)]
    inside = [read for read in reads([site.value]) if read.tensor is not site.head]
    others += [n for n in postorder([i for r in inside for i in r.indices]) if isinstance(n, Axis)]
    others += _plain_axes(site.value)
    for axis in inverse.bounds:
        at = {k for read in uses for k, index in enumerate(read.indices) if index is axis}
        if len(at) != 1 or any(axis is other for other in others):
            continue
        (dim,) = at
        ends = _ends(values[axis], points)
        over = _excess(ends, to_lin(axis.extent), points)
        if over is not None:
            shifts[dim] = over
            padded.add(axis)
    return shifts, padded


def _plain_axes(value: Expr) -> list[Axis]:
    """Return the axes in ``value`` outside of the indices of reads."""
    found: list[Axis] = []
    stack, seen = [value], set()
    while stack:
        node = stack.pop()
        if id(node) in seen or isinstance(node, Read):
            continue
        seen.add(id(node))
        if isinstance(node, Axis):
            found.append(node)
        stack += node.children
    return found


def _ends(value: Lin, points: Ranges) -> tuple[Lin | None, Lin | None]:
    low, high = points.interval(value)
    return (
        lower(value, points) if low is None else Lin.of(low),
        upper(value, points) if high is None else Lin.of(high),
    )


def _excess(
    ends: tuple[Lin | None, Lin | None], extent: Lin, points: Ranges
) -> tuple[int, int] | None:
    """Return by how much values between ``ends`` leave ``0..extent`` on each side, if known."""
    low, high = ends
    if low is None or high is None:
        return None
    found = []
    for over in (-low, high - extent + 1):
        if over.const is None and not points.nonneg(-over):
            return None
        found.append(max(over.const or 0, 0))
    return found[0], found[1]


def _unrolled(draft: _Draft) -> list[_Draft] | None:
    """Return a draft for each value of the free axes, if they are few."""
    counts = [axis.extent for axis in draft.free if isinstance(axis.extent, int)]
    if len(counts) < len(draft.free) or prod(counts) > _MOST_TERMS:
        return None
    points = scope(draft.piece.axes)
    made: list[_Draft] = []
    for values in product(*(range(n) for n in counts)):
        at = {axis: to_lin(axis.lo) + k for axis, k in zip(draft.free, values)}
        conditions = [substituted(cond, at, points) for cond in _all_conditions(draft)]
        if any(isinstance(cond, Const) and not cond.value for cond in conditions):
            continue
        kept = tuple(cond for cond in conditions if not isinstance(cond, Const))
        value = substituted(draft.value, at, points)
        made.append(_Draft(draft.site, draft.piece, draft.inverse, value, kept, (), {}))
    return made


def _all_conditions(draft: _Draft) -> list[Expr]:
    """Return the conditions of a draft, those for which it would need zeros included."""
    points = scope((*draft.piece.axes, *draft.free))
    bounds = draft.inverse.bounds if draft.shifts else ()
    values = draft.inverse.values
    extra = (cond for axis in bounds for cond in _in_range(axis, values[axis], points))
    return [*draft.conditions, *extra]


Paddings = dict[Tensor, tuple[Tensor, dict[int, int]]]


def _paddings(drafts: Sequence[_Draft]) -> Paddings:
    """Return for each adjoint a copy with zeros around, and how far it is shifted.

    One copy serves all drafts that need zeros.
    """
    widths: dict[Tensor, dict[int, tuple[int, int]]] = {}
    for draft in drafts:
        head = draft.site.head
        if head is None or not draft.free:
            continue
        for dim, (before, after) in draft.shifts.items():
            known = widths.setdefault(head, {}).get(dim, (0, 0))
            widths[head][dim] = max(known[0], before), max(known[1], after)
    found: Paddings = {}
    for head, sides in widths.items():
        widest = [sides.get(dim, (0, 0)) for dim in range(head.ndim)]
        if any(any(pair) for pair in widest):
            padded = pad(
                head, [low for low, _ in widest], [high for _, high in widest],
                name=f"{head.name}.padded",
            )  # fmt: skip
            found[head] = padded, {dim: low for dim, (low, _) in enumerate(widest)}
    return found


def _reduction(draft: _Draft, pads: Paddings, name: str) -> Tensor:
    """Return the stage that sums over the free axes of a draft."""
    value = draft.value
    head = draft.site.head
    if draft.shifts and head in pads:
        padded, before = pads[head]

        def shifted(node: Expr) -> Expr | None:
            if not isinstance(node, Read) or node.tensor is not head:
                return None
            return padded[tuple(to_expr(to_lin(i) + before[d]) for d, i in enumerate(node.indices))]

        value = rewrite(value, shifted)
    where = _joined(draft.conditions)
    made = reduce_sum(value, axis=draft.free, where=where)
    return defined(name, draft.piece.axes, made)


def _joined(conditions: Sequence[Expr]) -> Expr | None:
    """Return the conjunction of conditions; those on data are evaluated only if the others hold."""
    plain: Expr | None = None
    on_data: list[Expr] = []
    for cond in conditions:
        if any(True for _ in reads([cond])):
            on_data.append(cond)
        else:
            plain = cond if plain is None else Binary("&", plain, cond, "bool")
    for cond in on_data:
        plain = cond if plain is None else both(plain, cond)
    return plain


def _guarded(conditions: Sequence[Expr], value: Expr) -> Expr:
    joined = _joined(conditions)
    return value if joined is None else guarded([joined], value)


def _refuse_scatter(tensor: Tensor, site: Site, dim: int | None) -> NoReturn:
    """Raise for a read whose iterations only data can tell."""
    place = "its index" if dim is None or dim >= tensor.ndim else f"index {dim}"
    raise ComputeError(
        explain(
            f"sl.gradient by {tensor.name}",
            f"stage {site.stage} reads {site.text}, and {place} depends on data or is not linear, "
            f"so that the iterations which read an element of {tensor.name} are not known",
            "Such a gradient adds at computed places. Write the read as a sum over all elements "
            f"with a condition (sl.sum({tensor.name}[k], axis=k, where=k == index)), or give the "
            f"derivative of {site.stage} yourself: sl.gradient(..., rules={{{site.stage}: ...}}).",
        )
    )

