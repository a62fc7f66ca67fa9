"""The parts of an expression that several branches of its lazy choices evaluate."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeGuard

from schedlang.expr.nodes import Const, Expr, Select
from schedlang.expr.visit import postorder

# a region is the whole expression (WHOLE), one side of a choice (its id, 1 or 2), or a part that
# several regions need (its id, 0)
Region = tuple[int, int]
WHOLE: Region = (0, 0)


def eager(roots: Iterable[Expr]) -> Iterator[Expr]:
    """Yield the parts of ``roots`` that are evaluated at each point, under no lazy choice.

    >>> from schedlang.language.construct import select
    >>> from schedlang.expr.nodes import Var
    >>> x, y = (Var(name, "float32", weak=False) for name in "xy")
    >>> [str(v) for v in eager([select(x > 0, y, 0.0, lazy=True)]) if isinstance(v, Var)]
    ['x']
    """
    visited: set[int] = set()
    stack = list(roots)
    while stack:
        node = stack.pop()
        if id(node) in visited:
            continue
        visited.add(id(node))
        yield node
        lazy = isinstance(node, Select) and node.lazy
        stack.extend(node.children[:1] if lazy else node.children)


@dataclass(frozen=True)
class Regions:
    """The regions that evaluate the parts of an expression which contain choices, by ``id``.

    ``hoisted`` lists the parts to evaluate before a choice, since both of its sides need them, or
    one side and a region around it. Evaluated on each side, such parts would double at every level
    of nesting. ``place`` is the region of each part. A part that several regions need is a region
    of its own, and ``shared`` lists the regions that need it.
    """

    hoisted: dict[int, list[Expr]] = field(default_factory=dict)
    place: dict[int, Region] = field(default_factory=dict)
    shared: dict[int, tuple[Region, ...]] = field(default_factory=dict)


def regions_of(root: Expr, known: Container[int] = ()) -> Regions:
    """Return the regions of ``root``; nodes whose ``id`` is ``known`` are evaluated already.

    >>> from schedlang.language.construct import select
    >>> from schedlang.expr.nodes import Var
    >>> x = Var("x", "float32", weak=False)
    >>> inner = select(x > 0, x + 1, x * 2, lazy=True)
    >>> outer = select(x > 1, inner + 1, inner * 2, lazy=True)
    >>> regions_of(outer).hoisted[id(outer)] == [inner]
    True
    """
    order = postorder([root], known)
    holds: set[int] = set()
    for node in order:
        if id(node) in known:
            continue
        if is_choice(node) or any(id(c) in holds for c in node.children):
            holds.add(id(node))
    if len(holds) < 2:
        return Regions()
    places: dict[int, Region] = {}
    shared: dict[int, tuple[Region, ...]] = {}
    # a dict keeps the order, so that emitted source does not depend on hashes
    uses: dict[int, dict[Region, None]] = {id(root): {WHOLE: None}}
    hoisted: dict[int, list[Expr]] = {}
    for node in reversed(order):
        if id(node) not in holds:
            continue
        regions = uses.pop(id(node))
        for choice in _merge(regions, places):
            hoisted.setdefault(choice, []).append(node)
        place = next(iter(regions)) if len(regions) == 1 else (id(node), 0)
        places[id(node)] = place
        if len(regions) > 1:
            shared[id(node)] = tuple(regions)
        for side, child in enumerate(node.children):
            if id(child) in holds:
                inside = (id(node), side) if is_choice(node) and side else place
                uses.setdefault(id(child), {})[inside] = None
    return Regions(hoisted, places, shared)


def is_choice(node: Expr) -> bool:
    """Return whether ``node`` is a choice that evaluates only one of its sides."""
    return isinstance(node, Select) and node.lazy


def both(first: Expr, second: Expr) -> Select:
    """Return ``first and second``; the second is evaluated only if the first holds."""
    return Select(first, second, Const(False, "bool"), "bool", lazy=True)


def is_both(node: Expr) -> TypeGuard[Select]:
    """Return whether ``node`` has the form of a result of :func:`both`."""
    if not (isinstance(node, Select) and node.lazy and isinstance(node.b, Const)):
        return False
    return node.dtype == "bool" and not node.b.value


def conditions(where: Expr | None) -> list[Expr]:
    """Return the conditions that ``where`` joins; each is evaluated only if those before hold."""
    joined: list[Expr] = []
    while where is not None and is_both(where):
        joined.append(where.cond)
        where = where.a
    return joined if where is None else [*joined, where]


def _merge(regions: dict[Region, None], places: dict[int, Region]) -> list[int]:
    """Merge the regions that need a part; return the choices before which to evaluate it.

    Both sides of a choice become the region around the choice. A region inside of another one in
    ``regions`` is dropped.
    """
    choices: list[int] = []
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
                choices.append(choice)
                changed = True
                continue
            outer = _enclosing(choice, regions, places)
            if outer is not None:
                del regions[region]
                choices.append(outer)
                changed = True
    return choices


def _enclosing(choice: int, regions: dict[Region, None], places: dict[int, Region]) -> int | None:
    """Return ``choice``, or a choice around it, whose region is one of ``regions``, if any."""
    current = choice
    while True:
        place = places[current]
        if place in regions:
            return current
        if not place[1]:
            return None
        current = place[0]
