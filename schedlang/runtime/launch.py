"""Launches on a GPU: load the machine code that ``ptx`` and ``sass`` show, and start it.

The function ``launch`` of the emitted file runs unchanged. By cuda.core it starts these kernels in
place of numba's, and it reuses scratch memory from call to call.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from copy import copy
from functools import partial
from importlib import import_module
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from schedlang.codegen.numba_cuda import KernelForm, Passed
from schedlang.errors import BuildError, CallError
from schedlang.runtime import nvidia
from schedlang.runtime.nvidia import Compiled
from schedlang.target import DEFAULT_ARCH, DEVICES

# launch configurations that are cached
MAX_CONFIGS = 256
# numba's machine code takes seven parameters for a flat array: two that stay 0, its length, its
# itemsize, its address, then the shape and the stride of its dimension
ARRAY = 7


class Memory(NamedTuple):
    """A flat array in a GPU's memory."""

    address: int
    length: int
    itemsize: int

    @staticmethod
    def of(interface: Mapping[str, Any]) -> Memory:
        """Return the memory of a flat array by its ``__cuda_array_interface__``."""
        (length,) = interface["shape"]
        return Memory(interface["data"][0], length, np.dtype(interface["typestr"]).itemsize)


class Launcher:
    """The function ``launch`` of an emitted file, for the GPU that is current at construction.

    A call takes flat arrays on that GPU, as :class:`Memory` or with a ``__cuda_array_interface__``,
    then scalars and sizes, in the order of the file's function. ``stream`` is a stream's number.
    """

    def __init__(
        self, module: ModuleType, kernels: Sequence[KernelForm], code: Mapping[str, Compiled]
    ) -> None:
        self._device = nvidia.driver().get_current_device().id
        self._scratch = Scratch()
        self._streams = Streams()
        self._kernels = {k.name: Loaded(k, code[k.name].cubin) for k in kernels}
        self._function = module.launch
        self._launch = self._with(self._kernels)

    def _with(self, kernels: Mapping[str, Any]) -> Callable[..., None]:
        """Return the file's function with ``kernels`` in place of numba's."""
        code = self._function
        names = {**code.__globals__, **kernels, "cuda": self._scratch}
        return FunctionType(code.__code__, names, "launch", code.__defaults__)

    def watched(self, watch: Callable[[str], AbstractContextManager[None]]) -> Launcher:
        """Return a launcher of the same kernels, each launched inside of ``watch(its name)``."""
        launcher = copy(self)
        launcher._launch = self._with(
            {name: Watched(kernel, partial(watch, name)) for name, kernel in self._kernels.items()}
        )
        return launcher

    def __call__(self, *args: Any, stream: int = 0) -> None:
        with nvidia.on_gpu(self._device):
            self.start(args, stream)

    def start(self, args: Sequence[Any], number: int) -> None:
        """Launch the kernels of a call; the launcher's GPU must be the current one."""
        self.launch([*map(launch_argument, args)], number)

    def launch(self, args: Sequence[Any], number: int) -> None:
        """Launch the kernels; ``args`` has arrays as :class:`Memory`, and Python's integers."""
        self._scratch.begin(number)
        self._launch(*args, stream=self._streams[number])


class Streams(dict[int, Any]):
    """Streams as cuda.core takes them, by their numbers, each made once."""

    def __missing__(self, number: int) -> Any:
        stream = self[number] = core().Stream.from_handle(number)
        return stream


def launch_argument(value: Any) -> Any:
    """Return an argument of a launch: the memory of an array, or a number of Python's."""
    interface = getattr(value, "__cuda_array_interface__", None)
    if interface is not None:
        return Memory.of(interface)
    # the grid is computed from sizes, and cuda.core takes Python's integers only
    return int(value) if isinstance(value, np.integer) else value


