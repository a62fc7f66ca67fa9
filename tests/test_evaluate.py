"""Tests of ``sl.evaluate``: counted operations, measured times and ceilings, printed text."""

from __future__ import annotations

import time
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

import schedlang as sl
from schedlang.compute.work import flops, needed_flops
from schedlang.errors import CallError, CallTypeError
from schedlang.index import enumeration
from schedlang.runtime import ceilings as module
from schedlang.runtime import evaluate as evaluated
from schedlang.runtime.ceilings import Ceilings, ceilings
from schedlang.runtime.evaluate import Evaluation, duration
from schedlang.runtime.probe_nests import CHAINS
from schedlang.runtime.timing import median_and_spread, samples


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCHEDLANG_CACHE", str(tmp_path))


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> Ceilings:
    """Replace the measured ceilings by fixed ones and return them."""
    fixed = Ceilings(gflops=100.0, gbps=10.0)
    monkeypatch.setattr("schedlang.runtime.evaluate.ceilings", lambda *_: fixed)
    return fixed


def matmul(m: int = 8, n: int = 6, p: int = 4) -> sl.Tensor:
    A, B = sl.placeholder((m, p), name="A"), sl.placeholder((p, n), name="B")
    k = sl.reduce_axis(p, name="k")
    return sl.compute((m, n), lambda i, j: sl.sum(A[i, k] * B[k, j], axis=k), name="C")


def test_a_multiply_add_is_two_operations() -> None:
    assert flops([matmul(8, 6, 4)]) == 2 * 8 * 6 * 4


def test_comparisons_of_elements_count_and_indices_choices_and_casts_do_not() -> None:
    A = sl.placeholder((9,), name="A")
    B = sl.compute((8,), lambda i: sl.select(i + 1 > 4, A[i + 1], -A[i]), name="B")
    assert flops([B]) == 8
    D = sl.compute((8,), lambda i: A[i + 1].astype("float64"), name="D")
    assert flops([D]) == 0
    C = sl.compute((8,), lambda i: sl.select(A[i + 1] > 0, A[i], -A[i]), name="C")
    assert flops([C]) == 2 * 8


def test_every_stage_counts_once_and_shared_parts_too() -> None:
    A = sl.placeholder((8,), name="A")
    B = sl.compute((8,), lambda i: sl.exp(A[i]) + 1, name="B")

    def body(i: sl.Tensor) -> object:
        twice = B[i] * 2
        return twice * twice

    C = sl.compute((4,), body, name="C")
    assert flops([C]) == 8 * 2 + 4 * 2


