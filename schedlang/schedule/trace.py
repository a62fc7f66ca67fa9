"""Recorded steps as JSON, and as Python statements."""

from __future__ import annotations

import json
import keyword
import re
from collections.abc import Mapping, Sequence
from typing import Any

from schedlang.compute.graph import placeholders
from schedlang.errors import ScheduleError
from schedlang.expr.nodes import Axis, Binary, Const, Expr, Unary
from schedlang.expr.printer import text
from schedlang.expr.visit import postorder
from schedlang.instructions.declaration import Instruction, declared_text
from schedlang.schedule.steps import FORMAT, Step, decode
from schedlang.state.primitives.argument_layout import dimensions
from schedlang.state.primitives.arguments import text_of
from schedlang.state.primitives.dataflow import visible
from schedlang.state.primitives.table import PRIMITIVES
from schedlang.state.state import IMPORTS, State


def to_json(steps: Sequence[Step]) -> str:
    """Return ``steps`` as one JSON object: a format number and the list of calls."""
    listed = [{"primitive": s.primitive, "stage": s.stage, "args": s.args} for s in steps]
    return json.dumps({"schedlang": FORMAT, "steps": listed}, allow_nan=False, default=_as_data)


def _as_data(value: object) -> dict[str, str]:
    """Return an instruction as data: its name, which a reader of the file looks up."""
    assert isinstance(value, Instruction)
    return {"instruction": value.name, "declares": declared_text(value)}


def with_instructions(args: Mapping[str, Any], given: Sequence[Instruction]) -> dict[str, Any]:
    """Return the arguments of a step from a file, with instructions of that name and meaning.

    They are among ``given`` and the instructions of :mod:`schedlang.instructions`.
    """
    return {
        key: _with_its_meaning(value, given)
        if isinstance(value, dict) and "instruction" in value
        else value
        for key, value in args.items()
    }


def _with_its_meaning(data: Mapping[str, Any], given: Sequence[Instruction]) -> Instruction:
    """Return the instruction that ``data`` names; raise where it computes something else."""
    name = data["instruction"]
    chosen = next((i for i in given if i.name == name), None) or _in_the_box(name)
    if chosen is None:
        raise ScheduleError(
            f"there is no instruction {text_of(name)}; give it, as in "
            "from_json(text, C, instructions=[...])"
        )
    declares = data.get("declares")
    if declared_text(chosen) != declares:
        shown = declares if isinstance(declares, str) and len(declares) < 500 else text_of(declares)
        raise ScheduleError(
            f"the instruction {name} computes {declared_text(chosen)}, and the schedule was "
            f"written for one that computes {shown}"
        )
    return chosen


def refuse_code(steps: Sequence[Step]) -> None:
    """Raise :class:`~schedlang.errors.ScheduleError` for steps of a file that bring code."""
    for position, step in enumerate(steps, 1):
        if step.primitive == "pragma" and step.args.get("name") in IMPORTS:
            raise ScheduleError(
                f"step {position}, pragma, cannot be replayed: {step.args['name']!r} brings code, "
                "and a schedule in a file is data; call the pragma in your program"
            )


def instructions_of(steps: Sequence[Step]) -> list[Instruction]:
    """Return the instructions of the user's in ``steps``, without schedlang's own."""
    own = [v for step in steps for v in step.args.values() if isinstance(v, Instruction)]
    return [i for i in own if i is not _in_the_box(i.name)]


def _in_the_box(name: Any) -> Instruction | None:
    """Return the instruction of schedlang's of a name, if there is one."""
    # most schedules have no instructions, which are tensors to define
    from schedlang.instructions.box import named

    return named(name) if isinstance(name, str) else None


def from_json(text: str | bytes) -> list[Step]:
    """Return the steps in ``text``, whose form is checked.

    The names in them are checked when the steps are replayed.
    """
    try:
        data = json.loads(text)
    except (ValueError, RecursionError, TypeError) as error:
        raise ScheduleError(f"the text is not a schedule in JSON: {error}") from None
    if not isinstance(data, dict) or set(data) != {"schedlang", "steps"}:
        raise ScheduleError(
            'the text is not a schedule: it must be an object of "schedlang" and "steps", as '
            "s.to_json() writes it"
        )
    if type(data["schedlang"]) is not int or data["schedlang"] != FORMAT:
        format_of_text = text_of(data["schedlang"])
        raise ScheduleError(
            f"the schedule has format {format_of_text}, but this version of schedlang reads format "
            f"{FORMAT}: write it again with s.to_json()"
        )
    steps = data["steps"]
    if not isinstance(steps, list):
        raise ScheduleError(f'the "steps" of a schedule must be a list, not {text_of(steps)}')
    return [_step(k, item) for k, item in enumerate(steps, 1)]


