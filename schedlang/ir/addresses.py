"""The addresses at which the instructions of a nest need its arguments to start."""

from __future__ import annotations

from collections.abc import Mapping

from schedlang.ir.instruction_match import Match, match
from schedlang.ir.nest import Nest
from schedlang.ir.nodes import Buffer, For, walk


def addresses_needed(nest: Nest) -> Mapping[Buffer, int]:
    """Return the arguments that must start at multiples of more than one byte, and how many."""
    needed: dict[Buffer, int] = {}
    for stmt, _ in walk(nest.body):
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
            if tile.buffer in nest.args and alignment > 1:
                needed[tile.buffer] = max(alignment, needed.get(tile.buffer, 1))
    return needed
