"""The elements whose adjoint may differ from 0: those on the sides of choices that are chosen.

An adjoint of 0 times a derivative that is infinite is NaN: the root on the side of
``np.where(x > 0, np.sqrt(x), 0)`` that is not chosen has an infinite derivative at 0. Inside of one
stage, the condition of a choice stays around all that flows back through a side of it
(:mod:`schedlang.gradient.algebra`). Where the side is a stage of its own, its adjoint carries the
condition, and the stage tests it before it multiplies with a derivative that may not be finite.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING

from schedlang.compute.define import define
from schedlang.compute.read import Read, reads
from schedlang.compute.reduce import truth
from schedlang.compute.tensor import ComputeOp, Tensor
from schedlang.expr.lazy import both
from schedlang.expr.nodes import Axis, Binary, Cast, Const, Expr, Unary
from schedlang.expr.visit import postorder
from schedlang.gradient.algebra import same
from schedlang.gradient.finite import Finite, asks_if_finite
from schedlang.gradient.simplify import scope, substitute
from schedlang.index.simplify import to_lin

if TYPE_CHECKING:
    from schedlang.gradient.drafts import Draft

# the most nodes of a condition that is tested where it is needed, and not stored
_LONGEST = 24


@dataclass(eq=False)
class Support:
    """The condition ``cond`` over ``axes`` without which an adjoint is 0.

    It may hold where the adjoint is 0. ``costly`` says that a stage goes over more elements than
    the adjoint has to compute it.
    """

    name: str
    axes: tuple[Axis, ...]
    cond: Expr
    costly: bool = False
    _stored: Tensor | None = field(default=None, init=False)

    def at(self, indices: Sequence[Expr]) -> Expr:
        """Return the condition for the element at ``indices``; a long one is stored once."""
        if sum(1 for _ in postorder([self.cond])) > _LONGEST:
            if self._stored is None:
                self._stored = define(f"{self.name}.chosen", self.axes, self.cond)
            return self._stored[tuple(indices)]
        lins = {axis: to_lin(index) for axis, index in zip(self.axes, indices)}
        return substitute(self.cond, lins, scope(()))


def support_of(drafts: Iterable[Draft], name: str, axes: Sequence[Axis]) -> Support | None:
    """Return where the sum of ``drafts`` may differ from 0, or ``None`` if that is not known.

    ``axes`` are the axes of the adjoint ``name``.
    """
    parts: list[Expr] = []
    costly = False
    for number, draft in enumerate(drafts):
        if not draft.chosen:
            return None
        position = draft.piece.position(axes)
        cond = reduce(both, draft.chosen)
        free = [a for a in draft.free if any(node is a for node in postorder([cond]))]
        costly = costly or draft.site.costly or bool(free)
        if free:
            suffix = f"chosen{number + 1 if number else ''}"
            at_all = truth("any", cond, free, None)
            cond = define(f"{name}.{suffix}", draft.piece.axes, at_all)[tuple(position)]
        else:
            cond = substitute(cond, dict(zip(draft.piece.axes, map(to_lin, position))), scope(axes))
        parts.append(reduce(both, [*draft.piece.contains(axes), cond]))
    some = _any_of(parts)
    return None if some is None else Support(name, tuple(axes), some, costly)


def on_data(conditions: Iterable[Expr]) -> tuple[Expr, ...]:
    """Return the conditions that depend on elements of tensors."""
    return tuple(cond for cond in conditions if any(True for _ in reads([cond])))


def join(supports: Sequence[Support | None], indices: Sequence[Expr]) -> tuple[Expr | None, bool]:
    """Return the condition that any of ``supports`` has at ``indices``, and whether it is costly.

    Without one, nothing is known.
    """
    certain = [support for support in supports if support is not None]
    if not certain or len(certain) < len(supports):
        return None, False
    some = _any_of([support.at(indices) for support in certain])
    return some, any(support.costly for support in certain)


def _any_of(conditions: Sequence[Expr]) -> Expr | None:
    """Return the condition that any of ``conditions`` holds; ``None`` if one always does."""
    apart: list[Expr] = []
    for cond in conditions:
        if any(_are_opposite(cond, other) for other in apart):
            return None
        if not any(same(cond, other) for other in apart):
            apart.append(cond)
    return reduce(lambda a, b: Binary("|", a, b, "bool"), apart) if apart else None


def _are_opposite(a: Expr, b: Expr) -> bool:
    return any(
        isinstance(one, Unary) and one.op == "~" and same(one.a, other)
        for one, other in ((a, b), (b, a))
    )


def may_be_infinite(
    op: ComputeOp,
    value: Expr,
    heads: Collection[Tensor],
    outside: Expr,
    costly: bool,
    finite: Finite,
) -> bool:
    """Return whether what flows back through ``op``, if ``heads`` are 0, may not be 0.

    ``value`` is what flows back through a read, and ``outside`` is the condition of ``heads``. In a
    stage with a reducer, and where a test is costly, only the functions of the stage count, and the
    elements that it reads are finite.
    """
    if is_sum_of(value, heads):
        return False
    if any(map(finite.is_wild, op.body)):
        return True
    if op.reducer is not None or costly:
        return False
    others = (read.tensor for read in reads([value]) if read.tensor not in heads)
    return asks_if_finite(outside) or not all(map(finite.holds, others))


def is_sum_of(value: Expr, heads: Collection[Tensor]) -> bool:
    """Return whether ``value`` only adds elements of ``heads``, times constants."""
    stack = [value]
    while stack:
        node = stack.pop()
        if isinstance(node, Binary) and node.op in ("*", "/") and isinstance(node.b, Const):
            stack.append(node.a)
        elif isinstance(node, Binary) and node.op in ("+", "-"):
            stack += node.children
        elif isinstance(node, Cast) or (isinstance(node, Unary) and node.op == "-"):
            stack += node.children
        elif not isinstance(node, Const) and not (isinstance(node, Read) and node.tensor in heads):
            return False
    return True
