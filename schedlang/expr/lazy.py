"""Which parts of an expression are evaluated whatever its short-circuit choices say."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field
from typing import TypeGuard

from schedlang.expr.nodes import Const, Expr, Select
from schedlang.expr.visit import postorder

# a region is the whole expression, one side of a choice: (its id, 1 or 2), or a part that
# several regions need, for itself: (its id, 0)
Region = tuple[int, int]
WHOLE: Region = (0, 0)


@dataclass(frozen=True)
class Regions:
    """Where the parts of an expression that hold choices are evaluated, by ``id``.

    ``ahead`` lists what to evaluate ahead of a choice: parts that are needed on either side of
    it, or after it too. Evaluated on each side, nested choices would double at every level.
    ``place`` is the one region that a part stands in; where several need it, ``ways`` lists
    them, and it is a region of its own.
    """

    ahead: dict[int, list[Expr]] = field(default_factory=dict)
    place: dict[int, Region] = field(default_factory=dict)
    ways: dict[int, tuple[Region, ...]] = field(default_factory=dict)


def regions_of(root: Expr, known: Container[int] = ()) -> Regions:
    """Return the regions of ``root``. Nodes whose ``id`` is ``known`` have been evaluated.

    >>> from schedlang.expr.construct import select
    >>> from schedlang.expr.nodes import Var
    >>> x = Var("x", "float32", weak=False)
    >>> inner = select(x > 0, x + 1, x * 2, lazy=True)
    >>> outer = select(x > 1, inner + 1, inner * 2, lazy=True)
    >>> regions_of(outer).ahead[id(outer)] == [inner]
    True
    """
    order = list(postorder([root], known))
    holds: set[int] = set()
    for node in order:
        if id(node) in known:
            continue
        if is_choice(node) or any(id(c) in holds for c in node.children):
            holds.add(id(node))
    if len(holds) < 2:
        return Regions()
    places: dict[int, Region] = {}
    ways: dict[int, tuple[Region, ...]] = {}
    # a dict for its order: what is emitted must not depend on hashes
    uses: dict[int, dict[Region, None]] = {id(root): {WHOLE: None}}
    found: dict[int, list[Expr]] = {}
    for node in reversed(order):
        if id(node) not in holds:
            continue
        regions = uses.pop(id(node))
        for choice in _settle(regions, places):
            found.setdefault(choice, []).append(node)
        place = next(iter(regions)) if len(regions) == 1 else (id(node), 0)
        places[id(node)] = place
        if len(regions) > 1:
            ways[id(node)] = tuple(regions)
        for side, child in enumerate(node.children):
            if id(child) in holds:
                inside = (id(node), side) if is_choice(node) and side else place
                uses.setdefault(id(child), {})[inside] = None
    return Regions(found, places, ways)


def is_choice(node: Expr) -> bool:
    """Return whether ``node`` evaluates one of its sides only."""
    return isinstance(node, Select) and node.lazy


def both(first: Expr, second: Expr) -> Select:
    """Return ``first and second``, where the second is evaluated only if the first holds."""
    return Select(first, second, Const(False, "bool"), "bool", lazy=True)


def is_both(node: Expr) -> TypeGuard[Select]:
    """Return whether ``node`` is what :func:`both` makes."""
    if not (isinstance(node, Select) and node.lazy and isinstance(node.b, Const)):
        return False
    return node.dtype == "bool" and not node.b.value


def _settle(regions: dict[Region, None], places: dict[int, Region]) -> list[int]:
    """Reduce ``regions`` to those that need the part for sure; the choices to lift it ahead of."""
    ahead: list[int] = []
    changed = True
    while changed and len(regions) > 1:
        changed = False
        for region in list(regions):
            choice, side = region
            if not side or region not in regions:
                continue
            if (choice, 3 - side) in regions:
                del regions[choice, 1], regions[choice, 2]
                regions[places[choice]] = None
                ahead.append(choice)
                changed = True
                continue
            outer = _enclosing(choice, regions, places)
            if outer is not None:
                del regions[region]
                ahead.append(outer)
                changed = True
    return ahead


def _enclosing(choice: int, regions: dict[Region, None], places: dict[int, Region]) -> int | None:
    """Return the choice around ``choice`` (or itself) that stands in one of ``regions``."""
    current = choice
    while True:
        place = places[current]
        if place in regions:
            return current
        if not place[1]:
            return None
        current = place[0]
