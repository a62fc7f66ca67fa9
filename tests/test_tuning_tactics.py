"""Tests of the tactics: right schedules for any computation, like those written by hand."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import schedlang as sl
from benchmarks.computations import computation
from benchmarks.works.families import FAMILIES
from schedlang.autotune.costs.estimate import estimate, work_of
from schedlang.autotune.costs.footprint import Footprint
from schedlang.autotune.database import Database
from schedlang.autotune.knobs import Rejected
from schedlang.autotune.record import UNTUNED, Trial, Where
from schedlang.autotune.space import Candidate, Space
from schedlang.autotune.tactics.access import accesses
from schedlang.autotune.tactics.choosing import choosing_axes
from schedlang.autotune.tactics.cpu import elementwise
from schedlang.autotune.tactics.facts import Dataflow, Problem
from schedlang.compute.read import Read, reads
from schedlang.compute.work import flops
from schedlang.expr.nodes import Axis, Expr
from schedlang.ir.specialize import at_sizes
from tests.cpu_candidates import AVX2, AVX512, inner_guards
from tests.cpu_candidates import drawn as given_draws
from tests.fuzz.tactics import run_case
from tests.graphs import product
from tests.marks import slow_but

GPU = sl.Target("cuda")


def space(*outputs: sl.Tensor, target: sl.Target = AVX2) -> Space:
    return Space(Problem(tuple(outputs), target, 2))


def drawn(made: Space, count: int, seed: int = 0) -> list[Candidate]:
    rng, found = Random(seed), []
    for _ in range(20 * count):
        try:
            found.append(made.draw(rng))
        except Rejected:
            continue
        if len(found) == count:
            return found
    raise AssertionError(f"{len(found)} of {made.counts['drawn']} draws are valid")


@pytest.mark.parametrize("cases", slow_but(
    ["range(0, 2)"],
    [range(2), range(2, 5), range(5, 10), *(range(n, n + 10) for n in range(10, 60, 10))],
))  # fmt: skip
def test_candidates_of_random_computations_are_right(cases: range) -> None:
    counts: Counter[str] = Counter()
    failures = [run_case("tests", index, counts) for index in cases]
    assert not any(failures), "\n".join(f for f in failures if f)
    # nearly all of the four draws per case make a candidate for a CPU
    assert counts["cpu: right"] > 3 * len(cases) and counts["cuda: right"] > 1.6 * len(cases)


@pytest.mark.parametrize(
    "work", slow_but([w.name for w in FAMILIES[::6]], FAMILIES[::3], lambda w: w.name)
)
def test_most_draws_for_published_operators_are_valid(work: object) -> None:
    made = space(computation(work)[-1])  # type: ignore[arg-type]
    drawn(made, 6)
    assert made.counts["valid"] >= 0.4 * made.counts["drawn"]


def test_no_reorder_of_a_single_loop() -> None:
    A = sl.placeholder((64,), name="A")
    k = sl.reduce_axis(64, name="k")
    made = [
        sl.compute((64,), lambda i: A[i] + 1, name="B"),
        sl.compute((), lambda: sl.sum(A[k], axis=k), name="S"),
    ]
    found = [c.schedule for output in made for c in drawn(space(output), 6)]
    assert any(step.primitive == "vectorize" for s in found for step in s.steps)
    orders = re.findall(r"reorder\((.*)\)", "".join(s.as_python() for s in found))
    assert all("," in order for order in orders), orders


def test_a_product_gets_a_register_tile_and_panels() -> None:
    *_, C = product(512, 512, 512)
    found = [str(c.nest) for c in drawn(space(C), 30)]
    assert all("C.local" in text and "parallel" in text for text in found)
    assert any("B.global" in text and "prefetch" in text for text in found)
    # rows in lanes too: the tile is transposed when it is stored
    assert any("A.global" in text for text in found)


def spread_out(size: int, channels: int, dtype: str = "float32") -> tuple[sl.Tensor, ...]:
    """Return a transposed convolution of stride 3: filtered rows with zeros in between."""
    X = sl.placeholder((size, 5), dtype, name="X")
    W = sl.placeholder((6, 5, channels), dtype, name="W")
    k, c = sl.reduce_axis(6, name="k"), sl.reduce_axis(5, name="c")
    n = 3 * (size - 1)
    Y = sl.compute(
        (n, channels),
        lambda i, o: sl.sum(
            X[sl.min((i + k) // 3, size - 1), c] * W[k, c, o], axis=(k, c), where=(i + k) % 3 == 0
        ), name="Y",
    )  # fmt: skip
    return X, W, Y


def test_sums_that_a_remainder_selects_are_computed_a_phase_at_a_time() -> None:
    X, W, Y = spread_out(9, 16)
    rng = np.random.default_rng(0)
    x, w = rng.random((9, 5), "float32"), rng.random((6, 5, 16), "float32")
    between = np.zeros((27 + 5, 5), "float32")
    between[:27:3] = x
    between[27] = x[-1]
    want = np.stack([np.einsum("kc,kco->o", between[i : i + 6], w) for i in range(24)])
    found = [c for c in drawn(space(Y), 20) if c.decisions["Y.how"] == "steps"]
    assert found
    for candidate in found[:3]:
        # the condition is outside all loops over points and steps of a phase
        nest = str(candidate.nest)
        assert nest.index("if ") < nest.index("for c")
        made = sl.build(candidate.schedule, [X, W, Y])(x, w)
        np.testing.assert_allclose(made, want, rtol=1e-5)


def test_phases_need_a_modulus_that_divides() -> None:
    X, W = sl.placeholder((20,), name="X"), sl.placeholder((5, 16), name="W")
    k = sl.reduce_axis(5, name="k")
    Y = sl.compute(
        (14, 16), lambda i, o: sl.sum(X[i + k] * W[k, o], axis=k, where=(i + k) % 2 == 0), name="Y"
    )
    assert {c.decisions["Y.how"] for c in drawn(space(Y), 10)} == {"tile"}


def test_tiles_divide_or_are_cut_and_updates_have_no_guard() -> None:
    *_, C = product(512, 512, 512)
    for candidate in drawn(space(C), 30, seed=3):
        assert not inner_guards(candidate)


def test_the_same_seed_draws_the_same_candidates() -> None:
    *_, C = product(256, 256, 256)
    one, other = (drawn(space(C), 5, seed=8) for _ in range(2))
    assert [c.decisions for c in one] == [c.decisions for c in other]
    assert [str(c.nest) for c in one] == [str(c.nest) for c in other]


def test_a_sum_of_everything_is_shared_by_threads() -> None:
    A = sl.placeholder((1024, 1024), name="A")
    i, j = sl.reduce_axis(1024, name="i"), sl.reduce_axis(1024, name="j")
    S = sl.compute((), lambda: sl.sum(A[i, j], axis=(i, j)), name="S")
    for candidate in drawn(space(S), 4):
        assert "parallel" in str(candidate.nest) and "vectorize" in str(candidate.nest)


def test_rows_are_computed_where_they_are_read() -> None:
    X = sl.placeholder((512, 512), name="X")
    k = sl.reduce_axis(512, name="k")
    M = sl.compute((512,), lambda i: sl.max(X[i, k], axis=k), name="M")
    Y = sl.compute((512, 512), lambda i, j: X[i, j] - M[i], name="Y")
    places = {c.decisions.get("M.at") for c in drawn(space(Y), 20)}
    assert -1 in places and 0 in places


def test_access_of_steps_and_tiles() -> None:
    A = sl.placeholder((64, 64), name="A")
    B = sl.compute((64, 64), lambda i, j: A[j, i] + A[i, i], name="B")
    first, second = accesses(sl.schedule(B)[B].op)
    i, j = sl.schedule(B)[B].op.axis
    assert first.contiguous(i) and not first.contiguous(j) and first.own_dimension(j) == 0
    assert second.fixed(j) and second.own_dimension(i) is None


def test_estimates_prefer_what_is_faster() -> None:
    A, B, C = product(512, 512, 512)
    plain, tiled = sl.schedule(C), sl.schedule(C)
    CL = tiled.cache_write(C, "local")
    i, j = tiled[C].op.axis
    io, jo, ii, ji = tiled[C].tile(i, j, 4, 16)
    tiled[C].vectorize(ji)
    tiled[C].parallel(io)
    tiled[CL].compute_at(tiled[C], jo)
    (k,) = tiled[CL].op.reduce_axis
    y, x = tiled[CL].op.axis
    tiled[CL].reorder(k, y, x)
    tiled[CL].unroll(y)
    tiled[CL].vectorize(x)
    slow, fast = (estimate(sl.lower(s), AVX2) for s in (plain, tiled))
    assert slow.seconds > 10 * fast.seconds
    assert slow.flops == fast.flops == flops([C]) == work_of(sl.lower(plain))


def test_estimates_count_conflict_misses() -> None:
    """Rows of 4096 bytes map to few sets of the cache, so that each line is loaded twice."""

    def seconds(row: int) -> float:
        A = sl.placeholder((1024, row), name="A")
        k = sl.reduce_axis(1024, name="k")
        S = sl.compute((1024,), lambda j: sl.sum(A[k, j], axis=k), name="S")
        s = sl.schedule(S)
        _, inner = s[S].split(S.op.axis[0], factor=8)
        s[S].reorder(k, inner)
        s[S].vectorize(inner)
        return estimate(sl.lower(s), AVX2).seconds

    slow, fast = seconds(1024), [seconds(1024 + pad) for pad in (8, 16, 32)]
    assert slow > 1.1 * max(fast)


@given(
    steps=st.lists(st.tuples(st.integers(2, 40), st.sampled_from([64, 96, 1024, 4096, 4128])),
                   max_size=2),
    lines=st.integers(1, 3),
)  # fmt: skip
def test_lines_in_a_set_agree_with_a_simulated_cache(
    steps: list[tuple[int, int]], lines: int
) -> None:
    footprint = Footprint(lines, tuple((float(count), pitch) for count, pitch in steps))
    starts = [
        sum(i * pitch for i, (_, pitch) in zip(point, steps)) // 64
        for point in np.ndindex(*(count for count, _ in steps))
    ]
    truly = Counter((start + line) % 64 for start in starts for line in range(lines))
    found = footprint.lines_per_set(64)
    assert found <= max(truly.values())
    # at even distances the count is exact, to the whole line
    if len(steps) < 2 and all(pitch % 64 == 0 and pitch >= 64 * lines for _, pitch in steps):
        assert max(truly.values()) < found + 1


def test_estimates_count_the_last_level_cache() -> None:
    def ratio(rows: int) -> float:
        A = sl.placeholder((rows, 1024), name="A")
        B = sl.compute(A.shape, lambda i, j: A[i, j] + 1, name="B")
        C = sl.compute(A.shape, lambda i, j: B[i, j] * 2, name="C")
        apart, fused = sl.schedule(C), sl.schedule(C)
        fused[B].compute_inline()
        costs = []
        for s in (apart, fused):
            for stage in s.stages:
                if stage.op.name != "A" and not (s is fused and stage.op.name == "B"):
                    stage.vectorize(stage.split(stage.op.axis[1], factor=32)[1])
            costs.append(estimate(sl.lower(s), AVX2).seconds / rows)
        return costs[0] - costs[1]

    assert ratio(8192) > 1.5 * ratio(512)


def test_estimates_of_nothing_and_of_pairs() -> None:
    m = sl.var("m")
    A, D = sl.placeholder((m, 512), name="A"), sl.placeholder((65536, 512), name="D")
    C = sl.compute(
        (m + 65536, 512), lambda i, j: sl.if_then_else(i < m, A[i, j], D[i - m, j]), name="C"
    )
    assert estimate(at_sizes(sl.lower(sl.schedule(C)), {"m": 0}), AVX2).seconds > 0

    def units(reduced: Callable[..., Expr]) -> float:
        """Return the units of an update of 64 lanes, which are 8 vectors."""
        M, k = sl.placeholder((256, 64), name="M"), sl.reduce_axis(256, name="k")
        R = sl.compute((64,), lambda j: reduced(M[k, j], axis=k), name="R")
        s = sl.schedule(R)
        s[R].reorder(k, R.op.axis[0])
        s[R].vectorize(R.op.axis[0])
        return estimate(sl.lower(s), AVX2).seconds

    assert units(sl.argmax) > units(sl.max)


def test_estimates_count_shared_values_once() -> None:
    def seconds(rows: bool) -> float:
        def inside(at: Axis) -> Expr:
            return (at >= 3) & (at != 17) & (at != 23) & (at != 31) & (at < 60)

        A = sl.placeholder((64, 64), name="A")
        B = sl.compute(
            (64, 64), lambda i, j: sl.select(inside(i if rows else j), A[i, j], 0), name="B"
        )
        s = sl.schedule(B)
        over, lanes = s[B].split(B.op.axis[1], factor=32)
        s[B].unroll(over)
        s[B].vectorize(lanes)
        return estimate(sl.lower(s), AVX2).seconds

    assert seconds(rows=False) > 1.1 * seconds(rows=True)


def test_too_much_recomputation_is_refused() -> None:
    A = sl.placeholder((1026, 1026), name="A")
    B = sl.compute((1026, 1024), lambda y, x: A[y, x] + A[y, x + 1] + A[y, x + 2], name="B")
    C = sl.compute((1024, 1024), lambda y, x: B[y, x] + B[y + 1, x] + B[y + 2, x], name="C")
    made = space(C)
    for candidate in drawn(made, 20):
        assert candidate.estimate.flops <= 1.6 * flops([C])
    # the tactics do not offer it, and a template that does it is refused
    assert made.counts["drawn"] == made.counts["valid"]
    inlined = Space(Problem((C,), AVX2, 2), lambda s, knobs: s[B].compute_inline())
    with pytest.raises(Rejected, match="recomputes too much"):
        inlined.draw(Random(0))


def test_the_index_of_a_read_counts_as_no_work() -> None:
    T, N = sl.placeholder((5000, 128), name="T"), sl.placeholder((1000,), "int32", name="N")
    Y = sl.compute((1000, 128), lambda i, j: T[N[i] + 1, j], name="Y")
    for target in (AVX2, GPU):
        made = space(Y, target=target)
        drawn(made, 6)
        assert not any("too much" in why for why in made.reasons)


def operators() -> dict[str, sl.Tensor]:
    """Return computations with each kind of arithmetic in a value, a condition and an index."""
    A, B = sl.placeholder((64, 48), name="A"), sl.placeholder((48, 64), name="B")
    N = sl.placeholder((64,), "int32", name="N")
    k, j = sl.reduce_axis(48, name="k"), sl.reduce_axis(48, name="j")
    *_, C = product(32, 32, 32)
    line, square = (64,), (64, 48)
    M = sl.compute(line, lambda i: sl.max(A[i, k], axis=k), name="M")
    return {
        "product": C,
        "largest": sl.compute(line, lambda i: sl.argmax(A[i, k], axis=k), name="Y"),
        "softmax": sl.compute(square, lambda i, j: sl.exp(A[i, j] - M[i]), name="Y"),
        "gather": sl.compute(line, lambda i: A[(N[i] * 2 + 1) % 64, 3] * 2, name="Y"),
        "weighted": sl.compute(line, lambda i: A[N[i] + 1, 0] * (N[i] + 1), name="Y"),
        "scatter": sl.compute(
            line, lambda i: sl.sum(A[N[i], k] * B[N[i] // 2, i], axis=k, where=N[i] + 1 > k),
            name="Y",
        ),
        "mean": sl.compute((), lambda: sl.sum(A[0, j] ** 2 / 48, axis=j), name="Y"),
        "padded": sl.pad(A, 1, name="Y"),
        "chosen": sl.compute(square, lambda i, j: sl.select(A[i, j] > 0, A[i, j], -A[i, j])),
        "turned": sl.compute(square, lambda i, j: sl.tanh(B[j, i]) % 3 + sl.abs(B[j, i]), name="Y"),
    }  # fmt: skip


def test_work_at_a_size_counts_the_executed_iterations() -> None:
    n = sl.var("n")
    A = sl.placeholder((100, n), name="A")
    B = sl.compute((100, n), lambda i, j: A[i, j] + 1, name="B")
    s = sl.schedule(B)
    s[B].vectorize(s[B].split(B.op.axis[1], factor=8, tail="cut")[1])
    for size in (3, 8, 19):
        nest = at_sizes(sl.lower(s), {"n": size})
        assert estimate(nest, AVX2).flops == pytest.approx(work_of(nest)) == 100 * size


@pytest.mark.parametrize("name", operators())
def test_a_plain_nest_is_no_more_work_than_is_needed(name: str) -> None:
    Y = operators()[name]
    assert work_of(sl.lower(sl.schedule(Y))) <= flops([Y])


def test_a_product_of_a_product_is_packed_as_a_copy() -> None:
    A, B, C = (sl.placeholder((128, 128), name=n) for n in "ABC")
    k, q = sl.reduce_axis(128, name="k"), sl.reduce_axis(128, name="q")
    M = sl.compute((128, 128), lambda i, j: sl.sum(A[i, k] * B[k, j], axis=k), name="M")
    Y = sl.compute((128, 128), lambda i, j: sl.sum(M[i, q] * C[q, j], axis=q), name="Y")
    found = drawn(space(Y), 12)
    assert all(c.decisions["M.how"] == "tile" for c in found)
    assert any("M.global" in str(c.nest) for c in found)


@pytest.mark.parametrize(
    ("columns", "together"),
    [pytest.param(256, {1, 2, 4}, marks=pytest.mark.slow), (48, {1, 2, 3})],
)
def test_neighbouring_panels_are_filled_together(columns: int, together: set[int]) -> None:
    """Copying a row into several panels at once reads its cache lines once."""
    *_, C = product(256, columns, 256)
    found = set()
    for candidate in drawn(space(C), 40):
        copy = re.search(r" *vectorize \S+ in \S+:\n +B.global\[", str(candidate.nest))
        if copy is None:
            continue
        outer = str(candidate.nest)[: copy.start()].rstrip().rsplit("\n", 1)[1]
        panels = re.fullmatch(r" *for ax1\S* in 0..(\d+):", outer)
        found.add(int(panels[1]) if panels else 1)
    assert found <= together and max(found) == max(together)


@pytest.mark.parametrize("turned", [True, False])
def test_a_transposing_copy_is_unrolled(turned: bool) -> None:
    """Unrolled rows let LLVM transpose a square of elements in registers."""
    Q, k = sl.placeholder((96, 60), name="Q"), sl.reduce_axis(60, name="k")
    V = sl.placeholder((128, 60) if turned else (60, 128), name="V")
    T = sl.compute((60, 128), lambda d, j: V[j, d] if turned else V[d, j] * 2, name="T")
    C = sl.compute((96, 128), lambda i, j: sl.sum(Q[i, k] * T[k, j], axis=k), name="C")
    given = {"T.inline": False, "C.how": "tile", "C.lane": 1, "C.pack.T": True}
    square = r"unroll d\.inner in 0\.\.16:\n +vectorize \S+ in \S+:\n +T\["
    found = given_draws(C, 8, given=given)
    assert all(bool(re.search(square, str(c.nest))) == turned for c in found)
    q, v = (np.random.default_rng(0).random(t.shape, "float32") for t in (Q, V))
    made = sl.build(found[0].schedule, [Q, V, C])(q, v)
    np.testing.assert_allclose(made, q @ (v.T if turned else v * 2), rtol=1e-5)


def test_sums_in_blocks_of_steps_may_have_a_smaller_last_tile() -> None:
    """No divisor of the seven rows fills the registers with lanes of whole cache lines."""
    X, W, Y = product(7, 1024, 1024)
    found = given_draws(Y, 30, given={f"{Y.name}.how": "steps"})
    by_tile = {str(c.decisions[f"{Y.name}.tile"]): c for c in found}
    x, w = (np.random.default_rng(0).random(t.shape, "float32") for t in (X, W))
    assert {"[1, [0, 7]]", "[2, [0, 4]]"} <= set(by_tile)
    made = sl.build(by_tile["[2, [0, 4]]"].schedule, [X, W, Y])(x, w)
    np.testing.assert_allclose(made, x @ w, rtol=1e-4)


def test_knobs_of_axes_of_one_name() -> None:
    A = sl.placeholder((64, 64), name="A")
    B = sl.compute((64, 64), lambda i1, *idx: A[(i1, *idx)] + 1, name="B")
    assert [axis.name for axis in B.op.axis] == ["i1", "i2"]
    assert drawn(space(B), 4)
    k = sl.reduce_axis(64, name="i")
    S = sl.compute((64,), lambda i: sl.sum(A[i, k], axis=k), name="S")
    s = sl.schedule(S)
    partial = s.rfactor(S, k)
    stage = Dataflow(Problem((S,), AVX2), s.state).stage(partial)
    assert [stage.axis_name(at) for at in range(2)] == ["0", "1"]


@pytest.mark.parametrize("number", [0.5, 3, -1, float("inf"), float("nan")])
def test_an_axis_that_is_compared_with_no_index_of_its_own_chooses_nothing(number: float) -> None:
    A = sl.placeholder((64,), name="A")

    def chooses(*rows: float) -> bool:
        def element(u: Axis, j: Axis) -> Expr:
            found = A[j] * 0
            for row in rows:
                found = sl.select(u.equal(row), A[j] + 1, found)
            return found

        C = sl.compute((3, 64), element, name="C")
        stage = Dataflow(Problem((C,), AVX2), sl.schedule(C).state).stage(C)
        return choosing_axes(stage) == (0,)

    assert chooses(0, 2)
    assert not chooses(0, number)


def test_a_product_on_a_gpu_has_shared_tiles_and_threads() -> None:
    *_, C = product(256, 256, 256)
    found = [str(c.nest) for c in drawn(space(C, target=GPU), 8)]
    assert all("threadIdx.x" in text and "blockIdx.x" in text for text in found)
    assert any("shared" in text for text in found)


@pytest.mark.slow
def test_a_search_starts_from_trials_of_another_machine(tmp_path: Path) -> None:
    *_, C = product(64, 64, 64)
    s = sl.schedule(C)
    s[C].vectorize(s[C].split(C.op.axis[1], factor=16)[1])
    database = Database(tmp_path / "tuning.jsonl")
    elsewhere = replace(Where.here([C], sl.Target(), {}), machine="another, 64 cores")
    database.add(elsewhere, "C", Trial(0, "ok", s.to_json(), seconds=1e-5), [C])
    result = sl.autotune(C, trials=2, database=database, progress=False)
    assert [t.strategy for t in sorted(result.trials, key=lambda t: t.number)][:2] == [
        "database", "model",
    ]  # fmt: skip
    assert result.trials[0].outcome == "ok"
    anew = sl.autotune(C, trials=2, database=database, progress=False, resume=False)
    assert {t.strategy for t in anew.trials} <= {"model", "random", UNTUNED}


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
def test_a_product_beside_its_transpose(kind: str) -> None:
    """The consumer reads the product at two points, so it is not attached at a tile."""
    A, B = sl.placeholder((64, 64), name="A"), sl.placeholder((64, 64), name="B")
    k = sl.reduce_axis(64, name="k")
    S = sl.compute((64, 64), lambda i, j: sl.sum(A[i, k] * B[k, j], axis=k), name="S")
    D = sl.compute((64, 64), lambda i, j: S[i, j] + S[j, i], name="D")
    assert drawn(space(D, target=AVX2 if kind == "cpu" else GPU), 8)


def scores(length: int) -> sl.Tensor:
    Q, K = (sl.placeholder((12, length, 64), name=name) for name in "QK")
    d = sl.reduce_axis(64, name="d")
    return sl.compute(
        (12, length, length), lambda h, i, j: sl.sum(Q[h, i, d] * K[h, j, d], axis=d), name="Y"
    )


def filtered(size: int, channels: int = 32) -> sl.Tensor:
    A = sl.placeholder((size + 2, size + 2, 16), name="A")
    W = sl.placeholder((3, 3, 16, channels), name="W")
    y, x, k = (sl.reduce_axis(e, name=name) for e, name in ((3, "y"), (3, "x"), (16, "k")))
    return sl.compute(
        (size, size, channels),
        lambda i, j, c: sl.sum(A[i + y, j + x, k] * W[y, x, k, c], axis=(y, x, k)), name="Y",
    )  # fmt: skip


@pytest.mark.parametrize(
    "target", [AVX2, pytest.param(AVX512, marks=pytest.mark.slow)], ids=["avx2", "avx512"]
)
@pytest.mark.parametrize("output", [scores(197), scores(13), filtered(17), filtered(14, 19)])
def test_short_and_prime_axes_have_tiles_of_enough_sums(
    output: sl.Tensor, target: sl.Target
) -> None:
    made = space(output, target=target)
    found = [c for c in drawn(made, 12) if c.decisions["Y.how"] == "tile"]
    assert found and made.counts["valid"] == made.counts["drawn"]
    for candidate in found:
        vectors, *rows = candidate.decisions["Y.tile"]
        assert vectors * np.prod([count for _, count in rows]) >= 8


def tiles_of(Y: sl.Tensor, target: sl.Target = AVX2) -> set[str]:
    """Return the tiles of Y that are offered."""
    draws = drawn(space(Y, target=target), 6)
    return {repr(tile) for c in draws for tile in c.options["Y.tile"] or []}


def test_a_tile_of_nearly_enough_sums_that_divides_stays() -> None:
    tiles = tiles_of(filtered(7))
    assert {"[1, [0, 7]]", "[1, [1, 7]]"} < tiles
    # besides tiles of whole lines of equal cost, counting the smaller last ones
    assert tiles - {"[1, [0, 7]]", "[1, [1, 7]]"} == {
        f"[{vectors}, [{axis}, {rows}]]" for vectors, rows in ((2, 4), (4, 2)) for axis in (0, 1)
    }


def test_tiles_of_whole_lines_may_have_a_smaller_last_one() -> None:
    """If tiles that divide read half lines or have too few sums, 14 becomes 5, 5 and 4."""
    tiles = tiles_of(filtered(14))
    assert {"[2, [0, 5]]", "[2, [1, 5]]"} < tiles
    # 6, 6 and 2 use fewer multiply-add units; 7 rows of one-line vectors are enough sums
    assert not {"[2, [0, 6]]", "[2, [0, 4]]"} & tiles
    wide = sl.Target("cpu", vector_bytes=64, vector_registers=32)
    assert not [tile for tile in tiles_of(filtered(14), wide) if ", 5]" in tile or ", 4]" in tile]


def test_tiles_of_short_axes_are_right_at_their_ends() -> None:
    rng = np.random.default_rng(0)
    Y = scores(13)
    q, k = (rng.random((12, 13, 64), "float32") for _ in range(2))
    for candidate in drawn(space(Y), 4):
        made = sl.build(candidate.schedule, [*Y.op.input_tensors, Y])(q, k)
        np.testing.assert_allclose(made, q @ k.transpose(0, 2, 1), rtol=1e-4)


def test_inputs_of_one_name_on_a_gpu() -> None:
    A, B = sl.placeholder((64, 64)), sl.placeholder((64, 64))
    k = sl.reduce_axis(64, name="k")
    C = sl.compute((64, 64), lambda i, j: sl.sum(A[i, k] * B[k, j], axis=k), name="C")
    assert drawn(space(C, target=GPU), 20)


def test_a_sum_of_everything_on_one_core() -> None:
    A = sl.placeholder((64, 64), name="A")
    i, j = sl.reduce_axis(64, name="i"), sl.reduce_axis(64, name="j")
    S = sl.compute((), lambda: sl.sum(A[i, j], axis=(i, j)), name="S")
    assert drawn(Space(Problem((S,), AVX2)), 5)


def test_a_chain_of_doublings_reads_each_stage_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There are ``2**40`` paths through 40 stages: a walk that follows each would never end."""
    walked = []

    def counted(roots: Iterable[Expr]) -> Iterator[Read]:
        walked.append(roots)
        assert len(walked) < 4000, "a walk follows each path"
        return reads(roots)

    monkeypatch.setenv("SCHEDLANG_CACHE", str(tmp_path))
    monkeypatch.setattr(elementwise, "reads", counted)
    Y = sl.placeholder((5, 3), name="X")
    for at in range(40):
        Y = sl.compute((5, 3), lambda i, j, x=Y: x[i, j] + x[i, j], name=f"Y{at}")
    x = np.arange(15, dtype="float32").reshape(5, 3)
    made = sl.network(Y, target="python", database=None)(x)
    np.testing.assert_array_equal(made, x * 2.0**40)
    assert 0 < len(walked) < 4000
