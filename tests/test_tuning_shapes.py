"""Tests of the CPU tactics on computations of odd and symbolic sizes, few results, and scans."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import numpy as np
import pytest

import schedlang as sl
from schedlang.autotune.search import valid
from schedlang.autotune.space import Space
from schedlang.autotune.tactics.access import accesses
from schedlang.autotune.tactics.facts import Problem
from tests.cpu_candidates import (
    AVX2,
    AVX512,
    LEAST,
    drawn,
    in_registers,
    inner_guards,
    reduced,
    shared,
)

pytestmark = pytest.mark.slow

n, m = sl.var("n"), sl.var("m")
Wanted = Callable[[np.ndarray], np.ndarray]


def vector(size: object, dtype: str) -> sl.Tensor:
    A = sl.placeholder((size,), dtype, name="A")
    return sl.compute((size,), lambda i: sl.max(A[i], A[size - 1 - i]), name="Y")


def matrix(size: object, dtype: str) -> sl.Tensor:
    A = sl.placeholder((size, 3), dtype, name="A")
    return sl.compute((3, size), lambda i, j: A[j, i], name="Y")


def largest(size: object, dtype: str) -> sl.Tensor:
    A = sl.placeholder((size,), dtype, name="A")
    over = reduced(sl.argmax, size)
    return sl.compute((), lambda: over(lambda k: A[k]), name="Y")


def columns(size: object, dtype: str) -> sl.Tensor:
    A = sl.placeholder((size, 5), dtype, name="A")
    over = reduced(sl.max, size)
    return sl.compute((5,), lambda j: over(lambda k: A[k, j]), name="Y")


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "int64", "bool"])
@pytest.mark.parametrize("size", [1000001, 8192, n], ids=str)
@pytest.mark.parametrize("make", [vector, matrix, largest, columns])
def test_a_large_computation_has_threads(
    make: Callable[..., sl.Tensor], size: object, dtype: str
) -> None:
    found = drawn(make(size, dtype), sizes={n: 100003})
    assert any(shared(c) > 1 for c in found)


@pytest.mark.parametrize("target", [AVX2, AVX512], ids=["avx2", "avx512"])
@pytest.mark.parametrize(
    ("rows", "columns"), [(1009, 1009), (m, n), (m, 64), (1, 1000), (97, n)], ids=str
)
def test_a_product_of_any_shape_has_threads(
    rows: object, columns: object, target: sl.Target
) -> None:
    A, B = sl.placeholder((rows, 512), name="A"), sl.placeholder((512, columns), name="B")
    over = reduced(sl.sum, 512)
    C = sl.compute((rows, columns), lambda i, j: over(lambda k: A[i, k] * B[k, j]), name="C")
    found = drawn(C, target=target, sizes={m: 1234, n: 100003})
    assert any(shared(c) > 1 for c in found)


@pytest.mark.parametrize("size", [512, 96])
@pytest.mark.parametrize("target", [AVX2, AVX512], ids=["avx2", "avx512"])
def test_a_triangular_product_has_sums_in_registers(target: sl.Target, size: int) -> None:
    L, B = sl.placeholder((size, size), name="L"), sl.placeholder((size, size), name="B")
    k = sl.reduce_axis(size, name="k")
    Y = sl.compute(
        (size, size), lambda i, j: sl.sum(L[i, k] * B[k, j], axis=k, where=k <= i), name="Y"
    )
    found = drawn(Y, target=target, given={"Y.how": "tile"})
    assert all("Y.local" in in_registers(c, target) for c in found)


def test_a_row_times_a_matrix_has_threads() -> None:
    X, W = sl.placeholder((4096,), name="X"), sl.placeholder((4096, 1000), name="W")
    over = reduced(sl.sum, 4096)
    Y = sl.compute((1000,), lambda j: over(lambda k: X[k] * W[k, j]), name="Y")
    assert all(shared(c) > 1 for c in drawn(Y, target=AVX512))


@pytest.mark.parametrize("target", [AVX2, AVX512], ids=["avx2", "avx512"])
@pytest.mark.parametrize("size", [2, 3, 9, 17])
def test_a_symbolic_length_below_a_vector(size: int, target: sl.Target) -> None:
    A, B, over = sl.placeholder((240, 256)), sl.placeholder((256, n)), reduced(sl.sum, 256)
    C = sl.compute((240, n), lambda i, j: over(lambda k: A[i, k] * B[k, j]), name="C")
    assert len(drawn(C, target=target, sizes={n: size})) == 8
    X, D = sl.placeholder((m, m, n), name="X"), sl.placeholder((50000, n), name="D")
    Y = sl.compute((m, m, n), lambda i, j, c: X[i, j, c] * 2, name="Y")
    drawn(Y, target=target, sizes={n: size, m: 480})
    down = reduced(sl.max, 50000)
    drawn(sl.compute((n,), lambda j: down(lambda k: D[k, j])), target=target, sizes={n: size})
    E, F = sl.placeholder((m, 256)), sl.placeholder((256, n))
    P = sl.compute((m, n), lambda i, j: over(lambda k: E[i, k] * F[k, j]), name="P")
    drawn(P, target=target, sizes={n: size, m: size})


@pytest.mark.parametrize("size", [1, 3, 11])
def test_a_schedule_tuned_for_a_short_length_is_right_for_every_length(size: int) -> None:
    A, B, over = sl.placeholder((24, 32), name="A"), sl.placeholder((32, n)), reduced(sl.sum, 32)
    C = sl.compute((24, n), lambda i, j: over(lambda k: A[i, k] * B[k, j]), name="C")
    *_, candidate = drawn(C, 4, sizes={n: 9})
    rng = np.random.default_rng(0)
    a, b = rng.random((24, 32), "float32"), rng.random((32, size), "float32")
    made = sl.build(candidate.schedule, [A, B, C])(a, b)
    np.testing.assert_allclose(made, a @ b, rtol=1e-4)


def test_masked_lanes_are_offered_where_they_cost_little() -> None:
    X = sl.placeholder((m, m, n), name="X")
    Y = sl.compute((m, m, n), lambda i, j, c: X[i, j, c] * 2, name="Y")
    lanes = {
        size: {c.decisions.get("Y.lanes") for c in drawn(Y, sizes={n: size, m: 480})}
        for size in (3, 7, 33)
    }
    assert lanes == {3: {None}, 7: {8}, 33: {8, 16, 32}}


def test_a_loop_of_three_is_not_parallel() -> None:
    A = sl.placeholder((3, 1000001), name="A")
    Y = sl.compute((3, 1000001), lambda i, j: A[i, j] + 1, name="Y")
    found = [shared(c) for c in drawn(Y, threads=16)]
    assert sum(count >= 16 for count in found) >= LEAST * len(found)


def test_channels_that_fill_no_vector() -> None:
    A, W = sl.placeholder((1003, 1005, 3), name="A"), sl.placeholder((3, 3, 3), name="W")
    over = reduced(sl.sum, 3, 3)
    Y = sl.compute(
        (1001, 1003, 3), lambda i, j, c: over(lambda y, x: A[i + y, j + x, c] * W[y, x, c])
    )
    assert drawn(Y)


def test_a_product_of_odd_size_has_enough_sums() -> None:
    A, B = sl.placeholder((1009, 1009), name="A"), sl.placeholder((1009, 1009), name="B")
    over = reduced(sl.sum, 1009)
    C = sl.compute((1009, 1009), lambda i, j: over(lambda k: A[i, k] * B[k, j]), name="C")
    for candidate in drawn(C, 20):
        vectors, *rows = candidate.decisions["C.tile"]
        assert vectors * np.prod([count for _, count in rows]) >= 8
        assert not inner_guards(candidate)


def test_inputs_of_one_name() -> None:
    A, B, W = (sl.placeholder(shape) for shape in ((512, 512), (512, 512), (512,)))
    over = reduced(sl.sum, 512)
    C = sl.compute((512, 512), lambda i, j: over(lambda k: A[i, k] * B[k, j] * W[j]), name="C")
    knobs = {name for c in drawn(C, 20) for name in c.decisions}
    assert {"C.pack.1", "C.pack.2"} <= knobs


def test_a_long_chain_of_inlined_stages() -> None:
    X = sl.placeholder((10000,), name="X")
    Y = sl.compute((10000,), lambda i: X[i] / 2, name="Y")
    for at in range(22):
        Y = sl.compute((10000,), lambda i, Y=Y: Y[i] * (2 - X[i] * Y[i]), name=f"Y{at}")
    assert drawn(Y, 1)
    assert len(accesses(Y.op, {v.outputs[0] for v in sl.schedule(Y).stages})) == 1


def argmax_of_all() -> tuple[sl.Tensor, sl.Tensor, Wanted]:
    A, over = sl.placeholder((301, 403), name="A"), reduced(sl.argmax, 301, 403)
    return A, sl.compute((), lambda: over(lambda i, j: A[i, j])), lambda a: a.argmax()


def argmax_of_rows() -> tuple[sl.Tensor, sl.Tensor, Wanted]:
    A, over = sl.placeholder((40, 1001), name="A"), reduced(sl.argmax, 1001)
    return A, sl.compute((40,), lambda i: over(lambda k: A[i, k])), lambda a: a.argmax(1)


def argmin_of_channels() -> tuple[sl.Tensor, sl.Tensor, Wanted]:
    A, over = sl.placeholder((50, 60, 24), name="A"), reduced(sl.argmin, 50, 60)
    Y = sl.compute((24,), lambda c: over(lambda h, w: A[h, w, c]))
    return A, Y, lambda a: a.reshape(-1, 24).argmin(0)


def sum_of_channels() -> tuple[sl.Tensor, sl.Tensor, Wanted]:
    A, over = sl.placeholder((50, 61, 64), name="A"), reduced(sl.sum, 50, 61)
    return A, sl.compute((64,), lambda c: over(lambda h, w: A[h, w, c])), lambda a: a.sum((0, 1))


def sum_of_narrow_rows() -> tuple[sl.Tensor, sl.Tensor, Wanted]:
    A, over = sl.placeholder((10007, 16), name="A"), reduced(sl.sum, 10007, 16)
    return A, sl.compute((), lambda: over(lambda i, j: A[i, j])), lambda a: a.sum()


def sum_of_a_part() -> tuple[sl.Tensor, sl.Tensor, Wanted]:
    A, over = sl.placeholder((9, 1000, 10), name="A"), reduced(sl.sum, 900, 9)
    Y = sl.compute((9,), lambda i: over(lambda j, k: A[i, j + 3, k]))
    return A, Y, lambda a: a[:, 3:903, :9].sum((1, 2))


@pytest.mark.parametrize(
    "make",
    [argmax_of_all, argmax_of_rows, argmin_of_channels, sum_of_channels, sum_of_narrow_rows,
         sum_of_a_part], ids=lambda make: make.__name__,
)  # fmt: skip
def test_threads_share_a_long_reduction_of_few_results(
    make: Callable[[], tuple[sl.Tensor, sl.Tensor, Wanted]],
) -> None:
    A, Y, wanted = make()
    found = [c for c in drawn(Y, 20, AVX512, 4) if f"{Y.name}.parts" in c.decisions]
    assert found and all(shared(c) > 1 for c in found)
    a = np.random.default_rng(0).random(A.shape, "float32")
    result = sl.build(found[0].schedule, [A, Y])(a)
    np.testing.assert_allclose(result, wanted(a), rtol=1e-4)


def test_both_outputs_of_a_reduction_are_read() -> None:
    A = sl.placeholder((200, 100), name="A")
    both = sl.comm_reducer(
        lambda x, y: (x[0] + y[0], sl.max(x[1], y[1])),
        lambda t0, t1: (sl.const(0, t0), sl.const(-np.inf, t1)), name="both",
    )  # fmt: skip
    k = sl.reduce_axis(100, name="k")
    S, M = sl.compute((200,), lambda i: both((A[i, k], A[i, k]), axis=k), name="R")
    Y = sl.compute((200, 100), lambda i, j: A[i, j] * M[i], name="Y")
    Z = sl.compute((200, 100), lambda i, j: Y[i, j] + S[i], name="Z")
    a = np.random.default_rng(0).random((200, 100), "float32")
    for candidate in drawn(Z)[:3]:
        result = sl.build(candidate.schedule, [A, Z])(a)
        np.testing.assert_allclose(
            result, a * a.max(1, keepdims=True) + a.sum(1, keepdims=True), rtol=1e-4
        )


def cell(batch: int, width: int) -> tuple[list[sl.Tensor], sl.Tensor]:
    """Return a recurrent cell: ``tanh(x[t] + h[t - 1] @ w)``."""
    shape = (4, batch, width)
    X, H = sl.placeholder(shape, name="X"), sl.placeholder(shape, name="H")
    W = sl.placeholder((width, width), name="W")
    over = reduced(sl.sum, width)
    first = sl.compute((1, batch, width), lambda t, b, i: X[t, b, i], name="first")
    inner = sl.compute(
        shape, lambda t, b, i: over(lambda k: H[t - 1, b, k] * W[k, i]), name="inner"
    )
    step = sl.compute(shape, lambda t, b, i: sl.tanh(X[t, b, i] + inner[t, b, i]), name="step")
    return [X, W], sl.scan(first, step, H, inputs=[X], name="cell")


def test_the_step_of_a_scan_has_lanes_and_threads() -> None:
    inputs, H = cell(8, 40)
    found = drawn(H, 12)
    assert all("step.lanes" in c.decisions for c in found)
    assert any(c.decisions.get("step.parallel") for c in found)
    rng = np.random.default_rng(0)
    x, w = rng.random((4, 8, 40), "float32"), rng.random((40, 40), "float32") / 40
    wanted = [x[0]]
    for moment in x[1:]:
        wanted.append(np.tanh(moment + wanted[-1] @ w))
    for candidate in found[:3]:
        assert "vectorize" in str(candidate.nest)
        result = sl.build(candidate.schedule, [*inputs, H])(x, w)
        np.testing.assert_allclose(result, np.stack(wanted), rtol=1e-4)


def test_a_scan_whose_step_is_a_sum_has_tiles() -> None:
    X, H = sl.placeholder((4, 32, 64), name="X"), sl.placeholder((4, 32, 64), name="H")
    W = sl.placeholder((64, 64), name="W")
    over = reduced(sl.sum, 64)
    first = sl.compute((1, 32, 64), lambda t, b, i: X[0, b, i], name="first")
    step = sl.compute(
        (4, 32, 64), lambda t, b, i: over(lambda k: H[t - 1, b, k] * W[k, i]), name="step"
    )
    P = sl.scan(first, step, H, inputs=[X], name="P")
    found = [c for c in drawn(P, 20) if c.decisions["step.how"] == "tile"]
    assert found and all("step.local" in str(c.nest) for c in found)
    rng = np.random.default_rng(0)
    x, w = rng.random((4, 32, 64), "float32"), rng.random((64, 64), "float32") / 64
    result = sl.build(found[0].schedule, [X, W, P])(x, w)
    wanted = [x[0] @ np.linalg.matrix_power(w, moment) for moment in range(4)]
    np.testing.assert_allclose(result, np.stack(wanted), rtol=1e-3)


def rolled(batch: int, width: int, moments: int, kind: str) -> tuple[list[sl.Tensor], sl.Tensor]:
    """Return a scan whose step reads a stage that is computed from the state in each step."""
    shape = (moments, batch, width)
    X, H = sl.placeholder(shape, name="X"), sl.placeholder(shape, name="H")
    W = sl.placeholder((width, width), name="W")
    over = reduced(sl.sum, width)
    first = sl.compute((1, batch, width), lambda t, b, i: X[0, b, i], name="first")
    body = {
        "product": lambda t, b, i: over(lambda k: H[t - 1, b, k] * W[k, i]),
        "transposed": lambda t, b, i: over(lambda k: H[t - 1, b, k] * W[i, k]),
    }[kind]
    inner = sl.compute(shape, body, name="inner")
    step = sl.compute(shape, lambda t, b, i: X[t, b, i] + inner[t, b, i], name="step")
    return [X, W], sl.scan(first, step, H, inputs=[X], name="R")


@pytest.mark.parametrize("kind", ["product", "transposed"])
@pytest.mark.parametrize("batch", [1, 8])
def test_a_stage_in_a_scan_has_no_tile_of_its_time_axis(batch: int, kind: str) -> None:
    """Its time axis is neither tiled nor parallel, and threads are optional for little work."""
    _, R = rolled(batch, 512, 64, kind)
    found = drawn(R, 12, AVX512)
    for candidate in found:
        for _, *rows in [candidate.decisions.get("inner.tile", [0])]:
            assert 0 not in {at for at, _ in rows}
        assert not any(f.axis.name.startswith("t") for f in candidate.nest.loops)
    alone = drawn(R, 12, AVX512, given={"inner.at": -1})
    assert {bool(c.decisions.get("inner.parallel")) for c in alone} == {False, True}


@pytest.mark.parametrize("kind", ["product", "transposed"])
@pytest.mark.parametrize("batch", [1, 3])
def test_a_stage_in_a_scan_is_right(batch: int, kind: str) -> None:
    inputs, R = rolled(batch, 32, 4, kind)
    rng = np.random.default_rng(0)
    x, w = rng.random((4, batch, 32), "float32"), rng.random((32, 32), "float32") / 32
    wanted = [x[0]]
    for moment in x[1:]:
        wanted.append(moment + wanted[-1] @ (w if kind == "product" else w.T))
    for candidate in drawn(R, 6):
        result = sl.build(candidate.schedule, [*inputs, R], target="python")(x, w)
        np.testing.assert_allclose(result, np.stack(wanted), rtol=1e-4)


def test_a_sum_before_a_scan_is_computed_for_all_steps() -> None:
    """The sum is computed for all steps at once, so it is not fused with its reader."""
    X, W = sl.placeholder((6, 40), name="X"), sl.placeholder((40, 16), name="W")
    S = sl.placeholder((6, 16), name="S")
    over = reduced(sl.sum, 40)
    P = sl.compute((6, 16), lambda t, i: over(lambda k: X[t, k] * W[k, i]), name="P")
    mixed = sl.compute((6, 16), lambda t, i: sl.exp(P[t, i] - S[t - 1, i]), name="mixed")
    first = sl.compute((1, 16), lambda t, i: X[0, i], name="first")
    near = sl.compute((6, 16), lambda t, i: mixed[t, i] + mixed[t, 15 - i], name="near")
    step = sl.compute((6, 16), lambda t, i: near[t, i] + near[t, (i + 1) % 16], name="step")
    R = sl.scan(first, step, S, inputs=[X], name="R")
    rng = np.random.default_rng(0)
    x, w = rng.random((6, 40), "float32") / 9, rng.random((40, 16), "float32")
    wanted = sl.reference(R)(x, w)
    for candidate in drawn(R, 6):
        assert "P.fuse" not in candidate.decisions
        result = sl.build(candidate.schedule, [X, W, R], target="python")(x, w)
        np.testing.assert_allclose(result, wanted, rtol=1e-4)


def test_a_sum_in_each_step_of_a_scan() -> None:
    X, W = sl.placeholder((8, 100), name="X"), sl.placeholder((100,), name="W")
    S = sl.placeholder((8,), name="S")
    over = reduced(sl.sum, 100)
    inner = sl.compute((8,), lambda t: over(lambda k: S[t - 1] * W[k] * X[t, k]), name="inner")
    first = sl.compute((1,), lambda t: X[0, 0], name="first")
    step = sl.compute((8,), lambda t: inner[t] / 8 + 1, name="step")
    R = sl.scan(first, step, S, inputs=[X], name="R")
    rng = np.random.default_rng(0)
    x, w = rng.random((8, 100), "float32"), rng.random(100, "float32") / 10
    wanted = sl.reference(R)(x, w)
    for candidate in drawn(R, 6):
        assert candidate.decisions.get("inner.rows", 1) == 1
        result = sl.build(candidate.schedule, [X, W, R], target="python")(x, w)
        np.testing.assert_allclose(result, wanted, rtol=1e-4)


def column_sums(rows: int, columns: int, weighted: bool) -> tuple[list[sl.Tensor], sl.Tensor]:
    """Return sums of a matrix' columns, plain or weighted by a vector."""
    A, X = sl.placeholder((rows, columns), name="A"), sl.placeholder((rows,), name="X")
    over = reduced(sl.sum, rows)
    body = (lambda j: over(lambda k: A[k, j] * X[k])) if weighted else None
    Y = sl.compute((columns,), body or (lambda j: over(lambda k: A[k, j])), name="Y")
    return [A, X] if weighted else [A], Y


