"""Messages for attributes that a stage or a schedule does not have, with what to write instead."""

from __future__ import annotations

from collections.abc import Iterable

from schedlang.errors import nearest, subscript

OF_SCHEDULE = ("cache_read", "cache_write", "rfactor", "pad_einsum", "shift_operand")
# functions of schedlang that take a schedule
FUNCTIONS = {
    "cost": "cost(s)",
    "lower": "lower(s, args)",
    "build": "build(s, args)",
    "compile": "build(s, args)",
    "evaluate": "evaluate(f, *arrays) of the kernel f = sl.build(s, args)",
}
# names of Halide's and te's primitives that have another name here
REPLACEMENTS = {
    "reorder_storage": "transform_layout(lambda i, j: (j, i))",
    "store_in": 'set_scope("local")',
    "gpu_blocks": 'bind(axis, "blockIdx.x")',
    "gpu_threads": 'bind(axis, "threadIdx.x")',
    "rolling_buffer": "compute_at(s[C], axis) and store_at(s[C], outer), an outer loop: rows that "
    "earlier iterations computed are kept",
    "env_threads": "bind(axis, thread) on the stages of the scan's update",
}
# te's attributes of schedules that have another form here
OF_TE = {
    "groups": "there are none; s.stages has all stages",
    "op_map": "write s[T] for the stage of tensor T",
    "stage_map": "write s[T] for the stage of tensor T",
}


def no_attribute(stage: str, name: str, known: Iterable[str], of_operation: bool) -> str:
    """Return a message that a stage has no attribute ``name``; ``known`` are its attributes.

    With ``of_operation`` its operation has that attribute.
    """
    own = subscript(stage)
    if name in OF_SCHEDULE:
        return f"{name} is a method of the schedule: s.{name}(...)"
    if name in REPLACEMENTS:
        return f"a stage has no method {name!r}: use {own}.{REPLACEMENTS[name]}"
    if of_operation:
        return f"stage {stage} has no attribute {name!r}, its operation has: {own}.op.{name}"
    public = [n for n in known if not n.startswith("_")]
    return f"stage {stage} has no attribute {name!r}{nearest(name, public)}"


def no_attribute_of_schedule(name: str, known: Iterable[str], output: str) -> str:
    """Return a message that a schedule has no attribute ``name``; ``known`` are its attributes."""
    if name in FUNCTIONS:
        return f"a schedule has no attribute {name!r}: write sl.{FUNCTIONS[name]}"
    if name in OF_TE:
        return f"a schedule has no attribute {name!r}: {OF_TE[name]}"
    if name == "latex":
        return f"a schedule has no attribute 'latex', its tensors have: {output}.latex()"
    return f"a schedule has no attribute {name!r}{nearest(name, known)}"
