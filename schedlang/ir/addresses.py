"""The addresses at which the instructions in loops need arguments to start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from schedlang.expr.nodes import Var
from schedlang.ir.instruction_match import Match, match
from schedlang.ir.nodes import Block, Buffer, For, walk


def addresses_needed(body: Block, args: Sequence[Buffer | Var]) -> Mapping[Buffer, int]:
    """Return which of ``args`` must start at multiples of more than one byte, and how many.

    ``body`` are the loops before instructions replace some of them.
    """
    needed: dict[Buffer, int] = {}
    for stmt, _ in walk(body):
        declared = stmt.instruction if isinstance(stmt, For) else None
        if declared is None or not declared.alignment:
            continue
        assert isinstance(stmt, For)
        matched = match(stmt, declared)
        # what a build refuses has no calls
        if not isinstance(matched, Match):
            continue
        for tensor, tile in matched.tiles(declared):
            alignment = declared.alignment.get(tensor.name, 1)
            if tile.buffer in args and alignment > 1:
                needed[tile.buffer] = max(alignment, needed.get(tile.buffer, 1))
    return needed
