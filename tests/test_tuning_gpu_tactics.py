"""Tests of the GPU tactics: schedules and estimated costs."""

from __future__ import annotations

import json
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from benchmarks.gpu import products
from schedlang.autotune.costs import devices
from schedlang.autotune.costs.devices import Speed, _first, _here
from schedlang.autotune.costs.estimate_gpu import estimate_gpu, registers
from schedlang.autotune.knobs import Rejected
from schedlang.autotune.space import Candidate, Space
from schedlang.autotune.tactics.facts import Problem
from schedlang.gpu_lowering.lower import device_program
from schedlang.gpu_lowering.program import Program
from schedlang.runtime import nvidia
from schedlang.target import DEVICES
from tests.gpu_schedules import gemm, numbers, scaled

pytestmark = pytest.mark.slow

GPU = sl.Target("cuda")


def drawn(*outputs: sl.Tensor, count: int = 6, seed: int = 0, **given: Any) -> list[Candidate]:
    """Draw candidates with the ``given`` decisions, by the names of the output's knobs."""
    space = Space(Problem(tuple(outputs), GPU))
    known = {f"{outputs[0].name}.{knob}": value for knob, value in given.items()}
    rng, found = Random(seed), []
    for _ in range(10 * count):
        try:
            candidate = space.draw(rng, known)
        except Rejected:
            continue
        found.append(candidate)
        if len(found) == count:
            return found
    raise AssertionError(f"{len(found)} candidates: {dict(space.reasons)}")


def everything(n: int, m: int, dtype: str = "float32") -> tuple[sl.Tensor, sl.Tensor]:
    """Return the sum of all elements."""
    A = sl.placeholder((n, m), dtype, name="A")
    i, j = sl.reduce_axis(n, name="i"), sl.reduce_axis(m, name="j")
    return A, sl.compute((), lambda: sl.sum(A[i, j], axis=(i, j)), name="S")


def columns(n: int, m: int) -> tuple[sl.Tensor, sl.Tensor]:
    """Return the sum of each column."""
    A, i = sl.placeholder((n, m), name="A"), sl.reduce_axis(n, name="i")
    return A, sl.compute((m,), lambda j: sl.sum(A[i, j], axis=i), name="S")


def channels(n: int, c: int, size: int) -> tuple[sl.Tensor, sl.Tensor]:
    """Return the sum of each channel of some images."""
    A = sl.placeholder((n, c, size, size), name="A")
    b, y, x = (sl.reduce_axis(e, name=a) for a, e in (("b", n), ("y", size), ("x", size)))
    return A, sl.compute((c,), lambda k: sl.sum(A[b, k, y, x], axis=(b, y, x)), name="S")


def largest(*shape: int) -> tuple[sl.Tensor, sl.Tensor]:
    """Return the argmax of each row."""
    A, i = sl.placeholder(shape, name="A"), sl.reduce_axis(shape[-1], name="i")
    return A, sl.compute(shape[:-1], lambda *at: sl.argmax(A[(*at, i)], axis=i), name="S")


FEW_RESULTS = {
    "all": everything(300, 257),
    "whole halves": everything(256, 512, "int32"),
    "columns": columns(3000, 130),
    "channels": channels(4, 6, 51),
    "argmax": largest(70_000),
    "argmax of rows": largest(3, 30_000),
}


@pytest.mark.parametrize("name", FEW_RESULTS)
def test_few_results_of_a_long_reduction_are_split_into_parts(name: str) -> None:
    A, S = FEW_RESULTS[name]
    a = numbers(*map(int, A.shape), dtype=A.dtype)
    wanted = sl.reference(S)(a)
    (candidate,) = drawn(S, count=1, how="parts")
    partial, combined = str(candidate.nest).split("\nblockIdx.x")[1:]
    assert " S.rf" in partial and " S.rf" in combined
    made = sl.build(candidate.schedule, [A, S], target="cuda-emulator")(a)
    np.testing.assert_allclose(made, wanted, rtol=1e-5)


@pytest.mark.skipif(find_spec("numba_cuda") is None, reason="numba-cuda is not installed")
@pytest.mark.parametrize("name", FEW_RESULTS)
def test_parts_are_machine_code_without_spills(name: str) -> None:
    A, S = FEW_RESULTS[name]
    (candidate,) = drawn(S, count=1, how="parts")
    found = sl.build(candidate.schedule, [A, S], target=GPU).resources
    assert len(found) == 2
    assert not any(r.spill_bytes or r.local_bytes for r in found.values())


def test_no_single_block_sums_everything() -> None:
    _, S = everything(4096, 1024)
    for candidate in drawn(S, count=10):
        text = str(candidate.nest)
        assert candidate.decisions["S.how"] == "parts" and text.count("blockIdx.x") == 2


def test_parts_of_columns_are_read_by_adjacent_threads() -> None:
    A, S = columns(4096, 512)
    for candidate in drawn(S, count=3, how="parts"):
        source = str(candidate.nest).split("\nblockIdx.x")[1]
        assert "reduced across" not in source and "threadIdx.x" in source


