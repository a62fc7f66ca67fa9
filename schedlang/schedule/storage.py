"""Primitives about storage: scope, alignment, layout, a second buffer, a predicate on stores."""

from __future__ import annotations

import inspect
from math import prod
from typing import Any

from schedlang.compute.graph import variables
from schedlang.errors import SchedlangError
from schedlang.expr.construct import as_expr
from schedlang.expr.interval import Ranges
from schedlang.expr.nodes import Axis, Expr, Read, Var
from schedlang.expr.simplify import to_lin
from schedlang.expr.visit import postorder
from schedlang.ir.nodes import LARGEST
from schedlang.schedule.loops import Result
from schedlang.schedule.refuse import count, names, refuse, shown
from schedlang.stage.layout import Part, incomplete, part_of, stored_extents, whole_dims
from schedlang.stage.state import SCOPES, Inline, Stage, State

WIDEST = 1 << 16


def set_scope(state: State, stage: Stage, scope: str) -> Result:
    asked = f"set_scope({scope!r}) on stage {stage.name}"
    check_scope(scope, asked)
    if state.is_output(stage) and scope != "global":
        refuse(
            asked, f"{stage.name} is an output, which lives in global memory",
            f"Compute it elsewhere first: s.cache_write({stage.name}, {scope!r}).",
        )  # fmt: skip
    return state.updated(stage.with_(scope=scope)), None


def check_scope(scope: Any, asked: str) -> None:
    if not isinstance(scope, str) or scope not in SCOPES:
        refuse(asked, f"{scope!r} is no scope", f"Choose one of {', '.join(SCOPES)}.")


def storage_align(state: State, stage: Stage, axis: Axis, factor: Any, offset: Any = 0) -> Result:
    asked = f"storage_align({names((axis, factor, offset))}) on stage {stage.name}"
    if stage.is_scan:
        refuse(asked, f"{stage.name} is a scan, whose rows lie one after another")
    if not any(a is axis for a in stage.op.axis):
        hint = f"Its dimensions: {names(stage.op.axis) or 'none'}."
        refuse(asked, f"{shown(axis)} is no dimension of {stage.name}", hint)
    unit, shift = count(factor, "factor", asked), count(offset, "offset", asked, 0)
    if shift >= unit:
        refuse(asked, f"offset {shift} is not below factor {unit}")
    if unit > WIDEST:
        refuse(asked, f"rows a multiple of {unit} elements apart would waste their memory",
               f"Use a factor of {WIDEST} or less.")  # fmt: skip
    if state.is_output(stage):
        refuse(
            asked, f"{stage.name} is an output, whose layout is its caller's",
            "Align an intermediate stage, or one made by cache_read or cache_write.",
        )  # fmt: skip
    whole = whole_dims(stage.layout, len(stage.op.axis))
    if stage.layout and whole[_position(stage, axis)] is None:
        refuse(
            asked, f"transform_layout put {axis.name} in pieces: it is no dimension in memory",
            f"Align one that is whole there, or give transform_layout {axis.name} itself.",
        )  # fmt: skip
    align = {**stage.align, axis: (unit, shift)}
    return state.updated(stage.with_(align=align)), None


def _position(stage: Stage, axis: Axis) -> int:
    return next(k for k, a in enumerate(stage.op.axis) if a is axis)


