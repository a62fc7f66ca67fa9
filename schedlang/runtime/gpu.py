"""Kernels on an NVIDIA GPU: their machine code, and launches on the caller's stream."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from schedlang.errors import BuildError, explain
from schedlang.ir.nest import Nest
from schedlang.runtime import files, nvidia
from schedlang.runtime.ceilings import Ceilings
from schedlang.runtime.cpu_profile import check_options
from schedlang.runtime.device_arrays import device_of, empty_on_device, streams_of
from schedlang.runtime.device_call import (
    DeviceArguments,
    check_gpu,
    check_later,
    device_elements,
    device_for,
    device_view,
    one_stream,
)
from schedlang.runtime.device_fast_call import Bind, device_fast_call
from schedlang.runtime.device_file import DeviceFile
from schedlang.runtime.emulated import GpuKernel
from schedlang.runtime.gpu_clock import GpuClock, gpu_ceilings
from schedlang.runtime.gpu_profile import Watch, gpu_profile
from schedlang.runtime.kernel import Built
from schedlang.runtime.launch import Launcher
from schedlang.runtime.numba_code import Code
from schedlang.runtime.nvidia import Compiled
from schedlang.runtime.profile import Profile
from schedlang.schedule.schedule import Schedule


class Running(NamedTuple):
    """The launcher and the stream of the current call of this thread."""

    launcher: Launcher
    stream: int


class Quick(NamedTuple):
    """The fast path of a call: a function that binds its arguments, and the only GPU's launcher."""

    bind: Bind
    launcher: Launcher


RUNNING: ContextVar[Running | None] = ContextVar("running", default=None)


