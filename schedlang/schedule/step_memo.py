"""Schedules of one computation that take equal steps only once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from schedlang.compute.tensor import Tensor
from schedlang.expr.nodes import Axis, Expr
from schedlang.schedule.schedule import Schedule
from schedlang.schedule.steps import Step, encode
from schedlang.state.state import Stage, State

# the most steps that a memo keeps, each with its state, so that memory is bounded
MOST = 20_000


@dataclass(frozen=True)
class Taken:
    """The steps of a schedule, and the state after each of them."""

    steps: tuple[Step, ...]
    states: tuple[State, ...]


@dataclass(frozen=True)
class _Change:
    """The stages that a step changed or added, in order, and the result of the call."""

    stages: Mapping[str, Stage]
    result: Any

    def of(self, before: State, after: State) -> State:
        """Return ``after``, which the step made of ``before``, with the very stages of this one."""
        if len(after.stages) == len(before.stages):
            return before.updated(*self.stages.values())
        stages = {name: self.stages.get(name, stage) for name, stage in after.stages.items()}
        defined = {t: name for name, stage in self.stages.items() for t in stage.outputs}
        return State(stages, after.outputs, {**before.defined, **defined}, after.arrays)


@dataclass
class StepMemo:
    """The steps that some schedules took, all from one ``start``, and what each call returned.

    A state is immutable and a primitive is a pure function, so that the same step from the same
    state has the same result: the very axes, too. The same step on the same stage of another state
    changes the stage alike, so that it gets the very stage, where the primitives allow the step.
    Keys have identities of objects, which the memo keeps alive.
    """

    start: Schedule
    known: dict[Any, tuple[Taken, Any, Any]] = field(default_factory=dict)
    changes: dict[Any, tuple[_Change, Any]] = field(default_factory=dict)

    def schedule(self) -> MemoSchedule:
        """Return a copy of the start that looks up its steps here."""
        return MemoSchedule(self)


class MemoSchedule(Schedule):
    """A schedule that looks up its steps in ``memo``. Its copies are plain schedules."""

    def __init__(self, memo: StepMemo) -> None:
        self._memo = memo
        self._start, self._findings = memo.start._start, memo.start._findings
        self.taken = Taken(memo.start._steps, memo.start._states)

    @property
    def taken(self) -> Taken:
        """The record of the steps so far; equal steps have the same record."""
        return self._taken

    @taken.setter
    def taken(self, taken: Taken) -> None:
        self._taken = taken
        self._steps, self._states = taken.steps, taken.states

    def apply(self, primitive: str, stage: str, **args: Any) -> Any:
        """Take one step as :meth:`Schedule.apply` does, or the known one."""
        known, key = self._memo.known, self._key(primitive, stage, args)
        known_step = known.get(key) if key is not None else None
        if known_step is not None:
            self.taken, result, _ = known_step
            return result
        before, state = self._taken, self.state
        result = super().apply(primitive, stage, **args)
        if key is not None and len(known) < MOST:
            result = self._shared(state, stage, key[1:], args, result)
        self.taken = Taken(self._steps, self._states)
        if key is not None and len(known) < MOST:
            known[key] = self._taken, result, (before, args)
        return result

    def _shared(
        self, before: State, stage: str, step: Any, args: dict[str, Any], result: Any
    ) -> Any:
        """Let the latest state have the stages that the same step made of the same stage earlier.

        Return the result of that step.
        """
        after, changes = self.state, self._memo.changes
        stages = {n: s for n, s in after.stages.items() if before.stages.get(n) is not s}
        own = before.stages.get(stage)
        if not stages:
            # the step changed an argument, whose layout the latest state has
            return result
        if any(isinstance(value, Expr) and not isinstance(value, Axis) for value in _flat(args)):
            # its leaves may be of any stage
            return result
        key = (id(own), *step)
        known = changes.setdefault(key, (_Change(stages, result), (own, args)))[0]
        if known.stages is not stages and [*known.stages] == [*stages]:
            self._states = (*self._states[:-1], known.of(before, after))
            return known.result
        return result

    def _key(self, primitive: str, stage: str, args: dict[str, Any]) -> Any:
        values = _identity(self.state, tuple(args.values()))
        return values and (id(self._taken), primitive, stage, tuple(args), values)


def _flat(args: Mapping[str, Any]) -> Iterator[Any]:
    """Yield the arguments of a call, and those in lists."""
    for value in args.values():
        yield from value if isinstance(value, (tuple, list)) else (value,)


def _identity(state: State, value: Any) -> Any:
    """Return a key of an argument that only equal arguments have; ``None`` if there is none."""
    if isinstance(value, (Axis, Tensor, Stage)):
        return id(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return type(value), value
    if isinstance(value, (tuple, list)):
        parts = tuple(_identity(state, part) for part in value)
        return None if None in parts else (type(value), parts)
    # as a step names it, such as the indices of a layout
    return repr(encode(state, value)) if isinstance(value, Expr) else None
