"""Statements of a nest under construction, whose tensors have no buffers yet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Optional, Union

from schedlang.compute.tensor import Tensor
from schedlang.expr.linear import Lin, to_expr
from schedlang.expr.nodes import Expr
from schedlang.ir.nodes import Alloc, Block, For, If, Note

if TYPE_CHECKING:
    from schedlang.compute.reduce import Reducer


@dataclass(frozen=True, eq=False, repr=False)
class Placed(Expr):
    """A read at known index polynomials of the tensor's own coordinates."""

    tensor: Tensor
    at: tuple[Lin, ...]
    dtype: str
    weak: bool = False

    def __str__(self) -> str:
        return f"{self.tensor.name}[{', '.join(map(str, self.at))}]"


@dataclass(frozen=True, eq=False)
class Put:
    """A store at the tensor's own coordinates."""

    tensors: tuple[Tensor, ...]
    indices: tuple[Lin, ...]
    values: tuple[Expr, ...]
    reducer: Optional[Reducer]
    stage: str


@dataclass(frozen=True, eq=False)
class Touch:
    """A prefetch at the tensor's own coordinates."""

    tensor: Tensor
    indices: tuple[Lin, ...]


Draft = Union[For, If, Alloc, Note, Put, Touch]


def block(drafts: Sequence[Draft]) -> Block:
    """Return statements under construction as the body of a loop; ``resolve`` makes them whole."""
    return Block(tuple(drafts))  # type: ignore[arg-type]


def loop_extent(extent: Lin) -> Union[int, Expr]:
    """Return how often a loop runs: a number where that is known."""
    return extent.const if extent.const is not None else to_expr(extent)
