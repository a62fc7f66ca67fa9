"""A traced function for arguments of some shapes and dtypes: its program, and a call of it."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from inspect import Parameter, Signature
from typing import Any, Optional

import numpy as np

from schedlang.compute.tensor import Tensor, placeholder
from schedlang.errors import CallError, explain
from schedlang.expr.evaluate import evaluate
from schedlang.expr.nodes import Cast, Expr, Var
from schedlang.expr.visit import postorder
from schedlang.language.construct import cast
from schedlang.runtime.arrays import like_library
from schedlang.runtime.background import compile_at
from schedlang.runtime.collection import no_collection
from schedlang.runtime.copies import copy_by_rows, lies_by_rows, overlaps_itself
from schedlang.runtime.kernel import Kernel
from schedlang.runtime.together import compile_together
from schedlang.schedule.schedule import Schedule
from schedlang.target import Target
from schedlang.targets.build import unwritten_kernel
from schedlang.tracing.arguments import Drawn, Fixed, Given, Leaf
from schedlang.tracing.array import TracedArray, array_of, wrap
from schedlang.tracing.containers import Change, Containers, check_apart, store
from schedlang.tracing.generators import Draw, Draws, TracedGenerator
from schedlang.tracing.leaves import Form, flatten, is_traced, rebuilt
from schedlang.tracing.missed_reads import code_of
from schedlang.tracing.naming import name_stages
from schedlang.tracing.outputs import value_of
from schedlang.tracing.powers import HINT, REASON
from schedlang.tracing.program import Build, BuildLoop, Key, Program, plan
from schedlang.tracing.run import run
from schedlang.tracing.scheduling import schedule_for
from schedlang.tracing.serial.kernel import SerialKernel, serial_kernel
from schedlang.tracing.sizes import Sizes
from schedlang.tracing.tables import Tables, with_tables
from schedlang.tracing.trace import HostLoop, LoopRule, Storage, Trace, run_as_current
from schedlang.tracing.unwritten import check_written
from schedlang.tracing.wording import in_numpys_words

# the steps in which NumPy decides whether two strided arrays share memory, about a millisecond
MOST_SHARED_WORK = 10_000


@dataclass(frozen=True)
class Specialization:
    """The program of a traced function for arguments of one kind.

    ``written`` pairs results of the program with the arguments that they replace, and says whether
    the kernel may write there itself. The results before them are the leaves of the function's
    return value, in ``form``. For each of these, ``returns`` has the argument that it is, if it is
    one. ``loops`` are lines of text that say for each loop how it runs. ``assumed``
    names the call that needs arguments which lie row by row in memory, if there is one.
    ``exponents`` are the arguments that are powers of integers, with the lines where they are.

    The leaves of the return value are followed by those that ``changes`` store in containers of the
    caller. ``numbers`` has the class of each leaf that is a number of Python. A call makes the
    ``draws`` of random numbers, which follow the arguments among the inputs of the program.

    ``sizes`` are the symbolic lengths, the last inputs: the name of each in kernels, and an
    argument with the dimension that has it. ``lengths`` are lines of text about them, and ``needs``
    numbers over them that are above 0 in each call. If there is a text in ``missed``, the last
    result is the number of the one that a call raises, from 1 on, or 0.
    """

    name: str
    program: Program
    form: Form
    returns: tuple[Optional[int], ...]
    written: tuple[tuple[int, int, bool], ...]
    loops: tuple[str, ...] = ()
    assumed: str = ""
    exponents: tuple[tuple[int, str], ...] = ()
    changes: tuple[Change, ...] = ()
    draws: tuple[Draw, ...] = ()
    numbers: tuple[Optional[type], ...] = ()
    sizes: tuple[tuple[str, int, int], ...] = ()
    lengths: tuple[str, ...] = ()
    needs: tuple[Expr, ...] = ()
    missed: tuple[str, ...] = ()

    def __call__(self, call: Given) -> Any:
        check_apart(self.name, self.changes, call.containers)
        self._check_rows(call)
        self._check_exponents(call)
        outputs: list[Any] = [None] * len(self.program.returned)
        for k, argument, direct in self.written:
            self._check_apart(call, argument)
            if direct and lies_by_rows(call.arrays[argument]):
                outputs[k] = call.arrays[argument]
        inputs = self._rows(call) + [draw.of(call.generators) for draw in self.draws]
        inputs += self.sizes_of(call).values()
        results = self._apart(self.program(inputs, outputs), call, outputs)
        if self.missed and results[-1]:
            raise CallError(self.missed[int(results[-1]) - 1])
        for k, argument, _ in self.written:
            if results[k] is not call.arrays[argument]:
                np.copyto(call.arrays[argument], results[k])
        leaves = [
            _returned(results[k], call.first, self.numbers[k])
            if argument is None
            else call.originals[argument]
            for k, argument in enumerate(self.returns)
        ]
        store(self.changes, call.containers, leaves)
        return rebuilt(self.form, leaves)

    def sizes_of(self, call: Given) -> dict[str, int]:
        """Return the lengths that are symbolic in the trace, as they are in a call."""
        return {name: call.arrays[k].shape[dimension] for name, k, dimension in self.sizes}

    def takes(self, call: Given) -> bool:
        """Return whether the kernels may run where lengths are as in a call."""
        sizes = self.sizes_of(call)
        for number in self.needs:
            lengths = (node for node in postorder([number]) if isinstance(node, Var))
            if evaluate(number, {var: sizes[var.name] for var in lengths}) < 1:
                return False
        try:
            for kernel in self.kernels if sizes else ():
                names = kernel.signature.given_sizes
                if sizes.keys() >= set(names):
                    kernel.check_sizes({name: sizes[name] for name in names})
        except CallError:
            return False
        return True

    def _check_rows(self, call: Given) -> None:
        """Raise for an argument whose strides the trace needs and does not have."""
        for value, leaf in zip(call.arrays, call.leaves):
            if self.assumed and leaf.strides is None and _is_strided(value):
                raise CallError(
                    explain(
                        f"{self.name}({leaf.name}=...), an array with strides {value.strides}",
                        f"what {self.assumed} returned depends on the strides, and the trace holds "
                        "for arrays that lie row by row",
                        f"Pass np.ascontiguousarray({leaf.name}).",
                    )
                )

    def needs_strides(self, call: Given) -> bool:
        """Return whether a call needs a trace that knows the strides of its arrays."""
        return bool(self.assumed) and any(map(_is_strided, call.arrays))

    def _check_exponents(self, call: Given) -> None:
        """Raise for a negative integer that is a power of integers."""
        for k, where in self.exponents:
            leaf = call.leaves[k]
            if leaf.negative or (np.asarray(call.arrays[k]) < 0).any():
                raise CallError(
                    explain(f"{self.name}({leaf.name}=...), the exponent in {where}", REASON, HINT)
                )

    def _rows(self, call: Given) -> list[Any]:
        """Return the arguments as kernels take them: row by row, copies of strided arrays."""
        arrays: list[Any] = []
        for value, leaf in zip(call.arrays, call.leaves):
            if isinstance(value, np.ndarray) and not lies_by_rows(value):
                convert = f"{leaf.name} = np.ascontiguousarray({leaf.name})"
                value = copy_by_rows(value, f"{self.name}({leaf.name}=...)", self.name, convert)
            arrays.append(value)
        return arrays

    def _apart(self, results: list[Any], call: Given, outputs: Sequence[Any]) -> list[Any]:
        """Return the results as arrays that are not arguments, constants or other results.

        Results that kernels wrote into ``outputs`` stay there.
        """
        shared = {id(a) for a in (*call.arrays, *self.program.constants)}
        separate = []
        for value, own in zip(results, outputs):
            if own is None or value is not own:
                value = np.copy(value) if id(value) in shared else value
                shared.add(id(value))
            separate.append(value)
        return separate

    def _check_apart(self, call: Given, target: int) -> None:
        """Raise if an argument that the function writes shares memory with another one."""
        leaf, array = call.leaves[target], call.arrays[target]
        if not array.flags.writeable:
            raise CallError(f"{self.name} writes {leaf.name}, but this array is read-only")
        if overlaps_itself(array):
            raise CallError(
                explain(
                    f"{self.name} writes {leaf.name}, an array of shape {array.shape} with strides "
                    f"{array.strides}",
                    "several of its elements share memory, so the result would depend on the order "
                    "in which they are written",
                    f"Pass a copy: {leaf.name}.copy().",
                )
            )
        for k, other in enumerate(call.arrays):
            if k != target and isinstance(other, np.ndarray) and _share_memory(array, other):
                raise CallError(
                    explain(
                        f"{self.name} writes {leaf.name}",
                        f"{leaf.name} and {call.leaves[k].name} share memory in this call, but "
                        "were traced as two arrays",
                        f"Pass a copy: {leaf.name}.copy().",
                    )
                )

    @property
    def kernels(self) -> list[Kernel]:
        """The kernels, in the order of their first calls."""
        return self.program.kernels

    @property
    def host_calls(self) -> list[str]:
        """The calls of NumPy on the host, as text, in the order of their first calls."""
        return self.program.host_calls

    @property
    def source(self) -> str:
        """The emitted source; if there are several kernels, one file after the other."""
        return "\n\n".join(kernel.source for kernel in self.kernels)

    @property
    def schedule(self) -> Schedule:
        """The schedule of the kernel; raise if there are several."""
        if len(self.kernels) != 1:
            raise CallError(
                f"{self.name} runs {len(self.kernels)} kernels, one for each part between loops "
                "and calls of NumPy: .kernels lists them, and each has a .schedule"
            )
        return self.kernels[0].schedule


def _is_strided(value: Any) -> bool:
    return isinstance(value, np.ndarray) and not value.flags.c_contiguous


def _share_memory(one: np.ndarray, other: np.ndarray) -> bool:
    """Return whether two arrays have an element in common; interleaved ones have none."""
    if not np.may_share_memory(one, other):
        return False
    try:
        return bool(np.shares_memory(one, other, max_work=MOST_SHARED_WORK))  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True


def _returned(value: Any, first: Any, number: type | None) -> Any:
    """Return a result in the library of the ``first`` array of the call, or as a ``number``."""
    if number is not None:
        return number(value)
    if not isinstance(value, np.ndarray):
        return value
    if not value.ndim:
        return value[()]
    return like_library(first, value)


def specialize(
    function: Callable[..., Any],
    signature: Signature,
    call: Given,
    target: Target,
    compiler: str = "",
    moment: str = "lazy",
    called: bool = False,
) -> Specialization:
    """Trace ``function`` for arguments as in ``given``, and build its kernels.

    ``compiler`` and ``moment`` are the arguments ``compiler`` and ``compile`` of
    :func:`~schedlang.build`. If a call needs several kernels that nothing compiles before, as in
    one that is ``called`` now, other processes compile the first ones while the last ones are being
    scheduled.
    """
    # a collection would walk all objects of the process, and most of the new ones stay
    with no_collection():
        return with_tables(
            lambda tables: _specialize(
                function, signature, call, target, compiler, moment, called, tables
            )
        )


def _specialize(
    function: Callable[..., Any],
    signature: Signature,
    call: Given,
    target: Target,
    compiler: str,
    moment: str,
    called: bool,
    tables: Tables,
) -> Specialization:
    """Return what :func:`specialize` does."""
    name = getattr(function, "__name__", "traced")
    # between the kernels of a loop on the host, arrays would leave the memory of a GPU
    rule = LoopRule(limited=target.facts.host_arrays, checked=target.facts.interpreted)
    trace = Trace(name, getattr(function, "__code__", None), rule=rule, tables=tables)
    with in_numpys_words(), run_as_current(trace):
        trace.arguments = containers = Containers()
        draws = Draws(trace)
        sizes = Sizes(trace, call)
        keys, arrays, args, named = _arguments(signature, call, trace, containers, draws, sizes)
        storages = [
            a.storage if leaf.shape is not None else None for a, leaf in zip(arrays, call.leaves)
        ]
        before = [None if s is None else trace.values[s] for s in storages]
        leaves, form = flatten(run(trace, function, args, named))
        changes = containers.changes(leaves)
        values = [value_of(leaf, name) for leaf in leaves]
        codes, missed = code_of(trace)
        last = [value_of(code, name) for code in codes]
    after = [None if s is None else trace.values[s] for s in storages]
    assigned = [(k, v) for k, v in enumerate(after) if v is not None and v is not before[k]]
    returns = [_argument(leaf, storages) for leaf in leaves]
    name_stages(trace)
    results = [*values, *(v for _, v in assigned), *last]
    check_written(trace, results)
    title = name if name.isidentifier() else "traced"
    most = trace.most_kernels
    ahead = most > 1 and (moment == "now" or (moment == "lazy" and called))
    with compile_together(most) if ahead else nullcontext() as begin:
        inputs = [*keys, *draws.inputs, *trace.lengths]
        build = _builder(target, compiler, moment, begin, sizes.values)
        build_loop = _loop_builder(target, compiler, moment, begin)
        program = plan(trace, inputs, results, build, build_loop, title)
    if ahead and moment == "now":
        for kernel in program.kernels:
            kernel.compile()
    # a result that the function also returns by itself needs memory of its own
    own = {program.returned[k] for k, argument in enumerate(returns) if argument is None}
    replaced = tuple(
        (k, argument, (p := program.returned[k]) not in own and program.may_write(argument, p))
        for k, (argument, _) in enumerate(assigned, len(values))
    )
    return Specialization(
        name,
        program,
        form,
        tuple(returns),
        replaced,
        (*trace.forms, *(f"line {k}: unrolled, since {why}" for k, why in trace.unrolled.items())),
        trace.assumed,
        tuple(
            (k, trace.exponents[a.storage])
            for k, a in enumerate(arrays)
            if a.storage in trace.exponents
        ),
        changes,
        tuple(draws.calls),
        tuple(map(_number, leaves)),
        tuple(sizes.places.values()),
        (
            *sizes.lines,
            *(f"{n} is 1 or more, since a loop of as many assigns a name" for n in trace.needs),
        ),
        tuple(trace.needs),
        missed,
    )


def _number(leaf: Any) -> type | None:
    """Return the class of a number of Python that a function returns; ``None`` for an array."""
    if is_traced(leaf):
        kind = leaf.__class__
        return kind if kind in (bool, int, float) else None
    return type(leaf) if type(leaf) in (bool, int, float, complex) else None


def _argument(leaf: Any, storages: Sequence[Storage | None]) -> int | None:
    """Return which argument a returned array is; ``None`` if it is none, or a view."""
    if not isinstance(leaf, TracedArray) or leaf.is_view or leaf.storage not in storages:
        return None
    return storages.index(leaf.storage)


def _builder(
    target: Target,
    compiler: str,
    moment: str,
    begin: Callable[[Kernel], None] | None,
    sizes: Mapping[str, int],
) -> Build:
    """Return what builds a kernel, which ``begin`` starts to compile if it is given.

    Its schedule is planned for ``sizes``.
    """

    def build_kernel(inputs: Sequence[Key], outputs: Sequence[Tensor], name: str) -> Kernel:
        schedule = schedule_for(outputs, target, compiler, sizes)
        # hints about strides and registers are for people who write a schedule
        kernel = unwritten_kernel(schedule, [*inputs, *outputs], target, name, compiler)
        _compile(kernel, moment, begin)
        return kernel

    return build_kernel


def _loop_builder(
    target: Target, compiler: str, moment: str, begin: Callable[[Kernel], None] | None
) -> BuildLoop:
    """Return what builds the kernel of a loop, which ``begin`` starts to compile if it is given."""

    def build_loop(loop: HostLoop, known: Container[Any], name: str) -> SerialKernel:
        made = serial_kernel(loop, known, name, target, compiler)
        _compile(made.kernel, moment, begin)
        return made

    return build_loop


def _compile(kernel: Kernel, moment: str, begin: Callable[[Kernel], None] | None) -> None:
    if begin is None:
        compile_at(moment, [kernel.compile])
    else:
        begin(kernel)


def _arguments(
    signature: Signature,
    call: Given,
    trace: Trace,
    containers: Containers,
    draws: Draws,
    sizes: Sizes,
) -> tuple[list[Key], list[TracedArray], list[Any], dict[str, Any]]:
    """Return the inputs, what stands for them, and the arguments of the trace."""
    keys: list[Key] = []
    arrays: list[TracedArray] = []
    args: list[Any] = []
    named: dict[str, Any] = {}
    for parameter, part in zip(signature.parameters.values(), call.key):  # type: ignore[call-overload]
        if isinstance(part, Fixed):
            value = part.value
        else:
            form, *described = part
            parts = []
            for leaf in described:
                if isinstance(leaf, Fixed):
                    parts.append(leaf.value)
                    continue
                if isinstance(leaf, Drawn):
                    given = call.generators[leaf.place]
                    parts.append(TracedGenerator(leaf.name, leaf.place, draws, given))
                    continue
                key, array = _stands_for(leaf, len(keys), sizes)
                keys.append(key)
                trace.given[array.storage] = trace.values[array.storage]
                arrays.append(array)
                parts.append(array)
            value = containers.built(form, parts, parameter.name)
        if parameter.kind is Parameter.VAR_POSITIONAL:
            args += value
        elif parameter.kind is Parameter.VAR_KEYWORD:
            named |= value
        elif parameter.kind is Parameter.KEYWORD_ONLY:
            named[parameter.name] = value
        else:
            args.append(value)
    return keys, arrays, args, named


def _stands_for(leaf: Leaf, place: int, sizes: Sizes) -> tuple[Key, TracedArray]:
    if leaf.shape is None:
        if leaf.negative:
            opposite = Var(leaf.name, "int64", weak=False)
            return opposite, wrap(cast(-opposite, leaf.dtype))
        scalar = Var(leaf.name, leaf.dtype, weak=False)
        return scalar, wrap(Cast(scalar, leaf.dtype, weak=True) if leaf.weak else scalar)
    array = placeholder(sizes.extents(leaf, place), leaf.dtype, name=leaf.name)
    traced = array_of(array if leaf.shape else array[()], rows=True)
    traced.storage.strides, traced.storage.rows = leaf.strides, leaf.strides is None
    return array, traced
