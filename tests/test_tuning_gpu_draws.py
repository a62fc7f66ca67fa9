"""Tests of the candidates that the GPU tactics draw: ways to compute a stage, tiles, lanes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from random import Random
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.autotune.costs.estimate_gpu import registers
from schedlang.autotune.costs.warp import work_of_warp
from schedlang.autotune.knobs import Knobs, Rejected
from schedlang.autotune.space import Candidate, Space
from schedlang.autotune.tactics.facts import Dataflow, Problem, StageFacts
from schedlang.autotune.tactics.scan_stages import scan_stages
from schedlang.expr.nodes import Var
from schedlang.gpu_lowering.lower import device_program
from tests.gpu_schedules import numbers

pytestmark = pytest.mark.slow

GPU = sl.Target("cuda")
# threads that read all 32-byte sectors of a warp's floats
SECTORS = 4


def space(output: sl.Tensor, sizes: Mapping[Var, int] | None = None) -> Space:
    return Space(Problem((output,), GPU, 1, sizes or {}))


def drawn(output: sl.Tensor, count: int, draws: int, **given: Any) -> list[Candidate]:
    """Draw candidates with the ``given`` decisions, by the names of the output's knobs."""
    made, rng, found = space(output), Random(0), []
    known = {f"{output.name}.{knob}": value for knob, value in given.items()}
    for _ in range(draws):
        try:
            found.append(made.draw(rng, known))
        except Rejected:
            continue
        if len(found) == count:
            return found
    raise AssertionError(f"{len(found)} of {draws}: {dict(made.reasons)}")


def depthwise(channels: int, size: int, largest: bool = False) -> sl.Tensor:
    A = sl.placeholder((channels, size + 2, size + 2), name="A")
    W = sl.placeholder((channels, 3, 3), name="W")
    y, x = sl.reduce_axis(3, name="y"), sl.reduce_axis(3, name="x")
    shape = (channels, size, size)
    D = sl.compute(
        shape, lambda c, i, j: sl.sum(A[c, i + y, j + x] * W[c, y, x], axis=(y, x)), name="D"
    )
    return sl.compute(shape, lambda c, i, j: sl.max(D[c, i, j], 0), name="Z") if largest else D


def products(batch: int, n: int) -> sl.Tensor:
    """Return a batch of products of small matrices."""
    A, B = (sl.placeholder((batch, n, n), name=name) for name in "AB")
    k = sl.reduce_axis(n, name="k")
    return sl.compute(
        (batch, n, n), lambda b, i, j: sl.sum(A[b, i, k] * B[b, k, j], axis=k), name="D"
    )


def rows(n: int, m: int) -> sl.Tensor:
    """Return a product of a matrix and a vector."""
    A, X, k = sl.placeholder((n, m), name="A"), sl.placeholder((m,), name="X"), sl.reduce_axis(m)
    return sl.compute((n,), lambda i: sl.sum(A[i, k] * X[k], axis=k), name="D")


def product(n: int, m: int, inner: int, dtype: str = "float32") -> sl.Tensor:
    A, B = sl.placeholder((n, inner), dtype, name="A"), sl.placeholder((inner, m), dtype, name="B")
    k = sl.reduce_axis(inner, name="k")
    return sl.compute((n, m), lambda i, j: sl.sum(A[i, k] * B[k, j], axis=k), name="D")


def scores(heads: int, n: int, width: int) -> sl.Tensor:
    """Return the attention scores of each query and key."""
    Q, K = (sl.placeholder((heads, n, width), name=name) for name in "QK")
    d = sl.reduce_axis(width, name="d")
    return sl.compute(
        (heads, n, n), lambda h, i, j: sl.sum(Q[h, i, d] * K[h, j, d], axis=d), name="D"
    )


def columns(n: int, m: int, dtype: str = "float32") -> sl.Tensor:
    """Return the maximum of each column."""
    A, k = sl.placeholder((n, m), dtype, name="A"), sl.reduce_axis(n, name="k")
    return sl.compute((m,), lambda j: sl.max(A[k, j], axis=k), name="D")


def columns_of_one(n: int, m: int) -> sl.Tensor:
    """Return the sum of each column, as a matrix of one column."""
    A, k = sl.placeholder((n, m), name="A"), sl.reduce_axis(n, name="k")
    return sl.compute((m, 1), lambda j, u: sl.sum(A[k, j + u], axis=k), name="D")