class CudaKernel(GpuKernel):
    """A :class:`Kernel` for ``target="cuda"``.

    A call copies NumPy arrays to the GPU and back. It uses arrays in a GPU's memory in place: those
    of CuPy, PyTorch and numba, and any with ``__cuda_array_interface__`` or DLPack. It runs on the
    GPU that holds them, or on the current GPU if all arrays are NumPy's.

    It runs on the current stream of CuPy or PyTorch, or on the stream that an array names. If the
    arrays belong to two streams, the call waits for both. The buffers between two kernels of one
    schedule are kept from call to call, for each thread and each of its streams. So before a call
    is captured in a CUDA graph, call the kernel once with the same sizes.

    Vector accesses need arrays aligned to the width of the access, at most 16 bytes. Every new
    array is. On a GPU of a later generation than ``arch``, the call compiles the kernel for it.
    """

    def __init__(self, built: Built, schedule: Schedule, nest: Nest, file: DeviceFile) -> None:
        super().__init__(built, schedule, nest, file)
        # launchers by the number of the GPU
        self._ready: dict[int, Launcher] = {}
        # the CPU's fast path takes NumPy arrays only
        self._fast_call = None
        # set by the first call, if this machine has one GPU
        self._quick: Quick | None = None

    def compile(self) -> CudaKernel:
        """Compile every kernel to machine code now, and return this kernel."""
        with self._working("compiling"):
            assert self.machine_code is not None
        return self

    def timed_on(self, given: list[Any]) -> tuple[list[Any], Callable[[], object]]:
        """Copy arrays to the GPU once; return the copies and a function that waits for the GPU."""
        self._check_gpu()
        cuda = nvidia.driver()
        there = [cuda.to_device(a) if isinstance(a, np.ndarray) else a for a in given]
        return there, cuda.synchronize

    def timed_by_events(
        self, there: Sequence[Any], repeat: int, min_time: float, dtype: str
    ) -> tuple[list[float], Ceilings]:
        """Return the seconds of calls by events, and the ceilings of the GPU."""
        seconds_of_calls: list[float] = []
        with nvidia.on_gpu(device_of(there)):
            clock, start = GpuClock(next(iter(streams_of(there)), 0)), perf_counter()
            while len(seconds_of_calls) < repeat or perf_counter() - start < min_time:
                seconds_of_calls.append(clock.seconds([lambda: self(*there)]))
            return seconds_of_calls, gpu_ceilings(dtype)

    def profile(
        self, *args: Any, repeat: int = 5, levels: int = 3, share: float = 0.05, **named: Any
    ) -> Profile:
        check_options(repeat, levels, share)
        self._check_gpu()
        outputs = self(*args, **named)
        results = iter(outputs if isinstance(outputs, tuple) else (outputs,))
        ordered = self._binder.order(args, named)
        parameters = self.signature.parameters
        there, _ = self.timed_on(
            [next(results) if p.is_output else v for p, v in zip(parameters, ordered)]
        )
        stages = {k.name: k.launch.stage for k in self._file.source.kernels}
        with nvidia.on_gpu(device_of(there)):
            number, launcher = one_stream(there)[0], self._function()

            def run(watch: Watch | None) -> object:
                watched = launcher if watch is None else launcher.watched(watch)
                return self._started_by(Running(watched, number), there, {})

            return gpu_profile(self.name, self.target.kind, stages, run, number, repeat)

    def _code(self, asked: str) -> Code:
        raise BuildError(
            explain(
                f"{asked} of kernel {self.name}",
                "it is compiled for a GPU",
                "Read its .ptx and its .sass.",
            )
        )

    def _started_by(self, running: Running, args: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """Check and run a call by a launcher on a stream, and return its outputs."""
        token = RUNNING.set(running)
        try:
            return super().__call__(*args, **named)
        finally:
            RUNNING.reset(token)

    def _function(self) -> Launcher:
        self._check_gpu()
        here = nvidia.driver().get_current_device()
        launcher = self._ready.get(here.id)
        if launcher is None:
            with self._working("compiling"):
                code = self._code_for(tuple(here.compute_capability))
            forms = [k.form for k in self._file.source.kernels]
            launcher = Launcher(files.load(self._path), forms, code)
            self._ready[here.id] = launcher
            bind = device_fast_call(self.signature, self._file.source.alignment)
            if bind is not None and len(nvidia.driver().gpus) == 1:
                self._quick = Quick(bind, launcher)
        return launcher

    def _check_gpu(self) -> None:
        if not self._ready:
            check_gpu(f"kernel {self.name}")

    def _code_for(self, have: tuple[int, ...]) -> Mapping[str, Compiled]:
        """Return the machine code for a GPU: the built one, or one compiled for a later GPU."""
        check_later(self._file.program.launches, self.target, have)
        device = device_for(f"kernel {self.name}", self.target, have)
        return self.machine_code if device == self.target.device else self._file.compiled(device)

    def _view(self, value: Any, what: str, written: bool) -> np.ndarray:
        running = RUNNING.get()
        return device_view(value, what, written, 0 if running is None else running.stream)

    def _elements(self, value: Any) -> Any:
        return device_elements(value)

    def _fresh(self, first: Any, shape: tuple[int, ...], dtype: str) -> Any:
        return empty_on_device(first, shape, dtype)

    def _launch(self, arrays: Sequence[Any], sizes: Mapping[str, int]) -> None:
        running = RUNNING.get()
        assert running is not None
        signature = self._built.signature
        passed = DeviceArguments(arrays, signature, self._file.source.alignment, running.stream)
        running.launcher.start(
            [*passed.given, *(sizes[n] for n in signature.sizes)], running.stream
        )
        passed.finish()

    def __call__(self, /, *args: Any, **named: Any) -> Any:
        bound = self._quick.bind(args) if self._quick is not None and not named else None
        if self._quick is not None and bound is not None:
            passed, returned = bound
            # makes the GPU's context current in this thread
            nvidia.driver().get_current_device()
            number, several = one_stream(args, passed.interfaces)
            self._quick.launcher.launch(passed.memory, number)
            if several:
                nvidia.stream_of(number).synchronize()
            return returned
        values = (*args, *named.values())
        self._check_gpu()
        with nvidia.on_gpu(device_of(values)):
            number, several = one_stream(values)
            try:
                return self._started_by(Running(self._function(), number), args, named)
            finally:
                if several:
                    nvidia.stream_of(number).synchronize()
