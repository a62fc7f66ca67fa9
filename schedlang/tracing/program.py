"""The program of a traced function: kernels, calls of NumPy on the host, and loops, in order."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count, takewhile
from typing import Any, Union

import numpy as np

from schedlang.arrays.host.row import Form, NumpyCall, written
from schedlang.arrays.stages import tensor_of
from schedlang.compute.arrays import as_numpy
from schedlang.compute.extern_op import ExternOp
from schedlang.compute.graph import variables
from schedlang.compute.tensor import Tensor
from schedlang.errors import LoopWarning, warn_user
from schedlang.expr.evaluate import evaluate
from schedlang.expr.nodes import Expr, Var
from schedlang.expr.visit import postorder
from schedlang.markup.progress import tell
from schedlang.runtime.kernel import Kernel
from schedlang.tracing.host_calls import Part, parts_of
from schedlang.tracing.recurrence import little_work
from schedlang.tracing.repeated import run_repeated
from schedlang.tracing.serial.kernel import SerialKernel, refusal
from schedlang.tracing.serial.order import NotInKernel, copied_arrays
from schedlang.tracing.trace import HostLoop, Trace, Value, run_as_current

Key = Union[Tensor, Var]
# returns the kernel of outputs, with these inputs first
Build = Callable[[Sequence[Key], Sequence[Tensor], str], Kernel]
# returns the kernel that runs a loop, with scalars that are known
BuildLoop = Callable[[HostLoop, Container[Any], str], SerialKernel]


@dataclass(frozen=True)
class KernelCall:
    """A call of a kernel: positions of its inputs and of what it makes, among the values."""

    kernel: Kernel
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True)
class HostCall:
    """A call of a function of NumPy: positions of its inputs and results among the values.

    ``text`` is the call in the names of the stages. ``forms`` are the dtypes and shapes of the
    results. ``sizes`` are positions of sizes, each with the result and the dimension whose extent
    it is.
    """

    text: str
    call: NumpyCall
    forms: tuple[Form, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    sizes: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True)
class End:
    """The end of a loop's range: a number over the values at ``places``."""

    value: Union[int, Expr]
    places: tuple[tuple[Var, int], ...] = ()

    def of(self, values: Sequence[Any]) -> int:
        """Return the number for the values of a program."""
        if isinstance(self.value, int):
            return self.value
        return int(evaluate(self.value, {var: int(values[k]) for var, k in self.places}))


@dataclass(frozen=True)
class LoopCall:
    """A loop over ``body``, whose inputs are the index, then what it reads, then the carries.

    ``read`` and ``starts`` are positions among the values around it, and ``results`` those that the
    last carries get. One that is ``tested`` runs as long as its first carry is true, and one that
    ``stops`` as long as that holds within its range.
    """

    lo: int
    hi: End
    body: Program
    read: tuple[int, ...]
    starts: tuple[int, ...]
    results: tuple[int, ...]
    tested: bool = False
    stops: bool = False


