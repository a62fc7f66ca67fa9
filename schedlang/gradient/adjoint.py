"""Adjoints: the gradient of the result by the elements of a tensor, stored or as an expression."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from schedlang.compute.tensor import Tensor
from schedlang.expr.nodes import Axis, Expr
from schedlang.gradient.algebra import number
from schedlang.gradient.simplify import scope, substitute
from schedlang.index.simplify import to_lin

if TYPE_CHECKING:
    from schedlang.gradient.support import Support


@dataclass(frozen=True, eq=False)
class Adjoint:
    """The adjoint of a tensor: ``value`` over ``axes``, or the elements of ``tensor``.

    An expression costs no stage; it is 1 for a result without a head, say. ``support`` says where
    it may differ from 0, if that is known.
    """

    tensor: Tensor | None = None
    axes: tuple[Axis, ...] = ()
    value: Expr | None = None
    support: Support | None = None

    @staticmethod
    def zero(dtype: str) -> Adjoint:
        return Adjoint(value=number(0, dtype))

    def at(self, indices: Sequence[Expr]) -> Expr:
        """Return the adjoint of the element at ``indices``."""
        if self.tensor is not None:
            return self.tensor[tuple(indices)]
        assert self.value is not None
        lins = {axis: to_lin(index) for axis, index in zip(self.axes, indices)}
        return substitute(self.value, lins, scope(()))