def _step(position: int, item: Any) -> Step:
    where = f"step {position}"
    if not isinstance(item, dict) or set(item) != {"primitive", "stage", "args"}:
        raise ScheduleError(f'{where} must be an object of "primitive", "stage" and "args"')
    primitive, stage, args = item["primitive"], item["stage"], item["args"]
    if not isinstance(primitive, str) or primitive not in PRIMITIVES:
        raise ScheduleError(
            f"{where}: {text_of(primitive)} is not a primitive; choose one of "
            f"{', '.join(PRIMITIVES)}"
        )
    if not isinstance(stage, str) or not isinstance(args, dict):
        raise ScheduleError(f'{where}, {primitive}: "stage" must be a name and "args" an object')
    row = PRIMITIVES[primitive]
    extra = next((a for a in args if a not in (*row.needed, *row.defaults)), None)
    missing = next((n for n in row.needed if n not in args), None)
    if extra is not None:
        raise ScheduleError(f"{where}, {primitive}, has no argument {text_of(extra)}")
    if missing is not None:
        raise ScheduleError(f"{where}, {primitive}, is missing its argument {missing!r}")
    return Step(primitive, stage, args)


def as_python(start: State, states: Sequence[State], steps: Sequence[Step]) -> str:
    """Return statements that rebuild the schedule, given each tensor in a variable of its name.

    In variable names, ``_`` replaces a dot; ``s``, ``sl`` and Python's keywords get a trailing
    ``_``. Outputs with equal names are numbered as in the printed nest. A stage that an operation
    on arrays named is asked of the schedule, and an input without a usable variable name of a stage
    that reads it.
    """
    return "\n".join(_written(start, states, steps)) + "\n"


def further_steps(start: State, states: Sequence[State], steps: Sequence[Step]) -> str:
    """Return statements that take ``steps`` on a schedule ``s`` whose state is ``start``.

    They name its axes anew, so that they depend on no variables but ``s`` and the tensors.
    """
    return "\n".join(_written(start, states, steps)[1:])


def variables_of(start: State) -> dict[Any, str]:
    """Return the variable that :func:`as_python` expects each tensor in, by tensor."""
    return dict(_Writer(start).tensors)


def _written(start: State, states: Sequence[State], steps: Sequence[Step]) -> list[str]:
    writer = _Writer(start)
    # no axis takes the variable of an instruction
    writer.taken |= {declared.name for declared in instructions_of(steps)}
    for step, before, after in zip(steps, [start, *states], states):
        writer.write(step, before, after)
    return writer.lines


def _identifier(name: str) -> str:
    plain = name if name.isascii() and name.isidentifier() else re.sub(r"\W", "_", name)
    return f"{plain}_" if keyword.iskeyword(plain) or plain in ("s", "sl") else plain


def _quoted(value: Any) -> str:
    if not isinstance(value, str):
        return repr(value)
    # characters that a terminal does not show, or obeys, are escaped
    return json.dumps(value, ensure_ascii=not value.isprintable())


def _listed(names: Sequence[str]) -> str:
    return f"({names[0]},)" if len(names) == 1 else ", ".join(names)


