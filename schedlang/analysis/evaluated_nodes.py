"""The nodes that the evaluation of an expression visits, with the conditions on the way."""

from __future__ import annotations

from collections.abc import Iterator

from schedlang.expr.choices import in_parts
from schedlang.expr.lazy import regions_of
from schedlang.expr.nodes import Axis, Const, Expr, Select, Var
from schedlang.index.conjunctions import Held


def evaluations(root: Expr) -> Iterator[tuple[Expr, tuple[Held, ...]]]:
    """Yield each evaluation of an inner node, with the conditions of the lazy branches around it.

    The order is that of the interpreter. A shared node is evaluated once, or once in each branch
    of a lazy select if only the branches need it.
    """
    regions = regions_of(root)
    root, named = in_parts(root, regions) if regions.shared else (root, [])
    ahead = regions.hoisted
    if named:
        known: set[int] = set()
        ahead = {}
        for part in (*named, root):
            ahead |= regions_of(part, known).hoisted
            known.add(id(part))
    scopes: list[set[int]] = [set()]
    path: tuple[Held, ...] = ()
    stack: list[tuple[str, Expr]] = [("visit", root)]
    stack += [("visit", part) for part in reversed(named)]
    while stack:
        what, node = stack.pop()
        if what == "visit":
            if isinstance(node, (Const, Axis, Var)) or any(id(node) in scope for scope in scopes):
                continue
            if isinstance(node, Select) and node.lazy:
                stack += [("end", node), ("visit", node.b), ("else", node), ("visit", node.a)]
                stack += [("if", node), ("visit", node.cond)]
                stack += [("visit", part) for part in reversed(ahead.get(id(node), ()))]
            else:
                stack.append(("make", node))
                stack += [("visit", child) for child in reversed(node.children)]
        elif what == "make":
            scopes[-1].add(id(node))
            yield node, path
        elif what == "if":
            assert isinstance(node, Select)
            path = (*path, (node.cond, True))
            scopes.append(set())
        elif what == "else":
            assert isinstance(node, Select)
            path = (*path[:-1], (node.cond, False))
            scopes[-1] = set()
        else:
            path = path[:-1]
            scopes.pop()
            scopes[-1].add(id(node))
            yield node, path
