"""Kernels on a device of OpenCL: calls on the queue of their arrays, times and files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any, Optional

import numpy as np

from schedlang.compute.arrays import as_numpy
from schedlang.errors import BuildError, explain
from schedlang.expr.dtypes import array_dtype
from schedlang.ir.nest import Nest
from schedlang.runtime import files
from schedlang.runtime.built import Built
from schedlang.runtime.cpu_profile import check_options
from schedlang.runtime.gpu_profile import kernel_profile
from schedlang.runtime.numba_code import Code
from schedlang.runtime.paths import path_of
from schedlang.runtime.profile import Profile
from schedlang.runtime.thread_kernel import ThreadKernel
from schedlang.schedule.schedule import Schedule
from schedlang.targets.opencl.arrays import (
    DeviceArguments,
    Placed,
    is_array,
    placed,
    queue_of,
)
from schedlang.targets.opencl.devices import default_queue, driver, profiling_queue
from schedlang.targets.opencl.file import OpenClFile
from schedlang.targets.opencl.launcher import Launched, Launcher


@dataclass(frozen=True)
class Call:
    """The queue of a call, the buffers of its arrays by number, and the kernels it launched."""

    queue: Any
    buffers: dict[int, int] = field(default_factory=dict)
    launched: list[tuple[str, Any]] = field(default_factory=list)


RUNNING: ContextVar[Optional[Call]] = ContextVar("running", default=None)


class OpenClKernel(ThreadKernel):
    """A :class:`Kernel` for ``target="opencl"``, whose ``source`` is OpenCL C.

    A call copies NumPy arrays to the device and back, and waits. It uses arrays of pyopencl in
    place: it runs on their queue, and returns when its kernels are launched. If all arrays are
    NumPy's, it runs on the device that pyopencl chooses; ``PYOPENCL_CTX`` in the environment names
    another one. The first call on a device compiles the file.
    """

    def __init__(self, built: Built, schedule: Schedule, nest: Nest, file: OpenClFile) -> None:
        super().__init__(built, schedule, nest, file.program)
        self._file = file
        # launchers by the process, the context and the device
        self._ready: dict[tuple[int, int, int], Launcher] = {}
        # the CPU's fast path takes NumPy arrays only
        self._fast_call = None

    @property
    def _title(self) -> str:
        return f"kernel {self.name}"

    def _written(self, text: str) -> Path:
        return files.write(text, self.name, ".cl")

    def compile(self) -> OpenClKernel:
        """Compile for the device of NumPy's arrays now, and return this kernel."""
        self._launcher(default_queue(self._title))
        return self

    def _launcher(self, queue: Any) -> Launcher:
        context, device = queue.context, queue.device
        key = os.getpid(), context.int_ptr, device.int_ptr
        launcher = self._ready.get(key)
        if launcher is None:
            with self._working("compiling"):
                launcher = self._ready[key] = Launcher(
                    self._title, self._file.source, self._path, self._file.fastmath, device, context
                )
        return launcher

    def _queue(self, args: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """Return the queue that a call runs on."""
        values = self._binder.order(args, named)
        own = queue_of(self._title, self.signature.parameters, values)
        if own is None:
            return default_queue(self._title)
        # arrays without a queue have a context
        return own if hasattr(own, "device") else profiling_queue(own)

    def __call__(self, /, *args: Any, **named: Any) -> Any:
        with _running(Call(self._queue(args, named))):
            return super().__call__(*args, **named)

    def _view(self, value: Any, what: str, written: bool) -> np.ndarray:
        call = RUNNING.get()
        if not is_array(value) or call is None:
            return as_numpy(value, what, written)
        return placed(value, call.buffers)

    def _elements(self, value: Any) -> Any:
        return value.owner.get() if isinstance(value, Placed) else value

    def _fresh(self, first: Any, shape: tuple[int, ...], dtype: str) -> Any:
        call = RUNNING.get()
        if not is_array(first) or call is None:
            return super()._fresh(first, shape, dtype)
        from pyopencl.array import empty

        return empty(call.queue, shape, array_dtype(dtype))

    def _launch(self, arrays: Sequence[Any], sizes: Mapping[str, int]) -> None:
        call = RUNNING.get()
        assert call is not None
        launcher = self._launcher(call.queue)
        parameters = self.signature.parameters
        passed = DeviceArguments(call.queue, arrays, parameters, self._alignment)
        own_sizes = [sizes[n] for n in self.signature.sizes]
        launcher.start(call.queue, passed.given, own_sizes, call.launched)
        passed.finish()

    @property
    def _alignment(self) -> dict[str, int]:
        """The bytes of the widest access to each argument, by its name."""
        widest: dict[str, int] = {}
        for kernel in self._file.source.kernels:
            for key, width in zip(kernel.parameters, kernel.alignment):
                widest[key.name] = max(width, widest.get(key.name, 1))
        return widest

    @property
    def unchecked(self) -> Callable[..., None]:
        raise BuildError(
            explain(
                f"unchecked of {self._title}",
                "a launch depends on the queue of the arrays",
                "Call the kernel with arrays of pyopencl, outputs included.",
            )
        )

    def bound(self, *args: Any) -> Any:
        """Refuse: a launch depends on the queue of the arrays."""
        return self.unchecked

    def timed_on(self, given: list[Any]) -> tuple[list[Any], Callable[[], object]]:
        """Copy arrays to the device once; return the copies and a function that waits for it."""
        queue = self._queue(given, {})
        driver(self._title)
        from pyopencl.array import to_device

        there = [to_device(queue, a) if isinstance(a, np.ndarray) else a for a in given]
        return there, queue.finish

    def _timed_calls(self, there: Sequence[Any]) -> Callable[[], list[tuple[str, int, int]]]:
        """Return a function that calls the kernel, and returns the times of its launches.

        Each has the name of its kernel, and the nanoseconds at which it started and ended.
        """
        own = self._queue(there, {})
        own.finish()
        queue = profiling_queue(own.context)
        moved = [a.with_queue(queue) if is_array(a) else a for a in there]

        def timed() -> list[tuple[str, int, int]]:
            call = Call(queue)
            with _running(call):
                super(OpenClKernel, self).__call__(*moved)
            queue.finish()
            return [(name, e.profile.start, e.profile.end) for name, e in call.launched]

        return timed

    def timed_by_events(
        self, there: Sequence[Any], repeat: int, min_time: float, dtype: str
    ) -> tuple[list[float], None]:
        """Return the seconds of calls by events of the device, whose ceilings are not known."""
        timed, samples = self._timed_calls(there), list[float]()
        timed()
        start = perf_counter()
        while len(samples) < repeat or perf_counter() - start < min_time:
            samples.append(_seconds(timed()))
        return samples, None

    def profile(
        self, *args: Any, repeat: int = 5, levels: int = 3, share: float = 0.05, **named: Any
    ) -> Profile:
        check_options(repeat, levels, share)
        outputs = self(*args, **named)
        results = iter(outputs if isinstance(outputs, tuple) else (outputs,))
        ordered = self._binder.order(args, named)
        parameters = self.signature.parameters
        given = [next(results) if p.is_output else v for p, v in zip(parameters, ordered)]
        timed = self._timed_calls(self.timed_on(given)[0])
        calls = [timed() for _ in range(repeat)]
        stages = {k.name: k.launch.stage for k in self._file.source.kernels}
        seconds = [[(name, (end - start) * 1e-9) for name, start, end in call] for call in calls]
        whole = min(map(_seconds, calls))
        return kernel_profile(self.name, self.target.kind, stages, seconds, whole, 0.0, repeat)

    def save(self, path: str | Path) -> Path:
        """Write the file of OpenCL C, and return its path, which ends in ``.cl``.

        It needs nothing of schedlang. The comment at its top says which kernels are launched, and
        those above the kernels with how many work-groups and work-items.
        """
        target = path_of(path, "save")
        if target.suffix != ".cl":
            raise BuildError(
                explain(
                    f"save({str(path)!r}): {self._title}",
                    "it is OpenCL C",
                    'Give a name ending in .cl, or build for target="cpu", whose kernels are saved '
                    "as Python and as C programs.",
                )
            )
        target.write_text(self.source, encoding="utf-8")
        return target

    def _code(self, asked: str) -> Code:
        raise BuildError(
            explain(
                f"{asked} of {self._title}",
                "the device's driver compiles it, and shows no code",
                'Read its .source, or build for target="cpu".',
            )
        )

    def __reduce__(self) -> Any:
        return OpenClKernel, (self._built, self.schedule, self._nest, self._file)


@contextmanager
def _running(call: Call) -> Iterator[None]:
    """Make ``call`` the running one of this thread."""
    token = RUNNING.set(call)
    try:
        yield
    finally:
        RUNNING.reset(token)


def _seconds(times: Sequence[tuple[str, int, int]]) -> float:
    """Return the seconds from the first start of a kernel to the last end."""
    if not times:
        return 0.0
    return (max(end for _, _, end in times) - min(start for _, start, _ in times)) * 1e-9


__all__ = ["Launched", "OpenClKernel"]