def mapped(index_map: Any, stage: Stage) -> tuple[Any, ...]:
    """Return what ``index_map`` makes of the dimensions of ``stage``."""
    asked, axes = f"transform_layout(index_map) on stage {stage.name}", stage.op.axis
    if stage.is_scan:
        refuse(asked, f"{stage.name} is a scan, whose rows lie one after another")
    if not callable(index_map):
        refuse(asked, "an index map is a function", "Write e.g. lambda i, j: (j // 16, i, j % 16).")
    try:
        inspect.signature(index_map).bind(*axes)
    except TypeError:
        refuse(
            asked, f"it does not take the {len(axes)} dimensions of {stage.name}: "
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
        refuse(asked, f"{stage.name} is a scan, whose rows lie one after another")
    if state.is_output(stage):
        refuse(
            asked, f"{stage.name} is an output, whose layout is its caller's",
            "Change that of an intermediate stage, or of one made by cache_read or cache_write.",
        )  # fmt: skip
    parts: list[Part] = []
    if not isinstance(indices, tuple):
        refuse(asked, "indices are a list of expressions over its dimensions")
    for index in indices:
        part = part_of(index, axes) if isinstance(index, Expr) else None
        if part is None:
            refuse(
                asked, f"{shown(index)} is no part of a dimension",
                f"Use a dimension ({names(axes)}), d//n or d%n of one, with fixed n.",
            )  # fmt: skip
        if max(part.divisor, part.modulus) > WIDEST:
            refuse(asked, f"parts of {max(part.divisor, part.modulus)} elements would waste their "
                   "memory", f"Use numbers up to {WIDEST}.")  # fmt: skip
        parts.append(part)
    missing = incomplete(tuple(parts), len(axes))
    if missing is not None:
        name = axes[missing].name
        refuse(
            asked, f"the parts of {name} do not make up {name} again, each of its values once",
            f"Give {name} itself, or {name}//n and {name}%n with the same n.",
        )  # fmt: skip
    extents = stored_extents(tuple(parts), [to_lin(a.extent) for a in axes], Ranges())
    stored = prod(e.const for e in extents if e.const is not None)
    if stored >= LARGEST // 8:
        refuse(asked, f"{stored} elements would be stored, and their offsets overflow 64 bits")
    if stage.align:
        refuse(
            asked, f"{stage.name} has a storage_align, which is about its dimensions as they are",
            "Transform the layout first, and align a dimension of it then.",
        )  # fmt: skip
    return state.updated(stage.with_(layout=tuple(parts))), None


def double_buffer(state: State, stage: Stage) -> Result:
    asked = f"double_buffer() on stage {stage.name}"
    if state.is_output(stage):
        refuse(
            asked, f"{stage.name} is an output and has no second buffer",
            "Double-buffer a stage that is computed inside a loop.",
        )  # fmt: skip
    if isinstance(stage.attach, Inline):
        refuse(asked, f"{stage.name} is inlined and has no buffer")
    return state.updated(stage.with_(double_buffer=True)), None


def set_store_predicate(state: State, stage: Stage, predicate: Any) -> Result:
    asked = f"set_store_predicate({shown(predicate)}) on stage {stage.name}"
    try:
        cond = as_expr(predicate)
    except SchedlangError:
        refuse(asked, f"{shown(predicate)} is no expression", "Compare axes, e.g. tx == 0.")
    if cond.dtype != "bool":
        refuse(asked, f"a predicate is bool, not {cond.dtype}", "Compare it, e.g. tx == 0.")
    if stage.is_scan or isinstance(stage.attach, Inline):
        what = "a scan" if stage.is_scan else "inlined"
        refuse(asked, f"{stage.name} is {what} and has no store of its own")
    own, sizes = {*stage.leaf, *stage.roots}, variables(state.outputs)
    for node in postorder([cond]):
        if isinstance(node, Read):
            refuse(
                asked, f"it reads {node.tensor.name}, and a predicate is about loops and threads",
                "Put conditions on values into the computation, with sl.select.",
            )  # fmt: skip
        if isinstance(node, Axis) and not node.tag and node not in own:
            refuse(
                asked, f"{node.name} is neither a loop of {stage.name} nor a thread axis",
                f"The loops of {stage.name}: {names(stage.leaf)}.",
            )  # fmt: skip
        if isinstance(node, Var) and not any(v is node for v in sizes):
            refuse(asked, f"{node.name} is no size of this computation")
    return state.updated(stage.with_(predicate=cond)), None
