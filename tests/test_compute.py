"""The compute language: what it builds, in which dtype, and what it refuses."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedlang.compute import compute, placeholder, var
from schedlang.compute import math as m
from schedlang.compute import reduce as r
from schedlang.compute.bounds import check_reads
from schedlang.compute.graph import operations, placeholders, variables
from schedlang.compute.reference import reference
from schedlang.compute.scan import scan
from schedlang.compute.tensor import ComputeOp, Tensor
from schedlang.errors import BoundsError, ComputeError, ComputeTypeError, SchedlangError
from schedlang.expr.dtypes import DTYPES
from schedlang.expr.nodes import const

INPUTS = {d: np.array([1, 0, 1] if d == "bool" else [1, 2, 3], d) for d in DTYPES}
TENSORS = {d: placeholder((3,), d, name=f"T_{d}") for d in DTYPES}
OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    name: getattr(operator, name) for name in (
        "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and_", "or_", "xor", "lshift",
        "rshift", "lt", "le", "gt", "ge", "eq", "ne")
} | {name: getattr(np, name) for name in (
        "maximum", "minimum", "arctan2", "add", "subtract", "multiply", "true_divide",
        "floor_divide", "remainder", "power", "less", "less_equal", "greater", "greater_equal",
        "equal", "not_equal", "bitwise_and", "bitwise_or", "bitwise_xor", "left_shift",
        "right_shift", "logical_and", "logical_or", "logical_xor")
}  # fmt: skip
UFUNCS = (
    "exp", "exp2", "log", "log2", "log10", "log1p", "expm1", "sqrt", "sin", "cos", "tan", "sinh",
    "cosh", "tanh", "arcsin", "arccos", "arctan", "floor", "ceil", "trunc", "absolute", "isnan",
    "isinf", "isfinite", "negative", "invert", "logical_not",
)  # fmt: skip


def by_numpy(fn: Callable[..., Any], *args: Any) -> Any:
    """NumPy's result, or ``None`` where it refuses."""
    try:
        with np.errstate(all="ignore"):
            return fn(*args)
    except (TypeError, ValueError, OverflowError):
        return None


def by_schedlang(build: Callable[[Any], Any]) -> Any:
    try:
        tensor = compute((3,), build, name="C")
    except SchedlangError:
        return None
    oracle = reference(tensor)
    return oracle(**{t.name: INPUTS[t.dtype] for t in oracle.inputs})


def assert_same(found: Any, expected: Any, what: str) -> None:
    if expected is None or found is None:
        assert expected is None and found is None, f"{what}: {found} for {expected}"
        return
    assert found.dtype == expected.dtype, f"{what}: {found.dtype}, NumPy {expected.dtype}"
    np.testing.assert_array_equal(found, expected, err_msg=what)


def marked(names: Any) -> list[Any]:
    short = pytest.mark.xfail(strict=True, reason="int16 / int16 is float32, NumPy's float64")
    return [pytest.param(n, marks=short) if "true" in n else n for n in names]  # fmt: skip


@pytest.mark.parametrize("name", marked(OPERATORS))
def test_promotion_of_all_pairs_is_numpys(name):
    fn = OPERATORS[name]
    for a, b in itertools.product(DTYPES, DTYPES):
        expected = by_numpy(fn, INPUTS[a], INPUTS[b])
        found = by_schedlang(lambda i, a=a, b=b: fn(TENSORS[a][i], TENSORS[b][i]))
        assert_same(found, expected, f"{a} {name} {b}")


# NumPy compares with a number that the dtype cannot hold, the language refuses; and it squares a
# bool without leaving it
COMPARES = ("lt", "le", "gt", "ge", "eq", "ne")
WEAK = ("add", "sub", "mul", "truediv", "floordiv", "mod", "and_", "or_", "xor", *COMPARES,
        "maximum", "minimum", "arctan2")  # fmt: skip


