"""Primitives that give a loop its kind: vectorize, unroll, parallel, bind, pragma, prefetch."""

from __future__ import annotations

from typing import Any

from schedlang.compute.tensor import Tensor
from schedlang.expr.nodes import Axis, Expr
from schedlang.schedule.loops import Result
from schedlang.schedule.refuse import leaf_position, plain, refuse
from schedlang.stage.state import THREADS, Prefetch, Stage, State

MOST_UNROLLED = 4096


def _kind(state: State, stage: Stage, axis: Axis, kind: str, asked: str) -> Result:
    leaf_position(state, stage, axis, asked)
    if stage.kinds.get(axis) is not None:
        plain(state, stage, axis, asked)
    return state.updated(stage.with_(kinds={**stage.kinds, axis: kind})), None


def _asked(primitive: str, stage: Stage, axis: Any, more: str = "") -> str:
    return f"{primitive}({getattr(axis, 'name', repr(axis))}{more}) on stage {stage.name}"


def _refuse_reduction(state: State, stage: Stage, axis: Axis, asked: str, what: str) -> None:
    if axis.kind == "scan":
        refuse(asked, f"{axis.name} is a scan's time axis, whose steps follow one another")
    if not axis.is_reduce:
        return
    data = ", ".join(a.name for a in stage.leaf if not a.is_reduce) or "there is none"
    refuse(
        asked, f"{axis.name} is a reduction axis, so all its {what} would add into the same element.",
        f"Use a data axis instead ({data}), or make partial sums first:\n"
        f"    {stage.name}F = s.rfactor({stage.name}, {axis.name.replace('.', '_')})",
        state, axis,
    )  # fmt: skip


def _refuse_symbolic(state: State, stage: Stage, axis: Axis, asked: str, does: str) -> None:
    if isinstance(axis.extent, Expr):
        refuse(
            asked, f"the extent of {axis.name}, {axis.extent}, is known at the call only, {does}",
            f"Split it first: outer, inner = s[{stage.name}].split({axis.name}, factor=8).",
            state, axis,
        )  # fmt: skip


def vectorize(state: State, stage: Stage, axis: Axis) -> Result:
    asked = _asked("vectorize", stage, axis)
    leaf_position(state, stage, axis, asked)
    _refuse_reduction(state, stage, axis, asked, "lanes")
    _refuse_symbolic(state, stage, axis, asked, "and a vector has a fixed number of lanes")
    held = next((s for s in state.stages.values() if getattr(s.attach, "axis", None) is axis), None)
    if held is not None:
        refuse(asked, f"stage {held.name} is computed at {axis.name} and has no storage a lane")
    return _kind(state, stage, axis, "vectorize", asked)


def unroll(state: State, stage: Stage, axis: Axis) -> Result:
    asked = _asked("unroll", stage, axis)
    leaf_position(state, stage, axis, asked)
    _refuse_symbolic(state, stage, axis, asked, "and an unrolled loop is written out")
    if axis.kind == "scan":
        refuse(asked, f"{axis.name} is a scan's time axis")
    if isinstance(axis.extent, int) and axis.extent > MOST_UNROLLED:
        refuse(
            asked, f"{axis.extent} copies of the body would not compile in reasonable time",
            "Split it and unroll the inner part.", state, axis,
        )  # fmt: skip
    return _kind(state, stage, axis, "unroll", asked)


def parallel(state: State, stage: Stage, axis: Axis) -> Result:
    asked = _asked("parallel", stage, axis)
    leaf_position(state, stage, axis, asked)
    _refuse_reduction(state, stage, axis, asked, "iterations")
    return _kind(state, stage, axis, "parallel", asked)


def bind(state: State, stage: Stage, axis: Axis, thread: Any) -> Result:
    tag = thread.tag if isinstance(thread, Axis) else thread
    asked = _asked("bind", stage, axis, f", {tag!r}")
    leaf_position(state, stage, axis, asked)
    if tag not in THREADS and tag != "vthread":
        refuse(asked, f"{tag!r} is no thread", f"Choose one of {', '.join(THREADS)}, vthread.")
    if axis.is_reduce and not str(tag).startswith("threadIdx"):
        _refuse_reduction(state, stage, axis, asked, "iterations")
    if axis.kind == "scan":
        refuse(asked, f"{axis.name} is a scan's time axis, whose steps follow one another")
    other = next((a for a, k in stage.kinds.items() if k == tag and tag != "vthread"), None)
    if other is not None and other is not axis:
        refuse(asked, f"{other.name} of this stage is bound to {tag} already", "", state, axis)
    if isinstance(thread, Axis) and isinstance(thread.extent, int) and thread.extent > 0:
        if isinstance(axis.extent, int) and axis.extent != thread.extent:
            refuse(
                asked, f"{axis.name} has {axis.extent} iterations and {tag} {thread.extent} threads",
                f"Split by nparts={thread.extent} or factor={thread.extent}.", state, axis,
            )  # fmt: skip
    return _kind(state, stage, axis, str(tag), asked)


def pragma(state: State, stage: Stage, axis: Axis, name: str, value: Any = None) -> Result:
    asked = _asked("pragma", stage, axis, f", {name!r}")
    leaf_position(state, stage, axis, asked)
    if not isinstance(name, str) or not name.replace("_", "").replace(".", "").isalnum():
        refuse(asked, "a pragma's name is made of letters, digits and _")
    if not isinstance(value, (type(None), bool, int, float, str)):
        refuse(asked, f"the value {value!r} is neither a number nor a string")
    return state.updated(stage.with_(pragmas=(*stage.pragmas, (axis, name, value)))), None


def prefetch(state: State, stage: Stage, tensor: Tensor, axis: Axis, offset: Any) -> Result:
    asked = f"prefetch({getattr(tensor, 'name', tensor)}, {getattr(axis, 'name', axis)}, {offset})"
    asked = f"{asked} on stage {stage.name}"
    leaf_position(state, stage, axis, asked)
    if tensor not in stage.op.input_tensors:
        read = ", ".join(t.name for t in stage.op.input_tensors) or "nothing"
        refuse(asked, f"{stage.name} does not read it", f"It reads {read}.")
    if isinstance(offset, bool) or not hasattr(offset, "__index__") or int(offset) < 0:
        refuse(asked, f"the offset {offset!r} is no count of iterations ahead")
    hint = Prefetch(tensor, axis, int(offset))
    return state.updated(stage.with_(prefetches=(*stage.prefetches, hint))), None