def test_one_block_computes_a_short_sum() -> None:
    A, S = everything(60, 50)
    a = numbers(60, 50)
    for candidate in drawn(S, count=2, how="across"):
        made = sl.build(candidate.schedule, [A, S], target="cuda-emulator")(a)
        np.testing.assert_allclose(made, a.sum(), rtol=1e-5)


def test_short_axes_are_reduced_across_threads_together() -> None:
    A = sl.placeholder((4, 50, 7, 7), name="A")
    y, x = sl.reduce_axis(7, name="y"), sl.reduce_axis(7, name="x")
    S = sl.compute((4, 50), lambda n, c: sl.max(A[n, c, y, x], axis=(y, x)), name="S")
    (candidate,) = drawn(S, count=1, how="across")
    assert "reduced across" in str(candidate.nest)
    a = numbers(4, 50, 7, 7)
    made = sl.build(candidate.schedule, [A, S], target="cuda-emulator")(a)
    np.testing.assert_array_equal(made, a.max(axis=(2, 3)))


WIDEST = {"float16": 8, "int8": 4, "int32": 4, "float32": 4, "float64": 2}


@pytest.mark.parametrize("dtype", WIDEST)
def test_adjacent_elements_are_one_access(dtype: str) -> None:
    A = sl.placeholder((64, 64), dtype, name="A")
    B = sl.compute((64, 64), lambda i, j: A[i, j] + A[i, j], name="S")
    lanes = {c.decisions["S.lanes"] for c in drawn(B, count=30)}
    assert lanes == {n for n in (1, 2, 4, 8, 16) if n <= WIDEST[dtype]}
    (wide,) = drawn(B, count=1, lanes=WIDEST[dtype])
    aligned = f"vload_aligned{'_half' if dtype == 'float16' else ''}(A, "
    source = sl.build(wide.schedule, [A, B], target=GPU).source
    assert source.count(aligned) == 1 and f", {WIDEST[dtype]})" in source
    a = numbers(64, 64, dtype=dtype)
    made = sl.build(wide.schedule, [A, B], target="cuda-emulator")(a)
    np.testing.assert_array_equal(made, a + a)


def test_tiles_are_fetched_as_wide_as_their_dtype() -> None:
    A, B = (sl.placeholder((64, 64), "float16", name=n) for n in "AB")
    k = sl.reduce_axis(64, name="k")
    C = sl.compute((64, 64), lambda i, j: sl.sum(A[i, k] * B[k, j], axis=k), name="C")
    found = drawn(C, count=30)
    assert 8 in {c.decisions.get("A.shared.lanes") for c in found}


def program(schedule: Any, target: sl.Target = GPU) -> Program:
    return device_program(sl.lower(schedule), target)


def test_the_estimate_prefers_parts_to_one_block() -> None:
    _, S = everything(4096, 1024)
    alone = sl.schedule(S)
    s = alone[S]
    _, thread = s.split(s.fuse(*S.op.reduce_axis), factor=256)
    s.bind(thread, "threadIdx.x")
    s.bind(s.fuse(), "blockIdx.x")
    slow = estimate_gpu(program(alone), GPU).seconds
    found = [c.estimate.seconds for c in drawn(S, count=5)]
    assert slow > 4 * max(found) and slow > 10 * min(found)


def test_each_step_of_a_scan_is_launched() -> None:
    def made(moments: int) -> Program:
        X, S = (sl.placeholder((moments, 4096), name=n) for n in "XS")
        first = sl.compute((1, 4096), lambda t, i: X[0, i], name="first")
        step = sl.compute((moments, 4096), lambda t, i: S[t - 1, i] + X[t, i], name="step")
        R = sl.scan(first, step, S, inputs=[X], name="R")
        (candidate,) = drawn(R, count=1)
        return program(candidate.schedule)

    one, many = (estimate_gpu(made(n), GPU).seconds for n in (2, 1001))
    # one launch for the start, and one per step of the scan
    assert many / one == pytest.approx(1001 / 2, rel=0.05)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_registers_of_a_prefetched_tile_are_counted_once(dtype: str) -> None:
    counts = []
    for double in (False, True):
        (launch,) = program(gemm(64, 64, 64, double=double, dtype=dtype).schedule).launches
        counts.append(registers(launch))
    # 16 threads fetch 16 by 8 elements of each operand
    assert counts[1] - counts[0] == 2 * 16 * 8 // 16


def test_the_speed_of_a_device_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(devices.SPEEDS) == set(DEVICES)
    monkeypatch.delitem(devices.SPEEDS, "sm_103")
    wide = scaled(1 << 22, at=8).schedule
    archs = {arch: sl.Target("cuda", arch=arch) for arch in ("sm_80", "sm_87", "sm_90", "sm_103")}
    seconds = {a: estimate_gpu(program(wide, t), t).seconds for a, t in archs.items()}
    assert seconds["sm_87"] > 5 * seconds["sm_80"] > 5 * seconds["sm_90"]
    # unknown devices count as an H100
    assert seconds["sm_103"] == seconds["sm_90"]


