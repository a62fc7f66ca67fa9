"""The part of a child process that builds, checks and times candidates."""

from __future__ import annotations

import errno
import os
import warnings
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, cast

import numpy as np

from schedlang.autotune.runner.cold import in_turns
from schedlang.autotune.runner.machine_lock import file_lock
from schedlang.autotune.runner.noise import (
    OneThread,
    ProcessorTime,
    Time,
    has_thread_clock,
    least_of_calls,
    one_call,
    undisturbed_median,
)
from schedlang.autotune.runner.outputs import Guarded, unequal
from schedlang.autotune.runner.task import Task, summed_in_steps
from schedlang.compute.chunks import extent_of
from schedlang.compute.facts import facts_of
from schedlang.compute.graph import placeholders, variables
from schedlang.compute.reference import reference
from schedlang.compute.tensor import Tensor
from schedlang.compute.work import flops
from schedlang.expr.dtypes import array_dtype, is_complex, is_integer
from schedlang.runtime import nvidia
from schedlang.runtime.emulated import GpuKernel
from schedlang.runtime.evaluate import TimedByEvents
from schedlang.runtime.gpu import CudaKernel
from schedlang.runtime.gpu_clock import GpuClock
from schedlang.runtime.kernel import Kernel
from schedlang.runtime.timing import lost_cores
from schedlang.schedule.schedule import Schedule
from schedlang.target import Target
from schedlang.targets.build import build

# seconds that a timing lasts, and at most lasts while other work disturbs it; seconds of a call
# that is timed only once; times the best time after which a candidate gets few samples, and after
# which it gets only a few calls
WINDOW, PATIENCE, SLOW, BEHIND, FAR_BEHIND = 0.04, 0.4, 0.5, 2, 16
# the most operations of a call in which the emulator also looks for data races
MOST_CHECKED = 1 << 22


class Wrong(Exception):
    """Raised for a wrong result; ``spoiled``: other memory of the process was written too."""

    def __init__(self, detail: str, spoiled: bool = False) -> None:
        super().__init__(detail)
        self.spoiled = spoiled