def symbolic() -> tuple[sl.Tensor, dict[Var, int]]:
    n, m = sl.var("n"), sl.var("m")
    A, B = sl.placeholder((n, m), name="A"), sl.placeholder((m, 96), name="B")
    k = sl.reduce_axis(m, name="k")
    D = sl.compute((n, 96), lambda i, j: sl.sum(A[i, k] * B[k, j], axis=k), name="D")
    return sl.compute((n, 96), lambda i, j: sl.max(D[i, j], 0), name="Z"), {n: 200, m: 128}


def plus_one(shape: Any) -> sl.Tensor:
    A = sl.placeholder(shape, name="A")
    return sl.compute(shape, lambda i, j: A[i, j] + 1, name="D")


COMPUTATIONS = {
    "depthwise at 7": depthwise(512, 7),
    "depthwise at 14": depthwise(256, 14),
    "depthwise at 56": depthwise(32, 56),
    "depthwise and what reads it": depthwise(1024, 7, largest=True),
    "products of 8 by 8": products(1024, 8),
    "products of 4 by 4": products(300, 4),
    "a few rows": rows(100, 16),
    "many rows": rows(65536, 1024),
    "rows by a matrix of two columns": product(4096, 2, 512),
    "scores": scores(8, 128, 64),
    "columns": columns(512, 4096),
    "columns in a matrix of one column": columns_of_one(512, 4096),
    "a product": product(256, 256, 256),
    "a product of float64": product(128, 128, 128, "float64"),
    "a product of float16": product(128, 128, 128, "float16"),
    "a product of odd sizes": product(203, 75, 51),
}


@pytest.mark.parametrize("name", COMPUTATIONS)
def test_most_draws_are_valid(name: str) -> None:
    made, rng = space(COMPUTATIONS[name]), Random(0)
    for _ in range(20):
        try:
            made.draw(rng)
        except Rejected:
            continue
    assert made.counts["valid"] >= 0.3 * made.counts["drawn"], dict(made.reasons)


def test_most_draws_of_symbolic_sizes_are_valid() -> None:
    Z, sizes = symbolic()
    made, rng, ways = space(Z, sizes), Random(0), Counter[bool]()
    for _ in range(20):
        try:
            ways[made.draw(rng).decisions["D.fuse"]] += 1
        except Rejected:
            continue
    assert ways[True] and ways[False]
    assert made.counts["valid"] >= 0.3 * made.counts["drawn"], dict(made.reasons)


def emulated(output: sl.Tensor, candidate: Candidate, seed: int = 0) -> None:
    """Check that the emulated candidate agrees with the oracle."""
    args = sl.lower(sl.schedule(output)).args[:-1]
    given = [
        numbers(*map(int, a.shape), dtype=a.dtype, seed=seed + n)  # type: ignore[union-attr,arg-type]
        for n, a in enumerate(args)
    ]
    made = sl.build(candidate.schedule, target="cuda-emulator")(*given)
    np.testing.assert_allclose(made, sl.reference(output)(*given), rtol=1e-5, atol=1e-5)


TILES = {"depthwise": depthwise(40, 7), "products": products(70, 8), "product": product(50, 2, 40)}


@pytest.mark.parametrize("name", TILES)
def test_tiles_of_short_axes_are_right(name: str) -> None:
    D = TILES[name]
    for candidate in drawn(D, 2, 10, how="tile"):
        emulated(D, candidate)


def test_threads_go_along_channels_where_pictures_are_small() -> None:
    D = depthwise(512, 7)
    for candidate in drawn(D, 5, 5, how="tile"):
        assert candidate.decisions["D.axes"] == [0, 1, 2]
        (launch,) = device_program(candidate.nest, GPU).launches
        assert 64 <= launch.threads <= 512


def test_a_tile_is_offered_where_one_fits_alone() -> None:
    ways = {c.decisions["D.how"] for c in drawn(rows(100, 16), 20, 20)}
    assert ways == {"threads"}
    ways = {c.decisions["D.how"] for c in drawn(products(256, 8), 20, 20)}
    assert ways == {"tile", "threads"}


