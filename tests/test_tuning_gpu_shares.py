"""Sums of a tile that blocks of a GPU share: draws with ``C.shares``, on the emulator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang import topi
from schedlang.autotune.space import Candidate
from schedlang.gpu_lowering.lower import device_program
from tests.marks import slow_but
from tests.test_tuning_gpu_draws import GPU, drawn, product, space

ANY: dict[str, Any] = {"how": "tile"}


def arrays(tensors: tuple[sl.Tensor, ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(3)
    return [rng.integers(-4, 5, t.shape).astype(t.dtype) for t in tensors]


def run(candidate: Candidate, output: sl.Tensor, inputs: tuple[sl.Tensor, ...]) -> Any:
    f = sl.build(candidate.schedule, [*inputs, output], target="cuda-emulator")
    return f(*arrays(inputs))


@pytest.mark.parametrize("dtype", slow_but(["float32"], ["float32", "float64", "int32"]))
@pytest.mark.parametrize("count", slow_but(["4"], [2, 4]))
def test_two_kernels_compute_a_product(count: int, dtype: str) -> None:
    D = product(48, 41, 67, dtype)
    for candidate in drawn(D, 3, 20, shares=count, **ANY):
        first, second = device_program(candidate.nest, GPU).launches
        assert first.name != second.name and "D.rf" in candidate.schedule.state.stages
        a, b = arrays(D.op.input_tensors)
        np.testing.assert_array_equal(run(candidate, D, D.op.input_tensors), a @ b)


def test_the_reader_adds_the_shares() -> None:
    D = product(40, 56, 96)
    bias = sl.placeholder((56,), name="bias")
    Z = sl.compute(D.shape, lambda i, j: sl.max(D[i, j] + bias[j], 0), name="Z")
    inputs = (*D.op.input_tensors, bias)
    a, b, c = arrays(inputs)
    candidate = space(Z).draw(None, {"D.fuse": True, "D.shares": 4})
    assert candidate.decisions["D.shares"] == 4
    assert len(device_program(candidate.nest, GPU).launches) == 2
    np.testing.assert_array_equal(run(candidate, Z, inputs), np.maximum(a @ b + c, 0))


def test_a_convolution_of_few_pixels() -> None:
    x, w = sl.placeholder((1, 48, 7, 7), name="x"), sl.placeholder((40, 48, 3, 3), name="w")
    y = topi.nn.conv2d_nchw(x, w, 1, 1, 1)
    Z = topi.nn.relu(y)
    candidate = space(Z).draw(None, {f"{y.name}.fuse": True, f"{y.name}.shares": 2})
    found = run(candidate, Z, (x, w))
    given = dict(zip(("x", "w"), arrays((x, w))))
    np.testing.assert_array_equal(found, sl.reference(Z)(**given))


def test_the_largest_of_parts() -> None:
    A, B = sl.placeholder((24, 64), name="A"), sl.placeholder((32, 64), name="B")
    k = sl.reduce_axis(64, name="k")
    D = sl.compute((24, 32), lambda i, j: sl.max(A[i, k] - B[j, k], axis=k), name="D")
    a, b = arrays((A, B))
    for candidate in drawn(D, 2, 20, shares=2, **ANY):
        wanted = (a[:, None] - b[None]).max(axis=2)
        np.testing.assert_array_equal(run(candidate, D, (A, B)), wanted)


@pytest.mark.slow
def test_symbolic_sizes() -> None:
    n, depth = sl.var("n"), sl.var("depth")
    A, B = sl.placeholder((n, depth), name="A"), sl.placeholder((depth, 48), name="B")
    k = sl.reduce_axis(depth, name="k")
    D = sl.compute((n, 48), lambda i, j: sl.sum(A[i, k] * B[k, j], axis=k), name="D")
    candidate = space(D, {n: 48, depth: 64}).draw(None, {"D.how": "tile", "D.shares": 2})
    f = sl.build(candidate.schedule, [A, B, D], target="cuda-emulator")
    rng = np.random.default_rng(5)
    for rows, inner in ((48, 64), (5, 7), (50, 1)):
        a, b = (rng.integers(-4, 5, s).astype("float32") for s in ((rows, inner), (inner, 48)))
        np.testing.assert_array_equal(f(a, b), a @ b)


def test_many_results_and_short_sums_are_whole() -> None:
    assert "D.shares" not in drawn(product(1024, 1024, 64), 1, 20, **ANY)[0].decisions
    assert "D.shares" not in drawn(product(64, 64, 24), 1, 20, **ANY)[0].decisions