def test_points_where_a_condition_fails_need_no_flops(monkeypatch: pytest.MonkeyPatch) -> None:
    # a transposed convolution of stride 2: three of four elements are zeros in between
    A, W = sl.placeholder((10, 10), name="A"), sl.placeholder((4, 4), name="W")
    ri, rj = sl.reduce_axis((1, 5), name="ri"), sl.reduce_axis(4, name="rj")

    def body(i: sl.Tensor, j: sl.Tensor) -> object:
        row, column = i + ri, j + rj
        return sl.sum(A[row // 2, column // 2] * W[ri - 1, rj], axis=(ri, rj),
                      where=sl.all(row % 2 == 0, column % 2 == 0))  # fmt: skip

    B = sl.compute((16, 16), body, name="B")
    assert flops([B]) == 2 * 16 * 16 * 16 and needed_flops([B]) == flops([B]) // 4
    assert needed_flops([matmul(8, 6, 4)]) == flops([matmul(8, 6, 4)])
    monkeypatch.setattr(enumeration, "MOST_POINTS", 100)
    assert needed_flops([B]) is None


def test_conditions_on_elements_have_no_known_count() -> None:
    n, k = sl.var("n"), sl.reduce_axis(8, name="k")
    A = sl.placeholder((8,), name="A")
    B = sl.compute((n,), lambda i: sl.sum(A[k], axis=k, where=A[k] > 0), name="B")
    assert needed_flops([B], {n: 4}) is None
    C = sl.compute((n,), lambda i: sl.sum(A[k], axis=k, where=k + i < n), name="C")
    assert needed_flops([C], {n: 4}) == 4 + 3 + 2 + 1


def test_a_schedule_does_not_change_the_count(limits: Ceilings) -> None:
    C = matmul(64, 64, 64)
    a, b = np.ones((64, 64), "float32"), np.ones((64, 64), "float32")
    plain = sl.schedule(C)
    cached = sl.schedule(C)
    cached.cache_write(C, "local")
    for s in (plain, cached):
        result = sl.evaluate(sl.build(s), a, b, min_time=0.0)
        assert result.gflops is not None and result.gbps is not None
        assert result.gflops * result.seconds == pytest.approx(2 * 64**3 * 1e-9)
        assert result.gbps * result.seconds == pytest.approx(3 * 64 * 64 * 4e-9)


def test_the_fraction_is_of_the_lower_ceiling(limits: Ceilings) -> None:
    def sleep() -> None:
        time.sleep(0.01)

    busy = sl.evaluate(sleep, flops=1e8, bytes=1e6, repeat=3, min_time=0.0)
    assert busy.bound == "arithmetic"
    assert busy.fraction == pytest.approx(1e-3 / busy.seconds)
    moved = sl.evaluate(sleep, bytes=1e7, repeat=3, min_time=0.0)
    assert moved.bound == "memory" and moved.gflops is None
    assert moved.fraction == pytest.approx(1e-3 / moved.seconds)


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Forget all ceilings, and return the list that later measurements take their values from."""
    found: list[float] = []
    monkeypatch.setattr(module, "RATES", defaultdict(module.Rate))
    monkeypatch.setattr(module, "fma_rate", lambda dtype: found.pop(0))
    monkeypatch.setattr(module, "copy_rate", lambda: found.pop(0))
    return found


def test_a_ceiling_that_a_kernel_beats_is_measured_again(measured: list[float]) -> None:
    measured += [1.0, 10.0, 0.5, 40.0, 7.0]
    assert ceilings() == Ceilings(1.0, 10.0)
    busy = sl.evaluate(lambda: time.sleep(0.01), flops=2e8, repeat=3, min_time=0.0)
    assert busy.gflops is not None and 1 < busy.gflops <= 20
    assert busy.fraction == pytest.approx(busy.gflops / 40) and measured == [7.0]
    assert ceilings() == Ceilings(40.0, 10.0)


def test_another_number_of_threads_has_its_own_ceilings(
    measured: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    measured += [80.0, 20.0, 40.0, 10.0]
    for count, known in ((2, Ceilings(80.0, 20.0)), (1, Ceilings(40.0, 10.0))):
        monkeypatch.setattr(module, "_workers", lambda count=count: count)
        assert ceilings() == known == ceilings()
    monkeypatch.setattr(module, "_workers", lambda: 2)
    assert ceilings() == Ceilings(80.0, 20.0) and measured == []


def test_a_copy_is_measured_again_for_large_arrays_only(measured: list[float]) -> None:
    measured += [50.0, 1.0, 30.0, 7.0]
    inside = sl.evaluate(lambda: time.sleep(0.01), bytes=2e7, repeat=3, min_time=0.0)
    assert inside.fraction is not None and inside.fraction > 1 and len(measured) == 2
    large = sl.evaluate(lambda: time.sleep(0.01), bytes=2e8, repeat=3, min_time=0.0)
    assert large.fraction is not None and large.fraction < 1 and measured == [7.0]


def test_the_number_of_measurements_of_a_ceiling_is_limited(measured: list[float]) -> None:
    measured += [*[1.0] * module.MAX_MEASUREMENTS, 10.0, 7.0]
    for _ in range(2):
        assert ceilings(gflops=99.0) == Ceilings(1.0, 10.0) and measured == [7.0]


def test_symbolic_sizes_come_from_the_arrays(limits: Ceilings) -> None:
    n = sl.var("n")
    A = sl.placeholder((n,), name="A")
    s = sl.schedule(sl.compute((n,), lambda i: A[n - 1 - i] * 2, name="B"))
    result = sl.evaluate(sl.build(s, target="python"), np.ones(7, "float32"), min_time=0.0)
    assert result.gflops is not None
    assert result.gflops * result.seconds == pytest.approx(7e-9)


def test_given_outputs_are_written_and_others_are_allocated_once(limits: Ceilings) -> None:
    A = sl.placeholder((16,), name="A")
    f = sl.build(sl.schedule(sl.compute((16,), lambda i: A[i] + 1, name="B")), target="python")
    out = np.zeros(16, "float32")
    sl.evaluate(f, np.zeros(16, "float32"), out, min_time=0.0)
    assert (out == 1).all()
    assert sl.evaluate(f, np.zeros(16, "float32"), min_time=0.0).runs >= 5


def test_other_callables_need_no_counts() -> None:
    calls: list[int] = []
    result = sl.evaluate(calls.append, 1, repeat=3, min_time=0.0)
    assert result.gflops is result.gbps is result.fraction is None
    assert result.runs == 3 and len(calls) > 3


def test_what_cannot_be_called_is_refused() -> None:
    with pytest.raises(CallTypeError, match="give a kernel or another callable"):
        sl.evaluate(np.ones(3), np.ones(3))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "message"),
    [({"repeat": 0}, "repeat=0.*1 or more"), ({"repeat": 2.5}, "repeat=2.5"),
     ({"repeat": True}, "repeat=True"), ({"min_time": -1}, "min_time=-1.*0 or more"),
     ({"min_time": float("inf")}, "min_time=inf"), ({"min_time": "1"}, "min_time='1'")],
)  # fmt: skip
def test_invalid_options_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(CallError, match=message):
        sl.evaluate(np.sort, np.ones(3), **options)


def test_short_calls_are_timed_in_batches() -> None:
    found = samples(lambda: None, repeat=4, min_time=0.0)
    assert len(found) == 4 and all(0 < x < 1e-4 for x in found)


def test_spread_is_the_interquartile_range() -> None:
    assert median_and_spread([4.0, 4.0, 4.0, 4.0]) == (4.0, 0.0)
    assert median_and_spread([1.0, 2.0, 3.0, 4.0, 5.0])[1] == pytest.approx(2 / 3)


def test_preemptions_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    found = iter([0, 0, 0, 1000])
    monkeypatch.setattr(evaluated, "lost_cores", lambda: next(found))
    quiet, busy = (sl.evaluate(lambda: None, min_time=0.0) for _ in range(2))
    assert not quiet.busy and busy.busy
    assert str(busy).endswith(
        "while other work took a core: measure again when the machine is idle, or one thread alone "
        "(NUMBA_NUM_THREADS=1)"
    )
    assert "other work" not in str(quiet)


def test_text() -> None:
    text = str(Evaluation(0.0021, 0.02, 0.002, 9, 100.0, 12.0, 0.5, "arithmetic"))
    line = "2.1 ms ± 1.0% (fastest 2 ms), 100 GFLOP/s, 12 GB/s, 0.50 of what arithmetic allows"
    assert text == line
    cached = Evaluation(0.0021, 0.02, 0.002, 9, 100.0, 12.0, 6.87, "memory")
    assert "6.87 of what memory allows (the arrays stayed in a cache)" in str(cached)
    assert "687% (the arrays stayed in a cache)" in cached._repr_html_()
    assert duration(1e-6) == "1 µs"


@pytest.mark.parametrize(("dtype", "lanes"), [("float32", 16), ("float32", 4), ("float64", 8)])
def test_the_chains_that_measure_multiply_adds(dtype: str, lanes: int) -> None:
    one, team = module._fma_kernels(dtype, lanes)
    sums = np.arange(lanes) + np.arange(CHAINS)[:, None] / 8
    for _ in range(10):
        sums = sums * 0.999 + 0.001
    out, alone = np.zeros((2, 3, lanes), dtype)
    team(out, 3, 10)
    one(alone, 1, 10)
    wanted = np.zeros((3, lanes))
    wanted[1] = sums.sum(0)
    np.testing.assert_allclose(alone, wanted, rtol=1e-5)
    np.testing.assert_allclose(out, np.tile(sums.sum(0), (3, 1)), rtol=1e-5)


@pytest.mark.parametrize("stores", range(2))
def test_the_copies_that_are_measured(stores: int) -> None:
    one, team = module._copy_kernels(16)[stores]
    source, target = np.arange(96, dtype="float32"), np.zeros(96, "float32")
    one(source, target, 32, 64)
    np.testing.assert_array_equal(target, np.where((source >= 32) & (source < 64), source, 0))
    team(source, target, 3, 32)
    np.testing.assert_array_equal(target, source)


def test_ceilings_are_measured_once_and_used() -> None:
    found = ceilings()
    assert found is not None and found.gflops > 0.5 and found.gbps > 0.5
    assert ceilings() == found and ceilings("float64").gbps == found.gbps
    n = 512
    a, b = np.ones((n, n), "float32"), np.ones((n, n), "float32")
    reached = sl.evaluate(np.matmul, a, b, flops=2 * n**3, bytes=3 * n * n * 4)
    assert reached.fraction is not None and reached.fraction > 0
