"""Primitives that transform loops: split, fuse, reorder, tile."""

from __future__ import annotations

from typing import Any

from schedlang.errors import subscript
from schedlang.expr.nodes import Axis
from schedlang.state.primitives.arguments import (
    LARGEST,
    check_not_time,
    check_removable,
    count,
    leaf_position,
    names,
    text_of,
    update_axis,
)
from schedlang.state.primitives.conflicts import without_conflict
from schedlang.state.primitives.primitive import Primitive
from schedlang.state.primitives.refusal import refuse
from schedlang.state.relations import TAILS, Relation, Split, Unit, make_fuse, make_split, position
from schedlang.state.state import At, Result, Stage, State


def split(
    state: State,
    stage: Stage,
    axis: Axis,
    factor: Any = None,
    nparts: Any = None,
    tail: str = "auto",
    idle: bool = False,
) -> Result:
    leaf_position(state, stage, axis)
    if (factor is None) == (nparts is None):
        refuse(
            "exactly one of factor and nparts is required",
            "factor= is the extent of the inner loop, nparts= the extent of the outer loop.",
        )
    after, result = _split(state, stage, axis, factor, nparts, tail, idle=idle)
    return without_conflict(after, state, stage.name, axis), result


def _split(
    state: State,
    stage: Stage,
    axis: Axis,
    factor: Any,
    nparts: Any,
    tail: str,
    what: str = "factor",
    idle: bool = False,
) -> Result:
    place = leaf_position(state, stage, axis)
    size = None if factor is None else count(factor, what, hint=f"Try {what}=8.")
    pieces = None if nparts is None else count(nparts, "nparts", hint="Try nparts=8.")
    if not isinstance(tail, str) or tail not in TAILS:
        refuse(
            f"tail={tail!r} is not a known tail strategy",
            f"Choose one of {', '.join(map(repr, TAILS))}.",
        )
    if not isinstance(idle, bool):
        refuse(f"idle={text_of(idle)} is neither True nor False")
    check_removable(state, stage, axis, attached=True)
    relation: Split = make_split(axis, size, pieces, tail, idle)
    leaf = (*stage.leaf[:place], relation.outer, relation.inner, *stage.leaf[place + 1 :])
    after = _with_relation(state, stage, relation, leaf)
    return _moved(after, stage, axis, relation.inner), (relation.outer, relation.inner)


def _moved(state: State, stage: Stage, axis: Axis, inner: Axis) -> State:
    """Return ``state`` with the stages attached at ``axis`` attached at ``inner``, its inner part.

    There they are computed and stored once for each iteration of ``axis``, as before.
    """
    moved = []
    for other in state.attached(state.stages[stage.name]):
        places = {
            field: At(stage.name, inner)
            for field, place in (("attach", other.attach), ("store", other.store))
            if isinstance(place, At) and place.axis is axis
        }
        moved += [other.with_(**places)] if places else []
    return state.updated(*moved)


def _with_relation(state: State, stage: Stage, relation: Relation, leaf: tuple[Axis, ...]) -> State:
    return state.updated(stage.with_(relations=(*stage.relations, relation), leaf=leaf))


def fuse(state: State, stage: Stage, axes: tuple[Axis, ...]) -> Result:
    if not axes:
        if stage.is_scan:
            hint = f"Fuse axes of the stage of its update instead{update_axis(stage)}."
            refuse("the loops of a scan are over its time and its states", hint)
        unit = Axis("fused", 1)
        return _with_relation(state, stage, Unit(unit), (unit, *stage.leaf)), unit
    positions = [leaf_position(state, stage, a) for a in axes]
    if len(set(axes)) != len(axes):
        refuse(f"{_repeated(axes).name} is given twice", "Give each loop once.")
    for a in axes:
        if len(axes) > 1:
            check_removable(state, stage, a)
    for (a, p), (b, q) in zip(zip(axes, positions), zip(axes[1:], positions[1:])):
        _check_fusable(state, stage, a, b, q - p)
    before, fused = state, axes[0]
    for inner in axes[1:]:
        relation = make_fuse(fused, inner)
        if isinstance(relation.fused.extent, int) and relation.fused.extent >= LARGEST:
            refuse(
                f"the {relation.fused.extent} iterations overflow a 64-bit counter",
                "Fuse fewer loops.",
            )
        stage = state.stages[stage.name]
        at = next(k for k, a in enumerate(stage.leaf) if a is fused)
        leaf = (*stage.leaf[:at], relation.fused, *stage.leaf[at + 2 :])
        state, fused = _with_relation(state, stage, relation, leaf), relation.fused
    return without_conflict(state, before, stage.name, axes[0]), fused


