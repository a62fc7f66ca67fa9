"""Passes over machine nests keep what a kernel computes, and the order of what must be in order."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from itertools import count
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import schedlang as sl
from schedlang.errors import BuildError, SchedlangError
from schedlang.expr.nodes import Var
from schedlang.intrinsics.dialect import NAMES
from schedlang.ir.interpret import cooperative, interpret
from schedlang.ir.nest import Nest
from schedlang.ir.nodes import Buffer
from schedlang.lowering.lower import lower_state
from schedlang.machine.identifiers import name_all
from schedlang.machine.lower import CPU_PASSES, arranged_nest
from schedlang.machine.nest import MachineNest
from schedlang.machine.nodes import (
    INDEX,
    Alloc,
    Array,
    Choice,
    For,
    Function,
    If,
    Let,
    Load,
    Num,
    Op,
    Reg,
    Stmt,
    Store,
    Type,
    Value,
)
from schedlang.machine.passes.elements import keep_elements
from schedlang.machine.passes.equal import find_repeated
from schedlang.machine.passes.job import Job
from schedlang.machine.passes.long_values import name_long_values
from schedlang.machine.passes.numbering import number_registers
from schedlang.machine.passes.offsets import name_offsets
from schedlang.machine.passes.outline import outline
from schedlang.machine.passes.rows import name_rows
from schedlang.machine.passes.serial import serial
from schedlang.machine.rewrite import with_values
from schedlang.machine.select.cpu import select_cpu
from schedlang.machine.verify import verify_machine
from schedlang.machine.walks import walk
from tests.fuzz.case import MOST_ITERATIONS, given_arrays, iterations
from tests.fuzz.graphs import build, random_graph
from tests.fuzz.inputs import arrays
from tests.fuzz.record import Case
from tests.fuzz.search import schedule_randomly
from tests.machine_interpreter import interpret_machine

FLOAT = Type("float32")
# arrays of four elements: arguments, and storage
A4, R4, S4 = (Array(name, Buffer(name, "float32", (4,))) for name in "ARS")
NARROW = sl.Target("cpu", vector_bytes=16, vector_registers=16)


def job() -> Job:
    numbers = count()

    def fresh(wanted: str) -> str:
        return f"{wanted}_{next(numbers)}"

    return Job("C", fresh, fresh)


def added(reg: Reg, array: Array, element: int) -> For:
    """Return a loop of two iterations that add an element to a register."""
    value = Op("+", reg, Load("load", array, Num(element), FLOAT), FLOAT)
    return For(Reg("i"), Num(2), (Let(reg, value),))


def doubled(array: Array, element: int, **more: Any) -> For:
    """Return a loop of four iterations that doubles an element and stores it in ``R`` as well."""
    at = Num(element)
    twice = Op("*", Load("load", array, at, FLOAT), Num(2.0, FLOAT), FLOAT)
    again = Store("store", R4, Reg("i"), Load("load", array, at, FLOAT))
    return For(Reg("i"), Num(4), (Store("store", array, at, twice), again), **more)


def kept_in(*body: Stmt, entry: str = "K") -> list[str]:
    """Return the names of the registers that the pass makes for elements of ``A`` and ``S``."""
    whole = MachineNest((Function("K", (A4, R4), body), Function("E", (A4, R4), ())))
    if entry == "K":
        whole = MachineNest(whole.functions[::-1])
    assert whole.entry.name == entry
    kept = keep_elements(whole, job())
    verify_machine(kept)
    arrays = []
    for nest in (whole, kept):
        arrays.append([np.arange(4, dtype="float32") + 1, np.zeros(4, "float32")])
        interpret_machine(nest, arrays[-1])
    np.testing.assert_array_equal(*arrays)
    registers = (s for f in kept.functions for s, _ in walk(f.body) if isinstance(s, Let))
    return sorted({s.reg.name for s in registers} - {"x"})


def test_an_element_that_each_iteration_reads_and_stores_is_a_register() -> None:
    assert kept_in(doubled(A4, 2)) == ["A_value_0"]
    outer = For(Reg("o"), Num(3), (doubled(A4, 2), If(Num(True, Type("bool")), (doubled(A4, 2),))))
    assert kept_in(outer) == ["A_value_0"]
    # one loop after the other: each of them keeps its element
    assert kept_in(doubled(A4, 2), doubled(A4, 1)) == ["A_value_0", "A_value_1"]


def test_an_element_stays_in_memory_where_others_may_use_it() -> None:
    x = Let(Reg("x", FLOAT), Load("load", A4, Reg("i"), FLOAT))
    loop = doubled(A4, 2)
    others: list[Stmt] = [
        For(Reg("i"), Num(4), (*loop.body, x)),
        For(Reg("i"), Num(4), (loop.body[1], Store("store", A4, Reg("i"), Num(1.0, FLOAT)))),
        # what an iteration reads, it stored itself
        For(Reg("i"), Num(4), (Store("store", A4, Num(2), Num(1.0, FLOAT)), *loop.body)),
        For(Reg("p"), Num(1), (loop,), parallel=True),
        doubled(A4, 2, function=True),
    ]
    assert [kept_in(other) for other in others] == [[]] * len(others)
    # another thread may call the function
    assert kept_in(loop, entry="E") == []


def test_an_element_of_a_thread_is_a_register() -> None:
    own = (Alloc(S4, Num(4), "stack"), Store("store", S4, Num(2), Num(1.0, FLOAT)), doubled(S4, 2))
    assert kept_in(For(Reg("p"), Num(1), own, parallel=True)) == ["S_value_0"]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int8"])
def test_the_state_of_a_filter_is_in_registers(dtype: str) -> None:
    def smoothed(x: Any) -> Any:
        y = np.zeros_like(x)
        a, b = x[0], x[1]
        for n in range(x.shape[0]):
            a, b = b + x[n], -a
            y[n] = a
        return y, b

    x = np.random.default_rng(3).integers(-1, 2, 257).astype(dtype)
    f = sl.jit(smoothed)
    for ours, expected in zip(f(x), smoothed(x)):
        np.testing.assert_allclose(ours, expected, rtol=1e-5)
    kept = [name for k in f.kernels for name in re.findall(r"\w+_value\b", str(k.machine_nest))]
    assert bool(kept) == (dtype != "int8")


def test_a_part_assigns_no_register_of_its_block() -> None:
    A = Array("A", Buffer("A", "float32", (64,)))
    acc, other = Reg("acc", FLOAT), Reg("other", FLOAT)
    loops: list[Stmt] = [added(acc, A, n) for n in range(24)]
    test = If(Op("<", Num(0), Num(1), Type("bool"), index=True), (Let(other, Num(1.0, FLOAT)),))
    block = (Let(acc, Num(0.0, FLOAT)), *loops, test, *(added(acc, A, n) for n in range(24, 60)),
             Store("store", A, Num(0), acc))  # fmt: skip
    outer = For(Reg("o"), Num(1), block)
    body = (Let(other, Num(0.0, FLOAT)), outer, Store("store", A, Num(1), other))
    entry = Function("K", (A,), body)
    nests = [MachineNest((entry,)), outline(MachineNest((entry,)), job())]
    found = []
    for nest in nests:
        verify_machine(nest)
        a = np.ones(64, "float32")
        interpret_machine(nest, [a])
        found.append(a)
    np.testing.assert_array_equal(found[0], found[1])
    assert found[0][0] == 120


def test_storage_comes_after_its_size() -> None:
    A = Array("A", Buffer("A", "float32", (64,)))
    S = Array("S", Buffer("S", "float32", (Var("n"),)))
    n, t, x = Reg("n"), Reg("t"), Reg("x", FLOAT)
    one = Num(1.0, FLOAT)
    loops = [For(Reg("i"), Num(1), (Store("store", A, Num(k), one),)) for k in range(60)]
    body = (*loops[:30], Let(t, Op("*", n, Num(2), index=True)), Alloc(S, t, "heap"),
            Let(x, Num(3.0, FLOAT)), Store("store", S, Num(1), x), *loops[30:])  # fmt: skip
    nest = outline(MachineNest((Function("K", (A, n), body),)), job())
    verify_machine(nest)
    assert len(nest.functions) > 1
    interpret_machine(nest, [np.zeros(64, "float32"), 4])


def test_storage_of_one_name_is_allocated_after_its_earlier_uses() -> None:
    A = Array("A", Buffer("A", "float32", (64,)))
    S, T = (Array("S", Buffer("S", "float32", (k,))) for k in (4, 5))
    n, x = Reg("n"), Reg("x", FLOAT)
    one, two = Num(1.0, FLOAT), Num(2.0, FLOAT)
    loops = [For(Reg("i"), Num(1), (Store("store", A, Num(k), one),)) for k in range(60)]
    read = For(Reg("i"), Num(1), (
        Let(x, Load("load", S, Num(1), FLOAT)), Store("store", A, Num(60), x)))  # fmt: skip
    write = For(Reg("i"), Num(1), (Store("store", S, Num(1), two),))
    body = (*loops[:20], Alloc(S, n, "heap"), write,
            *loops[20:30], read, Alloc(T, n, "heap"), *loops[30:])  # fmt: skip
    nest = outline(MachineNest((Function("K", (A, n), body),)), job())
    verify_machine(nest)
    assert len(nest.functions) > 1
    a = np.zeros(64, "float32")
    interpret_machine(nest, [a, 8])
    assert a[60] == 2


def test_copies_of_symbolic_storage_in_a_long_function() -> None:
    n = sl.var("n")
    A = sl.placeholder((n,), name="A")
    B = sl.compute((n,), lambda i: A[i] + 1, name="B")
    k = sl.reduce_axis(n, name="k")
    C = sl.compute((29, 3), lambda j, i: sl.sum(B[k] * j, axis=k), name="C")
    s = sl.schedule(C)
    s[C].unroll(C.op.axis[0])
    s[B].compute_at(s[C], C.op.axis[0])
    f = sl.build(s, target="python")
    assert len(f.machine_nest.functions) > 1 and str(f.machine_nest).count("heap") == 1
    a = np.arange(7, dtype="float32")
    np.testing.assert_array_equal(f(a), sl.reference(C)(a))


def test_storage_that_shares_a_name_with_storage_inside() -> None:
    A = sl.placeholder((3, 26), name="A")
    k = sl.reduce_axis(3, "k")
    C = sl.compute((9, 26), lambda i, j: sl.sum(A[k, j] + i, axis=k), name="C")
    E = sl.compute((9, 26), lambda i, j: C[i, j] * 2, name="E")
    s = sl.schedule(E)
    outer, _ = s[E].split(E.op.axis[0], factor=2, tail="cut")
    s[C].compute_at(s[E], outer)
    s[C].unroll(C.op.axis[1])
    a = np.ones((3, 26), "float32")
    f = sl.build(s, target="python")
    assert len(f.machine_nest.functions) > 1
    np.testing.assert_array_equal(f(a), sl.reference(E)(a))


def chain(length: int, last: str) -> sl.Schedule:
    """Return stages that each add a number to the previous one, with a pragma on the last."""
    tensor = sl.placeholder((64,), name="A")
    for k in range(length):
        source = tensor
        tensor = sl.compute((64,), lambda i, a=source, b=k: a[i] + b, name=f"T{k}")
    s = sl.schedule(tensor)
    if last:
        outer, lanes = s[tensor].split(tensor.op.axis[0], factor=16)
        s[tensor].vectorize(lanes)
        s[tensor].pragma(outer, last)
    return s


def test_a_fence_comes_after_the_stores() -> None:
    f = sl.build(chain(27, "nontemporal"))
    entry = f.source[f.source.index(f"def {f.machine_nest.entry.name}") :]
    lines = [line.strip() for line in entry.partition("def _array")[0].splitlines() if line.strip()]
    streams = [n for n, line in enumerate(lines) if "vstore_stream" in line or "_part" in line]
    assert lines.index("stream_fence()") > max(streams)


def test_a_hint_stays_behind_its_loop() -> None:
    source = sl.build(chain(30, "")).source
    hints = [m.start() for m in re.finditer(r"rolled\(\d", source)]
    assert len(hints) == 30 and "_part" in source
    for function in source.split("@njit")[1:]:
        lines = [line for line in function.splitlines() if line.strip()]
        for before, line in zip(lines, lines[1:]):
            assert "    rolled(" not in line or "store(" in before


def test_equal_loops_of_a_long_function_are_functions() -> None:
    tensor = sl.placeholder((64,), name="A")
    for k in range(30):
        # a third of the loops add numbers of their own
        step, source = 2 if k % 3 else 2 * k, tensor
        tensor = sl.compute((64,), lambda i, a=source, b=step: a[i] + b, name=f"T{k}")
    f = sl.build(sl.schedule(tensor), target="python")
    names = [function.name for function in f.machine_nest.functions]
    assert "T1_i" in names and "T2_i" in names and "T3_i" not in names
    a = np.arange(64, dtype="float32")
    np.testing.assert_array_equal(f(a), a + 2 * 20 + 2 * sum(range(0, 30, 3)))


def filled(name: str, number: float) -> For:
    """Return a loop that stores a number in each element of an array."""
    array = Array(name, Buffer(name, "float32", (8,)))
    index = Reg(f"{name}_i")
    return For(index, Num(8), (Store("store", array, index, Num(number, FLOAT)),))


def test_loops_are_equal_only_if_their_numbers_are() -> None:
    nan = float("nan")
    numbers = (0.0, -0.0, nan, nan, 1.0, 1, 0.0)
    found = find_repeated([filled(f"A{k}", number) for k, number in enumerate(numbers)])
    assert found == [True, False, True, True, False, False, True]


def test_loops_that_use_one_array_twice_equal_no_others() -> None:
    def copied(source: str, target: str) -> For:
        a, b = (Array(name, Buffer(name, "float32", (8,))) for name in (source, target))
        load = Load("load", a, Reg("i"), FLOAT)
        return For(Reg("i"), Num(8), (Store("store", b, Reg("i"), load),))

    loops = [copied("A", "B"), copied("B", "A"), copied("A", "A")]
    assert find_repeated(loops) == [True, True, False]


def test_a_serial_nest_has_no_parallel_loop() -> None:
    s = chain(2, "")
    s[s.outputs[0]].parallel(s.outputs[0].op.axis[0])
    nest = sl.build(s).machine_nest
    assert "parallel" in str(nest) and "parallel" not in str(serial(nest))


def test_storage_that_lives_on_shares_no_name_with_storage_inside() -> None:
    X = sl.placeholder((13,), name="X")
    P = sl.compute((9,), lambda j: X[j] * 2, name="P")
    T = sl.compute((7,), lambda i: P[i] + P[i + 2], name="T")
    C = sl.compute((5,), lambda i: T[6 - i] * T[i], name="C")
    s = sl.schedule(C)
    outer, _ = s[T].split(T.op.axis[0], factor=3, tail="cut")
    s[C].unroll(C.op.axis[0])
    s[T].compute_at(s[C], C.op.axis[0])
    s[P].compute_at(s[T], outer)
    f = sl.build(s, target="python")
    assert {line.split(":")[0].strip() for line in str(f.machine_nest).splitlines()
            if "stack" in line} == {"T", "P", "P_1"}  # fmt: skip
    x = np.arange(13, dtype="float32")
    np.testing.assert_array_equal(f(x), sl.reference(C)(x))


def test_rows_that_statements_share_are_named_once() -> None:
    """The offset of a row is named in the loop that determines it, if it is used twice."""
    A, B = (Array(n, Buffer(n, "float32", (64,))) for n in "AB")
    y, x, k = (Reg(n) for n in ("y", "x", "k"))

    def row(of: Reg | Op) -> Op:
        return Op("*", Op("%", of, Num(4), index=True), Num(8), index=True)

    def copied(to: Op | Reg, source: Op | Reg) -> Store:
        element = Load("load", A, Op("+", source, x, index=True), FLOAT)
        return Store("store", B, Op("+", to, x, index=True), element)

    # k changes between its uses, so its rows have no common value; that of y + 1 is used once
    after = row(Op("+", y, Num(1), index=True))
    change = Let(k, Op("+", k, Num(1), index=True))
    inner = For(
        x, Num(8), (copied(row(y), row(y)), copied(row(k), after), change, copied(row(k), row(y)))
    )
    body = (Let(k, Num(0)), For(y, Num(4), (inner,)))
    plain = MachineNest((Function("K", (A, B), body),))
    named = name_rows(plain, job())
    verify_machine(named)
    assert str(named) == """K(A: float32[], B: float32[]):
  k: int64 = 0
  for y in 0..4:
    row_0: int64 = y%4*8
    for x in 0..8:
      store(B, row_0 + x, load(A, row_0 + x))
      store(B, k%4*8 + x, load(A, (y + 1)%4*8 + x))
      k = k + 1
      store(B, k%4*8 + x, load(A, row_0 + x))"""
    found = []
    for nest in (plain, named):
        a, b = np.arange(64, dtype="float32"), np.zeros(64, "float32")
        interpret_machine(nest, [a, b])
        found.append(b)
    np.testing.assert_array_equal(*found)
    # a nest without rows stays as it is
    empty = Function("K", (A, B), (Store("store", B, Num(0), Num(1.0, FLOAT)),))
    assert name_rows(MachineNest((empty,)), job()).functions == (empty,)


def test_the_source_of_a_window_names_its_rows() -> None:
    X = sl.placeholder((18, 20), name="X")
    H = sl.compute((18, 20), lambda i, j: X[i, j] * 2, name="H")
    V = sl.compute((16, 20), lambda i, j: H[i, j] + H[i + 1, j] + H[i + 2, j], name="V")
    s = sl.schedule(V)
    s[H].compute_at(s[V], V.op.axis[0])
    s[H].store_root()
    for T in (H, V):
        s[T].vectorize(s[T].split(T.op.axis[1], factor=8)[1])
    f = sl.build(s, target="python")
    x = np.random.default_rng(0).random((18, 20), dtype="float32")
    np.testing.assert_allclose(f(x), 2 * (x[:-2] + x[1:-1] + x[2:]), rtol=1e-6)
    # the loop over whole vectors and the rest of 4 elements share the rows
    rows = [line.strip() for line in f.source.splitlines() if "%4*20" in line]
    assert rows == ["row = i%4*20", "row_1 = (i + 1)%4*20", "row_2 = (i + 2)%4*20",
                    "row_3 = (i + H_i)%4*20"]  # fmt: skip


def test_a_row_that_data_decide_is_read_where_it_is_used() -> None:
    """At the start of a function or a loop, the element may not be stored yet, or out of bounds."""
    I = sl.placeholder((16,), "int64", name="I")  # noqa: E741
    B = sl.placeholder((16, 40), name="B")
    J = sl.compute((16,), lambda i: I[i] * 3, name="J")
    stored = sl.compute((16, 40), lambda i, j: B[J[0] % 4, j] + B[J[0] % 4, 39 - j], name="C")
    n, zero = sl.var("n"), sl.compute((16,), lambda i: 0 * I[i], name="zero")
    tested = sl.compute(
        (16, 40), lambda i, j: sl.if_then_else(n > 0, B[5 % n, j] + B[5 % n, zero[0]], 7.0),
        name="D",
    )  # fmt: skip
    given = np.arange(3, 19)
    b = np.random.default_rng(0).random((16, 40), dtype="float32")
    f = sl.build(sl.schedule(stored), [I, B, stored], target="python")
    row = b[given[0] * 3 % 4]
    np.testing.assert_array_equal(f(given, b), np.tile(row + row[::-1], (16, 1)))
    g = sl.build(sl.schedule(tested), [I, B, n, tested], target="python")
    np.testing.assert_array_equal(g(given, b, 0), np.full((16, 40), 7, "float32"))
    np.testing.assert_array_equal(g(given, b, 4), np.tile(b[1] + b[1, 0], (16, 1)))


def index(op: str, a: Value, b: Value) -> Op:
    return Op(op, a, b, index=True)


def outcome(nest: MachineNest, *arrays: np.ndarray) -> list[np.ndarray]:
    """Return the flat ``arrays`` after ``nest`` has run on copies of them."""
    verify_machine(nest)
    copies = [array.copy() for array in arrays]
    interpret_machine(nest, copies)
    return copies


def assert_same(before: MachineNest, after: MachineNest, *arrays: np.ndarray) -> None:
    for one, other in zip(outcome(before, *arrays), outcome(after, *arrays)):
        np.testing.assert_array_equal(one, other)


def test_offsets_that_accesses_have_in_common_are_named_once() -> None:
    """An update has one offset, copies have one base; a register does not live through a loop."""
    A, C = (Array(n, Buffer(n, "float32", (4096,))) for n in "AC")
    y, x, k = (Reg(n) for n in ("row", "col", "k"))
    base = index("+", index("*", y, Num(256)), index("*", x, Num(16)))
    apart = index("+", index("*", x, Num(256)), index("*", y, Num(16)))
    places = [base, index("+", base, Num(1)), index("+", base, Num(2))]
    loads = [Load("load", A, at, FLOAT) for at in places]
    copies = [Store("store", C, at, element) for at, element in zip(places, loads)]
    update = Store("store", C, apart, Op("+", Load("load", C, apart, FLOAT), loads[0], FLOAT))
    loop = For(k, Num(2), (update,))
    short = index("*", y, Num(2))
    last = Store("store", C, short, Op("*", Load("load", C, short, FLOAT), loads[1], FLOAT))
    body = (For(y, Num(4), (For(x, Num(4), (*copies, loop, last)),)),)
    before = MachineNest((Function("K", (A, C), body),))
    after = name_offsets(before, job())
    assert str(after) == """K(A: float32[], C: float32[]):
  for row in 0..4:
    for col in 0..4:
      A_at_0: int64 = row*256 + col*16
      store(C, A_at_0, load(A, A_at_0))
      store(C, A_at_0 + 1, load(A, A_at_0 + 1))
      store(C, A_at_0 + 2, load(A, A_at_0 + 2))
      for k in 0..2:
        C_at_1: int64 = col*256 + row*16
        store(C, C_at_1, load(C, C_at_1) + load(A, A_at_0))
      store(C, row*2, load(C, row*2) * load(A, row*256 + col*16 + 1))"""
    a, c = np.arange(4096, dtype="float32"), np.ones(4096, "float32")
    assert_same(before, after, a, c)


def test_an_offset_that_changes_is_named_for_one_statement() -> None:
    """The second statement reads another index, since the first one stores to the array of it."""
    I = Array("I", Buffer("I", "int64", (4,)))  # noqa: E741
    C = Array("C", Buffer("C", "float32", (64,)))
    at = index("+", index("*", Load("load", I, Num(0), INDEX), Num(16)), Num(3))
    one = Num(1.0, FLOAT)
    update = Store("store", C, at, Op("+", Load("load", C, at, FLOAT), one, FLOAT))
    moved = Store("store", I, Num(0), Num(2))
    before = MachineNest((Function("K", (I, C), (update, moved, update)),))
    after = name_offsets(before, job())
    assert str(after) == """K(I: int64[], C: float32[]):
  C_at_0: int64 = load(I, 0)*16 + 3
  store(C, C_at_0, load(C, C_at_0) + float32(1))
  store(I, 0, 2)
  C_at_1: int64 = load(I, 0)*16 + 3
  store(C, C_at_1, load(C, C_at_1) + float32(1))"""
    assert_same(before, after, np.ones(4, "int64"), np.zeros(64, "float32"))


def test_an_offset_of_a_choice_alone_stays_in_it() -> None:
    """The offset may divide by 0 where the test fails."""
    A = Array("A", Buffer("A", "float32", (64,)))
    n = Reg("n")
    at = index("*", index("+", index("//", Num(40), n), index("%", n, Num(3))), Num(2))
    element = Load("load", A, at, FLOAT)
    tested = Op(">", n, Num(0), Type("bool"), index=True)
    both = Op("+", element, Load("load", A, at, FLOAT), FLOAT)
    value = Choice(tested, both, Num(0.0, FLOAT), FLOAT)
    before = MachineNest((Function("K", (A, n), (Store("store", A, Num(0), value),)),))
    assert name_offsets(before, job()).functions[0].body[0] is before.functions[0].body[0]


def long_sum(A: Array, terms: int, dtype: Type = FLOAT) -> Value:
    found: Value = Load("load", A, Num(0), dtype)
    for n in range(1, terms):
        found = Op("+", found, Load("load", A, Num(n), dtype), dtype)
    return found


def test_values_too_long_for_a_line_get_registers() -> None:
    A = Array("A", Buffer("A", "float32", (64,)))
    before = MachineNest((Function("K", (A,), (Store("store", A, Num(0), long_sum(A, 14)),)),))
    after = name_long_values(before, job())
    assert str(after) == """K(A: float32[]):
  t_0: float32 = load(A, 0) + load(A, 1) + load(A, 2) + load(A, 3) + load(A, 4) + load(A, 5)
  t_1: float32 = t_0 + load(A, 6) + load(A, 7) + load(A, 8) + load(A, 9) + load(A, 10)
  store(A, 0, t_1 + load(A, 11) + load(A, 12) + load(A, 13))"""
    assert_same(before, after, np.arange(64, dtype="float32"))


def test_a_very_long_value_is_cut_without_recursion() -> None:
    A = Array("A", Buffer("A", "float32", (5000,)))
    nest = MachineNest((Function("K", (A,), (Store("store", A, Num(0), long_sum(A, 5000)),)),))
    a = np.ones(5000, "float32")
    assert outcome(name_long_values(nest, job()), a)[0][0] == 5000


def test_a_long_side_of_a_choice_is_a_branch() -> None:
    """A register outside of the branch would read what the test keeps from being read."""
    A = Array("A", Buffer("A", "float32", (10,)))
    n = Reg("n")
    tested = Op("<", n, Num(1), Type("bool"), index=True)
    choice = Choice(tested, Num(7.0, FLOAT), long_sum(A, 14), FLOAT)
    before = MachineNest((Function("K", (A, n), (Store("store", A, Num(0), choice),)),))
    after = name_long_values(before, job())
    assert str(after) == """K(A: float32[], n: int64):
  if n < 1:
    t_2: float32 = float32(7)
  else:
    t_0: float32 = load(A, 0) + load(A, 1) + load(A, 2) + load(A, 3) + load(A, 4) + load(A, 5)
    t_1: float32 = t_0 + load(A, 6) + load(A, 7) + load(A, 8) + load(A, 9) + load(A, 10)
    t_2: float32 = t_1 + load(A, 11) + load(A, 12) + load(A, 13)
  store(A, 0, t_2)"""
    a = np.zeros(10, "float32")
    verify_machine(after)
    interpret_machine(after, [a, 0])
    assert a[0] == 7


def test_equal_long_indices_share_a_register_unless_they_change() -> None:
    A = Array("A", Buffer("A", "float32", (4096,)))
    k, y = Reg("k"), Reg("y")

    def far(reg: Reg) -> Value:
        total: Value = index("%", reg, Num(2))
        for n in range(3, 14):
            total = index("+", total, index("%", reg, Num(n)))
        return total

    def copied(reg: Reg, to: int) -> Store:
        value = Load("load", A, index("+", far(reg), Num(to)), FLOAT)
        return Store("store", A, Num(to), value)

    change = Let(k, index("+", k, Num(1)))
    inner = (copied(y, 0), copied(y, 1), copied(k, 2), change, copied(k, 3))
    body = (Let(k, Num(5)), For(y, Num(3), inner))
    before = MachineNest((Function("K", (A,), body),))
    after = name_long_values(before, job())
    lines = [line.strip() for line in str(after).splitlines() if line.strip().startswith("t_")]
    assert sum("y%2" in line for line in lines) == 1 and sum("k%2" in line for line in lines) == 2
    assert_same(before, after, np.arange(4096, dtype="float32"))


def test_more_blocks_than_python_nests_are_refused() -> None:
    A = Array("A", Buffer("A", "float32", (4,)))
    body: tuple[Stmt, ...] = (Store("store", A, Num(0), Num(1.0, FLOAT)),)
    for _ in range(96):
        body = (If(Op("<", Num(0), Num(1), Type("bool"), index=True), body),)
    with pytest.raises(BuildError, match="nests more than 96 choices and loops"):
        name_long_values(MachineNest((Function("K", (A,), body),)), job())


def test_registers_are_numbered_in_the_order_of_statements() -> None:
    A = Array("A", Buffer("A", "float32", (4,)))
    t, t_1, t_2, tx = (Reg(name, FLOAT) for name in ("t", "t_1", "t_2", "tx"))
    test = Op("<", Num(0), Num(1), Type("bool"), index=True)
    branch = If(test, (Let(t, t_2), Let(t_1, Op("+", t, t, FLOAT))), (Let(t_1, tx),), result=t_1)
    body = (Let(tx, Num(2.0, FLOAT)), Let(t_2, tx), branch, Store("store", A, Num(1), t_1))
    before = MachineNest((Function("K", (A,), body),))
    after = number_registers(before, job())
    assert str(after) == """K(A: float32[]):
  tx: float32 = float32(2)
  t: float32 = tx
  if 0 < 1:
    t_1: float32 = t
    t_2: float32 = t_1 + t_1
  else:
    t_2: float32 = tx
  store(A, 1, t_2)"""
    assert_same(before, after, np.zeros(4, "float32"))
    assert number_registers(after, job()) is after


def test_an_array_that_is_named_like_a_register_has_no_number() -> None:
    A = sl.placeholder((16,), "float32", name="A")
    B = sl.compute((16,), lambda i: A[i] * 2, name="t_4")

    def body(i: Any) -> Any:
        e = sl.exp(B[i])
        f = e * e + B[i]
        g = f * f + e
        return g * g * f + g + f

    C = sl.compute((16,), body, name="C")
    kernel = sl.build(sl.create_schedule(C), [A, C])
    assert "t_4[i] = A[i] * 2" in kernel.source
    assert not re.search(r"\bt_4 = (?!stack_array)", kernel.source)
    x = np.linspace(-1, 1, 16, dtype="float32")
    np.testing.assert_allclose(kernel(x), sl.reference(C)(x), rtol=1e-5)


def machine_arguments(
    nest: Nest, inputs: Sequence[Any], shapes: Sequence[tuple[int, ...]], sizes: Mapping[str, int]
) -> tuple[list[Any], list[np.ndarray]]:
    """Return the arguments of a machine nest, as flat arrays, and the outputs among them."""
    left, sides = iter(inputs), dict(zip(nest.outputs, shapes))
    args: list[Any] = []
    outputs: list[np.ndarray] = []
    for arg in nest.args:
        if isinstance(arg, Var):
            args.append(np.dtype(arg.dtype).type(next(left)))
            continue
        value = np.zeros(sides[arg], arg.dtype) if arg in sides else next(left)
        flat = np.ascontiguousarray(value).reshape(-1)
        if arg in sides:
            outputs.append(flat)
        args.append(flat.view("uint16") if arg.dtype == "float16" else flat)
    return [*args, *(sizes[v.name] for v in nest.sizes)], outputs


@settings(max_examples=6, deadline=None)
@given(st.integers(0, 2**20))
def test_each_pass_keeps_what_a_random_schedule_computes(seed: int) -> None:
    rng = Random(seed)
    case = Case(str(seed), random_graph(rng))
    space = build(case.graph)
    outputs = [space[name] for name in case.graph.outputs]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            s = schedule_randomly(rng, case, outputs, False)
            nest = arranged_nest(lower_state(s.state), NARROW)
            names = name_all(nest, NAMES)
            entry, function_name = select_cpu(nest, nest.body, names, NARROW, "K")
        except SchedlangError:
            return
    if cooperative(nest) or iterations(nest, case.graph.sizes) > MOST_ITERATIONS // 100:
        return
    values = arrays(case.graph, seed, case.graph.sizes)
    given_ = given_arrays(nest, values, case.graph.sizes)
    shapes = [a.shape for a in interpret(nest, given_, complete=False).outputs]
    made, passes = MachineNest((entry,), names.known()), Job("K", names.fresh, function_name)
    wanted = None
    for run in (None, *CPU_PASSES):
        made = made if run is None else run(made, passes)
        args, found = machine_arguments(nest, given_, shapes, case.graph.sizes)
        interpret_machine(made, args)
        wanted = found if wanted is None else wanted
        for one, other in zip(found, wanted):
            np.testing.assert_array_equal(one, other, err_msg=getattr(run, "__name__", ""))
    verify_machine(made)


def test_both_ends_of_a_trimmed_loop_are_replaced() -> None:
    i, n, m = (Reg(name) for name in "inm")
    loop = For(i, n, (), start=m)
    made = with_values(loop, [n, m])
    assert isinstance(made, For) and (made.start, made.stop) == (n, m)
    from_zero = with_values(For(i, n, ()), [Num(0), m])
    assert isinstance(from_zero, For) and from_zero.from_zero and from_zero.stop == m


def test_registers_with_long_names_stay() -> None:
    """Two registers whose names fill a line cannot be shortened by registers."""
    a, b = (Reg(letter * 60, Type("float32")) for letter in "ab")
    X = Array("X", Buffer("X", "float32", (4,)))
    lets = [Let(reg, Load("load", X, Num(k), Type("float32"))) for k, reg in enumerate((a, b))]
    store = Store("store", X, Num(3), Op("+", a, b, Type("float32")))
    nest = MachineNest((Function("K", (X,), (*lets, store)),))
    after = name_long_values(nest, job())
    x = np.arange(4, dtype="float32")
    interpret_machine(after, [x])
    assert x[3] == 0 + 1
