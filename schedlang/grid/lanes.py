"""Expressions on many threads at once: each node is an array over the lanes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from schedlang.expr.evaluate import value_of
from schedlang.expr.nodes import Expr, Select
from schedlang.ir.nodes import Load

# gives the elements of a buffer at evaluated indices, for the lanes of a mask
Reader = Callable[[Load, "list[np.ndarray]", np.ndarray], np.ndarray]


def on_lanes(root: Expr, values: Mapping[Any, Any], active: np.ndarray, read: Reader) -> Any:
    """``root`` on the lanes of ``active``; the side of a lazy choice on those that take it."""
    masks = [active]
    done: dict[tuple[int, int], Any] = {}
    stack: list[tuple[str, Expr, int]] = [("visit", root, 0)]
    while stack:
        what, node, mask = stack.pop()
        key = (id(node), mask)
        if what == "visit":
            if key in done:
                continue
            if isinstance(node, Select) and node.lazy:
                stack += [("split", node, mask), ("visit", node.cond, mask)]
            else:
                stack.append(("make", node, mask))
                stack += [("visit", child, mask) for child in reversed(node.children)]
        elif what == "split":
            assert isinstance(node, Select)
            cond = done[id(node.cond), mask]
            masks += [masks[mask] & cond, masks[mask] & ~np.asarray(cond)]
            taken, other = len(masks) - 2, len(masks) - 1
            done[id(node), -1 - mask] = (taken, other)
            stack += [("join", node, mask), ("visit", node.b, other), ("visit", node.a, taken)]
        elif what == "join":
            assert isinstance(node, Select)
            taken, other = done[id(node), -1 - mask]
            sides = done[id(node.a), taken], done[id(node.b), other]
            done[key] = np.where(done[id(node.cond), mask], *sides)
        elif isinstance(node, Load):
            at = [np.broadcast_to(done[id(i), mask], active.shape) for i in node.indices]
            done[key] = read(node, at, masks[mask])
        else:
            given = {id(child): done[id(child), mask] for child in node.children}
            done[key] = value_of(node, given, values, None)
    return done[id(root), 0]
