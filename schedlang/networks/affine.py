"""Expressions as ``scale * read + shift``, by algebra on their nodes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from schedlang.compute.read import Read
from schedlang.expr.nodes import Axis, Binary, Cast, Expr, Unary, Var
from schedlang.expr.visit import postorder, rewrite
from schedlang.gradient.algebra import divide, negative, number, plus, times
from schedlang.index.linear import Div, Lin, Mod
from schedlang.index.simplify import to_lin


@dataclass(frozen=True)
class Affine:
    """The expression ``scale * x`` plus the sum of ``shift``; neither of the two depends on x."""

    scale: Expr
    shift: tuple[Expr, ...] = ()


def affine_parts(root: Expr, is_x: Callable[[Expr], bool]) -> list[tuple[Expr, Affine]] | None:
    """Return the largest affine parts of an expression that hold all of its ``x``.

    ``is_x`` recognizes x, a leaf or a read of float dtype. Return ``None`` if some x is in no such
    part, for example if it is converted to another dtype.

    >>> from schedlang.expr.nodes import Var
    >>> x, a, b = (Var(n, "float32", weak=False) for n in "xab")
    >>> [(part, found)] = affine_parts((x + b) * a - b / 2, lambda node: node is x)
    >>> part, found.scale, found.shift
    ((x + b) * a - b / 2, a, (b * a, -(b / 2)))
    """
    known: dict[int, Affine | None] = {}
    for node in postorder([root]):
        if is_x(node):
            known[id(node)] = Affine(number(1, node.dtype))
        elif any(id(child) in known for child in node.children):
            known[id(node)] = _combined(node, known)
    largest: list[tuple[Expr, Affine]] = []
    stack, seen = [root], set[int]()
    while stack:
        node = stack.pop()
        if id(node) not in known or id(node) in seen:
            continue
        seen.add(id(node))
        affine = known[id(node)]
        if affine is not None:
            largest.append((node, affine))
        elif isinstance(node, Cast) or isinstance(node, Read):
            # the rounding of a conversion, or an index, depends on x
            return None
        else:
            stack += node.children[::-1]
    return largest


def _combined(node: Expr, known: Mapping[int, Affine | None]) -> Affine | None:
    """Return the affine form of an operation on values, some of which depend on x."""
    if isinstance(node, Unary) and node.op == "-":
        a = known[id(node.a)]
        return None if a is None else _changed(a, negative)
    if not isinstance(node, Binary) or node.op not in ("+", "-", "*", "/"):
        return None
    if node.a.dtype != node.dtype or node.b.dtype != node.dtype:
        return None
    left, right = (
        known.get(id(side), Affine(number(0, node.dtype), (side,))) for side in (node.a, node.b)
    )
    if left is None or right is None:
        return None
    if node.op in ("+", "-"):
        if node.op == "-":
            right = _changed(right, negative)
        return Affine(plus(left.scale, right.scale), (*left.shift, *right.shift))
    if id(node.a) in known and id(node.b) in known:
        return None
    if node.op == "*":
        factor, of_x = (node.b, left) if id(node.a) in known else (node.a, right)
        return _changed(of_x, lambda value: times(value, factor))
    return _changed(left, lambda value: divide(value, node.b)) if id(node.a) in known else None


def _changed(affine: Affine, change: Callable[[Expr], Expr]) -> Affine:
    return Affine(change(affine.scale), tuple(map(change, affine.shift)))


def axes_in(root: Expr) -> list[Axis]:
    """Return the axes of an expression, in order of first appearance."""
    return [node for node in postorder([root]) if isinstance(node, Axis)]


def known_ahead(root: Expr, pure: Collection[object]) -> bool:
    """Return whether an expression depends on axes, constants and ``pure`` tensors alone."""
    return all(
        node.tensor in pure if isinstance(node, Read) else not isinstance(node, Var)
        for node in postorder([root])
    )


def with_values(root: Expr, swap: Mapping[Axis, Expr]) -> Expr:
    """Return an expression with other values of its axes."""
    return rewrite(root, lambda node: swap.get(node) if isinstance(node, Axis) else None)


def solve_for(axis: Axis, indices: Sequence[Expr], places: Sequence[Axis]) -> Expr | None:
    """Return the value of ``axis`` where ``indices`` are at ``places``, which cover it whole.

    Either it is one of the indices itself, or its quotient and its remainder are.

    >>> c, o, i = Axis("c", 6), Axis("o", 3), Axis("i", 2)
    >>> solve_for(c, [c // 2, c % 2], [o, i]), solve_for(c, [c + 1], [o])
    (o*2 + i, None)
    """
    forms = [to_lin(index) for index in indices]
    extent = to_lin(axis.extent)
    for form, place in zip(forms, places):
        if form == Lin.of(axis) and to_lin(place.extent) == extent:
            return place
    for form, place in zip(forms, places):
        (atom,) = list(form.atoms()) if len(form.terms) == 1 else (None,)
        if not isinstance(atom, Div) or form != Lin.of(atom) or atom.num != Lin.of(axis):
            continue
        rest = Lin.of(Mod(atom.num, atom.den))
        for other, inner in zip(forms, places):
            whole = to_lin(place.extent) * atom.den
            if other == rest and to_lin(inner.extent) == atom.den and whole == extent:
                return place * inner.extent + inner
    return None
