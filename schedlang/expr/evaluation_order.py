"""The order in which an expression is evaluated, where a lazy choice evaluates one of its sides."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from schedlang.expr.choices import in_parts
from schedlang.expr.lazy import is_choice, regions_of
from schedlang.expr.nodes import Axis, Const, Expr, Select, Unary, Var

Context = TypeVar("Context")


def evaluation_order(root: Expr) -> tuple[Expr, list[tuple[str, Any]]]:
    """Return ``root`` and the steps of its evaluation.

    A step ``"make"`` computes a node from its operands; leaves have their values already. For a
    lazy choice there are three: ``"if"`` when the value of its condition is known, ``"else"``
    behind the steps of the first side, and ``"end"`` behind the steps of the second.

    A shared node is evaluated once, or once in each branch of a lazy choice if only the branches
    need it. The root is another expression if choices must be cut into named parts.

    >>> from schedlang.language.construct import select
    >>> x = Var("x", "float32", weak=False)
    >>> _, steps = evaluation_order(select(x > 0, x + 1, x * 2, lazy=True))
    >>> [str(node) for what, node in steps if what == "make"]
    ['x > 0', 'x + 1', 'x * 2']
    >>> [what for what, _ in steps]
    ['make', 'if', 'make', 'else', 'make', 'end']
    """
    regions = regions_of(root)
    root, named = in_parts(root, regions) if regions.shared else (root, [])
    ahead = regions.hoisted
    if named:
        named_ids: set[int] = set()
        ahead = {}
        for part in (*named, root):
            ahead |= regions_of(part, named_ids).hoisted
            named_ids.add(id(part))
    steps: list[tuple[str, Any]] = []
    scopes: list[set[int]] = [set()]
    stack: list[tuple[str, Any]] = [("visit", root)]
    stack += [("visit", part) for part in reversed(named)]
    while stack:
        what, node = step = stack.pop()
        if what != "visit":
            steps.append(step)
            if what == "if":
                scopes.append(set())
            elif what == "else":
                scopes[-1] = set()
            else:
                if what == "end":
                    scopes.pop()
                scopes[-1].add(id(node))
        elif isinstance(node, (Const, Axis, Var)) or any(id(node) in scope for scope in scopes):
            continue
        elif is_choice(node):
            stack += [("end", node), ("visit", node.b), ("else", node), ("visit", node.a)]
            stack += [("if", node), ("visit", node.cond)]
            stack += [("visit", part) for part in reversed(ahead.get(id(node), ()))]
        else:
            stack.append(("make", node))
            stack += [("visit", child) for child in reversed(node.children)]
    return root, steps


def evaluations(
    root: Expr, context: Context, inside: Callable[[Context, Expr, bool], Context]
) -> Iterator[tuple[Expr, Context]]:
    """Yield each evaluation of an inner node, with the context in which it happens.

    ``context`` is around ``root``. In a branch of a lazy choice, it is ``inside(context, condition,
    holds)`` of the one around the choice.

    >>> from schedlang.language.construct import select
    >>> x = Var("x", "float32", weak=False)
    >>> root = select(x > 0, x + 1, 0.0, lazy=True)
    >>> depth = lambda around, cond, holds: around + 1
    >>> [(str(node), number) for node, number in evaluations(root, 0, depth)]
    [('x > 0', 0), ('x + 1', 1), ('x + 1 if x > 0 else 0', 0)]
    """
    around = [context]
    for what, node in evaluation_order(root)[1]:
        if what == "if":
            around.append(inside(around[-1], node.cond, True))
        elif what == "else":
            around[-1] = inside(around[-2], node.cond, False)
        else:
            if what == "end":
                around.pop()
            yield node, around[-1]


def along(
    path: tuple[tuple[Expr, bool], ...], cond: Expr, holds: bool
) -> tuple[tuple[Expr, bool], ...]:
    """Return the conditions of ``path``, each with whether it holds, and one more."""
    return (*path, (cond, holds))


def under(tests: tuple[Expr, ...], cond: Expr, holds: bool) -> tuple[Expr, ...]:
    """Return the conditions ``tests``, and that ``cond`` holds or does not."""
    return (*tests, cond if holds else Unary("~", cond, "bool"))


def around_uses(
    order: Sequence[Expr],
    contexts: Mapping[int, Context],
    inside: Callable[[Context, Expr, bool], Context],
    either: Callable[[Context, Context], Context],
) -> dict[int, Context]:
    """Return the context of each node, by ``id``, given the contexts of the roots.

    ``order`` has operands before what uses them. In a branch of a lazy choice, the context is
    ``inside(context, condition, holds)``. A node with two uses has ``either`` of theirs.

    >>> from schedlang.expr.visit import postorder
    >>> from schedlang.language.construct import select
    >>> x = Var("x", "float32", weak=False)
    >>> root = select(x > 0, x + 1, x + 2, lazy=True)
    >>> where = around_uses(
    ...     postorder([root]), {id(root): "always"}, lambda c, cond, holds: f"{cond}: {holds}", min
    ... )
    >>> where[id(root.a)], where[id(root.b)], where[id(x)]
    ('x > 0: True', 'x > 0: False', 'always')
    """
    around = dict(contexts)
    for node in reversed(order):
        for place, child in enumerate(node.children):
            here = around[id(node)]
            if place and isinstance(node, Select) and node.lazy:
                here = inside(here, node.cond, place == 1)
            before = around.get(id(child), here)
            around[id(child)] = here if before is here else either(before, here)
    return around
