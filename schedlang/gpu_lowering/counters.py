"""Counters of the memory requests of a kernel's warps.

A request is one instruction of one warp. Global memory answers in sectors of 32 bytes. Shared
memory has 32 banks of 4 bytes, and a request that needs two words of one bank takes another pass.
Sources: CUDA C++ Programming Guide 13.0, "Compute Capabilities"; Nsight Compute documentation,
"Memory".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

WARP = 32
SECTOR = 32
BANKS, WORD = 32, 4


@dataclass
class Counters:
    """The requests of all warps of one kernel, over all blocks.

    ``global_loads``, ``global_stores``, ``shared_loads``, ``shared_stores``
        requests: one instruction of one warp. An atomic update is a load and a store.
    ``global_load_sectors``, ``global_store_sectors``
        the sectors of 32 bytes that the requests move. ``global_load_sectors / global_loads``
        measures coalescing: it is 4 if a warp reads 32 adjacent floats.
    ``bank_conflicts``
        the passes beyond the first, because lanes need different words of one bank
    ``barriers``, ``exchanges``
        barriers, once for each block; exchanges between threads, once for each warp
    ``matrix_products``
        instructions of a warp on fragments, once for each warp
    ``divergences``
        branches that some active lanes of a warp take and others do not
    ``most_global_reads``, ``most_global_writes``, ``most_shared_reads``, ``most_shared_writes``
        the elements that the busiest thread reads or writes, like GPU-Puzzles

    They follow the printed program. The source may do less: where a loop adds to an element, the
    source keeps the sum in a variable. A kernel ``y`` of the program is ``y_kernel`` in the source.
    """

    global_loads: int = 0
    global_stores: int = 0
    global_load_sectors: int = 0
    global_store_sectors: int = 0
    shared_loads: int = 0
    shared_stores: int = 0
    bank_conflicts: int = 0
    barriers: int = 0
    exchanges: int = 0
    matrix_products: int = 0
    divergences: int = 0
    most_global_reads: int = 0
    most_global_writes: int = 0
    most_shared_reads: int = 0
    most_shared_writes: int = 0

    @property
    def sectors_per_request(self) -> float:
        """Sectors of global memory per request, over loads and stores."""
        asked = self.global_loads + self.global_stores
        moved = self.global_load_sectors + self.global_store_sectors
        return moved / asked if asked else 0.0

    @property
    def global_bytes(self) -> int:
        """Bytes moved between global memory and the multiprocessors, in whole sectors."""
        return (self.global_load_sectors + self.global_store_sectors) * SECTOR

    def branch(self, taken: np.ndarray, active: np.ndarray) -> None:
        """Count the warps whose active lanes part: some take a branch, others do not."""
        on, inside = _warps(active), _warps(active & taken)
        self.divergences += int((inside.any(axis=1) & (on & ~inside).any(axis=1)).sum())

    def access(
        self,
        scope: str,
        stores: bool,
        bytes_: np.ndarray,
        active: np.ndarray,
        width: int,
        times: int = 1,
    ) -> None:
        """Count an access of ``width`` bytes per lane, at byte offsets ``bytes_``.

        Both arrays have one row for each block and one column for each thread. ``times`` repeats
        the access.
        """
        at, on = _warps(bytes_), _warps(active)
        asked = int(on.any(axis=1).sum()) * times
        if scope == "shared":
            if stores:
                self.shared_stores += asked
            else:
                self.shared_loads += asked
            self.bank_conflicts += _conflicts(at, on, width) * times
            return
        sectors = _distinct(at // SECTOR, on) * times
        if stores:
            self.global_stores += asked
            self.global_store_sectors += sectors
        else:
            self.global_loads += asked
            self.global_load_sectors += sectors


def _warps(lanes: np.ndarray) -> np.ndarray:
    """Return ``lanes`` in rows of 32, one for each warp, padded by 0."""
    blocks, threads = lanes.shape
    room = -(-threads // WARP) * WARP
    full = np.zeros((blocks, room), lanes.dtype)
    full[:, :threads] = lanes
    return full.reshape(-1, WARP)


def _distinct(keys: np.ndarray, on: np.ndarray) -> int:
    """Return the number of distinct keys among the active lanes of each row, summed."""
    marked = np.sort(np.where(on, keys, np.iinfo(np.int64).max), axis=1)
    fresh = np.ones(marked.shape, bool)
    fresh[:, 1:] = marked[:, 1:] != marked[:, :-1]
    return int((fresh & (marked != np.iinfo(np.int64).max)).sum())


def _conflicts(at: np.ndarray, on: np.ndarray, width: int) -> int:
    """Return the passes beyond the first; wide accesses are served by half or quarter warps."""
    words = max(1, width // WORD)
    lanes = WARP // words
    return _passes((at // WORD).reshape(-1, lanes), on.reshape(-1, lanes), words)


def _passes(words: np.ndarray, on: np.ndarray, each: int) -> int:
    """Return the passes beyond the first of groups of lanes; a lane takes ``each`` banks."""
    none = np.iinfo(np.int64).max
    marked = np.sort(np.where(on, words, none), axis=1)
    fresh = np.ones(marked.shape, bool)
    fresh[:, 1:] = marked[:, 1:] != marked[:, :-1]
    fresh &= marked != none
    loads = np.zeros((marked.shape[0], BANKS // each), int)
    rows = np.broadcast_to(np.arange(marked.shape[0])[:, None], marked.shape)
    np.add.at(loads, (rows[fresh], (marked[fresh] % BANKS) // each), 1)
    return int(np.maximum(loads.max(axis=1) - 1, 0).sum())
