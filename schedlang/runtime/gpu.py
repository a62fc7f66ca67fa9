"""A kernel on an NVIDIA GPU: its machine code, and its launch on the caller's stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from schedlang.codegen.cuda import GpuSource
from schedlang.errors import BuildError, CallError, CallTypeError, explain
from schedlang.grid.limits import check_limits
from schedlang.grid.program import Program
from schedlang.ir.nest import Nest
from schedlang.runtime import files, nvidia
from schedlang.runtime.arrays import as_numpy
from schedlang.runtime.bundle import DEVICE_PACKAGE, bundle
from schedlang.runtime.device_arrays import (
    Described,
    address_of,
    described,
    device_of,
    empty_on_device,
    is_on_device,
    streams_of,
)
from schedlang.runtime.emulated import GpuKernel
from schedlang.runtime.kernel import Built
from schedlang.runtime.loaded import Launcher, Memory
from schedlang.runtime.nvidia import Compiled, Resources
from schedlang.runtime.simulator import launcher
from schedlang.schedule.schedule import Schedule
from schedlang.target import DEVICES, Device, Target


class Running(NamedTuple):
    """The call that runs in this thread: what launches on its GPU, and its stream."""

    launcher: Launcher
    stream: int


RUNNING: ContextVar[Running | None] = ContextVar("running", default=None)


class CudaKernel(GpuKernel):
    """A :class:`Kernel` for ``target="cuda"``.

    Takes NumPy arrays, which are copied to the GPU and back, and arrays in a GPU's memory (CuPy,
    PyTorch, numba, anything with ``__cuda_array_interface__`` or DLPack), which are not. It runs on
    the GPU that they lie on, else on the current one. ``ptx``, ``sass`` and ``resources`` need no
    GPU.
    """

    def __init__(
        self, built: Built, schedule: Schedule, nest: Nest, program: Program, source: GpuSource,
        fastmath: bool,
    ) -> None:  # fmt: skip
        super().__init__(built, schedule, nest, program)
        self._source = source
        self._fastmath = fastmath
        # by the number of the GPU that it has run on
        self._ready: dict[int, Launcher] = {}
        # the way for NumPy arrays alone is the CPU's
        self._shortcut = None

    @cached_property
    def machine_code(self) -> Mapping[str, Compiled]:
        """Each kernel compiled: its PTX, its cubin, its resources, by kernel name."""
        return self._compiled(self.target.device)

    def _compiled(self, device: Device) -> dict[str, Compiled]:
        nvidia.driver()
        module = files.load(self._path)
        return {
            k.name: nvidia.compiled(module, k, device, self._fastmath) for k in self._source.kernels
        }

    def compile(self) -> CudaKernel:
        """Compile every kernel to machine code now; returns the kernel."""
        assert self.machine_code is not None
        return self

    @property
    def ptx(self) -> str:
        """The PTX of all kernels."""
        return "\n".join(c.ptx for c in self.machine_code.values())

    @property
    def sass(self) -> str:
        """The machine code of all kernels, as nvdisasm prints it."""
        return "\n".join(nvidia.disassembled(c.cubin) for c in self.machine_code.values())

    @property
    def resources(self) -> dict[str, Resources]:
        """Registers, spills, shared memory and occupancy by kernel name."""
        return {name: c.resources for name, c in self.machine_code.items()}

    def simulate(self, *args: Any, **named: Any) -> Any:
        """New outputs by the emitted source, run in Python a thread at a time; for tiny sizes.

        Takes the inputs of a call as NumPy arrays. A breakpoint in the file at ``path`` stops
        there.

        >>> import numpy as np, schedlang as sl
        >>> A = sl.placeholder((10,), name="A")
        >>> B = sl.compute((10,), lambda i: A[i] * 2, name="B")
        >>> s = sl.schedule(B)
        >>> s[B].bind(B.op.axis[0], "threadIdx.x")
        >>> sl.build(s, target=sl.Target("cuda")).simulate(np.ones(10, "float32")).tolist()
        [2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0]
        """
        given, sizes = self._bound(args, named)
        inputs = iter(given)
        arrays: list[Any] = []
        for p in self._built.signature.parameters:
            if not p.is_output:
                arrays.append(next(inputs))
                continue
            arrays.append(np.empty(self._binder.shape(p, sizes), p.dtype))
        flat = [
            a if p.is_scalar else a.reshape(-1).view(np.uint16 if p.dtype == "float16" else a.dtype)
            for a, p in zip(arrays, self._built.signature.parameters)
        ]
        launch = launcher(self._path)
        with np.errstate(all="ignore"):
            launch(*flat, *(sizes[n] for n in self._built.signature.sizes))
        outputs = [a for a, p in zip(arrays, self._built.signature.parameters) if p.is_output]
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def _function(self) -> Launcher:
        self._check_gpu()
        here = nvidia.driver().get_current_device()
        found = self._ready.get(here.id)
        if found is None:
            code = self._code_for(tuple(here.compute_capability))
            found = Launcher(files.load(self._path), self._source.kernels, code)
            self._ready[here.id] = found
        return found

    def _check_gpu(self) -> None:
        if not self._ready and not nvidia.driver().is_available():
            raise CallError(
                explain(
                    f"kernel {self.name}",
                    "it needs an NVIDIA GPU, and this machine shows none",
                    'Build it for target="cuda-emulator", or set SCHEDLANG_CUDA=emulator, to '
                    "run it on the CPU.",
                )
            )

    def _code_for(self, have: tuple[int, ...]) -> Mapping[str, Compiled]:
        """Machine code for a GPU: that of ``sass``, or compiled anew for one of a later kind."""
        built, arch = self.target.device, "sm_{}{}".format(*have)
        later = have > built.capability and not built.specific
        if later and arch in DEVICES:
            # it may have less shared memory: sm_89 than sm_80
            for launch in self._program.launches:
                check_limits(launch, Target("cuda", arch=arch))
        if have == built.capability or (later and have[0] == built.capability[0]):
            return self.machine_code
        if not later or arch not in DEVICES:
            raise CallError(
                f"kernel {self.name} is built for {self.target.arch}, and this GPU is {arch}: "
                f'build it for sl.Target("cuda", arch={arch!r})'
            )
        return self._compiled(DEVICES[arch])

    def _view(self, value: Any, what: str, written: bool) -> np.ndarray:
        if getattr(value, "requires_grad", False):
            raise CallTypeError(f"{what} is a tensor that requires grad: pass its .detach()")
        if isinstance(value, np.ndarray) or is_on_device(value):
            running = RUNNING.get()
            return described(value, 0 if running is None else running.stream)
        return as_numpy(value, what, written)

    def _fresh(self, first: Any, shape: tuple[int, ...], dtype: str) -> Any:
        return empty_on_device(first, shape, dtype)

    def _launch(self, arrays: Sequence[Any], sizes: Mapping[str, int]) -> None:
        running = RUNNING.get()
        assert running is not None
        launcher, number = running
        cuda = nvidia.driver()
        stream = nvidia.stream_of(number)
        given: list[Any] = []
        copied: list[tuple[Any, np.ndarray, bool]] = []
        parameters = self._built.signature.parameters
        for value, p, alignment in zip(arrays, parameters, self._source.alignment):
            if p.is_scalar:
                given.append(value)
                continue
            flat = value.reshape(-1)
            flat = flat.view(np.uint16) if p.dtype == "float16" else flat
            if isinstance(value, Described):
                address = address_of(flat, p.name, alignment)
                given.append(Memory(address, flat.size, flat.itemsize))
                continue
            given.append(cuda.to_device(flat, stream=stream))
            copied.append((given[-1], flat, p.is_output))
        launcher.start([*given, *(sizes[n] for n in self._built.signature.sizes)], number)
        for there, here, is_output in copied:
            if is_output:
                there.copy_to_host(here, stream=stream)
        if copied:
            # what was copied may be changed, and is let go, when the call returns
            stream.synchronize()

    def __call__(self, *args: Any, **named: Any) -> Any:
        values = (*args, *named.values())
        self._check_gpu()
        with nvidia.on_gpu(device_of(values)):
            number, *others = streams_of(values) or (0,)
            for other in others:
                # what the others' libraries have begun is done first
                nvidia.stream_of(other).synchronize()
            token = RUNNING.set(Running(self._function(), number))
            try:
                return super().__call__(*args, **named)
            finally:
                RUNNING.reset(token)

    def save(self, path: str | Path) -> Path:
        """Write a file that runs with numba-cuda and NumPy alone; returns its path.

        Its function ``launch`` takes flat arrays of the GPU, then the sizes; it has the intrinsics
        that the kernels use. It checks nothing: arrays must start at a multiple of 16 bytes, as
        new ones do.

        Raises :class:`~schedlang.errors.BuildError` for a kernel that has to ask for its shared
        memory, which numba's launches do not.
        """
        large = next((k for k in self._source.kernels if k.dynamic_bytes), None)
        if large is not None:
            raise BuildError(
                f"save: kernel {large.name} needs {large.launch.shared_bytes:,} B of shared "
                f"memory, and in a file of its own it has {self.target.device.shared_static:,}: "
                "make the tiles that blocks share smaller"
            )
        target = Path(path)
        target.write_text(bundle(self._built.text, DEVICE_PACKAGE), encoding="utf-8")
        return target

    def __reduce__(self) -> Any:
        made = (self._built, self.schedule, self._nest, self._program, self._source, self._fastmath)
        return CudaKernel, made


__all__ = ["CudaKernel"]
