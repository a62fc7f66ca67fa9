"""Names, iteration counts and accesses in memory, as sentences about a nest need them."""

from __future__ import annotations

from math import prod

from schedlang.ir.accesses import Access, Site
from schedlang.ir.nest import Nest
from schedlang.ir.nodes import For

# assumed iterations of a loop whose extent is known only at the call
SYMBOLIC = 256


def iterations(site: Site) -> int:
    """Return how often a statement runs, without its guards."""
    return prod(map(extent_of, site.loops))


def in_memory(site: Site) -> list[Access]:
    """Return the elements that a statement stores, then those that it loads.

    Sums that stay in registers are not stored there.
    """
    stored = [] if site.kept else [a for a in site.accesses if a.stores]
    return [*stored, *(a for a in site.accesses if not (a.stores or a.updates))]


def name_of(loop: For, nest: Nest) -> str:
    """Return the name of a loop in the printed nest."""
    return nest.names.get(loop.axis, loop.axis.name)


def extent_of(loop: For) -> int:
    """Return the iterations of a loop, at least 1; a guess if its extent is symbolic."""
    return max(1, loop.extent) if isinstance(loop.extent, int) else SYMBOLIC
