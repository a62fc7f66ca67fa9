"""Instructions of warps in lockstep: products of fragments, for many warps at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from schedlang.gpu_lowering.checked_memory import Memory
from schedlang.gpu_lowering.lanes import on_lanes
from schedlang.ir.nodes import Buffer, For, Load, Store, walk


def multiply(
    loop: For, values: Mapping[Any, Any], rows: np.ndarray, memory: Callable[[Buffer], Memory]
) -> None:
    """Add to the result of an instruction of each warp, whose fragments are at ``rows`` of memory.

    ``values`` has a number for each warp. Terms are added in the order of the loops. An element
    that depends on one which was never written counts as never written.
    """
    loops = [s for s, _ in walk(loop) if isinstance(s, For)]
    (store,) = (s for s, _ in walk(loop) if isinstance(s, Store))
    data = [f.axis for f in loops if not f.axis.is_reduce]
    steps = [f.axis for f in loops if f.axis.is_reduce]
    sizes = [[int(str(axis.extent)) for axis in axes] for axes in (data, steps)]
    elements, terms = (np.indices(shape).reshape(len(shape), -1) for shape in sizes)
    space = {**values}
    space.update(zip(data, (place[None, :, None] for place in elements)))
    space.update(zip(steps, (place[None, None, :] for place in terms)))
    shape = (len(rows), elements.shape[1], terms.shape[1])
    every, unset = np.ones(shape, bool), np.zeros(shape, bool)
    at_row = rows[:, None, None]

    def read(load: Load, at: list[np.ndarray], active: np.ndarray) -> np.ndarray:
        source = memory(load.buffer)
        offsets = source.offset(at, active, store.stage)
        unset[...] |= ~source.written[at_row, offsets]
        return np.asarray(source.data[at_row, offsets])

    (buffer,), (value,) = store.buffers, store.values
    products = np.broadcast_to(on_lanes(value, space, every, read), shape)
    result = memory(buffer)
    once = every[:, :, :1]
    at = [
        np.broadcast_to(on_lanes(index, space, once, read), once.shape) for index in store.indices
    ]
    place = (at_row[:, :, 0], result.offset(at, once, store.stage)[:, :, 0])
    dtype = result.data.dtype
    addends = np.concatenate([result.data[place][:, :, None], products.astype(dtype)], axis=2)
    result.data[place] = np.add.accumulate(addends, axis=2, dtype=dtype)[:, :, -1]
    result.written[place] &= ~unset.any(axis=2)
