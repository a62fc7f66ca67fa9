"""The uses in an expression, which copies of unrolled loops evaluate many times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from typing import NamedTuple, Optional

from schedlang.expr.lazy import is_choice
from schedlang.expr.nodes import Expr
from schedlang.expr.printer import is_index
from schedlang.expr.visit import postorder
from schedlang.ir.nodes import Load


class Uses(NamedTuple):
    """The loads and choices in an expression, and how often it uses each part, by ``id``.

    ``order`` lists the parts in the order of their evaluation, except the parts of an index of a
    load. It is ``None`` if each copy of the expression has an order of its own. ``alike`` lists the
    loads of buffers that have several loads.
    """

    loads: int
    choices: int
    times: Mapping[int, int]
    order: Optional[Sequence[Expr]] = None
    alike: Sequence[Load] = ()


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


def ordered_uses_in(root: Expr) -> Uses:
    """Return the uses in ``root`` with the order of its parts, which copies have in common."""
    uses = uses_in(root)
    if uses.choices:
        return uses
    read = {id(node) for node in postorder([root]) if isinstance(node, Load)} if uses.loads else ()
    order = postorder([root], read)
    if any(is_index(node) and node.children for node in order):
        # the values of unrolled axes simplify index arithmetic as a whole
        return uses
    loads = [node for node in order if isinstance(node, Load)]
    times = Counter(node.buffer for node in loads)
    return uses._replace(order=order, alike=[node for node in loads if times[node.buffer] > 1])
