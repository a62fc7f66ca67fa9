"""Fragments as buffers: which dimensions count tiles, and refusals of what no warp can hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from schedlang.errors import BuildError, explain
from schedlang.expr.nodes import Expr
from schedlang.index.linear import Lin, to_expr
from schedlang.instructions.fragments import Fragment
from schedlang.ir.nodes import Buffer, For


@dataclass(frozen=True, eq=False)
class Placed:
    """A fragment as ``buffer``: ``dims`` of it count tiles, and the last are lane and register."""

    fragment: Fragment
    buffer: Buffer
    dims: tuple[int, ...]

    def tile(self, at: Sequence[Expr], tiles: Mapping[int, Lin]) -> tuple[Expr, ...]:
        """Return indices with the number of the tile along each of ``dims``."""
        return tuple(to_expr(tiles[d]) if d in tiles else index for d, index in enumerate(at))


def whole_tiles(buffer: Buffer, first: Lin, size: int, loop: For, title: str) -> Lin:
    """Return the number of the tile that starts at ``first``, in tiles of ``size``."""
    if any(count % size for count in first.terms.values()):
        refuse(
            title,
            f"a tile of {buffer.name} starts at {to_expr(first)} (stage {loop.stage}), and the "
            f"threads hold tiles that start at multiples of {size}",
            f"Split its loops by multiples of {size}.",
        )
    return Lin({product: count // size for product, count in first.terms.items()})


def refuse(title: str, why: str, hint: str) -> NoReturn:
    """Raise :class:`~schedlang.errors.BuildError` for what no warp can hold or compute."""
    raise BuildError(explain(f"building {title} for a GPU", why, hint))
