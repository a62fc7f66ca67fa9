"""A kernel on an NVIDIA GPU: arrays of any library by their addresses, on the caller's stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from schedlang.codegen.cuda import ALIGNMENT, GpuSource
from schedlang.errors import CallError, CallTypeError, explain
from schedlang.grid.program import Program
from schedlang.ir.nest import Nest
from schedlang.runtime import files, nvidia
from schedlang.runtime.arrays import as_numpy
from schedlang.runtime.bundle import DEVICE_PACKAGE, bundle
from schedlang.runtime.emulated import GpuKernel
from schedlang.runtime.kernel import Built
from schedlang.runtime.nvidia import Compiled, Resources
from schedlang.runtime.simulator import launcher
from schedlang.schedule.schedule import Schedule

# DLPack's number for memory of an NVIDIA GPU
CUDA_DEVICE = 2
# the stream of the call that runs in this thread
STREAM: ContextVar[int] = ContextVar("stream", default=0)


class CudaKernel(GpuKernel):
    """A :class:`Kernel` for ``target="cuda"``.

    Takes NumPy arrays, which are copied to the GPU and back, and arrays in a GPU's memory (CuPy,
    PyTorch, numba, anything with ``__cuda_array_interface__``), which are not. ``ptx``,
    ``sass`` and ``resources`` need no GPU.
    """

    def __init__(
        self, built: Built, schedule: Schedule, nest: Nest, program: Program, source: GpuSource,
        fastmath: bool,
    ) -> None:  # fmt: skip
        super().__init__(built, schedule, nest, program)
        self._source = source
        self._fastmath = fastmath
        # the way for NumPy arrays alone is the CPU's
        self._shortcut = None

    @cached_property
    def machine_code(self) -> Mapping[str, Compiled]:
        """Each kernel compiled: its PTX, its cubin, its resources, by kernel name."""
        nvidia.driver()
        module = files.load(self._path)
        device = self.target.device
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

    def _function(self) -> Any:
        if self._entry is None:
            cuda = nvidia.driver()
            if not cuda.is_available():
                raise CallError(
                    explain(
                        f"kernel {self.name}",
                        "it needs an NVIDIA GPU, and this machine shows none",
                        'Build it for target="cuda-emulator", or set SCHEDLANG_CUDA=emulator, to '
                        "run it on the CPU.",
                    )
                )
            have, wanted = (
                cuda.get_current_device().compute_capability,
                self.target.device.capability,
            )
            if tuple(have) < wanted:
                arch = "sm_{}{}".format(*have)
                raise CallError(
                    f"kernel {self.name} is built for {self.target.arch}, and this GPU is {arch}: "
                    f'build it for sl.Target("cuda", arch={arch!r})'
                )
            module = files.load(self._path)
            for kernel in self._source.kernels:
                if kernel.dynamic_bytes:
                    nvidia.allow_shared(module, kernel)
            self._entry = module.launch
        return self._entry

    def _view(self, value: Any, what: str, written: bool) -> np.ndarray:
        if getattr(value, "requires_grad", False):
            raise CallTypeError(f"{what} is a tensor that requires grad: pass its .detach()")
        if isinstance(value, np.ndarray) or hasattr(value, "__cuda_array_interface__"):
            return described(value)
        device = getattr(value, "__dlpack_device__", None)
        if device is not None and device()[0] == CUDA_DEVICE:
            raise CallTypeError(
                f"{what} is a {type(value).__name__} on a GPU without __cuda_array_interface__: "
                "pass cupy.from_dlpack(...) or torch.from_dlpack(...) of it"
            )
        return as_numpy(value, what, written)

    def _fresh(self, first: Any, shape: tuple[int, ...], dtype: str) -> Any:
        return empty_on_device(first, shape, dtype)

    def _launch(self, arrays: Sequence[Any], sizes: Mapping[str, int]) -> None:
        launch, cuda = self._function(), nvidia.driver()
        number = STREAM.get()
        stream = cuda.external_stream(number) if number else 0
        given: list[Any] = []
        back: list[tuple[Any, np.ndarray]] = []
        for value, p in zip(arrays, self._built.signature.parameters):
            if p.is_scalar:
                given.append(value)
                continue
            flat = value.reshape(-1)
            flat = flat.view(np.uint16) if p.dtype == "float16" else flat
            if isinstance(value, Described):
                given.append(cuda.as_cuda_array(OnDevice(address_of(flat, p.name), flat)))
                continue
            given.append(cuda.to_device(flat, stream=stream))
            if p.is_output:
                back.append((given[-1], flat))
        launch(*given, *(sizes[n] for n in self._built.signature.sizes), stream=stream)
        for there, here in back:
            there.copy_to_host(here, stream=stream)
        if back:
            cuda.synchronize()

    def __call__(self, *args: Any, **named: Any) -> Any:
        self._function()
        token = STREAM.set(current_stream((*args, *named.values())))
        try:
            return super().__call__(*args, **named)
        finally:
            STREAM.reset(token)

    def save(self, path: str | Path) -> Path:
        """Write a file that runs with numba-cuda and NumPy alone; returns its path.

        Its function ``launch`` takes flat arrays of the GPU, then the sizes; it has the intrinsics
        that the kernels use.
        """
        target = Path(path)
        target.write_text(bundle(self._built.text, DEVICE_PACKAGE), encoding="utf-8")
        return target

    def __reduce__(self) -> Any:
        made = (self._built, self.schedule, self._nest, self._program, self._source, self._fastmath)
        return CudaKernel, made


class Described(np.ndarray):
    """An array that lies in a GPU's memory: shape, dtype and address, which is not read here."""


