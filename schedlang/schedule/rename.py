"""Renaming: the steps of one computation as steps of an equal one with other names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from schedlang.compute.graph import variables
from schedlang.errors import ScheduleError
from schedlang.schedule.schedule import Schedule, empty_schedule
from schedlang.schedule.steps import decode, inputs
from schedlang.state.state import State


def rename_steps(recorded: Schedule, outputs: Any) -> str:
    """Return the steps of ``recorded`` as JSON for ``outputs``, which may differ in names only.

    Stages, axes and tensors are matched by position, step by step. Stages that steps add get the
    names that they would have in the new computation.

    >>> import schedlang as sl
    >>> def twice(tensor, axis):
    ...     A = sl.placeholder((8,), name="A")
    ...     return sl.compute((8,), eval(f"lambda {axis}: A[{axis}] * 2", {"A": A}), name=tensor)
    >>> B, Y = twice("B", "i"), twice("Y", "j")
    >>> s = sl.schedule(B)
    >>> outer, inner = s[B].split(B.op.axis[0], factor=4)
    >>> s[B].unroll(inner)
    >>> sl.Schedule.from_json(rename_steps(s, Y), Y)[Y].leaf_axes
    [j.outer, j.inner]
    """
    replayed = empty_schedule(outputs)
    take_steps(recorded, replayed)
    return replayed.to_json()


def take_steps(recorded: Schedule, s: Schedule) -> None:
    """Apply the steps of ``recorded`` to ``s``, a schedule without steps of an equal computation.

    Raise :class:`~schedlang.errors.ScheduleError` if the computations have other numbers of stages.
    """
    for position, step in enumerate(recorded.steps):
        translation = _Translation(recorded.at(position).state, s.state)
        args = {k: translation.value(v) for k, v in step.args.items()}
        stage = translation.stage(step.stage) if step.stage else ""
        s.apply(step.primitive, stage, **{k: decode(s.state, v) for k, v in args.items()})


class _Translation:
    """A map from the names of one state to the names of another with the same stages in order."""

    def __init__(self, old: State, new: State) -> None:
        if len(old.stages) != len(new.stages):
            raise ScheduleError(
                f"the steps were recorded on a computation of {len(old.stages)} stages, and this "
                f"one has {len(new.stages)}: give the same computation under other names"
            )
        self.old, self.new = old, new
        self.stages = dict(zip(old.stages, new.stages))

    def stage(self, name: str) -> str:
        return self.stages[name]

    def value(self, value: Any) -> Any:
        """Return an encoded argument of a step with its names translated.

        See :func:`schedlang.schedule.steps.encode`.
        """
        if isinstance(value, (list, tuple)):
            return [self.value(v) for v in value]
        if not isinstance(value, Mapping):
            return value
        if "expr" in value:
            return {"expr": [self._item(item) for item in value["expr"]]}
        translated = dict(value)
        if "stage" in translated:
            translated["stage"] = self.stages[translated["stage"]]
        if "axis" in translated:
            stage = self.new.stages[translated["stage"]]
            axes = stage.leaf if "loop" in translated else stage.op.axis
            translated["axis"] = axes[translated["loop" if "loop" in translated else "dim"]].name
        elif "input" in translated:
            translated["tensor"] = inputs(self.new)[translated["input"]].name
        elif "tensor" in translated:
            translated["tensor"] = (
                self.new.stages[translated["stage"]].outputs[translated["output"]].name
            )
        return translated

    def _item(self, item: Any) -> Any:
        """Return an item of an encoded expression with its names translated.

        A leaf is ``stage/position``, ``size n`` or a thread.
        """
        if item[0] != "leaf":
            return item
        name: str = item[1]
        if name.startswith("size "):
            old, new = variables(self.old.outputs), variables(self.new.outputs)
            at = [v.name for v in old].index(name.removeprefix("size "))
            if sum(v.name == new[at].name for v in new) > 1:
                raise ScheduleError(
                    f"two sizes are named {new[at].name}, so the name is ambiguous: give each "
                    "sl.var a name of its own"
                )
            return ["leaf", f"size {new[at].name}"]
        stage, slash, position = name.rpartition("/")
        return ["leaf", f"{self.stages[stage]}/{position}"] if slash else item
