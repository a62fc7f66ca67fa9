"""Tests of each rule of the verifier, with valid nests and with nests that break it."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import BoundsError, BuildError, CallError, OutOfBoundsError, VerifyError
from schedlang.expr.evaluate import evaluate
from schedlang.expr.nodes import Binary, Cast, Const, Select, Var
from schedlang.index.intervals import of_expression
from schedlang.index.ranges import Ranges
from schedlang.ir.nodes import Store
from schedlang.ir.verify import verify
from schedlang.lowering.lower import lower_state
from tests.nests import alloc, axis, buffer, guard, load, loop, nest, store

A, C = buffer("A", 8), buffer("C", 8)
i, j, k = axis("i", 8), axis("j", 8), axis("k", 4)


def refused(made, match):
    with pytest.raises(VerifyError, match=match):
        verify(made)


def test_a_right_nest_passes():
    assert verify(nest([A], [C], loop(i, store(C, (i,), load(A, i))))) == []


# Well-formed.


def test_an_axis_outside_of_its_loop():
    refused(nest([A], [C], loop(i, store(C, (i,), load(A, j)))), "j is used outside its loop")


def test_a_loop_that_runs_past_its_axis():
    """Simplification by the axis alone would be wrong in the later iterations."""
    body = loop(k, guard(k < 4, store(C, (k,), 0.0)), extent=8)
    refused(nest([A], [C], body), "loop k runs to 8, but its axis to 4")


def test_an_axis_after_its_loop():
    body = (loop(i, store(C, (i,), 0.0)), store(C, (i,), 0.0))
    refused(nest([A], [C], *body), "i is used outside its loop")


def test_a_loop_inside_a_loop_over_the_same_variable():
    refused(nest([A], [C], loop(i, loop(i, store(C, (i,), 0.0)))), "over the same variable")


def test_a_buffer_without_storage():
    refused(
        nest([A], [C], loop(i, store(C, (i,), load(buffer("T", 8), i)))),
        "T is used where it has no",
    )


def test_a_buffer_after_its_block():
    t = buffer("T", 1)
    body = (loop(i, alloc(t), store(t, (0,), 1.0)), loop(j, store(C, (j,), load(t, 0))))
    refused(nest([A], [C], *body), "T is used where it has no storage")


def test_storage_made_twice():
    t = buffer("T", 1)
    refused(
        nest([A], [C], alloc(t), alloc(t), loop(i, store(C, (i,), 0.0))), "T has storage already"
    )


def test_a_wrong_number_of_indices():
    refused(
        nest([A], [C], loop(i, store(C, (i,), load(A, i, 0)))), "A has 1 dimensions, got 2 indices"
    )


def test_a_store_of_another_dtype():
    value = Cast(load(A, i), "float64")
    refused(nest([A], [C], loop(i, store(C, (i,), value))), "float64 .* is stored to float32 C")


def test_an_index_that_is_no_integer():
    at = Cast(i, "float32")
    refused(nest([A], [C], loop(i, Store((C,), (at,), (Const(0.0, "float32"),)))), "is float32")


def test_a_condition_that_is_no_bool():
    refused(nest([A], [C], loop(i, guard(i + 1, store(C, (i,), 0.0)))), "the condition .* is int64")


def test_a_scalar_that_is_no_argument():
    alpha = Var("alpha", "float32", weak=False)
    refused(nest([A], [C], loop(i, store(C, (i,), alpha))), "alpha is not an argument")


def test_a_loop_of_unknown_kind():
    refused(nest([A], [C], loop(i, store(C, (i,), 0.0), kind="magic")), "unknown kind 'magic'")


def test_more_values_than_buffers():
    twice = Store((C,), (i,), (Const(0.0, "float32"),) * 2)
    refused(nest([A], [C], loop(i, twice)), "2 values are stored to 1 buffers")


# In bounds.


def test_a_load_past_the_end():
    refused(
        nest([A], [C], loop(i, store(C, (i,), load(A, i + 1)))), "is 8 where i = 7, outside 0..8"
    )


def test_a_load_before_the_start():
    refused(
        nest([A], [C], loop(i, store(C, (i,), load(A, i - 2)))), "is -2 where i = 0, outside 0..8"
    )


def test_a_store_past_the_end():
    refused(
        nest([A], [C], loop(axis("i", 9), store(C, (i,), 0.0), extent=9)), "outside its loop"
    )
    wide = axis("i", 9)
    refused(nest([A], [C], loop(wide, store(C, (wide,), 0.0))), "is 8 where .*outside 0..8")


def test_a_tail_needs_its_guard():
    outer, inner = axis("i.outer", 3), axis("i.inner", 3)
    at = outer * 3 + inner
    inside = store(C, (at,), load(A, at))
    assert verify(nest([A], [C], loop(outer, loop(inner, guard(at < 8, inside))))) == []
    refused(nest([A], [C], loop(outer, loop(inner, inside))), "is 8 where .*outside 0..8")
    tested = loop(outer, loop(inner, guard(at < 9, inside)))
    refused(nest([A], [C], tested), "is 8 where .*outside 0..8")


def test_a_lazy_select_guards_its_sides():
    read = load(A, i - 1)
    good = Select(i >= 1, read, Const(0.0, "float32"), "float32", lazy=True)
    wrong = Select(i >= 1, Const(0.0, "float32"), read, "float32", lazy=True)
    eager = Select(i >= 1, read, Const(0.0, "float32"), "float32")
    assert verify(nest([A], [C], loop(i, store(C, (i,), good)))) == []
    refused(nest([A], [C], loop(i, store(C, (i,), wrong))), "is -1 where i = 0, outside 0..8")
    refused(nest([A], [C], loop(i, store(C, (i,), eager))), "is -1 where i = 0, outside 0..8")


def test_a_bound_that_needs_counting():
    odd = Binary("%", i * i, Const(8, "int64", True), "int64", True)
    assert verify(nest([A], [C], loop(i, store(C, (i,), load(A, odd + 3))))) == []
    beyond = store(C, (i,), load(A, odd + 4))
    refused(nest([A], [C], loop(i, beyond)), "is 8 where i = 2, outside 0..8")


def test_a_gathered_index_is_left_alone():
    table = buffer("B", 8, dtype="int64")
    assert verify(nest([A, table], [C], loop(i, store(C, (i,), load(A, load(table, i)))))) == []


def test_a_symbolic_bound_is_proven_or_left_to_the_call():
    n = Var("n")
    a, c = buffer("A", n), buffer("C", n)
    x = axis("x", n)
    assert verify(nest([a], [c], loop(x, store(c, (x,), load(a, x))), sizes=(n,))) == []
    left = verify(nest([a], [c], loop(x, store(c, (x,), load(a, 3))), sizes=(n,)))
    assert [(u.buffer.name, u.position, str(u.index)) for u in left] == [("A", 0, "3")]


# Finalised once.


def test_a_lost_element():
    refused(nest([A], [C], loop(i, store(C, (i,), 0.0), extent=7)), r"C\[7\] is finalised 0 times")


def test_an_element_written_twice():
    body = (loop(i, store(C, (i,), 0.0)), loop(j, store(C, (j,), 1.0)))
    refused(nest([A], [C], *body), r"C\[0\] is finalised 2 times")


def test_a_loop_that_the_index_ignores():
    refused(nest([A], [C], loop(k, loop(i, store(C, (i,), 0.0)))), r"C\[0\] is finalised 4 times")


def test_a_reduction_without_its_start():
    refused(nest([A], [C], loop(i, store(C, (i,), load(A, i), "sum"))), "C is never written")


def test_a_guard_that_cuts_too_much():
    refused(
        nest([A], [C], loop(i, guard(i < 7, store(C, (i,), 0.0)))), r"C\[7\] is finalised 0 times"
    )


def test_a_store_predicate_leaves_elements_out_on_purpose():
    named_alike = guard(i < 7, store(C, (i,), 0.0), note="store predicate")
    refused(nest([A], [C], loop(i, named_alike)), r"C\[7\] is finalised 0 times")
    verify(nest([A], [C], loop(i, replace(named_alike, predicate=True))))


def test_wrong_strides():
    outer, inner = axis("o", 2), axis("n", 4)
    assert (
        verify(nest([A], [C], loop(outer, loop(inner, store(C, (outer * 4 + inner,), 0.0))))) == []
    )
    refused(
        nest([A], [C], loop(outer, loop(inner, store(C, (outer * 3 + inner,), 0.0)))),
        r"C\[3\] is fin",
    )


def test_a_cut_tail_covers_and_its_loss_shows():
    outer, inner, rest = axis("o", 2), axis("n", 3), axis("r", 2)
    main = loop(outer, loop(inner, store(C, (outer * 3 + inner,), 0.0)))
    assert verify(nest([A], [C], main, loop(rest, store(C, (rest + 6,), 0.0)))) == []
    refused(nest([A], [C], main), r"C\[6\] is finalised 0 times")
    refused(
        nest([A], [C], main, loop(rest, store(C, (rest + 5,), 0.0))), r"C\[5\] is finalised 2 times"
    )


def test_fused_loops_cover_two_dimensions():
    c, fused = buffer("C", 4, 6), axis("f", 24)
    assert verify(nest([A], [c], loop(fused, store(c, (fused // 6, fused % 6), 0.0)))) == []
    refused(
        nest([A], [c], loop(fused, store(c, (fused // 8, fused % 6), 0.0))), "finalised 2 times"
    )


# Races.


@pytest.mark.parametrize("kind", ["parallel", "vectorize"])
def test_a_reduction_across_a_loop_that_runs_together(kind):
    c = buffer("C")
    body = (store(c, (), 0.0), loop(i, store(c, (), load(A, i), "sum"), kind=kind))
    refused(nest([A], [c], *body), f"combined into by several iterations of {kind} loop i")


def test_lanes_that_write_distinct_elements_are_right():
    outer, inner = axis("o", 2), axis("n", 4)
    made = store(C, (outer * 4 + inner,), 0.0)
    assert (
        verify(nest([A], [C], loop(outer, loop(inner, made, kind="vectorize"), kind="parallel")))
        == []
    )
    swapped = loop(inner, loop(outer, made), kind="parallel")
    assert verify(nest([A], [C], swapped)) == []


def test_storage_shared_by_a_parallel_loop():
    t = buffer("T", 4)
    fill = loop(k, store(t, (k,), load(A, k)))
    use = store(C, (i,), load(t, 0))
    refused(
        nest([A], [C], alloc(t), loop(i, fill, use, kind="parallel")),
        "T is written by several iter",
    )
    assert verify(nest([A], [C], loop(i, alloc(t), fill, use, kind="parallel"))) == []


def test_an_iteration_that_reads_what_another_writes():
    t = buffer("T", 8)
    body = loop(i, store(t, (i,), load(A, i)), store(C, (i,), load(t, Const(7, "int64", True) - i)),
                kind="parallel")  # fmt: skip
    refused(
        nest([A], [C], alloc(t), body), "T is read by one iteration of parallel loop i and written"
    )


def test_block_threads_that_write_one_element():
    c = buffer("C")
    body = loop(i, store(c, (), load(A, i), "sum"), kind="thread", tag="blockIdx.x")
    refused(nest([A], [c], store(c, (), 0.0), body), "several iterations of thread loop i")


def test_a_matmul_takes_about_a_millisecond():
    m = sl.placeholder((1024, 1024), name="M")
    r = sl.reduce_axis(1024, name="r")
    p = sl.compute((1024, 1024), lambda x, y: sl.sum(m[x, r] * m[r, y], axis=r), name="P")
    s = sl.schedule(p)
    xo, yo, xi, yi = s[p].tile(*s[p].op.axis, 32, 32)
    s[p].reorder(xo, yo, r, xi, yi)
    s[p].vectorize(yi)
    s[p].parallel(xo)
    made = lower_state(s.state)
    taken = []
    for _ in range(5):
        start = time.perf_counter()
        verify(made)
        taken.append(time.perf_counter() - start)
    assert min(taken) < 0.005


# Index arithmetic beyond sums.

INSIDE = {
    "shift": lambda i: (i << 1) >> 1,
    "mask": lambda i: (i + 100) & 7,
    "abs": lambda i: abs(i - 7),
    "select": lambda i: sl.select(i < 4, i + 4, i - 4),
    "xor": lambda i: i ^ 5,
}


@pytest.mark.parametrize("name", INSIDE)
@pytest.mark.parametrize("extent", [8, 7])
def test_index_arithmetic_is_proven_or_counted(name, extent):
    source = buffer("S", extent)
    made = nest([source], [C], loop(i, store(C, (i,), load(source, INSIDE[name](i)))))
    if extent == 8:
        assert verify(made) == []
    else:
        with pytest.raises(OutOfBoundsError, match="index 0 of S, .* is 7 where .*outside 0..7"):
            verify(made)


@pytest.mark.parametrize("name", INSIDE)
def test_intervals_of_index_arithmetic_hold(name):
    low, high = of_expression(INSIDE[name](i), Ranges().of_atom)
    at = evaluate(INSIDE[name](i), {i: np.arange(8)})
    assert low is None or low <= at.min()
    assert high is None or high >= at.max()


def test_a_store_out_of_bounds_is_reported_as_a_bug():
    with pytest.raises(VerifyError) as raised:
        verify(nest([A], [C], loop(i, store(C, (i ^ 8,), load(A, i)))))
    assert not isinstance(raised.value, BoundsError)


def corner(extent):
    table = sl.placeholder((50,), name="T")
    return sl.compute(
        (extent, extent),
        lambda x, y: sl.if_then_else(x + y < 50, table[x + y + 1], 0.0),
        name="corner",
    )


def test_larger_domains_are_counted_too():
    with pytest.raises(BoundsError, match="index 0 takes the values 1..50, .* has extent 50"):
        corner(1024)
    x, y, T = axis("x", 1024), axis("y", 1024), buffer("T", 50)
    read = guard(Binary("<", x + y, sl.const(50), "bool"), store(C, (0,), load(T, x + y + 1)))
    with pytest.raises(OutOfBoundsError, match="index 0 of T, .* is 50 where .*outside 0..50"):
        verify(nest([T], [C], loop(x, loop(y, read))))


def test_a_nest_too_large_to_count_is_refused():
    with pytest.raises(BuildError, match="stage corner: index 0 of T, .* cannot be proven") as why:
        sl.build(sl.schedule(corner(10000)))
    assert "Clamp it with" in str(why.value)


def test_a_bound_that_depends_on_sizes_is_checked_at_the_call():
    n = sl.var("n")
    a = sl.placeholder((n,), name="a")
    c = sl.compute((n,), lambda x: a[x ^ 1], name="c")
    kernel = sl.build(sl.schedule(c), target="python")
    np.testing.assert_array_equal(kernel(np.arange(4, dtype="float32")), [1, 0, 3, 2])
    with pytest.raises(CallError, match="where n=5: index 0 of a, .* is 5.* outside 0..5"):
        kernel(np.zeros(5, "float32"))
    with pytest.raises(CallError, match="where n=16777217, stage c: .* cannot be proven"):
        kernel(np.zeros(2**24 + 1, "float32"))


def test_a_condition_on_data_leaves_a_read_open():
    D = sl.placeholder((8,), name="D")
    by_data = sl.compute((8,), lambda x: sl.if_then_else(D[x] > 0, D[x + 1], 0.0), name="by_data")
    (left,) = verify(lower_state(sl.schedule(by_data).state))
    assert not left.exact
    sl.build(sl.schedule(by_data), target="python")


def test_a_guard_around_a_fused_loop_proves_its_parts():
    table = sl.placeholder((5003, 5003), name="T")
    c = sl.compute((5003, 5003), lambda x, y: table[x, y] * 2, name="c")
    s = sl.schedule(c)
    outer, _ = s[c].split(s[c].fuse(*c.op.axis), factor=37)
    s[c].parallel(outer)
    assert verify(lower_state(s.state)) == []


def test_the_box_of_an_attached_stage_in_a_fused_loop_is_proven():
    table = sl.placeholder((5003, 5003), name="T")
    b = sl.compute((5003, 5003), lambda x, y: table[x, y] * 2, name="b")
    c = sl.compute((5003, 5003), lambda x, y: b[x, y] + 1, name="c")
    s = sl.schedule(c)
    outer, _ = s[c].split(s[c].fuse(*c.op.axis), factor=37)
    s[b].compute_at(s[c], outer)
    assert verify(lower_state(s.state)) == []
