"""Drafts: statements of a nest under construction, whose tensors have no buffers yet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Optional, Union

from schedlang.compute.extern_op import ExternOp
from schedlang.compute.reduce import Reducer
from schedlang.compute.tensor import Tensor
from schedlang.expr.nodes import Expr
from schedlang.index.linear import Lin
from schedlang.ir.nodes import Alloc, Block, For, If, Note


@dataclass(frozen=True, eq=False, repr=False)
class DraftRead(Expr):
    """A read of a tensor element, with its coordinates as linear forms."""

    tensor: Tensor
    at: tuple[Lin, ...]
    dtype: str
    weak: bool = False

    def __str__(self) -> str:
        return f"{self.tensor.name}[{', '.join(map(str, self.at))}]"


@dataclass(frozen=True, eq=False)
class DraftStore:
    """A store of a tensor element, at the tensor's coordinates.

    The coordinates of a store that ``scatters`` may depend on data.
    """

    tensors: tuple[Tensor, ...]
    indices: tuple[Lin, ...]
    values: tuple[Expr, ...]
    reducer: Optional[Reducer]
    stage: str
    scatters: bool = False
    atomic: bool = False


@dataclass(frozen=True, eq=False)
class DraftPrefetch:
    """A prefetch of a tensor element, at the tensor's coordinates."""

    tensor: Tensor
    indices: tuple[Lin, ...]


@dataclass(frozen=True, eq=False)
class DraftExtern:
    """A call of the function of ``op`` for a box of each array, with its first element and extents.

    ``boxes`` are in tensors' coordinates: of the inputs, then of the outputs. ``body`` describes
    the call (:class:`~schedlang.ir.nodes.Extern`).
    """

    op: ExternOp
    boxes: tuple[tuple[tuple[Lin, ...], tuple[Lin, ...]], ...]
    body: Block
    stage: str


Draft = Union[For, If, Alloc, Note, DraftStore, DraftPrefetch, DraftExtern]


def block(drafts: Sequence[Draft]) -> Block:
    """Return ``drafts`` as the body of a loop; ``resolve`` later gives them buffers."""
    return Block(tuple(drafts))  # type: ignore[arg-type]
