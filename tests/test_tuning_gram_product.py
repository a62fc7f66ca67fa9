"""Tests of large matrices times their own transpose, which one copy in panels serves."""

from __future__ import annotations

import numpy as np
import pytest

import schedlang as sl
from schedlang.arrays import covariance
from schedlang.autotune.tactics.cpu import gram_product
from schedlang.autotune.tactics.cpu.halves import needed_half
from schedlang.autotune.tactics.facts import Dataflow, Problem, StageFacts
from schedlang.compute.tensor import ComputeOp
from tests.cpu_candidates import AVX2, drawn
from tests.graphs import product

LOWER, UPPER = (lambda i, j: j <= i), (lambda i, j: j >= i)


def gram(n: int, steps: int, dtype: str = "float64", turned: bool = False) -> sl.Tensor:
    """Return ``A @ A.T``, or ``A.T @ A`` if ``turned``."""
    A = sl.placeholder((steps, n) if turned else (n, steps), dtype, name="A")
    k = sl.reduce_axis(steps, name="k")

    def term(i: sl.Axis, j: sl.Axis) -> object:
        return sl.sum(A[k, i] * A[k, j] if turned else A[i, k] * A[j, k], axis=k)

    return sl.compute((n, n), term, name="P")


def mirrored(P: sl.Tensor, needed: object) -> sl.Tensor:
    def element(i: sl.Axis, j: sl.Axis) -> object:
        return sl.if_then_else(needed(i, j), P[i, j], P[j, i])  # type: ignore[operator]

    return sl.compute(P.shape, element, name="R")


def sums(R: sl.Tensor) -> list[sl.Tensor]:
    """Return the sums that ``R`` needs."""
    ops = [stage.op for stage in sl.schedule(R).state.stages.values()]
    return [x.outputs[0] for x in ops if isinstance(x, ComputeOp) and x.reducer is not None]


def facts(P: sl.Tensor, R: sl.Tensor, threads: int = 1) -> StageFacts:
    return Dataflow(Problem((R,), AVX2, threads), sl.schedule(R).state).stage(P)


def half_of(P: sl.Tensor, R: sl.Tensor) -> str:
    return needed_half(facts(P, R))


def test_only_large_products_of_one_matrix_are_in_panels() -> None:
    def chosen(P: sl.Tensor, threads: int = 1) -> bool:
        return gram_product.is_large_gram_product(facts(P, P, threads))

    assert chosen(gram(256, 256)) and chosen(gram(256, 256, turned=True), 2)
    assert chosen(gram(512, 512, "float32"))
    assert not chosen(gram(255, 256)) and not chosen(gram(256, 255))
    assert not chosen(gram(256, 256), 4) and not chosen(gram(511, 512, "float32"))
    A, k = sl.placeholder((300, 300), "float64", name="A"), sl.reduce_axis(300, name="k")
    square = sl.compute((300, 300), lambda i, j: sl.sum(A[i, k] * A[k, j], axis=k), name="P")
    assert not chosen(square) and not chosen(product(300, 300, 300)[-1])


def test_a_view_that_is_inlined_is_an_operand() -> None:
    A, k = sl.placeholder((300, 300), "float64", name="A"), sl.reduce_axis(300, name="k")
    T = sl.compute((300, 300), lambda i, j: A[j, i], name="T")
    P = sl.compute((300, 300), lambda i, j: sl.sum(A[i, k] * T[k, j], axis=k), name="P")
    given = {"T.inline": True, "P.block_steps": 75}
    (candidate, *_) = drawn(P, 1, given=given)
    assert candidate.decisions["P.block_steps"] == 75
    assert [b.shape for b in candidate.nest.buffers if b.name == "A.global"] == [(25, 300, 12)]


def test_conditions_of_all_readers_prove_the_half() -> None:
    P = gram(8, 8)
    assert half_of(P, mirrored(P, LOWER)) == "lower"
    assert half_of(P, mirrored(P, UPPER)) == "upper"
    assert half_of(P, mirrored(P, lambda i, j: j <= i + 1)) == ""
    assert half_of(P, sl.compute(P.shape, lambda i, j: P[i, j] + 1)) == ""
    assert half_of(P, P) == ""
    # select evaluates both
    both = sl.compute(P.shape, lambda i, j: sl.select(j <= i, P[i, j], P[j, i]))
    assert half_of(P, both) == ""
    R = mirrored(P, LOWER)
    assert half_of(P, sl.compute(P.shape, lambda i, j: R[i, j] + P[i, j])) == ""


