"""What a call of a module needs beside its arguments: memory for each running call.

Calls may run at once, in threads. Each takes memory that no other call uses, and leaves it to the
next one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from schedlang.codegen.network_file import Storage
from schedlang.errors import CallError, CallTypeError, nearest
from schedlang.expr.dtypes import array_dtype
from schedlang.machine.scratch import ALIGNMENT


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

    >>> from schedlang.codegen.network_file import ParamPlace
    >>> places = (ParamPlace("w", 0, "float32", (2,)), ParamPlace("b", 64, "int8", (1,)))
    >>> found = pack(Storage(places, 128), {"w": np.ones(2, "float32"), "b": np.ones(1, "int8")})
    >>> found[:8].view("float32"), found[64]
    (array([1., 1.], dtype=float32), np.uint8(1))
    """
    made = new_bytes(storage.param_bytes)
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
        made[end : p.start] = 0
        end = p.start + array.nbytes
        made[p.start : end].view(array_dtype(p.dtype)).reshape(p.shape)[...] = array
    made[end:] = 0
    return made


def usable(params: np.ndarray, storage: Storage) -> np.ndarray:
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
    made = new_bytes(storage.param_bytes)
    made[:] = plain
    return made


def started(
    function: Callable[..., None], params: Sequence[np.ndarray], storage: Storage,
    threads: Callable[[], int], free: list[tuple[int, tuple[np.ndarray, ...]]],
    poison: bool = False,
) -> Callable[..., None]:  # fmt: skip
    """Return a function of the flat arguments that calls ``function`` with memory behind them.

    ``threads`` returns the greatest number of threads of a parallel loop. ``free`` are the memories
    that no call uses: calls take from it and return to it. ``poison`` fills the arena with NaNs
    before each call.
    """
    if not storage.arena and not storage.threads:
        given = tuple(params)
        return lambda *flat: function(*flat, *given)

    def memory(count: int) -> tuple[int, tuple[np.ndarray, ...]]:
        arena = [new_bytes(storage.arena)] if storage.arena else []
        scratch = [new_bytes(storage.threads * count)] if storage.threads else []
        return count, (*params, *arena, *scratch)

    def start(*flat: Any) -> None:
        count = threads() if storage.threads else 1
        try:
            taken = free.pop()
        except IndexError:
            taken = memory(count)
        if taken[0] < count:
            taken = memory(count)
        try:
            if poison:
                for array in taken[1][len(params) :]:
                    array.fill(0xFF)
            function(*flat, *taken[1])
        finally:
            free.append(taken)

    return start


__all__ = ["new_bytes", "pack", "started", "usable"]
