"""Tests of ``sl.cost``: formulas, counts of known programs, sizes, text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sympy

import schedlang as sl
from schedlang.errors import ComputeError, ComputeTypeError, LoweringError
from schedlang.ir.interpret import interpret
from schedlang.lowering.lower import lower_state
from tests.graphs import chain, product, recurrence, scaled


def sizes(text: str) -> list[Any]:
    return [sl.var(name) for name in text.split()]


def test_a_product_in_symbolic_sizes() -> None:
    M, N, K = sizes("M N K")
    found = sl.cost(product(M, N, K)[2])
    m, n, k = (sympy.Symbol(name, integer=True, positive=True) for name in "MNK")
    assert found.flops == 2 * m * n * k
    assert found.bytes == 4 * (m * k + k * n + m * n)
    assert found.intensity == found.flops / found.bytes
    assert set(found.symbols) == {m, n, k} and found.notes == ()


def test_a_product_in_numbers() -> None:
    found = sl.cost(product(64, 48, 32)[2])
    assert isinstance(found.flops, sympy.Integer) and found.flops == 2 * 64 * 48 * 32
    assert found.bytes == 4 * (64 * 32 + 32 * 48 + 64 * 48)
    assert found.intensity == sympy.Rational(2 * 64 * 48 * 32, 4 * (64 * 32 + 32 * 48 + 64 * 48))


def test_a_size_converts_to_its_symbol() -> None:
    (n,) = sizes("n")
    found = sl.cost(scaled(n)[1])
    assert found.flops.subs({n: 1000}) == 1000 and found.bytes.subs(n, 10) == 80
    assert sympy.sympify((n + 31) // 32).subs(n, 33) == 2
    assert sympy.diff(found.bytes, n) == 8


def test_every_expression_has_a_form_in_sympy() -> None:
    x, n = sl.var("x", "float32"), sl.var("n")
    A = sl.placeholder((8,), name="A")
    assert sympy.diff(sympy.sympify(sl.exp(x) * x), x).subs(x, 0) == 1
    assert str(sympy.sympify(A[n % 3] * 2)) == "2*A[Mod(n, 3)]"
    assert sympy.sympify(sl.select(n > 3, n, 0)).subs(n, 5) == 5
    assert sympy.sympify(sl.max(n, 4)).subs(n, 2) == 4
    assert str(sympy.sympify(sl.sigmoid(x))) == "sigmoid(x)"


def test_at_replaces_sizes_by_name_by_size_and_by_symbol() -> None:
    M, N, K = sizes("M N K")
    found = sl.cost(sl.schedule(product(M, N, K)[2]))
    whole = found.at(M=8, N=4, K=2)
    assert whole.flops == 128 and whole.symbols == () and whole.loads == 3 * 64
    assert [b.loads for b in whole.buffers] == [64, 64, 64]
    part = found.at({M: 8, sympy.Symbol("K", integer=True, positive=True): 4})
    assert [s.name for s in part.symbols] == ["N"] and part.flops.subs({N: 3}) == 192
    assert found.at(M=sympy.Symbol("q")).flops.has(sympy.Symbol("q"))


def test_sizes_are_checked() -> None:
    (n,) = sizes("n")
    found = sl.cost(scaled(n)[1])
    with pytest.raises(ComputeError, match="its sizes are n"):
        found.at(m=3)
    with pytest.raises(ComputeError, match="sizes above 0"):
        found.at(n=0)
    with pytest.raises(ComputeError, match="0 or more"):
        sl.cost(scaled(n)[1], sizes={"n": -1})
    with pytest.raises(ComputeError, match="its sizes are n"):
        sl.cost(scaled(n)[1], sizes={"k": 1})
    with pytest.raises(ComputeError, match="no symbolic sizes"):
        sl.cost(scaled(3)[1], sizes={"k": 1})
    assert sl.cost(scaled(n)[1], sizes={n: 0}).bytes == 0
    assert sl.cost(scaled(n)[1], sizes={n: 0}).intensity is sympy.nan


def test_what_has_no_cost_is_refused() -> None:
    for wrong in (3, "C", None, [1], sl.schedule(scaled(4)[1])["B"]):
        with pytest.raises(ComputeTypeError, match="not a tensor, a list of tensors or a schedule"):
            sl.cost(wrong)
    with pytest.raises(ComputeTypeError, match="at least one"):
        sl.cost([])
    A, B, C = chain(8)
    D = sl.compute((8,), lambda i: B[i] * C[i], name="D")
    s = sl.schedule([C, D])
    s[B].compute_at(s[C], C.op.axis[0])
    with pytest.raises(LoweringError):
        sl.cost(s)


def test_a_kernel_costs_what_its_schedule_does() -> None:
    s = sl.schedule(scaled(8)[1])
    assert sl.cost(sl.build(s, target="python")) == sl.cost(s)


@pytest.mark.parametrize(
    "body, flops",
    [
        (lambda x: x * 2 + 1, 2), (lambda x: -x, 1), (lambda x: x / 3, 1), (lambda x: x**2, 1),
        (lambda x: sl.exp(x), 1), (lambda x: sl.max(x, 0.0), 1), (lambda x: sl.abs(x), 1),
        (lambda x: sl.select(x > 0, x, 0.0), 1), (lambda x: sl.cast(x, "float64"), 0),
        (lambda x: x, 0), (lambda x: sl.sigmoid(x) * x, 2),
    ],
)  # fmt: skip
def test_operations_that_count(body: Any, flops: int) -> None:
    A = sl.placeholder((10,), name="A")
    found = sl.cost(sl.schedule(sl.compute((10,), lambda i: body(A[i]), name="B")))
    assert found.flops == found.executed == 10 * flops


def test_indices_and_logic_are_free_and_bits_are_not() -> None:
    P = sl.placeholder((16,), "bool", name="P")
    U = sl.placeholder((16,), "uint8", name="U")
    assert sl.cost(sl.compute((8,), lambda i: P[i * 2] & ~P[i + 1], name="B")).flops == 0
    assert sl.cost(sl.compute((8,), lambda i: (U[i * 2] >> 2) & 3, name="B")).flops == 16


def test_reductions_count_one_for_each_value() -> None:
    A, k = sl.placeholder((8, 9), name="A"), sl.reduce_axis(9, name="k")
    for reduced in (sl.sum, sl.max, sl.prod, sl.argmax, sl.argmin):
        C = sl.compute((8,), lambda i, r=reduced: r(A[i, k], axis=k), name="C")
        found = sl.cost(sl.schedule(C))
        assert found.flops == found.executed == 72, reduced


def test_a_triangular_where_has_a_formula() -> None:
    (n,) = sizes("n")
    A, k = sl.placeholder((n, n), name="A"), sl.reduce_axis(n, name="k")
    C = sl.compute((n,), lambda i: sl.sum(A[i, k], axis=k, where=k <= i), name="C")
    found = sl.cost(C)
    assert found.notes == ()
    for size in (1, 2, 5, 64):
        assert found.at(n=size).flops == size * (size + 1) // 2
        assert sl.cost(C, sizes={n: size}).flops == size * (size + 1) // 2


def test_an_axis_whose_row_follows_from_another_counts_whole() -> None:
    (n,) = sizes("n")
    A = sl.placeholder((n,), name="A")
    k, m = (sl.reduce_axis(n, name=name) for name in "km")
    where = [lambda i: (k <= i) & (k <= i + m), lambda i: (k <= i + m) & (k <= i)]
    for cond in where:
        C = sl.compute((n,), lambda i, w=cond: sl.sum(A[k], axis=[k, m], where=w(i)), name="C")
        found, size = sl.cost(C), sympy.Symbol("n", integer=True, positive=True)
        assert sympy.expand(found.flops - size**2 * (size + 1) / 2) == 0 and found.notes == ()
        assert sl.cost(C, sizes={n: 10}).flops == 550


def test_a_step_of_zero_has_a_formula() -> None:
    (n,) = sizes("n")
    A = sl.placeholder((n,), name="A")
    B = sl.compute((n,), lambda i: A[i] * 2, name="B")
    C = sl.compute((sl.max(n - 2, 0),), lambda i: B[i] + B[i + 2], name="C")
    s = sl.schedule(C)
    outer, _ = s[C].split(C.op.axis[0], nparts=3)
    s[B].compute_at(s[C], outer)
    found = sl.cost(s)
    for size in (1, 2, 3, 20):
        assert found.at(n=size).loads == sl.cost(s, sizes={n: size}).loads


def test_storage_of_a_loop_that_never_runs_is_not_allocated() -> None:
    (n,) = sizes("n")
    A, B = scaled(n)
    C = sl.compute((n,), lambda i: B[i] + 1, name="C")
    s = sl.schedule(C)
    outer, _ = s[C].split(C.op.axis[0], factor=8, tail="cut")
    s[B].compute_at(s[C], outer)
    found = sl.cost(s)
    for size, wanted in ((5, 28), (7, 28), (8, 32), (9, 32)):
        assert found.at(n=size).allocated == sl.cost(s, sizes={n: size}).allocated == wanted


def test_no_count_is_negative() -> None:
    (n,) = sizes("n")
    A = sl.placeholder((n,), name="A")
    C = sl.compute((n - 2,), lambda i: A[i] + A[i + 2], name="C")
    found = sl.cost(sl.schedule(C)).at(n=1)
    assert (found.flops, found.loads, found.stores, found.bytes) == (0, 0, 0, 4)


@pytest.mark.parametrize(
    "extent, cond, wanted",
    [
        (10**10, lambda k, i: k * 9 * 10**8 <= i * 4 * 10**18, 1 + 4444444445 + 8888888889),
        (3 << 22, lambda k, i: k * 2**39 <= i * 2**61, 1 + (1 << 22) + 1 + (1 << 23) + 1),
        (9, lambda k, i: k % 3 * 2**61 <= i * 2**61 - 1, 3 + 6),
        (9, lambda k, i: (k * 2**59 < i * 2**60) | (k * 2**58 == 2**60), 2 + 4 + 3),
    ],
)
def test_conditions_whose_numbers_reach_64_bits(extent: int, cond: Any, wanted: int) -> None:
    A, k = sl.placeholder((3,), name="A"), sl.reduce_axis(extent, name="k")
    C = sl.compute((3,), lambda i: sl.sum(A[i], axis=k, where=cond(k, i)), name="C")
    found = sl.cost(C)
    assert found.flops == wanted and found.notes == ()


def test_a_formula_counts_numbers_that_are_too_many_to_try() -> None:
    N = 10**10
    A, k = sl.placeholder((N,), name="A"), sl.reduce_axis(N, name="k")
    C = sl.compute((N,), lambda i: sl.sum(A[k], axis=k, where=k <= i), name="C")
    assert sl.cost(C).flops == N * (N + 1) // 2 and sl.cost(C).notes == ()


def test_sizes_that_are_no_mapping_are_refused() -> None:
    (n,) = sizes("n")
    s = sl.schedule(scaled(n)[1])
    for wrong in (8, [n], "n"):
        with pytest.raises(ComputeTypeError, match=r"(?s)sizes=.*not a mapping.*sizes={n: 8}"):
            sl.cost(s, sizes=wrong)  # type: ignore[arg-type]
        with pytest.raises(ComputeTypeError, match=r"(?s)at\(.*not a mapping.*at\({n: 8}\)"):
            sl.cost(s).at(wrong)  # type: ignore[arg-type]


def test_a_condition_on_elements_is_an_upper_bound_and_says_so() -> None:
    A, k = sl.placeholder((8,), name="A"), sl.reduce_axis(8, name="k")
    C = sl.compute((4,), lambda i: sl.sum(A[k], axis=k, where=A[k] > 0), name="C")
    found = sl.cost(sl.schedule(C))
    assert found.flops == 4 * 8 * 2 and found.notes == ("as if A[k] > 0 always held",)
    assert "an upper bound: as if A[k] > 0 always held" in str(found)


def test_a_scan_counts_the_rows_that_it_computes() -> None:
    g = recurrence()
    found = sl.cost(g["s"])
    assert found.flops == found.executed == 4 * 4 * 2 + 5 * 4
    assert found.bytes == 2 * 5 * 4 * 4, "the state is no input"


def test_inputs_and_outputs_move_once() -> None:
    A, B, C = chain(8)
    assert sl.cost(C).bytes == 4 * (10 + 8)
    assert sl.cost([B, C]).bytes == 4 * (10 + 10 + 8)
    P = sl.placeholder((6,), "bool", name="P")
    assert sl.cost(sl.compute((6,), lambda i: ~P[i], name="N")).bytes == 12
    assert sl.cost(A).bytes == 40 and sl.cost(A).flops == 0


def lesson_8(place: str) -> Any:
    """Return Halide's lesson 8: the producer ``sin(x*y)`` of a 2 by 2 box filter over 4 by 4."""
    P = sl.compute((5, 5), lambda y, x: sl.sin(sl.cast(x * y, "float32")), name="producer")
    C = sl.compute(
        (4, 4), lambda y, x: (P[y, x] + P[y, x + 1] + P[y + 1, x] + P[y + 1, x + 1]) / 4,
        name="consumer",
    )  # fmt: skip
    s = sl.schedule(C)
    y, x = C.op.axis
    if place == "inline":
        s[P].compute_inline()
    elif place in ("y", "x"):
        s[P].compute_at(s[C], y if place == "y" else x)
    elif place.startswith("store"):
        s[P].compute_at(s[C], x if place.endswith("x") else y)
        s[P].store_root()
    elif place == "tiles":
        yo, xo, _, _ = s[C].tile(y, x, 2, 2)
        s[P].compute_at(s[C], xo)
    return s