def test_tiles_of_the_other_half_are_left_out() -> None:
    P = gram(300, 256)
    (whole, *_), (half, *_) = drawn(P, 1), drawn(mirrored(P, LOWER), 1, given={"P.at": -1})
    assert "store predicate" not in str(whole.nest)
    assert "store predicate" in str(half.nest)


@pytest.mark.slow
def test_many_covariances_are_mirrored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(covariance, "LEAST_MIRRORED", 5)
    x = np.random.default_rng(0).normal(size=(6, 9))
    for shape in ((6, 9), (4, 9), (6, 4)):
        X = sl.placeholder(shape, "float64", name="X")
        C = sl.trace(np.cov, X)
        (P,) = (t for t in sums(C) if t.shape == (shape[0], shape[0]))
        assert half_of(P, C) == ("lower" if shape == (6, 9) else "")
        part = x[: shape[0], : shape[1]]
        np.testing.assert_allclose(sl.reference(C)(part), np.cov(part), rtol=1e-12)


@pytest.mark.slow
def test_the_gradient_of_mirrored_covariances(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(covariance, "LEAST_MIRRORED", 2)
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(4, 7)), rng.normal(size=(4, 4))
    X, W = (sl.placeholder(a.shape, "float64", name=n) for n, a in (("X", x), ("W", w)))
    loss = sl.trace(lambda x, w: np.sum(np.cov(x) * w), X, W)
    (by,) = sl.gradient(loss, [X])
    # of sum(w * y @ y.T) / 6, where the rows of y are without their means
    y = x - x.mean(axis=1, keepdims=True)
    slope = (w + w.T) @ y / 6
    expected = slope - slope.mean(axis=1, keepdims=True)
    given = {"X": x, "W": w}
    reference = sl.reference(by)
    result = reference(*(given[t.name] for t in reference.inputs))
    np.testing.assert_allclose(result, expected, rtol=1e-10, atol=1e-12)


CASES = [
    ("float64", 150, 130, False, LOWER, 1),
    ("float32", 203, 97, True, UPPER, 1),
    ("float64", 211, 64, True, LOWER, 2),
    ("float32", 330, 70, False, UPPER, 2),
    ("float64", 131, 80, False, None, 2),
    ("float64", 131, 80, True, UPPER, 1),
]


@pytest.mark.slow
@pytest.mark.parametrize("dtype, n, steps, turned, needed, threads", CASES)
def test_products_in_panels_with_rests(
    monkeypatch: pytest.MonkeyPatch, dtype: str, n: int, steps: int, turned: bool,
    needed: object, threads: int,
) -> None:  # fmt: skip
    """Rows, lanes and steps leave rests, in the half that a reader needs and in both."""
    monkeypatch.setattr(gram_product, "SHORTEST", 128)
    # of few tiles, so that there are several blocks
    monkeypatch.setattr(gram_product, "LEAST_TILES", 2)
    monkeypatch.setattr(gram_product, "block_tile_counts", lambda *_: [2])
    P = gram(n, steps, dtype, turned)
    R = P if needed is None else mirrored(P, needed)
    (candidate, *_) = drawn(R, 1, threads=threads, given={"P.at": -1})
    assert "P.block_steps" in candidate.decisions
    f, rng = sl.build(candidate.schedule), np.random.default_rng(0)
    assert not f.unproven
    a = rng.integers(-4, 5, (steps, n) if turned else (n, steps)).astype(dtype)
    assert np.array_equal(f(a), a.T @ a if turned else a @ a.T)


PARTS = {
    "rows": lambda P: sl.compute(
        (36, 56), lambda i, j: sl.if_then_else(j <= i + 20, P[i + 20, j], 0.0), name="R"
    ),
    "columns": lambda P: sl.compute(
        (56, 36), lambda i, j: sl.if_then_else(j + 20 >= i, P[i, j + 20], 0.0), name="R"
    ),
    "mirrored": lambda P: mirrored(P, LOWER)[:28, 28:],
}


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS)
def test_readers_of_a_part_leave_out_first_rows(monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    """The rows and lanes that are computed need not start at 0, as in ``np.cov(x, y)[:n, n:]``."""
    monkeypatch.setattr(gram_product, "SHORTEST", 128)
    monkeypatch.setattr(gram_product, "LEAST_TILES", 2)
    monkeypatch.setattr(gram_product, "block_tile_counts", lambda *_: [2])
    P = gram(56, 20)
    R = PARTS[part](P)
    (candidate, *_) = drawn(R, 1, given={"P.at": -1})
    assert "store predicate" in str(candidate.nest)
    a = np.random.default_rng(0).integers(-4, 5, (56, 20)).astype("float64")
    f = sl.build(candidate.schedule, target="python")
    assert np.array_equal(f(a), sl.reference(R)(a))
