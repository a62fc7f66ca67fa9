"""Tests of extents that are quotients, extremes, sums and products of sizes, on all targets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import schedlang as sl
from schedlang.errors import CallError, LoweringError
from schedlang.expr.evaluate import evaluate
from schedlang.expr.nodes import Var
from schedlang.index.solving import equations
from schedlang.index.sums import solve

n, m, w = sl.var("n"), sl.var("m"), sl.var("w")


def pooled() -> tuple[Any, Any]:
    """Return a strided pooling: window 3, step 2, no padding."""
    A = sl.placeholder((n, m), name="A")
    p, q = sl.reduce_axis(3, "p"), sl.reduce_axis(3, "q")
    shape = ((n - 3) // 2 + 1, (m - 3) // 2 + 1)
    return A, sl.compute(shape, lambda i, j: sl.max(A[2 * i + p, 2 * j + q], axis=[p, q]), name="P")


def numpy_pooled(a: np.ndarray) -> np.ndarray:
    rows, columns = (a.shape[0] - 3) // 2 + 1, (a.shape[1] - 3) // 2 + 1
    parts = [a[p : p + 2 * rows : 2, q : q + 2 * columns : 2] for p in range(3) for q in range(3)]
    return np.max([x[:rows, :columns] for x in parts], axis=0)


def plain(s: Any, P: Any) -> None:
    pass


def tiled(s: Any, P: Any) -> None:
    i, j = P.op.axis
    yo, xo, yi, xi = s[P].tile(i, j, 2, 4)
    s[P].reorder(yo, xo, *P.op.reduce_axis, yi, xi)
    s[P].vectorize(xi)
    s[P].parallel(yo)


def fused(s: Any, P: Any) -> None:
    outer, _ = s[P].split(s[P].fuse(*P.op.axis), nparts=3)
    s[P].parallel(outer)


def threads(s: Any, P: Any) -> None:
    block, thread = s[P].split(s[P].fuse(*P.op.axis), factor=8)
    s[P].bind(block, "blockIdx.x")
    s[P].bind(thread, "threadIdx.x")


SIZES = [(3, 3), (1, 2), (4, 9), (11, 8)]


@pytest.mark.parametrize(
    ("schedule", "target"),
    [
        (plain, "python"), (tiled, "python"), (fused, "python"), (tiled, "cpu"),
        (threads, "cuda-emulator"),
    ],
)  # fmt: skip
def test_a_strided_pooling_of_dynamic_size(schedule: Any, target: str) -> None:
    _, P = pooled()
    s = sl.schedule(P)
    schedule(s, P)
    f = sl.build(s, target=target)
    for shape in SIZES:
        a = np.random.default_rng(0).normal(size=shape).astype("float32")
        np.testing.assert_array_equal(f(a), numpy_pooled(a))
    with pytest.raises(CallError, match=r"would have shape \(-1, -1\) where n=0, m=0"):
        f(np.zeros((0, 0), "float32"))


@pytest.mark.parametrize("tail", ["guard", "cut"])
def test_a_stage_that_a_strided_one_reads_is_attached(tail: str) -> None:
    A = sl.placeholder((n,), name="A")
    B = sl.compute((n,), lambda i: A[i] * 2, name="B")
    C = sl.compute((n // 2,), lambda i: B[2 * i] + B[2 * i + 1], name="C")
    s = sl.schedule(C)
    outer, inner = s[C].split(C.op.axis[0], factor=4, tail=tail)
    if tail == "guard":
        s[C].vectorize(inner)
    s[B].compute_at(s[C], outer)
    f = sl.build(s, target="python")
    for size in (0, 1, 2, 9, 24):
        a = np.arange(size, dtype="float32")
        even = a[: size // 2 * 2] * 2
        np.testing.assert_array_equal(f(a), even[::2] + even[1::2])


def test_an_extent_that_is_the_maximum_of_two_sizes() -> None:
    A, C = sl.placeholder((n,), name="A"), sl.placeholder((m,), name="C")
    B = sl.compute(
        (sl.max(n, m),),
        lambda i: sl.if_then_else(i < n, A[i], 0.0) + sl.if_then_else(i < m, C[i], 0.0), name="B",
    )  # fmt: skip
    s = sl.schedule(B)
    _, inner = s[B].split(B.op.axis[0], factor=4)
    s[B].vectorize(inner)
    f = sl.build(s, target="python")
    for x, y in ((3, 5), (6, 0), (0, 0)):
        wanted = np.zeros(max(x, y), "float32")
        wanted[:x] += 1
        wanted[:y] += 1
        np.testing.assert_array_equal(f(np.ones(x, "float32"), np.ones(y, "float32")), wanted)


def correlated() -> Any:
    A, W = sl.placeholder((n + w - 1,), name="A"), sl.placeholder((w,), name="W")
    k = sl.reduce_axis(w, "k")
    return sl.compute((n,), lambda i: sl.sum(A[i + k] * W[k], axis=k), name="B")


def alone(f: Any) -> Any:
    """Return the public function of a kernel's file, executed without the package's wrapper."""
    module: dict[str, Any] = {}
    exec(f.source, module)
    return module[f.name]


def test_sizes_follow_from_several_shapes_together() -> None:
    f = sl.build(sl.schedule(correlated()), target="python")
    a, b = np.arange(8, dtype="float32"), np.array([1, 2, 4], "float32")
    for call in (f, alone(f)):
        np.testing.assert_array_equal(call(a, b), np.correlate(a, b, "valid"))
    with pytest.raises(CallError, match=r"n is -1 in dimension 0 of A, but sizes must be 0 or "
                                        r"more"):
        f(a[:1], b)
    with pytest.raises(CallError, match=r"got shape \(8,\), needs \(7,\) where w=3, n=5"):
        f(a, b, np.zeros(5, "float32"))
    with pytest.raises(ValueError, match="n is -1, but sizes must be 0 or more"):
        alone(f)(a[:1], b)


def test_a_size_follows_from_its_square() -> None:
    A = sl.placeholder((n * n,), name="A")
    f = sl.build(
        sl.schedule(sl.compute((n, n), lambda i, j: A[i * n + j] * 2, name="B")), target="python"
    )
    a = np.arange(9, dtype="float32")
    for call in (f, alone(f)):
        np.testing.assert_array_equal(call(a), a.reshape(3, 3) * 2)
        assert call(a[:0]).shape == (0, 0)
    with pytest.raises(CallError, match=r"no input determines n: dimension 0 of A is 8, but n\*n"):
        f(a[:8])
    with pytest.raises(TypeError, match=r"A must be a float32 array of shape \(9,\)"):
        alone(f)(a[:8])


def test_a_quotient_determines_no_size() -> None:
    A = sl.placeholder((n // 2,), name="A")
    B = sl.compute((n // 2,), lambda i: A[i] + n, name="B")
    with pytest.raises(LoweringError, match="no argument determines the size n; give n"):
        sl.build(sl.schedule(B), [A, B], target="python")
    f = sl.build(sl.schedule(B), [A, n, B], target="python")
    np.testing.assert_array_equal(f(np.ones(3, "float32"), 7), np.full(3, 8, "float32"))
    with pytest.raises(CallError, match=r"got shape \(3,\), needs \(4,\) where n=8"):
        f(np.ones(3, "float32"), 8)


EXTENTS = (
    lambda a, b: a, lambda a, b: 3 * a + 2, lambda a, b: a + b - 1, lambda a, b: a * a,
    lambda a, b: a * a * 2 + a, lambda a, b: a - b + 4, lambda a, b: a * b, lambda a, b: a // 2,
    lambda a, b: a + b // 3, lambda a, b: sl.max(a, b),
)  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(EXTENTS), st.booleans()), min_size=1, max_size=3),
       st.integers(0, 6), st.integers(0, 6))  # fmt: skip
def test_sizes_solved_from_shapes_are_right(chosen: Any, x: int, y: int) -> None:
    a, b = Var("a"), Var("b")
    extents = [f(b, a) if swapped else f(a, b) for f, swapped in chosen]
    lengths = [int(evaluate(e, {a: x, b: y})) for e in extents]
    found: dict[Var, int] = {}
    for equation in equations([[(0, extents)]]):
        def at(value: int, equation: Any = equation) -> int:
            return int(evaluate(extents[equation.dim], {**found, equation.size: value}))

        size = solve(at, lengths[equation.dim])
        assert size is not None
        found[equation.size] = size
    for size, right in ((a, x), (b, y)):
        assert found.get(size, right) == right