@pytest.mark.parametrize(
    "place, stores, loads, sines, allocated",
    [
        ("root", 25, 64, 25, 100), ("inline", 0, 0, 64, 0), ("y", 40, 64, 40, 40),
        ("x", 64, 64, 64, 16), ("store, y", 25, 64, 25, 40), ("store, x", 25, 64, 25, 40),
        ("tiles", 36, 64, 36, 36),
    ],
)  # fmt: skip
def test_the_schedules_of_halide_s_lesson_8(
    place: str, stores: int, loads: int, sines: int, allocated: int
) -> None:
    found = sl.cost(lesson_8(place))
    producer = next((b for b in found.buffers if b.name == "producer"), None)
    assert (0 if producer is None else producer.stores) == stores
    assert found.loads == loads and found.allocated == allocated
    # 4 operations a point of the consumer, one sine a point of the producer
    assert found.executed == 16 * 4 + sines and found.flops == 16 * 4 + 25
    assert found.stores == 16 + stores


def counted(s: sl.Schedule, *arrays: np.ndarray) -> tuple[int, int]:
    run = interpret(lower_state(s.state), arrays)
    return sum(run.loads.values()), sum(run.stores.values())


def test_tails_and_edges_of_boxes() -> None:
    A, B, C = chain(98)
    s = sl.schedule(C)
    outer, _ = s[C].split(C.op.axis[0], factor=32, tail="guard")
    s[B].compute_at(s[C], outer)
    found = sl.cost(s)
    assert (found.loads, found.stores) == counted(s, np.zeros(100, "float32"))
    assert found.executed > found.flops