@pytest.mark.parametrize("weighted", [True, False])
def test_a_large_matrix_may_be_added_up_row_by_row(weighted: bool) -> None:
    large, small = (column_sums(n, n, weighted)[1] for n in (4096, 512))
    ways = [{c.decisions["Y.how"] for c in drawn(Y, 16, AVX512)} for Y in (large, small)]
    assert "steps" in ways[0] and "steps" not in ways[1]
    found = drawn(large, 16, AVX512, given={"Y.how": "steps"})
    assert any(shared(c) > 1 and c.decisions["Y.steps"] < 4096 for c in found)


@pytest.mark.parametrize("batch", [1, 4])
def test_a_product_in_a_scan_accumulates_in_its_output(
    batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("schedlang.autotune.tactics.cpu.blocked_reduction.LARGE", 0)
    inputs, R = rolled(batch, 64, 4, "product")
    rng = np.random.default_rng(0)
    x, w = rng.random((4, batch, 64), "float32"), rng.random((64, 64), "float32") / 64
    wanted = sl.reference(R)(x, w)
    for candidate in drawn(R, 6, given={"inner.how": "steps"}):
        assert not any(f.axis.name.startswith("t") for f in candidate.nest.loops)
        result = sl.build(candidate.schedule, [*inputs, R], target="python")(x, w)
        np.testing.assert_allclose(result, wanted, rtol=1e-4)


@pytest.mark.parametrize("columns", [512, 96])
def test_columns_added_up_row_by_row_are_right(
    columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("schedlang.autotune.tactics.cpu.blocked_reduction.LARGE", 0)
    inputs, Y = column_sums(72, columns, True)
    rng = np.random.default_rng(0)
    a, x = rng.random((72, columns), "float32"), rng.random(72, "float32")
    for candidate in drawn(Y, 6, given={"Y.how": "steps"}):
        result = sl.build(candidate.schedule, [*inputs, Y], target="python")(a, x)
        np.testing.assert_allclose(result, x @ a, rtol=1e-5)


def test_a_large_image_whose_windows_are_short_is_read_as_it_is() -> None:
    A = sl.placeholder((2048, 2050), name="A")
    over = reduced(sl.max, 3)
    Y = sl.compute((2048, 2048), lambda i, j: over(lambda k: A[i, j + k]), name="Y")
    assert all(c.decisions["Y.how"] != "steps" for c in drawn(Y, 12))


def test_a_size_that_is_in_no_shape() -> None:
    """The estimate is for the given size of 16 steps, not for any number of them."""
    p = sl.var("p")
    A, k = sl.placeholder((1024, 1024), name="A"), sl.reduce_axis(p, name="k")
    Y = sl.compute((1024, 1024), lambda i, j: sl.sum(A[i, (j + k) % 1024], axis=k), name="Y")
    few, many = (drawn(Y, 4, sizes={p: n}) for n in (16, 160))
    of_few, of_many = (min(c.estimate.flops for c in found) for found in (few, many))
    assert 1024**2 * 16 <= of_few < 1.6 * 1024**2 * 16
    assert 9 < of_many / of_few < 11


def test_a_stage_with_a_returned_output_is_computed_whole() -> None:
    """One output of a stage of two is returned and the other is read, so it is not attached."""
    A, k = sl.placeholder((64, 256), name="A"), sl.reduce_axis(256, name="k")
    both = sl.comm_reducer(
        lambda x, y: (x[0] + y[0], sl.max(x[1], y[1])),
        lambda s, m: (sl.const(0, s), sl.const(-np.inf, m)),
    )
    S, M = sl.compute((64,), lambda i: both((A[i, k], A[i, k]), axis=k), name="S")
    Z = sl.compute((64, 256), lambda i, j: A[i, j] / S[i], name="Z")
    space = Space(Problem((M, Z), AVX2, 2))
    found = [valid(space, Random(seed)) for seed in range(6)]
    assert not any("S.at" in c.decisions for c in found)
    assert space.counts["valid"] == space.counts["drawn"]


def test_a_cut_row_is_not_fused() -> None:
    """With sums in blocks of steps, each draw is valid."""
    A, B = sl.placeholder((127, 1024), name="A"), sl.placeholder((1024, 1024), name="B")
    over = reduced(sl.sum, 1024)
    C = sl.compute((127, 1024), lambda i, j: over(lambda k: A[i, k] * B[k, j]), name="C")
    for threads in (2, 16):
        space = Space(Problem((C,), AVX2, threads))
        for groups in (2, 4, 8):
            given = {"C.how": "steps", "C.past": "lanes", "C.groups": groups}
            for seed in range(4):
                assert space.draw(Random(seed), given).decisions["C.groups"] == groups
        assert space.counts["valid"] == space.counts["drawn"]


def test_a_sum_in_a_scan_is_not_split_into_parts() -> None:
    """All steps together are enough work for threads, but a single step is not."""
    X, W = sl.placeholder((50, 256), name="X"), sl.placeholder((256,), name="W")
    H = sl.placeholder((50, 256), name="H")
    over = reduced(sl.sum, 256)
    first = sl.compute((1, 256), lambda t, i: X[0, i], name="first")
    inner = sl.compute((50,), lambda t: over(lambda k: H[t - 1, k] * W[k]), name="inner")
    step = sl.compute((50, 256), lambda t, i: X[t, i] + inner[t], name="step")
    R = sl.scan(first, step, H, inputs=[X], name="R")
    found = drawn(R, 12, given={"inner.at": -1})
    assert not any(name.startswith("inner.parts") for c in found for name in c.decisions)