class OnDevice:
    """A flat array of a GPU's memory as its ``__cuda_array_interface__``."""

    def __init__(self, address: int, flat: np.ndarray) -> None:
        self.__cuda_array_interface__ = {
            "shape": flat.shape, "typestr": flat.dtype.str, "data": (address, False), "version": 3,
            "strides": None,
        }  # fmt: skip


def described(value: Any) -> np.ndarray:
    """NumPy arrays as they are; one in a GPU's memory as :class:`Described`."""
    if isinstance(value, np.ndarray):
        return value
    known = value.__cuda_array_interface__

    class Holder:
        __array_interface__ = {
            "shape": known["shape"], "typestr": known["typestr"], "data": known["data"],
            "strides": known.get("strides"), "version": 3,
        }  # fmt: skip

    return np.asarray(Holder()).view(Described)


def address_of(flat: np.ndarray, name: str) -> int:
    """Where a described array starts: kernels access up to 16 bytes at once."""
    address = int(flat.ctypes.data)
    if address % ALIGNMENT and flat.size:
        raise CallError(
            f"{name} starts at an address that is no multiple of {ALIGNMENT} bytes, as a view into "
            "another array may: pass a copy of it"
        )
    return address


def library_of(value: Any) -> str:
    """The top package of a value's type, as ``"torch"``."""
    return type(value).__module__.partition(".")[0]


def current_stream(values: Sequence[Any]) -> int:
    """The stream that the caller's library works on; 0 is the default one."""
    for value in values:
        if library_of(value) == "torch":
            import torch

            return int(torch.cuda.current_stream().cuda_stream)
        if library_of(value) == "cupy":
            import cupy

            return int(cupy.cuda.get_current_stream().ptr)
        known = getattr(value, "__cuda_array_interface__", None)
        if known is not None and known.get("stream"):
            return int(known["stream"])
    return 0


def empty_on_device(first: Any, shape: tuple[int, ...], dtype: str) -> Any:
    """An uninitialised array in the library, and on the device, of ``first``."""
    library = library_of(first)
    if library == "torch":
        import torch

        return torch.empty(shape, dtype=getattr(torch, dtype), device=first.device)
    if library == "cupy":
        import cupy

        return cupy.empty(shape, dtype)
    if hasattr(first, "__cuda_array_interface__"):
        return nvidia.driver().device_array(shape, np.dtype(dtype))
    return np.empty(shape, dtype)


__all__ = ["CudaKernel"]
