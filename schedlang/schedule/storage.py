"""Primitives on storage: scope, alignment, layout, double buffering, store predicates."""

from __future__ import annotations

import inspect
from math import prod
from typing import Any

from schedlang.compute.graph import variables
from schedlang.compute.read import Read
from schedlang.errors import SchedlangError, subscript
from schedlang.expr.construct import as_expr
from schedlang.expr.interval import Ranges
from schedlang.expr.nodes import Axis, Expr, Var
from schedlang.expr.simplify import to_lin
from schedlang.expr.visit import postorder
from schedlang.ir.nodes import LARGEST
from schedlang.schedule.loops import Result
from schedlang.schedule.refuse import count, names, refuse, shown
from schedlang.stage.layout import Part, incomplete, part_of, stored_extents, whole_dims
from schedlang.stage.state import SCOPES, Inline, Stage, State

WIDEST = 1 << 16
ROWS = "whose rows are stored one after another"
TRANSFORM = "Transform a stage that its update reads."


def set_scope(state: State, stage: Stage, scope: str) -> Result:
    asked = f"set_scope({scope!r}) on stage {stage.name}"
    check_scope(scope, asked)
    if state.is_output(stage) and scope != "global":
        refuse(
            asked, f"{stage.name} is an output, which is stored in global memory",
            f"Compute it in {scope!r} first: s.cache_write({stage.name}, {scope!r}).",
        )  # fmt: skip
    return state.updated(stage.with_(scope=scope)), None


def check_scope(scope: Any, asked: str) -> None:
    if not isinstance(scope, str) or scope not in SCOPES:
        refuse(asked, f"{scope!r} is not a scope", f"Choose one of {', '.join(SCOPES)}.")


def storage_align(state: State, stage: Stage, axis: Axis, factor: Any, offset: Any = 0) -> Result:
    asked = f"storage_align({names((axis, factor, offset))}) on stage {stage.name}"
    if stage.is_scan:
        refuse(asked, f"{stage.name} is a scan, {ROWS}", "Align a stage that its update reads.")
    if not any(a is axis for a in stage.op.axis):
        hint = f"Its dimensions: {names(stage.op.axis) or 'none'}."
        refuse(asked, f"{shown(axis)} is not a dimension of {stage.name}", hint)
    unit, shift = count(factor, "factor", asked), count(offset, "offset", asked, 0)
    if shift >= unit:
        refuse(asked, f"offset {shift} is not less than factor {unit}", "Use a smaller offset.")
    if unit > WIDEST:
        refuse(asked, f"strides that are multiples of {unit} elements would waste memory",
               f"Use a factor of {WIDEST} or less.")  # fmt: skip
    if state.is_output(stage):
        refuse(
            asked, f"{stage.name} is an output, whose layout the caller chooses",
            "Align an intermediate stage, or one made by cache_read or cache_write.",
        )  # fmt: skip
    whole = whole_dims(stage.layout, len(stage.op.axis))
    if stage.layout and whole[_position(stage, axis)] is None:
        refuse(
            asked, f"transform_layout divided {axis.name}, so {axis.name} is no dimension in "
                   f"memory",
            f"Align an undivided dimension, or keep {axis.name} whole in transform_layout.",
        )  # fmt: skip
    align = {**stage.align, axis: (unit, shift)}
    return state.updated(stage.with_(align=align)), None


def _position(stage: Stage, axis: Axis) -> int:
    return next(k for k, a in enumerate(stage.op.axis) if a is axis)


def mapped(index_map: Any, stage: Stage) -> tuple[Any, ...]:
    """Return the indices that ``index_map`` returns for the dimensions of ``stage``."""
    asked, axes = f"transform_layout(index_map) on stage {stage.name}", stage.op.axis
    if stage.is_scan:
        refuse(asked, f"{stage.name} is a scan, {ROWS}", TRANSFORM)
    if not callable(index_map):
        hint = "Write e.g. lambda i, j: (j // 16, i, j % 16)."
        refuse(asked, f"the index map must be a function, not {shown(index_map)}", hint)
    try:
        inspect.signature(index_map).bind(*axes)
    except TypeError:
        refuse(
            asked, f"the index map must take the {len(axes)} dimensions of {stage.name}: "
            f"{names(axes) or 'none'}", f"Write lambda {names(axes)}: (...).",
        )  # fmt: skip
    made = index_map(*axes)
    return tuple(made) if isinstance(made, (tuple, list)) else (made,)


