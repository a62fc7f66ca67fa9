"""Tests of ``sl.autoschedule``: its schedules are legal, right, and always the same."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.autoschedule import choose
from schedlang.autotune.at_once.plain import plain_schedule
from schedlang.autotune.costs.estimate import estimate
from schedlang.autotune.model.groups import groups
from schedlang.autotune.model.pressure import spill_factor
from schedlang.autotune.model.problems import problem_of, space_of
from schedlang.autotune.record import UNTUNED, Trial, Where
from schedlang.autotune.space import Space
from schedlang.autotune.tactics import choosing
from schedlang.autotune.tactics.driver import moves_of
from schedlang.autotune.tactics.facts import StageFacts
from schedlang.autotune.tactics.registries import CPU, CUDA
from schedlang.errors import (
    BuildError,
    ComputeError,
    ComputeTypeError,
    DatabaseWarning,
    PlainScheduleWarning,
    TuningError,
)
from schedlang.gpu_lowering.lower import device_program
from schedlang.gpu_lowering.simt import simulate
from schedlang.ir.nodes import For
from schedlang.ir.verify import verify
from schedlang.runtime.environment import machine
from tests.cpu_candidates import AVX2, AVX512

GPU = sl.Target("cuda")
RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def no_databases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no database of this machine decide."""
    monkeypatch.setenv("SCHEDLANG_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("schedlang.autotune.at_once.known.packaged", lambda op="": [])


def product(n: int = 24, m: int = 20, k: int = 12, name: str = "C") -> list[sl.Tensor]:
    A, B = sl.placeholder((n, k), name="A"), sl.placeholder((k, m), name="B")
    r = sl.reduce_axis(k, name="k")
    return [A, B, sl.compute((n, m), lambda i, j: sl.sum(A[i, r] * B[r, j], axis=r), name=name)]


def softmax(rows: int = 6, width: int = 40) -> list[sl.Tensor]:
    X = sl.placeholder((rows, width), name="X")
    k, r = sl.reduce_axis(width, name="k"), sl.reduce_axis(width, name="r")
    M = sl.compute((rows,), lambda i: sl.max(X[i, k], axis=k), name="M")
    E = sl.compute((rows, width), lambda i, j: sl.exp(X[i, j] - M[i]), name="E")
    S = sl.compute((rows,), lambda i: sl.sum(E[i, r], axis=r), name="S")
    return [X, sl.compute((rows, width), lambda i, j: E[i, j] / S[i], name="Y")]


def layers(count: int, n: int = 16) -> list[sl.Tensor]:
    """Return a chain of products, each with a relu."""
    X = sl.placeholder((n, n), name="X")

    def layer(given: sl.Tensor, at: int) -> sl.Tensor:
        k = sl.reduce_axis(n, name=f"k{at}")
        T = sl.compute((n, n), lambda i, j: sl.sum(given[i, k] * X[k, j], axis=k), name=f"T{at}")
        return sl.compute((n, n), lambda i, j: sl.max(T[i, j], 0), name=f"R{at}")

    found = X
    for at in range(count):
        found = layer(found, at)
    return [X, found]


def values(*tensors: sl.Tensor) -> list[Any]:
    """Return random arrays of small integers, with which float32 is exact."""
    return [RNG.integers(-2, 3, t.shape).astype(t.dtype) for t in tensors]


def run(tensors: list[sl.Tensor], s: sl.Schedule, *arrays: Any) -> Any:
    return sl.build(s, tensors, target="python")(*arrays)


def primitives(s: sl.Schedule) -> set[str]:
    return {step.primitive for step in s.steps}


# what is computed, against NumPy


@pytest.mark.parametrize("target", [AVX2, AVX512, None], ids=["AVX2", "AVX-512", "this machine"])
def test_a_product_is_tiled_in_registers(target: sl.Target | None) -> None:
    tensors = product(48, 64, 40)
    s = sl.autoschedule(tensors[-1], target)
    # sums of a tile in registers: unrolled rows of vectors, in a local stage
    assert {"vectorize", "unroll", "compute_at"} <= primitives(s)
    lanes = [f.extent for f in s.nest().loops if f.kind == "vectorize"]
    width = (target or sl.Target("cpu")).vector_width("float32")
    assert any(isinstance(n, int) and n % width == 0 for n in lanes)
    a, b = values(*tensors[:2])
    np.testing.assert_array_equal(run(tensors, s, a, b), a @ b)


def test_a_softmax() -> None:
    tensors = softmax()
    (x,) = values(tensors[0])
    e = np.exp(x - x.max(axis=1, keepdims=True))
    got = run(tensors, sl.autoschedule(tensors[-1], AVX2), x)
    np.testing.assert_allclose(got, e / e.sum(axis=1, keepdims=True), rtol=1e-5)


@pytest.mark.parametrize(
    "rows, width, each", [(64, 256, 4), pytest.param(61, 200, 1, marks=pytest.mark.slow)]
)
def test_a_block_of_rows_goes_through_all_stages_of_a_softmax(
    rows: int, width: int, each: int
) -> None:
    """One loop over blocks of rows, and nothing of the size of the input in between."""
    tensors = softmax(rows, width)
    s = sl.autoschedule(tensors[-1], AVX512)
    nest = s.nest()
    (loop,) = nest.body.stmts
    assert isinstance(loop, For) and loop.extent == rows // each
    between = [b for b in nest.buffers if b not in nest.args]
    assert {b.tensor.name for b in between} >= {"M", "E", "S"}
    assert all(b.scope == "local" and b.bytes <= each * width * 4 for b in between)
    (x,) = values(tensors[0])
    e = np.exp(x - x.max(axis=1, keepdims=True))
    np.testing.assert_allclose(run(tensors, s, x), e / e.sum(axis=1, keepdims=True), rtol=1e-5)


def test_a_chain_of_groups() -> None:
    tensors = layers(4)
    (x,) = values(tensors[0])
    x *= 0.5
    want = x
    for _ in range(4):
        want = np.maximum(want @ x, 0)
    s = sl.autoschedule(tensors[-1], AVX2)
    np.testing.assert_allclose(run(tensors, s, x), want, rtol=1e-5)
    # every product is tiled, and each relu is computed with its product
    stages = {f.stage for f in s.nest().loops if f.kind == "vectorize"}
    assert {f"T{at}" for at in range(4)} <= stages


def test_several_outputs() -> None:
    X = sl.placeholder((5, 40), name="X")
    k, r = sl.reduce_axis(40, name="k"), sl.reduce_axis(40, name="r")
    S = sl.compute((5,), lambda i: sl.sum(X[i, k], axis=k), name="S")
    Y = sl.compute((5, 40), lambda i, j: X[i, j] - S[i], name="Y")
    A = sl.compute((5,), lambda i: sl.argmax(Y[i, r], axis=r), name="A")
    s = sl.autoschedule([S, A], AVX2)
    assert s.outputs == (S, A)
    (x,) = values(X)
    found = sl.build(s, [X, S, A], target="python")(x)
    np.testing.assert_array_equal(found[0], x.sum(axis=1))
    np.testing.assert_array_equal(found[1], x.argmax(axis=1))


def test_a_stage_with_two_outputs() -> None:
    X = sl.placeholder((6, 9), name="X")
    P, Q = sl.compute((6, 9), lambda i, j: (X[i, j] * 2, X[i, j] + 1), name="PQ")
    Y = sl.compute((6, 9), lambda i, j: P[i, j] * Q[i, j], name="Y")
    (x,) = values(X)
    got = run([X, Y], sl.autoschedule(Y, AVX2), x)
    np.testing.assert_array_equal(got, x * 2 * (x + 1))


def test_a_scan() -> None:
    n, m = 7, 20
    X = sl.placeholder((n, m), name="X")
    state = sl.placeholder((n, m), name="state")
    init = sl.compute((1, m), lambda _, j: X[0, j], name="init")
    update = sl.compute((n, m), lambda t, j: state[t - 1, j] * 0.5 + X[t, j], name="update")
    S = sl.scan(init, update, state, inputs=[X])
    Y = sl.compute((n, m), lambda i, j: S[i, j] + 1, name="Y")
    (x,) = values(X)
    want = x.copy()
    for t in range(1, n):
        want[t] += want[t - 1] * np.float32(0.5)
    got = run([X, Y], sl.autoschedule(Y, AVX2), x)
    np.testing.assert_allclose(got, want + 1, rtol=1e-6)


def test_symbolic_sizes_are_assumed_and_right_for_every_size() -> None:
    n = sl.var("n")
    A, B = sl.placeholder((n, 16), name="A"), sl.placeholder((16, 24), name="B")
    k = sl.reduce_axis(16, name="k")
    C = sl.compute((n, 24), lambda i, j: sl.sum(A[i, k] * B[k, j], axis=k), name="C")
    found = choose(C, AVX2)
    assert found.assumed == {"n": 256} and "n = 256" in found.note
    assert choose(C, AVX2, sizes={"n": 40}).assumed == {}
    f = sl.build(found.schedule, [A, B, C], target="python")
    for size in (0, 1, 7, 40):
        a, b = RNG.integers(-2, 3, (size, 16)).astype("float32"), values(B)[0]
        np.testing.assert_array_equal(f(a, b), a @ b)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int64", "float16", "float64"])
def test_dtypes(dtype: str) -> None:
    A = sl.placeholder((20, 33), dtype, name="A")
    k = sl.reduce_axis(33, name="k")
    S = sl.compute((20,), lambda i: sl.max(A[i, k], axis=k), name="S")
    a = RNG.integers(0, 2, (20, 33)).astype(dtype)
    got = run([A, S], sl.autoschedule(S, AVX2), a)
    np.testing.assert_array_equal(got, a.max(axis=1))


@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 0, 2)])
def test_odd_shapes(shape: tuple[int, ...]) -> None:
    A = sl.placeholder(shape, name="A")
    B = sl.compute(shape, lambda *i: A[i] * 2 + 1, name="B")
    (a,) = values(A)
    np.testing.assert_array_equal(run([A, B], sl.autoschedule(B, AVX2), a), a * 2 + 1)


