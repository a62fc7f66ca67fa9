"""Gradients, compared with differences of the result and with numbers worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang import te
from schedlang.compute.graph import operations
from schedlang.compute.tensor import ComputeOp
from schedlang.errors import ComputeError, SchedlangError
from schedlang.expr.nodes import Call
from schedlang.expr.visit import postorder
from schedlang.gradient import derivative, gather, ragged, reductions, scans, weighted
from tests.fuzz.gradient_checks import check_graph
from tests.fuzz.gradients import check
from tests.gradient_cases import CASES, Case
from tests.marks import slow_but

STEP = 1e-5


def with_head(case: Case) -> tuple[list[sl.Tensor], sl.Tensor]:
    """Return the gradients of a case, and the head that they take."""
    head = sl.placeholder(case.y.shape, case.y.dtype, name="head")
    return sl.gradient(case.y, list(case.xs), head), head


def values(outputs: list[sl.Tensor], arrays: dict[str, Any]) -> tuple[Any, ...]:
    f = sl.reference(outputs)
    found = f(**{t.name: arrays[t.name] for t in f.inputs})
    return found if isinstance(found, tuple) else (found,)


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_the_limits_of_differences(name: str) -> None:
    case = CASES[name]()
    made, _ = with_head(case)
    arrays = case.arrays()
    rng = np.random.default_rng(1)
    head = rng.normal(size=case.y.shape)
    found = values(made, {**arrays, "head": head})
    for x, by in zip(case.xs, found):
        assert by.shape == x.shape and by.dtype == x.dtype
    step = 1e-3 if name == "half_precision_inside" else STEP
    # one direction of all inputs at once, in which no derivative is 0
    ways = [rng.normal(size=x.shape) for x in case.xs]
    ends = []
    for sign in (1, -1):
        moved = {x.name: arrays[x.name] + sign * step * w for x, w in zip(case.xs, ways)}
        ends.append(values([case.y], {**arrays, **moved})[0])
    expected = ((ends[0] - ends[1]) * head).sum() / (2 * step)
    got = sum((by * w).sum() for by, w in zip(found, ways))
    np.testing.assert_allclose(got, expected, rtol=1e-3 if step > STEP else 1e-6, atol=1e-7)


@pytest.mark.parametrize("seed", range(40))
def test_random_index_maps(seed: int) -> None:
    wrong = check(seed, kernel=seed % 4 == 0)
    assert not wrong, wrong


@pytest.mark.parametrize("first", slow_but(["0", "10", "30"], range(0, 50, 10)))
def test_random_computations(first: int) -> None:
    wrong = [found for seed in range(first, first + 10) if (found := check_graph(seed))]
    assert not wrong, wrong[0]


def dropped_conditions(patch: Any) -> None:
    patch(gather, "_joined", lambda conditions: None)


def short_range(patch: Any) -> None:
    whole = ragged.clip_range
    patch(ragged, "clip_range", lambda box, low, high: whole(box, low, high - 1))


def forgotten_sign(patch: Any) -> None:
    patch(derivative, "negative", lambda value: value)


def forgotten_start(patch: Any) -> None:
    found = weighted.weighted_sites

    def without_start(walk: Any, op: Any, heads: Any, rule: Any) -> Any:
        return found(walk, replace(op, init=None), heads, rule)

    patch(reductions, "weighted_sites", without_start)


def forgotten_later_rows(patch: Any) -> None:
    patch(scans, "plus", lambda a, b: a)


PLANTED = (dropped_conditions, short_range, forgotten_sign, forgotten_start, forgotten_later_rows)


@pytest.mark.parametrize(
    "plant",
    slow_but(
        ["forgotten_sign", "forgotten_start", "forgotten_later_rows"], PLANTED,
        lambda plant: plant.__name__,
    ),
)  # fmt: skip
def test_random_computations_find_planted_errors(
    plant: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch.setattr)
    assert any(_fails(seed) for seed in range(200))


def _fails(seed: int) -> bool:
    """Return whether a check of a random computation fails; a crash does not count."""
    try:
        return "differences" in check_graph(seed)
    except SchedlangError:
        return False


def test_the_function_of_a_diagonal_is_computed_for_its_elements_alone() -> None:
    n = sl.var("n")
    X = sl.placeholder((n, n), "float64", name="X")
    k = sl.reduce_axis(n, name="k")
    S = sl.compute((), lambda: sl.sum(sl.tanh(X[k, k]), axis=k), name="S")
    Z = sl.compute((n, n), lambda i, j: X[i, j] + S(), name="Z")
    by = sl.gradient(Z, X, head=sl.placeholder((n, n), "float64", name="H"))
    stages = [op for op in operations([by]) if isinstance(op, ComputeOp)]
    called = [op for op in stages if any(isinstance(e, Call) for e in postorder(op.body))]
    assert [(op.name, len(op.axis)) for op in called] == [("X_grad.S", 1)]


def test_an_index_with_remainders_of_other_axes_ends() -> None:
    """The solution for one axis has a remainder of another, which must stay as it is."""
    assert not check(142)


def test_conditions_in_common_guard_an_index_that_is_looked_up() -> None:
    """Two parts of one second derivative read at ``I[r]``, which is in bounds where both count."""
    assert not check_graph(657)


@pytest.mark.parametrize("name", ["lstm", "strided_convolution", "softmax", "attention"])
def test_gradients_of_gradients(name: str) -> None:
    case = CASES[name]()
    made, head = with_head(case)
    parts = []
    for n, by in enumerate(made):
        axes = [sl.reduce_axis(extent, name=f"r{k}") for k, extent in enumerate(by.shape)]
        curved = sl.sum(sl.sin(by[tuple(axes)]), axis=axes)
        parts.append(sl.compute((), lambda curved=curved: curved, name=f"L{n}"))
    total = sl.compute((), lambda: sum((p[()] for p in parts), sl.const(0.0, "float64")), name="L")
    again = sl.gradient(total, [*case.xs, head])
    rng = np.random.default_rng(1)
    arrays = {**case.arrays(), "head": rng.normal(size=case.y.shape)}
    found = values(again, arrays)
    ways = {x.name: rng.normal(size=x.shape) for x in (*case.xs, head)}
    ends = [
        values([total], {**arrays, **{n: arrays[n] + sign * STEP * w for n, w in ways.items()}})[0]
        for sign in (1, -1)
    ]
    got = sum((by * w).sum() for by, w in zip(found, ways.values()))
    np.testing.assert_allclose(got, (ends[0] - ends[1]) / (2 * STEP), rtol=1e-5)


# what the loops are


def nest_of(by: sl.Tensor) -> str:
    return str(sl.schedule(by))


def convolution(size: int, k: int, stride: int, pad: int) -> tuple[sl.Tensor, ...]:
    X = sl.placeholder((1, 8, size, size), name="X")
    W = sl.placeholder((16, 8, k, k), name="W")
    XP = sl.pad(X, (0, 0, pad, pad), name="XP")
    out = (size + 2 * pad - k) // stride + 1
    c, i, j = (sl.reduce_axis(n, name=m) for n, m in zip(W.shape[1:], "cij"))
    Y = sl.compute(
        (1, 16, out, out),
        lambda n, o, y, x: sl.sum(
            XP[n, c, y * stride + i, x * stride + j] * W[o, c, i, j], axis=(c, i, j)
        ), name="Y",
    )  # fmt: skip
    return X, W, Y, sl.placeholder(Y.shape, name="Y_grad")


def test_a_convolution_has_the_gradients_that_one_writes_by_hand(golden: Any) -> None:
    X, W, Y, head = convolution(14, 3, 1, 1)
    golden("\n".join(nest_of(by) for by in sl.gradient(Y, [X, W], head)))


def test_a_strided_convolution_has_a_stage_for_each_residue(golden: Any) -> None:
    X, W, Y, head = convolution(14, 3, 2, 1)
    golden("\n".join(nest_of(by) for by in sl.gradient(Y, [X, W], head)))


def test_a_strided_convolution_does_no_work_in_vain() -> None:
    """Its input gradient has as many multiplications as itself, up to those with padding."""
    X, _, Y, head = convolution(15, 3, 2, 1)
    forward = sl.cost(Y).flops
    assert sl.cost(sl.gradient(Y, X, head)).flops <= 1.3 * forward
    X, _, Y, head = convolution(15, 1, 2, 0)
    assert sl.cost(sl.gradient(Y, X, head)).flops <= 1.3 * sl.cost(Y).flops


def test_a_recurrence_goes_back_row_by_row(golden: Any) -> None:
    case = CASES["recurrent_network"]()
    golden(nest_of(sl.gradient(case.y, case.xs[2], with_head(case)[1])))


# kinks and ties


def at(y: sl.Tensor, x: sl.Tensor, *arrays: Any) -> Any:
    """Return the gradient of the sum of ``y`` by ``x`` at some values."""
    head = sl.placeholder(y.shape, y.dtype, name="head")
    f = sl.reference(sl.gradient(y, x, head))
    named = dict(zip((t.name for t in f.inputs if t.name != "head"), arrays))
    ones = {"head": np.ones(y.shape, y.dtype)} if head in f.inputs else {}
    return f(**named, **ones)


def test_equal_elements_of_a_maximum_share_its_gradient() -> None:
    A, k = sl.placeholder((4,), name="A"), sl.reduce_axis(4, name="k")
    T = sl.compute((), lambda: sl.max(A[k], axis=k), name="T")
    a = np.array([2, 5, 5, 1], "float32")
    assert at(T, A, a).tolist() == [0, 0.5, 0.5, 0]
    # a product in a sum may be rounded otherwise where it is computed again
    m = sl.reduce_axis(4, name="m")
    U = sl.compute((), lambda: sl.min(A[m] * A[m] + A[m] * 3, axis=m), name="U")
    assert at(U, A, a).tolist() == [0, 0, 0, 5]


def test_functions_with_a_kink() -> None:
    A, B = sl.placeholder((3,), name="A"), sl.placeholder((3,), name="B")
    a, b = np.array([-1, 0, 2], "float32"), np.array([-1, 1, 1], "float32")
    relu = sl.compute((3,), lambda i: sl.max(A[i], 0), name="relu")
    assert at(relu, A, a).tolist() == [0, 0, 1]
    magnitude = sl.compute((3,), lambda i: sl.abs(A[i]), name="magnitude")
    assert at(magnitude, A, a).tolist() == [-1, 0, 1]
    larger = sl.compute((3,), lambda i: sl.max(A[i], B[i]), name="larger")
    assert at(larger, A, a, b).tolist() == [0.5, 0, 1]
    steps = sl.compute((3,), lambda i: sl.floor(A[i]) + sl.round(A[i]), name="steps")
    assert at(steps, A, a).tolist() == [0, 0, 0]


def test_a_condition_is_tested_after_those_around_it() -> None:
    """The outer condition guards the read in the inner one, in the gradient as well."""
    A, B = sl.placeholder((4,), name="A"), sl.placeholder((4,), name="B")
    index = sl.placeholder((4,), "int64", name="index")

    def body(i: sl.Axis) -> sl.Expr:
        inner = sl.if_then_else(B[index[i]] > 0, A[i] * A[i], A[i])
        return sl.if_then_else(index[i] >= 0, inner, 0) * A[i]

    C = sl.compute((4,), body, name="C")
    head = sl.placeholder((4,), name="head")
    a, b = np.array([1, 2, 3, 4], "float32"), np.array([1, -1, 1, 1], "float32")
    f = sl.reference(sl.gradient(C, A, head))
    at_ = np.array([0, 1, -9, 3])
    found = f(A=a, B=b, index=at_, head=np.ones(4, "float32"))
    assert found.tolist() == [3, 4, 0, 48]


def test_a_hundred_nested_choices() -> None:
    A = sl.placeholder((3,), name="A")

    def nested(i: sl.Axis) -> sl.Expr:
        total = A[i]
        for k in range(100):
            total = sl.if_then_else(A[i] > k, total * 0.5 + A[i], A[i] * k)
        return total

    C = sl.compute((3,), nested, name="C")
    assert at(C, A, np.array([-1, 2.5, 99.5], "float32")).tolist()[0] == 99
    by = sl.gradient(C, A, sl.placeholder((3,), name="head"))
    assert sum(1 for _ in postorder(by.op.body)) < 4000


def test_a_product_with_zeros() -> None:
    A, k = sl.placeholder((3,), name="A"), sl.reduce_axis(3, name="k")
    T = sl.compute((), lambda: sl.prod(A[k], axis=k), name="T")
    assert at(T, A, np.array([2, 0, 5], "float32")).tolist() == [0, 10, 0]
    assert at(T, A, np.array([0, 0, 5], "float32")).tolist() == [0, 0, 0]


def test_a_power_of_zero() -> None:
    A, B = sl.placeholder((2,), name="A"), sl.placeholder((2,), name="B")
    P = sl.compute((2,), lambda i: A[i] ** B[i], name="P")
    a, b = np.array([0, 0], "float32"), np.array([0, 2], "float32")
    assert at(P, A, a, b).tolist() == [0, 0] and at(P, B, a, b).tolist() == [0, 0]


def test_elements_that_nothing_reads_have_no_gradient() -> None:
    A = sl.placeholder((6,), name="A")
    B = sl.compute((2,), lambda i: A[i * 3 + 1], name="B")
    assert at(B, A).tolist() == [0, 1, 0, 0, 1, 0]


# sizes


@pytest.mark.parametrize("sizes", [(0, 4), (1, 1), (5, 3)])
def test_symbolic_sizes(sizes: tuple[int, int]) -> None:
    n, m = sl.var("n"), sl.var("m")
    A, B = sl.placeholder((n, m), name="A"), sl.placeholder((m, 3), name="B")
    k = sl.reduce_axis(m, name="k")
    R = sl.compute((n * m,), lambda i: A[i // m, i % m] * 2, name="R")
    C = sl.compute((n, 3), lambda i, j: sl.sum(R[i * m + k] * B[k, j], axis=k), name="C")
    head = sl.placeholder((n, 3), name="head")
    f = sl.build(sl.schedule(sl.gradient(C, [A, B], head)), target="python")
    rng = np.random.default_rng(0)
    a, b, g = (rng.normal(size=s).astype("float32") for s in (sizes, (sizes[1], 3), (sizes[0], 3)))
    by_a, by_b = f(A=a, B=b, head=g)
    np.testing.assert_allclose(by_a, 2 * g @ b.T, rtol=1e-5)
    np.testing.assert_allclose(by_b, 2 * a.T @ g, rtol=1e-5)


def test_a_convolution_of_a_symbolic_size() -> None:
    n = sl.var("n")
    X, W, i = sl.placeholder((n,), name="X"), sl.placeholder((3,), name="W"), sl.reduce_axis(3, "i")
    Y = sl.compute(((n - 3) // 2 + 1,), lambda x: sl.sum(X[x * 2 + i] * W[i], axis=i), name="Y")
    head = sl.placeholder(Y.shape, name="head")
    f = sl.build(sl.schedule(sl.gradient(Y, [X, W], head)), target="python")
    for size in (3, 8, 9):
        x, w = np.arange(size, dtype="float32"), np.array([1, 10, 100], "float32")
        g = np.arange(1, (size - 3) // 2 + 2, dtype="float32")
        by_x, by_w = f(X=x, W=w, head=g)
        expected = np.zeros(size)
        for at_, value in enumerate(g):
            expected[2 * at_ : 2 * at_ + 3] += value * w
        np.testing.assert_allclose(by_x, expected)
        np.testing.assert_allclose(by_w, [sum(x[2 * a + t] * v for a, v in enumerate(g))
                                          for t in range(3)])  # fmt: skip


def test_empty_tensors() -> None:
    A, k = sl.placeholder((0, 3), name="A"), sl.reduce_axis(3, name="k")
    C = sl.compute((0,), lambda i: sl.sum(A[i, k], axis=k), name="C")
    assert at(C, A).shape == (0, 3)


# custom derivatives


def test_a_stage_that_counts_as_a_constant() -> None:
    """The largest element cancels in a softmax, so that its gradient need not be computed."""
    case = CASES["softmax"]()
    (x,) = case.xs
    exp = next(op for op in sl.graph(case.y).nodes if op == "P_exp")
    assert exp == "P_exp"
    top = case.y.op.input_tensors[0].op.input_tensors[1]
    head = sl.placeholder(case.y.shape, case.y.dtype, name="head")
    short = sl.gradient(case.y, x, head, rules={top: None})
    arrays = {**case.arrays(), "head": np.random.default_rng(0).normal(size=case.y.shape)}
    full = values([sl.gradient(case.y, x, head)], arrays)[0]
    np.testing.assert_allclose(values([short], arrays)[0], full, rtol=1e-9)
    assert len(sl.schedule(short).stages) < len(sl.schedule(sl.gradient(case.y, x, head)).stages)


def test_a_rule_for_a_stage() -> None:
    """A rounding passes its gradient through, as in quantized networks."""
    A = sl.placeholder((3,), name="A")
    B = sl.compute((3,), lambda i: A[i] * 3, name="B")
    R = sl.compute((3,), lambda i: sl.cast(sl.round(B[i]), "int8").astype("float32"), name="R")
    C = sl.compute((3,), lambda i: R[i] * R[i], name="C")

    def straight(by: sl.Tensor) -> dict[sl.Tensor, sl.Tensor]:
        return {B: sl.compute((3,), lambda i: by[i], name="dB")}

    head = sl.placeholder((3,), name="head")
    by = sl.gradient(C, A, head, rules={R: straight})
    a = np.array([0.5, 1.0, 2.2], "float32")
    found = sl.reference(by)(A=a, head=np.ones(3, "float32"))
    np.testing.assert_allclose(found, 2 * np.round(a * 3) * 3)


def test_gradients_by_intermediate_tensors() -> None:
    A = sl.placeholder((3,), name="A")
    B = sl.compute((3,), lambda i: A[i] * A[i], name="B")
    C = sl.compute((3,), lambda i: sl.exp(B[i]) * A[i], name="C")
    head = sl.placeholder((3,), name="head")
    by_b, by_a, by_c = sl.gradient(C, [B, A, C], head)
    a, g = np.array([0.5, 1.0, -1.0], "float32"), np.array([1, 2, 3], "float32")
    f = sl.reference([by_b, by_a, by_c])
    found = f(**{t.name: {"A": a, "head": g}[t.name] for t in f.inputs})
    np.testing.assert_allclose(found[0], g * np.exp(a * a) * a, rtol=1e-5)
    np.testing.assert_allclose(found[1], g * np.exp(a * a) * (1 + 2 * a * a), rtol=1e-5)
    np.testing.assert_allclose(found[2], g)


def test_kernels_take_gradients_on_every_target() -> None:
    X, W, Y, head = convolution(6, 3, 2, 1)
    made = sl.gradient(Y, [X, W], head)
    rng = np.random.default_rng(0)
    arrays = {t.name: rng.normal(size=t.shape).astype("float32") for t in (X, W, head)}
    expected = values(made, arrays)
    for target in ("python", "cpu"):
        for got, wanted in zip(sl.build(sl.schedule(made), target=target)(**arrays), expected):
            np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)


def test_a_lookup_of_rows_adds_at_computed_places() -> None:
    T, I = sl.placeholder((5, 3), name="T"), sl.placeholder((4,), "int32", name="I")  # noqa: E741
    E = sl.compute((4, 3), lambda i, j: T[I[i], j] * T[i, j] + T[I[i], 2 - j], name="E")
    head = sl.placeholder((4, 3), name="head")
    rng = np.random.default_rng(0)
    t, h = rng.random((5, 3)), rng.random((4, 3))
    at = np.array([4, 0, 4, 2], "int32")
    expected = np.zeros((5, 3))
    np.add.at(expected, at, h * t[:4])
    np.add.at(expected, at, h[:, ::-1])
    expected[:4] += h * t[at]
    D = sl.gradient(E, T, head)
    given = {"T": t.astype("float32"), "I": at, "head": h.astype("float32")}
    f = sl.build(sl.schedule(D), target="python")
    found = f(*[given[p.name] for p in f.signature.inputs])
    np.testing.assert_allclose(found, expected, rtol=1e-5)


# gradients of gradients


def test_a_parameter_that_enters_linearly_has_the_second_derivative_0() -> None:
    W = sl.placeholder((2, 3), "float32", name="W")
    X = sl.placeholder((3,), "float64", name="X")
    i, k = sl.reduce_axis(2, name="i"), sl.reduce_axis(3, name="k")
    f = sl.compute((), lambda: sl.sum(W[i, k] * X[k] * X[k], axis=[i, k]), name="f")
    by_w, by_x = sl.gradient(f, [W, X])
    v = sl.placeholder((2, 3), "float32", name="v")
    w_again, mixed = sl.gradient(by_w, [W, X], v)
    assert (w_again.shape, w_again.dtype) == ((2, 3), "float32")
    kernel = sl.build(sl.schedule(w_again), target="python")
    assert kernel().tolist() == sl.reference(w_again)().tolist() == [[0, 0, 0], [0, 0, 0]]
    x, along = np.array([1.0, 2.0, -3.0]), np.array([[1, 1, 1], [0, 2, 4]], "float32")
    np.testing.assert_array_equal(sl.reference(mixed)(v=along, X=x), along.sum(0) * 2 * x)
    # what is computed from a gradient, and a gradient of a gradient of a gradient
    m = sl.reduce_axis(3, name="m")
    loss = sl.compute((), lambda: sl.sum(by_w[0, m] * 2, axis=m), name="loss")
    assert sl.reference(sl.gradient(loss, W))().tolist() == [[0, 0, 0], [0, 0, 0]]
    third = sl.gradient(w_again, [W, X, v], v)
    assert [t.dtype for t in third] == ["float32", "float64", "float32"]
    assert not any(np.any(values) for values in sl.reference(third)())
    jacobian = te.gradient(by_w, [W])[0]
    assert jacobian.shape == (2, 3, 2, 3) and not sl.reference(jacobian)().any()
    assert sl.gradient(by_x, [W], sl.placeholder((3,), "float64", name="u"))


def test_a_gradient_depends_on_nothing_that_its_function_does_not_depend_on() -> None:
    A, B, k = sl.placeholder((3,), name="A"), sl.placeholder((3,), name="B"), sl.reduce_axis(3, "k")
    f = sl.compute((), lambda: sl.sum(A[k] * 2, axis=k), name="f")
    # a head that has the name of the gradient is still the head
    head = sl.compute((3,), lambda i: B[i] * 1.0, name="A_grad")
    copied = sl.gradient(sl.compute((3,), lambda i: A[i], name="copy"), A, head)
    assert copied is not head
    for y, x in ((sl.gradient(f, A), B), (head, A)):
        with pytest.raises(ComputeError, match=f"does not depend on {x.name}"):
            sl.gradient(y, x, sl.placeholder((3,), name="v"))
