"""Launches of a network's kernels on one GPU, with the memory that running calls need.

The functions ``launch`` and ``views`` of the emitted file run unchanged; by cuda.core they start
the kernels that were compiled here, and arrays are addresses.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from schedlang.codegen.network_storage import Storage
from schedlang.codegen.numba_cuda import KernelForm
from schedlang.networks.call import MOST_PLANS, Layouts
from schedlang.runtime import nvidia
from schedlang.runtime.cuda_graph import ExecutableGraph
from schedlang.runtime.launch import Loaded, Memory, Scratch, Streams
from schedlang.runtime.nvidia import Compiled

# the number of the stream that is another one in each thread
PER_THREAD = 2


@dataclass(eq=False)
class CallMemory:
    """The memory of one call: ``arena`` bytes at ``address``, whose ``owner`` keeps it alive.

    ``views`` are the arrays in it, by the sizes of a call.
    """

    arena: int
    address: int
    owner: Any
    views: dict[Any, Any] = field(default_factory=dict)


class ArenaLayout(NamedTuple):
    """The bytes of an arena, and the places in it where they depend on the sizes of a call.

    ``key`` is the same for calls of the same sizes.
    """

    size: int
    places: np.ndarray | None = None
    key: Any = None


class NetworkLauncher:
    """The function ``launch`` of a network's file, for the GPU that is current at construction.

    ``params`` are the bytes of the parameters, which are copied to the GPU. ``layouts`` are the
    layouts of an arena that depends on the sizes of a call. Calls may run at once, in threads and
    on several streams: work on one stream runs in order, so that its next call uses the memory of
    the last one again, and each other stream has memory of its own.
    """

    def __init__(
        self,
        module: ModuleType,
        kernels: Sequence[KernelForm],
        code: Mapping[str, Compiled],
        called: Sequence[str],
        params: np.ndarray | None,
        storage: Storage,
        layouts: Layouts | None,
    ) -> None:
        cuda = nvidia.driver()
        self._streams = Streams()
        self._free: dict[int, list[CallMemory]] = {}
        # of the stream that is another one in each thread; freed when the thread ends
        self._of_thread = threading.local()
        self._storage, self._layouts, self._called = storage, layouts, called
        self._params = None if params is None else cuda.to_device(params)
        # streams that do not wait for the default one may launch at once
        nvidia.stream_of(0).synchronize()
        self._scratch = Scratch()
        loaded = {k.name: Loaded(k, code[k.name].cubin) for k in kernels}
        self._names: dict[str, Any] = {
            **vars(module),
            **loaded,
            "cuda": self._scratch,
            "part": part_of,
        }
        for name in {"launch", "views", *called}:
            self._names[name] = _with(vars(module)[name], self._names)
        self._launch = self._names["launch"]

    def watched(self, watch: Callable[[str], AbstractContextManager[None]]) -> NetworkLauncher:
        """Return a launcher for one call, which makes each call of a part in ``watch(number)``."""
        numbers = count()

        def inside(function: Callable[..., None], *args: Any) -> None:
            with watch(str(next(numbers))):
                function(*args)

        parts = {name: partial(inside, self._names[name]) for name in self._called}
        launcher = copy(self)
        launcher._launch = _with(self._launch, {**self._names, **parts})
        return launcher

    def start(self, args: Sequence[Any], number: int) -> None:
        """Launch the kernels of a call on a stream; the launcher's GPU must be the current one.

        ``args`` has arrays as :class:`Memory`, and Python's integers.
        """
        self._scratch.begin(number)
        free = self._idle(number)
        layout = self._layout(args)
        memory = self._taken(free, layout.size)
        try:
            self._launch(*args, self._views(memory, layout), stream=self._streams[number])
        finally:
            # what is launched later on this stream runs later
            free.append(memory)

    def recorded(self, args: Sequence[Any], number: int) -> tuple[ExecutableGraph, list[Any]]:
        """Start a call on a stream, and return its launches as a CUDA graph.

        Also return what must live as long: the memory between its kernels, which it alone uses.
        """
        layout = self._layout(args)
        memory = self._taken([], layout.size)
        views, scratch = self._views(memory, layout), Scratch()
        names = {**self._names, "cuda": scratch}
        for name in {"launch", *self._called}:
            names[name] = _with(self._names[name], names)

        def start(stream: Any) -> None:
            scratch.begin(0)
            names["launch"](*args, views, stream=stream)

        # kernels are loaded, and arrays allocated, by a first launch
        start(self._streams[number])
        graph = ExecutableGraph(lambda stream: start(Streams()[stream]))
        return graph, [memory, scratch.arrays()]

    def _layout(self, args: Sequence[Any]) -> ArenaLayout:
        if self._layouts is None:
            return ArenaLayout(self._storage.arena)
        return ArenaLayout(*self._layouts(args), self._layouts.key(args))

    def _idle(self, number: int) -> list[CallMemory]:
        """Return the memories of a stream that no call being launched uses."""
        if number != PER_THREAD:
            return self._free.setdefault(number, [])
        return vars(self._of_thread).setdefault("free", [])

    def _taken(self, free: list[CallMemory], size: int) -> CallMemory:
        try:
            memory = free.pop()
        except IndexError:
            memory = None
        if memory is not None and memory.arena >= size:
            return memory
        # free the memory that is too small before the next is allocated
        memory = None
        if not size:
            return CallMemory(0, 0, None)
        owner = nvidia.driver().device_array(size, np.uint8)
        address, _, _ = Memory.of(owner.__cuda_array_interface__)
        return CallMemory(size, address, owner)

    def _views(self, memory: CallMemory, layout: ArenaLayout) -> Any:
        """Return the arrays in ``memory`` and of the parameters, made once for each layout."""
        views = memory.views.get(layout.key)
        if views is None:
            if len(memory.views) >= MOST_PLANS:
                memory.views.clear()
            given = None if self._params is None else self._params.__cuda_array_interface__
            wholes = (
                None if given is None else Memory.of(given),
                Memory(memory.address, memory.arena, 1),
            )
            rest = [] if layout.places is None else [list(map(int, layout.places))]
            views = memory.views[layout.key] = self._names["views"](*wholes, *rest)
        return views

    def release_memory(self) -> None:
        """Free the memory that no call uses; the driver waits for kernels that still run."""
        self._free.clear()
        vars(self._of_thread).clear()


def part_of(whole: Memory, start: int, count: int, dtype: Any) -> Memory:
    """Return the array of ``count`` elements from byte ``start`` of ``whole`` on.

    >>> part_of(Memory(1000, 64, 1), 32, 4, np.float32)
    Memory(address=1032, length=4, itemsize=4)
    """
    return Memory(whole.address + start, count, np.dtype(dtype).itemsize)


def _with(function: Any, names: dict[str, Any]) -> Any:
    """Return a function of a file that sees ``names`` instead of the file's own names."""
    return FunctionType(function.__code__, names, function.__name__, function.__defaults__)