@dataclass(frozen=True)
class Program:
    """Steps over numbered values: first the inputs, then ``constants``, then what steps make.

    ``returned`` are the positions of the results. ``refused`` are lines of text about loops that
    were planned as serial inside a kernel and run on the host.
    """

    inputs: int
    constants: tuple[np.ndarray, ...]
    steps: tuple[Step, ...]
    returned: tuple[int, ...]
    count: int
    refused: tuple[str, ...] = ()

    @property
    def kernels(self) -> list[Kernel]:
        """The kernels, in the order of their first calls."""
        return [step.kernel for step in _steps(self) if isinstance(step, KernelCall)]

    @property
    def host_calls(self) -> list[str]:
        """The calls of NumPy on the host, as text, in the order of their first calls."""
        return [step.text for step in _steps(self) if isinstance(step, HostCall)]

    @property
    def only_kernel(self) -> KernelCall | None:
        """The step of a program that is one kernel, whose shapes are all numbers, on the host."""
        if len(self.steps) != 1 or self.constants:
            return None
        (step,) = self.steps
        if not isinstance(step, KernelCall):
            return None
        if any(p.fixed is None for p in step.kernel.signature.parameters):
            return None
        return step if step.kernel.target.facts.host_arrays else None

    def may_write(self, argument: int, place: int) -> bool:
        """Return whether the result at ``place`` may be written into the memory of an argument.

        No step may read the argument after the kernel that makes the result. That kernel may read
        it only element by element, each before it writes the same element. A result of a loop may
        share the argument's memory as well.
        """
        places = self._held(argument)
        if place in range(self.inputs + len(self.constants)) or places & set(self.returned):
            return False
        maker = next(k for k, step in enumerate(self.steps) if place in _results_of(step))
        step = self.steps[maker]
        if not isinstance(step, KernelCall):
            return False
        if any(places & set(_inputs_of(later)) for later in self.steps[maker + 1 :]):
            return False
        if places & set(step.inputs) - {argument}:
            return False
        output = len(step.inputs) + step.outputs.index(place)
        # a serial loop takes an array twice if two of its carries begin with it
        pairs = {(output, k) for k, given in enumerate(step.inputs) if given == argument}
        return pairs <= step.kernel.signature.in_place

    @cached_property
    def _overwritten(self) -> list[list[tuple[int, int]]]:
        """For each step, the results for which it may take the memory of values that it reads.

        Such a value is a new array of an earlier kernel, which nothing reads afterwards.
        """
        new: set[int] = set()
        last = {k: at for at, step in enumerate(self.steps) for k in _inputs_of(step)}
        pairs: list[list[tuple[int, int]]] = []
        for at, step in enumerate(self.steps):
            chosen: dict[int, int] = {}
            if isinstance(step, KernelCall):
                for output, given in sorted(step.kernel.signature.in_place):
                    k, result = step.inputs[given], step.outputs[output - len(step.inputs)]
                    ends = k in new and last[k] == at and k not in self.returned
                    if ends and step.inputs.count(k) == 1 and k not in chosen.values():
                        chosen.setdefault(result, k)
                new.update(step.outputs)
            pairs.append([*chosen.items()])
        return pairs

    def _held(self, argument: int) -> set[int]:
        """Return the positions of an argument and of results of loops that may be its memory."""
        places = {argument}
        for step in self.steps:
            if (
                isinstance(step, LoopCall)
                and places & set(_inputs_of(step))
                and _passes_on(step.body)
            ):
                places |= set(step.results)
        return places

    def __call__(self, inputs: Sequence[Any], outputs: Sequence[Any] | None = None) -> list[Any]:
        """Return the results for ``inputs``, written into ``outputs`` where one is given."""
        values: list[Any] = [*inputs, *self.constants]
        values += [None] * (self.count - len(values))
        given = () if outputs is None else zip(self.returned, outputs)
        targets = {k: array for k, array in given if array is not None}
        for done, step in enumerate(self.steps):
            if len(self.steps) > 1:
                tell("first call, {} steps done", done, len(self.steps))
            if isinstance(step, KernelCall):
                over = self._overwritten[done]
                own = {o: values[k] for o, k in over if isinstance(values[k], np.ndarray)}
                _run_kernel(step, values, {**own, **targets})
            elif isinstance(step, HostCall):
                _run_on_host(step, values)
            else:
                _run_loop(step, values)
        return [values[k] for k in self.returned]


Step = Union[KernelCall, HostCall, LoopCall]


def _results_of(step: Step) -> tuple[int, ...]:
    return step.results if isinstance(step, LoopCall) else step.outputs


def _inputs_of(step: Step) -> tuple[int, ...]:
    return (*step.read, *step.starts) if isinstance(step, LoopCall) else step.inputs


def _passes_on(body: Program) -> bool:
    """Return whether a result of a body may be one of its inputs, rather than a new array."""
    inner = (step.body for step in body.steps if isinstance(step, LoopCall))
    return any(k < body.inputs for k in body.returned) or any(map(_passes_on, inner))


def _steps(program: Program) -> Iterator[Step]:
    """Yield the steps, and after a loop the steps of its body."""
    for step in program.steps:
        yield step
        if isinstance(step, LoopCall):
            yield from _steps(step.body)


def _run_kernel(step: KernelCall, values: list[Any], targets: dict[int, Any]) -> None:
    arguments = [values[k] for k in step.inputs]
    given = [targets.get(k) for k in step.outputs]
    named: dict[str, Any] = {}
    if all(array is not None for array in given):
        arguments += given
    elif any(array is not None for array in given):
        outputs = step.kernel.signature.outputs
        if any(p.fixed is None for p in outputs):
            named = {p.name: a for p, a in zip(outputs, given) if a is not None}
        else:
            arguments += [
                np.empty(p.shape, p.dtype) if array is None else array
                for array, p in zip(given, outputs)
            ]
    results = step.kernel(*arguments, **named)
    for k, value in zip(step.outputs, results if len(step.outputs) > 1 else (results,)):
        values[k] = value


