"""Primitives that remake loops: split, fuse, reorder, tile."""

from __future__ import annotations

from typing import Any

from schedlang.expr.nodes import Axis
from schedlang.schedule.refuse import leaf_position, plain, refuse
from schedlang.stage.relations import TAILS, Relation, Unit, make_fuse, make_split
from schedlang.stage.state import Stage, State

Result = tuple[State, Any]


def _count(value: Any, what: str, asked: str) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        refuse(asked, f"{what} is {value!r}, and a {what} is an integer")
    number = int(value)
    if number < 1:
        refuse(asked, f"a {what} is at least 1", f"Try {what}=8.")
    return number


def split(
    state: State, stage: Stage, axis: Axis, factor: Any = None, nparts: Any = None, tail: str = "auto"
) -> Result:
    name = getattr(axis, "name", repr(axis))
    given = f"factor={factor}" if nparts is None else f"nparts={nparts}"
    asked = f"split({name}, {given}) on stage {stage.name}"
    position = leaf_position(state, stage, axis, asked)
    if (factor is None) == (nparts is None):
        refuse(asked, "exactly one of factor and nparts is needed")
    size = None if factor is None else _count(factor, "factor", asked)
    pieces = None if nparts is None else _count(nparts, "nparts", asked)
    if tail not in TAILS:
        refuse(asked, f"tail={tail!r} is none of {', '.join(TAILS)}")
    if axis.kind == "scan":
        refuse(asked, f"{axis.name} is a scan's time axis, whose steps follow one another")
    plain(state, stage, axis, asked)
    relation = make_split(axis, size, pieces, tail)
    leaf = (*stage.leaf[:position], relation.outer, relation.inner, *stage.leaf[position + 1 :])
    return _related(state, stage, relation, leaf), (relation.outer, relation.inner)


def _related(state: State, stage: Stage, relation: Relation, leaf: tuple[Axis, ...]) -> State:
    return state.updated(stage.with_(relations=(*stage.relations, relation), leaf=leaf))


def fuse(state: State, stage: Stage, axes: tuple[Axis, ...]) -> Result:
    names = ", ".join(getattr(a, "name", repr(a)) for a in axes)
    asked = f"fuse({names}) on stage {stage.name}"
    if not axes:
        unit = Axis("fused", 1)
        return _related(state, stage, Unit(unit), (unit, *stage.leaf)), unit
    positions = [leaf_position(state, stage, a, asked) for a in axes]
    if len(set(axes)) != len(axes):
        refuse(asked, "an axis is named twice")
    for a in axes:
        if len(axes) > 1:
            plain(state, stage, a, asked)
    for (a, p), (b, q) in zip(zip(axes, positions), zip(axes[1:], positions[1:])):
        if q != p + 1:
            order = ", ".join(x.name for x in stage.leaf)
            refuse(
                asked, f"{a.name} and {b.name} are not neighbours, {a.name} just outside {b.name}",
                f"The order is {order}; reorder first.", state, a,
            )  # fmt: skip
        if a.is_reduce != b.is_reduce:
            reducing, data = (a, b) if a.is_reduce else (b, a)
            refuse(
                asked, f"{reducing.name} is a reduction axis and {data.name} is not",
                "Fuse data axes with data axes, reduction axes with reduction axes.", state, a,
            )  # fmt: skip
        if "scan" in (a.kind, b.kind):
            refuse(asked, "a scan's time axis is not fused")
    fused = axes[0]
    for inner in axes[1:]:
        relation = make_fuse(fused, inner)
        stage = state.stages[stage.name]
        at = next(k for k, a in enumerate(stage.leaf) if a is fused)
        leaf = (*stage.leaf[:at], relation.fused, *stage.leaf[at + 2 :])
        state, fused = _related(state, stage, relation, leaf), relation.fused
    return state, fused


def reorder(state: State, stage: Stage, axes: tuple[Axis, ...]) -> Result:
    names = ", ".join(getattr(a, "name", repr(a)) for a in axes)
    asked = f"reorder({names}) on stage {stage.name}"
    if not axes:
        refuse(asked, "no axis is named", "List axes from outer to inner.")
    positions = [leaf_position(state, stage, a, asked) for a in axes]
    doubled = next((a for k, a in enumerate(axes) if a in list(axes[:k])), None)
    if doubled is not None:
        refuse(asked, f"{doubled.name} is named twice")
    leaf = list(stage.leaf)
    for position, axis in zip(sorted(positions), axes):
        leaf[position] = axis
    return state.updated(stage.with_(leaf=tuple(leaf))), None


def tile(
    state: State, stage: Stage, x: Axis, y: Axis, x_factor: Any, y_factor: Any, tail: str = "auto"
) -> Result:
    asked = f"tile({getattr(x, 'name', x)}, {getattr(y, 'name', y)}) on stage {stage.name}"
    leaf_position(state, stage, x, asked)
    leaf_position(state, stage, y, asked)
    if x is y:
        refuse(asked, f"{x.name} is named twice")
    state, (xo, xi) = split(state, stage, x, factor=x_factor, tail=tail)
    state, (yo, yi) = split(state, state.stages[stage.name], y, factor=y_factor, tail=tail)
    state, _ = reorder(state, state.stages[stage.name], (xo, yo, xi, yi))
    return state, (xo, yo, xi, yi)