class Loaded:
    """A loaded kernel; ``kernel[grid, block, stream, dynamic_bytes](*args)`` launches it."""

    def __init__(self, source: KernelForm, cubin: bytes) -> None:
        cuda = core()
        self._name = source.name
        self._kernel = cuda.ObjectCode.from_cubin(cubin).get_kernel(source.name)
        self._launch, self._config = cuda.launch, cuda.LaunchConfig
        self._casts = [_cast(p) for p in source.parameters]
        expected: list[int] = []
        for cast in self._casts:
            expected += [8] * ARRAY if cast is None else [ctypes.sizeof(cast)]
        actual = [size for _, size in self._kernel.arguments_info]
        if actual != expected:
            raise BuildError(
                f"kernel {source.name} takes parameters of {actual} bytes in its machine code, but "
                f"{expected} were expected: this version of numba-cuda passes arrays in another way"
            )
        self._configs: dict[tuple[Any, ...], Any] = {}
        if source.dynamic_bytes:
            nvidia.allow_shared(self._kernel, source.dynamic_bytes)

    def __getitem__(self, where: tuple[Any, ...]) -> Callable[..., None]:
        grid, block, stream, *dynamic = where
        key = (grid, block, *dynamic)
        config = self._configs.get(key)
        if config is None:
            self._check(grid)
            if len(self._configs) >= MAX_CONFIGS:
                self._configs.clear()
            shared = dynamic[0] if dynamic else 0
            config = self._configs[key] = self._config(grid=grid, block=block, shmem_size=shared)
        return partial(self._start, stream, config)

    def _check(self, grid: Sequence[int]) -> None:
        for extent, (letter, most) in zip(grid, DEVICES[DEFAULT_ARCH].grid.items()):
            if extent > most:
                raise CallError(
                    f"kernel {self._name}: blockIdx.{letter} would have extent {extent} for these "
                    f"sizes, but a GPU allows {most}"
                )

    def _start(self, stream: Any, config: Any, *args: Any) -> None:
        flat: list[Any] = []
        for value, cast in zip(args, self._casts):
            if cast is None:
                address, length, itemsize = value
                flat += (0, 0, length, itemsize, address, length, itemsize)
            else:
                flat.append(cast(value))
        self._launch(stream, config, self._kernel, *flat)


class Watched:
    """A loaded kernel; each of its launches happens inside of ``watch()``."""

    def __init__(self, kernel: Loaded, watch: Callable[[], AbstractContextManager[None]]) -> None:
        self._kernel, self._watch = kernel, watch

    def __getitem__(self, where: tuple[Any, ...]) -> Callable[..., None]:
        start = self._kernel[where]

        def launch(*args: Any) -> None:
            with self._watch():
                start(*args)

        return launch


class Scratch(threading.local):
    """The arrays between the kernels of ``launch``, which are reused from call to call.

    It replaces ``numba.cuda`` in ``launch``. Each thread and each of its streams has its own
    arrays, so that no two launches share one.
    """

    def __init__(self) -> None:
        self._held: dict[tuple[int, int], tuple[Memory, Any]] = {}
        self._stream = 0
        self._position = 0

    def begin(self, stream: int) -> None:
        """Begin a call. Every call asks for its arrays in the same order."""
        self._stream, self._position = stream, 0

    def device_array(self, count: int, dtype: Any, stream: Any) -> Memory:
        """Return an uninitialised array of ``count`` elements."""
        itemsize = np.dtype(dtype).itemsize
        place = self._stream, self._position
        self._position += 1
        entry = self._held.get(place)
        if entry is None or entry[0].length < count * itemsize:
            # free the array that is too small before the next is allocated
            entry = None
            self._held.pop(place, None)
            owner = nvidia.driver().device_array(max(1, count * itemsize), np.uint8)
            entry = self._held[place] = Memory.of(owner.__cuda_array_interface__), owner
        return Memory(entry[0].address, count, itemsize)

    def arrays(self) -> list[Any]:
        """Return the arrays of this thread, which live as long as someone has them."""
        return [owner for _, owner in self._held.values()]


def core() -> Any:
    """Return the module ``cuda.core``, which numba-cuda installs."""
    nvidia.driver()
    return import_module("cuda.core")


def _cast(parameter: Passed) -> Any:
    """Return the C type of a scalar parameter; ``None`` for an array."""
    if parameter.is_array:
        return None
    return np.ctypeslib.as_ctypes_type(np.dtype(parameter.dtype))
