"""Reads of tensors in expressions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from schedlang.expr.nodes import ArrayRead, Expr
from schedlang.expr.visit import preorder

if TYPE_CHECKING:
    from schedlang.compute.tensor import Tensor


@dataclass(frozen=True, eq=False, repr=False)
class Read(ArrayRead):
    """A read of one element of a tensor."""

    tensor: Tensor
    indices: tuple[Expr, ...]
    dtype: str
    weak: bool = False

    @property
    def source(self) -> str:
        return self.tensor.name

    def with_children(self, children: tuple[Expr, ...]) -> Read:
        return Read(self.tensor, children, self.dtype, self.weak)


def reads(roots: Iterable[Expr]) -> Iterator[Read]:
    """Return an iterator over the reads of tensors, in order of first appearance.

    Reads inside of indices, as in a gather, come after the read that they index.
    """
    return (node for node in preorder(roots) if isinstance(node, Read))
