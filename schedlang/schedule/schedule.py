"""The schedule as users see it: stages, their primitives, the printed nest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

from schedlang.compute.data import Graph
from schedlang.compute.extern_op import ExternOp
from schedlang.compute.precision import warn_of_float64
from schedlang.compute.tensor import ComputeOp, PlaceholderOp, ScanOp, Tensor
from schedlang.compute.whole import refuse_functions, refuse_traced
from schedlang.errors import (
    ComputeError,
    ComputeTypeError,
    MissingNameError,
    SchedlangError,
    ScheduleError,
    shorten_traceback,
)
from schedlang.expr.nodes import Expr
from schedlang.instructions.declaration import Instruction
from schedlang.ir.findings import Findings
from schedlang.ir.nest import Nest
from schedlang.lowering.lower import lower_state
from schedlang.schedule import trace
from schedlang.schedule.dataflow import DataflowMethods
from schedlang.schedule.film_strip import Steps
from schedlang.schedule.missing_attributes import no_attribute_of_schedule
from schedlang.schedule.nest_diff import NestDiff, nest_diff
from schedlang.schedule.order_warning import warn_of_lost_order
from schedlang.schedule.refuse import refuse, refuse_view
from schedlang.schedule.stage import StageView
from schedlang.schedule.starting_steps import STARTER
from schedlang.schedule.steps import Step, decode, encode, perform
from schedlang.signatures import public
from schedlang.state.initial import initial_state
from schedlang.state.primitives.arguments import text_of
from schedlang.state.primitives.table import PRIMITIVES
from schedlang.state.state import Stage, State


class Schedule(DataflowMethods):
    """A schedule: the recorded steps over the stages that compute ``outputs``.

    ``s[C]`` is the stage of tensor ``C``, whose methods are the primitives. ``print(s)`` shows the
    current loop nest. A refused step raises :class:`~schedlang.errors.ScheduleError` and leaves
    the schedule unchanged.
    """

    # whether splits keep all threads of an axis that is shorter, as in te
    of_te = False

    def __init__(self, outputs: Sequence[Tensor]) -> None:
        self._start = initial_state(outputs)
        self._steps: tuple[Step, ...] = ()
        self._states: tuple[State, ...] = ()
        # about nests that checks of steps built, shared by copies
        self._findings = Findings()

    @property
    def state(self) -> State:
        """The stages after all steps, as data."""
        return self._states[-1] if self._states else self._start

    @property
    def steps(self) -> Steps:
        """The steps called so far, as data. A notebook shows what each of them changed."""
        return Steps(self._steps, self)

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        return self._start.outputs

    @property
    def stages(self) -> list[StageView]:
        """The stages, producers before consumers."""
        return [StageView(self, name) for name in self.state.stages]

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            if name in PRIMITIVES and "_start" in self.__dict__:
                stages = list(self.state.stages)
                listed = ", ".join(stages if len(stages) <= 6 else [*stages[:5], "..."])
                raise MissingNameError(
                    f"{name} is a method of a stage, not of the schedule: write s[T].{name}(...), "
                    f"where T is the tensor whose loops it changes; the stages are {listed}"
                )
            if "_start" in self.__dict__ and name in self.state.stages:
                raise MissingNameError(
                    f"a schedule has no attribute {name!r}: write s[{name}] for the stage of {name}"
                )
            attributes = [n for n in dir(Schedule) if not n.startswith("_")]
            output = self.outputs[-1].name if "_start" in self.__dict__ else "C"
            raise MissingNameError(no_attribute_of_schedule(name, attributes, output))

    def __getitem__(self, key: Any) -> StageView:
        if isinstance(key, StageView):
            key = key.name
        if isinstance(key, (list, tuple)):
            return StageView(self, self._one_stage(key, "s")[0].name)
        if not isinstance(key, (str, Tensor, ComputeOp, ScanOp, ExternOp, PlaceholderOp)):
            asked = f"s[{text_of(key)}]"
            refuse(asked, f"{text_of(key)} is not a tensor", "Give a tensor of this schedule.")
        if isinstance(key, str):
            if key in self.state.stages:
                return StageView(self, key)
        elif isinstance(getattr(key, "op", key), PlaceholderOp):
            from schedlang.schedule.te_layouts import input_view

            return input_view(self, key)
        elif isinstance(key, Tensor):
            name = self.state.defined.get(key)
            if name is not None:
                return StageView(self, name)
            refuse_view(key)
            key = key.name
        elif isinstance(key, (ComputeOp, ScanOp, ExternOp)):
            for output in key.outputs:
                name = self.state.defined.get(output)
                if name is not None:
                    return StageView(self, name)
            key = key.name
        why = f"this schedule has no stage {key}"
        if key in self.state.stages:
            why = f"this {key} belongs to another computation than the {key} of this schedule"
        listed = ", ".join(self.state.stages)
        refuse(f"s[{key}]", why, f"The stages of this schedule: {listed}.")

    def tensor(self, stage: str, output: int = 0) -> Tensor:
        """Return the tensor that the stage with the printed name ``stage`` defines."""
        outputs = self[stage].outputs
        if type(output) is not int or not 0 <= output < len(outputs):
            asked = f"s.tensor({stage!r}, {text_of(output)})"
            last = len(outputs) - 1
            hint = "Give 0." if not last else f"Give a position from 0 to {last}."
            refuse(asked, f"{stage} has {len(outputs)} output{'s' * (last > 0)}", hint)
        return outputs[output]

    def apply(self, primitive: str, stage: str, **args: Any) -> Any:
        """Check one step, record it, and return what the primitive returns.

        A step that raises is not recorded, also if it raises a warning that is turned into an
        error.
        """
        before = self.state
        try:
            state, result = perform(before, primitive, stage, args, self._findings)
        except SchedlangError as error:
            raise shorten_traceback(error) from error.__cause__
        near = [stage, *(v.name for v in args.values() if isinstance(v, Stage))]
        recorded = Step(primitive, stage, {k: encode(before, v, near) for k, v in args.items()})
        warn_of_lost_order(before, state, primitive, stage, args)
        self._steps = (*self._steps, recorded)
        self._states = (*self._states, state)
        return result

    def adopt(self, copy: Schedule) -> None:
        """Take over the further steps of a copy, all at once."""
        self._steps, self._states = copy._steps, copy._states

    def _stage(self, key: Any, asked: str) -> Stage:
        if isinstance(key, (Tensor, StageView, ComputeOp, ScanOp, ExternOp, str)):
            return self.state.stages[self[key].name]
        refuse(asked, f"{text_of(key)} is not a stage", "Give a tensor of this schedule.")

    def create_group(self, outputs: Any, inputs: Any, include_inputs: bool = False) -> Any:
        """Return the stages from ``inputs`` to ``outputs`` as a group, to attach them together.

        Each argument is a tensor or a list of tensors. The stages of the outputs belong to the
        group, and with ``include_inputs`` the stages of the inputs. Raise
        :class:`~schedlang.errors.ScheduleError` if no stage lies in between.
        """
        from schedlang.schedule.groups import stages_between

        return stages_between(self, outputs, inputs, include_inputs)

    def normalize(self) -> Schedule:
        """Do nothing: te's ``normalize`` makes loops start at 0, as they already do here."""
        return self

    def nest(self, args: Sequence[Any] | None = None) -> Nest:
        """Return the current loop nest; inconsistencies of the schedule appear as notes in it."""
        return lower_state(self.state, args, strict=False)

    def __str__(self) -> str:
        return str(self.nest())

    def show(self) -> None:
        """Print the current loop nest, in colours if the terminal has them (extra ``viz``).

        The environment variable ``NO_COLOR`` turns colours off. Raise
        :class:`~schedlang.errors.MissingExtraError` if rich is not installed.

        >>> import schedlang as sl
        >>> sl.schedule(sl.compute((4,), lambda i: i * 2, name="B")).show()
        B() -> B: int64[4]
        <BLANKLINE>
        for i in 0..4:
          B[i] = i*2
        """
        self.nest().show()

    def _repr_html_(self) -> str:
        return self.nest()._repr_html_()

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return self.nest()._repr_mimebundle_(include, exclude)

    def __repr__(self) -> str:
        names = ", ".join(t.name for t in self.outputs)
        return f"<Schedule of {names}: {len(self.state.stages)} stages, {len(self._steps)} steps>"

    def live(
        self, target: Any = None, sizes: Mapping[Any, int] | None = None, measure: bool = True
    ) -> Any:
        """Return a page for a notebook on which a copy of this schedule is tried (extra ``live``).

        It shows the schedule to edit, the loop nest, when elements are touched, counts, the
        estimate, the legal next steps to click, and a map of the places of each stage. It measures
        each schedule in a child process, unless ``measure`` is False. For a GPU as ``target`` it
        counts what warps ask for, and knows no next steps. ``sizes`` has a number for each symbolic
        size, by name. The result has the ``schedule`` that the page shows, and
        ``save(path)`` writes the history as one file. ``python -m schedlang live`` opens the page
        in a browser; docs/guides/live.md shows it. The page follows "Live Programming Support for
        Halide Scheduling Strategies" (PX 2020).

        Raise :class:`~schedlang.errors.MissingExtraError` if anywidget is not installed, and
        :class:`~schedlang.errors.LiveError` for a number of a size that is none.

        >>> import schedlang as sl
        >>> A = sl.placeholder((8,), name="A")
        >>> s = sl.schedule(sl.compute((8,), lambda i: A[i] + 1, name="B"))
        >>> s.live()  # doctest: +SKIP
        """
        # the page stands above schedules, so that it is loaded by name
        return import_module("schedlang.live.widget").live(self, target, sizes, measure)

    def graph(self) -> Any:
        """Return the stage graph as a ``networkx.DiGraph``; see :func:`schedlang.graph`.

        The graph includes stages added by steps. Each node also tells where its stage is computed.

        >>> import schedlang as sl
        >>> A = sl.placeholder((8,), name="A")
        >>> s = sl.schedule(sl.compute((8,), lambda i: A[i] + 1, name="C"))
        >>> _ = s.cache_read(A, "local", [s.outputs[0]])
        >>> list(s.graph().edges)
        [('A', 'A.local'), ('A.local', 'C')]
        """
        from schedlang.analysis.graph import graph

        return graph(self)

    def copy(self) -> Schedule:
        """Return an independent copy, which shares the axes made so far."""
        twin = Schedule.__new__(Schedule)
        twin._start, twin._steps, twin._states = self._start, self._steps, self._states
        twin._findings = self._findings
        twin.of_te = self.of_te
        return twin

    def at(self, count: int) -> Schedule:
        """Return the schedule after its first ``count`` steps."""
        if type(count) is not int or not 0 <= count <= len(self._steps):
            hint = f"Give a number from 0 to {len(self._steps)}." if self._steps else "Give 0."
            refuse(f"at({text_of(count)})", self._step_count_text(), hint)
        twin = self.copy()
        twin._steps, twin._states = self._steps[:count], self._states[:count]
        return twin

    def diff(self, count: int | None = None) -> NestDiff:
        """Return the change that a step made to the nest, as a unified diff.

        A notebook shows both nests side by side.

        ``count`` is the number of the step, from 1; by default it is the last one.
        """
        if count is None:
            count = len(self._steps)
        if type(count) is not int or not 1 <= count <= len(self._steps):
            hint = f"Give a number from 1 to {len(self._steps)}." if self._steps else ""
            refuse(f"diff({text_of(count)})", self._step_count_text(), hint)
        step = self._steps[count - 1]
        title = f"step {count}: {step.primitive}" + (f" on {step.stage}" if step.stage else "")
        return nest_diff(self.at(count - 1).nest(), self.at(count).nest(), title)

    def code(self, count: int) -> str:
        """Return the Python statements of a step, without the statements of the steps before it.

        ``count`` is the number of the step, from 1.

        >>> import schedlang as sl
        >>> A = sl.placeholder((8,), name="A")
        >>> C = sl.compute((8,), lambda i: A[i] + 1, name="C")
        >>> s = sl.schedule(C)
        >>> _ = s[C].split(C.op.axis[0], factor=4)
        >>> print(s.code(1))
        (i,) = s[C].op.axis
        i_outer, i_inner = s[C].split(i, factor=4)
        """
        before, after = (self.at(n).as_python().splitlines() for n in (count - 1, count))
        return "\n".join(after[len(before) :])

    def code_since(self, count: int) -> str:
        """Return Python statements for the steps after the first ``count``.

        They expect the schedule after these ``count`` steps in ``s``, and each tensor in a variable
        of its name. They use no variable of the steps before.

        >>> import schedlang as sl
        >>> A = sl.placeholder((8,), name="A")
        >>> C = sl.compute((8,), lambda i: A[i] + 1, name="C")
        >>> s = sl.schedule(C)
        >>> _, inner = s[C].split(C.op.axis[0], factor=4)
        >>> s[C].unroll(inner)
        >>> print(s.code_since(1))
        i_inner = s[C].leaf_axes[1]
        s[C].unroll(i_inner)
        """
        before = self.at(count)
        return trace.further_steps(before.state, self._states[count:], self._steps[count:])

    def _step_count_text(self) -> str:
        steps = len(self._steps)
        return f"the schedule has {steps or 'no'} step{'s' * (steps != 1)}"

    def as_python(self) -> str:
        """Return Python statements that rebuild the schedule.

        They expect the outputs, and each other tensor that you named, in a variable of its name.
        The stages that operations on arrays made, also in a traced function, they get by
        :meth:`tensor`.

        >>> import schedlang as sl
        >>> A = sl.placeholder((8, 4), name="A")
        >>> C = sl.named("C", (A * 2).sum(axis=1))
        >>> s = sl.schedule(C)
        >>> s[s.tensor("multiply")].compute_inline()
        >>> print(s.as_python())
        s = sl.schedule(C)
        multiply = s.tensor("multiply")
        s[multiply].compute_inline()
        <BLANKLINE>
        """
        return trace.as_python(self._start, self._states, self._steps)

    def expr(self, data: Any) -> Expr:
        """Return the predicate for data that :meth:`as_python` wrote."""
        predicate = decode(self.state, {"expr": data})
        assert isinstance(predicate, Expr)
        return predicate

    def to_json(self) -> str:
        """Return the steps as JSON, which :meth:`from_json` replays."""
        return trace.to_json(self._steps)

    @staticmethod
    def from_json(text: str, outputs: Any, instructions: Sequence[Instruction] = ()) -> Schedule:
        """Return the schedule in ``text``, replayed for ``outputs`` of an equal computation.

        Stages are matched by name and axes by position. Each step is checked as if it were called.
        Give the ``instructions`` of your own that it uses: a file has their names alone.
        Raise :class:`~schedlang.errors.ScheduleError` if ``text`` is not a schedule, or does not
        fit the computation.
        """
        steps = trace.from_json(text)
        trace.refuse_code(steps)
        return _replayed(steps, outputs, instructions)

    def __reduce__(self) -> Any:
        own = trace.instructions_of(self._steps)
        return _unpickle, (Graph(self.outputs), self.to_json(), own, self.of_te)