def _run_on_host(step: HostCall, values: list[Any]) -> None:
    what = f"an array of {written(step.call.name)}"
    results = step.call.results(step.forms, *(as_numpy(values[k], what) for k in step.inputs))
    for k, value in zip(step.outputs, results):
        values[k] = value
    for k, result, dimension in step.sizes:
        values[k] = results[result].shape[dimension]


def _run_loop(step: LoopCall, values: list[Any]) -> None:
    """Run the body once per iteration.

    Its results go into arrays of earlier iterations that no later one reads.
    """
    read = [values[k] for k in step.read]
    carries = [values[k] for k in step.starts]
    free: list[list[Any]] = [[] for _ in carries]
    # for each array made here, its place in the carry; the caller owns the first arrays
    made_for: dict[int, int] = {}
    first = min(step.lo, 0)
    whole = range(step.lo, step.hi.of(values))
    iterations: Iterable[int] = whole
    only = None if step.tested or step.stops else step.body.only_kernel
    if step.tested or step.stops:
        iterations = takewhile(lambda _: bool(carries[0]), count() if step.tested else whole)
    if only is not None:
        inputs, leaving = only.inputs, step.body.returned
        carries = run_repeated(only.kernel, whole, first, read, carries, inputs, leaving)
        iterations = range(0)
    for i in iterations:
        spare = [arrays.pop() if arrays else None for arrays in free]
        results = step.body([i - first, *read, *carries], spare)
        living = {id(array) for array in results}
        for array in {id(a): a for a in carries}.values():
            if id(array) in made_for and id(array) not in living:
                free[made_for[id(array)]].append(array)
        entering = {id(array) for array in carries}
        for k, array in enumerate(results):
            if id(array) not in entering:
                made_for.setdefault(id(array), k)
        carries = results
    for k, value in zip(step.results, carries):
        values[k] = value


@dataclass
class Planner:
    """The steps of a program so far, and the position of each value.

    ``owners`` has a tensor for each extent that a call on the host tells.
    """

    build: Build
    build_loop: BuildLoop
    name: str
    owners: Mapping[Var, Tensor] = field(default_factory=dict)
    places: dict[Key, int] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    count: int = 0

    def add(self, key: Key) -> int:
        """Return the position of a new value."""
        self.places[key] = self.count
        self.count += 1
        return self.count - 1

    def need(self, values: Sequence[Value]) -> list[int]:
        """Return the positions of ``values``; a new kernel computes the values that have none."""
        tensors = [_stored(v) for v in values]
        missing = list(dict.fromkeys(t for t in tensors if t not in self.places))
        for part in parts_of(missing, self.places, self.owners):
            if part.outputs:
                self._add_kernel(part)
            for op in part.calls:
                self._add_call(op)
        return [self.places[t] for t in tensors]

    def _add_kernel(self, part: Part) -> None:
        """Add the kernel of a part, which reads values that earlier steps make."""
        outputs = list(part.graph.outputs)
        inputs: list[Key] = [*part.graph.inputs, *variables(outputs)]
        kernel = self.build(inputs, outputs, self.name)
        places = tuple(self.places[part.known.get(key, key)] for key in inputs)
        self.steps.append(KernelCall(kernel, places, tuple(self.add(t) for t in part.outputs)))

    def _add_call(self, op: ExternOp) -> None:
        """Add a call on the host; its unknown extents become values, too."""
        inputs = tuple(self.places[t] for t in op.inputs)
        outputs = tuple(self.add(t) for t in op.outputs)
        sizes = {
            size: (k, dimension)
            for k, t in enumerate(op.outputs)
            for dimension, size in enumerate(t.shape)
            if isinstance(size, Var) and size not in self.places
        }
        at = tuple((self.add(size), *where) for size, where in sizes.items())
        forms = tuple(
            (t.dtype, tuple(e if isinstance(e, int) else None for e in t.shape)) for t in op.outputs
        )
        self.steps.append(HostCall(_text_of(op), op.function.call, forms, inputs, outputs, at))


def _text_of(op: ExternOp) -> str:
    arguments = [*(t.name for t in op.inputs), *op.function.options]
    return f"{op.name} = {op.function.name}({', '.join(arguments)})"