@pytest.mark.parametrize("factor", [3, 8])
def test_tails_and_edges_of_symbolic_boxes_have_formulas(factor: int) -> None:
    n = sl.var("n")
    A, B, C = chain(n)
    s = sl.schedule(C)
    outer, _ = s[C].split(C.op.axis[0], factor=factor)
    s[B].compute_at(s[C], outer)
    found = sl.cost(s)
    assert found.notes == ()
    for size in (1, 2, 7, 8, 9, 30):
        at = found.at(n=size)
        assert (at.loads, at.stores) == counted(s, np.zeros(size + 2, "float32")), size


def test_a_symbolic_tail_adds_nothing() -> None:
    M, N, K = sizes("M N K")
    s = sl.schedule(product(M, N, K)[2])
    C = s.outputs[0]
    s[C].tile(*C.op.axis, 32, 16)
    found = sl.cost(s)
    m, n, k = (sympy.Symbol(name, integer=True, positive=True) for name in "MNK")
    assert found.loads == 3 * m * n * k and found.stores == m * n * k + m * n


def test_padding_counts_where_it_reads() -> None:
    X, W = sl.placeholder((3, 14, 14), name="X"), sl.placeholder((4, 3, 3, 3), name="W")
    P = sl.pad(X, (0, 1, 1), name="P")
    c, dy, dx = (sl.reduce_axis(3, name=name) for name in ("c", "dy", "dx"))
    Y = sl.compute(
        (4, 14, 14), lambda o, y, x: sl.sum(P[c, y + dy, x + dx] * W[o, c, dy, dx], (c, dy, dx)),
        name="Y",
    )  # fmt: skip
    s = sl.schedule(Y)
    s[P].compute_inline()
    found = sl.cost(s)
    taps = 3 * 14 - 2
    assert next(b for b in found.buffers if b.name == "X").loads == 4 * 3 * taps * taps


