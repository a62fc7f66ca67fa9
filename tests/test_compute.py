"""Tests of the compute language: expressions, their dtypes, and values like NumPy's."""

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
from schedlang.compute.graph import operations, placeholders, variables
from schedlang.compute.reference import reference
from schedlang.errors import SchedlangError
from schedlang.expr import dtypes

# tests/test_bfloat16.py and tests/test_complex.py test the others
DTYPES = tuple(d for d in dtypes.DTYPES if d != "bfloat16" and not dtypes.is_complex(d))

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
    """Return NumPy's result, or ``None`` if NumPy refuses."""
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


@pytest.mark.parametrize("name", OPERATORS)
def test_promotion_of_all_pairs_is_that_of_numpy(name):
    fn = OPERATORS[name]
    for a, b in itertools.product(DTYPES, DTYPES):
        expected = by_numpy(fn, INPUTS[a], INPUTS[b])
        found = by_schedlang(lambda i, a=a, b=b: fn(TENSORS[a][i], TENSORS[b][i]))
        assert_same(found, expected, f"{a} {name} {b}")


COMPARES = ("lt", "le", "gt", "ge", "eq", "ne")
WEAK = ("add", "sub", "mul", "truediv", "floordiv", "mod", "and_", "or_", "xor", *COMPARES,
        "maximum", "minimum", "arctan2")  # fmt: skip


@pytest.mark.parametrize("name", WEAK)
@pytest.mark.parametrize("swapped", [False, True])
def test_python_numbers_are_weak_as_in_numpy(name, swapped):
    fn = OPERATORS[name]
    for dtype, number in itertools.product(DTYPES, (2, 2.0, 0.1, -1, True, 300, 70000)):
        args = (number, INPUTS[dtype]) if swapped else (INPUTS[dtype], number)
        expected = by_numpy(fn, *args)

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
    assert C.dtype == "int64" and compute((3,), lambda i: i / 2).dtype == "float32"


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
        "round": np.rint(a), "abs": np.abs(a), "trunc": np.trunc(a),
        "erf": [math.erf(x) for x in wide],
        "sigmoid": 1 / (1 + np.exp(-wide)), "rsqrt": 1 / np.sqrt(np.where(wide > 0, wide, np.nan)),
        "tanh": np.tanh(wide),
    }  # fmt: skip
    for name, expected in cases.items():
        function = getattr(m, name)
        found = reference(compute((9,), lambda i, f=function: f(A[i])))(a)
        assert found.dtype == np.dtype(dtype)
        finite = np.isfinite(expected)
        np.testing.assert_allclose(found[finite], np.asarray(expected)[finite].astype(dtype),
                                   rtol=4 * np.finfo(dtype).eps, err_msg=name)  # fmt: skip


def test_sigmoid_of_large_arguments_is_exact():
    A = placeholder((4,), "float64", name="A")
    C = compute((4,), lambda i: m.sigmoid(A[i]))
    found = reference(C)(np.array([-800.0, -40.0, 40.0, 800.0]))
    np.testing.assert_allclose(found, [0.0, np.exp(-40.0), 1.0, 1.0], rtol=1e-15)


@pytest.mark.parametrize("source", DTYPES)
def test_casts_equal_astype(source):
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
    from schedlang.language.construct import settle

    with np.errstate(all="ignore"):
        each = evaluate(settle(value), {k: np.arange(3)}, lambda node, at: INPUTS[node.dtype][at])
    assert np.asarray(each).dtype == np.dtype(declared)
