"""Primitives on storage: scope, alignment, layout, double buffering, store predicates."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice, product
from math import prod
from typing import Any

from schedlang.compute.extern_op import LOOPS, ExternOp
from schedlang.compute.graph import variables
from schedlang.compute.read import Read
from schedlang.compute.tensor import ComputeOp
from schedlang.errors import SchedlangError, subscript
from schedlang.expr.dtypes import LARGEST_BYTES
from schedlang.expr.nodes import Axis, Expr, Var
from schedlang.expr.visit import postorder
from schedlang.index.ranges import Ranges
from schedlang.index.simplify import to_lin
from schedlang.instructions.fragments import FRAGMENT
from schedlang.language.construct import as_expr
from schedlang.state.layout import (
    Layout,
    Part,
    choices_of,
    incomplete,
    source_of,
    stored_extents,
    whole_dims,
)
from schedlang.state.primitives.arguments import count, names, scan_of_part, text_of
from schedlang.state.primitives.primitive import Primitive
from schedlang.state.primitives.refusal import refuse
from schedlang.state.state import FRAGMENTS, SCOPES, Inline, Result, Stage, State

WIDEST = 1 << 16
# each swizzle may be read in two directions; more than a few have no use
MOST_READINGS = 256
# a block has at most 227 KiB of shared memory, and a tile is rarely below 4
MOST_STAGES = 64
ROWS = "whose rows are stored one after another"
TRANSFORM = "Transform a stage that its update reads."


def set_scope(state: State, stage: Stage, scope: str) -> Result:
    scope = checked_scope(scope)
    _check_not_part(state, stage, f'set_scope("{scope}")')
    if state.is_output(stage) and scope != "global":
        hint = f"Compute it in {scope!r} first: s.cache_write({stage.name}, {scope!r})."
        if stage.is_scan:
            # its steps read earlier rows back from the result, which cache_write refuses
            hint = "Leave it there, or make a stage that reads it the output."
        refuse(f"{stage.name} is an output, which is stored in global memory", hint)
    return state.updated(stage.with_(scope=scope)), None


def _check_not_part(state: State, stage: Stage, instead: str = "") -> None:
    """Refuse to store the first rows or the steps of a scan apart from the scan's states."""
    part = scan_of_part(state, stage)
    if part is None:
        return
    scan, role = part
    what = "first rows" if role == "init" else "steps"
    hint = "Choose a stage that it reads."
    if instead and not state.is_output(scan):
        hint = f"Call {subscript(scan.name)}.{instead}."
    refuse(f"{stage.name} computes the {what} of scan {scan.name}, which stores them", hint)


def checked_scope(scope: Any) -> str:
    """Return a scope by our name; te has a name for each operand in fragments."""
    if not isinstance(scope, str) or scope not in (*SCOPES, *FRAGMENTS):
        refuse(f"{scope!r} is not a scope", f"Choose one of {', '.join(SCOPES)}.")
    return scope if scope in SCOPES else FRAGMENT


def storage_align(state: State, stage: Stage, axis: Axis, factor: Any, offset: Any = 0) -> Result:
    _check_not_part(state, stage)
    if stage.is_scan:
        refuse(f"{stage.name} is a scan, {ROWS}", "Align a stage that its update reads.")
    if not any(a is axis for a in stage.op.axis):
        hint = f"Its dimensions: {names(stage.op.axis) or 'none'}."
        refuse(f"{text_of(axis)} is not a dimension of {stage.name}", hint)
    unit, shift = count(factor, "factor"), count(offset, "offset", 0)
    if shift >= unit:
        refuse(f"offset {shift} is not less than factor {unit}", "Use a smaller offset.")
    if unit > WIDEST:
        refuse(
            f"strides that are multiples of {unit} elements would waste memory",
            f"Use a factor of {WIDEST} or less.",
        )
    if state.is_output(stage):
        refuse(
            f"{stage.name} is an output, whose layout the caller chooses",
            "Align an intermediate stage, or one made by cache_read or cache_write.",
        )
    for reader in state.extern_readers(stage):
        if isinstance(reader.op, ExternOp) and reader.op.function.kind == LOOPS:
            refuse(
                f"{reader.op.function.name} reads {stage.name} without gaps between its rows",
                "Align a stage that no program of te reads.",
            )
    whole = whole_dims(stage.layout, len(stage.op.axis))
    if stage.layout and whole[_position(stage, axis)] is None:
        refuse(
            f"transform_layout divided {axis.name}, so {axis.name} is not a dimension in memory",
            f"Align an undivided dimension, or keep {axis.name} whole in transform_layout.",
        )
    align = {**stage.align, axis: (unit, shift)}
    return state.updated(stage.with_(align=align)), None


