"""Gradients in gather form: the stages that compute the adjoint of a tensor from its sites.

Each element sums over the iterations that read it, and over no others; where only data tell which
these are, the iterations add to the elements instead (:mod:`.scattered`). Iterations that differ
between the residues of a stride become a stage for each residue. A condition that only keeps an
index of the reader's adjoint in range becomes zeros around that adjoint, in a stage of its own, as
one writes the gradient of a convolution by hand. Where a stage reads few of the elements, such as a
diagonal, the functions in what flows back are computed for these alone, in a stage of its axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NoReturn

from schedlang.compute.boundary import pad
from schedlang.compute.define import define
from schedlang.compute.read import Read, reads
from schedlang.compute.reduce import sum as reduce_sum
from schedlang.compute.tensor import ScanOp, Shape, Tensor
from schedlang.errors import ComputeError, explain
from schedlang.expr.lazy import both
from schedlang.expr.nodes import Axis, Binary, Call, Const, Expr
from schedlang.expr.visit import axes_in, postorder, rewrite
from schedlang.gradient.adjoint import Adjoint
from schedlang.gradient.algebra import guard_value, number, plus
from schedlang.gradient.drafts import Draft, drafts_of, unused_name
from schedlang.gradient.invert import NotInvertible
from schedlang.gradient.pieces import Piece, assemble, whole
from schedlang.gradient.ragged import transpose_ranges
from schedlang.gradient.scattered import scatter_sites
from schedlang.gradient.simplify import scope, substitute
from schedlang.gradient.site import Site, cases
from schedlang.gradient.stage_sites import Walk
from schedlang.gradient.support import support_of
from schedlang.index.linear import Lin, to_expr
from schedlang.index.simplify import to_lin


def gather(walk: Walk, tensor: Tensor, sites: Sequence[Site], name: str) -> Adjoint:
    """Return the adjoint of ``tensor``, whose elements are read at ``sites``.

    The last stage is called ``name``, and the names of others begin with it.

    Raises :class:`~schedlang.errors.ComputeError` for a read at an index that depends on data in
    the step of a scan.
    """
    shape = (*tensor.shape, *(axis.extent for axis in walk.batch))
    every: list[tuple[Site, list[Draft]]] = []
    adding: list[Site] = []
    names = _axis_names(tensor, walk.batch, sites)
    for site in sites:
        try:
            drafts_by_case = [
                drafts_of(walk, _of(walk, case), names, shape) for case in cases(site)
            ]
        except NotInvertible as unknown:
            if walk.by_row:
                _refuse_scatter(tensor, site, unknown.dim)
            adding.append(site)
            continue
        if not walk.by_row and any(draft.searches for drafts in drafts_by_case for draft in drafts):
            adding.append(site)
        else:
            every += [(site, drafts) for drafts in drafts_by_case]
    every = [(site, drafts) for site, drafts in every if drafts]
    if adding and not every:
        return Adjoint(tensor=scatter_sites(adding, shape, name))
    element = whole(names, shape)
    at = list(element.axes)
    zero = number(0, tensor.dtype)
    total: Expr = zero
    labels = _Labels(name, only=len(every) == 1 and not adding)
    all_drafts = [draft for _, drafts in every for draft in drafts]
    pads = _paddings(all_drafts)
    support = None if adding else support_of(all_drafts, name, at)
    if adding:
        total = scatter_sites(adding, shape, f"{name}.scattered")[tuple(at)]
    for site, drafts in every:
        parts: list[tuple[Piece, Expr]] = []
        for draft in drafts:
            if draft.free:
                summed = _reduction(draft, pads, labels.of(site, draft.piece))
                if len(every) == 1 and draft.piece.is_whole and not adding:
                    return Adjoint(tensor=summed, support=support)
                value = summed[tuple(draft.piece.position(at))]
            else:
                moved = dict(zip(draft.piece.axes, map(to_lin, draft.piece.position(at))))
                flow = draft.value
                if not walk.by_row and _reads_few(draft.site, shape) and _calls(flow):
                    flow = _of_readers(draft, f"{name}.{site.stage}")
                value = substitute(_guarded(draft.conditions, flow), moved, scope(at))
            parts.append((draft.piece, value))
        if drafts[0].piece.is_whole:
            for _, value in parts:
                total = plus(total, value)
        else:
            total = plus(total, assemble(parts, at, zero))
    if _is_copy(total, at, shape):
        assert isinstance(total, Read)
        return Adjoint(tensor=total.tensor, support=support)
    if isinstance(total, Const):
        return Adjoint(axes=tuple(at), value=total)
    return Adjoint(tensor=define(name, tuple(at), total), support=support)


def _reads_few(site: Site, shape: Shape) -> bool:
    """Return whether a site has fewer dimensions than the tensor of ``shape`` that it reads."""
    if any(axis.bounds is not None for axis in site.axes):
        return False
    axes = sum(to_lin(axis.extent).const != 1 for axis in site.axes)
    return axes < sum(to_lin(extent).const != 1 for extent in shape)


def _calls(value: Expr) -> bool:
    return any(isinstance(node, Call) for node in postorder([value]))


def _of_readers(draft: Draft, name: str) -> Expr:
    """Return the value of a draft as a read of a stage ``name`` over the axes of its site.

    An element tests whether it is read at all: in the lanes of a vector, that test does not save
    the functions.
    """
    site = draft.site
    axes = tuple(Axis(axis.name, axis.extent) for axis in site.axes)
    at = {old: Lin.of(new) + to_lin(old.lo) for old, new in zip(site.axes, axes)}
    stored = define(name, axes, substitute(_guarded(site.held, site.value), at, scope(axes)))
    solved = draft.inverse.values
    return stored[tuple(to_expr(solved[axis] - to_lin(axis.lo)) for axis in site.axes)]


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
        stem = label = ".".join(parts)
        count = 1
        while label in self.used:
            count += 1
            label = f"{stem}_{count}"
        self.used.add(label)
        return label


def _axis_names(tensor: Tensor, batch: Sequence[Axis], sites: Sequence[Site]) -> list[str]:
    """Return names for the axes of an adjoint, from its tensor or from a read of the tensor."""
    rest = [axis.name for axis in batch]
    names = [axis.name for axis in _own_axes(tensor)]
    if not names and sites:
        for index in sites[0].indices[: tensor.ndim]:
            axes = axes_in([index])
            # of the axes of an index, a data axis has the name of a dimension
            axes.sort(key=lambda axis: axis.is_reduce)
            names.append(axes[0].name if axes else "")
    names = names if len(names) == tensor.ndim else [""] * tensor.ndim
    unique: list[str] = []
    for k, name in enumerate([*names, *rest]):
        unique.append(unused_name(name or f"i{k}", unique))
    return unique


def _own_axes(tensor: Tensor) -> tuple[Axis, ...]:
    """Return the axes over which a tensor is computed; none for an input."""
    op = tensor.op
    if isinstance(op, ScanOp):
        op = op.update[tensor.value_index].op
    return op.axis


Paddings = dict[Tensor, tuple[Tensor, dict[int, int]]]


def _paddings(drafts: Sequence[Draft]) -> Paddings:
    """Return for each adjoint a copy with zeros around, and how far it is shifted.

    One copy serves all drafts that need zeros.
    """
    widths: dict[Tensor, dict[int, tuple[int, int]]] = {}
    for draft in drafts:
        head = draft.site.head
        if head is None or not draft.free:
            continue
        for dim, (before, after) in draft.shifts.items():
            width = widths.setdefault(head, {}).get(dim, (0, 0))
            widths[head][dim] = max(width[0], before), max(width[1], after)
    paddings: Paddings = {}
    for head, sides in widths.items():
        widest = [sides.get(dim, (0, 0)) for dim in range(head.ndim)]
        if any(any(pair) for pair in widest):
            padded = pad(
                head,
                [low for low, _ in widest],
                [high for _, high in widest],
                name=f"{head.name}.padded",
            )
            paddings[head] = padded, {dim: low for dim, (low, _) in enumerate(widest)}
    return paddings


def _reduction(draft: Draft, pads: Paddings, name: str) -> Tensor:
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
    axes, conditions = draft.free, draft.conditions
    if draft.ranges:
        swap, conditions = transpose_ranges(axes, conditions, draft.ranges)
        axes = tuple(swap.values())
        # shorter ranges may decide choices
        at, points = {a: Lin.of(b) for a, b in swap.items()}, scope((*draft.piece.axes, *axes))
        value = substitute(value, at, points)
        conditions = tuple(substitute(cond, at, points) for cond in conditions)
    total = reduce_sum(value, axis=axes, where=_joined(conditions))
    return define(name, draft.piece.axes, total)


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
    return value if joined is None else guard_value([joined], value)


def _refuse_scatter(tensor: Tensor, site: Site, dim: int | None) -> NoReturn:
    """Raise for a read in the step of a scan whose iterations only data can tell."""
    place = "its index" if dim is None or dim >= tensor.ndim else f"index {dim}"
    raise ComputeError(
        explain(
            f"sl.gradient by {tensor.name}",
            f"stage {site.stage} reads {site.text}, and {place} depends on data or is not linear, "
            f"so the iterations which read an element of {tensor.name} are not known",
            "A scan adds at no computed places. Write the read as a sum over all elements with a "
            f"condition (sl.sum({tensor.name}[k], axis=k, where=k == index)), or give the "
            f"derivative of {site.stage} yourself: sl.gradient(..., rules={{{site.stage}: ...}}).",
        )
    )
