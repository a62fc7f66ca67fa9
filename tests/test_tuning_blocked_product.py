"""Tests of large products, whose operands are copied in blocks."""

from __future__ import annotations

import numpy as np
import pytest

import schedlang as sl
from schedlang.autotune.tactics.cpu import blocked_product
from tests.cpu_candidates import AVX2, drawn
from tests.graphs import product


def transposed(rows: int, lanes: int, steps: int, dtype: str, which: str) -> sl.Tensor:
    """Return a product in which the operands of ``which`` are transposed, with a reader."""
    A = sl.placeholder((steps, rows) if "A" in which else (rows, steps), dtype, name="A")
    B = sl.placeholder((lanes, steps) if "B" in which else (steps, lanes), dtype, name="B")
    k = sl.reduce_axis(steps, name="k")

    def term(i: sl.Axis, j: sl.Axis) -> object:
        a = A[k, i] if "A" in which else A[i, k]
        return sl.sum(a * (B[j, k] if "B" in which else B[k, j]), axis=k)

    C = sl.compute((rows, lanes), term, name="C")
    return sl.compute(C.shape, lambda i, j: C[i, j] * 2 + 1, name="R")


def test_only_products_without_short_axes_are_in_blocks() -> None:
    (large, *_) = drawn(product(2560, 2580, 2600)[-1], 1)
    assert "C.block_steps" in large.decisions
    for sizes in ((2550, 2560, 2560), (2560, 2550, 2560), (2560, 2560, 2550)):
        (small, *_) = drawn(product(*sizes)[-1], 1)
        assert "C.block_steps" not in small.decisions


def test_each_thread_has_a_block() -> None:
    output = product(2560, 2560, 2560)[-1]
    for threads, blocked in ((4, True), (128, False)):
        (candidate, *_) = drawn(output, 4, threads=threads)
        assert ("C.block_steps" in candidate.decisions) == blocked


def test_a_block_stays_in_the_caches() -> None:
    (candidate, *_) = drawn(product(2560, 3072, 3000)[-1], 1)
    sizes = {b.name: b.bytes for b in candidate.nest.buffers}
    assert "C.fuse" not in candidate.decisions
    assert AVX2.caches[0].size < sizes["B.global"] <= AVX2.caches[1].size


CASES = [
    ("float32", 53, 150, 521, ""),
    ("float64", 61, 135, 520, "A"),
    ("float32", 37, 147, 300, "B"),
    ("float64", 40, 96, 257, "AB"),
]


@pytest.mark.slow
@pytest.mark.parametrize("dtype, rows, lanes, steps, which", CASES)
def test_products_in_blocks_with_rests(
    monkeypatch: pytest.MonkeyPatch, dtype: str, rows: int, lanes: int, steps: int, which: str
) -> None:
    """Rows, lanes and steps leave rests, and one operand or both are transposed."""
    monkeypatch.setattr(blocked_product, "SHORTEST", 128)
    # of two tiles, so that there are several blocks
    monkeypatch.setattr(blocked_product, "MOST_BLOCK", 0.0)
    R = transposed(rows, lanes, steps, dtype, which)
    (candidate, *_) = drawn(R, 1, given={"C.at": -1})
    assert "C.block_steps" in candidate.decisions
    f, rng = sl.build(candidate.schedule), np.random.default_rng(0)
    assert not f.unproven
    arrays = {t.name: rng.integers(-4, 5, t.shape).astype(dtype) for t in sl.reference(R).inputs}
    a, b = (arrays[n].T if n in which else arrays[n] for n in "AB")
    assert np.array_equal(f(*arrays.values()), a @ b * 2 + 1)
