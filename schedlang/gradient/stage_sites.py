"""The sites of one stage: what flows back from its outputs to the elements that it reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Union

from schedlang.compute.read import Read
from schedlang.compute.tensor import ComputeOp, Tensor
from schedlang.expr.nodes import Axis, Expr, Var
from schedlang.gradient.adjoint import Adjoint
from schedlang.gradient.algebra import split_off_guards
from schedlang.gradient.derivative import TRACED, Flow, Traced, pullback
from schedlang.gradient.finite import Finite
from schedlang.gradient.ragged import Rows
from schedlang.gradient.site import Site
from schedlang.gradient.support import is_sum_of, join, may_be_infinite, on_data

# the adjoint of an output: none if nothing that counts reads it
Head = Union[Adjoint, Traced, None]
Found = list[tuple[Tensor, Union[Site, Traced]]]


@dataclass(frozen=True)
class Walk:
    """The facts of all stages of one gradient: its ``active`` tensors and its ``batch`` axes.

    Every adjoint has the batch axes after the axes of its tensor. With ``by_row``, adjoints are
    computed row by row in the step of a scan: their first dimension is not cut, and there are no
    zeros around them in place of conditions. ``rows`` are the stages that number ragged ranges.
    ``stored`` maps the first rows of scans, which no other stage may read, to the results that
    store them. ``finite`` are tensors of finite elements.
    """

    active: Callable[[Tensor], bool]
    batch: tuple[Axis, ...] = ()
    by_row: bool = False
    rows: Rows = field(default_factory=Rows)
    stored: Mapping[Tensor, Tensor] = field(default_factory=dict)
    finite: Finite = field(default_factory=Finite)

    def flow(self, head: Head, op: ComputeOp) -> Flow | None:
        """Return the adjoint of an output at the axes of its operation."""
        return head.at((*op.axis, *self.batch)) if isinstance(head, Adjoint) else head

    def element(self, tensor: Tensor, indices: Sequence[Expr]) -> Expr:
        """Return a read of an element of ``tensor``, where it is stored."""
        return self.stored.get(tensor, tensor)[tuple(indices)]


def sites_of(walk: Walk, op: ComputeOp, heads: Sequence[Head]) -> Found:
    """Return the reads of a stage without a reducer, each with its site."""
    stored: dict[int, Expr] = {}
    roots: list[tuple[Expr, Flow]] = []
    for root, tensor, head in zip(op.body, op.outputs, heads):
        flow = walk.flow(head, op)
        if flow is not None:
            roots.append((root, flow))
            # what is stored need not be computed again
            stored[id(root)] = walk.element(tensor, op.axis)
    return sites(walk, op, roots, (), (), heads, stored)


def sites(
    walk: Walk,
    op: ComputeOp,
    roots: Sequence[tuple[Expr, Flow]],
    reduced: Sequence[Axis],
    held: Sequence[Expr],
    heads: Sequence[Head],
    stored: Mapping[int, Expr] | None = None,
) -> Found:
    """Return the sites of the active reads in ``roots``, where each root has its adjoint.

    The expressions are evaluated at all points of the axes of ``op`` and of ``reduced`` where
    ``held`` hold.
    """

    def active(leaf: Read | Var) -> bool:
        return isinstance(leaf, Read) and walk.active(leaf.tensor)

    all_sites: Found = []
    tensors = [h.tensor for h in heads if isinstance(h, Adjoint) and h.tensor is not None]
    supports = [h.support if isinstance(h, Adjoint) else None for h in heads if h is not None]
    outside, costly = join(supports, (*op.axis, *walk.batch))
    for read, flow in pullback(op.name, roots, active, stored):
        assert isinstance(read, Read)
        if isinstance(flow, Traced):
            all_sites.append((read.tensor, TRACED))
            continue
        conditions, value = split_off_guards(flow)
        chosen = on_data((*held, *conditions))
        if outside is not None:
            chosen = (outside, *chosen)
            if may_be_infinite(op, value, tensors, outside, costly, walk.finite):
                conditions = (outside, *conditions)
        if op.reducer is not None and not is_sum_of(value, tensors):
            # which products of a reduction count takes as long to tell as to compute them
            chosen = ()
        axes = (*op.axis, *reduced, *walk.batch)
        site = Site(
            op.name,
            str(read),
            axes,
            (*read.indices, *walk.batch),
            (*held, *conditions),
            value,
            tensors[0] if len(tensors) == 1 else None,
            chosen,
            costly,
        )
        all_sites.append((read.tensor, site))
    return all_sites