class _Writer:
    """The statements under construction, and the variable names they bind."""

    def __init__(self, start: State) -> None:
        self.taken: set[str] = {"s", "sl"}
        self.counts: dict[str, int] = {}
        self.axes: dict[Any, str] = {}
        self.threads: dict[str, str] = {}
        variables_of_tensors: dict[Any, str] = {}
        for tensor in placeholders(start.outputs):
            if tensor.name == _identifier(tensor.name) and tensor.name not in self.taken:
                variables_of_tensors[tensor] = self._fresh(tensor.name)
        for tensor in start.outputs:
            if tensor not in variables_of_tensors and tensor.name != "s":
                variables_of_tensors[tensor] = self._fresh(tensor.name)
        for tensor in start.defined:
            plain = tensor.name == tensor.op.name == _identifier(tensor.name)
            # no variable has the name that an operation on arrays chose
            plain = plain and not getattr(tensor.op, "automatic", False)
            if tensor not in variables_of_tensors and plain and tensor.name not in self.taken:
                variables_of_tensors[tensor] = self._fresh(tensor.name)
        self.tensors: dict[Any, str] = variables_of_tensors
        # a tensor named s can be used until this line rebinds s to the schedule
        outputs = [variables_of_tensors.get(t, "s") for t in start.outputs]
        self.lines = [f"s = sl.schedule({outputs[0] if len(outputs) == 1 else _list(outputs)})"]

    def _fresh(self, base: str, owner: str = "") -> str:
        """Return a free variable name.

        If ``base`` is taken, the name of an axis is prefixed by ``owner``.
        """
        plain = name = _identifier(base)
        if name in self.taken and owner:
            plain = name = f"{owner}_{name}"
        while name in self.taken:
            self.counts[plain] = self.counts.get(plain, 0) + 1
            name = f"{plain}_{self.counts[plain]}"
        self.taken.add(name)
        return name

    def _stage(self, state: State, name: str) -> str:
        """Return the variable of a tensor that denotes the stage."""
        for tensor in state.stages[name].outputs:
            if tensor in self.tensors:
                return self.tensors[tensor]
        return self._tensor(state, name, 0)

    def _tensor(self, state: State, stage: str, output: int) -> str:
        tensor = state.stages[stage].outputs[output]
        if tensor not in self.tensors:
            self.tensors[tensor] = self._fresh(tensor.name)
            which = _quoted(stage) if not output else f"{_quoted(stage)}, {output}"
            self.lines.append(f"{self.tensors[tensor]} = s.tensor({which})")
        return self.tensors[tensor]

    def _axis(self, state: State, stage: str, axis: Axis) -> str:
        if axis not in self.axes:
            self._bind(state, stage, axis)
        return self.axes[axis]

    def _bind(self, state: State, stage: str, axis: Axis) -> None:
        """Bind variables to the axes of ``stage``, which has ``axis`` among them."""
        op, tensor = state.stages[stage].op, self._stage(state, stage)
        if any(a is axis for a in state.stages[stage].roots if a.kind == "scan"):
            self.axes[axis] = self._fresh(axis.name, tensor)
            self.lines.append(f"{self.axes[axis]} = s[{tensor}].op.scan_axis")
            return
        for field, axes in (("axis", op.axis), ("reduce_axis", op.reduce_axis)):
            if any(a is axis for a in axes):
                self.axes.update((a, self._fresh(a.name, tensor)) for a in axes)
                bound = _listed([self.axes[a] for a in axes])
                self.lines.append(f"{bound} = s[{tensor}].op.{field}")
                return
        position = next(k for k, a in enumerate(state.stages[stage].leaf) if a is axis)
        self.axes[axis] = self._fresh(axis.name, tensor)
        self.lines.append(f"{self.axes[axis]} = s[{tensor}].leaf_axes[{position}]")

    def _value(self, state: State, value: Any) -> str:
        if isinstance(value, list):
            return _list([self._value(state, v) for v in value])
        if isinstance(value, Instruction):
            from schedlang.instructions.box import spelling

            return spelling(value) or value.name
        if not isinstance(value, dict):
            return _quoted(value)
        if "axis" in value:
            return self._axis(state, value["stage"], decode(state, value))
        if "expr" in value:
            return self._predicate(state, value)
        if "input" in value:
            return self._input(state, decode(state, value))
        if "tensor" in value:
            return self._tensor(state, value["stage"], value["output"])
        return f"s[{self._stage(state, value['stage'])}]"

    def _input(self, state: State, tensor: Any) -> str:
        """Return the expression of an input; a scan's state comes from a stage that reads it."""
        if tensor in self.tensors:
            return self.tensors[tensor]
        for name, stage in state.stages.items():
            for position, read in enumerate(stage.op.input_tensors):
                if read is tensor:
                    return f"s[{self._stage(state, name)}].op.input_tensors[{position}]"
        return _identifier(tensor.name)

    def _predicate(self, state: State, value: Mapping[str, Any]) -> str:
        """Return a predicate as an expression if it uses loops and threads only, else as data."""
        cond: Expr = decode(state, value)
        nodes = postorder([cond])
        plain = all(isinstance(n, (Axis, Binary, Unary)) or _is_count(n) for n in nodes)
        if not plain or not any(isinstance(n, Axis) for n in nodes):
            return f"s.expr({value['expr']!r})"
        printed = {n: self._loop_or_thread(state, n) for n in nodes if isinstance(n, Axis)}
        printed_cond = text(cond, lambda n: printed[n])  # type: ignore[index]
        # a long text leaves parts out
        return f"s.expr({value['expr']!r})" if "..." in printed_cond else printed_cond

    def _loop_or_thread(self, state: State, axis: Axis) -> str:
        if not axis.tag:
            owner = next(
                n for n, s in state.stages.items() if any(a is axis for a in (*s.leaf, *s.roots))
            )
            return self._axis(state, owner, axis)
        if axis.tag not in self.threads:
            kind, _, dim = axis.tag.partition("Idx.")
            self.threads[axis.tag] = self._fresh(f"{'t' if kind == 'thread' else 'b'}{dim}")
            call = f"sl.thread_axis({_quoted(axis.tag)})"
            self.lines.append(f"{self.threads[axis.tag]} = {call}")
        return self.threads[axis.tag]

    def write(self, step: Step, before: State, after: State) -> None:
        """Write one call, with variables for its results."""
        args, primitive = dict(step.args), PRIMITIVES[step.primitive]
        if step.primitive == "transform_layout":
            self.lines.append(self._layout(step, before))
            return
        if step.primitive == "transform_argument":
            self.lines.append(self._argument_layout(step, before, after))
            return
        listed = args.pop("axes", None) if step.primitive in ("fuse", "reorder") else None
        operands = [self._value(before, v) for v in (listed or ())]
        if step.primitive == "cache_read":
            call, readers = "s.cache_read", args.pop("readers")
        elif primitive.makes_tensors:
            call = f"s.{step.primitive}"
            operands.insert(0, self._stage(before, step.stage))
        else:
            call = f"s[{self._stage(before, step.stage)}].{step.primitive}"
        for key, value in args.items():
            if key in primitive.defaults and value == primitive.defaults[key]:
                continue
            printed = self._value(before, value)
            operands.append(f"{key}={printed}" if key in primitive.keywords else printed)
        if step.primitive == "cache_read":
            operands.append(_list([self._stage(before, r["stage"]) for r in readers]))
        self._emit(f"{call}({', '.join(operands)})", step, before, after)

    def _layout(self, step: Step, state: State) -> str:
        """Return the index map as a lambda over the dimensions."""
        axes = state.stages[step.stage].op.axis
        names: dict[Any, str] = dict(zip(axes, _distinct_names(axes)))
        indices = [text(decode(state, v), lambda n: names[n]) for v in step.args["indices"]]
        stage = self._stage(state, step.stage)
        return (
            f"s[{stage}].transform_layout(lambda {', '.join(names.values())}: "
            f"({', '.join(indices)}{',' * (len(indices) == 1)}))"
        )

    def _argument_layout(self, step: Step, before: State, after: State) -> str:
        """Return the call, with the index map as a lambda over the dimensions of the tensor."""
        tensor = decode(before, step.args["tensor"])
        names = _distinct_names(dimensions(tensor))
        index = after.arrays[tensor].text(names)
        shown = self._value(before, step.args["tensor"])
        return f"s.transform_argument({shown}, lambda {', '.join(names)}: {index})"

    def _emit(self, call: str, step: Step, before: State, after: State) -> None:
        if PRIMITIVES[step.primitive].makes_tensors:
            self._emit_tensors(call, step, before, after)
            return
        new_axes = _made_axes(before.stages[step.stage], after.stages[step.stage])
        for axis in new_axes:
            self.axes[axis] = self._fresh(axis.name)
        if new_axes:
            call = f"{', '.join(self.axes[a] for a in new_axes)} = {call}"
        self.lines.append(call)

    def _emit_tensors(self, call: str, step: Step, before: State, after: State) -> None:
        new = [s for n, s in after.stages.items() if n not in before.stages]
        result: Any = new[0].outputs[0]
        if PRIMITIVES[step.primitive].changes_operands:
            result = [s.outputs[0] for s in new]
        elif step.primitive != "cache_read":
            result = visible(before.stages[step.stage], new[0].op)  # type: ignore[arg-type]
        tensors = result if isinstance(result, list) else [result]
        base = new[0].name if len(tensors) == 1 else None
        for tensor in tensors:
            self.tensors[tensor] = self._fresh(base or tensor.name)
        bound = [self.tensors[t] for t in tensors]
        self.lines.append(f"{_listed(bound) if isinstance(result, list) else bound[0]} = {call}")


def _made_axes(before: Any, after: Any) -> list[Axis]:
    """Return the axes that a step returned, in order, without intermediate ones of ``fuse``."""
    old = set(before.leaf)
    return [a for a in after.leaf if a not in old]


def _list(items: Sequence[str]) -> str:
    return f"[{', '.join(items)}]"


def _is_count(node: Expr) -> bool:
    return isinstance(node, Const) and node.weak and type(node.value) is int


def _distinct_names(axes: Sequence[Axis]) -> list[str]:
    """Return an identifier for each axis, all distinct."""
    names: list[str] = []
    for axis in axes:
        name = _identifier(axis.name)
        names.append(name if name not in names else f"{name}_{len(names)}")
    return names
