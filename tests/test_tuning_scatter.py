"""Tests of the tactics for scatters: private copies, rows in lanes and threads, atomics."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.autotune.knobs import Rejected
from schedlang.autotune.space import Candidate, Space
from schedlang.autotune.tactics.facts import Problem
from tests.cpu_candidates import drawn, shared
from tests.marks import slow_but

rng = np.random.default_rng(0)
SIZE, ROWS, WORDS, WIDTH = 16384, 600, 40, 64
x = rng.integers(0, 32, SIZE).astype("uint8")
p = rng.integers(0, WORDS, ROWS).astype("int32")
g = rng.normal(size=(ROWS, WIDTH)).astype("float32")
r = rng.integers(0, 8, (40, 300)).astype("uint8")


def histogram(dtype: str = "int64") -> sl.Tensor:
    X = sl.placeholder((SIZE,), "uint8", name="X")
    return sl.scatter((32,), (SIZE,), lambda k: (X[k], sl.const(1, dtype)), name="H")


def embedding() -> sl.Tensor:
    P, G = sl.placeholder((ROWS,), "int32", name="P"), sl.placeholder((ROWS, WIDTH), name="G")
    return sl.scatter((WORDS, WIDTH), G.shape, lambda t, j: ((P[t], j), G[t, j]), name="D")


def by_rows() -> sl.Tensor:
    R = sl.placeholder(r.shape, "uint8", name="R")
    return sl.scatter((40, 8), r.shape, lambda i, k: ((i, R[i, k]), 1), name="B")


def last() -> sl.Tensor:
    P = sl.placeholder((ROWS,), "int32", name="P")
    return sl.scatter((WORDS,), (ROWS,), lambda t: (P[t], t), "last", name="L")


CASES: dict[Callable[[], sl.Tensor], tuple[Any, ...]] = {
    histogram: (x,), embedding: (p, g), by_rows: (r,), last: (p,)
}  # fmt: skip


@pytest.mark.parametrize(
    "make", slow_but(["histogram", "embedding"], CASES, lambda make: make.__name__)
)
def test_candidates_are_right(make: Callable[[], sl.Tensor]) -> None:
    output, arrays = make(), CASES[make]
    wanted = sl.reference(output)(*arrays)
    seen = {str(dict(c.decisions)): c for c in drawn(output, 10)}
    for candidate in list(seen.values())[:2]:
        made = sl.build(candidate.schedule, target="python")(*arrays)
        np.testing.assert_allclose(made, wanted, rtol=1e-4, atol=1e-4)


def test_copies_of_each_thread_take_turns() -> None:
    """Eight parts for two threads, of four copies each; they are combined by a plain sum."""
    given = {"H.how": "copies", "H.parts": 4, "H.copies": 4}
    (found, *_) = drawn(histogram(), 1, given=given)
    assert shared(found) == 8
    assert "unroll k.inner.inner in 0..4" in str(found.nest)
    assert [str(b.shape) for b in found.nest.buffers if b.name == "H.rf.rf"] == ["(4, 1, 32)"]


def test_columns_of_each_thread() -> None:
    given = {"D.how": "updates", "D.lanes": 8, "D.columns": True}
    (found, *_) = drawn(embedding(), 1, given=given)
    assert shared(found) == 2 and "vectorize" in str(found.nest)


def test_rows_of_each_thread() -> None:
    found = drawn(by_rows(), 4, given={"B.how": "updates"})
    assert all(shared(candidate) == 40 for candidate in found)


def test_the_last_update_has_no_copies() -> None:
    assert {c.decisions["L.how"] for c in drawn(last(), 6)} == {"updates"}


def candidates(output: sl.Tensor, count: int) -> list[Candidate]:
    target, random, found = sl.Target("cuda"), Random(0), []
    space = Space(Problem((output,), target))
    for _ in range(count):
        try:
            found.append(space.draw(random))
        except Rejected:
            continue
    assert found, space.reasons
    return found


@pytest.mark.parametrize("make", CASES)
def test_gpu_candidates_are_right(make: Callable[[], sl.Tensor]) -> None:
    output = histogram("int32") if make is histogram else make()
    arrays = CASES[make]
    wanted = sl.reference(output)(*arrays)
    candidate = candidates(output, 3)[0]
    assert ("atomic" in str(candidate.nest)) == (make is not last)
    f = sl.build(candidate.schedule, target="cuda-emulator")
    np.testing.assert_allclose(f.check(*arrays), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_a_search_finds_private_copies(tmp_path: Any) -> None:
    result = sl.autotune(histogram(), trials=8, inputs=[x], database=tmp_path / "trials.json")
    np.testing.assert_array_equal(result.kernel(x), np.bincount(x, minlength=32))
    assert any("rfactor" in str(trial.steps) for trial in result.trials)