def _position(stage: Stage, axis: Axis) -> int:
    return next(k for k, a in enumerate(stage.op.axis) if a is axis)


def transform_layout(state: State, stage: Stage, indices: tuple[Any, ...]) -> Result:
    axes = stage.op.axis
    _check_not_part(state, stage)
    if stage.is_scan:
        refuse(f"{stage.name} is a scan, {ROWS}", TRANSFORM)
    if state.is_output(stage):
        refuse(
            f"{stage.name} is an output, whose layout the caller chooses",
            "Transform an intermediate stage, or one made by cache_read or cache_write. For an "
            f"array of another shape, call s.transform_argument({stage.name}, index_map).",
        )
    reader = state.extern_reader(stage)
    if stage.is_extern or reader is not None:
        refuse(
            f"a function of yours {'reads' if reader else 'computes'} {stage.name} as an array, "
            "whose dimensions it knows",
            "Keep the layout here; a stage that copies it can have another one.",
        )
    if not isinstance(indices, tuple):
        refuse(
            f"the indices are {text_of(indices)}, but must be a tuple of expressions",
            f"Write them over the dimensions: {names(axes) or 'none'}.",
        )
    parts = _layout_of(indices, axes)
    extents = stored_extents(parts, [to_lin(a.extent) for a in axes], Ranges())
    stored = prod(e.const for e in extents if e.const is not None)
    if stored >= LARGEST_BYTES // 8:
        refuse(
            f"it would store {stored} elements, whose offsets overflow 64-bit integers",
            "Use smaller constants, or a smaller tensor.",
        )
    if stage.layout:
        refuse(f"{stage.name} has another layout already", "Join the two steps.")
    if stage.align:
        refuse(
            f"{stage.name} has a storage_align, which applies to its present dimensions",
            "Transform the layout first, then align one of the new dimensions.",
        )
    return state.updated(stage.with_(layout=parts)), None


def _layout_of(indices: tuple[Any, ...], axes: Sequence[Axis]) -> Layout:
    """Return the layout with these indices; refuse those that do not tell elements apart."""
    choices: list[list[Part]] = []
    for index in indices:
        parts = choices_of(index, axes) if isinstance(index, Expr) else []
        if not parts:
            refuse(
                f"{text_of(index)} is not a part of one dimension",
                f"Use a dimension d ({names(axes)}), d//n or d%n, where n is a constant, or the "
                "exclusive or of two such parts, d%n ^ e%n.",
            )
        largest = max(max(part.divisor, part.modulus) for part in parts)
        if largest > WIDEST:
            refuse(
                f"parts of {largest} elements would waste memory",
                f"Use constants of {WIDEST} or less.",
            )
        choices.append(parts)
    layouts = list(islice(product(*choices), MOST_READINGS))
    layout = next((x for x in layouts if incomplete(x, len(axes)) is None), layouts[0])
    missing = incomplete(layout, len(axes))
    if missing is not None:
        name = axes[missing].name
        refuse(
            f"its parts of {name} do not tell each value of {name} exactly once",
            f"Use {name} itself, or {name}//n and {name}%n with the same n.",
        )
    for index, part in zip(indices, layout):
        if part.swizzle is not None:
            _check_swizzle(index, part, layout, axes)
    return layout


def _check_swizzle(index: Expr, part: Part, layout: Layout, axes: Sequence[Axis]) -> None:
    """Refuse a swizzle that leaves the range of its part, or that no other part determines."""
    assert part.swizzle is not None
    name, by = axes[part.dim].name, axes[part.swizzle.dim].name
    if not part.modulus or part.modulus & (part.modulus - 1):
        refuse(
            f"{text_of(index)} is a swizzle of {name}, whose values it keeps below a power of two",
            f"Write {name}//n and ({name}%n) ^ ({by}%n), where n is a power of two.",
        )
    if not part.swizzle.modulus or part.swizzle.modulus > part.modulus:
        refuse(
            f"in {text_of(index)}, the part of {by} can be {part.modulus} or more, which moves "
            f"elements out of the {part.modulus} of {name}",
            f"Take the part of {by} % {part.modulus}, or a smaller number.",
        )
    if source_of(part.swizzle, layout) is None:
        refuse(
            f"in {text_of(index)}, no other index tells the part of {by}",
            f"Keep {by} whole or in parts that hold it, and out of other swizzles.",
        )


