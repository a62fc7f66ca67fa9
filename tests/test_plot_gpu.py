"""The numbers behind pictures of GPU kernels, by hand and against the counters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import PlotError
from tests.gpu_schedules import gemm, scaled


def one_thread_each(transposed: bool, n: int = 64) -> sl.Schedule:
    A = sl.placeholder((n, n), name="A")
    B = sl.compute((n, n), lambda i, j: A[j, i] if transposed else A[i, j], name="B")
    s = sl.schedule(B)
    s[B].bind(B.op.axis[0], "blockIdx.x")
    s[B].bind(B.op.axis[1], "threadIdx.x")
    return s


def shared_tile(padding: int = 0) -> sl.Schedule:
    """Return a transposition of 32 by 32 floats through shared memory."""
    A = sl.placeholder((32, 32), name="A")
    B = sl.compute((32, 32), lambda i, j: A[j, i], name="B")
    s = sl.schedule(B)
    tile = s.cache_read(A, "shared", [B])
    block, y = s[B].split(B.op.axis[0], factor=32)
    s[B].bind(block, "blockIdx.x")
    s[tile].compute_at(s[B], block)
    s[B].bind(y, "threadIdx.y")
    s[B].bind(B.op.axis[1], "threadIdx.x")
    row, column = s[tile].op.axis
    s[tile].bind(row, "threadIdx.y")
    s[tile].bind(column, "threadIdx.x")
    if padding:
        s[tile].storage_align(row, 32, padding)
    return s


def test_a_row_takes_4_sectors_and_a_column_32() -> None:
    (load, store) = sl.plot.coalescing(one_thread_each(False)).data
    assert (load.buffer, load.cost, load.used, load.least) == ("A", 4, 128, 4)
    assert load.bytes.tolist() == [4 * k for k in range(32)] and store.stores
    (load, store) = sl.plot.coalescing(one_thread_each(True)).data
    assert (load.cost, load.used, load.least, store.cost) == (32, 128, 4, 4)
    assert load.bytes.tolist() == [256 * k for k in range(32)]


def test_a_column_of_a_shared_tile_is_in_one_bank() -> None:
    plain = {r.stores: r for r in sl.plot.banks(shared_tile()).data}
    padded = {r.stores: r for r in sl.plot.banks(shared_tile(1)).data}
    assert (plain[True].cost, plain[False].cost) == (1, 32)
    assert (padded[True].cost, padded[False].cost) == (1, 1)
    (group,) = plain[False].groups()
    assert plain[False].ways(group).tolist() == [32] + [0] * 31
    # rows of 33 words: the elements of a column are 33 words apart
    assert padded[False].bytes.tolist() == [4 * 33 * k for k in range(32)]


@pytest.mark.parametrize("vector", [0, 4])
def test_requests_add_up_to_the_counters(vector: int) -> None:
    made = gemm(32, 32, 16, tile=16, rows=4, vector=vector)
    f = sl.build(made.schedule, made.args, target="cuda-emulator")
    counted = f.counters(*made.inputs)["C"]
    found = sl.plot.coalescing(made.schedule).data
    # 16 threads of one warp in 4 blocks, and every request of an access costs the same
    loads = [r for r in found if not r.stores]
    assert sum(r.requests for r in loads) * 4 == counted.global_loads
    assert sum(r.requests * r.cost for r in loads) * 4 == counted.global_load_sectors


def test_wide_accesses_are_served_by_quarter_warps() -> None:
    A = sl.placeholder((512,), name="A")
    B = sl.compute((512,), lambda i: A[i] + 1, name="B")
    s = sl.schedule(B)
    tile = s.cache_read(A, "shared", [B])
    block, _ = s[B].split(B.op.axis[0], factor=512)
    s[B].bind(block, "blockIdx.x")
    s[tile].compute_at(s[B], block)
    for stage, axis in ((B, s[B].leaf_axes[1]), (tile, s[tile].op.axis[0])):
        thread, lane = s[stage].split(axis, factor=4)
        s[stage].vectorize(lane)
        s[stage].bind(thread, "threadIdx.x")
    (found,) = (r for r in sl.plot.banks(s).data if not r.stores)
    assert found.width == 16 and [g.size for g in found.groups()] == [8] * 4
    assert (found.cost, found.least) == (4, 4)
    wide = sl.plot.coalescing(s, "A").data[0]
    assert (wide.width, wide.cost, wide.used) == (16, 16, 512)


def test_an_idle_part_of_a_warp_is_left_out() -> None:
    made = scaled(1000, threads=256)
    A = sl.plot.coalescing(made.schedule, "A", warp=0).data[0]
    assert A.lanes.size == 32
    few = sl.plot.coalescing(scaled(20, threads=256, at=20).schedule, "A").data[0]
    assert few.lanes.tolist() == list(range(20)) and few.cost == 3


def test_blocks_and_threads_of_a_tiled_kernel() -> None:
    made = gemm(32, 48, 16, tile=16, rows=4)
    (found,) = sl.plot.threads(made.schedule).data
    rows, columns = np.indices((32, 48))
    assert (found.blocks == rows // 16 * 3 + columns // 16).all()
    assert (found.threads == rows % 16 // 4 * 4 + columns % 16 // 4).all()
    assert found.grid == (3, 2, 1) and found.block == (4, 4, 1)


def test_large_grids_are_drawn_in_part() -> None:
    (found,) = sl.plot.threads(one_thread_each(False, 512)).data
    assert found.drawn == 32 and found.origin == (0, 0)
    assert (found.blocks == np.arange(32)[:, None]).all() and found.blocks.shape == (32, 512)
    assert "32 of 512 blocks" in sl.plot.threads(one_thread_each(False, 512)).caption


def test_loops_that_repeat_a_store_are_followed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sum of 2^22 elements in each thread, and as many requests as a picture follows."""
    A = sl.placeholder((4096, 4096), name="A")
    k = sl.reduce_axis(1 << 22, name="k")
    C = sl.compute((2,), lambda i: sl.sum(A[k // 4096, k % 4096], axis=k), name="C")
    s = sl.schedule(C)
    s[C].bind(C.op.axis[0], "threadIdx.x")
    assert sl.plot.threads(s).data[0].threads.tolist() == [0, 1]
    monkeypatch.setattr("schedlang.plot.warps.MOST_REQUESTS", 100)
    monkeypatch.setattr("schedlang.plot.warp_pictures.MOST_REQUESTS", 100)
    picture = sl.plot.coalescing(s)
    # the start of the sum, then a load and an update, which loads and stores: 1 + 33 * 3
    loads = {r.buffer: (r.requests, r.complete) for r in picture.data if not r.stores}
    assert loads == {"A": (33, False), "C": (33, False)}
    assert "Drawn in part: the first 100 requests of the block." in picture.caption


def test_refusals() -> None:
    A = sl.placeholder((8,), name="A")
    B = sl.compute((8,), lambda i: A[i] + 1, name="B")
    with pytest.raises(PlotError, match="none of its data axes .i. is bound"):
        sl.plot.coalescing(B)
    with pytest.raises(PlotError, match="accesses no shared memory"):
        sl.plot.banks(one_thread_each(False))
    with pytest.raises(PlotError, match="its warps are 0 to 1"):
        sl.plot.coalescing(one_thread_each(False), warp=2)
    with pytest.raises(PlotError, match="the kernels are B"):
        sl.plot.threads(one_thread_each(False), kernel="C")
    with pytest.raises(PlotError, match="no kernel stores to A"):
        sl.plot.threads(one_thread_each(False), "A")
    P = sl.placeholder((8,), "int64", name="P")
    gathered = sl.compute((8,), lambda i: A[P[i]], name="G")
    s: Any = sl.schedule(gathered)
    s[gathered].bind(gathered.op.axis[0], "threadIdx.x")
    with pytest.raises(PlotError, match="data decide its addresses"):
        sl.plot.coalescing(s)


def test_who_holds_which_element() -> None:
    """Lane 4*g + t holds elements of row g and of row g + 8, as PTX ISA draws the result of mma."""
    c, a, b = sl.plot.fragments(sl.instructions.mma_f16).data
    assert [one.of for one in (c, a, b)] == ["c", "a", "b"]
    row, column = np.indices((16, 8))
    np.testing.assert_array_equal(c.lanes, row % 8 * 4 + column // 2)
    np.testing.assert_array_equal(c.registers, row // 8 * 2 + column % 2)
    term, column = np.indices((16, 8))
    np.testing.assert_array_equal(b.lanes, column * 4 + term % 8 // 2)
    # each lane holds each of its registers once
    for one in (c, a, b):
        held = one.lanes * 32 + one.registers
        assert np.unique(held).size == one.lanes.size == 32 * (one.registers.max() + 1)


@pytest.mark.parametrize(
    ("what", "operand", "match"),
    [
        (sl.instructions.dp4a, None, "dp4a.* is not an instruction of a warp, whose threads hold"),
        (3, None, "3 is not an instruction of a warp"),
        (sl.instructions.mma_f16, "d", "mma_f16 holds c, a, b as fragments, not 'd'; give one of"),
    ],
)
def test_pictures_of_holders_that_are_refused(what: Any, operand: Any, match: str) -> None:
    with pytest.raises(PlotError, match=match):
        sl.plot.fragments(what, operand)