def test_nan_stays() -> None:
    A = sl.placeholder((4, 50), name="A")
    k = sl.reduce_axis(50, name="k")
    S = sl.compute((4,), lambda i: sl.max(A[i, k], axis=k), name="S")
    (a,) = values(A)
    a[1, 17] = np.nan
    np.testing.assert_array_equal(run([A, S], sl.autoschedule(S, AVX2), a), a.max(axis=1))


@pytest.mark.parametrize("make", [product, softmax], ids=["product", "softmax"])
def test_a_gpu(make: Callable[[], list[sl.Tensor]]) -> None:
    tensors = make()
    s = sl.autoschedule(tensors[-1], "cuda-emulator")
    tags = {f.tag for f in s.nest().loops if f.kind == "thread"}
    assert {"blockIdx.x", "threadIdx.x"} <= tags
    arrays = values(*tensors[:-1])
    outputs = simulate(device_program(sl.lower(s, tensors), GPU), arrays, {}, "forward", 0).outputs
    np.testing.assert_allclose(outputs[0], sl.reference(tensors[-1])(*arrays), rtol=1e-5)


# what a schedule is like


def test_small_work_stays_serial() -> None:
    def plus(n: int) -> sl.Schedule:
        A = sl.placeholder((n,), name="A")
        problem = sl.compute((n,), lambda i: A[i] + 1, name="B")
        return sl.autoschedule(problem, AVX2)

    assert "parallel" not in primitives(plus(9_000))
    assert "parallel" in primitives(plus(1 << 22))


