"""Recorded steps as JSON and as Python to paste."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from schedlang.compute.tensor import ComputeOp
from schedlang.errors import ScheduleError
from schedlang.schedule.dataflow import visible
from schedlang.schedule.steps import FORMAT, ON_SCHEDULE, PRIMITIVES, Step
from schedlang.stage.state import State

KEYWORDS = ("factor", "nparts", "tail", "factor_axis", "x_factor", "y_factor")


def to_json(steps: Sequence[Step]) -> str:
    """``steps`` as one JSON object: a format number and the list of calls."""
    listed = [{"primitive": s.primitive, "stage": s.stage, "args": s.args} for s in steps]
    return json.dumps({"schedlang": FORMAT, "steps": listed})


def from_json(text: str) -> list[Step]:
    """The steps in ``text``, checked for form; what they name is checked when they are replayed."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError, TypeError) as error:
        raise ScheduleError(f"this is no schedule in JSON: {error}") from None
    if not isinstance(data, dict) or data.get("schedlang") != FORMAT:
        raise ScheduleError(f"this is no schedule of format {FORMAT}")
    steps = data.get("steps")
    if not isinstance(steps, list):
        raise ScheduleError("a schedule holds a list of steps")
    return [_step(k, item) for k, item in enumerate(steps)]


def _step(position: int, item: Any) -> Step:
    where = f"step {position}"
    if not isinstance(item, dict) or set(item) != {"primitive", "stage", "args"}:
        raise ScheduleError(f"{where} is not of the form primitive, stage, args")
    primitive, stage, args = item["primitive"], item["stage"], item["args"]
    if primitive not in PRIMITIVES:
        raise ScheduleError(f"{where} names {primitive!r}, which is no primitive")
    if not isinstance(stage, str) or not isinstance(args, dict):
        raise ScheduleError(f"{where}: stage is a name and args an object")
    if not all(isinstance(k, str) and k.isidentifier() and k not in ("state", "stage") for k in args):
        raise ScheduleError(f"{where} has an argument that {primitive} does not take")
    return Step(primitive, stage, args)


def as_python(start: State, states: Sequence[State], steps: Sequence[Step]) -> str:
    """Statements that make the schedule again, where the tensors are bound to their names."""
    writer = _Writer(start)
    for step, before, after in zip(steps, [start, *states], states):
        writer.write(step, before, after)
    return "\n".join(writer.lines) + "\n"


class _Writer:
    """Collects statements and the variable names they have bound."""

    def __init__(self, start: State) -> None:
        outputs = [self._identifier(t.name) for t in start.outputs]
        given = outputs[0] if len(outputs) == 1 else f"[{', '.join(outputs)}]"
        self.lines = [f"s = sl.schedule({given})"]
        self.taken: set[str] = {"s", "sl"}
        self.tensors: dict[str, str] = {}
        self.axes: dict[Any, str] = {}
        names = [s.op.name for s in start.stages.values()]
        for name, stage in start.stages.items():
            bound = stage.op.name == name == stage.outputs[0].name
            known = bound and names.count(name) == 1 and "." not in name
            self.tensors[name] = name if known else ""
        self.taken |= {n for n in self.tensors.values() if n}

    @staticmethod
    def _identifier(name: str) -> str:
        return re.sub(r"\W", "_", name)

    def _fresh(self, base: str) -> str:
        name, count = self._identifier(base), 0
        while name in self.taken:
            count += 1
            name = f"{self._identifier(base)}_{count}"
        self.taken.add(name)
        return name

    def _tensor(self, stage: str) -> str:
        if not self.tensors.get(stage):
            self.tensors[stage] = self._fresh(stage)
            self.lines.append(f"{self.tensors[stage]} = s.tensor({stage!r})")
        return self.tensors[stage]

    def _axis(self, state: State, ref: Mapping[str, Any]) -> str:
        stage = state.stages[ref["stage"]]
        axes = stage.leaf if "loop" in ref else stage.op.axis
        axis = axes[ref.get("loop", ref.get("dim"))]
        if axis not in self.axes:
            self._bind_roots(state, ref["stage"])
        if axis not in self.axes:
            self.axes[axis] = f"s[{self._tensor(ref['stage'])}].leaf_axes[{ref['loop']}]"
        return self.axes[axis]

    def _bind_roots(self, state: State, stage: str) -> None:
        op, tensor = state.stages[stage].op, self._tensor(stage)
        fields = (("scan_axis", (op.scan_axis,)),) if state.stages[stage].is_scan else (
            ("axis", op.axis), ("reduce_axis", op.reduce_axis))  # fmt: skip
        for field, axes in fields:
            if not axes or all(a in self.axes for a in axes):
                continue
            for axis in axes:
                self.axes[axis] = self._fresh(axis.name)
            names = ", ".join(self.axes[a] for a in axes)
            comma = "," if len(axes) == 1 and field != "scan_axis" else ""
            self.lines.append(f"{names}{comma} = s[{tensor}].op.{field}")

    def _value(self, state: State, value: Any) -> str:
        if isinstance(value, list):
            return f"[{', '.join(self._value(state, v) for v in value)}]"
        if not isinstance(value, dict):
            return repr(value)
        if "thread" in value:
            return repr(value["thread"])
        if "axis" in value:
            return self._axis(state, value)
        if "input" in value:
            return self._identifier(value["tensor"])
        if "expr" in value:
            return f"s.expr({value['expr']!r})"
        tensor = self._tensor(value["stage"])
        if value.get("output"):
            return f"s.tensor({value['stage']!r}, {value['output']})"
        return tensor

    def write(self, step: Step, before: State, after: State) -> None:
        """One call, with the names of what it makes."""
        args = dict(step.args)
        listed = args.pop("axes", None) if step.primitive in ("fuse", "reorder") else None
        positional = [self._value(before, v) for v in (listed or ())]
        if step.primitive in ON_SCHEDULE or step.primitive in ("cache_write", "rfactor"):
            call = "s." + step.primitive
            if step.primitive != "cache_read":
                positional.insert(0, self._outputs(before, step.stage))
        else:
            call = f"s[{self._tensor(step.stage)}].{step.primitive}"
        for key, value in args.items():
            text = self._value(before, value)
            if value is None or (key == "tail" and value == "auto"):
                continue
            keyword = key in KEYWORDS and step.primitive != "storage_align"
            positional.append(f"{key}={text}" if keyword else text)
        self._emit(f"{call}({', '.join(positional)})", step, before, after)

    def _outputs(self, state: State, stage: str) -> str:
        return self._tensor(stage)

    def _emit(self, call: str, step: Step, before: State, after: State) -> None:
        new = [n for n in after.stages if n not in before.stages]
        if new:
            tensor = self._fresh(new[0])
            self.tensors[new[0]] = tensor
            several = step.primitive != "cache_read" and isinstance(_made(step, before, after), list)
            self.lines.append(f"{tensor}{', *_' if several else ''} = {call}")
            return
        if step.primitive in ("split", "fuse", "tile"):
            old = {a for s in before.stages.values() for a in s.leaf}
            made = [a for a in after.stages[step.stage].leaf if a not in old]
            for axis in made:
                self.axes[axis] = self._fresh(axis.name)
            if made:
                call = f"{', '.join(self.axes[a] for a in made)} = {call}"
        self.lines.append(call)


def _made(step: Step, before: State, after: State) -> Any:
    name = next(n for n in after.stages if n not in before.stages)
    op = after.stages[name].op
    assert isinstance(op, ComputeOp)
    return visible(before.stages[step.stage], op)
