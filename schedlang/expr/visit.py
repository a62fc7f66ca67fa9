"""Traversals of expression graphs, without recursion, so that graphs may be deep."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import replace

from schedlang.expr.nodes import ArrayRead, Axis, Binary, Call, Cast, Expr, Select, Unary


def postorder(roots: Iterable[Expr], known: Container[int] = ()) -> list[Expr]:
    """Return each distinct node once, children before parents, left to right.

    Children of nodes whose ``id`` is ``known`` are skipped.
    """
    visited: set[int] = set()
    order: list[Expr] = []
    for root in roots:
        # None stands above a node whose children come before it
        stack: list[Expr | None] = [root]
        while stack:
            node = stack.pop()
            if node is None:
                last = stack.pop()
                assert last is not None
                order.append(last)
                continue
            if id(node) in visited:
                continue
            visited.add(id(node))
            children = node.children
            if children and id(node) not in known:
                stack += (node, None)
                stack += children[::-1]
            else:
                order.append(node)
    return order


def axes_in(roots: Iterable[Expr]) -> list[Axis]:
    """Return the axes in expressions, each once, in order of first appearance."""
    return [node for node in postorder(roots) if isinstance(node, Axis)]


def with_children(node: Expr, children: tuple[Expr, ...]) -> Expr:
    """Return ``node`` with other children; the same object if none changed."""
    if all(a is b for a, b in zip(children, node.children)):
        return node
    if isinstance(node, Binary):
        return Binary(node.op, children[0], children[1], node.dtype, node.weak)
    if isinstance(node, Unary):
        return Unary(node.op, children[0], node.dtype, node.weak)
    if isinstance(node, Cast):
        return Cast(children[0], node.dtype, node.weak)
    if isinstance(node, Call):
        return replace(node, args=children)
    if isinstance(node, Select):
        return replace(node, cond=children[0], a=children[1], b=children[2])
    if isinstance(node, ArrayRead):
        return node.with_children(children)
    raise TypeError(f"{type(node).__name__} has no children to replace")


def rewrite(
    root: Expr,
    fn: Callable[[Expr], Expr | None],
    memo: dict[int, Expr] | None = None,
    before: Callable[[Expr], Expr | None] | None = None,
) -> Expr:
    """Return ``root`` with ``fn`` applied bottom-up; ``None`` from ``fn`` keeps a node.

    ``before`` is called on each node before its children are visited. If it returns a node, that
    replaces the original without a visit of the children. ``memo`` (by ``id`` of the original node)
    may be shared between calls on one graph.
    """
    results: dict[int, Expr] = {} if memo is None else memo
    stack: list[tuple[Expr, bool]] = [(root, False)]
    while stack:
        node, ready = stack.pop()
        if id(node) in results:
            continue
        if not ready:
            early = before(node) if before is not None else None
            if early is not None:
                results[id(node)] = early
                continue
            children = node.children
            if children:
                stack.append((node, True))
                stack += [(child, False) for child in reversed(children)]
                continue
        rebuilt = node
        if ready:
            rebuilt = with_children(node, tuple([results[id(child)] for child in node.children]))
        changed = fn(rebuilt)
        results[id(node)] = rebuilt if changed is None else changed
    return results[id(root)]


def preorder(roots: Iterable[Expr]) -> Iterator[Expr]:
    """Yield each distinct node once, parents before children, left to right."""
    visited: set[int] = set()
    for root in roots:
        stack = [root]
        while stack:
            node = stack.pop()
            if id(node) not in visited:
                visited.add(id(node))
                yield node
                stack += node.children[::-1]
