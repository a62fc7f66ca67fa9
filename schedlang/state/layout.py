"""Memory layouts of stages: dimensions divided into parts and reordered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from schedlang.expr.nodes import Axis, Binary, Const, Expr
from schedlang.index.linear import Lin
from schedlang.index.ranges import Ranges
from schedlang.index.rules import floordiv, mod


@dataclass(frozen=True)
class Part:
    """A part of dimension ``dim``: ``index // divisor % modulus``; modulus 0 means no ``%``."""

    dim: int
    divisor: int = 1
    modulus: int = 0


Layout = tuple[Part, ...]


def part_of(index: Expr, axes: Sequence[Axis]) -> Part | None:
    """Return ``index`` as a part of one of ``axes``; ``None`` if it is none."""
    steps: list[Binary] = []
    while isinstance(index, Binary) and index.op in ("//", "%"):
        steps.append(index)
        index = index.a
    dim = next((k for k, a in enumerate(axes) if a is index), None)
    if dim is None:
        return None
    divisor, modulus = 1, 0
    for step in reversed(steps):
        by = step.b.value if isinstance(step.b, Const) else None
        if type(by) is not int or by < 1 or (modulus and modulus % by):
            return None
        if step.op == "%":
            modulus = by
        else:
            divisor, modulus = divisor * by, modulus // by
            if modulus == 1:
                return None
    return Part(dim, divisor, modulus)


def incomplete(layout: Layout, dims: int) -> int | None:
    """Return the first dimension whose parts do not determine its index, or ``None``."""
    for dim in range(dims):
        parts = sorted((p for p in layout if p.dim == dim), key=lambda p: p.divisor)
        expected = 1
        for part in parts:
            if not expected or part.divisor != expected:
                return dim
            expected = part.divisor * part.modulus
        if expected:
            return dim
    return None


def whole_dims(layout: Layout, dims: int) -> list[int | None]:
    """Return the memory position of each dimension; ``None`` for a divided one."""
    whole = {p.dim: k for k, p in enumerate(layout) if p.divisor == 1 and not p.modulus}
    return [whole.get(dim) for dim in range(dims)]


def stored_extents(layout: Layout, extents: Sequence[Lin], ranges: Ranges) -> list[Lin]:
    """Return the extents in memory, rounded up if a factor does not divide a dimension."""
    sizes = []
    for part in layout:
        extent = extents[part.dim]
        rows = floordiv(extent + (part.divisor - 1), Lin.of(part.divisor), ranges)
        sizes.append(Lin.of(part.modulus) if part.modulus else rows)
    return sizes


def stored_index(layout: Layout, index: Sequence[Lin], ranges: Ranges) -> tuple[Lin, ...]:
    """Return the memory index of the element at ``index``."""
    position = []
    for part in layout:
        at = floordiv(index[part.dim], Lin.of(part.divisor), ranges)
        position.append(mod(at, Lin.of(part.modulus), ranges) if part.modulus else at)
    return tuple(position)
