"""Simulated caches and traces, against a model of dictionaries and against patterns by hand."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.counting.caches import cache_model, moved_lines
from schedlang.counting.source import probe_source
from schedlang.errors import CallError
from schedlang.runtime import files
from schedlang.target import Cache
from tests.graphs import product

LOAD, STORE, PREFETCH, STREAM = range(4)


class Level:
    """One level: a dictionary of lines for each set, the least recently used first."""

    def __init__(self, cache: Cache) -> None:
        self.sets: list[OrderedDict[int, bool]] = [OrderedDict() for _ in range(cache.sets)]
        self.ways = cache.ways
        self.misses = self.written = 0

    def of(self, line: int) -> OrderedDict[int, bool]:
        return self.sets[line % len(self.sets)]


def simulated(
    caches: Sequence[Cache], accesses: Iterable[tuple[int, int, int]]
) -> tuple[list[int], list[int]]:
    """Return the misses and the lines written of each level, for addresses, sizes and kinds."""
    levels = [Level(c) for c in caches]

    def fill(k: int, line: int, changed: bool) -> None:
        lines = levels[k].of(line)
        lines[line] = changed
        if len(lines) <= levels[k].ways:
            return
        old, dirty = lines.popitem(last=False)
        if not dirty:
            return
        levels[k].written += 1
        if k + 1 == len(levels):
            return
        behind = levels[k + 1].of(old)
        if old in behind:
            behind.move_to_end(old)
            behind[old] = True
        else:
            fill(k + 1, old, True)

    for address, size, kind in accesses:
        for line in range(address // 64, (address + size - 1) // 64 + 1):
            if kind == STREAM and size >= 16 and address % min(size, 64) == 0:
                for level in levels:
                    level.of(line).pop(line, None)
                continue
            hit = len(levels)
            for k, level in enumerate(levels):
                if line in level.of(line):
                    level.of(line).move_to_end(line)
                    hit = k
                    break
                level.misses += 1
            for k in range(hit - 1, -1, -1):
                fill(k, line, False)
            if kind in (STORE, STREAM):
                levels[0].of(line)[line] = True
    return [level.misses for level in levels], [level.written for level in levels]


def report(model: np.ndarray, *event: int) -> None:
    """Report an event to the probe as kernels load it."""
    files.load(files.write(probe_source("caches"), "caches")).report(model, *event)


TINY = [Cache(4 * 64, 2), Cache(12 * 64, 3), Cache(64 * 64, 4)]


def test_the_probe_equals_the_model() -> None:
    """Random loads, stores, prefetches and streamed stores, of one line and across two."""
    rng = np.random.default_rng(3)
    events = [
        (int(a), int(s), int(k))
        for a, s, k in zip(
            rng.integers(0, 64 * 90, 4000), rng.choice([4, 16, 32, 64], 4000),
            rng.choice(4, 4000, p=[0.5, 0.35, 0.05, 0.1]),
        )
    ]  # fmt: skip
    model = cache_model(TINY, sites=1)
    for address, size, kind in events:
        report(model, address, size, kind, 0)
    found = moved_lines(model, 1)
    misses, written = simulated(TINY, events)
    assert [sum(level) for level in found.into] == misses
    assert list(found.written) == written
    assert min(misses) > 100 and min(written) > 10


def test_a_direct_mapped_cache_by_hand() -> None:
    """Two sets of one line: lines 0 and 2 push each other out, line 1 stays."""
    model = cache_model([Cache(128, 1)], sites=2)
    for line in (0, 1, 2, 0, 1):
        report(model, line * 64, 4, LOAD, line % 2)
    assert moved_lines(model, 2).into == ((3, 1),)


@pytest.mark.slow
def test_a_kernel_agrees_with_its_trace() -> None:
    """The compiled counts of each level are those of the model on the kernel's own trace."""
    A = sl.placeholder((17, 28), name="A")
    B = sl.compute((17, 28), lambda i, j: A[i, j] * 2, name="B")
    k = sl.reduce_axis(17, name="k")
    C = sl.compute((24, 24), lambda i, j: sl.sum(B[k, i] * B[k, j + 4], axis=k), name="C")
    s = sl.schedule(C)
    i, j = C.op.axis
    outer, inner = s[C].split(j, factor=8)
    s[C].reorder(outer, i, C.op.reduce_axis[0], inner)
    s[C].vectorize(inner)
    s[B].compute_at(s[C], outer)
    s[B].vectorize(s[B].split(s[B].op.axis[1], factor=4)[1])
    f = sl.build(s, [A, C], target=sl.Target("cpu", vector_bytes=32))
    a = np.random.default_rng(0).random((17, 28), "float32")
    found = f.counters(a, caches=TINY)
    trace = f.trace(a)
    assert trace.total == len(trace) and trace.every == 1
    events = list(zip(trace.address.tolist(), trace.size.tolist(), trace.kind.tolist()))
    misses, written = simulated(TINY, events)
    assert list(found.total.lines) == misses
    assert list(found.written) == written
    assert tuple(map(sum, zip(*(c.lines for c in found.values())))) == found.total.lines
    bytes_read = int(trace.size[~trace.writes].sum())
    assert bytes_read == found.total.loaded_bytes
    assert int(trace.size[trace.writes].sum()) == found.total.stored_bytes