def test_steps_print_as_python_that_rebuilds_the_schedule() -> None:
    A, B, C = product()
    s = sl.autoschedule(C, AVX2)
    names: dict[str, Any] = {"sl": sl, "A": A, "B": B, "C": C}
    exec(s.as_python(), names)
    assert str(names["s"]) == str(s)


@pytest.mark.slow
def test_equal_input_gives_an_equal_schedule_in_every_process(tmp_path: Path) -> None:
    script = (
        "import sys; import schedlang as sl\n"
        "from tests.test_autoschedule import softmax\n"
        "from tests.cpu_candidates import AVX2\n"
        "sys.stdout.write(sl.autoschedule(softmax()[-1], AVX2, database=sys.argv[1]).to_json())"
    )
    none = str(tmp_path / "none.jsonl")
    here = sl.autoschedule(softmax()[-1], AVX2, database=none).to_json()
    assert sl.autoschedule(softmax()[-1], AVX2, database=none).to_json() == here
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    done = subprocess.run(
        [sys.executable, "-c", script, none], capture_output=True, text=True, env=environment,
        cwd=Path(__file__).parents[1],
    )  # fmt: skip
    assert done.stdout == here, done.stderr


def test_no_estimate_is_above_that_of_the_unscheduled_nest() -> None:
    X = sl.placeholder((64, 64), name="X")
    turned = sl.compute((64, 64), lambda i, j: X[j, i], name="turned")
    for output in (product()[-1], softmax()[-1], turned):
        space = space_of(problem_of([output], AVX2, {}))
        chosen = space.of(sl.autoschedule(output, AVX2), {}, "").estimate.seconds
        assert chosen <= space.of(sl.schedule(output), {}, "").estimate.seconds


