"""Tests of loops that go back and forth by the pragma "serpentine"."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import LoweringError, ScheduleError
from schedlang.target import Cache
from tests.graphs import recurrent
from tests.marks import slow_but

QUICK, TARGETS = ["python", "cpu"], ["python", "cpu", "c"]


def product(m: Any = 5, k: int = 12, n: int = 37) -> tuple[Any, ...]:
    A, B = sl.placeholder((m, k), name="A"), sl.placeholder((k, n), name="B")
    step = sl.reduce_axis(k, name="k")
    C = sl.compute((m, n), lambda i, j: sl.sum(A[i, step] * B[step, j], axis=step), name="C")
    s = sl.schedule(C)
    return s, A, B, C, *C.op.axis, step


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).random(shape, "float32")


def lines_of(source: str, word: str) -> list[str]:
    return [line.strip() for line in source.splitlines() if word in line]


@pytest.mark.filterwarnings("ignore::schedlang.errors.SpillWarning")
@pytest.mark.parametrize("target", slow_but(QUICK, TARGETS))
@pytest.mark.parametrize("tail", ["guard", "cut"])
def test_the_loop_turns_with_each_iteration_of_the_next_one(target: str, tail: str) -> None:
    s, A, B, C, i, j, k = product()
    outer, inner = s[C].split(j, factor=8, tail=tail)
    s[C].reorder(i, outer, k, inner)
    s[C].vectorize(inner)
    s[C].pragma(outer, "serpentine")
    f = sl.build(s, [A, B, C], target=target)
    if target != "c":
        last = 4 if tail == "guard" else 3
        assert lines_of(f.source, "i%2") == [
            f"j_outer = j_outer_turn if i%2 == 0 else {last} - j_outer_turn"
        ]
    a, b = random(5, 12), random(12, 37)
    np.testing.assert_allclose(f(a, b), a @ b, rtol=1e-5)


@pytest.mark.parametrize("target", slow_but(QUICK, TARGETS))
@pytest.mark.parametrize("m", [0, 1, 7])
def test_symbolic_sizes(target: str, m: int) -> None:
    s, A, B, C, i, j, k = product(sl.var("n"))
    s[C].reorder(j, i, k)
    s[C].pragma(i, "serpentine")
    f = sl.build(s, [A, B, C], target=target)
    assert target == "c" or "i = i_turn if j%2 == 0 else n - 1 - i_turn" in f.source
    a, b = random(m, 12), random(12, 37)
    np.testing.assert_allclose(f(a, b), a @ b, rtol=1e-5)


def test_the_order_of_elements() -> None:
    """Odd rows are stored from their ends to their beginnings."""
    A = sl.placeholder((4, 6), name="A")
    B = sl.compute((4, 6), lambda i, j: A[i, j] + 1, name="B")
    s = sl.schedule(B)
    s[B].pragma(B.op.axis[1], "serpentine")
    f = sl.build(s, [A, B], target="python")
    order: list[int] = []

    class Recorded(np.ndarray):
        def __setitem__(self, at: Any, value: Any) -> None:
            order.append(int(at))
            super().__setitem__(at, value)

    out = np.zeros((4, 6), "float32")
    flat = out.reshape(-1).view(Recorded)
    space: dict[str, Any] = {}
    exec(compile(f.source, f.path, "exec"), space)
    space["B_kernel"](random(4, 6).reshape(-1), flat)
    rows = np.arange(24).reshape(4, 6)
    rows[1::2] = rows[1::2, ::-1]
    assert order == rows.reshape(-1).tolist()
    np.testing.assert_array_equal(out, random(4, 6) + 1)


@pytest.mark.slow
def test_a_cache_serves_what_the_last_run_used_last() -> None:
    """Two of three rows of lines fit: in one direction none is reused, back and forth two are."""
    lines = []
    for turns in (False, True):
        s, A, B, C, i, j, k = product(m=6, k=8, n=96)
        outer, inner = s[C].split(j, factor=32)
        s[C].reorder(i, outer, k, inner)
        s[C].vectorize(inner)
        if turns:
            s[C].pragma(outer, "serpentine")
        f = sl.build(s, [A, B, C], target=sl.Target("cpu", vector_bytes=64))
        a, b = random(6, 8), random(8, 96)
        found = f.counters(a, b, caches=[Cache(42 * 64, 42)])
        lines.append(found.total.lines[0])
    # three panels of 16 lines in each of six rows; of the results 6 lines a row, and A's 3
    assert lines[0] == 6 * (3 * 16 + 6) + 3
    assert lines[1] == lines[0] - 5 * 2 * 16


def test_a_step_of_a_scan() -> None:
    steps, width = 7, 24
    start, W, result = recurrent(width, steps)
    s = sl.schedule(result)
    product_ = s["P"]
    threads, within = product_.split(product_.op.axis[1], nparts=2)
    product_.parallel(threads)
    product_.pragma(within, "serpentine")
    x, w = random(1, width), random(width, width) - 0.5
    wanted = [x[0]]
    for _ in range(steps - 1):
        wanted.append(np.tanh(wanted[-1] @ w))
    for target in ("python", "cpu"):
        f = sl.build(s, [start, W, result], target=target)
        assert len(lines_of(f.source, "_turn if")) == 1
        np.testing.assert_allclose(f(x, w), np.array(wanted), rtol=1e-4, atol=1e-6)


def test_a_gpu_keeps_its_order() -> None:
    s, A, B, C, i, j, k = product(n=32)
    block, row = s[C].split(i, factor=2)
    s[C].bind(block, "blockIdx.x")
    outer, inner = s[C].split(j, factor=8)
    s[C].bind(inner, "threadIdx.x")
    s[C].pragma(outer, "serpentine")
    f = sl.build(s, [A, B, C], target="cuda-emulator")
    assert "_turn" not in f.source
    a, b = random(5, 12), random(12, 32)
    np.testing.assert_allclose(f(a, b), a @ b, rtol=1e-5)


def test_a_loop_that_runs_once_drops_the_pragma() -> None:
    A = sl.placeholder((4, 1, 8), name="A")
    B = sl.compute((4, 1, 8), lambda i, j, k: A[i, j, k] + 1, name="B")
    s = sl.schedule(B)
    s[B].pragma(B.op.axis[1], "serpentine")
    s[B].vectorize(B.op.axis[2])
    f = sl.build(s, [A, B], target="python")
    assert "_turn" not in f.source
    np.testing.assert_array_equal(f(random(4, 1, 8)), random(4, 1, 8) + 1)


def test_a_loop_with_none_around_is_refused() -> None:
    s, A, B, C, i, j, k = product()
    s[C].parallel(i)
    s[C].pragma(j, "serpentine")
    with pytest.raises(LoweringError, match=r"pragma\(j, \"serpentine\"\) on stage C: j goes "
                                            r"backwards in every odd iteration .*there is none"):
        sl.build(s, [A, B, C])


def built_and_right(s: sl.Schedule, A: Any, B: Any, C: Any) -> str:
    """Return the source of the compiled product, after a comparison with NumPy."""
    a, b = (random(*map(int, t.shape)) for t in (A, B))
    f = sl.build(s, [A, B, C], target="cpu")
    np.testing.assert_allclose(f(a, b), a @ b, rtol=1e-5)
    return f.source


def test_the_rest_of_a_cut_loop_around_runs_forwards() -> None:
    s, A, B, C, i, j, k = product(m=9, n=64)
    around, row = s[C].split(i, factor=4, tail="cut")
    panel, lane = s[C].split(j, factor=16)
    s[C].reorder(around, panel, k, row, lane)
    s[C].unroll(row)
    s[C].vectorize(lane)
    s[C].pragma(panel, "serpentine")
    assert len(lines_of(built_and_right(s, A, B, C), "_turn if")) == 1


def test_a_reduction_loop_around() -> None:
    """The initialization is outside of it, and runs forwards."""
    s, A, B, C, i, j, k = product()
    s[C].reorder(k, i, j)
    s[C].pragma(i, "serpentine")
    source = built_and_right(s, A, B, C)
    assert lines_of(source, "_turn if") == ["i = i_turn if k%2 == 0 else 4 - i_turn"]


def test_a_batch_of_one() -> None:
    s, A, B, C, i, j, k = product(m=1)
    s[C].pragma(j, "serpentine")
    assert "_turn" not in built_and_right(s, A, B, C)


@pytest.mark.parametrize("rows", slow_but(["4"], [4, 130]))
def test_an_unrolled_loop_between_does_not_count(rows: int) -> None:
    s, A, B, C, i, j, k = product(m=rows * 2, k=3, n=5)
    around, row = s[C].split(i, factor=rows)
    s[C].unroll(row)
    s[C].pragma(j, "serpentine")
    found = lines_of(built_and_right(s, A, B, C), "_turn if")
    assert {line.partition(" if ")[2] for line in found} == {"i_outer%2 == 0 else 4 - j_turn"}


def test_both_of_two_nested_loops() -> None:
    s, A, B, C, i, j, k = product(n=40)
    outer, inner = s[C].split(j, factor=8)
    s[C].pragma(outer, "serpentine")
    s[C].pragma(inner, "serpentine")
    source = built_and_right(s, A, B, C)
    assert len(lines_of(source, "i%2")) == len(lines_of(source, "j_outer%2")) == 1


@pytest.mark.parametrize("target", slow_but(QUICK, TARGETS))
def test_a_stage_computed_in_the_loop(target: str) -> None:
    A = sl.placeholder((6, 40), name="A")
    D = sl.compute((6, 40), lambda i, j: A[i, j] * 2, name="D")
    B = sl.compute((6, 38), lambda i, j: D[i, j] + D[i, j + 2], name="B")
    s = sl.schedule(B)
    outer, inner = s[B].split(B.op.axis[1], factor=8)
    s[D].compute_at(s[B], outer)
    s[B].pragma(outer, "serpentine")
    s = type(s).from_json(s.to_json(), B)
    a = random(6, 40)
    f = sl.build(s, [A, B], target=target)
    assert target == "c" or len(lines_of(f.source, "_turn if")) == 1
    np.testing.assert_allclose(f(a), a[:, :38] * 2 + a[:, 2:] * 2, rtol=1e-6)


@pytest.mark.parametrize("target", slow_but(QUICK, TARGETS))
def test_rows_that_begin_elsewhere(target: str) -> None:
    """Each row has a range of its own, from ``starts[i]``."""
    starts = sl.placeholder((6,), "int32", name="starts")
    starts = sl.assume(starts, within=(0, 20), monotonic=True)
    A = sl.placeholder((20, 7), name="A")
    k = sl.reduce_axis((starts[0], starts[5]), name="k")
    B = sl.compute((3, 7), lambda i, j: sl.sum(A[k, j] * (i + 1), axis=k), name="B")
    s = sl.schedule(B)
    i, j = B.op.axis
    s[B].reorder(i, k, j)
    s[B].pragma(j, "serpentine")
    a, ends = random(20, 7), np.array([2, 3, 3, 9, 11, 17], "int32")
    f = sl.build(s, [starts, A, B], target=target)
    wanted = a[2:17].sum(axis=0) * np.arange(1, 4, dtype="float32")[:, None]
    np.testing.assert_allclose(f(ends, a), wanted, rtol=1e-5)


def test_loops_that_need_their_order_are_refused() -> None:
    s, A, B, C, i, j, k = product()
    before = s.to_json()
    with pytest.raises(ScheduleError, match="the iterations of k are the terms of a reduction"):
        s[C].pragma(k, "serpentine")
    with pytest.raises(ScheduleError, match="'serpentine' takes no value"):
        s[C].pragma(j, "serpentine", 2)
    with pytest.raises(ScheduleError, match="did you mean 'serpentine'"):
        s[C].pragma(j, "boustrophedon")
    assert s.to_json() == before
    s[C].pragma(j, "serpentine")
    with pytest.raises(ScheduleError, match="j has this pragma already"):
        s[C].pragma(j, "serpentine")
    with pytest.raises(ScheduleError, match="j has the pragma 'serpentine', which this step would"):
        s[C].split(j, factor=4)