def _replayed(
    steps: Sequence[Step], outputs: Any, instructions: Sequence[Instruction]
) -> Schedule:
    """Return a schedule with ``steps``, each of which is checked as if it were called."""
    replayed = empty_schedule(outputs)
    for position, step in enumerate(steps, 1):
        where = f"step {position}, {step.primitive},"
        stage_names = ("",) if PRIMITIVES[step.primitive].on_schedule else replayed.state.stages
        if step.stage not in stage_names:
            raise ScheduleError(
                f"{where} cannot be replayed: there is no stage {text_of(step.stage)}"
            )
        try:
            given = trace.with_instructions(step.args, instructions)
            args = {k: decode(replayed.state, v) for k, v in given.items()}
            replayed.apply(step.primitive, step.stage, **args)
        except (SchedlangError, TypeError, AttributeError, RecursionError) as error:
            raise ScheduleError(f"{where} cannot be replayed: {error}") from None
    return replayed


def _unpickle(
    graph: Graph, text: str, instructions: Sequence[Instruction] = (), of_te: bool = False
) -> Schedule:
    # earlier versions pickled no instructions
    replayed = _replayed(trace.from_json(text), list(graph.tensors), instructions)
    replayed.of_te = of_te
    return replayed


@public
def schedule(outputs: Any) -> Schedule:
    """Return a schedule for the computation of ``outputs``: a tensor or a list of tensors.

    Every stage starts at root, with its loops in the order of its axes.

    >>> import schedlang as sl
    >>> A = sl.placeholder((4,), name="A")
    >>> B = sl.compute((4,), lambda i: A[i] * 2, name="B")
    >>> print(sl.schedule(B))
    B(A: float32[4]) -> B: float32[4]
    <BLANKLINE>
    for i in 0..4:
      B[i] = A[i] * 2
    """
    start = empty_schedule(outputs)
    warn_of_float64(start.outputs)
    starter = STARTER.get()
    return start if starter is None else starter(start) or start


