"""The memory picture: levels and distances against hand counts and against the compiled caches."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import ComputeTypeError, PlotError
from schedlang.host import Cache
from tests import graphs

SMALL = (Cache(1024, 2), Cache(4096, 4))


def columns(n: int) -> tuple[Any, np.ndarray]:
    A = sl.placeholder((n, n), name="A")
    B = sl.compute((n, n), lambda i, j: A[j, i], name="B")
    return sl.build(sl.schedule(B), [A, B], target="python"), np.ones((n, n), "float32")


def test_columns_come_from_memory_once_per_line() -> None:
    f, a = columns(16)
    # 16 lines of A fit a cache of 32 lines: 1 miss for each, and for each line of B
    (seen,) = sl.plot.memory(f, a, caches=(Cache(2048, 32),)).data
    assert len(seen.trace) == 512 and int((seen.level == 1).sum()) == 32
    # between two elements of a row of A lie the 15 other rows and one or two lines of B
    own = (seen.trace.buffer == seen.trace.buffers.index("A")) & (seen.distance >= 0)
    assert set(seen.distance[own].tolist()) == {16, 17}


def test_a_cache_that_is_too_small_misses_each_time() -> None:
    f, a = columns(16)
    (seen,) = sl.plot.memory(f, a, caches=(Cache(512, 8),)).data
    own = seen.trace.buffer == seen.trace.buffers.index("A")
    assert (seen.level[own] == 1).all() and seen.shares[1] == pytest.approx((256 + 16) / 512)


def test_levels_agree_with_the_counters_of_the_kernel() -> None:
    A, B, C = graphs.product(12, 12, 12)
    s = sl.schedule(C)
    s[C].tile(*C.op.axis, 4, 4)
    f = sl.build(s, [A, B, C])
    a = np.ones((12, 12), "float32")
    (seen,) = sl.plot.memory(f, a, a, caches=SMALL).data
    lines = f.counters(a, a, caches=SMALL).total.lines
    assert tuple(int((seen.level > k).sum()) for k in range(2)) == tuple(lines)


def test_distances_agree_with_a_list_of_recent_lines() -> None:
    f, a = columns(24)
    (seen,) = sl.plot.memory(f, a).data
    recent: OrderedDict[int, None] = OrderedDict()
    for line, distance in zip((seen.trace.address // 64).tolist(), seen.distance.tolist()):
        if line in recent:
            assert distance == list(reversed(recent)).index(line)
            recent.move_to_end(line)
        else:
            assert distance == -1
            recent[line] = None


def test_kernels_beside_each_other_are_drawn() -> None:
    pytest.importorskip("matplotlib")
    f, a = columns(16)
    picture = sl.plot.memory({"one": f, "other": f}, a, caches=SMALL)
    assert "one: 512 accesses: L1" in picture.caption
    # two arrays and a histogram for each
    assert len(picture.figure.axes) == 6


def test_refusals() -> None:
    f, a = columns(16)
    with pytest.raises(ComputeTypeError, match="it is not a kernel for a CPU"):
        sl.plot.memory(a)
    with pytest.raises(PlotError, match="a dict of kernels by title"):
        sl.plot.memory({}, a)
    f, a = columns(300)
    with pytest.raises(PlotError, match="the call makes 180,000 accesses"):
        sl.plot.memory(f, a)
