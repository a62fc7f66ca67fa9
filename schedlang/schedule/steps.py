"""Schedule steps as data: recorded, replayed, written as JSON or as Python.

A step names its axes by stage, name and position among the loops, so it means the same thing on
any schedule of an equal computation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from schedlang.compute.data import expr_from_data, expr_to_data
from schedlang.compute.graph import placeholders, variables
from schedlang.compute.tensor import ScanOp, Tensor
from schedlang.errors import ScheduleError
from schedlang.expr.nodes import Axis, Expr
from schedlang.expr.visit import postorder
from schedlang.instructions.declaration import Instruction
from schedlang.ir.findings import Findings
from schedlang.schedule.attached_cuts import check_attached_cuts
from schedlang.schedule.call_text import call_text
from schedlang.schedule.instruction_checks import check_instruction
from schedlang.schedule.refuse import refuse
from schedlang.state.primitives.arguments import names, text_of
from schedlang.state.primitives.refusal import Refusal
from schedlang.state.primitives.table import PRIMITIVES
from schedlang.state.state import TENSORIZE, THREADS, Stage, State
from schedlang.state.thread_axis import thread_axis

FORMAT = 1


@dataclass(frozen=True)
class Step:
    """One recorded call: the primitive, the stage ("" for the schedule), and the arguments.

    ``args`` holds JSON values, see :func:`encode`, and the instructions of ``tensorize``.
    """

    primitive: str
    stage: str
    args: Mapping[str, Any]


def perform(
    state: State, primitive: str, stage: str, args: Mapping[str, Any], findings: Findings
) -> tuple[State, Any]:
    """Return the state after one step, and the result of the call.

    A refusal is raised with the text of the call and the loop nest at fault. ``findings`` are
    about other schedules of the computation.
    """
    if primitive not in PRIMITIVES:
        raise ScheduleError(
            f"{text_of(primitive)} is not a primitive; choose one of {', '.join(PRIMITIVES)}"
        )
    row = PRIMITIVES[primitive]
    own = () if row.on_schedule else (state.stages[stage],)
    try:
        after, result = row.apply(state, *own, **args)
        check_attached_cuts(state, after, primitive, stage, args, findings)
        if primitive == TENSORIZE:
            check_instruction(state, after, stage, args["axis"])
        return after, result
    except Refusal as error:
        refusal = error
    asked = call_text(primitive, stage, args)
    refuse(asked, refusal.why, refusal.hint, refusal.state, refusal.axis, refusal.beside)


def encode(state: State, value: Any, near: Sequence[str] = ()) -> Any:
    """Return an argument as JSON: axes, tensors, stages and predicates become tagged records.

    ``near`` names the stages whose axes are tried first.
    """
    if isinstance(value, Axis):
        return _encode_axis(state, value, near)
    if isinstance(value, Tensor):
        return _encode_tensor(state, value)
    if isinstance(value, Stage):
        return {"stage": value.name}
    if isinstance(value, Expr):
        leaves = _leaf_names(state)
        leaves |= {a: a.tag for a in postorder([value]) if isinstance(a, Axis) and a.tag}
        return {"expr": expr_to_data(value, leaves)}
    if isinstance(value, (tuple, list)):
        return [encode(state, v, near) for v in value]
    if hasattr(value, "__index__") and not isinstance(value, bool):
        return int(value)
    return value


def _encode_axis(state: State, axis: Axis, near: Sequence[str]) -> dict[str, Any] | str:
    close = [state.stages[n] for n in near if n in state.stages]
    for stage in chain(close, state.stages.values()):
        for position, leaf in enumerate(stage.leaf):
            if leaf is axis:
                return {"axis": axis.name, "stage": stage.name, "loop": position}
        for position, dim in enumerate(stage.op.axis):
            if dim is axis:
                return {"axis": axis.name, "stage": stage.name, "dim": position}
    return axis.tag


def _encode_tensor(state: State, tensor: Tensor) -> dict[str, Any]:
    stage = state.of(tensor)
    if stage is not None:
        return {"tensor": tensor.name, "stage": stage.name, "output": tensor.value_index}
    return {"tensor": tensor.name, "input": inputs(state).index(tensor)}


def inputs(state: State) -> list[Tensor]:
    """Return the placeholders, then the states of scans: all inputs that a step may name."""
    scans = [s.op for s in state.stages.values() if isinstance(s.op, ScanOp)]
    return [*placeholders(state.outputs), *(t for op in scans for t in op.state)]


def _leaf_names(state: State) -> dict[Expr, str]:
    """Return names for the leaves of a predicate: sizes, and axes as ``stage/position``."""
    leaf_names: dict[Expr, str] = {}
    for stage in state.stages.values():
        for position, axis in enumerate(stage.leaf):
            leaf_names[axis] = f"{stage.name}/{position}"
        for position, axis in enumerate(stage.roots):
            leaf_names.setdefault(axis, f"{stage.name}/root{position}")
    return leaf_names | {v: f"size {v.name}" for v in variables(state.outputs)}


def decode(state: State, value: Any) -> Any:
    """Return the argument that :func:`encode` wrote; raise if it does not fit ``state``."""
    if isinstance(value, list) and not any(isinstance(v, list) for v in value):
        return tuple(decode(state, v) for v in value)
    if value is None or isinstance(value, (bool, int, float, str, Instruction)):
        return value
    if not isinstance(value, dict):
        raise ScheduleError("an argument is a nested list, which no primitive takes")
    if "axis" in value:
        return _decode_axis(state, value)
    if "tensor" in value:
        return _decode_tensor(state, value)
    if set(value) == {"stage"}:
        return _stage(state, value["stage"])
    if set(value) == {"expr"}:
        leaves: dict[str, Any] = {n: a for a, n in _leaf_names(state).items()}
        leaves |= {tag: thread_axis(tag) for tag in THREADS}
        return expr_from_data(value["expr"], leaves)
    raise ScheduleError(f"{text_of(value)} is not an argument of a primitive")


def _stage(state: State, name: Any) -> Stage:
    if not isinstance(name, str) or name not in state.stages:
        raise ScheduleError(
            f"there is no stage {text_of(name)}; the stages are {', '.join(state.stages)}"
        )
    return state.stages[name]


def _decode_axis(state: State, value: dict[str, Any]) -> Axis:
    stage = _stage(state, value.get("stage"))
    axes = stage.leaf if "loop" in value else stage.op.axis
    position = value.get("loop", value.get("dim"))
    if type(position) is not int or not 0 <= position < len(axes):
        raise ScheduleError(
            f"there is no axis {text_of(position)} of {stage.name}, whose axes are {names(axes)}"
        )
    axis = axes[position]
    if axis.name != value["axis"]:
        raise ScheduleError(
            f"axis {position} of {stage.name} is {axis.name}, not {text_of(value['axis'])}"
        )
    return axis


def _decode_tensor(state: State, value: dict[str, Any]) -> Tensor:
    if "input" in value:
        tensors: Any = inputs(state)
        position = value["input"]
    else:
        tensors = _stage(state, value.get("stage")).outputs
        position = value.get("output")
    name, whole = text_of(value["tensor"]), type(position) is int
    if not whole or not 0 <= position < len(tensors):
        raise ScheduleError(f"there is no tensor {name} at position {text_of(position)}")
    tensor: Tensor = tensors[position]
    if tensor.name != value["tensor"]:
        raise ScheduleError(f"the tensor at position {position} is {tensor.name}, not {name}")
    return tensor
