"""Primitives about storage: set_scope, storage_align, double_buffer, set_store_predicate."""

from __future__ import annotations

from typing import Any

from schedlang.expr.nodes import Axis, Expr, Read, as_expr
from schedlang.expr.visit import postorder
from schedlang.schedule.loops import Result
from schedlang.schedule.refuse import refuse
from schedlang.stage.state import SCOPES, Inline, Stage, State


def set_scope(state: State, stage: Stage, scope: str) -> Result:
    asked = f"set_scope({scope!r}) on stage {stage.name}"
    check_scope(scope, asked)
    if state.is_output(stage) and scope != "global":
        refuse(asked, f"{stage.name} is an output, which lives in global memory")
    return state.updated(stage.with_(scope=scope)), None


def check_scope(scope: Any, asked: str) -> None:
    if scope not in SCOPES:
        refuse(asked, f"{scope!r} is no scope", f"Choose one of {', '.join(SCOPES)}.")


def storage_align(state: State, stage: Stage, axis: Axis, factor: Any, offset: Any = 0) -> Result:
    name = getattr(axis, "name", repr(axis))
    asked = f"storage_align({name}, {factor}, {offset}) on stage {stage.name}"
    if axis not in list(stage.op.axis):
        listed = ", ".join(a.name for a in stage.op.axis)
        refuse(asked, f"{name} is no dimension of {stage.name}", f"Its dimensions: {listed}.")
    for what, value, least in (("factor", factor, 1), ("offset", offset, 0)):
        if isinstance(value, bool) or not hasattr(value, "__index__") or int(value) < least:
            refuse(asked, f"{what} is {value!r}, and it is an integer of {least} or more")
    if int(offset) >= int(factor):
        refuse(asked, f"offset {offset} is not below factor {factor}")
    if state.is_output(stage):
        refuse(asked, f"{stage.name} is an output, whose layout is its caller's")
    align = {**stage.align, axis: (int(factor), int(offset))}
    return state.updated(stage.with_(align=align)), None


def double_buffer(state: State, stage: Stage) -> Result:
    asked = f"double_buffer() on stage {stage.name}"
    if state.is_output(stage):
        refuse(asked, f"{stage.name} is an output and has no second buffer")
    if isinstance(stage.attach, Inline):
        refuse(asked, f"{stage.name} is inlined and has no buffer")
    return state.updated(stage.with_(double_buffer=True)), None


def set_store_predicate(state: State, stage: Stage, predicate: Any) -> Result:
    asked = f"set_store_predicate({predicate}) on stage {stage.name}"
    cond = as_expr(predicate)
    if cond.dtype != "bool":
        refuse(asked, f"a predicate is bool, not {cond.dtype}", "Compare it, e.g. tx == 0.")
    own = {*stage.leaf, *stage.roots}
    for node in postorder([cond]):
        if isinstance(node, Read):
            refuse(asked, "a predicate may not read tensors")
        if isinstance(node, Axis) and not node.tag and node not in own:
            refuse(asked, f"{node.name} is neither an axis of {stage.name} nor a thread axis")
    assert isinstance(cond, Expr)
    return state.updated(stage.with_(predicate=cond)), None