def test_data_read_once_in_order_is_read_by_adjacent_threads() -> None:
    D = rows(16384, 256)
    emulated(D, drawn(D, 1, 3, how="across")[0])
    assert "across" in {c.decisions["D.how"] for c in drawn(rows(65536, 1024), 15, 20)}
    # here all elements are read again
    assert "across" not in {c.decisions["D.how"] for c in drawn(scores(8, 128, 64), 15, 40)}


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
def test_sums_in_lanes_stay_in_registers(dtype: str) -> None:
    D = columns(60, 512, dtype)
    (candidate,) = drawn(D, 1, 3, how="threads", lanes=4)
    half = "_half" if dtype == "float16" else ""
    source = sl.build(candidate.schedule, target=GPU).source
    assert f"vload_aligned{half}(A, " in source and f"vstore_aligned{half}(D, " in source
    assert f"vload_aligned{half}(D, " not in source
    emulated(D, candidate)


@pytest.mark.skipif(find_spec("numba_cuda") is None, reason="numba-cuda is not installed")
def test_sums_in_lanes_use_no_local_memory() -> None:
    (candidate,) = drawn(columns(60, 512), 1, 3, how="threads", lanes=4)
    (found,) = sl.build(candidate.schedule, target=GPU).resources.values()
    assert not found.local_bytes and not found.spill_bytes


@pytest.mark.parametrize("make", [columns, columns_of_one])
def test_partial_results_in_lanes_are_right(make: Callable[[int, int], sl.Tensor]) -> None:
    D = make(3000, 256)
    for candidate in drawn(D, 2, 10, how="parts"):
        emulated(D, candidate)


def test_a_trailing_unit_axis_is_ignored() -> None:
    """Sums of columns with a trailing unit axis have the same candidates as without it."""
    flat, deep = columns(512, 4096), columns_of_one(512, 4096)
    asked = [sorted({repr(c.decisions) for c in drawn(D, 20, 40)}) for D in (flat, deep)]
    assert asked[0] == asked[1]
    for lanes in (1, 4):
        D = columns_of_one(60, 512)
        (candidate,) = drawn(D, 1, 3, how="threads", lanes=lanes)
        assert any(f.kind == "vectorize" for f in candidate.nest.loops) == (lanes > 1)
        emulated(D, candidate)


def test_rows_with_a_trailing_unit_axis_are_rows() -> None:
    A, k = sl.placeholder((64, 512), name="A"), sl.reduce_axis(512, name="k")
    S = sl.compute((64,), lambda i: sl.sum(A[i, k], axis=k), name="S")
    D = sl.compute((64, 512, 1), lambda i, j, u: A[i, j + u] / S[i], name="D")
    found = drawn(D, 2, 4, rows=True, threads=128)
    for candidate in found:
        emulated(D, candidate)


def test_the_estimate_knows_which_sums_stay_in_registers() -> None:
    D = columns(512, 4096)
    work = {}
    for lanes in (1, 4):
        (candidate,) = drawn(D, 1, 3, how="threads", threads=64, lanes=lanes)
        program = device_program(candidate.nest, GPU)
        work[lanes] = work_of_warp(program.launches[0], program.nest, GPU)
    # each step reads only the elements; results are touched at the start and at the end
    assert work[1].sectors == 512 * SECTORS + 2 * SECTORS
    assert work[4].sectors == 512 * 4 * SECTORS + 4 * SECTORS


def test_lanes_need_rows_of_a_known_length() -> None:
    n, m = sl.var("n"), sl.var("m")
    for shape, most in (((n, m), 1), ((n, 64), 4), ((64, 62), 2), ((64, 64), 4)):
        made, rng = space(plus_one(shape), {n: 4096, m: 4096}), Random(0)
        lanes = {made.draw(rng).decisions.get("D.lanes", 1) for _ in range(12)}
        assert max(lanes) == most
    A = sl.placeholder((64, 67), name="A")
    D = sl.compute((64, 64), lambda i, j: A[i, j], name="D")
    assert {c.decisions["D.lanes"] for c in drawn(D, 6, 6)} == {1}


def test_shared_tiles_of_unknown_rows_are_fetched_by_elements() -> None:
    Z, sizes = symbolic()
    made, rng = space(Z, sizes), Random(0)
    for shares, name in ((1, "D.shared.A"), (4, "D.rf.shared.A")):
        known = {"D.fuse": True, "D.shares": shares, name: True}
        found = [made.draw(rng, known) for _ in range(2)]
        assert {c.decisions["A.shared.lanes"] for c in found} == {1}


