"""Tests of accesses: which elements the statements of a nest read and write, inside of what."""

from __future__ import annotations

from collections import Counter
from itertools import product
from typing import Any

import schedlang as sl
from schedlang.expr.evaluate import evaluate
from schedlang.index.linear import Lin
from schedlang.ir.accesses import accesses, loads, read_buffers, sites, stores, written_buffers
from schedlang.ir.nodes import For, If, Kept, Store
from schedlang.machine.loops.job import LoopJob
from schedlang.machine.loops.sums import keep_sums

Elements = Counter[tuple[str, tuple[int, ...], bool, bool]]


def performed(nest: Any, tested: bool) -> Elements:
    """Return how often each element is accessed: its array, its place, and the two flags."""
    found: Elements = Counter()
    for site in stores(nest.body):
        for point in product(*(range(loop.extent) for loop in site.loops)):
            values: dict[Any, Any] = {f.axis: at for f, at in zip(site.loops, point)}
            if not all(evaluate(guard.cond, values) for guard in site.guards):
                continue
            for access in accesses(site.stmt, tested):
                if all(evaluate(test, values) for test in access.tests):
                    place = tuple(int(evaluate(index, values)) for index in access.indices)
                    found[access.buffer.name, place, access.stores, access.updates] += 1
    return found


def test_accesses_of_a_guarded_sum() -> None:
    A = sl.placeholder((5, 3), name="A")
    B = sl.placeholder((3, 4), name="B")
    k = sl.reduce_axis((0, 3), name="k")
    C = sl.compute((5, 4), lambda i, j: sl.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = sl.schedule(C)
    s[C].split(C.op.axis[0], factor=2, tail="guard")
    expected: Elements = Counter()
    for i, j in product(range(5), range(4)):
        expected["C", (i, j), True, False] += 1
        for n in range(3):
            expected["A", (i, n), False, False] += 1
            expected["B", (n, j), False, False] += 1
            expected["C", (i, j), False, True] += 1
            expected["C", (i, j), True, True] += 1
    assert performed(sl.lower(s), tested=False) == expected


def test_loads_of_lazy_branches_have_their_conditions() -> None:
    A = sl.placeholder((6,), name="A")
    B = sl.compute((8,), lambda i: sl.if_then_else((i >= 1) & (i < 7), A[i - 1], 0.0), name="B")
    nest = sl.lower(sl.schedule(B))
    expected: Elements = Counter({("A", (i,), False, False): 1 for i in range(6)})
    expected.update(("B", (i,), True, False) for i in range(8))
    assert performed(nest, tested=True) == expected
    # without conditions, each iteration counts
    assert sum(performed(nest, tested=False).values()) == 16


def test_a_load_in_several_branches_is_one_load_and_several_tested_ones() -> None:
    A = sl.placeholder((8,), name="A")

    def twice(i: Any) -> Any:
        element = A[i]
        return sl.if_then_else(i < 4, element, -element)

    (site,) = stores(sl.lower(sl.schedule(sl.compute((8,), twice, name="B"))).body)
    assert [a.buffer.name for a in site.accesses] == ["A", "B"]
    assert [(a.buffer.name, len(a.tests)) for a in accesses(site.stmt, tested=True)] == [
        ("A", 1), ("A", 1), ("B", 0),
    ]  # fmt: skip


def test_an_index_that_is_read_comes_before_what_it_selects() -> None:
    A, rows = sl.placeholder((9,), name="A"), sl.placeholder((4,), "int64", name="rows")
    nest = sl.lower(sl.schedule(sl.compute((4,), lambda i: A[rows[i]], name="B")))
    (site,) = stores(nest.body)
    assert [load.buffer.name for load in loads(site.stmt.values)] == ["rows", "A"]
    assert {b.name for b in read_buffers(nest.body)} == {"A", "rows"}
    assert {b.name for b in written_buffers(nest.body)} == {"B"}


def test_sites_are_in_program_order_with_what_is_around() -> None:
    A = sl.placeholder((6, 8), name="A")
    k = sl.reduce_axis((0, 8), name="k")
    B = sl.compute((6,), lambda i: sl.sum(A[i, k], axis=k, where=A[i, k] > 0), name="B")
    nest = sl.lower(sl.schedule(B))
    kinds = [(type(site.stmt), *map(type, site.around)) for site in sites(nest.body)]
    assert kinds == [(For,), (Store, For), (For, For), (If, For, For), (Store, For, For, If)]
    update = stores(nest.body)[-1]
    assert [loop.axis.name for loop in update.loops] == ["i", "k"]
    assert update.extents == ((update.loops[0].axis, Lin.of(6)), (update.loops[1].axis, Lin.of(8)))
    assert [str(guard.cond) for guard in update.guards] == ["A[i, k] > 0"]


def test_sums_in_registers_are_kept() -> None:
    A = sl.placeholder((6, 8), name="A")
    k = sl.reduce_axis((0, 8), name="k")
    nest = sl.lower(sl.schedule(sl.compute((6,), lambda i: sl.sum(A[i, k], axis=k), name="B")))
    assert [site.kept for site in stores(nest.body)] == [False, False]
    body = keep_sums(nest.body, LoopJob(nest, sl.Target("cpu")))
    assert [site.kept for site in stores(body)] == [False, True]
    assert any(isinstance(s, Kept) for s in stores(body)[-1].around)