def _stored(value: Value) -> Tensor:
    """Return a tensor of ``value``; an expression becomes a 0-d one."""
    read = getattr(value, "tensor", None)
    if isinstance(read, Tensor) and not read.ndim:
        return read
    return tensor_of(value, "a result of a traced function")


def plan(
    trace: Trace,
    inputs: Sequence[Key],
    results: Sequence[Value],
    build: Build,
    build_loop: BuildLoop,
    name: str,
) -> Program:
    """Return the program that computes ``results`` of a trace from ``inputs``."""
    planner = Planner(build, build_loop, name, trace.sizes)
    for key in inputs:
        planner.add(key)
    constants = trace.constants if trace.around is None else []
    for constant, _ in constants:
        planner.add(constant)
    refused: list[str] = []
    for loop in trace.loops:
        try:
            _add_serial(loop, planner)
        except NotInKernel as why:
            said = _say_host(loop, str(why))
            refused += said
            if not (said and trace.outermost.lengths):
                # a trace for one length may replace this one
                _warn_of_slow_loop(loop, str(why))
            call = _loop(loop, planner)
            planner.steps.append(call)
            refused += call.body.refused
    returned = tuple(planner.need(results))
    arrays = tuple(np.ascontiguousarray(a) for _, a in constants)
    steps = tuple(planner.steps)
    return Program(len(inputs), arrays, steps, returned, planner.count, tuple(refused))


def _add_serial(loop: HostLoop, planner: Planner) -> None:
    """Add the kernel that runs a loop; raise ``NotInKernel`` if there is none."""
    if not loop.form:
        raise NotInKernel(refusal(loop))
    name = f"{planner.name}_loop"
    made = planner.build_loop(loop, planner.places, name)
    read = planner.need([value for value, _ in loop.read])
    starts = planner.need([loop.carries[k].start for k in made.given])
    elements = [planner.places[tensor] for tensor in made.elements]
    scalars = [planner.places[v] for v in made.scalars]
    for k, place in zip(made.given, starts):
        if k not in made.moving:
            planner.places[loop.carries[k].result] = place
    results = tuple(planner.add(loop.carries[k].result) for k in made.moving)
    planner.steps.append(KernelCall(made.kernel, (*read, *starts, *elements, *scalars), results))


def _say_host(loop: HostLoop, reason: str) -> list[str]:
    """Change what ``f.loops`` says of a loop that no kernel runs after all; return the new line."""
    if not loop.form:
        return []
    lines = loop.body.outermost.forms
    said = f"{loop.form.partition(': ')[0]}: on the host, since {reason}"
    lines[:] = [line.replace(loop.form, said) for line in lines]
    return [said]


def _warn_of_slow_loop(loop: HostLoop, reason: str) -> None:
    """Warn of a loop on the host whose iterations take less time than calls of their kernels, or
    copy arrays to assign to a small part of them.
    """
    with run_as_current(loop.body):
        copied = copied_arrays(loop)
        is_little = not loop.body.loops and (loop.tested or reason) and little_work(loop)
    why = "an iteration is so little work that NumPy alone may be faster"
    if copied and not is_little:
        why = f"each iteration copies {' and '.join(copied)} to assign to a part of it"
    elif not is_little:
        return
    of = f"{loop.body.outermost.title}: the loop over {loop.user_index[0]}"
    if loop.tested:
        of = loop.body.title
    warn_user(
        f"{of} runs on the host, since {reason}; {why}", LoopWarning,
    )


def _loop(loop: HostLoop, planner: Planner) -> LoopCall:
    scalars = [key for key in planner.places if isinstance(key, Var)]
    read = planner.need([*(value for value, _ in loop.read)])
    starts = planner.need([c.start for c in loop.carries])
    entering: list[Key] = [c.entering for c in loop.carries]
    inside: list[Key] = [loop.index, *scalars, *(t for _, t in loop.read), *entering]
    leaving = [c.leaving for c in loop.carries]
    body = plan(
        loop.body, inside, leaving, planner.build, planner.build_loop, f"{planner.name}_loop"
    )
    places = tuple(planner.places[v] for v in scalars)
    results = tuple(planner.add(c.result) for c in loop.carries)
    inputs = (*places, *read)
    used = [] if isinstance(loop.hi, int) else postorder([loop.hi])
    ends = tuple((v, planner.places[v]) for v in used if isinstance(v, Var))
    return LoopCall(
        loop.lo, End(loop.hi, ends), body, inputs, tuple(starts), results, loop.tested, loop.stops
    )