def empty_schedule(outputs: Any, call: str = "sl.schedule") -> Schedule:
    """Return a schedule without steps, even inside a context that adds starting steps.

    ``call`` is the function that the user called, for messages.
    """
    items = outputs if isinstance(outputs, (list, tuple)) else [outputs]
    items = [t for i in items for t in (i if isinstance(i, (list, tuple)) else [i])]
    if not items:
        raise ComputeTypeError(f"{call}([]): give at least one output tensor")
    tensors: list[Tensor] = []
    asked = call if call.startswith("sl.") else f"sl.{call}"
    refuse_traced(asked, *items)
    refuse_functions(asked, *items)
    for item in items:
        if isinstance(item, (ComputeOp, ScanOp, ExternOp)):
            # te programs give the operation of each output of one operation
            tensors += [t for t in item.outputs if t not in tensors]
        elif isinstance(item, Tensor):
            tensors.append(item)
        else:
            advice = '; sl.named("y", ...) makes one of a value' if isinstance(item, Expr) else ""
            raise ComputeTypeError(
                f"{call}({text_of(item)}): {text_of(item)} is not a tensor; give tensors that "
                f"sl.compute or sl.scan returned{advice}"
            )
    for tensor in tensors:
        if isinstance(tensor.op, PlaceholderOp):
            raise ComputeError(
                f"{call}({tensor.name}): {tensor.name} is an input and has nothing to schedule; "
                "give tensors that sl.compute or sl.scan returned"
            )
    doubled = next((t for k, t in enumerate(tensors) if t in tensors[:k]), None)
    if doubled is not None:
        raise ComputeError(f"{call}: {doubled.name} is given twice; give each output once")
    return Schedule(tensors)


__all__ = ["Schedule", "empty_schedule", "schedule"]