def _check_fusable(state: State, stage: Stage, a: Axis, b: Axis, distance: int) -> None:
    if "scan" in (a.kind, b.kind):
        refuse(
            "the time axis of a scan cannot be fused: its steps run one after another",
            "Fuse other axes of the scan's update.",
        )
    if a.is_reduce != b.is_reduce:
        reducing, data = (a, b) if a.is_reduce else (b, a)
        refuse(
            f"{reducing.name} is a reduction axis and {data.name} is not",
            "Fuse data axes with data axes, and reduction axes with reduction axes.",
            state,
            a,
        )
    scattered = stage.scattered_leaves
    if (a in scattered) != (b in scattered):
        own, shared = (a, b) if a in scattered else (b, a)
        refuse(
            f"{own.name} only initializes {stage.name}, and {shared.name} is a loop of its updates "
            "too",
            f"Fuse {own.name} with {names(x for x in scattered if x is not own) or 'no loop'}.",
            state,
            a,
        )
    if distance == -1:
        refuse(
            f"{a.name} is directly inside {b.name}, but fuse takes the outer loop first",
            f"Write fuse({b.name}, {a.name}), or call reorder({a.name}, {b.name}) first.",
            state,
            b,
        )
    if distance != 1:
        refuse(
            f"{b.name} is not directly inside {a.name}",
            f"The order is {names(stage.leaf)}: call reorder({a.name}, {b.name}) first.",
            state,
            a,
        )


def _repeated(axes: tuple[Axis, ...]) -> Axis:
    return next(a for k, a in enumerate(axes) if any(a is b for b in axes[:k]))


def reorder(state: State, stage: Stage, axes: tuple[Axis, ...]) -> Result:
    if not axes:
        refuse("no axis is given", "List the axes from outer to inner.")
    positions = [leaf_position(state, stage, a) for a in axes]
    if len(set(positions)) != len(positions):
        refuse(f"{_repeated(axes).name} is given twice", "Give each loop once.")
    for axis in axes:
        check_not_time(state, stage, axis)
    leaf = list(stage.leaf)
    for place, axis in zip(sorted(positions), axes):
        leaf[place] = axis
    for other in state.attached(stage):
        loop, store = other.attach, other.store
        if not (isinstance(loop, At) and isinstance(store, At)):
            continue
        here = loop.stage == store.stage == stage.name
        if here and position(leaf, store.axis) > position(leaf, loop.axis):
            refuse(
                f"{other.name} is stored at {store.axis.name} and computed at "
                f"{loop.axis.name}, which would then be outside {store.axis.name}",
                f"Reorder first, then call {subscript(other.name)}.store_at(...).",
                state,
                loop.axis,
            )
    after = state.updated(stage.with_(leaf=tuple(leaf)))
    return without_conflict(after, state, stage.name, axes[0]), None


def tile(
    state: State,
    stage: Stage,
    x: Axis,
    y: Axis,
    x_factor: Any,
    y_factor: Any,
    tail: str = "auto",
    idle: bool = False,
) -> Result:
    leaf_position(state, stage, x)
    leaf_position(state, stage, y)
    if x is y:
        refuse(f"{x.name} is given twice", "Tile two different loops, or split one.")
    name, before = stage.name, state
    state, (xo, xi) = _split(state, stage, x, x_factor, None, tail, "x_factor", idle)
    state, (yo, yi) = _split(state, state.stages[name], y, y_factor, None, tail, "y_factor", idle)
    state, _ = reorder(state, state.stages[name], (xo, yo, xi, yi))
    return without_conflict(state, before, name, x), (xo, yo, xi, yi)


PRIMITIVES = {
    "split": Primitive(split, ("factor", "nparts", "tail", "idle")),
    "fuse": Primitive(fuse),
    "reorder": Primitive(reorder),
    "tile": Primitive(tile, ("tail", "idle")),
}
