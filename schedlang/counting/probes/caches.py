"""Simulated data caches: set-associative, least recently used line out, written back when it goes.

A store fetches its line first. A line that misses is brought into every level. A changed line goes
to the next level when its place is needed. A streamed store of an aligned vector bypasses them all.
``layout`` describes the model.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from schedlang.counting.probes.apart import not_inlined
from schedlang.counting.probes.layout import (
    BITS,
    FIELDS,
    FIRST,
    LEVELS,
    LINES,
    MISSES,
    SETS,
    SHIFT,
    STORE,
    STREAM,
    STREAMED,
    WAYS,
    WRITTEN,
)

OPTIONS = dict(cache=True, nogil=True, error_model="numpy")


@njit(**OPTIONS)
def first_way(model: np.ndarray, at: int, line: int) -> int:
    """Return where the set of ``line`` begins, for the level whose fields are ``at``."""
    bits = model[at + BITS]
    chosen = line & bits if bits >= 0 else line % model[at + SETS]
    return model[at + LINES] + chosen * model[at + WAYS]


@njit(**OPTIONS)
def has_line(model: np.ndarray, at: int, line: int, changed: int) -> bool:
    """Return whether a level has ``line``, which becomes its set's most recent, or is changed."""
    start = first_way(model, at, line)
    for way in range(model[at + WAYS]):
        entry = model[start + way]
        if entry >> 1 == line:
            for behind in range(way, 0, -1):
                model[start + behind] = model[start + behind - 1]
            model[start] = entry | changed
            return True
    return False


@njit(**OPTIONS)
def fill(model: np.ndarray, level: int, line: int, changed: int) -> None:
    """Bring ``line`` into a level; changed lines that lose their place go to the next levels."""
    while level < model[LEVELS]:
        at = FIRST + FIELDS * level
        start = first_way(model, at, line)
        last = start + model[at + WAYS] - 1
        leaving = model[last]
        for behind in range(last, start, -1):
            model[behind] = model[behind - 1]
        model[start] = 2 * line + changed
        if leaving < 0 or leaving & 1 == 0:
            return
        model[at + WRITTEN] += 1
        line, changed = leaving >> 1, 1
        level += 1
        if level < model[LEVELS] and has_line(model, FIRST + FIELDS * level, line, changed):
            return


@njit(**OPTIONS)
def drop(model: np.ndarray, line: int) -> None:
    """Take ``line`` out of all levels."""
    for level in range(model[LEVELS]):
        at = FIRST + FIELDS * level
        start = first_way(model, at, line)
        for way in range(model[at + WAYS]):
            if model[start + way] >> 1 == line:
                for behind in range(start + way, start + model[at + WAYS] - 1):
                    model[behind] = model[behind + 1]
                model[start + model[at + WAYS] - 1] = -1


@njit(**OPTIONS)
def access_line(model: np.ndarray, line: int, kind: int, site: int) -> None:
    """Access one line: count a miss of each level that does not have it, and fill them."""
    if kind == STREAM:
        drop(model, line)
        return
    changed = 1 if kind == STORE else 0
    start = first_way(model, np.int64(FIRST), line)
    if model[start] >> 1 == line:
        model[start] |= changed
        return
    level = 0
    while level < model[LEVELS]:
        at = FIRST + FIELDS * level
        if has_line(model, at, line, changed if level == 0 else 0):
            break
        model[model[at + MISSES] + site] += 1
        level += 1
    while level > 0:
        level -= 1
        fill(model, level, line, changed if level == 0 else 0)


@njit(**OPTIONS)
def report(model: np.ndarray, address: int, size: int, kind: int, site: int) -> None:
    """Access ``size`` bytes at ``address``."""
    not_inlined()
    if kind == STREAM:
        if address % min(size, 64) == 0 and size >= 16:
            model[STREAMED] += size
        else:
            kind = STORE
    shift = model[SHIFT]
    for line in range(address >> 6, ((address + size - 1) >> 6) + 1):
        if line & ((1 << shift) - 1) == 0:
            access_line(model, line >> shift, kind, site)
