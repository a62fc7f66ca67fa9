"""Refusals of ``sl.ufunc``, at its call."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import (
    BuildError,
    ComputeError,
    ComputeTypeError,
    MissingNameError,
    SchedlangError,
)

one, two = lambda x: x, lambda x, y: x + y  # noqa: E731

ARRAY = 'If x is an array, give its dimensions: sl.ufunc(..., signature="(n)->()").'
REFUSED: dict[str, tuple[Any, dict[str, Any], type[SchedlangError], str]] = {
    "no function": (3, {}, ComputeTypeError, "the first argument is a function"),
    "if": (lambda x, y: x if x > y else y, {}, ComputeTypeError, "Instead of if, write sl.select"),
    "reduction": (lambda x: np.sum(x), {}, ComputeTypeError,
                  "sl.ufunc(ufunc): np.sum of x: it takes an array, and each parameter is one "
                  f"number here\n  {ARRAY}"),
    "reduction of ours": (lambda x, y: sl.sum(x * y, axis=0), {"name": "dot"}, ComputeTypeError,
                          "sl.ufunc(dot): sl.sum(..., axis=0): it takes an array, and each "
                          "parameter is one number here\n  If a parameter is an array, give its "
                          'dimensions: sl.ufunc(..., signature="(n),(n)->()").'),
    "function of arrays": (lambda x: np.sort(x), {}, ComputeTypeError, "np.sort of x: it takes an"),
    "attribute of arrays": (lambda x: x.shape[0] * x, {}, MissingNameError,
                            "sl.ufunc(ufunc): x.shape: x is a number here, without this "
                            f"attribute\n  {ARRAY}"),
    "unknown attribute": (lambda x: (x + 1).foo, {}, MissingNameError,
                          f"1).foo: (x + 1) is a number here, without this attribute\n  {ARRAY}"),
    "index": (lambda x: x[0], {}, ComputeTypeError,
              "sl.ufunc(ufunc): a number is not subscriptable; each parameter is one number here"),
    "length": (lambda x: len(x), {}, ComputeTypeError, "a number has no len(); each parameter is"),
    "product of matrices": (lambda x: x @ x, {}, ComputeTypeError, "for @: a number and a number;"),
    "iteration": (lambda x: [v for v in x], {}, ComputeTypeError,
                  f"iterating over x: it is one value, which cannot be iterated over\n  {ARRAY}"),
    "table": (lambda x: np.zeros(3)[x], {}, ComputeTypeError,
              'lambda x, arr: arr[x], signature="(),(n)->()")'),
    "attribute with a signature": (lambda x: x.foo, {"signature": "(n)->(n)"}, MissingNameError,
                                   "sl.ufunc(ufunc): an array of a traced function has no attr"),
    "nothing returned": (lambda x: None, {}, ComputeTypeError, "the function returns None; return"),
    "any number of inputs": (lambda *x: x[0], {}, ComputeTypeError, "*x cannot be given by pos"),
    "keywords": (lambda x, *, k: x, {}, ComputeTypeError, "k cannot be given by position"),
    "no inputs": (lambda: 1, {}, ComputeTypeError, "the function has no parameters"),
    "unknown parameters": (max, {}, ComputeTypeError, "does not know the parameters"),
    "no loop": (lambda x: x ^ 1, {"dtypes": ["float32"]}, ComputeTypeError, "bitwise operators"),
    "no loop at all": (lambda x: (x ^ 1) + np.sqrt(x ^ 1.5), {}, ComputeTypeError, "bitwise"),
    "one dtype": (one, {"dtypes": "float32"}, ComputeTypeError, "dtypes is a list"),
    "no dtypes": (one, {"dtypes": []}, ComputeError, "at least one loop"),
    "objects": (one, {"dtypes": ["object"]}, ComputeTypeError, "ufunc(ufunc): dtype 'obj"),
    "bfloat16": (one, {"dtypes": ["bfloat16"]}, ComputeTypeError, "not a dtype of NumPy's own"),
    "dtypes too few": (two, {"dtypes": [("float32",)]}, ComputeError, "has 1 dtype, and"),
    "dtype twice": (one, {"dtypes": ["int8", "int8"]}, ComputeError, "int8 is given twice"),
    "name": (one, {"name": "a b"}, ComputeError, "'a b' cannot name a ufunc"),
    "identity not neutral": (two, {"identity": 1}, ComputeError, "1 is not neutral"),
    "identity of numbers that are not negative": (lambda x, y: np.maximum(x, 0) + np.maximum(y, 0),
                                                  {"identity": 0}, ComputeError,
                                                  "0 is not neutral: ufunc(0, -1) is 0, and n"),
    "identity of numbers that are positive": (
        lambda x, y: np.hypot(x, y), {"identity": 0, "name": "hypot"}, ComputeError,
        "0 is not neutral: hypot(0, -1.0) is 1.0, and not -1.0\n  With identity=, NumPy reduces in "
        "any order. Leave it out: reduce and accumulate then run from the first element to the "
        "last. To start a reduction at 0 all the same, write hypot.reduce(x, initial=0)."),
    "identity of a loop": (lambda x, y: np.maximum(x, y), {"identity": 0}, ComputeError,
                           "0 is not neutral"),
    "identity and NaN": (lambda x, y: sl.select(x > y, x, y),
                         {"identity": -np.inf, "dtypes": ["float64"]}, ComputeError,
                         "commutative: ufunc(1.0, nan) is nan, and ufunc(nan, 1.0) is 1.0"),
    "not associative": (lambda x, y: x + y +
                        np.abs(x - y) * x * y, {"identity": 0}, ComputeError, "not associative"),
    "not commutative": (lambda x, y: sl.select(x == 0, y, x), {"identity": 0}, ComputeError,
                        "not commutative"),
    "identity of one input": (one, {"identity": 0}, ComputeError, "a reduction combines two"),
    "identity no number": (two, {"identity": "a"}, ComputeTypeError, "the identity is a number"),
    "identity of a dtype": (two, {"identity": np.inf, "dtypes": ["int32"]}, ComputeError,
                            "int32 has no such number"),
    "parallel": (one, {"parallel": 1}, ComputeTypeError, "parallel=1): it is True or False"),
    "signature no text": (one, {"signature": 3}, ComputeTypeError, "a signature is a string"),
    "signature": (one, {"signature": "n->n"}, ComputeError, "not a signature of NumPy's"),
    "dimension": (one, {"signature": "(0)->()"}, ComputeError, "'0' is neither the name nor"),
    "unknown size": (one, {"signature": "(n)->(m)"}, ComputeError, "is in no input"),
    "missing dimensions": (one, {"signature": "(n?)->(n?)"}, ComputeError, "may be missing"),
    "inputs": (two, {"signature": "(n)->()"}, ComputeError, "1 input, and the function 2 param"),
    "results": (lambda x: (x, x), {"signature": "(n)->(n)"}, ComputeError, "returns 2 results"),
    "shape": (one, {"signature": "(n)->()"}, ComputeError, "the result has the shape (n,)"),
    "constant": (lambda x: "a", {"signature": "(n)->()"}, SchedlangError, "returns str"),
    "identity of arrays": (one, {"signature": "(n)->(n)", "identity": 0}, ComputeError,
                           "no reduce for a generalized ufunc"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    function, options, kind, message = REFUSED[case]
    with pytest.raises(kind, match=re.escape(message)) as raised:
        sl.ufunc(function, **options)
    text = str(raised.value)
    assert "ufunc" in text
    assert not re.search(r"sl\.(compute|reduce_axis|placeholder|scan)|'Read'|\[i\]", text)


def test_an_old_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("schedlang.tracing.ufuncs.definition._takes_attributes", lambda: False)
    with pytest.raises(BuildError, match="Install NumPy 2.2 or newer"):
        sl.ufunc(one)


def test_an_unknown_argument_suggests_the_nearest() -> None:
    with pytest.raises(TypeError, match="did you mean 'dtypes'"):
        sl.ufunc(one, dtype="float32")


def test_an_error_of_the_function_is_its_own() -> None:
    with pytest.raises(ZeroDivisionError):
        sl.ufunc(lambda x: x * (1 // 0))
    with pytest.raises(AttributeError, match="module 'numpy' has no attribute 'foo'"):
        sl.ufunc(lambda x: np.foo(x))
    with pytest.raises(TypeError, match="'float' object is not callable"):
        sl.ufunc(lambda x: np.pi(x))


def test_a_reduction_that_the_user_starts() -> None:
    """NumPy's hypot starts at 0, so that a reduction of one negative number is positive."""
    hypot = sl.ufunc(lambda x, y: np.hypot(x, y), name="hypot", dtypes=["float64"])
    for x in (np.array([-1.0]), np.zeros(0), np.array([3.0, -4.0])):
        np.testing.assert_allclose(hypot.reduce(x, initial=0), np.hypot.reduce(x), rtol=1e-15)
