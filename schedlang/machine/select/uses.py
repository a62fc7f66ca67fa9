"""The uses in an expression, which copies of unrolled loops evaluate many times."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import NamedTuple

from schedlang.expr.lazy import is_choice
from schedlang.expr.nodes import Expr
from schedlang.expr.visit import postorder
from schedlang.ir.nodes import Load


class Uses(NamedTuple):
    """The loads and choices in an expression, and how often it uses each part, by ``id``."""

    loads: int
    choices: int
    times: Mapping[int, int]


def uses_in(root: Expr, known: Container[int] = ()) -> Uses:
    """Return the uses in ``root``; nodes whose ``id`` is ``known`` are evaluated already."""
    loads = choices = 0
    times: dict[int, int] = {}
    for node in postorder([root], known):
        loads += isinstance(node, Load)
        choices += is_choice(node)
        for child in node.children:
            times[id(child)] = times.get(id(child), 0) + 1
    return Uses(loads, choices, times)