def double_buffer(state: State, stage: Stage) -> Result:
    _check_not_part(state, stage, "double_buffer()")
    if state.is_output(stage):
        refuse(
            f"{stage.name} is an output, which the caller allocates",
            "Double-buffer a stage that is computed inside a loop.",
        )
    if isinstance(stage.attach, Inline):
        refuse(
            f"{stage.name} is inlined and has no buffer",
            f"Call {subscript(stage.name)}.compute_root() or compute_at first.",
        )
    if stage.pipeline:
        refuse(f"{stage.name} has a pipeline, which keeps copies, too", "Leave out one of the two.")
    return state.updated(stage.with_(double_buffer=True)), None


def pipeline(state: State, stage: Stage, stages: Any) -> Result:
    copies = count(stages, "stages", 2)
    _check_not_part(state, stage)
    if copies > MOST_STAGES:
        refuse(
            f"{copies} stages are {copies} copies of {stage.name} in shared memory",
            f"Choose {MOST_STAGES} or fewer; 2 to 5 are usual.",
        )
    if stage.double_buffer:
        refuse(
            f"{stage.name} has a double buffer, which keeps copies, too",
            "Leave out one of the two.",
        )
    if state.is_output(stage):
        refuse(
            f"{stage.name} is an output, which the caller allocates",
            "Choose a stage that copies an input inside a loop (cache_read).",
        )
    if isinstance(stage.attach, Inline):
        refuse(
            f"{stage.name} is inlined and has no buffer",
            f"Call {subscript(stage.name)}.compute_root() or compute_at first.",
        )
    body = stage.op.body if isinstance(stage.op, ComputeOp) else ()
    if not body or not all(isinstance(value, Read) for value in body):
        refuse(
            f"{stage.name} computes its elements, and the hardware can only copy them",
            f"Choose a stage that copies a tensor which {stage.name} reads (cache_read).",
        )
    return state.updated(stage.with_(pipeline=copies)), None


def set_store_predicate(state: State, stage: Stage, predicate: Any) -> Result:
    try:
        cond = as_expr(predicate)
    except SchedlangError:
        refuse(f"{text_of(predicate)} is not an expression", "Compare axes, e.g. tx == 0.")
    if cond.dtype != "bool":
        refuse(f"a predicate is bool, not {cond.dtype}", "Write a comparison, e.g. tx == 0.")
    if stage.is_scan or stage.is_extern or isinstance(stage.attach, Inline):
        what = "a scan" if stage.is_scan else "a call" if stage.is_extern else "inlined"
        refuse(
            f"{stage.name} is {what} and stores nothing itself",
            "Set the predicate on a stage that stores its elements.",
        )
    if isinstance(stage.op, ComputeOp) and stage.op.destination is not None:
        refuse(
            f"{stage.name} is a scatter, whose updates are needed wherever they go",
            "Leave updates out with where=... of sl.scatter.",
        )
    own, sizes = {*stage.leaf, *stage.roots}, variables(state.outputs)
    for node in postorder([cond]):
        if isinstance(node, Read):
            refuse(
                f"it reads {node.tensor.name}, but a predicate may use only loops and threads",
                "Write conditions on values in the computation, with sl.select.",
            )
        if isinstance(node, Axis) and not node.tag and node not in own:
            refuse(
                f"{node.name} is neither a loop of {stage.name} nor a thread axis",
                f"The loops of {stage.name}: {names(stage.leaf)}.",
            )
        if isinstance(node, Var) and not any(v is node for v in sizes):
            refuse(
                f"{node.name} is not a size of this computation",
                f"Use its sizes ({names(sizes) or 'it has none'}), loops and thread axes.",
            )
    return state.updated(stage.with_(predicate=cond)), None


PRIMITIVES = {
    "set_scope": Primitive(set_scope, keeps_loops=True),
    "storage_align": Primitive(storage_align, keeps_loops=True),
    "transform_layout": Primitive(transform_layout, keeps_loops=True),
    "double_buffer": Primitive(double_buffer, keeps_loops=True),
    "pipeline": Primitive(pipeline, keeps_loops=True),
    "set_store_predicate": Primitive(set_store_predicate, keeps_loops=True),
}