@pytest.mark.slow
def test_strides_by_hand() -> None:
    """64x64 floats: rows bring 4 lines each, once; columns bring a line for every element.

    The cache holds 64 lines, and a column touches 64 lines of 4 sets.
    """
    A = sl.placeholder((64, 64), name="A")
    cache = [Cache(64 * 64, 4)]
    a = np.ones((64, 64), "float32")
    for read, lines in ((lambda i, j: A[i, j], 64 * 4), (lambda i, j: A[j, i], 64 * 64)):
        B = sl.compute((64, 64), lambda i, j, read=read: read(i, j) + 1, name="B")
        found = sl.build(sl.schedule(B), [A, B]).counters(a, caches=cache)
        trace = sl.build(sl.schedule(B), [A, B]).trace(a)
        mine = [line for line, text in enumerate(trace.nest) if "load" in text]
        assert set(trace.line.tolist()) == set(mine)
        # B is written by rows: 64 * 4 lines
        assert found["B"].lines == (lines + 64 * 4,)


def test_gathers_masks_and_transposed_blocks_are_traced() -> None:
    """Every lane that reads is in the trace at the place that NumPy computes."""
    table = sl.placeholder((50,), name="T")
    index = sl.placeholder((13,), dtype="int32", name="I")
    G = sl.compute((13,), lambda i: table[index[i]] + 1, name="G")
    s = sl.schedule(G)
    s[G].vectorize(G.op.axis[0])
    f = sl.build(s, [table, index, G], target=sl.Target("cpu", vector_bytes=32))
    at = np.array([3, 49, 3, 0, 7, 8, 9, 30, 31, 5, 4, 3, 2], "int32")
    trace = f.trace(np.arange(50, dtype="float32"), at)
    of = np.array(trace.buffers)[trace.buffer]
    assert sorted(trace.offset[of == "T"].tolist()) == sorted((at * 4).tolist())
    assert int(trace.size[of == "I"].sum()) == 13 * 4
    assert int(trace.size[of == "G"].sum()) == 13 * 4


def columns(s: sl.Schedule, B: sl.Tensor) -> None:
    _, _, inner, lanes = s[B].tile(*B.op.axis, 8, 8)
    s[B].unroll(inner)
    s[B].vectorize(lanes)


def rows(s: sl.Schedule, B: sl.Tensor) -> None:
    s[B].vectorize(s[B].split(B.op.axis[1], factor=8)[1])


