"""Passes over machine nests keep what a kernel computes, and the order of what must be in order."""

from __future__ import annotations

import re
from itertools import count

import numpy as np

import schedlang as sl
from schedlang.expr.nodes import Var
from schedlang.ir.nodes import Buffer
from schedlang.machine.interpret import interpret_machine
from schedlang.machine.nest import MachineNest
from schedlang.machine.nodes import (
    Alloc,
    Array,
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
)
from schedlang.machine.passes.equal import repeated
from schedlang.machine.passes.job import Job
from schedlang.machine.passes.outline import outline
from schedlang.machine.passes.rows import name_rows
from schedlang.machine.passes.serial import serial
from schedlang.machine.verify import verify_machine

FLOAT = Type("float32")


def job() -> Job:
    numbers = count()
    return Job("C", lambda wanted: f"{wanted}_{next(numbers)}")


def added(reg: Reg, array: Array, element: int) -> For:
    """Return a loop of two iterations that add an element to a register."""
    value = Op("+", reg, Load("load", array, Num(element), FLOAT), FLOAT)
    return For(Reg("i"), Num(2), (Let(reg, value),))


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
    found = repeated([filled(f"A{k}", number) for k, number in enumerate(numbers)])
    assert found == [True, False, True, True, False, False, True]


def test_loops_that_use_one_array_twice_equal_no_others() -> None:
    def copied(source: str, target: str) -> For:
        a, b = (Array(name, Buffer(name, "float32", (8,))) for name in (source, target))
        load = Load("load", a, Reg("i"), FLOAT)
        return For(Reg("i"), Num(8), (Store("store", b, Reg("i"), load),))

    assert repeated([copied("A", "B"), copied("B", "A"), copied("A", "A")]) == [True, True, False]


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