class CandidateRunner:
    """The arrays of a task, and the kernels built for it, by job number."""

    def __init__(self, task: Task, folder: Path) -> None:
        self.task = task
        self.folder = folder
        self.kernels: dict[int, Kernel] = {}
        # the time of the call that was checked, by job number
        self._took: dict[int, Time] = {}
        known = variables(task.outputs)
        self._sizes = task.values
        rng = np.random.default_rng(task.seed)
        self._summed = summed_in_steps(task.outputs)
        self._placeholders = placeholders(task.outputs)
        self.inputs = [self._input(n, t, rng) for n, t in enumerate(self._placeholders)]
        self.scalars: dict[str, Any] = {v.name: n for v, n in self._sizes.items()}
        for v in known:
            if v not in self._sizes:
                self.scalars[v.name] = _scalar(v.dtype, rng)
        self._expected: list[np.ndarray[Any, Any]] | None = None
        self._outs = [Guarded(self.task.shape(t), t.dtype) for t in task.outputs]
        self._digests = [_digest(a) for a in self.inputs]
        self._copies = GpuCopies()
        self._cold = {n for n, t in enumerate(self._placeholders) if t.name in task.cold}
        self._turns: Iterator[list[np.ndarray[Any, Any]]] | None = None

    def build(self, number: int, steps: str) -> dict[str, Any]:
        """Compile a schedule; return the resources of its kernels if these are only compiled."""
        s = Schedule.from_json(steps, list(self.task.outputs))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            kernel = build(s, target=self.task.target, compiler=self.task.compiler)
            facts: dict[str, Any] = {}
            if isinstance(kernel, CudaKernel) and not self.task.timed:
                facts = {name: asdict(resources) for name, resources in kernel.resources.items()}
            else:
                kernel.compile()
        self.kernels[number] = kernel
        return {"resources": facts}

    def check(self, number: int) -> dict[str, Any]:
        """Run once into poisoned outputs and compare with the oracle.

        Raise :class:`Wrong` for a wrong result, and for writes outside the outputs or to the
        inputs.
        """
        expected = self.expected()
        for out, want in zip(self._outs, expected):
            out.poison(want)
        call = self._call(number)
        on_device = self._on_device(number)
        if on_device:
            # an earlier candidate may have written the inputs there
            self._copies.send()
            # the first launch loads the machine code
            call()
        self._took[number] = one_call(call, lost_cores)
        if on_device:
            self._copies.fetch([out.array for out in self._outs])
        stray = self._stray_writes()
        for tensor, out, want in zip(self.task.outputs, self._outs, expected):
            task = self.task
            difference = unequal(
                tensor.name, out.array, want, task.tolerance_of(tensor), task.rounds(tensor)
            )
            if difference:
                raise Wrong(difference, bool(stray))
        if stray:
            raise Wrong(stray, True)
        return {}

    def emulate(self, number: int, steps: str) -> dict[str, Any]:
        """Build a schedule for the GPU emulator, check its result and look for data races."""
        s = Schedule.from_json(steps, list(self.task.outputs))
        target = self.task.target
        emulator = Target(target.facts.emulated, arch=target.arch)
        kernel = self.kernels[number] = build(s, target=emulator).compile()
        answer = self.check(number)
        if isinstance(kernel, GpuKernel) and self._operations() <= MOST_CHECKED:
            # raises for data races, divergent barriers and uninitialized reads
            kernel.check(*self._inputs(kernel))
        return answer

    def time(self, number: int, best: float | None = None) -> dict[str, Any]:
        """Return the median seconds of a call.

        A kernel that is slower than ``best`` gets few samples, and one that is far slower only a
        few calls.
        """
        call = self._timed(number)
        if self._slow(number):
            once = self._took[number]
            if not once.quiet:
                # slow because of other work, perhaps: call it again
                again = one_call(call, lost_cores)
                once = self._took[number] = again if again.quiet else min(once, again)
            if once.seconds > SLOW:
                return _answer(once)
        if self.kernels[number].target.facts.timing == "events":
            return _answer(self._gpu_time(number, WINDOW))
        behind = float("inf")
        if best is not None:
            behind = BEHIND * best
            least = least_of_calls(call, FAR_BEHIND * best, PATIENCE / 2, lost_cores)
            if least.seconds > FAR_BEHIND * best:
                return _answer(least)
        return _answer(undisturbed_median(call, WINDOW, PATIENCE, lost_cores, behind))

    def sample(self, number: int) -> dict[str, Any]:
        """Return one sample of a race, a short median; of a slow kernel the time of one call."""
        call = self._timed(number)
        if self._slow(number):
            return _answer(one_call(call, lost_cores))
        if self.kernels[number].target.facts.timing == "events":
            return _answer(self._gpu_time(number, WINDOW / 2))
        return _answer(undisturbed_median(call, WINDOW / 2, PATIENCE / 2, lost_cores))

    def _slow(self, number: int) -> bool:
        """Return whether the checked call was so slow that only one call is timed."""
        once = self._took.get(number)
        return once is not None and once.seconds > SLOW

    def forget(self, numbers: Sequence[int]) -> dict[str, Any]:
        """Drop kernels."""
        for number in numbers:
            self.kernels.pop(number, None)
            self._took.pop(number, None)
        return {}

    def expected(self) -> list[np.ndarray[Any, Any]]:
        """Return the oracle's results, computed once for all processes that share the folder."""
        if self._expected is None:
            paths = [self.folder / f"expected_{n}.npy" for n in range(len(self._outs))]
            # processes start together, and memory may not suffice for more than one oracle
            with file_lock(self.folder / "oracle", alone=True):
                if not all(path.exists() for path in paths):
                    self._compute(paths)
            sizes = [out.array.size for out in self._outs]
            self._expected = [
                _read_only(path, size).view(array_dtype(t.dtype))
                for path, size, t in zip(paths, sizes, self.task.outputs)
            ]
        return self._expected

    def _compute(self, paths: Sequence[Path]) -> None:
        """Run the oracle and save its results; renaming finished files makes that atomic."""
        oracle = reference(self.task.outputs)
        scalars = {v.name: self.scalars[v.name] for v in oracle.variables if v.name in self.scalars}
        results = oracle(*self.inputs, **scalars)
        for path, array in zip(paths, results if isinstance(results, tuple) else (results,)):
            unfinished = path.with_suffix(f".{os.getpid()}")
            try:
                with unfinished.open("wb") as file:
                    np.save(file, array, allow_pickle=False)
            except OSError as error:
                # NumPy's error has no errno: it only says how much was written
                raise OSError(error.errno or errno.ENOSPC, str(error)) from None
            unfinished.replace(path)

    def _stray_writes(self) -> str:
        """Return a message about writes outside the outputs, empty if there are none."""
        for tensor, out in zip(self.task.outputs, self._outs):
            if not out.intact():
                return f"elements outside {tensor.name} were written"
        for tensor, array, digest in zip(self._placeholders, self.inputs, self._digests):
            if _digest(array) != digest:
                return f"the input {tensor.name} was written"
        return ""

    def _on_device(self, number: int) -> bool:
        return self.kernels[number].target.facts.needs_driver

    def _gpu_time(self, number: int, window: float) -> Time:
        """Return the seconds of a call by events of the device, without the host's part."""
        kernel = self.kernels[number]
        if not self._on_device(number):
            there, _ = kernel.timed_on(self._values(number))
            seconds, _ = cast(TimedByEvents, kernel).timed_by_events(there, 1, window, "float32")
            return Time(median(seconds), quiet=True)
        call = partial(self.kernels[number], *self._copies.of(self._values(number)))
        return Time(GpuClock().seconds([call], window * 1e3), quiet=True)

    def _call(self, number: int) -> Callable[[], Any]:
        """Return a function that calls a kernel and waits until it has finished.

        On a CPU it is the kernel's own: the checks of a call from Python take longer than a kernel
        of a microsecond.
        """
        kernel, values = self.kernels[number], self._values(number)
        if kernel.target.facts.timing == "host":
            function, given = kernel.bound(*values)
            return self._on_threads(number, partial(function, *given))
        if not self._on_device(number):
            return self._on_threads(number, lambda: kernel(*values))
        there = self._copies.of(values)

        def call() -> None:
            kernel(*there)
            nvidia.driver().synchronize()

        return call

    def _timed(self, number: int) -> Callable[[], Any]:
        """Return the function to time: on a CPU, each call reads other copies of cold inputs."""
        if not self._cold or self._on_device(number):
            return self._call(number)
        if self._turns is None:
            self._turns = in_turns(self.inputs, self._cold, self.task.target.caches[-1].size)
        kernel, turns = self.kernels[number], self._turns
        values = self._values(number)
        places = [
            n for n, p in enumerate(kernel.signature.parameters) if not (p.is_output or p.is_scalar)
        ]

        def call() -> None:
            for place, array in zip(places, next(turns)):
                values[place] = array
            kernel(*values)

        return self._on_threads(number, call)

    def _on_threads(self, number: int, call: Callable[[], Any]) -> Callable[[], Any]:
        """Return ``call``, marked if the kernel computes on the thread that calls it."""
        kernel = self.kernels[number]
        parallel = any(loop.kind == "parallel" for loop in kernel.loop_nest.loops)
        alone = not parallel and kernel.target.facts.timing == "host" and has_thread_clock()
        return OneThread(call) if alone else call

    def _values(self, number: int) -> list[Any]:
        """Return the arguments of a call of a kernel."""
        values: list[Any] = []
        # by order, since placeholders may share a name
        inputs, outs = iter(self.inputs), iter(self._outs)
        for p in self.kernels[number].signature.parameters:
            if p.is_output:
                values.append(next(outs).array)
            else:
                values.append(self.scalars[p.name] if p.is_scalar else next(inputs))
        return values

    def _inputs(self, kernel: Kernel) -> list[Any]:
        """Return the arguments of a call without its outputs."""
        given = iter(self.inputs)
        parameters = [p for p in kernel.signature.parameters if not p.is_output]
        return [self.scalars[p.name] if p.is_scalar else next(given) for p in parameters]

    def _operations(self) -> float:
        return float(flops(self.task.outputs, self._sizes))

    def _input(
        self, position: int, tensor: Tensor, rng: np.random.Generator
    ) -> np.ndarray[Any, Any]:
        if self.task.inputs is not None:
            return np.array(self.task.inputs[position], order="C")
        shape, dtype = self.task.shape(tensor), array_dtype(tensor.dtype)
        if tensor.dtype == "bool":
            return rng.random(shape) < 0.5
        facts = facts_of(tensor)
        if facts is not None and facts.within is not None:
            low, high = (extent_of(end, self._sizes) for end in facts.within)
            elements = rng.integers(low, max(low, high) + 1, shape)
            if facts.monotonic and elements.size:
                elements.sort(axis=-1)
                elements[..., 0], elements[..., -1] = low, max(low, high)
            return elements.astype(dtype)
        if is_integer(tensor.dtype):
            low = 0 if dtype.kind == "u" else -8
            return rng.integers(low, 9, shape).astype(dtype)
        if is_complex(tensor.dtype):
            return (rng.uniform(-1, 1, shape) + 1j * rng.uniform(-1, 1, shape)).astype(dtype)
        # so that a sum is about as large as its terms
        most = self._summed.get(tensor, 1) ** -0.5
        return rng.uniform(-most, most, shape).astype(dtype)