def test_storage_allocated_at_the_same_time() -> None:
    A, B, C = chain(8)
    two = sl.schedule(C)
    copy = two.cache_read(A, "local", [B])
    assert sl.cost(two).allocated == 4 * (10 + 10)
    o, _ = two[C].split(C.op.axis[0], factor=4)
    two[B].compute_at(two[C], o)
    two[copy].compute_at(two[C], o)
    assert sl.cost(two).allocated == 4 * (6 + 6)


def test_scalar_arguments_are_no_sizes() -> None:
    alpha, A = sl.var("alpha", "float32"), sl.placeholder((8,), name="A")
    found = sl.cost(sl.schedule(sl.compute((8,), lambda i: A[i] * alpha, name="B")))
    assert found.symbols == () and found.flops == 8
    C = sl.compute((8,), lambda i: sl.if_then_else(alpha > 0, A[i], 0.0), name="C")
    assert sl.cost(sl.schedule(C)).notes == ("as if alpha > 0 always held",)


def test_it_prints() -> None:
    found = sl.cost(sl.schedule(product(64, 48, 32)[2]))
    assert str(found).splitlines() == [
        "cost of C",
        "  flops      196,608",
        "  bytes      26,624",
        "  intensity  7.385",
        "  loads      294,912",
        "  stores     101,376",
        "  allocated  0",
        "  executed   196,608",
        "     loads   stores   bytes",
        "  A  98,304  0        8,192",
        "  B  98,304  0        6,144",
        "  C  98,304  101,376  12,288",
    ]
    M, N, K = sizes("M N K")
    shown = sl.cost(product(M, N, K)[2])
    assert "flops      2*K*M*N" in str(shown)
    assert r"\text{flops} &= 2 K M N" in shown._repr_latex_()


def test_it_is_frozen() -> None:
    with pytest.raises(AttributeError):
        sl.cost(scaled(3)[1]).flops = 3  # type: ignore[misc, assignment]


def test_it_plots() -> None:
    M, N, K = sizes("M N K")
    found = sl.cost(product(M, N, K)[2])
    (square,) = {found.intensity.subs({s: found.symbols[0] for s in found.symbols})}
    values = sympy.lambdify(found.symbols[0], square)(np.array([6.0, 12.0]))
    assert values.tolist() == [1.0, 2.0]
