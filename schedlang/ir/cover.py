"""Coverage: the check that the stores of a nest write each output element exactly once.

Proofs are structural: an index that is a mixed-radix number over its loops reaches each value of
a range once. Where no proof applies and the loops are small enough, the writes are counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from schedlang.errors import VerifyError
from schedlang.index.boxes import Piece, covered_box, piece_of
from schedlang.index.enumeration import spans_of, table, too_many
from schedlang.index.linear import ZERO, Lin
from schedlang.index.simplify import to_lin
from schedlang.ir.accesses import Site
from schedlang.ir.dimension_orders import flat, orders
from schedlang.ir.nodes import Buffer


def check_finalised(buffer: Buffer, sites: Sequence[Site], counting: bool = True) -> bool:
    """Raise if plain stores write an element of ``buffer`` never, or more than once.

    Return whether it is proven that each element is written once. ``counting`` counts the writes
    where no proof applies. A user's store predicate leaves elements unwritten on purpose, so
    nothing is left to prove then.
    """
    plain = [s for s in sites if s.stmt.reducer is None]
    if any(to_lin(e).const == 0 for e in buffer.shape):
        return True
    if any(g.predicate for s in plain for g in s.guards):
        return True
    if not plain:
        raise VerifyError(f"{buffer.name} is never written")
    if covers(buffer, plain):
        return True
    counts = _counts(buffer, plain) if counting else None
    if counts is not None and (counts != 1).any():
        where = [int(k) for k in np.argwhere(counts != 1)[0]]
        raise VerifyError(f"{buffer.name}{where} is finalised {int(counts[tuple(where)])} times")
    return counts is not None


def covers(buffer: Buffer, plain: Sequence[Site]) -> bool:
    """Return whether a structural proof shows that ``plain`` stores write each element once."""
    whole = [(ZERO, to_lin(e)) for e in buffer.shape]
    if covered_box([_piece_of(s, s.indices) for s in plain]) == whole:
        return True
    size = prod((to_lin(e) for e in buffer.shape), start=Lin.of(1))
    # a loop of fused axes is one digit of the position, if the dimensions are in the axes' order
    return any(
        covered_box([_piece_of(s, [flat(buffer, s.indices, order)]) for s in plain])
        == [(ZERO, size)]
        for order in orders(buffer, [index for s in plain for index in s.indices])
    )


def _piece_of(site: Site, indices: Sequence[Lin]) -> Piece:
    loops = tuple((loop, *bounds) for loop, bounds in zip(site.loops, site.extents))
    return piece_of(indices, loops, [guard.cond for guard in site.guards], site.ranges)


def _counts(buffer: Buffer, sites: Sequence[Site]) -> np.ndarray | None:
    """Return how often each element is written, or ``None`` if there are too many to count."""
    if buffer.size is None or too_many(buffer.size, kept=True):
        return None
    counts = np.zeros(tuple(buffer.shape), int)
    for site in sites:
        spans = {x.axis: (0, x.extent) for x in site.loops if isinstance(x.extent, int)}
        conditions = [(g.cond, True) for g in site.guards]
        roots = [*site.stmt.indices, *(cond for cond, _ in conditions)]
        if len(spans) < len(site.loops) or spans_of(roots, spans) is None:
            return None
        places = table(site.stmt.indices, conditions, spans)
        if places is None:
            return None
        # a store to a 0-dimensional buffer has no index to broadcast: add the count instead
        np.add.at(counts, tuple(places) or (), 1 if len(places) else places.shape[1])
    return counts
