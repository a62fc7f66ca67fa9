"""The memory that a call of a module needs beside its arguments.

Calls may run at once, in threads. Each takes memory that no other call uses, and leaves it to the
next one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from schedlang.codegen.network_storage import ParamPlace, Storage
from schedlang.errors import CallError, CallTypeError, nearest
from schedlang.expr.dtypes import array_dtype
from schedlang.machine.alignment import ALIGNMENT
from schedlang.networks.sized_memory import SizedMemory
from schedlang.runtime.parameters import Signature


def new_bytes(size: int) -> np.ndarray:
    """Return ``size`` uninitialised bytes that begin at a cache line.

    >>> new_bytes(100).ctypes.data % 64, new_bytes(100).size
    (0, 100)
    """
    whole = np.empty(size + ALIGNMENT, "uint8")
    start = -whole.ctypes.data % ALIGNMENT
    return whole[start : start + size]


def pack(storage: Storage, arrays: Mapping[str, Any]) -> np.ndarray:
    """Return the bytes of all parameters of a module, of arrays by their names.

    Other arrays are left out. Raises :class:`~schedlang.errors.CallError` for one that is missing
    or has another shape, and :class:`~schedlang.errors.CallTypeError` for another dtype.

    >>> from schedlang.codegen.network_storage import ParamPlace
    >>> places = (ParamPlace("w", 0, "float32", (2,)), ParamPlace("b", 64, "int8", (1,)))
    >>> found = pack(Storage(places, 128), {"w": np.ones(2, "float32"), "b": np.ones(1, "int8")})
    >>> found[:8].view("float32"), found[64]
    (array([1., 1.], dtype=float32), np.uint8(1))
    """
    packed = new_bytes(storage.param_bytes)
    end = 0
    for p in storage.params:
        if p.name not in arrays:
            hint = nearest(p.name, arrays)
            raise CallError(f"the parameter {p.name} is missing{hint}")
        array = np.asarray(arrays[p.name])
        if array.dtype != array_dtype(p.dtype):
            raise CallTypeError(f"the parameter {p.name} is {array.dtype}, but must be {p.dtype}")
        if array.shape != p.shape:
            raise CallError(
                f"the parameter {p.name} has shape {array.shape}, but must have {p.shape}"
            )
        # no bytes between parameters are left to chance
        packed[end : p.start] = 0
        end = p.start + array.nbytes
        packed[p.start : end].view(array_dtype(p.dtype)).reshape(p.shape)[...] = array
    packed[end:] = 0
    return packed


def weight_in(params: np.ndarray, place: ParamPlace) -> np.ndarray:
    """Return the parameter at ``place`` as a view of the bytes of all.

    >>> params = np.ones(4, "float32").view("uint8")
    >>> weight_in(params, ParamPlace("w", 8, "float32", (2,)))
    array([1., 1.], dtype=float32)
    """
    dtype = np.dtype(array_dtype(place.dtype))
    end = place.start + prod(place.shape) * dtype.itemsize
    return params[place.start : end].view(dtype).reshape(place.shape)


def as_packed(params: np.ndarray, storage: Storage) -> np.ndarray:
    """Return the bytes of all parameters as compiled code takes them: a copy if need be.

    Raises :class:`~schedlang.errors.CallError` if they are not as many as the module needs.
    """
    if params.dtype != np.uint8 or params.ndim != 1 or params.size != storage.param_bytes:
        raise CallError(
            f"the parameters are {params.dtype}{list(params.shape)}, but must be "
            f"uint8[{storage.param_bytes}], as they are packed"
        )
    plain = params.view(np.ndarray)
    if plain.flags.c_contiguous and plain.flags.writeable and plain.ctypes.data % ALIGNMENT == 0:
        return plain
    aligned = new_bytes(storage.param_bytes)
    aligned[:] = plain
    return aligned


@dataclass(frozen=True)
class Memory:
    """Memory for one call: ``arrays``, of ``arena`` bytes and for so many ``threads``."""

    arena: int
    threads: int
    arrays: tuple[np.ndarray, ...]


# the sizes and plans of the latest calls that are kept
MOST_PLANS = 64


def size_positions(signature: Signature) -> dict[str, int]:
    """Return the names of sizes, and the place of each among the flat arguments of a call."""
    sizes = {p.name: k for k, p in enumerate(signature.parameters) if p.is_size}
    first = len(signature.parameters)
    return {**sizes, **{name: first + k for k, name in enumerate(signature.sizes)}}


class Layouts:
    """The layouts of the arena at the sizes of calls, each planned once.

    ``signature`` says where the sizes are among the flat arguments.
    """

    def __init__(self, sized: SizedMemory, signature: Signature) -> None:
        self._sized = sized
        self._positions = size_positions(signature)
        self._known: dict[tuple[int, ...], tuple[int, np.ndarray]] = {}

    def __call__(self, flat: Sequence[Any]) -> tuple[int, np.ndarray]:
        """Return the bytes of the arena for these arguments, and the places in it."""
        key = self.key(flat)
        layout = self._known.get(key)
        if layout is None:
            plan = self._sized.plan(dict(zip(self._positions, key)))
            if len(self._known) >= MOST_PLANS:
                self._known.clear()
            layout = self._known[key] = max(plan.peak, ALIGNMENT), self._sized.places(plan)
        return layout

    def key(self, flat: Sequence[Any]) -> tuple[int, ...]:
        """Return the sizes of a call, of its flat arguments."""
        return tuple(int(flat[position]) for position in self._positions.values())


def with_memory(
    function: Callable[..., None],
    params: Sequence[np.ndarray],
    storage: Storage,
    threads: Callable[[], int],
    free: list[Memory],
    layouts: Layouts | None = None,
    poison: bool = False,
) -> Callable[..., None]:
    """Return a function of the flat arguments that calls ``function`` with memory behind them.

    ``threads`` returns the greatest number of threads of a parallel loop. ``free`` are the memories
    that no call uses: calls take from it and return to it. ``layouts`` are the layouts of an arena
    that depends on sizes. ``poison`` fills the arena with NaNs before each call.
    """
    fixed, has_threads = storage.arena, storage.threads > 0

    def memory(size: int, count: int) -> Memory:
        arena = [new_bytes(size)] if size else []
        scratch = [new_bytes(storage.threads * count)] if has_threads else []
        return Memory(size, count, (*params, *arena, *scratch))

    def taken(size: int) -> Memory:
        count = threads() if has_threads else 1
        try:
            idle = free.pop()
        except IndexError:
            idle = memory(size, count)
        if idle.arena < size or idle.threads < count:
            idle = memory(size, count)
        if poison:
            for array in idle.arrays[len(params) :]:
                array.fill(0xFF)
        return idle

    def start(*flat: Any) -> None:
        held = taken(fixed)
        try:
            function(*flat, *held.arrays)
        finally:
            free.append(held)

    def start_sized(*flat: Any) -> None:
        assert layouts is not None
        size, places = layouts(flat)
        held = taken(size)
        try:
            function(*flat, *held.arrays, places)
        finally:
            free.append(held)

    return start if layouts is None else start_sized