def transform_layout(state: State, stage: Stage, indices: tuple[Any, ...]) -> Result:
    axes = stage.op.axis
    listed = names(indices) if isinstance(indices, tuple) else shown(indices)
    comma = "," if isinstance(indices, tuple) and len(indices) == 1 else ""
    asked = f"transform_layout(({listed}{comma})) on stage {stage.name}"
    if stage.is_scan:
        refuse(asked, f"{stage.name} is a scan, {ROWS}", TRANSFORM)
    if state.is_output(stage):
        refuse(
            asked, f"{stage.name} is an output, whose layout the caller chooses",
            "Transform an intermediate stage, or one made by cache_read or cache_write.",
        )  # fmt: skip
    parts: list[Part] = []
    if not isinstance(indices, tuple):
        refuse(
            asked, f"the indices are {shown(indices)}, but must be a tuple of expressions",
            f"Write them over the dimensions: {names(axes) or 'none'}.",
        )  # fmt: skip
    for index in indices:
        part = part_of(index, axes) if isinstance(index, Expr) else None
        if part is None:
            refuse(
                asked, f"{shown(index)} is not a part of one dimension",
                f"Use a dimension d ({names(axes)}), d//n or d%n, where n is a constant.",
            )  # fmt: skip
        if max(part.divisor, part.modulus) > WIDEST:
            refuse(asked, f"parts of {max(part.divisor, part.modulus)} elements would waste "
                   "memory", f"Use constants of {WIDEST} or less.")  # fmt: skip
        parts.append(part)
    missing = incomplete(tuple(parts), len(axes))
    if missing is not None:
        name = axes[missing].name
        refuse(
            asked, f"its parts of {name} do not tell each value of {name} exactly once",
            f"Use {name} itself, or {name}//n and {name}%n with the same n.",
        )  # fmt: skip
    extents = stored_extents(tuple(parts), [to_lin(a.extent) for a in axes], Ranges())
    stored = prod(e.const for e in extents if e.const is not None)
    if stored >= LARGEST // 8:
        refuse(
            asked, f"it would store {stored} elements, whose offsets overflow 64-bit integers",
            "Use smaller constants, or a smaller tensor.",
        )  # fmt: skip
    if stage.align:
        refuse(
            asked, f"{stage.name} has a storage_align, which applies to its present dimensions",
            "Transform the layout first, then align one of the new dimensions.",
        )  # fmt: skip
    return state.updated(stage.with_(layout=tuple(parts))), None


def double_buffer(state: State, stage: Stage) -> Result:
    asked = f"double_buffer() on stage {stage.name}"
    if state.is_output(stage):
        refuse(
            asked, f"{stage.name} is an output, which the caller allocates",
            "Double-buffer a stage that is computed inside a loop.",
        )  # fmt: skip
    if isinstance(stage.attach, Inline):
        refuse(
            asked, f"{stage.name} is inlined and has no buffer",
            f"Call {subscript(stage.name)}.compute_root() or compute_at first.",
        )  # fmt: skip
    return state.updated(stage.with_(double_buffer=True)), None


def set_store_predicate(state: State, stage: Stage, predicate: Any) -> Result:
    asked = f"set_store_predicate({shown(predicate)}) on stage {stage.name}"
    try:
        cond = as_expr(predicate)
    except SchedlangError:
        refuse(asked, f"{shown(predicate)} is not an expression", "Compare axes, e.g. tx == 0.")
    if cond.dtype != "bool":
        refuse(asked, f"a predicate is bool, not {cond.dtype}", "Write a comparison, e.g. tx == 0.")
    if stage.is_scan or isinstance(stage.attach, Inline):
        what = "a scan" if stage.is_scan else "inlined"
        refuse(
            asked, f"{stage.name} is {what} and stores nothing itself",
            "Set the predicate on a stage that stores its elements.",
        )  # fmt: skip
    own, sizes = {*stage.leaf, *stage.roots}, variables(state.outputs)
    for node in postorder([cond]):
        if isinstance(node, Read):
            refuse(
                asked, f"it reads {node.tensor.name}, but a predicate may use only loops and "
                "threads", "Write conditions on values in the computation, with sl.select.",
            )  # fmt: skip
        if isinstance(node, Axis) and not node.tag and node not in own:
            refuse(
                asked, f"{node.name} is neither a loop of {stage.name} nor a thread axis",
                f"The loops of {stage.name}: {names(stage.leaf)}.",
            )  # fmt: skip
        if isinstance(node, Var) and not any(v is node for v in sizes):
            refuse(
                asked, f"{node.name} is not a size of this computation",
                f"Use its sizes ({names(sizes) or 'it has none'}), loops and thread axes.",
            )  # fmt: skip
    return state.updated(stage.with_(predicate=cond)), None