def test_tiny_loops_stay_as_they_are() -> None:
    A = sl.placeholder((1,), name="A")
    B = sl.compute((1,), lambda i: A[i] + 1, name="B")
    found = choose(B, AVX2)
    assert not found.schedule.steps and "no step lowers the estimate" in found.note


def test_rows_far_apart_cost_more_if_a_loop_jumps_from_one_to_the_next() -> None:
    X = sl.placeholder((256, 256), name="X")
    k, r = sl.reduce_axis(256, name="k"), sl.reduce_axis(256, name="r")
    down = sl.compute((256,), lambda j: sl.sum(X[k, j], axis=k), name="down")
    along = sl.compute((256,), lambda i: sl.sum(X[i, r], axis=r), name="along")
    for output, jumps in ((down, True), (along, False)):
        nest = sl.lower(sl.schedule(output))
        once, thrice = (estimate(nest, AVX2, 1, n).seconds for n in (1.0, 3.0))
        assert (thrice > once) == jumps


def test_a_part_of_a_vector_is_smaller_vectors() -> None:
    """14 lanes on AVX2 are vectors of 8, 4 and 2: three instructions where 16 lanes have two."""

    def seconds(lanes: int) -> float:
        A, B = sl.placeholder((4, 256), name="A"), sl.placeholder((256, lanes), name="B")
        k = sl.reduce_axis(256, name="k")
        C = sl.compute((4, lanes), lambda i, j: sl.sum(A[i, k] * B[k, j], axis=k), name="C")
        s = sl.schedule(C)
        i, j = C.op.axis
        s[C].reorder(k, i, j)
        s[C].unroll(i)
        s[C].vectorize(j)
        return estimate(sl.lower(s), AVX2, 1).seconds

    assert seconds(14) > 1.2 * seconds(16) > 1.2 * seconds(12)


@pytest.mark.parametrize("rows, spills", [(14, True), (7, False)])
def test_taps_that_share_operands_with_rows_take_registers(rows: int, spills: bool) -> None:
    """Of 14 rows and 3 taps, 16 operands are shared: with 28 sums they exceed 32 registers."""
    X, W = sl.placeholder((16, 8), name="X"), sl.placeholder((3, 8, 32), name="W")
    c, t = sl.reduce_axis(8, name="c"), sl.reduce_axis(3, name="t")
    Y = sl.compute(
        (14, 32), lambda w, o: sl.sum(X[w + t, c] * W[t, c, o], axis=(c, t)), name="Y"
    )
    s = sl.schedule(Y)
    w, o = Y.op.axis
    outer, inner = s[Y].split(w, factor=rows)
    s[Y].reorder(outer, c, t, inner, o)
    s[Y].unroll(t)
    s[Y].unroll(inner)
    s[Y].vectorize(o)
    assert (spill_factor(sl.lower(s), AVX512) > 1) == spills