@pytest.mark.parametrize("name", marked(WEAK))
@pytest.mark.parametrize("swapped", [False, True])
def test_numbers_are_weak_as_numpys_are(name, swapped):
    fn = OPERATORS[name]
    for dtype, number in itertools.product(DTYPES, (2, 2.0, 0.1, -1, True, 300, 70000)):
        outside = name in COMPARES and by_numpy(operator.add, INPUTS[dtype], number) is None
        args = (number, INPUTS[dtype]) if swapped else (INPUTS[dtype], number)
        expected = None if outside else by_numpy(fn, *args)

        def body(i, dtype=dtype, number=number):
            return fn(number, TENSORS[dtype][i]) if swapped else fn(TENSORS[dtype][i], number)

        assert_same(by_schedlang(body), expected, f"{args} {name}")


def test_numpy_scalars_are_strong():
    A = placeholder((3,), "float32", name="A")
    dtypes = [
        compute((3,), lambda i, x=x: A[i] * x).dtype for x in (2.5, np.float64(2.5), np.int8(2))
    ]
    assert dtypes == ["float32", "float64", "float32"]


def test_axes_and_sizes_are_weak():
    n, alpha = var("n"), var("alpha", "float32")
    for dtype in DTYPES[1:]:
        T = placeholder((n,), dtype, name="T")
        small = r.reduce_axis(100, name="small")
        C = compute((3,), lambda i, T=T, small=small: r.sum(T[i] + small, axis=small))
        assert C.dtype == dtype
    assert (n + 1).dtype == "int64" and (n + 1).weak
    assert (alpha * n).dtype == "float32" and not (alpha * n).weak
    C = compute((3,), lambda i: i, name="C")
    assert C.dtype == "int64" and compute((3,), lambda i: i / 2).dtype == "float64"


@pytest.mark.parametrize("name", UFUNCS)
def test_ufuncs_spell_functions_in_numpys_dtype(name):
    fn = getattr(np, name)
    for dtype in DTYPES:
        expected = by_numpy(fn, INPUTS[dtype])
        found = by_schedlang(lambda i, dtype=dtype: fn(TENSORS[dtype][i]))
        assert_same(found, expected, f"{name} {dtype}")


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_functions_of_the_language(dtype):
    A = placeholder((9,), dtype, name="A")
    a = np.linspace(-2.5, 2.5, 9).astype(dtype)
    wide = a.astype("float64")
    cases = {
        "round": np.rint(a), "abs": np.abs(a), "trunc": np.trunc(a), "erf": [math.erf(x) for x in wide],
        "sigmoid": 1 / (1 + np.exp(-wide)), "rsqrt": 1 / np.sqrt(np.where(wide > 0, wide, np.nan)),
        "tanh": np.tanh(wide),
    }  # fmt: skip
    for name, expected in cases.items():
        found = reference(compute((9,), lambda i, f=getattr(m, name): f(A[i])))(a)
        assert found.dtype == np.dtype(dtype)
        finite = np.isfinite(expected)
        np.testing.assert_allclose(found[finite], np.asarray(expected)[finite].astype(dtype),
                                   rtol=4 * np.finfo(dtype).eps, err_msg=name)  # fmt: skip


def test_sigmoid_far_out_is_exact():
    A = placeholder((4,), "float64", name="A")
    C = compute((4,), lambda i: m.sigmoid(A[i]))
    found = reference(C)(np.array([-800.0, -40.0, 40.0, 800.0]))
    np.testing.assert_allclose(found, [0.0, np.exp(-40.0), 1.0, 1.0], rtol=1e-15)


@pytest.mark.parametrize("source", DTYPES)
def test_casts_are_astype(source):
    values = np.array([0, 1] if source == "bool" else [0, 1, 100], source)
    A = placeholder(values.shape, source, name="A")
    for target in DTYPES:
        C = compute(values.shape, lambda i, t=target: A[i].astype(t))
        assert_same(reference(C)(values), values.astype(target), f"{source} to {target}")


