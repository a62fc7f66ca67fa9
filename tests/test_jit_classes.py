"""What a traced function asks of its arrays' classes, and classes that compute otherwise."""

from __future__ import annotations

import copy
import numbers

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import CallTypeError, ComputeTypeError, SchedlangError
from tests.test_jit import check, same

X = np.arange(1, 7, dtype="float32").reshape(2, 3)
INTS = np.arange(1, 5).reshape(2, 2)
QUESTIONS = {
    "an array": lambda x, s, n: isinstance(x, np.ndarray),
    "an array by keyword": lambda x, s, n: isinstance(np.sin(x), (list, np.ndarray)),
    "a view": lambda x, s, n: isinstance(x[1:].T, np.ndarray),
    "an element": lambda x, s, n: isinstance(x[0, 0], np.ndarray),
    "an element's type": lambda x, s, n: isinstance(x[0, 0], np.float32),
    "an element is a float": lambda x, s, n: isinstance(x[0, 0], float),
    "a sum": lambda x, s, n: isinstance(x.sum(), np.floating),
    "a mean of integers is a float": lambda x, s, n: isinstance(x.astype(int).mean(), float),
    "a truth value": lambda x, s, n: isinstance((x > 1).all(), np.bool_),
    "a number": lambda x, s, n: isinstance(x.sum(), numbers.Number),
    "selected": lambda x, s, n: isinstance(x[x > 2], np.ndarray),
    "0-d": lambda x, s, n: isinstance(np.zeros((), like=x), np.ndarray),
    "generic": lambda x, s, n: isinstance(x, np.generic),
    "scalar": lambda x, s, n: isinstance(s, float),
    "scalar of NumPy": lambda x, s, n: isinstance(s, np.floating),
    "integer": lambda x, s, n: isinstance(n, (int, np.integer)),
    "integer of Python": lambda x, s, n: isinstance(n, int),
    "sequence": lambda x, s, n: isinstance(x, (list, tuple)),
    "isscalar": lambda x, s, n: np.isscalar(s) and np.isscalar(x.sum()) and not np.isscalar(x),
    "subdtype": lambda x, s, n: np.issubdtype(x.dtype, np.floating),
    "subclass": lambda x, s, n: issubclass(x.dtype.type, np.integer),
    "iterable": lambda x, s, n: np.iterable(x) and not np.iterable(x.sum()),
    "callable": lambda x, s, n: callable(x),
    "hasattr": lambda x, s, n: hasattr(x, "shape") and hasattr(x, "mT") and not hasattr(x, "todo"),
    "class": lambda x, s, n: x.__class__ is np.ndarray,
}


@pytest.mark.parametrize("case", QUESTIONS)
@pytest.mark.parametrize("scalars", [(2.5, np.int64(3)), (np.float32(2.5), np.int64(-3))])
def test_questions_have_numpys_answers(case, scalars):
    def f(x, s, n):
        return x * 2 if QUESTIONS[case](x, s, n) else x * 3

    check(f, X, *scalars)


def typed(x):
    return x * 2 if type(x) is np.ndarray else x * 3


def typed_over_lines(x):
    if (
        type(x)
        is np.ndarray
    ):  # fmt: skip
        return x * 2
    return x * 3


TYPED = {
    "is": typed,
    "called": lambda x: typed(x) + 1,
    "in": lambda x: x * (1 + (type(x) in (float, np.ndarray))),
    "lines": typed_over_lines,
}


@pytest.mark.parametrize("case", TYPED)
def test_a_comparison_of_types_is_refused(case):
    line = r"at line \d+, `(.*type\(x\).*|if \()`.*\n.*isinstance"
    with pytest.raises(ComputeTypeError, match=line):
        sl.jit(TYPED[case], target="python")(X)


ZERO_DIMENSIONAL = {
    "where": lambda z, v: np.where(z > 1, z, v[0]), "select": lambda z, v: np.select([z > 1], [z]),
    "pad": lambda z, v: np.pad(z, 1), "roll": lambda z, v: np.roll(z, 1),
    "tile": lambda z, v: np.tile(z, ()), "tensordot": lambda z, v: np.tensordot(v, v, 1),
    "astype": lambda z, v: z.astype("float64"), "copy": lambda z, v: np.copy(v[0]),
    "zeros_like": lambda z, v: np.zeros_like(v[0]), "transpose": lambda z, v: z.T,
    "flip": lambda z, v: np.flip(z), "einsum": lambda z, v: np.einsum("i,i", v, v),
    "dot": lambda z, v: v @ v, "ufunc": lambda z, v: np.sqrt(z), "clip": lambda z, v: np.clip(
        z, 1, 2), "view": lambda z, v: v[..., 0], "element": lambda z, v: v[0],
    "empty index": lambda z, v: z[()], "reshape": lambda z, v: v[:1].reshape(()),
    "squeeze": lambda z, v: v[:1].squeeze(), "round": lambda z, v: np.round(z),
    "isclose": lambda z, v: np.isclose(z, 1), "take": lambda z, v: np.take(v, 0),
    "norm": lambda z, v: np.linalg.norm(v), "linalg": lambda z, v: np.linalg.tensordot(
        v, v, axes=1), "trace": lambda z, v: np.trace(v[:, None]), "fix": lambda z, v: np.fix(z),
}  # fmt: skip