def test_a_long_chain_takes_draws_for_each_distinct_group(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[int] = []
    draw = Space.draw_unverified

    def counted(self: Space, *given: Any) -> Any:
        drawn.append(len(self.problem.outputs))
        return draw(self, *given)

    monkeypatch.setattr(Space, "draw_unverified", counted)
    counts = []
    for length in (6, 24):
        drawn.clear()
        sl.autoschedule(layers(length)[-1], AVX2)
        counts.append(len(drawn))
    # the first layer reads its operand twice; all others are equal but for names
    assert counts[0] < counts[1] + 10 and max(counts) <= 70


def test_groups() -> None:
    problem = problem_of([layers(6)[-1]], AVX2, {})
    found = groups(problem)
    assert [g.heads for g in found] == [(f"T{n}", f"R{n}") for n in range(6)]
    assert [g.cut for g in found] == [(f"R{n}",) for n in range(6)]
    assert [t.name for t in found[3].outputs] == ["R3"]
    # a small computation is one group, itself
    small = softmax()[-1]
    (whole,) = groups(problem_of([small], AVX2, {}))
    assert whole.outputs == (small,)


def test_a_group_computes_what_the_whole_does() -> None:
    tensors = layers(6)
    last = groups(problem_of([tensors[-1]], AVX2, {}))[-1]
    (x,) = values(tensors[0])
    (before,) = values(tensors[0])
    got = sl.reference(last.outputs[0])(before, x)
    np.testing.assert_array_equal(got, np.maximum(before @ x, 0))


# schedules from databases


def record(
    database: sl.autotune.Database, output: sl.Tensor, s: sl.Schedule, seconds: float,
    decisions: dict[str, Any], where: Where | None = None,
) -> None:  # fmt: skip
    here = Where.here([output], AVX2, {})
    trial = Trial(0, "ok", s.to_json(), decisions, seconds)
    database.add(where or here, output.name, trial, [output])


@pytest.fixture
def database(tmp_path: Path) -> Iterator[sl.autotune.Database]:
    yield sl.autotune.Database(tmp_path / "tuning.jsonl")


def tuned(output: sl.Tensor, **decisions: Any) -> tuple[sl.Schedule, dict[str, Any]]:
    """Return a schedule of the tactics with these decisions, and all of its decisions."""
    found = space_of(problem_of([output], AVX2, {})).draw(None, decisions)
    return found.schedule, dict(found.decisions)


def record_tuned(database: sl.autotune.Database, C: sl.Tensor) -> None:
    s, decisions = tuned(C, **TILE)
    record(database, C, s, 1e-6, decisions)


TILE = {"C.how": "tile", "C.lane": 1, "C.tile": [2, [0, 6]]}


def test_a_measured_schedule_comes_first(database: sl.autotune.Database) -> None:
    C = product()[-1]
    s = sl.schedule(C)
    s[C].unroll(C.op.axis[1])
    record(database, C, s, 1e-6, {})
    found = choose(C, AVX2, database=database)
    assert found.origin == "database" and found.schedule.to_json() == s.to_json()
    assert machine() in found.note and found.place == f"line 1 of {database.path}"
    # an equal computation under other names has it too
    found = choose(product(name="D")[-1], AVX2, database=database.path)
    assert found.origin == "database" and [x.stage for x in found.schedule.steps] == ["D"]


def test_a_near_size_keeps_its_knobs(database: sl.autotune.Database) -> None:
    C = product(48, 64, 16)[-1]
    record_tuned(database, C)
    tensors = product(54, 80, 20, name="D")
    found = choose(tensors[-1], AVX2, database=database)
    assert found.origin == "near size" and "for extents 48, " in found.note
    rows = [f.extent for f in found.schedule.nest().loops if f.kind == "unroll"]
    assert 6 in rows
    a, b = values(*tensors[:2])
    np.testing.assert_array_equal(run(tensors, found.schedule, a, b), a @ b)


@pytest.mark.parametrize(
    "sizes, target",
    [((480, 64, 16), AVX2), ((48, 64, 16), AVX512), ((48, 64, 16), GPU)],
    ids=["far", "other vectors", "a GPU"],
)  # fmt: skip
def test_a_far_size_or_another_target_is_left_to_the_model(
    database: sl.autotune.Database, sizes: tuple[int, int, int], target: sl.Target
) -> None:
    C = product(48, 64, 16)[-1]
    record_tuned(database, C)
    assert choose(product(*sizes)[-1], target, database=database).origin == "model"


def test_a_near_size_whose_schedule_is_clearly_slower_is_left_to_the_model(
    database: sl.autotune.Database,
) -> None:
    C = product(96, 64, 64)[-1]
    s = sl.schedule(C)
    s[C].unroll(C.op.axis[0])
    record(database, C, s, 1e-6, {})
    assert choose(product(96, 64, 64)[-1], AVX2, database=database).origin == "database"
    assert choose(product(192, 128, 128)[-1], AVX2, database=database).origin == "model"


def test_loops_without_a_schedule_count_only_beside_other_times(
    database: sl.autotune.Database,
) -> None:
    C = product()[-1]
    plain = Trial(0, "ok", sl.schedule(C).to_json(), {}, 1e-6, strategy=UNTUNED)
    database.add(Where.here([C], AVX2, {}), "C", plain, [C])
    assert choose(C, AVX2, database=database).origin == "model"
    record(database, C, tuned(C, **TILE)[0], 2e-6, TILE)
    found = choose(C, AVX2, database=database)
    assert found.origin == "database" and found.schedule.steps == ()


def test_other_threads_measured_it(database: sl.autotune.Database) -> None:
    """Knobs of another machine are made legal for the threads of this one."""
    C = product(48, 64, 16)[-1]
    s = sl.schedule(C)
    s[C].unroll(C.op.axis[1])
    where = Where.here([C], AVX2, {}, "Another CPU, 96 cores")
    record(database, C, s, 1e-6, tuned(C, **TILE)[1], where)
    found = choose(C, AVX2, database=database)
    assert found.origin == "database" and "96 cores" in found.note
    assert found.schedule.to_json() != s.to_json()
    assert 6 in [f.extent for f in found.schedule.nest().loops if f.kind == "unroll"]


def test_for_c_a_schedule_measured_with_numba_will_do(database: sl.autotune.Database) -> None:
    C = product()[-1]
    s = sl.schedule(C)
    s[C].unroll(C.op.axis[1])
    record(database, C, s, 1e-6, {})
    for kind in ("c", "python"):
        target = sl.Target(kind, vector_bytes=32, vector_registers=16)
        assert choose(C, target, database=database).origin == "database"


def test_records_that_do_not_fit_are_passed_over(database: sl.autotune.Database) -> None:
    C = product()[-1]
    s = sl.schedule(C)
    s[C].unroll(C.op.axis[1])
    decisions = {"C.how": ["tile"], "C.tile": "large", "C.lane": None, "C.order": "no"}
    record(database, C, s, 1e-6, decisions, Where.here([C], AVX2, {}, "Another, 96 cores"))
    tensors = product(26, 20, 12)
    found = choose(tensors[-1], AVX2, database=database.path)
    # the knobs are data of any form: what fits no option is decided as if it were not there
    assert found.origin == "near size"
    a, b = values(*tensors[:2])
    np.testing.assert_array_equal(run(tensors, found.schedule, a, b), a @ b)


def test_lines_of_other_computations_are_passed_over(database: sl.autotune.Database) -> None:
    C, Y = product()[-1], softmax()[-1]
    for output in (C, Y):
        record(database, output, sl.schedule(output), 1e-6, {})
    with database.path.open("a") as file:
        file.write("not a line of a database\n")
    op = Where.here([C], AVX2, {}).op
    own = sl.autotune.Database(database.path, op)
    assert [entry.name for entry in own.entries()] == ["C"] and own.problems == []
    with pytest.warns(DatabaseWarning):
        assert len(list(sl.autotune.Database(database.path).entries())) == 2


def test_the_nearest_option() -> None:
    decisions = {"C.i.block": 47, "C.tile": [2, [0, 11]], "C.at": 3, "C.pack.B": True}
    pick = moves_of(CPU).nearest({**decisions, "C.how": "phases"})
    assert pick("C.i.block", [1, 25, 50]) == 2
    assert pick("C.tile", [[4, [0, 6]], [2, [1, 11]], [2, [0, 10]]]) == 2
    # root is no loop, however near its number is
    assert pick("C.at", [-1, 0, 1]) == 2
    assert pick("C.pack.B", [False, True]) == 1
    assert pick("C.how", ["tile", "steps"]) == 0
    # what was not recorded starts as a descent does
    assert pick("C.unroll", [False, True]) == 1
    assert pick("C.prefetch", [0, 1, 2]) == 0


def test_moves_visit_structure_first() -> None:
    names = {"C.order": [0], "C.tile": [1], "P.inline": True, "C.how": "tile", "C.new": 1}
    ordered = ["P.inline", "C.how", "C.tile", "C.order", "C.new"]
    assert moves_of(CPU).in_order(names) == ordered


def test_moves_start_where_the_estimate_is_low() -> None:
    cpu, gpu = moves_of(CPU), moves_of(CUDA)
    assert (cpu.start("C.vectors", [1, 2, 4, 8]), cpu.start("C.rows", [1, 2])) == (2, 1)
    assert (gpu.start("C.i.each", [1, 2, 4]), gpu.start("C.i.threads", [4, 8, 16, 32])) == (1, 2)
    assert (cpu.start_inside("S.at", [-1, 0, 1]), cpu.start_inside("S.at", [-1])) == (1, 0)
    assert (cpu.start_inside("C.lane", [0, 1]), cpu.start_inside("C.vectors", [1, 2])) == (1, 0)
    assert cpu.others("C.order", [0, 1, 2], None) == [[2, 0, 1], [1, 0, 2]]
    assert cpu.others("C.reduce_order", [0, 1], None) == [[1, 0]]
    assert cpu.others("C.i.block", 1, [1, 2, 3, 4, 6, 8, 12, 16, 24, 48]) == [48, 3, 6, 12]


# what is refused, and what cannot be scheduled


def test_bad_arguments() -> None:
    A, B, C = product()
    refused: list[tuple[type[Exception], str, Callable[[], object]]] = [
        (ComputeTypeError, r"autoschedule\('C'\): 'C' is not a tensor", lambda: ("C",)),
        (ComputeTypeError, r"autoschedule\(\[\]\): give at least one", lambda: ([],)),
        (ComputeTypeError, "give the tensor instead", lambda: (sl.schedule(C),)),
        (ComputeError, "A is an input and has nothing to schedule", lambda: (A,)),
        (ComputeError, "C is given twice", lambda: ([C, C],)),
        (BuildError, "cpuu", lambda: (C, "cpuu")),
        (TuningError, "there is no symbolic size 'n'", lambda: (C, None, {"n": 3})),
        (TuningError, "database=3", lambda: (C, None, None, 3)),
    ]  # fmt: skip
    for kind, message, given in refused:
        with pytest.raises(kind, match=message):
            sl.autoschedule(*given())  # type: ignore[misc]


@pytest.mark.parametrize("target", [AVX2, GPU], ids=["cpu", "gpu"])
def test_a_failure_of_the_tactics_gives_a_plain_schedule(
    target: sl.Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(problem: object) -> None:
        raise KeyError("what no tactic knows")

    monkeypatch.setattr("schedlang.autotune.at_once.scheduler.by_model", fails)
    tensors = product(130, 72, 12)
    with pytest.warns(PlainScheduleWarning, match="is plain: the tactics failed: KeyError"):
        s = sl.autoschedule(tensors[-1], target)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert choose(tensors[-1], target).origin == "plain"
    wanted = {"bind"} if target.is_gpu else {"parallel"}
    assert wanted <= primitives(s)
    verify(sl.lower(s))
    a, b = values(*tensors[:2])
    if target.is_gpu:
        program = device_program(sl.lower(s, tensors), GPU)
        got = simulate(program, [a, b], {}, "forward", 0).outputs[0]
    else:
        got = run(tensors, s, a, b)
    np.testing.assert_array_equal(got, a @ b)


def test_plain_schedules_of_small_and_odd_shapes() -> None:
    for output in (softmax()[-1], product(1, 1, 1)[-1]):
        for target in (AVX2, GPU):
            s = plain_schedule(problem_of([output], target, {}))
            verify(sl.lower(s))


def butterfly(stages: int, rows: int) -> sl.Tensor:
    """Return sums and differences of halves along ``rows`` dimensions in turn."""
    V = sl.placeholder((2,) * rows + (8,), name="X", dtype="int64")
    shape = V.shape

    def halves(V: sl.Tensor, dimension: int) -> Callable[..., sl.Expr]:
        def element(*i: sl.Expr) -> sl.Expr:
            first, second = (V[(*i[:dimension], k, *i[dimension + 1 :])] for k in (0, 1))
            return sl.select(i[dimension] == 0, first + second, first - second)

        return element

    for k in range(stages):
        V = sl.compute(shape, halves(V, k % rows), name=f"V{k}")
    return V


def test_axes_that_choose_are_asked_for_once_a_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    """All draws share the answers; they were asked for anew by each stage of each draw."""
    asked: list[str] = []
    derive = choosing._chosen_axes

    def counted(stage: StageFacts, known: Any) -> dict[int, int]:
        asked.append(stage.name)
        return derive(stage, known)

    monkeypatch.setattr(choosing, "_chosen_axes", counted)
    sl.autoschedule(butterfly(8, 2), AVX2)
    assert {f"V{k}" for k in range(7)} <= {*asked}
    assert len(asked) <= 2 * 8


@pytest.mark.slow
def test_a_butterfly_of_many_stages() -> None:
    """Each stage reads the one before twice: whole walks of what it reads would not end."""
    stages, rows = 40, 3
    V = butterfly(stages, rows)
    kernel = sl.build(sl.autoschedule(V))
    x = np.random.default_rng(3).integers(-9, 9, V.shape)
    expected = x
    for k in range(stages):
        first, second = np.split(expected, 2, axis=k % rows)
        expected = np.concatenate([first + second, first - second], axis=k % rows)
    np.testing.assert_array_equal(kernel(x), expected)