def test_casts_wrap_truncate_and_test():
    A, B = placeholder((4,), "int64", name="A"), placeholder((4,), "float64", name="B")
    a, b = np.array([-1, 255, 256, 2**40 + 3]), np.array([-1.9, 1.9, 0.0, 100.5])
    for target in ("int8", "uint8", "uint16", "int32", "bool"):
        C = compute((4,), lambda i, t=target: m.cast(A[i], t))
        np.testing.assert_array_equal(reference(C)(a), a.astype(target))
    for target in ("int8", "bool", "float16"):
        C = compute((4,), lambda i, t=target: m.cast(B[i], t))
        np.testing.assert_array_equal(reference(C)(b), b.astype(target))


@pytest.mark.parametrize("dtype", ["int8", "int64", "float32"])
def test_floor_division_and_remainder_have_pythons_signs(dtype):
    grid = np.array([(x, y) for x in range(-7, 8) for y in (-3, -1, 2, 5)], dtype)
    A, B = placeholder((60,), dtype, name="A"), placeholder((60,), dtype, name="B")
    Q, R = compute((60,), lambda i: (A[i] // B[i], A[i] % B[i]), name="Q")
    quotient, rest = reference([Q, R])(grid[:, 0].copy(), grid[:, 1].copy())
    np.testing.assert_array_equal(quotient, [x // y for x, y in grid])
    np.testing.assert_array_equal(rest, [x % y for x, y in grid])


def test_min_and_max_of_two_propagate_nan():
    A, B = placeholder((3,), name="A"), placeholder((3,), name="B")
    a = np.array([1, np.nan, 3], "float32")
    b = np.array([2, 2, np.nan], "float32")
    for fn, ufunc in ((r.min, np.minimum), (r.max, np.maximum)):
        C = compute((3,), lambda i, f=fn: f(A[i], B[i]))
        np.testing.assert_array_equal(reference(C)(a, b), ufunc(a, b))


def test_shapes_names_and_outputs():
    A = placeholder((4, 6), name="A")
    B = compute((4, 6), lambda *idx: A[idx] + 1, name="B")
    P, Q = compute((4,), lambda i: (A[i, 0], i > 2), name="P")
    (only,) = compute((4,), lambda i: (A[i, 0],), name="only")
    assert [a.name for a in B.op.axis] == ["i0", "i1"] and B.shape == (4, 6)
    assert (P.name, Q.name, P.dtype, Q.dtype) == ("P.v0", "P.v1", "float32", "bool")
    assert P.op is Q.op and P.op.output(1) is Q and only.name == "only"
    assert compute(3, lambda i: 1.0).shape == (3,)
    assert repr(B) == "Tensor(B: float32[4, 6])" and A.ndim == 2 and len(A) == 4


def test_tensors_and_axes_are_found_in_lists():
    A, B = placeholder((2,), name="A"), placeholder((2,), name="B")
    i, j = r.reduce_axis(2, name="i"), r.reduce_axis(2, name="j")
    assert [A, B].index(B) == 1 and [i, j].index(j) == 1 and j in (i, j) and i not in (j,)
    assert (i == i) and not (i == j) and (i != j) and len({A, B, A}) == 2


def test_graph_order():
    n, alpha = var("n"), var("alpha", "float32")
    A, B, D = (placeholder((n,), name=x) for x in "ABD")
    E = compute((n,), lambda i: B[i] + A[i] * alpha, name="E")
    F = compute((n,), lambda i: D[i] - E[i], name="F")
    assert [t.name for t in placeholders([F])] == ["D", "B", "A"]
    assert [op.name for op in operations([F])] == ["D", "B", "A", "E", "F"]
    assert variables([F]) == [n, alpha] or [v.name for v in variables([F])] == ["n", "alpha"]


def test_expressions_print_as_python():
    A, i = placeholder((9, 9), name="A"), r.reduce_axis(9, name="i")
    cases = {
        (A[i, 0] + 1) * 2: "(A[i, 0] + 1) * 2",
        A[i, 0] - (A[i, 1] - 1): "A[i, 0] - (A[i, 1] - 1)",
        (-A[i, 0]) ** 2: "(-A[i, 0]) ** 2",
        m.if_then_else((i > 1) & (i < 3), A[i, 1], 0): "A[i, 1] if (i > 1) & (i < 3) else 0",
        m.select(i > 1, 1, 2).astype("int8"): "int8(select(i > 1, 1, 2))",
        m.exp(A[i // 2, i % 3]): "exp(A[i//2, i%3])",
    }  # fmt: skip
    for value, text in cases.items():
        assert str(value) == text


# random expressions keep the dtype that they declare


@st.composite
def expressions(draw: Any, axis: Any) -> Any:
    leaves = [TENSORS[d][axis] for d in ("bool", "int8", "uint16", "int64", "float16", "float64")]
    value = draw(st.sampled_from([*leaves, axis, axis + 1]))
    for _ in range(draw(st.integers(1, 6))):
        other = draw(st.sampled_from([*leaves, axis, 2, 3.0, True, value]))
        fn = draw(st.sampled_from([*OPERATORS.values(), m.exp, m.abs, m.floor, "select", "cast"]))
        try:
            if fn == "select":
                value = m.select(other != 0, value, other)
            elif fn == "cast":
                value = m.cast(value, draw(st.sampled_from(DTYPES)))
            elif fn in (m.exp, m.abs, m.floor):
                value = fn(value)
            else:
                value = fn(value, other)
        except SchedlangError:
            continue
    return value


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_every_expression_has_the_dtype_it_declares(data):
    k = r.reduce_axis(3, name="k")
    value = data.draw(expressions(k))
    C = compute((), lambda: r.max(value, axis=k), name="C")
    oracle = reference(C)
    result = oracle(**{t.name: INPUTS[t.dtype] for t in oracle.inputs})
    assert result.dtype == np.dtype(C.dtype)
    declared = r.max(value, axis=k).sources[0].dtype
    from schedlang.expr.evaluate import evaluate

    with np.errstate(all="ignore"):
        each = evaluate(value, {k: np.arange(3)}, lambda node, at: INPUTS[node.dtype][at])
    assert np.asarray(each).dtype == np.dtype(declared)


# refusals

n = var("n")
A = placeholder((8, 8), name="A")
V = placeholder((8,), name="V")
U = placeholder((8,), "uint8", name="U")
I8 = placeholder((8,), "int8", name="I")
F = placeholder((8,), "float32", name="F")
B = placeholder((8,), "bool", name="B")
k = r.reduce_axis(8, name="k")
empty = r.reduce_axis(0, name="empty")
S = placeholder((5, 4), name="S")
first = compute((1, 4), lambda t, i: V[i], name="first")
step = compute((5, 4), lambda t, i: S[t - 1, i] + 1, name="step")
other = compute((8,), lambda x: V[x], name="other")


def one(body: Callable[[Any], Any]) -> Callable[[], Any]:
    """A refusal inside the lambda of an 8-element compute."""
    return lambda: compute((8,), body, name="C")


def branch(i: Any) -> Any:
    return 1.0 if V[i] > 0 else 0.0


def both(i: Any) -> Any:
    return m.select(V[i] > 0 and V[i] < 1, 1.0, 0.0)


def chained(i: Any) -> Any:
    return m.select(0 < V[i] < 1, 1.0, 0.0)


REFUSALS: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    # shapes, dtypes and names
    "negative extent": (
        lambda: placeholder((4, -1)), ComputeError, "dimension 1 of placeholder .*-1"),
    "float extent": (
        lambda: placeholder((4.5,)), ComputeTypeError, r"is 4\.5: an extent is an integer"),
    "bool extent": (lambda: placeholder((True,)), ComputeTypeError, "an extent is an integer"),
    "text extent": (lambda: placeholder("n"), ComputeTypeError, r"sl\.var"),
    "float size": (lambda: placeholder((var("x", "float32"),)), ComputeTypeError, r"x \(float32\)"),
    "huge extent": (lambda: placeholder((2**62,)), ComputeError, "overflow 64-bit"),
    "huge shape": (lambda: placeholder((2**31, 2**31)), ComputeError, "overflow 64 bits"),
    "unknown dtype": (
        lambda: placeholder((4,), "float8"), ComputeTypeError, "'float8' is not supported"),
    "complex dtype": (lambda: placeholder((4,), complex), ComputeTypeError, "'complex128' is not"),
    "keyword name": (
        lambda: placeholder((4,), name="for"), ComputeError, "'for' cannot name a place"),
    "spaced name": (lambda: placeholder((4,), name="a b"), ComputeError, "Python identifier"),
    "code in a name": (
        lambda: compute((4,), lambda i: i, name="x;import os"), ComputeError, "cannot name"),
    "newline in a name": (lambda: var("n\n"), ComputeError, "cannot name a variable"),
    "empty name": (lambda: placeholder((4,), name=""), ComputeError, "cannot name"),
    "number as name": (lambda: placeholder((4,), name=3), ComputeTypeError, "is a string, got int"),
    "axis name": (
        lambda: r.reduce_axis(4, name="a-b"), ComputeError, "cannot name a reduction axis"),
    # indexing
    "too few indices": (one(lambda i: A[i]), BoundsError, r"A has 2 dimension\(s\), got 1"),
    "too many indices": (one(lambda i: V[i, i]), BoundsError, r"V has 1 dimension\(s\), got 2"),
    "float index": (
        one(lambda i: V[i * 0.5]), ComputeTypeError, r"index 0 of V is float64.*sl\.cast"),
    "float tensor index": (one(lambda i: V[F[i]]), ComputeTypeError, "index 0 of V is float32"),
    "bool index": (one(lambda i: V[i > 3]), ComputeTypeError, "index 0 of V is bool"),
    "slice": (one(lambda i: V[0:3]), ComputeTypeError, "a slice has no element"),
    "ellipsis": (one(lambda i: A[i, ...]), ComputeTypeError, "index 1 of A: a slice"),
    "text index": (
        one(lambda i: V["i"]), ComputeTypeError, "str 'i' cannot stand in an expression"),
    "read above": (one(lambda i: V[i + 1]), BoundsError, r"C reads V\[i \+ 1\].*runs over 1\.\.8"),
    "read below": (one(lambda i: other[i - 1]), BoundsError, r"runs over -1\.\.6, and other"),
    "read far above": (
        lambda: compute((9,), lambda i: V[i]), BoundsError, r"0\.\.8, and V .* has 8"),
    "constant index": (one(lambda i: V[8]), BoundsError, r"runs over 8\.\.8"),
    "select guards nothing": (
        one(lambda i: m.select(i < 7, V[i + 1], 0)), BoundsError, "sl.select evaluates both"),
    "certain in a branch": (
        one(lambda i: m.if_then_else(i < 4, V[i + 8], 0)), BoundsError, r"runs over 8\.\.15"),
    # Python control flow on expressions
    "if": (one(branch), ComputeTypeError, r"truth value of V\[i\] > 0.*\n.*sl\.select"),
    "and": (one(both), ComputeTypeError, "& | ~ in place of and"),
    "chained comparison": (one(chained), ComputeTypeError, "chained comparisons too"),
    "not": (one(lambda i: m.select(not (V[i] > 0), 1, 0)), ComputeTypeError, "truth value"),
    "range": (one(lambda i: [x for x in range(i)][0]), ComputeTypeError, "no integer value here"),
    "math.exp": (one(lambda i: math.exp(V[i])), ComputeTypeError, "np.exp in place of math.exp"),
    "iteration": (one(lambda i: sum(x for x in V[i])), ComputeTypeError, "cannot be iterated over"),
    "iterating a tensor": (one(lambda i: max(V)), ComputeTypeError, "tensor V cannot be iterated"),
    "tensor as a truth value": (lambda: bool(V), ComputeTypeError, "has no truth value"),
    # operands
    "tensor without index": (one(lambda i: V + 1), ComputeTypeError, r"tensor V of shape .*V\[i\]"),
    "unindexed result": (one(lambda i: V), ComputeTypeError, "stands where an element is needed"),
    "text operand": (one(lambda i: V[i] + "a"), ComputeTypeError, "str 'a' cannot stand"),
    "complex operand": (one(lambda i: V[i] * 1j), ComputeTypeError, "complex 1j cannot stand"),
    "number too large": (
        one(lambda i: U[i] + 300), ComputeTypeError, r"300 does not fit uint8 \(0\.\.255"),
    "negative and unsigned": (one(lambda i: U[i] * -1), ComputeTypeError, "-1 does not fit uint8"),
    "axis too large": (lambda: compute((1000,), lambda i: I8[i % 8] + i), ComputeTypeError,
                       r"i in int8 arithmetic: it ranges over 0\.\.999"),
    "bits of a float": (
        one(lambda i: V[i] & 1), ComputeTypeError, "need integers or bools, not float32"),
    "shift of a float": (one(lambda i: V[i] << 1), ComputeTypeError, "not float32"),
    "not of a float": (one(lambda i: ~V[i]), ComputeTypeError, "needs an integer or a bool"),
    "bool minus bool": (one(lambda i: B[i] - B[i]), ComputeTypeError, "bools cannot be subtracted"),
    "negative bool": (one(lambda i: -B[i]), ComputeTypeError, "a bool has no negative"),
    "division by zero": (
        one(lambda i: V[const(3) // 0]), ComputeTypeError, "3 // 0: division by zero"),
    "cast to a stranger": (
        one(lambda i: V[i].astype("object")), ComputeTypeError, "is not supported"),
    "constant of no dtype": (lambda: const(1.5, "int32"), ComputeTypeError, "1.5 is no int32"),
    "constant out of range": (
        lambda: const(-1, "uint8"), ComputeTypeError, "-1 does not fit uint8"),
    "constant of an expression": (lambda: const(n, "int8"), ComputeTypeError, "made from a number"),
    # NumPy's functions
    "np.sum": (one(lambda i: np.add.reduce(V[i])), ComputeTypeError, r"use sl\.sum"),
    "ufunc with where": (
        one(lambda i: np.exp(V[i], where=True)), ComputeTypeError, "only plain calls"),
    "ufunc with an array": (
        one(lambda i: np.add(V[i], np.ones(3))), ComputeTypeError, "sl.placeholder"),
    "unknown ufunc": (one(lambda i: np.cbrt(V[i])), ComputeTypeError, "np.cbrt has no counterpart"),
    # functions of the language
    "select by a number": (one(lambda i: m.select(V[i], 1, 0)), ComputeTypeError, r"V\[i\] != 0"),
    "if_then_else by an axis": (
        one(lambda i: m.if_then_else(i, 1, 0)), ComputeTypeError, "is int64"),
    "all of nothing": (lambda: m.all(), ComputeTypeError, "at least one condition"),
    "any of a number": (
        lambda: m.any(n > 1, n), ComputeTypeError, "a condition is bool, not int64"),
    "logical_not of a number": (
        one(lambda i: m.logical_not(V[i])), ComputeTypeError, "not float32"),
    "min with init": (
        one(lambda i: r.min(V[i], 0, init=1)), ComputeTypeError, "takes no where= or init="),
    # the lambda
    "arity": (
        lambda: compute((8, 8), lambda i: V[i]),
        ComputeError, r"2 dimension\(s\), the lambda takes 1"),
    "no function": (
        lambda: compute((8,), 3), ComputeTypeError, "fcompute is a function of the axes"),
    "None": (one(lambda i: None), ComputeTypeError, "the lambda returns None"),
    "empty tuple": (one(lambda i: ()), ComputeError, "returns an empty tuple"),
    "unknown option": (
        lambda: compute((8,), lambda i: i, axis=3), ComputeTypeError, "no option 'axis'"),
    "foreign axis": (
        one(lambda i: V[other.op.axis[0]]), ComputeError, "axis x, which belongs to another"),
    "loose reduction axis": (
        one(lambda i: V[k]), ComputeError, "reduction axis k outside a reduction"),
    "second reduction axis": (
        one(lambda i: r.sum(A[k, empty], axis=k)), ComputeError, "reduction axis empty outside"),
    # reductions
    "arithmetic on a sum": (
        one(lambda i: r.sum(V[k], axis=k) + 1), ComputeError, "stage of its own"),
    "ufunc of a sum": (
        one(lambda i: np.exp(r.sum(V[k], axis=k))), ComputeError, "top of its lambda"),
    "select of a sum": (
        one(lambda i: -r.max(V[k], axis=k)), ComputeError, "a reduction stands alone"),
    "tuple of reductions": (
        one(lambda i: (r.sum(V[k], axis=k), r.max(V[k], axis=k))), ComputeError, "comm_reducer"),
    "sum over a data axis": (one(lambda i: r.sum(V[i], axis=i)), ComputeError, "i is a data axis"),
    "sum over a number": (
        one(lambda i: r.sum(V[i], axis=0)), ComputeTypeError, r"axis=0\): an axis made"),
    "sum over nothing": (
        one(lambda i: r.sum(V[i], axis=())), ComputeError, "at least one reduce_axis"),
    "axis twice": (one(lambda i: r.sum(V[k], axis=(k, k))), ComputeError, "named twice"),
    "where that is no condition": (
        one(lambda i: r.sum(V[k], axis=k, where=k)), ComputeTypeError, "a condition is bool"),
    "init count": (
        one(lambda i: r.sum(V[k], axis=k, init=(0, 1))), ComputeError, "init has 2 values for 1"),
    "init dtype": (
        one(lambda i: r.sum(U[k], axis=k, init=-1)), ComputeTypeError, "-1 does not fit uint8"),
    "init of a reduction axis": (
        one(lambda i: r.sum(V[k], axis=k, init=k)),
        ComputeError, "init= uses k; it may use data axes"),
    "init that reads": (
        one(lambda i: r.sum(V[k], axis=k, init=V[i])), ComputeError, "init= reads a tensor"),
    "max of nothing": (
        one(lambda i: r.max(A[i, empty], axis=empty)), ComputeError, "the axis is empty"),
    "argmax of nothing": (
        one(lambda i: r.argmax(A[i, empty], axis=empty)), ComputeError, "argmax of nothing"),
    "range of three": (
        lambda: r.reduce_axis((0, 1, 2)), ComputeError, r"give the extent, or \(lo, hi\)"),
    "reversed range": (lambda: r.reduce_axis((5, 2)), ComputeError, "hi is below lo"),
    "float range": (lambda: r.reduce_axis((0, 1.5)), ComputeTypeError, "holds 1.5: use integers"),
    "float scalar range": (
        lambda: r.reduce_axis((0, var("x", "float32"))),
        ComputeTypeError, "an extent is an integer"),
    "range by an axis": (
        one(lambda i: r.sum(V[k], axis=r.reduce_axis((i, i + 2)))),
        ComputeError, "depend on axis i"),
    # reducers
    "not associative": (
        one(lambda i: r.comm_reducer(lambda x, y: x - y, lambda t: 0)(V[k], axis=k)),
        ComputeError, "fcombine is not commutative"),
    "associative by no one": (
        one(lambda i: r.comm_reducer(lambda x, y: (x + y) / 2, lambda t: 0)(V[k], axis=k)),
        ComputeError, "fcombine is not associative"),
    "wrong identity": (
        one(lambda i: r.comm_reducer(lambda x, y: x + y, lambda t: 1)(V[k], axis=k)),
        ComputeError, "not neutral to its identity"),
    "reducer of another count": (
        one(lambda i: r.comm_reducer(lambda x, y: (x, y), lambda t: 0)(V[k], axis=k)),
        ComputeError, r"1 operand\(s\), but fcombine gives 2"),
    "reducer of another dtype": (
        one(lambda i: r.comm_reducer(lambda x, y: x < y, lambda t: 0)(V[k], axis=k)),
        ComputeTypeError, "fcombine gives bool for an operand of float32"),
    "identity that is no number": (
        one(lambda i: r.comm_reducer(lambda x, y: x + y, lambda t: n)(V[k], axis=k)),
        ComputeError, "the identity n is not a number"),
    "reducer name": (
        lambda: r.comm_reducer(lambda x, y: x + y, lambda t: 0, name="a b"),
        ComputeError, "a reducer"),
    # scans
    "state that is computed": (
        lambda: scan(first, step, step), ComputeError, "must be a placeholder"),
    "init that is given": (
        lambda: scan(S, step, S), ComputeError, "init S must be made by sl.compute"),
    "scan of no tensor": (lambda: scan(first, step, 3), ComputeTypeError, "which is no tensor"),
    "scan counts": (
        lambda: scan([first], [step, step], [S]), ComputeError, "1 init, 2 update and 1 state"),
    "scan dtype": (
        lambda: scan(first, compute((5, 4), lambda t, i: i, name="u"), S),
        ComputeError, "u is int64, state"),
    "scan shape": (
        lambda: scan(first, compute((5, 3), lambda t, i: V[i], name="u"), S),
        ComputeError, "does not fit"),
    "scan rows": (
        lambda: scan(first, compute((6, 4), lambda t, i: V[i], name="u"), S),
        ComputeError, "u has 6 rows"),
    "scan start": (
        lambda: scan(compute((0, 4), lambda t, i: V[i], name="z"), step, S),
        ComputeError, "1 or more"),
    "scan start too long": (
        lambda: scan(compute((7, 4), lambda t, i: V[i], name="z"), step, S),
        ComputeError, "more rows"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSALS)
def test_refusal(case):
    build, error, message = REFUSALS[case]
    with pytest.raises(error, match=message) as caught:
        build()
    assert isinstance(caught.value, SchedlangError)


def test_cyclic_graph():
    T = compute((8,), lambda i: V[i], name="T")
    W = compute((8,), lambda i: T[i] + 1, name="W")
    (axis,) = T.op.axis
    object.__setattr__(T.op, "body", (W[axis],))
    with pytest.raises(ComputeError, match="the computation is cyclic: W depends on itself"):
        operations([W])


def test_reads_behind_conditions_are_let_pass():
    mask = placeholder((8,), "bool", name="mask")
    compute((8,), lambda i: m.if_then_else(mask[i], V[i + 1], 0), name="masked")
    compute(
        (8,), lambda i: m.if_then_else((i > 0) & ~(i >= 7), V[i - 1] + V[i + 1], 0), name="inner"
    )
    compute((8,), lambda i: r.sum(V[i + k], axis=k, where=i + k < 8), name="where")
    compute((8,), lambda i: m.if_then_else(i == 3, V[i + 4], V[7 - i]), name="equal")


def test_where_guards_no_read_of_its_own():
    with pytest.raises(BoundsError, match=r"reads V\[i \+ k\]"):
        compute((8,), lambda i: r.sum(V[k], axis=k, where=V[i + k] > 0), name="C")


def test_bounds_of_deep_nested_conditions_take_linear_time():
    def deep(i):
        value = V[i]
        for _ in range(3000):
            value = m.if_then_else(value > i, value + 1, V[(i + 1) % 8])
        return value

    assert isinstance(compute((8,), deep, name="deep"), Tensor)


def test_a_late_check_refuses_the_first_row():
    out = compute((8,), lambda i: V[i - 1], name="out")
    assert isinstance(out.op, ComputeOp)
    with pytest.raises(BoundsError, match=r"runs over -1\.\.6"):
        check_reads(out.op, late=True)
    check_reads(out.op, {out.op.axis[0]: 1}, late=True)
