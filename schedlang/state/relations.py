"""Relations between the axes of a stage: split, fuse, unit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Optional, Union

from schedlang.expr.nodes import Axis
from schedlang.index.linear import Lin, number_or_expr
from schedlang.index.simplify import ceildiv, to_lin

TAILS = ("auto", "guard", "cut")


@dataclass(frozen=True, eq=False)
class Split:
    """A split, ``parent = outer * extent(inner) + inner``, by one of ``factor`` and ``nparts``.

    ``idle`` keeps all threads of loops that it is made into, also those beyond a shorter parent.
    """

    parent: Axis
    outer: Axis
    inner: Axis
    factor: Optional[int]
    nparts: Optional[int]
    tail: str = "auto"
    idle: bool = False

    @property
    def note(self) -> str:
        how = f"by {self.factor}" if self.factor is not None else f"into {self.nparts} parts"
        return f"tail of {self.parent.name} split {how}"


@dataclass(frozen=True, eq=False)
class Fuse:
    """A fusion, ``fused = outer * extent(inner) + inner``."""

    outer: Axis
    inner: Axis
    fused: Axis


@dataclass(frozen=True, eq=False)
class Unit:
    """An axis of extent 1 that derives from no other, made by ``fuse()`` without arguments."""

    axis: Axis


Relation = Union[Split, Fuse, Unit]


def parts(relation: Relation) -> tuple[Axis, ...]:
    """Return the axes that ``relation`` makes."""
    if isinstance(relation, Split):
        return relation.outer, relation.inner
    return (relation.fused,) if isinstance(relation, Fuse) else (relation.axis,)


def sources(relation: Relation) -> tuple[Axis, ...]:
    """Return the axes that ``relation`` replaces."""
    if isinstance(relation, Split):
        return (relation.parent,)
    return (relation.outer, relation.inner) if isinstance(relation, Fuse) else ()


def split_extents(extent: Lin, factor: int | None, nparts: int | None) -> tuple[Lin, Lin]:
    """Return the extents of outer and inner; factor or nparts is clamped to ``extent``."""
    size = extent.const
    if factor is not None:
        inner = factor if size is None else max(1, min(factor, size))
        return ceildiv(extent, Lin.of(inner)), Lin.of(inner)
    assert nparts is not None
    outer = nparts if size is None else max(1, min(nparts, size))
    return Lin.of(outer), ceildiv(extent, Lin.of(outer))


def unclamped_extents(extent: Lin, factor: int | None, nparts: int | None) -> tuple[Lin, Lin]:
    """Return the extents of outer and inner; factor or nparts is not clamped to ``extent``."""
    if factor is not None:
        return ceildiv(extent, Lin.of(factor)), Lin.of(factor)
    assert nparts is not None
    return Lin.of(nparts), ceildiv(extent, Lin.of(nparts))


def make_split(
    parent: Axis, factor: int | None, nparts: int | None, tail: str, idle: bool = False
) -> Split:
    extents = unclamped_extents if idle else split_extents
    outer, inner = extents(to_lin(parent.extent), factor, nparts)
    return Split(
        parent,
        Axis(f"{parent.name}.outer", number_or_expr(outer), parent.kind),
        Axis(f"{parent.name}.inner", number_or_expr(inner), parent.kind),
        factor, nparts, tail, idle,
    )  # fmt: skip


def make_fuse(outer: Axis, inner: Axis) -> Fuse:
    extent = to_lin(outer.extent) * to_lin(inner.extent)
    return Fuse(
        outer, inner, Axis(f"{outer.name}.{inner.name}.fused", number_or_expr(extent), outer.kind)
    )


def position(leaf: Sequence[Axis], axis: Axis) -> int:
    """Return the position of ``axis`` in ``leaf``, or -1."""
    return next((k for k, a in enumerate(leaf) if a is axis), -1)
