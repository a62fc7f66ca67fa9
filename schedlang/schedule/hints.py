"""Hints for error messages: names similar to a missing one, and statements to write instead."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from schedlang.expr.nodes import Axis
from schedlang.stage.relations import Relation, Split, parts, sources
from schedlang.stage.state import Stage

OF_SCHEDULE = ("cache_read", "cache_write", "rfactor")
# Halide's names for primitives that have another name here
OTHERWISE = {
    "reorder_storage": "transform_layout(lambda i, j: (j, i))",
    "store_in": 'set_scope("local")',
    "gpu_blocks": 'bind(axis, "blockIdx.x")',
    "gpu_threads": 'bind(axis, "threadIdx.x")',
}


def no_attribute(name: str, known: Iterable[str]) -> str:
    """Return a message that a stage has no attribute ``name``; ``known`` are its attributes."""
    if name in OF_SCHEDULE:
        return f"{name} is a method of the schedule: s.{name}(...)"
    if name in OTHERWISE:
        return f"a stage has no method {name!r}: use s[T].{OTHERWISE[name]}"
    public = [n for n in known if not n.startswith("_")]
    return f"a stage has no attribute {name!r}{nearest(name, public)}"


def nearest(name: str, known: list[str]) -> str:
    """Return the end of a message about ``name``, which suggests the closest of ``known``."""
    close = difflib.get_close_matches(name, known, 1)
    return f"; did you mean {close[0]!r}?" if close else ""


def partial_sums(stage: Stage, axis: Axis) -> str:
    """Return statements that factor ``stage`` into partial results along reduction ``axis``."""
    names = [_identifier(t.name) for t in stage.outputs]
    several = len(names) > 1 and stage.op.name != stage.outputs[0].name
    tensor = f"[{', '.join(names)}]" if several else _identifier(stage.name)
    own = f"s[{names[0] if several else tensor}]"
    written = {a: f"{own}.op.reduce_axis[{n}]" for n, a in enumerate(stage.op.reduce_axis)}
    needed, chain = {axis}, list[Relation]()
    for relation in reversed(stage.relations):
        if needed & set(parts(relation)):
            needed |= set(sources(relation))
            chain.insert(0, relation)
    lines = []
    for relation in chain:
        given = [written[a] for a in sources(relation)]
        call = "fuse"
        if isinstance(relation, Split):
            call, how = "split", "factor" if relation.factor is not None else "nparts"
            given.append(f"{how}={relation.factor or relation.nparts}")
        made = {a: _identifier(a.name) for a in parts(relation)}
        written |= made
        lines.append(f"{', '.join(made.values())} = {own}.{call}({', '.join(given)})")
    made_tensor = ", ".join(f"{n}F" for n in names) if several else f"{tensor}F"
    return "\n".join([*lines, f"{made_tensor} = s.rfactor({tensor}, {written[axis]})"])


def _identifier(name: str) -> str:
    return name.replace(".", "_")
