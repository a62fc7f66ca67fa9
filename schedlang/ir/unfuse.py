"""Unfusing: fused loops are separated again, so that proofs meet digits instead of // and %."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from schedlang.expr.nodes import Axis, Binary, Const, Expr
from schedlang.expr.visit import postorder
from schedlang.ir.nest import Nest
from schedlang.ir.nodes import Block, For, Stmt, expressions, walk
from schedlang.ir.rewrite import deep, substituted


def unfused(nest: Nest) -> Nest:
    """Return an equivalent nest in which a loop used as ``i//4`` and ``i%4`` becomes two loops.

    The digits keep the name of their loop. A loop stays as it is unless each divisor divides the
    next and the last divides the extent. Return ``nest`` itself if all loops stay.
    """
    divisors = _divisors(nest)
    extents: dict[Axis, set[int | Expr]] = {}
    for loop in nest.loops:
        extents.setdefault(loop.axis, set()).add(loop.extent)
    digits = {
        axis: found for axis, (extent, *others) in extents.items()
        if axis in divisors and not others and (found := _digits(axis, extent, divisors[axis]))
    }  # fmt: skip
    if not digits:
        return nest
    whole: dict[Expr, Expr] = {axis: _recombined(parts) for axis, parts in digits.items()}
    body = deep(substituted(nest.body, whole), lambda stmt: _split_loop(stmt, digits))
    assert isinstance(body, Block)
    return replace(nest, body=body)


# the digits of a loop, innermost first: (axis, weight, extent)
Digits = list[tuple[Axis, int, int]]


def _divisors(nest: Nest) -> dict[Axis, set[int]]:
    """Return the constant divisors of each loop variable."""
    found: dict[Axis, set[int]] = {}
    for stmt, _ in walk(nest.body):
        for node in postorder(expressions(stmt)):
            if isinstance(node, Binary) and node.op in ("//", "%"):
                axis, divisor = _divided(node)
                if axis is not None and divisor > 1:
                    found.setdefault(axis, set()).add(divisor)
    return found


def _divided(node: Expr) -> tuple[Axis | None, int]:
    """Return the variable and the divisor of ``i//4``, ``i%4``, ``i//4%8`` and ``i//4//8``."""
    if isinstance(node, Axis):
        return node, 1
    if not isinstance(node, Binary) or not isinstance(node.b, Const):
        return None, 0
    if node.op not in ("//", "%") or not isinstance(node.b.value, int):
        return None, 0
    inside = node.a
    if isinstance(inside, Binary) and inside.op == "%":
        return None, 0
    axis, divisor = _divided(inside)
    return axis, divisor * node.b.value


def _digits(axis: Axis, extent: int | Expr, divisors: Iterable[int]) -> Digits:
    """Return the digits of a loop; ``[]`` if the divisors do not form a mixed-radix system."""
    if not isinstance(extent, int):
        return []
    steps = [1, *sorted(divisors), extent]
    if steps[-2] >= extent or any(big % small for small, big in zip(steps, steps[1:])):
        return []
    return [
        (replace(axis, extent=big // small), small, big // small)
        for small, big in zip(steps, steps[1:])
    ]


def _recombined(digits: Digits) -> Expr:
    first, *others = (axis * step if step > 1 else axis for axis, step, _ in digits)
    total: Expr = first
    for digit in others:
        total = total + digit
    return total


def _split_loop(stmt: Stmt, digits: Mapping[Axis, Digits]) -> Stmt:
    if not isinstance(stmt, For) or stmt.axis not in digits:
        return stmt
    body = stmt.body
    for axis, _, extent in digits[stmt.axis]:
        loop = replace(stmt, axis=axis, extent=extent, body=body)
        body = Block((loop,))
    return loop


__all__ = ["unfused"]
