"""Choices nested deeper than Python's indentation allows, as a row of named parts."""

from __future__ import annotations

from collections.abc import Container, Mapping

from schedlang.expr.lazy import Region, both, is_choice, regions_of
from schedlang.expr.nodes import Const, Expr, Select, Unary
from schedlang.expr.visit import postorder, with_children

DEEPEST_CHOICES = 16


def in_parts(root: Expr, known: Container[int] = ()) -> tuple[Expr, list[Expr]]:
    """``root`` over other nodes, and those of them to evaluate and name first, in this order.

    Every 16th choice inside a choice becomes two such parts: a flag, true where evaluation
    arrives at it, and its value, asked for only where the flag is true. No part then nests
    choices much deeper than that. Nodes whose ``id`` is ``known`` have a name already.

    >>> from schedlang.expr.nodes import Var, select
    >>> x = Var("x", "float32", weak=False)
    >>> nested = x
    >>> for k in range(40):
    ...     nested = select(x > k, nested + 1, x, lazy=True)
    >>> changed, parts = in_parts(nested)
    >>> [part.dtype for part in parts]
    ['bool', 'bool', 'float32', 'float32']
    """
    order = list(postorder([root], known))
    place = regions_of(root, known).place
    nodes = {id(n): n for n in order}
    cuts = _cuts(order, place)
    if not cuts:
        return root, []
    made: dict[int, Expr] = {}
    flags: dict[int, Expr] = {}
    values: set[int] = set()
    stack: list[tuple[Expr, bool]] = [(root, False)]
    while stack:
        node, ready = stack.pop()
        if id(node) in made:
            continue
        if id(node) in known:
            made[id(node)] = node
            continue
        if not ready:
            if id(node) in cuts:
                # the conditions on the way here stand to the left, and are made already
                flags[id(node)] = _flag(node, nodes, place, cuts, flags, made)
            stack.append((node, True))
            stack.extend((c, False) for c in reversed(node.children))
            continue
        new = with_children(node, tuple(made[id(c)] for c in node.children))
        if id(node) in cuts:
            nothing = Const(False if node.dtype == "bool" else 0, node.dtype)
            new = Select(flags[id(node)], new, nothing, node.dtype, lazy=True)
            values.add(id(new))
        made[id(node)] = new
    wanted = values | {id(f) for f in flags.values()}
    return made[id(root)], [n for n in postorder([made[id(root)]], known) if id(n) in wanted]


def _cuts(order: list[Expr], place: Mapping[int, Region | None]) -> set[int]:
    """The choices at every 16th level, where one way leads to each."""
    level: dict[int, int | None] = {}
    found: set[int] = set()
    for node in reversed(order):
        if not is_choice(node):
            continue
        region = place.get(id(node))
        above = None if region is None else 0 if region[0] == 0 else level[region[0]]
        level[id(node)] = None if above is None else above + 1
        if above and above % DEEPEST_CHOICES == 0:
            found.add(id(node))
    return found


def _flag(
    cut: Expr,
    nodes: Mapping[int, Expr],
    place: Mapping[int, Region | None],
    cuts: set[int],
    flags: Mapping[int, Expr],
    made: Mapping[int, Expr],
) -> Expr:
    """Whether evaluation arrives at ``cut``: the conditions on the way from the last one."""
    way: list[Region] = []
    region = place[id(cut)]
    while region is not None and region[0]:
        way.append(region)
        if region[0] in cuts:
            break
        region = place[region[0]]
    flag = flags.get(way[-1][0])
    for choice, side in reversed(way):
        node = nodes[choice]
        assert isinstance(node, Select)
        cond = made[id(node.cond)]
        if side == 2:
            cond = Unary("~", cond, "bool")
        flag = cond if flag is None else both(flag, cond)
    assert flag is not None
    return flag
