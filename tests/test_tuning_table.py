"""Tests of the CPU tactics on a table of computations, for few and for many threads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from tests.cpu_candidates import AVX2, AVX512, LEAST, drawn, in_lanes, in_registers, reduced, shared
from tests.graphs import product

pytestmark = pytest.mark.slow

# inputs, then the output
Tensors = list[sl.Tensor]


@dataclass(frozen=True)
class Case:
    """A computation, NumPy's function for it, and the required features of its schedules.

    A ``large`` one needs parallel loops, and one with ``lanes`` needs vectors.
    """

    make: Callable[[], Tensors]
    wanted: Callable[..., Any]
    large: bool = True
    lanes: bool = True


def of(*shape: int, name: str = "A", dtype: str = "float32") -> sl.Tensor:
    return sl.placeholder(shape, dtype, name=name)


def dot(length: int) -> Tensors:
    A, over = of(length), reduced(sl.sum, length)
    return [A, sl.compute((), lambda: over(lambda k: A[k] * A[k]), name="Y")]


def sum_of_rows(rows: int, length: int) -> Tensors:
    A, over = of(rows, length), reduced(sl.sum, length)
    return [A, sl.compute((rows,), lambda i: over(lambda k: A[i, k]), name="Y")]


def of_columns(op: Callable[..., object], length: int, columns: int) -> Tensors:
    A, over = of(length, columns), reduced(op, length)
    return [A, sl.compute((columns,), lambda j: over(lambda k: A[k, j]), name="Y")]


def argmax_of_rows_and_columns() -> Tensors:
    A, over = of(57, 1003), reduced(sl.argmax, 57, 1003)
    return [A, sl.compute((), lambda: over(lambda r, k: A[r, k]), name="Y")]


def mean_of_channels() -> Tensors:
    A, over = of(2048, 7, 7), reduced(sl.sum, 7, 7)
    return [A, sl.compute((2048,), lambda c: over(lambda h, w: A[c, h, w]), name="Y")]


def largest_of_channels() -> Tensors:
    A, over = of(8, 70, 14, 14), reduced(sl.max, 8, 14, 14)
    return [A, sl.compute((70,), lambda c: over(lambda b, h, w: A[b, c, h, w]), name="Y")]


def over_their_means() -> Tensors:
    A, over = of(3, 80, 7, 9), reduced(sl.sum, 7, 9)
    M = sl.compute((3, 80), lambda b, c: over(lambda h, w: A[b, c, h, w] / 63), name="M")
    return [A, sl.compute(
        (3, 80, 7, 9), lambda b, c, h, w: A[b, c, h, w] / M[b, c], name="Y"
    )]  # fmt: skip


def _over_means(a: np.ndarray) -> np.ndarray:
    return a / a.mean((2, 3), keepdims=True)


def pool() -> Tensors:
    A, over = of(16, 16, 16), reduced(sl.max, 2, 2)
    return [A, sl.compute(
        (16, 8, 8), lambda c, i, j: over(lambda h, w: A[c, 2 * i + h, 2 * j + w]), name="Y"
    )]  # fmt: skip


def added(*shape: int) -> Tensors:
    A, B = of(*shape), of(*shape, name="B")
    return [A, B, sl.compute(shape, lambda *i: A[i] + B[i], name="Y")]


def turned() -> Tensors:
    A = of(500, 700)
    return [A, sl.compute((700, 500), lambda i, j: A[j, i], name="Y")]


def gathered() -> Tensors:
    T, N = of(5000, 128, name="T"), of(1000, name="N", dtype="int32")
    return [T, N, sl.compute((1000, 128), lambda i, j: T[N[i] + 1, j], name="Y")]


def product_beside_a_unit_axis() -> Tensors:
    A, B, over = of(200, 96), of(96, 160, 1, name="B"), reduced(sl.sum, 96)
    return [A, B, sl.compute(
        (200, 160, 1), lambda i, j, z: over(lambda k: A[i, k] * B[k, j, z]), name="Y"
    )]  # fmt: skip


def with_its_transpose() -> Tensors:
    A, over = of(200, 96), reduced(sl.sum, 96)
    return [A, sl.compute((200, 200), lambda i, j: over(lambda k: A[i, k] * A[j, k]), name="Y")]


def product_of_a_product() -> Tensors:
    A, B, M = product(96, 80, 64)
    C, over = of(80, 112, name="D"), reduced(sl.sum, 80)
    Y = sl.compute((96, 112), lambda i, j: over(lambda q: M[i, q] * C[q, j]), name="Y")
    return [A, B, C, Y]


def softmax() -> Tensors:
    A, over, add = of(100, 1001), reduced(sl.max, 1001), reduced(sl.sum, 1001)
    M = sl.compute((100,), lambda i: over(lambda k: A[i, k]), name="M")
    E = sl.compute((100, 1001), lambda i, j: sl.exp(A[i, j] - M[i]), name="E")
    S = sl.compute((100,), lambda i: add(lambda k: E[i, k]), name="S")
    return [A, sl.compute((100, 1001), lambda i, j: E[i, j] / S[i], name="Y")]


def _softmax(a: np.ndarray) -> np.ndarray:
    e = np.exp(a - a.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def _pooled(a: np.ndarray) -> np.ndarray:
    return a.reshape(16, 8, 2, 8, 2).max((2, 4))


TABLE = {
    "short dot": Case(lambda: dot(32), lambda a: a @ a, large=False),
    "long dot": Case(lambda: dot(100003), lambda a: a @ a),
    "row sums": Case(lambda: sum_of_rows(1000, 1001), lambda a: a.sum(1)),
    "sum of one row": Case(lambda: sum_of_rows(1, 100003), lambda a: a.sum(1)),
    "column maxima": Case(lambda: of_columns(sl.max, 10007, 48), lambda a: a.max(0)),
    "many columns": Case(lambda: of_columns(sl.argmax, 5003, 1000), lambda a: a.argmax(0)),
    "argmax": Case(argmax_of_rows_and_columns, lambda a: a.argmax()),
    "channel means": Case(mean_of_channels, lambda a: a.sum((1, 2))),
    "batch statistics": Case(largest_of_channels, lambda a: a.max((0, 2, 3))),
    "instance norm": Case(over_their_means, _over_means),
    "pool": Case(pool, _pooled, large=False),
    "short sum": Case(lambda: added(1000), np.add, large=False),
    "one column": Case(lambda: added(100003, 1), np.add),
    "three columns": Case(lambda: added(50, 1003, 3), np.add),
    "transpose": Case(turned, np.transpose, lanes=False),
    "gather": Case(gathered, lambda t, n: t[n + 1]),
    "unit axis": Case(product_beside_a_unit_axis, lambda a, b: (a @ b[..., 0])[..., None]),
    "gram": Case(with_its_transpose, lambda a: a @ a.T),
    "chain": Case(product_of_a_product, lambda a, b, c: a @ b @ c),
    "softmax": Case(softmax, _softmax),
}  # fmt: skip
ALL = pytest.mark.parametrize("case", TABLE.values(), ids=list(TABLE))


@ALL
@pytest.mark.parametrize("threads", [2, 16, 64])
def test_every_schedule_has_lanes_and_large_ones_have_threads(case: Case, threads: int) -> None:
    found = drawn(case.make()[-1], target=AVX512, threads=threads)
    assert not case.lanes or all(map(in_lanes, found))
    if case.large:
        # a tile may cover all results
        assert sum(shared(c) > 1 for c in found) >= LEAST * len(found)
        assert any(shared(c) >= threads for c in found)
    else:
        assert any(shared(c) == 1 for c in found)


@pytest.mark.parametrize("case", TABLE)
def test_the_tactics_agree_with_numpy(case: str) -> None:
    *inputs, Y = TABLE[case].make()
    rng = np.random.default_rng(0)
    given: list[Any] = [rng.random(t.shape, "float32") for t in inputs]
    for at, t in enumerate(inputs):
        if t.dtype == "int32":
            given[at] = rng.integers(0, 4999, t.shape, "int32")
    result = sl.build(drawn(Y, threads=4)[0].schedule, [*inputs, Y])(*given)
    np.testing.assert_allclose(result, TABLE[case].wanted(*given), rtol=1e-4)


@pytest.mark.parametrize(
    ("make", "how"),
    [(lambda: sum_of_rows(1000, 1001), "rows"), (lambda: sum_of_rows(1, 100003), "rows"),
     (lambda: of_columns(sl.max, 10007, 48), "parts"), (argmax_of_rows_and_columns, "rows")],
)  # fmt: skip
def test_sums_stay_in_registers_where_no_length_divides(
    make: Callable[[], Tensors], how: str
) -> None:
    *_, Y = make()
    for candidate in drawn(Y, target=AVX512, given={"Y.how": how}):
        # stages of partial results extend the name of their sum
        partial = max((f.stage for f in candidate.nest.loops), key=len)
        assert "Y.rf" in partial and partial in in_registers(candidate, AVX512)


def test_many_partial_results_are_combined_in_lanes_and_threads() -> None:
    *_, Y = of_columns(sl.max, 5003, 1000)
    found = drawn(Y, target=AVX512, threads=16, given={"Y.how": "parts"})
    assert all(shared(c, "Y") > 1 and in_lanes(c, "Y") for c in found)


def test_short_reductions_are_not_split_into_parts() -> None:
    *_, Y = mean_of_channels()
    assert all(c.decisions["Y.how"] == "rows" for c in drawn(Y, threads=64))
    *_, Y = of_columns(sl.argmax, 5003, 1000)
    assert {c.decisions["Y.how"] for c in drawn(Y, threads=64)} == {"parts", "points"}


@pytest.mark.parametrize("target", [AVX2, AVX512], ids=["avx2", "avx512"])
def test_contiguous_short_rows_are_fused(target: sl.Target) -> None:
    for make in (mean_of_channels, largest_of_channels):
        *_, Y = make()
        for candidate in drawn(Y, target=target, given={"Y.how": "rows"}):
            partial = max((f.stage for f in candidate.nest.loops), key=len)
            assert partial in in_registers(candidate, target)
    # a part of each row is not contiguous, and short parts are not worth lanes
    A, over = of(2048, 8, 8), reduced(sl.sum, 7, 7)
    part = sl.compute((2048,), lambda c: over(lambda h, w: A[c, h, w]), name="Y")
    few = reduced(sl.sum, 3, 8)
    short = sl.compute((2048,), lambda c: few(lambda h, w: A[c, h, w]), name="Y")
    for Y in (part, short):
        assert all(c.decisions["Y.how"] == "points" for c in drawn(Y, target=AVX512))


def test_contiguous_symbolic_rows_are_fused() -> None:
    h, w = sl.var("h"), sl.var("w")
    A, over = of(50, h, w), reduced(sl.sum, h, w)
    Y = sl.compute((50,), lambda c: over(lambda i, j: A[c, i, j]), name="Y")
    found = drawn(Y, sizes={h: 7, w: 7})
    assert all(c.decisions["Y.how"] == "rows" for c in found)
    for shape in ((50, 7, 7), (50, 1, 3), (50, 20, 31)):
        a = np.random.default_rng(0).random(shape, "float32")
        made = sl.build(found[0].schedule, [A, Y])(a)
        np.testing.assert_allclose(made, a.sum((1, 2)), rtol=1e-4)


def test_vectors_go_along_the_last_long_axis() -> None:
    *_, Y = product_beside_a_unit_axis()
    assert all(c.decisions["Y.how"] == "tile" for c in drawn(Y))
    for shape in ((100003, 1), (1001, 3), (50, 1003, 3)):
        *_, Y = added(*shape)
        assert all(c.decisions["Y.lanes"] >= 8 for c in drawn(Y))


def test_short_axes_are_fused_where_reads_are_contiguous() -> None:
    A, B, C = of(1001, 3), of(3, name="B"), of(3, 1001, name="C")
    for make in (lambda i, j: A[i, j] + B[j], lambda i, j: A[i, j] * i, lambda i, j: C[j, i] + 1):
        Y = sl.compute((1001, 3), make, name="Y")
        assert all(c.decisions.get("Y.lanes", 3) == 3 for c in drawn(Y))


def test_a_product_with_its_own_transpose_has_a_tile() -> None:
    *_, Y = with_its_transpose()
    assert any(c.decisions["Y.how"] == "tile" for c in drawn(Y))
    # neither read gets a packed copy, as a step moves both
    A, over = of(200, 200), reduced(sl.sum, 200)
    Y = sl.compute((200, 200), lambda i, j: over(lambda k: A[i, k] * A[k, j]), name="Y")
    assert all("Y.pack.A" not in c.decisions for c in drawn(Y))


def filters(count: int) -> sl.Tensor:
    """Return a pipeline of filters that each read three points of the previous one."""
    Y, size = of(514, 514), 514
    for at in range(count):
        size -= 2
        Y = sl.compute(
            (size, size), lambda i, j, Y=Y: (Y[i, j] + Y[i + 1, j] + Y[i + 2, j + 1]) * 0.5,
            name=f"S{at}",
        )  # fmt: skip
    return Y


@pytest.mark.parametrize("count", [2, 4, 12, 20])
def test_a_pipeline_is_inlined_while_that_recomputes_little(count: int) -> None:
    found = drawn(filters(count), 12)
    # a chain of attached filters may recompute too much
    assert len(found) >= 11
    knobs = Counter(name for c in found for name in c.decisions if name.endswith(".inline"))
    assert bool(knobs) == (count >= 4)


def test_filters_are_attached_where_that_recomputes_little() -> None:
    found = drawn(filters(2), 30)
    assert len(found) == 30
    assert any(c.decisions["S0.at"] >= 0 for c in found)


def test_a_cheap_stage_may_be_inlined() -> None:
    *_, Y = softmax()
    # exp and a difference are two of five operations
    assert {c.decisions["E.inline"] for c in drawn(Y, 12)} == {False, True}


def test_a_sum_of_everything_on_one_core_is_one_row() -> None:
    *_, Y = dot(1000)
    assert all("Y.parts" not in c.decisions for c in drawn(Y, target=AVX2, threads=1))