@pytest.mark.parametrize(
    ("dtype", "shares"),
    [(dtype, shares) for dtype in ("float16", "float32", "float64") for shares in (1, 4)],
)
def test_tiles_fit_the_registers_of_a_thread(dtype: str, shares: int) -> None:
    most = {"float64": 64}.get(dtype, 128)
    sums = []
    for candidate in drawn(product(512, 512, 64, dtype), 8, 20, how="tile", shares=shares):
        launch, *adding = device_program(candidate.nest, GPU).launches
        assert len(adding) == (shares > 1)
        assert registers(launch) <= min(255, 65536 // launch.threads)
        decisions = candidate.decisions
        each = [n for knob, n in decisions.items() if knob.endswith((".each", ".vthreads"))]
        sums.append(int(np.prod(each)))
    assert max(sums) <= most


def test_a_tile_too_large_for_a_thread_is_refused() -> None:
    """The tactics refuse a too large tile; a template of the user may have one."""
    D = product(512, 512, 64, "float64")

    def large(s: Any, knobs: Knobs) -> None:
        i, j = s[D].op.axis
        local = s.cache_write(D, "local")
        io, jo, ii, ji = s[D].tile(i, j, 128, 128)
        it, ii = s[D].split(ii, nparts=8)
        jt, ji = s[D].split(ji, nparts=8)
        s[D].reorder(io, jo, it, jt, ii, ji)
        s[D].bind(s[D].fuse(io, jo), "blockIdx.x")
        thread = s[D].fuse(it, jt)
        s[D].bind(thread, "threadIdx.x")
        s[local].compute_at(s[D], thread)
        s[local].reorder(*s[local].op.reduce_axis, *s[local].op.axis)

    assert Space(Problem((D,), GPU), large, by_tactics=False).draw(Random(0)) is not None
    with pytest.raises(Rejected, match="does not fit the registers"):
        Space(Problem((D,), GPU), large).draw(Random(0))


def lagging(*ahead: int) -> tuple[sl.Tensor, sl.Tensor, sl.Tensor]:
    """Return a scan ``N[t]`` that adds ``N[t - 2 + a] @ W`` for each ``a`` in ``ahead`` to X[t]."""
    X, S = (sl.placeholder((6, 8, 32), name=n) for n in "XS")
    W, k = sl.placeholder((32, 32), name="W"), sl.reduce_axis(32, name="k")
    H = sl.compute((7, 8, 32), lambda t, b, i: sl.sum(S[t - 2, b, k] * W[k, i], axis=k), name="D")
    first = sl.compute((2, 8, 32), lambda t, b, i: X[t, b, i], name="first")
    step = sl.compute(
        (6, 8, 32), lambda t, b, i: sum((H[t + n, b, i] for n in ahead), X[t, b, i]), name="step"
    )
    return X, W, sl.scan(first, step, S, inputs=[X], name="N")


@pytest.mark.parametrize("how", ["tile", "threads", "across"])
@pytest.mark.parametrize("ahead", [(1,), (0, 1)])
def test_a_stage_read_at_another_time_keeps_its_time_axis(ahead: tuple[int, ...], how: str) -> None:
    X, W, N = lagging(*ahead)
    made, rng, found = space(N), Random(0), []
    for _ in range(6):
        try:
            found.append(made.draw(rng, {"D.how": how, "D.fuse": False}))
        except Rejected:
            continue
    assert found, dict(made.reasons)
    assert not any(0 in c.decisions.get("D.axes", []) for c in found)
    x, w = numbers(6, 8, 32), numbers(32, 32, seed=1) / 8
    wanted = [*x[:2]]
    for t in range(2, 6):
        wanted.append(x[t] + sum(wanted[t - 2 + n] @ w for n in ahead))
    given = sl.build(found[0].schedule, [X, W, N], target="cuda-emulator")(x, w)
    np.testing.assert_allclose(given, np.stack(wanted), rtol=1e-4, atol=1e-5)
    loops = [x.axis.name for x in found[0].nest.loops if x.kind == "thread"]
    assert loops and not any(name.startswith("t.") for name in loops)


def test_the_stages_of_a_scan_are_analyzed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    X, S = (sl.placeholder((6, 8), name=n) for n in "XS")
    at = sl.compute((7, 8), lambda t, i: S[t - 2, i], name="h")
    for _ in range(12):
        one = sl.compute((7, 8), lambda t, i, at=at: at[t, i] + 1, name="a")
        two = sl.compute((7, 8), lambda t, i, at=at: at[t, i] * 2, name="b")
        at = sl.compute((7, 8), lambda t, i, one=one, two=two: one[t, i] + two[t, i], name="c")
    first = sl.compute((2, 8), lambda t, i: X[t, i], name="first")
    step = sl.compute((6, 8), lambda t, i: at[t + 1, i] + X[t, i], name="step")
    N = sl.scan(first, step, S, inputs=[X], name="N")
    flow = Dataflow(Problem((N,), GPU), sl.schedule(N).state)
    asked = Counter[str]()
    consumers = StageFacts.consumers.func

    def counted(self: StageFacts) -> list[sl.Tensor]:
        asked[self.name] += 1
        return consumers(self)

    monkeypatch.setattr(StageFacts, "consumers", property(counted))
    assert scan_stages(flow) == set(flow.stages)
    assert asked.total() <= 3 * len(flow.stages)


@pytest.mark.parametrize("width", [1, 3, 32, 60, 65, 100])
def test_a_scan_of_a_narrow_symbolic_state_has_a_block_of_its_own(width: int) -> None:
    n = sl.var("n")
    X, H = sl.placeholder((1000, n), name="X"), sl.placeholder((1000, n), name="H")
    first = sl.compute((1, n), lambda t, i: X[t, i], name="first")
    step = sl.compute((1000, n), lambda t, i: H[t - 1, i] * 0.5 + X[t, i], name="step")
    made, rng = space(sl.scan(first, step, H, inputs=[X], name="Y"), {n: width}), Random(0)
    threads = {made.draw(rng).decisions["step.threads"] for _ in range(8)}
    assert all(n <= max(64, 1.6 * width) for n in threads)


@pytest.mark.parametrize("rows", [(512,), (16, 32), (4, 8, 16)])
def test_rows_of_several_axes_have_their_reductions_in_their_blocks(rows: tuple[int, ...]) -> None:
    A = sl.placeholder((*rows, 128), name="A")
    k, r = (sl.reduce_axis(128, name=name) for name in "kr")
    M = sl.compute(rows, lambda *i: sl.max(A[(*i, k)], axis=k), name="M")
    E = sl.compute((*rows, 128), lambda *i: sl.exp(A[i] - M[i[:-1]]), name="E")
    T = sl.compute(rows, lambda *i: sl.sum(E[(*i, r)], axis=r), name="T")
    Y = sl.compute((*rows, 128), lambda *i: E[i] / T[i[:-1]], name="Y")
    found = drawn(Y, 8, 24, rows=True)
    assert any(c.decisions.get("T.at") == 0 for c in found)
    assert min(len(device_program(c.nest, GPU).launches) for c in found) == 2


def test_a_few_elements_are_not_shared_among_more_threads() -> None:
    A, B = sl.placeholder((2, 1000), name="A"), sl.placeholder((1000, 17), name="B")
    k = sl.reduce_axis(1000, name="k")
    C = sl.compute((2, 17), lambda i, j: sl.sum(A[i, k] * B[k, j], axis=k), name="C")
    assert {c.decisions["C.threads"] for c in drawn(C, 8, 8, how="threads")} == {34}


def test_operands_that_are_not_shared_are_not_copied_to_registers() -> None:
    C = products(4, 64)
    shared = {f"{C.name}.shared.{name}": False for name in ("A", "B")}
    found = [space(C).draw(Random(seed), shared) for seed in range(3)]
    assert not any(f"{C.name}.local" in c.decisions for c in found)


def test_a_stage_named_like_an_axis() -> None:
    A, B = sl.placeholder((64, 64), name="A"), sl.placeholder((64, 64), name="B")
    k = sl.reduce_axis(64, name="k")
    C = sl.compute((64, 64), lambda i, j: sl.sum(A[i, k] * B[k, j], axis=k), name="C")
    Z = sl.compute((64, 64), lambda i, j: C[i, j] + C[j, i], name="C.i")
    made, rng, valid = space(Z), Random(0), 0
    for _ in range(12):
        try:
            found = made.draw(rng, {"C.fuse": False})
        except Rejected:
            continue
        valid += 1
        assert len(found.decisions) == len(set(found.decisions))
    assert valid


def test_a_size_of_0_leaves_kernels_out() -> None:
    n = sl.var("n")
    A = sl.placeholder((9, n), name="A")
    k = sl.reduce_axis(n, name="k")
    R = sl.compute((9,), lambda i: sl.sum(A[i, k], axis=k), name="R")
    B = sl.compute((7, n), lambda i, j: R[i] + 1, name="B")
    rng, made, valid = Random(0), space(B, {n: 0}), 0
    for _ in range(12):
        try:
            made.draw(rng)
            valid += 1
        except Rejected:
            continue
    assert valid
