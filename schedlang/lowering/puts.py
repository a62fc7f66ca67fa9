"""Statements of a nest under construction, whose tensors have no buffers yet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Optional, Union

from schedlang.compute.tensor import Tensor
from schedlang.expr.linear import Lin
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
    """Statements under construction as the body of a loop; ``resolve`` makes them whole."""
    return Block(tuple(drafts))  # type: ignore[arg-type]


def map_puts(drafts: Sequence[Any], stage: str, fn: Callable[[Any], Any]) -> list[Any]:
    """``drafts`` with ``fn`` applied to every store of ``stage``."""
    made: list[Any] = []
    for draft in drafts:
        if isinstance(draft, Put) and draft.stage == stage:
            made.append(fn(draft))
        elif isinstance(draft, (For, If)):
            made.append(replace(draft, body=Block(tuple(map_puts(draft.body.stmts, stage, fn)))))
        else:
            made.append(draft)
    return made
