"""Functions of other libraries, called with expressions, tensors and arrays of a trace."""

from __future__ import annotations

import cmath
import math
import sys
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import ComputeTypeError

A = sl.placeholder((8,), name="A")


@numba.njit
def doubled(x: Any) -> Any:
    return x * 2


@numba.njit
def sum_of_first(pair: Any) -> Any:
    return pair[0] + 1


# numba's ufunc has the name of another function of NumPy, which would compute something else
@numba.vectorize
def square(x: Any) -> Any:
    return x + 1


@numba.vectorize(["float32(float32)"])
def exp(x: Any) -> Any:
    return x + 1


@numba.guvectorize(["void(float32[:], float32[:])"], "(n)->(n)")
def copied(x: Any, y: Any) -> None:
    # numba compiles an assignment of the whole array for seconds
    y[0] = x[0]


@numba.stencil
def third(a: Any) -> Any:
    return a[0] / 3


def add(x: Any, y: Any) -> Any:
    return x - y


WHERE: dict[str, Callable[[Callable[[Any], Any]], Any]] = {
    "lambda": lambda f: sl.compute((8,), lambda i: f(A[i]), name="B"),
    "axis": lambda f: sl.compute((8,), lambda i: f(i), name="B"),
    "index": lambda f: sl.compute((8,), lambda i: A[f(i)], name="B"),
    "reducer": lambda f: sl.compute(
        (1,),
        lambda i: sl.comm_reducer(lambda x, y: f(x) + y, lambda t: 0.0)(
            A[i + sl.reduce_axis(8, name="k")], axis=sl.reduce_axis(8, name="k")
        ),
    ),
    "tensor": lambda f: f(A),
    "trace": lambda f: sl.trace(lambda a: f(a) + 1, A),
    "jit": lambda f: sl.jit(lambda a: f(a) + 1)(np.ones(8, "float32")),
}
NUMBA = {
    "njit": (doubled, r"doubled of .*: numba compiled doubled(.|\n)*doubled\.py_func"),
    "tuple": (lambda x: sum_of_first((x, 1)), r"sum_of_first of .*(.|\n)*sum_of_first\.py_func"),
    "vectorize": (square, r"square of .*: numba compiled square for values"),
    "vectorize for float32": (exp, r"exp of .*: numba compiled exp for values"),
    "guvectorize": (copied, r"copied of .*: it is not a ufunc of NumPy"),
    "stencil": (third, r"StencilFunc of .*: numba compiled"),
}


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("kind", NUMBA)
def test_functions_of_numba_are_refused(kind: str, where: str) -> None:
    function, message = NUMBA[kind]
    with pytest.raises(ComputeTypeError, match=message):
        WHERE[where](function)


def test_the_python_function_works() -> None:
    B = sl.compute((8,), lambda i: doubled.py_func(A[i]))
    a = np.arange(8, dtype="float32")
    np.testing.assert_array_equal(sl.reference(B)(a), a * 2)


@pytest.mark.parametrize("where", ["lambda", "reducer", "trace", "jit"])
@pytest.mark.parametrize("device", [True, False])
def test_functions_of_numba_cuda_are_refused(where: str, device: bool) -> None:
    cuda = pytest.importorskip("numba.cuda")
    function = cuda.jit(device=device)(doubled.py_func)
    with pytest.raises(ComputeTypeError, match=r"doubled of .*: numba compiled(.|\n)*py_func"):
        WHERE[where](function)


def test_other_errors_of_the_users_function_stay() -> None:
    def failing(x: Any) -> Any:
        raise ValueError("mine")

    for where in ("lambda", "reducer", "trace"):
        with pytest.raises(ValueError, match=r"^mine$"):
            WHERE[where](failing)


@pytest.mark.parametrize("where", [w for w in WHERE if w != "axis"])
def test_ufuncs_of_python_functions_are_refused(where: str) -> None:
    made = np.frompyfunc(add, 2, 1)
    with pytest.raises(ComputeTypeError, match=r"add of .*: it is not a ufunc of NumPy"):
        WHERE[where](lambda x: made(x, x))


def test_vectorize_of_elements_calls_the_function() -> None:
    f = np.vectorize(lambda x: sl.exp(x) + 1)
    B = sl.compute((8,), lambda i: f(A[i]))
    a = np.linspace(-1, 1, 8, dtype="float32")
    np.testing.assert_allclose(sl.reference(B)(a), np.exp(a) + 1, rtol=1e-6)


@pytest.mark.parametrize("where", ["lambda", "axis", "index", "reducer"])
def test_functions_of_scipy_of_elements_are_refused(where: str) -> None:
    special = pytest.importorskip("scipy.special")
    for name, instead in (("erf", "sl.erf"), ("expit", "sl.sigmoid"), ("exp2", "np.exp2")):
        with pytest.raises(ComputeTypeError, match=rf"scipy\.special\.{name} of .*\n.*{instead}"):
            WHERE[where](getattr(special, name))
    with pytest.raises(ComputeTypeError, match=r"scipy\.special\.gamma of .*\n.*sl\.\* and np"):
        WHERE[where](special.gamma)


def test_a_tensor_of_torch_holds_no_expression() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(ComputeTypeError, match=r"PyTorch that holds an expression"):
        WHERE["lambda"](lambda x: torch.tensor(x))


MATH: list[tuple[Callable[[Any], Any], str, str]] = [
    (math.exp, "math.exp", "np.exp"),
    (lambda x: math.exp(x), "math.exp", "np.exp"),
    (lambda x: exponential(x), "math.exp", "np.exp"),
    (lambda x: math.pow(2, x), "math.pow", "np.power"),
    (lambda x: math.fmod(x, 2) + math.sin(1), "math.fmod", "np.fmod"),
    (lambda x: math.erf(x), "math.erf", "sl.erf"),
    (lambda x: math.gamma(x), "math.gamma", "sl."),
    (lambda x: math.trunc(x), "math.trunc", "np.trunc"),
    (lambda x: math.floor(x), "math.floor", "np.floor"),
    (lambda x: round(x, 2), "round", "round"),
    (lambda x: cmath.sqrt(x), "cmath.sqrt", "np.sqrt"),
]
exponential = math.exp


@pytest.mark.parametrize("where", ["lambda", "reducer", "tensor", "trace", "jit"])
@pytest.mark.parametrize(("function", "name", "instead"), MATH)
def test_functions_of_math_are_refused(
    function: Callable[[Any], Any], name: str, instead: str, where: str
) -> None:
    with pytest.raises(ComputeTypeError) as caught:
        WHERE[where](function)
    if sys.version_info >= (3, 11) and not isinstance(function, type(math.exp)):
        # a function that is called through a variable, as the lists here do, is named by its own
        assert name in str(caught.value).partition("\n")[0]
        assert where in ("trace", "jit") or instead in str(caught.value)


@pytest.mark.parametrize("convert", [float, complex, int, bool])
def test_conversions_to_numbers_are_refused(convert: Callable[[Any], Any]) -> None:
    for where in ("lambda", "tensor", "trace"):
        with pytest.raises(ComputeTypeError):
            WHERE[where](convert)