def _answer(time: Time) -> dict[str, Any]:
    """Return a time as the answer of a process."""
    return {**time._asdict(), **({"processor": True} if isinstance(time, ProcessorTime) else {})}


def _read_only(path: Path, size: int) -> np.ndarray[Any, Any]:
    """Return the array in a file, mapped so that no candidate can write to it.

    NumPy's files do not know bfloat16, and hold its bytes instead.
    """
    # an empty array cannot be mapped
    return np.load(path, "r" if size else None, allow_pickle=False)


def _digest(array: np.ndarray[Any, Any]) -> int:
    # nobody writes on purpose what has the same checksum
    return zlib.crc32(np.ascontiguousarray(array).view("uint8").data) if array.size else 0


def _scalar(dtype: str, rng: np.random.Generator) -> Any:
    kind = array_dtype(dtype).type
    return kind(rng.integers(1, 5)) if is_integer(dtype) else kind(rng.uniform(0.5, 1.5))


class GpuCopies:
    """Copies of NumPy arrays in the GPU's memory, which all candidates share."""

    def __init__(self) -> None:
        # by the identity of the array, which is held beside its copy
        self._made: dict[int, tuple[np.ndarray[Any, Any], Any]] = {}

    def of(self, values: Sequence[Any]) -> list[Any]:
        """Return the arguments of a call, with the copy of each array in its place."""
        return [self._copy(v) if isinstance(v, np.ndarray) else v for v in values]

    def _copy(self, array: np.ndarray[Any, Any]) -> Any:
        copy = self._made.get(id(array))
        if copy is None:
            copy = self._made[id(array)] = array, nvidia.driver().to_device(array)
        return copy[1]

    def send(self) -> None:
        """Copy every array to the GPU again."""
        for array, there in self._made.values():
            there.copy_to_device(array)

    def fetch(self, arrays: Sequence[np.ndarray[Any, Any]]) -> None:
        """Copy ``arrays`` back from the GPU."""
        for array in arrays:
            self._copy(array).copy_to_host(array)
