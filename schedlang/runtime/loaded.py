"""Machine code on a GPU: what ``ptx`` and ``sass`` show is loaded, and launched by cuda.core.

The function ``launch`` of the emitted file runs as it stands, with these kernels in place of
numba's and scratch memory that is made once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from threading import Lock
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from schedlang.codegen.cuda import KernelSource
from schedlang.errors import BuildError
from schedlang.expr.nodes import Axis, Var
from schedlang.ir.nodes import Buffer
from schedlang.runtime import nvidia
from schedlang.runtime.nvidia import Compiled

# a flat array is seven parameters of machine code that numba makes: two that stay 0, elements,
# bytes of one, the address, and for its one dimension again elements and bytes
ARRAY = 7


class Memory(NamedTuple):
    """A flat array in a GPU's memory."""

    address: int
    length: int
    itemsize: int

    @staticmethod
    def of(array: Any) -> Memory:
        """Of anything flat that says by ``__cuda_array_interface__`` where it lies."""
        known = array.__cuda_array_interface__
        (length,) = known["shape"]
        return Memory(known["data"][0], length, np.dtype(known["typestr"]).itemsize)


class Launcher:
    """The function ``launch`` of an emitted file for the current GPU.

    Takes flat arrays on the GPU, as :class:`Memory` or with a ``__cuda_array_interface__``, then
    scalars and sizes, in the order of the file's function, and a stream's number.
    """

    def __init__(
        self, module: ModuleType, kernels: Sequence[KernelSource], code: Mapping[str, Compiled]
    ) -> None:
        self._scratch = Scratch()
        made = {k.name: Loaded(k, code[k.name].cubin) for k in kernels}
        launch = module.launch
        names = {**launch.__globals__, **made, "cuda": self._scratch}
        self._launch = FunctionType(launch.__code__, names, "launch", launch.__defaults__)
        # launches that share scratch memory follow each other whole
        self._lock = Lock()

    def __call__(self, *args: Any, stream: int = 0) -> None:
        given = [Memory.of(a) if hasattr(a, "__cuda_array_interface__") else a for a in args]
        with self._lock:
            self._scratch.start(stream)
            self._launch(*given, stream=core().Stream.from_handle(stream))


class Loaded:
    """One kernel; ``kernel[grid, block, stream, dynamic_bytes](*args)`` launches it, as numba's."""

    def __init__(self, source: KernelSource, cubin: bytes) -> None:
        self._kernel = core().ObjectCode.from_cubin(cubin).get_kernel(source.name)
        self._casts = [_cast(p) for p in source.parameters]
        wanted = sum(ARRAY if cast is None else 1 for cast in self._casts)
        if self._kernel.num_arguments != wanted:
            raise BuildError(
                f"kernel {source.name} has {self._kernel.num_arguments} parameters in its machine "
                f"code, and {wanted} are known: this version of numba-cuda passes arrays otherwise"
            )
        self._configs: dict[tuple[Any, ...], Any] = {}
        if source.dynamic_bytes:
            nvidia.allow_shared(self._kernel, source.dynamic_bytes)

    def __getitem__(self, where: tuple[Any, ...]) -> Callable[..., None]:
        grid, block, stream, *dynamic = where
        key = (grid, block, *dynamic)
        config = self._configs.get(key)
        if config is None:
            shared = dynamic[0] if dynamic else 0
            config = core().LaunchConfig(grid=grid, block=block, shmem_size=shared)
            self._configs[key] = config
        return partial(self._start, stream, config)

    def _start(self, stream: Any, config: Any, *args: Any) -> None:
        flat: list[Any] = []
        for value, cast in zip(args, self._casts):
            if cast is None:
                address, length, itemsize = value
                flat += (0, 0, length, itemsize, address, length, itemsize)
            else:
                flat.append(cast(value))
        core().launch(stream, config, self._kernel, *flat)


class Scratch:
    """Stands for ``numba.cuda`` in ``launch``: arrays between its kernels, kept from call to call.

    Each stream has its own, so that launches on two streams do not meet in them.
    """

    def __init__(self) -> None:
        self._held: dict[tuple[int, int], Memory] = {}
        self._owners: dict[tuple[int, int], Any] = {}
        self._stream = 0
        self._position = 0

    def start(self, stream: int) -> None:
        """A call begins; it asks for its arrays in one order."""
        self._stream, self._position = stream, 0

    def device_array(self, count: int, dtype: Any, stream: Any) -> Memory:
        """``count`` elements, uninitialised."""
        itemsize = np.dtype(dtype).itemsize
        place = self._stream, self._position
        self._position += 1
        held = self._held.get(place)
        if held is None or held.length < count * itemsize:
            self._owners[place] = nvidia.driver().device_array(max(1, count * itemsize), np.uint8)
            held = self._held[place] = Memory.of(self._owners[place])
        return Memory(held.address, count, itemsize)


def core() -> Any:
    """The module ``cuda.core``, which numba-cuda brings."""
    nvidia.driver()
    return import_module("cuda.core")


def _cast(parameter: Buffer | Var | Axis) -> Any:
    """The C type of a scalar parameter; ``None`` for an array."""
    if isinstance(parameter, Buffer):
        return None
    return np.ctypeslib.as_ctypes_type(np.dtype(nvidia.passed_dtype(parameter)))


__all__ = ["Launcher", "Loaded", "Memory", "Scratch"]