@pytest.mark.parametrize("case", ZERO_DIMENSIONAL)
def test_results_without_dimensions_are_arrays_or_scalars(case):
    def f(z, v):
        made = ZERO_DIMENSIONAL[case](z, v)
        return made * 1, z + (isinstance(made, np.ndarray) + 2 * np.isscalar(made))

    check(f, np.array(2.5, "float32"), X[0])


@pytest.mark.parametrize("name", ["flags", "base", "ctypes"])
def test_an_attribute_of_arrays_is_not_denied(name):
    """``hasattr`` would say that an array has none."""
    with pytest.raises(ComputeTypeError, match=rf"{name}' \(in <lambda> at line \d+.*unlike NumPy"):
        sl.jit(lambda x: x * 2 if hasattr(x, name) else x, target="python")(X)


def test_copies_are_arrays_of_their_own():
    def f(x):
        y, z, (w,) = copy.copy(x), copy.deepcopy(x), copy.deepcopy([x])
        y[0], z[1] = 5, 6
        w += 1
        return x * 1, y, z, w

    check(f, X)


def test_astype_of_all_arguments():
    def f(x):
        y = x.astype("float32", "K", "same_kind", True, False)
        y[0] = 7
        z = x.astype("float64", casting="safe")
        z[1] = 8
        return x * 1, z

    check(f, X)
    with pytest.raises(ComputeTypeError, match="casting='safe'"):
        sl.jit(lambda x: x.astype("int32", casting="safe"), target="python")(X)


def test_copyto():
    def f(x, y):
        np.copyto(x, y, where=y > 2)
        np.copyto(y, 9)

    check(f, X, X[::-1] * 2)
    with pytest.raises(ComputeTypeError, match=r"np\.copyto of float32 into an array of int64"):
        sl.jit(lambda n, x: np.copyto(n, x), target="python")(INTS, X[:, :2])


MATRIX = np.asmatrix(X[:, :2])
MASKED = np.ma.array(X[:, :2], mask=[[False, True], [False, False]])
OTHERS = {
    "asmatrix": lambda x: np.asmatrix(x) * x,
    "matrix": lambda x: np.matrix(x),
    "bmat": lambda x: np.bmat([[x, x]]),
    "a global matrix": lambda x: x * MATRIX,
    "a matrix in a function": lambda x: np.add(x, MATRIX),
    "a matrix of ones": lambda x: np.where(x > 1, x, np.asmatrix(np.ones((2, 2)))),
    "a global masked array": lambda x: x + MASKED,
}


@pytest.mark.parametrize("case", OTHERS)
def test_other_classes_are_refused(case):
    with pytest.raises(ComputeTypeError, match=r"in <lambda> at line \d+, `.*operators.*\n"):
        sl.jit(OTHERS[case], target="python")(X[:, :2])


@pytest.mark.parametrize("given", [MATRIX, [MATRIX], MASKED], ids=["matrix", "list", "masked"])
def test_other_classes_as_arguments(given):
    with pytest.raises(CallTypeError, match=r"x.*(operators of matrix.*\n.*np\.asarray|masked)"):
        sl.jit(lambda x: (x[0] if isinstance(x, list) else x) * 2, target="python")(given)


def test_a_memory_map_is_an_array(tmp_path):
    x = np.memmap(tmp_path / "x", "float32", "w+", shape=(2, 3))
    x[:] = X
    same(sl.jit(lambda y: y * x + 1, target="python")(x), X * X + 1, 1e-6)


NEGATIVE = {
    "a number": lambda x, y, n: x**-1,
    "np.power": lambda x, y, n: np.power(x, -2),
    "in place": lambda x, y, n: x.__ipow__(-1),
    "a 0-d array": lambda x, y, n: x ** np.array(-2),
    "a constant": lambda x, y, n: x ** np.array([3, -1]),
    "bools": lambda x, y, n: (x > 1) ** np.array([3, -1]),
    "an argument": lambda x, y, n: x**y,
    "an argument of bools": lambda x, y, n: np.power(x > 1, y),
    "an argument to 2": lambda x, y, n: 2**y,
    "a scalar": lambda x, y, n: x**n,
    "a scalar to 2": lambda x, y, n: 2**n * x,
    "a list": lambda x, y, n: x ** [y, 1][0],
}


@pytest.mark.parametrize("case", NEGATIVE)
@pytest.mark.parametrize("target", ["python", "cpu"])
def test_integers_to_negative_integer_powers(case, target):
    f, y = NEGATIVE[case], np.array([1, -1])
    with pytest.raises(ValueError, match="Integers to negative"):
        f(INTS, y, np.int64(-2))
    with pytest.raises(SchedlangError, match=r"ntegers to negative (integer )?powers .* NumPy"):
        sl.jit(f, target=target)(INTS, y, np.int64(-2))