def test_the_speed_of_a_device_by_its_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    here = SimpleNamespace(
        compute_capability=(9, 0), MULTIPROCESSOR_COUNT=132, CLOCK_RATE=1980000,
        MEMORY_CLOCK_RATE=3201000, GLOBAL_MEMORY_BUS_WIDTH=6144,
    )  # fmt: skip
    # numba.cuda without the means to make a context
    cuda = SimpleNamespace(is_available=lambda: True, gpus=[here])
    monkeypatch.setattr(nvidia, "driver", lambda: cuda)
    _first.cache_clear()
    here.MEMORY_CLOCK_RATE = 0
    assert _here((9, 0)) is None
    here.MEMORY_CLOCK_RATE = 3201000
    # an H200, by its data sheet 4.8 TB/s
    assert _here((9, 0)) == Speed(132, 1.98e9, pytest.approx(4.8e12, rel=0.03))
    assert _here((8, 0)) is None
    _first.cache_clear()


def recurrent(fused: bool) -> tuple[sl.Tensor, sl.Tensor, sl.Tensor]:
    """Return ``R[t] = R[t - 1] @ W + X[t]``, with the product fused into the step or apart."""
    X, S = (sl.placeholder((4, 16, 48), name=n) for n in "XS")
    W, k = sl.placeholder((48, 48), name="W"), sl.reduce_axis(48, name="k")
    first = sl.compute((1, 16, 48), lambda t, b, i: X[0, b, i], name="first")
    P = sl.compute((4, 16, 48), lambda t, b, i: sl.sum(S[t - 1, b, k] * W[k, i], axis=k), name="P")
    N = sl.compute((4, 16, 48), lambda t, b, i: P[t, b, i] + X[t, b, i], name="N")
    return X, W, sl.scan(first, P if fused else N, S, inputs=[X], name="R")


# the way to compute the product in each step, and the features of its kernels
MOMENTS = {
    "a step in tiles": (True, {"P.how": "tile", "P.shared.W": True}, ["shared", "P.local"]),
    "a step across threads": (True, {"P.how": "across"}, ["reduced across"]),
    "tiles": (False, {"P.fuse": False, "P.how": "tile", "P.shared.W": True}, ["shared", "P.local"]),
    "across threads": (False, {"P.fuse": False, "P.how": "across"}, ["reduced across"]),
    "a tile in the step": (False, {"P.fuse": True, "P.shared.W": True}, ["shared"]),
}


@pytest.mark.parametrize("name", MOMENTS)
def test_products_of_a_scan_are_shared_among_threads(name: str) -> None:
    fused, given, parts = MOMENTS[name]
    X, W, R = recurrent(fused)
    space = Space(Problem((R,), GPU))
    rng, found = Random(1), []
    for _ in range(20):
        with suppress(Rejected):
            found.append(space.draw(rng, given))
        if len(found) == 2:
            break
    assert len(found) == 2, dict(space.reasons)
    # the time axis is not tiled
    assert not any(0 in candidate.decisions.get("P.axes", []) for candidate in found)
    assert not any("time axis" in reason for reason in space.reasons)
    x, w = numbers(4, 16, 48), numbers(48, 48, seed=1) / 8
    wanted = [x[0]]
    for moment in x[1:]:
        wanted.append(wanted[-1] @ w + (0 if fused else moment))
    for candidate in found:
        text = str(candidate.nest)
        assert all(part in text for part in parts)
        assert text.count("blockIdx.x") == (2 if fused or given["P.fuse"] else 3)
    made = sl.build(found[0].schedule, [X, W, R], target="cuda-emulator")(x, w)
    np.testing.assert_allclose(made, np.stack(wanted), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("size", "least"),
    [((1024, 1024, 1024), 0.7), ((1000, 1003, 997), 0.5)],
)
def test_the_estimate_ranks_the_tiles_of_products_as_an_h100_does(
    size: tuple[int, int, int], least: float
) -> None:
    path = Path(__file__).parents[1] / "benchmarks" / "results" / "cuda-h100-tiles.json"
    rows = [r for r in json.loads(path.read_text("utf-8"))["rows"] if tuple(r["size"]) == size]
    estimates = []
    for row in rows:
        shape = (tuple(row["tile"]), tuple(row["each"]), row["depth"], row["ahead"])
        s, _ = products.tiled_sgemm(*size, *shape)
        estimates.append(estimate_gpu(program(s), sl.Target("cuda", arch="sm_90")).seconds)
    ranks = [np.argsort(np.argsort(v)) for v in ([r["seconds"] for r in rows], estimates)]
    assert len(rows) >= 24 and np.corrcoef(*ranks)[0, 1] > least