@pytest.mark.parametrize(
    ("how", "body", "shape", "steps", "dtype"),
    [
        ("vload_columns", lambda A, i, j: A[j, i], (40, 24), columns, "float32"),
        ("vload_shuffled", lambda A, i, j: A[i, j + 1 - j % 2 * 2], (24, 40), rows, "float32"),
        ("vload_strided", lambda A, i, j: A[i, 39 - j], (24, 40), rows, "float16"),
        pytest.param(
            "vload_masked", lambda A, i, j: sl.if_then_else((j > 2) & (i > 0), A[i, j], 0),
            (24, 40), rows, "float32", marks=pytest.mark.slow,
        ),
    ],
    ids=lambda v: v if isinstance(v, str) and v.startswith("v") else "",
)  # fmt: skip
def test_vectors_reach_the_elements_of_numpy(
    how: str, body: Any, shape: tuple[int, int], steps: Any, dtype: str
) -> None:
    """The bytes of the trace are the elements that each element of the result reads, once each."""
    A = sl.placeholder((24, 40), dtype=dtype, name="A")
    B = sl.compute(shape, lambda i, j: body(A, i, j) * 2, name="B")
    s = sl.schedule(B)
    steps(s, B)
    f = sl.build(s, [A, B], target=sl.Target("cpu", vector_bytes=32))
    assert how in f.source
    trace = f.trace(np.ones((24, 40), dtype))
    size = np.dtype(dtype).itemsize
    reads = np.zeros(24 * 40, int)
    for at, length in zip(trace.offset[~trace.writes], trace.size[~trace.writes]):
        reads[at // size : (at + length) // size] += 1
    wanted = np.ones((24, 40), int)
    if how == "vload_masked":
        wanted[0] = wanted[:, :3] = 0
    np.testing.assert_array_equal(reads.reshape(24, 40), wanted)
    assert int(trace.size[trace.writes].sum()) == 24 * 40 * size


def test_streamed_stores_pass_the_caches() -> None:
    A = sl.placeholder((64, 64), name="A")
    B = sl.compute((64, 64), lambda i, j: A[i, j] + 1, name="B")
    s = sl.schedule(B)
    s[B].vectorize(s[B].split(B.op.axis[1], factor=16)[1])
    s[B].pragma(B.op.axis[0], "nontemporal")
    f = sl.build(s, [A, B], target=sl.Target("cpu", vector_bytes=64))
    found = f.counters(np.ones((64, 64), "float32"), caches=[Cache(4096, 4)])
    assert found.streamed_bytes == 64 * 64 * 4
    assert found.total.lines == (64 * 4,) and found.written == (0,)


def test_beyond_the_limit_a_share_is_simulated_and_labelled() -> None:
    """Each line is read once, so that any share of the lines gives the same number."""
    A = sl.placeholder((64, 1024), name="A")
    B = sl.compute((64, 1024), lambda i, j: A[i, j] + 1, name="B")
    f = sl.build(sl.schedule(B), [A, B])
    a = np.ones((64, 1024), "float32")
    exact = f.counters(a, caches=[Cache(32768, 8)])
    estimate = f.counters(a, caches=[Cache(32768, 8)], most=20_000)
    assert (exact.sampled, estimate.sampled) == (1, 8)
    assert exact.total.lines == estimate.total.lines == (2 * 64 * 64,)
    assert exact.total.loads == estimate.total.loads == 64 * 1024
    assert "estimated: one line in 8" in str(estimate) and "estimated" not in str(exact)


def test_what_would_take_minutes_is_left_out_and_said() -> None:
    A, B, C = product(4096, 4096, 4096)
    f = sl.build(sl.schedule(C), [A, B, C])
    a = np.zeros((4096, 4096), "float32")
    found = f.counters(a, a)
    assert found.total.loads == 2 * 4096**3 and found.total.lines == () == found.caches
    assert "caches were not simulated: 137,455,730,688 accesses" in str(found)
    with pytest.raises(CallError, match="takes minutes; trace smaller arrays"):
        f.trace(a, a)


def test_a_long_trace_keeps_runs() -> None:
    A = sl.placeholder((4096,), name="A")
    B = sl.compute((4096,), lambda i: A[i] + 1, name="B")
    f = sl.build(sl.schedule(B), [A, B])
    a = np.ones(4096, "float32")
    whole, part = f.trace(a), f.trace(a, most=1000)
    assert len(whole) == whole.total == part.total == 2 * 4096
    assert part.every == 9 and len(part) == 256 * 4
    kept = np.concatenate([np.arange(k, k + 256) for k in range(0, 2 * 4096, 9 * 256)])
    np.testing.assert_array_equal(part.address, whole.address[kept])
    assert "one run of 256 in 9 kept" in repr(part)


@pytest.mark.slow
def test_a_hundred_million_accesses_take_about_ten_seconds() -> None:
    """A product of 368³ has 10⁸ accesses; half of them miss the first level. The limit is loose."""
    from time import perf_counter

    A, B, C = product(368, 368, 368)
    f = sl.build(sl.schedule(C), [A, B, C])
    a, b = (np.random.default_rng(0).random((368, 368), "float32") for _ in range(2))
    f.counters(a, b, most=1)
    start = perf_counter()
    found = f.counters(a, b)
    assert perf_counter() - start < 60
    assert found.sampled == 1 and found.total.loads == 2 * 368**3