def test_an_exponent_is_checked_in_each_call():
    f = sl.jit(lambda x, y: x**y, target="python")
    for _ in range(2):
        same(f(INTS, np.array([2, 3])), INTS ** np.array([2, 3]), 0)
        with pytest.raises(SchedlangError, match=r"\(y=...\), the exponent in line \d+"):
            f(INTS, np.array([2, -3]))


def test_powers_that_numpy_takes():
    def f(x, y, n):
        z = np.float_power(x, -2), np.power(x, -1, dtype="float64"), x.astype("float32") ** -y
        w = x ** y.astype("uint8"), x.astype("float64") ** n
        y = np.maximum(abs(y), 0)
        y[0] = 0
        return *z, *w, x**y

    check(f, INTS, np.array([1, 2]), np.int64(-2), rtol=1e-5)


# exponents that a function computes and that no argument makes negative
NOT_NEGATIVE = {
    "arange": lambda x, n: x ** np.arange(2),
    "maximum": lambda x, n: x ** np.maximum(n - 1, 0),
    "clip": lambda x, n: np.power(x, np.clip(n, 0, 3) + 1),
    "remainder": lambda x, n: x ** (n % 3),
    "comparison": lambda x, n: x ** (n > 1),
    "where": lambda x, n: x ** np.where(n > 1, 2, 0),
    "unsigned": lambda x, n: x ** n.astype("uint16"),
    "constant": lambda x, n: x ** (np.array([3, 1])[::-1] - 1),
    "one of them": lambda x, n: x ** np.maximum(n, 0)[1],
    "argmax": lambda x, n: x ** np.argmax(n),
    "view": lambda x, n: x ** n[:, None],
    "reversed": lambda x, n: x ** n[::-1],
    "masked": lambda x, n: np.sum(x[x > 0] ** np.maximum(n, 0)[1]),
}


@pytest.mark.parametrize("case", NOT_NEGATIVE)
def test_exponents_that_are_not_negative(case):
    check(NOT_NEGATIVE[case], INTS, np.array([1, 2]))


def assigned(x, n, where):
    n = n.copy()
    n[where] = 2
    return x**n


# exponents that a function computes, and that may be negative
COMPUTED = {
    "minus": lambda x, n, k: x ** (n - 1),
    "minus a scalar": lambda x, n, k: x ** (k - 1),
    "negated": lambda x, n, k: x**-n,
    "abs": lambda x, n, k: x ** abs(n),
    "an element": lambda x, n, k: x ** n[0],
    "a part": lambda x, n, k: x[:1] ** n[1:],
    "where": lambda x, n, k: x ** np.where(n > 0, n, -1),
    "sum": lambda x, n, k: x ** n.sum(),
    "cast": lambda x, n, k: x ** n.astype("int8"),
    "a copy": lambda x, n, k: assigned(x, n, 0),
    "bools": lambda x, n, k: (x > 1) ** (n - 1),
    "in place": lambda x, n, k: x.copy().__ipow__(n - 1),
    "np.power": lambda x, n, k: np.power(2, n * k),
    "masked": lambda x, n, k: np.sum(x[x > 0] ** (k - 1)),
    "masked exponent": lambda x, n, k: np.sum(2 ** x[x > 0]),
    "overflow": lambda x, n, k: x ** (np.maximum(n, 0) + 1),
}


@pytest.mark.parametrize("case", COMPUTED)
def test_computed_exponents_that_may_be_negative(case):
    with pytest.raises(SchedlangError, match=r"power .*line \d+, `.*negative.*\n  .*float"):
        sl.jit(COMPUTED[case], target="python")(INTS, np.array([1, 2]), np.int64(3))


def in_loop(x, n):
    y = x.copy()

    @sl.fori_loop(0, 3)
    def _(i):
        y[...] = y + x**i + x**n

    return y


def changed_in_loop(x, n):
    y, n = x.copy(), n.copy()

    @sl.fori_loop(0, 3)
    def _(i):
        y[...] = y + x**n
        n[...] = n - 1

    return y


def changed_argument(x, n):
    y = x.copy()

    @sl.fori_loop(0, 3)
    def _(i):
        y[...] = y + x**n
        n[...] = n - 1

    return y


def test_exponents_in_loops():
    f = sl.jit(in_loop, target="python")
    n = np.array([1, 2])
    expected = INTS + sum(INTS**i + INTS**n for i in range(3))
    same(f(INTS, n), expected, 0)
    with pytest.raises(SchedlangError, match=r"in_loop\(n=...\), the exponent in line \d+"):
        f(INTS, np.array([1, -2]))
    for function in (changed_in_loop, changed_argument):
        with pytest.raises(SchedlangError, match=r"a power in .*line \d+, `.*negative"):
            sl.jit(function, target="python")(INTS, n)
