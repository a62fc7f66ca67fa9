"""Counts of CPU kernels: by hand, and against the interpreter; their table, and their refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.counting.instrument import instrument
from schedlang.counting.records import Counts
from schedlang.counting.regions import Runs
from schedlang.counting.statement_stages import stages
from schedlang.errors import BuildError, CallError
from schedlang.ir.nodes import Buffer
from schedlang.machine.nest import MachineNest
from schedlang.machine.nodes import Array, Function, Let, Load, Num, Op, Reg, Store, Type
from schedlang.target import Cache
from tests.conftest import Golden
from tests.fuzz.case import run_case
from tests.fuzz.counts import check_counts
from tests.graphs import product
from tests.machine_interpreter import interpret_machine

pytestmark = pytest.mark.slow

AVX2 = sl.Target("cpu", vector_bytes=32)


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).random(shape, "float32")


def test_a_product_by_hand() -> None:
    """16x8 by 8x24: each of the 16*24 sums starts at 0 and adds 8 products, in a register."""
    A, B, C = product(16, 24, 8)
    f = sl.build(sl.schedule(C), [A, B, C], target=AVX2)
    found = f.counters(numbers(16, 8), numbers(8, 24), caches=False)
    assert list(found) == ["C"]
    c = found["C"]
    assert (c.loads, c.stores) == (2 * 16 * 24 * 8, 16 * 24)
    assert (c.loaded_bytes, c.stored_bytes) == (4 * c.loads, 4 * c.stores)
    assert c.arithmetic == {"float32": 2 * 16 * 24 * 8}
    assert c.evaluations == 16 * 24 * (1 + 8)
    assert [(loop.name, loop.counts.runs) for loop in found.loops] == [
        ("i", 16), ("j", 16 * 24), ("k", 16 * 24 * 8)
    ]  # fmt: skip
    assert [loop.counts.loads for loop in found.loops] == [c.loads] * 3
    assert found.total == c


def test_vectors_count_as_elements_and_as_requests() -> None:
    """A row of 20 is two vectors of 8 and one of 4; every lane is an element."""
    A = sl.placeholder((3, 20), name="A")
    B = sl.compute((3, 20), lambda i, j: sl.sqrt(A[i, j]) + 1, name="B")
    s = sl.schedule(B)
    s[B].vectorize(B.op.axis[1])
    found = sl.build(s, [A, B], target=AVX2).counters(numbers(3, 20), caches=False).total
    assert (found.loads, found.stores) == (60, 60)
    width = 3 if found.arithmetic.keys() == {"float32x4", "float32x8"} else 2
    assert found.load_requests == found.store_requests == 3 * width
    assert found.scalar == 0 and found.vector == 2 * 3 * width
    assert found.calls == {"sqrt": 60}


def test_a_loop_over_vectors() -> None:
    """A row of 100 is a loop over vectors that steps by their lanes, and a vector for the rest."""
    A = sl.placeholder((3, 100), name="A")
    B = sl.compute((3, 100), lambda i, j: A[i, j] + 1, name="B")
    s = sl.schedule(B)
    s[B].vectorize(B.op.axis[1])
    found = sl.build(s, [A, B], target=AVX2).counters(numbers(3, 100), caches=False)
    assert found.total.loads == found.total.stores == 300
    lanes = {work.lanes: times for work, times in found.total.operations.items()}
    assert sum(n * times for n, times in lanes.items()) == 300
    assert [loop.counts.runs for loop in found.loops] == [3, lanes[max(lanes)]]


def test_a_value_belongs_to_the_stage_that_uses_it_first() -> None:
    """A value loaded before the store of B, but used by that of C alone, is of C."""
    A, B, C = (Array(n, Buffer(n, "float32", (4,))) for n in "ABC")
    one, two = Reg("one", Type("float32")), Reg("two", Type("float32"))
    load = Let(one, Load("load", A, Num(0), one.type))
    both = Let(two, Op("+", one, one, one.type))
    stores = Store("store", B, Num(0), two, stage="B"), Store("store", C, Num(0), one, stage="C")
    found = stages(MachineNest((Function("f", (A, B, C), (load, *stores)),)))
    assert found == {load: "C", stores[0]: "B", stores[1]: "C"}
    found = stages(MachineNest((Function("f", (A, B, C), (load, both, *stores)),)))
    assert (found[load], found[both]) == ("B", "B")


def test_branches_and_masks_count_what_ran() -> None:
    """The guard of a tail stops 2 of 12 iterations; a choice reads one of two inputs."""
    A, B = (sl.placeholder((10,), name=n) for n in "AB")
    C = sl.compute((10,), lambda i: sl.if_then_else(A[i] > 0, B[i], 0.0), name="C")
    s = sl.schedule(C)
    s[C].split(C.op.axis[0], factor=4, tail="guard")
    f = sl.build(s, [A, B, C])
    a = np.where(np.arange(10) % 3 == 0, 1, -1).astype("float32")
    found = f.counters(a, numbers(10), caches=False)
    # of 10 elements, 4 are positive
    assert (found.total.loads, found.total.stores) == (10 + 4, 10)
    assert found.total.arithmetic == {"float32": 10}
    assert [loop.counts.runs for loop in found.loops] == [3, 12]
    masked = sl.schedule(C)
    masked[C].vectorize(C.op.axis[0])
    found = sl.build(masked, [A, B, C], target=AVX2).counters(a, numbers(10), caches=False)
    assert found.total.stores == 10 and found.total.loads >= 10 + 4


def test_storage_by_time_and_in_all() -> None:
    """Two stages of a row each live together; a row is allocated anew in each of 6 iterations."""
    A = sl.placeholder((6, 10), name="A")
    B = sl.compute((6, 10), lambda i, j: A[i, j] * 2, name="B")
    C = sl.compute((6, 10), lambda i, j: B[i, j] + 1, name="C")
    D = sl.compute((6, 10), lambda i, j: B[i, j] * C[i, j], name="D")
    s = sl.schedule(D)
    i, _ = D.op.axis
    s[B].compute_at(s[D], i)
    s[C].compute_at(s[D], i)
    found = sl.build(s, [A, D]).counters(numbers(6, 10), caches=False)
    assert list(found) == ["B", "C", "D"]
    assert [found[n].peak_bytes for n in found] == [40, 40, 0]
    assert (found.total.peak_bytes, found.total.allocated_bytes) == (80, 6 * 80)
    assert [found[n].evaluations for n in found] == [60, 60, 60]


def test_sizes_and_parallel_loops() -> None:
    n = sl.var("n")
    A = sl.placeholder((n, 4), name="A")
    k = sl.reduce_axis(4, name="k")
    B = sl.compute((n,), lambda i: sl.sum(A[i, k], axis=k), name="B")
    s = sl.schedule(B)
    s[B].parallel(B.op.axis[0])
    f = sl.build(s, [A, B])
    for rows in (0, 1, 7):
        found = f.counters(numbers(rows, 4), caches=False).total
        assert (found.loads, found.stores) == (4 * rows, rows)


def test_stages_of_scans_and_tuples() -> None:
    """A scan has the stages of its start and its update; a tuple is one stage."""
    X, S = (sl.placeholder((6, 4), name=n) for n in "XS")
    first = sl.compute((1, 4), lambda t, i: X[0, i], name="first")
    update = sl.compute((6, 4), lambda t, i: S[t - 1, i] + X[t, i], name="update")
    found = sl.build(sl.schedule(sl.scan(first, update, S, inputs=[X]))).counters(
        numbers(6, 4), caches=False
    )
    assert {n: (c.evaluations, c.loads, c.stores) for n, c in found.items()} == {
        "first": (4, 4, 4), "update": (20, 40, 20)
    }  # fmt: skip
    k = sl.reduce_axis(8, name="k")
    best = sl.compute((5,), lambda i: sl.argmax(X[i, k % 4] * k, axis=k), name="best")
    found = sl.build(sl.schedule(best)).counters(numbers(6, 4), caches=False)
    assert list(found) == ["best"] and found["best"].evaluations == 5 * (1 + 8)


def test_prefetches_bring_lines() -> None:
    """Rows of 64 bytes: all but the first are prefetched, so that loads miss one line of five."""
    A = sl.placeholder((5, 16), name="A")
    B = sl.compute((5, 16), lambda i, j: A[i, j] * 2, name="B")
    s = sl.schedule(B)
    s[B].prefetch(A, B.op.axis[0], 1)
    found = sl.build(s, [A, B]).counters(numbers(5, 16), caches=[Cache(1024, 4)])
    assert (found.total.prefetches, found.total.loads) == (5, 80)
    lines = {line.text.strip().split("(")[0]: counts.lines[0] for line, counts in found.nest
             if counts is not None}  # fmt: skip
    # the store misses each of its 5 lines, too
    assert (lines["prefetch"], lines["store"]) == (4, 1 + 5)


def test_outputs_are_not_written() -> None:
    A = sl.placeholder((4,), name="A")
    B = sl.compute((4,), lambda i: A[i] * 2, name="B")
    f = sl.build(sl.schedule(B), [A, B])
    out = np.full(4, 7, "float32")
    assert f.counters(numbers(4), out)["B"].stores == 4
    assert (out == 7).all()
    with pytest.raises(CallError, match="A"):
        f.counters(numbers(5))


@pytest.mark.parametrize("target", ["python", "c"])
def test_other_targets_count_the_same(target: str) -> None:
    A, B, C = product(8, 8, 8)
    s = sl.schedule(C)
    s[C].vectorize(C.op.axis[1])
    pair = numbers(8, 8), numbers(8, 8)
    found = [sl.build(s, [A, B, C], target=t).counters(*pair, caches=False).total
             for t in ("cpu", target)]  # fmt: skip
    assert found[0] == found[1]


def test_random_schedules_agree_with_the_interpreter() -> None:
    """The fuzzer compares the counts of each nest that it runs; it must fail where they differ."""
    cases = [run_case("counts", k, ("python",), texts=False) for k in range(6)]
    assert not [case.failure for case in cases if case.failure]
    assert sum(case.counts["machine nests run"] for case in cases) >= 5


def test_the_comparison_with_the_interpreter_can_fail() -> None:
    A = sl.placeholder((4,), name="A")
    B = sl.compute((4,), lambda i: A[i] * 2, name="B")
    nest = sl.build(sl.schedule(B), [A, B]).machine_nest
    args = [numbers(4), np.zeros(4, "float32")]
    work = interpret_machine(nest, args)
    check_counts(nest, args, work)
    work.loads["A"] += 1
    with pytest.raises(AssertionError, match="counted loads"):
        check_counts(nest, args, work)


def test_a_nest_of_known_counts_needs_no_run() -> None:
    A, B, C = product(8, 8, 8)
    assert not instrument(sl.build(sl.schedule(C), [A, B, C]).machine_nest, False).counts
    n = sl.var("n")
    D = sl.placeholder((n,), name="D")
    E = sl.compute((n,), lambda i: D[i] + 1, name="E")
    assert instrument(sl.build(sl.schedule(E), [D, E]).machine_nest, False).counts


def tiled() -> tuple[Any, list[Any]]:
    A, B, C = product(16, 16, 16)
    s = sl.schedule(C)
    _, _, ii, ji = s[C].tile(*C.op.axis, 2, 8)
    s[C].reorder(C.op.reduce_axis[0], ii, ji)
    s[C].unroll(ii)
    s[C].vectorize(ji)
    return s, [A, B, C]


def test_the_table_of_a_product_in_registers(golden: Golden) -> None:
    s, args = tiled()
    caches = [Cache(1024, 4), Cache(4096, 8)]
    golden(sl.build(s, args, target=AVX2).counters(numbers(16, 16), numbers(16, 16), caches=caches))


def test_a_notebook_shows_the_table() -> None:
    A = sl.placeholder((4,), name="A")
    B = sl.compute((4,), lambda i: A[i] < 2, name="B")
    found = sl.build(sl.schedule(B), [A, B]).counters(numbers(4), caches=False)
    shown = found._repr_html_()
    assert "store(B, i, load(A, i) &lt; float32(2))" in shown and "<script src" not in shown
    assert '<td class="number">4</td>' in shown and "counts of B" in shown


def test_names_of_the_kernel_do_not_meet_those_of_the_probes() -> None:
    tally, report = (sl.placeholder((4,), name=n) for n in ("tally", "report"))
    model = sl.compute((4,), lambda lane: tally[lane] + report[lane], name="model")
    f = sl.build(sl.schedule(model), [tally, report, model])
    assert f.counters(numbers(4), numbers(4))["model"].loads == 8


def test_counts_add_up() -> None:
    a, b = Counts(loads=1, lines=(1,)), Counts(loads=2, evaluations=3, lines=(4,))
    assert (a + b).loads == 3 and (a + b).evaluations == 3 and (a + b).lines == (5,)


@pytest.mark.parametrize(
    ("given", "match"),
    [({"most": 0}, "most=0"), ({"most": 2.5}, "most=2.5"), ({"caches": 3}, "caches=3"),
     ({"caches": [32]}, "caches=")],
)  # fmt: skip
def test_refusals(given: dict[str, Any], match: str) -> None:
    A = sl.placeholder((4,), name="A")
    B = sl.compute((4,), lambda i: A[i] * 2, name="B")
    with pytest.raises(CallError, match=match):
        sl.build(sl.schedule(B), [A, B]).counters(numbers(4), **given)


def test_kernels_of_gpus_refuse_what_is_of_cpus() -> None:
    A = sl.placeholder((4,), name="A")
    B = sl.compute((4,), lambda i: A[i] * 2, name="B")
    s = sl.schedule(B)
    s[B].bind(B.op.axis[0], "threadIdx.x")
    f = sl.build(s, [A, B], target="cuda-emulator")
    with pytest.raises(CallError, match="no cache of a GPU is simulated"):
        f.counters(numbers(4), caches=False)
    with pytest.raises(BuildError, match="no fixed order"):
        f.trace(numbers(4))


def test_masks_of_more_lanes_than_a_vector_of_floats() -> None:
    """A mask of 256 lanes has as many cells, which no counter shares."""
    A = sl.placeholder((380,), "int8", name="A")
    B = sl.compute((380,), lambda i: A[i] + sl.const(1, "int8"), name="B")
    s = sl.schedule(B)
    (i,) = B.op.axis
    s[B].set_store_predicate((i % 3 != 1) | (i < 7))
    s[B].vectorize(i)
    nest = sl.build(s, target=sl.Target("python", vector_bytes=64)).machine_nest
    made = instrument(nest, False)
    tally, a = np.zeros(made.cells, np.int64), np.arange(380, dtype="int8")
    interpret_machine(made.nest, [a, np.zeros(380, "int8"), tally])
    written = sum(not (k % 3 == 1 and k >= 7) for k in range(380))
    runs = Runs(made.calls, tally)
    (stores,) = {sum(runs.at(site.active) for site in made.sites if site.kind == "store")}
    assert stores == written
