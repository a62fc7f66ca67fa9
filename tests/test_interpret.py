"""Tests of the interpreter: the results of nests, and the violations that it catches."""

from __future__ import annotations

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import CallError, VerifyError
from schedlang.expr.nodes import Const, Select
from schedlang.ir.interpret import interpret
from schedlang.lowering.lower import lower_state
from tests.nests import alloc, axis, buffer, guard, load, loop, nest, store

A, C = buffer("A", 8), buffer("C", 8)
i, k = axis("i", 8), axis("k", 4)
ONES = np.ones(8, "float32")


def test_outputs_and_counters():
    run = interpret(nest([A], [C], loop(i, store(C, (i,), load(A, i) + load(A, i)))), [ONES])
    assert run.outputs[0].tolist() == [2.0] * 8
    assert (run.loads["A"], run.stores["C"], run.iterations) == (16, 8, 8)
    assert run.finalised[0].tolist() == [1] * 8


def test_a_read_outside():
    with pytest.raises(VerifyError, match=r"reads A\[8\] of shape \[8\]"):
        interpret(nest([A], [C], loop(i, store(C, (i,), load(A, i + 1)))), [ONES])


def test_a_negative_index_does_not_wrap():
    with pytest.raises(VerifyError, match=r"reads A\[-1\]"):
        interpret(nest([A], [C], loop(i, store(C, (i,), load(A, i - 1)))), [ONES])


def test_a_write_outside():
    with pytest.raises(VerifyError, match=r"writes C\[8\]"):
        interpret(nest([A], [C], loop(i, store(C, (i + 1,), load(A, i)))), [ONES])


def test_an_element_read_before_it_is_written():
    t = buffer("T", 2)
    body = loop(i, alloc(t), store(t, (0,), load(A, i)), store(C, (i,), load(t, 1)))
    with pytest.raises(VerifyError, match=r"T\[1\] is read before it is written") as caught:
        interpret(nest([A], [C], body), [ONES])
    # a notebook shows the line of the caller alone, not those of the program that is interpreted
    _, *lines = caught.value._render_traceback_()
    assert [line.partition(",")[0].strip() for line in lines] == ["test_interpret.py"]


def test_storage_is_fresh_in_each_iteration():
    t = buffer("T", 1)
    body = loop(i, alloc(t), guard(i < 1, store(t, (0,), load(A, i))), store(C, (i,), load(t, 0)))
    with pytest.raises(VerifyError, match="before it is written"):
        interpret(nest([A], [C], body), [ONES])


def test_an_element_never_written():
    with pytest.raises(VerifyError, match="element 7 of C was never written"):
        interpret(nest([A], [C], loop(i, store(C, (i,), load(A, i)), extent=7)), [ONES])


def test_an_element_finalised_twice():
    with pytest.raises(VerifyError, match=r"C\[0\] is finalised 4 times"):
        interpret(nest([A], [C], loop(k, loop(i, store(C, (i,), load(A, i))))), [ONES])


def test_only_the_taken_side_of_a_lazy_select_is_evaluated():
    lazy = Select(i < 7, load(A, i + 1), Const(5.0, "float32"), "float32", lazy=True)
    run = interpret(nest([A], [C], loop(i, store(C, (i,), lazy))), [ONES])
    assert run.outputs[0].tolist() == [1.0] * 7 + [5.0]
    eager = Select(i < 7, load(A, i + 1), Const(5.0, "float32"), "float32")
    with pytest.raises(VerifyError, match=r"reads A\[8\]"):
        interpret(nest([A], [C], loop(i, store(C, (i,), eager))), [ONES])


def test_a_race_shows_in_another_order():
    t = buffer("T")
    body = loop(i, store(t, (), load(A, i)), kind="parallel")
    values = np.arange(8, dtype="float32")
    last = axis("last", 8)
    seen = nest([A], [C], alloc(t), body, loop(last, store(C, (last,), load(t))))
    found = {o: interpret(seen, [values], o).outputs[0][0] for o in ("forward", "reverse")}
    assert found == {"forward": 7.0, "reverse": 0.0}


def test_arithmetic_follows_the_dtypes():
    a = sl.placeholder((3,), "int8", name="A")
    f = sl.placeholder((3,), "float32", name="F")
    m, n = sl.compute((3,), lambda x: (a[x] + 100, f[x] * 0.1), name="M")
    run = interpret(lower_state(sl.schedule([m, n]).state), [
        np.array([100, 27, -128], "int8"), np.array([1, 2, 3], "float32")
    ])  # fmt: skip
    assert run.outputs[0].tolist() == [-56, 127, -28]
    assert run.outputs[1].tolist() == (np.array([1, 2, 3], "float32") * np.float32(0.1)).tolist()


def test_tuple_reducers_see_the_old_values():
    a = sl.placeholder((7,), name="A")
    r = sl.reduce_axis(7, name="r")
    best = sl.compute((), lambda: sl.argmax(a[r], axis=r), name="best")
    values = np.array([1, 5, 2, 5, 0, 3, 4], "float32")
    assert interpret(lower_state(sl.schedule(best).state), [values]).outputs[0] == 1


def test_sizes_come_from_the_arguments():
    n = sl.var("n")
    a = sl.placeholder((n,), name="A")
    b = sl.compute((n,), lambda x: a[x] + 1, name="B")
    made = lower_state(sl.schedule(b).state)
    for size in (0, 1, 5):
        assert interpret(made, [np.zeros(size, "float32")]).outputs[0].tolist() == [1.0] * size


def test_wrong_arguments():
    made = nest([A], [C], loop(i, store(C, (i,), load(A, i))))
    with pytest.raises(CallError, match="takes 1 arguments, got 0"):
        interpret(made, [])
    with pytest.raises(CallError, match="A is float32"):
        interpret(made, [np.ones(8)])
    with pytest.raises(CallError, match="is not an order; choose one of"):
        interpret(made, [ONES], "sideways")


def test_loops_nest_deeper_than_python_allows():
    a = sl.placeholder((2,), name="A")
    chain = a
    for step in range(25):
        chain = sl.compute((2,), lambda x, t=chain: t[x] + 1, name=f"T{step}")
    s = sl.schedule(chain)
    names = [v.name for v in s.stages]
    for first, second in zip(names, names[1:]):
        s[first].compute_at(s[second], s[second].op.axis[0])
    run = interpret(lower_state(s.state), [np.zeros(2, "float32")])
    assert run.outputs[0].tolist() == [25.0, 25.0]
