"""Products and convolutions that tactics compute by matrix units, beside float64."""

from __future__ import annotations

from random import Random
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import schedlang as sl
from schedlang import topi
from schedlang.autotune.knobs import Knobs
from schedlang.autotune.tactics.cuda.warp_tile import units
from schedlang.autotune.tactics.driver import schedule_stages
from schedlang.autotune.tactics.facts import Dataflow, Problem
from schedlang.autotune.tactics.registries import CUDA
from schedlang.compute.graph import placeholders
from schedlang.language.calls import call
from schedlang.schedule.schedule import empty_schedule
from tests.marks import compiles, slow_but
from tests.special_values import nearest_tf32

GPU = sl.Target("cuda")
Arrays = list[np.ndarray]


def factor(value: Any, dtype: str) -> Any:
    return call("tf32", value) if dtype == "tf32" else value.astype("float32")


def convolution(
    n: int, c: int, size: int, f: int, taps: int = 3, dtype: str = "float16", stride: int = 1
) -> sl.Tensor:
    """Return the relu of a convolution with padding, in the order NCHW."""
    stored = "float32" if dtype == "tf32" else dtype
    X = sl.placeholder((n, c, size, size), stored, name="X")
    W = sl.placeholder((f, c, taps, taps), stored, name="W")
    edge = taps // 2
    P = topi.nn.pad(X, (0, 0, edge, edge), name="P") if edge else X
    axes = rc, ry, rx = [
        sl.reduce_axis(e, name=k) for e, k in ((c, "rc"), (taps, "ry"), (taps, "rx"))
    ]
    out = (size + 2 * edge - taps) // stride + 1

    def element(b: Any, o: Any, y: Any, x: Any) -> Any:
        data = P[b, rc, y * stride + ry, x * stride + rx]
        return sl.sum(factor(data, dtype) * factor(W[o, rc, ry, rx], dtype), axis=axes)

    Y = sl.compute((n, f, out, out), element, name="Y")
    return sl.compute(Y.shape, lambda *at: sl.max(Y[at], 0), name="Z")


def product(m: int, n: int, k: int, dtype: str = "float16", total: str = "float32") -> sl.Tensor:
    A, B = sl.placeholder((m, k), dtype, name="A"), sl.placeholder((k, n), dtype, name="B")
    r = sl.reduce_axis(k, name="k")

    def element(i: Any, j: Any) -> Any:
        return sl.sum(A[i, r].astype(total) * B[r, j].astype(total), axis=r)

    return sl.compute((m, n), element, name="Y")


def scores(heads: int, rows: int, depth: int) -> sl.Tensor:
    Q, K = (sl.placeholder((heads, rows, depth), "bfloat16", name=name) for name in "QK")
    r = sl.reduce_axis(depth, name="k")

    def element(h: Any, i: Any, j: Any) -> Any:
        return sl.sum(Q[h, i, r].astype("float32") * K[h, j, r].astype("float32"), axis=r)

    return sl.compute((heads, rows, rows), element, name="Y")


def drawn(output: sl.Tensor, seed: int) -> sl.Schedule:
    s = empty_schedule(output, "")
    schedule_stages(CUDA, s, Problem((output,), GPU, 4), Knobs(rng=Random(seed)))
    return s


def given(output: sl.Tensor) -> Arrays:
    rng, arrays = np.random.default_rng(0), []
    for tensor in placeholders([output]):
        kind = ml_dtypes.bfloat16 if tensor.dtype == "bfloat16" else tensor.dtype
        arrays.append(rng.standard_normal(tensor.shape).astype(kind))
    return arrays


def in_float64(name: str, arrays: Arrays) -> tuple[np.ndarray, np.ndarray, int]:
    """Return a result in float64, the sums of the magnitudes of terms, and the number of terms."""
    a, b = (nearest_tf32(x) if "tf32" in name else x for x in arrays)
    a, b = a.astype("float64"), b.astype("float64")
    if a.ndim < 4:
        ways = "hik,hjk->hij" if a.ndim == 3 else "ik,kj->ij"
        return np.einsum(ways, a, b), np.einsum(ways, abs(a), abs(b)), a.shape[-1]
    edge = b.shape[2] // 2
    padded = np.pad(a, ((0, 0), (0, 0), (edge, edge), (edge, edge)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, b.shape[2:], (2, 3))
    ways = "ncyxrs,fcrs->nfyx"
    exact = np.maximum(np.einsum(ways, windows, b), 0)
    return exact, np.einsum(ways, abs(windows), abs(b)), int(np.prod(b.shape[1:]))


RIGHT = {
    "convolution": convolution(1, 16, 10, 24),
    "pictures": convolution(3, 16, 9, 16, dtype="bfloat16"),
    "tf32": convolution(1, 8, 8, 16, dtype="tf32"),
    "product": product(70, 36, 48),
    "scores": scores(3, 33, 32),
}


def agree(name: str, result: np.ndarray, arrays: Arrays) -> None:
    exact, magnitude, terms = in_float64(name, arrays)
    # products of 11 bits are exact in float32, and each addition rounds
    assert (np.abs(result - exact) <= terms * 2.0**-24 * magnitude).all()


@pytest.mark.parametrize("name", slow_but(["convolution"], RIGHT))
def test_draws_are_right(name: str) -> None:
    output, arrays = RIGHT[name], given(RIGHT[name])
    schedule = drawn(output, 1)
    assert any(step.primitive == "tensorize" for step in schedule.steps)
    agree(name, sl.build(schedule, target="cuda-emulator")(*arrays), arrays)


@pytest.mark.slow
def test_all_threads_of_a_warp_take_part() -> None:
    output = convolution(1, 16, 8, 16)
    arrays = given(output)
    kernel = sl.build(drawn(output, 1), target=GPU)
    agree("", kernel.check(*arrays), arrays)
    (counts,) = kernel.counters(*arrays).values()
    # 16 channels and 8 pixels of one tap each
    assert counts.matrix_products >= 8 * 9


PLAIN = {
    "float32": product(64, 64, 64, "float32"),
    "sums of float16": product(64, 64, 64, "float16", "float16"),
    "rows by a vector": product(64, 1, 64),
    "terms that are no multiple": product(64, 64, 40),
    "a stride": convolution(1, 16, 16, 16, stride=2),
    "small pictures": convolution(1, 16, 7, 16),
    "few channels": convolution(1, 3, 16, 16),
}


@pytest.mark.parametrize("name", PLAIN)
def test_what_has_no_units(name: str) -> None:
    output = PLAIN[name]
    flow = Dataflow(Problem((output,), GPU, 4), empty_schedule(output, "").state)
    sums = [t for t in flow.stages if flow.stage(t).is_reduction]
    assert [units(flow.stage(t)) for t in sums] == [None]


def test_columns_are_along_pictures_where_these_are_small() -> None:
    output = convolution(16, 16, 7, 16)
    flow = Dataflow(Problem((output,), GPU, 4), empty_schedule(output, "").state)
    (use,) = [u for t in flow.stages if flow.stage(t).is_reduction and (u := units(flow.stage(t)))]
    assert {use.row, use.column} == {0, 1}


@pytest.mark.slow
@compiles
def test_machine_code_uses_the_units() -> None:
    kernel = sl.build(drawn(convolution(2, 32, 24, 32), 0), target=sl.Target("cuda", arch="sm_80"))
    assert "HMMA.16816.F32" in kernel.sass and "LDSM.16.M88" in kernel.sass
    assert not any(r.spill_bytes for r in kernel.resources.values())
