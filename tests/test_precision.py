"""Tests of the warning about float64 that only integers and Python floats cause."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import PrecisionWarning


def gray(body: Callable[..., Any], dtype: str = "uint8", out: str = "uint8") -> Any:
    X = sl.placeholder((4, 3), dtype, name="X")
    return sl.compute((4,), lambda i: body(X, i).astype(out), name="gray")


def scheduled(C: Any) -> list[Any]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        sl.schedule(C)
        sl.schedule(C)
    return [w for w in caught if w.category is PrecisionWarning]


@pytest.mark.parametrize(
    "body, dtype, says",
    [(lambda X, i: X[i, 0] * 0.299 + X[i, 1] * 0.587, "uint8",
      'X[i, 0] * sl.const(0.299, "float32")'),
     (lambda X, i: 0.5 + X[i, 0], "int16", 'sl.const(0.5, "float32") + X[i, 0]'),
     (lambda X, i: X[i, 0] * 0.5, "int32", 'X[i, 0].astype("float32") * 0.5'),
     (lambda X, i: X[i, 0] / 255, "uint8", 'X[i, 0].astype("float32") / 255'),
     (lambda X, i: 1 / (X[i, 0] + 1), "uint8", '1 / (X[i, 0] + 1).astype("float32")'),
     (lambda X, i: np.sqrt(X[i, 0]), "int32", 'X[i, 0].astype("float32") instead of X[i, 0]'),
     (lambda X, i: sl.max(X[i, 0], 0.5), "uint8", 'X[i, 0].astype("float32") instead of X[i, 0]'),
     (lambda X, i: sl.select(X[i, 0] > 1, X[i, 0], 0.5), "uint8", ".astype"),
     (lambda X, i: X[i, 0] ** 0.5, "uint8", 'X[i, 0] ** sl.const(0.5, "float32")')],
)  # fmt: skip
def test_the_warning_is_given_once_at_the_users_line(body: Any, dtype: str, says: str) -> None:
    (found,) = scheduled(gray(body, dtype))
    assert found.filename == __file__
    text = str(found.message)
    assert text.startswith("gray computes ") and "in float64: integers with Python floats" in text
    assert says in text, text


def test_the_advice_gives_float32() -> None:
    for body in (lambda X, i: X[i, 0] * sl.const(0.299, "float32"),
                 lambda X, i: X[i, 0].astype("float32") / 255):  # fmt: skip
        C = gray(body)
        assert "float64" not in sl.build(sl.schedule(C), target="python").source
        assert not scheduled(C)


@pytest.mark.parametrize(
    "body, dtype, out",
    [(lambda X, i: X[i, 0] * 0.5, "float32", "uint8"),
     (lambda X, i: X[i, 0] * 0.5, "uint8", "float64"),
     (lambda X, i: X[i, 0] * 0.5, "float64", "uint8"),
     (lambda X, i: X[i, 0] * sl.const(0.5, "float64"), "uint8", "uint8"),
     (lambda X, i: X[i, 0].astype("float64") * 0.5, "uint8", "uint8"),
     (lambda X, i: X[i, 0].astype("float64") / 2, "int32", "float32"),
     (lambda X, i: X[i, 0] * 2 + i, "int32", "uint8"),
     (lambda X, i: sl.exp(X[i, 0]), "int16", "float32")],
)  # fmt: skip
def test_a_requested_float64_gives_no_warning(body: Any, dtype: str, out: str) -> None:
    assert not scheduled(gray(body, dtype, out))


def test_an_intermediate_stage_warns_too() -> None:
    X = sl.placeholder((4, 3), "uint8", name="X")
    luma = sl.compute((4,), lambda i: X[i, 0] * 0.299, name="luma")
    C = sl.compute((4,), lambda i: sl.cast(luma[i], "uint8"), name="C")
    (found,) = scheduled(C)
    assert str(found.message).startswith("luma computes X[i, 0] * 0.299 in float64")
    assert not scheduled(luma)


def sum_of_products(a: str, b: str, dtype: str | None, wide: bool = False) -> list[Any]:
    A, B = sl.placeholder((4, 8), a, name="A"), sl.placeholder((8,), b, name="B")
    k = sl.reduce_axis(8, name="k")

    def body(i: Any) -> Any:
        if wide:
            return sl.sum(A[i, k].astype(dtype) * B[k].astype(dtype), axis=k)
        return sl.sum(A[i, k] * B[k], axis=k, dtype=dtype)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        sl.compute((4,), body, name="C")
    return [w for w in caught if w.category is PrecisionWarning]


@pytest.mark.parametrize("a, b, largest", [("int8", "int8", 127), ("uint8", "uint8", 255)])
def test_products_that_wrap_before_a_wider_sum(a: str, b: str, largest: int) -> None:
    (warning,) = sum_of_products(a, b, "int32")
    assert warning.filename == __file__
    text = str(warning.message)
    assert text.startswith(f"the sum of A[i, k] * B[k] is in int32, its products are in {a}: ")
    assert f"over {largest} wraps" in text
    assert 'Write A[i, k].astype("int32") * B[k].astype("int32").' in text
    assert not sum_of_products(a, b, "int32", wide=True)


@pytest.mark.parametrize(
    "a, b, dtype",
    [("int8", "int8", None), ("int32", "int32", "int64"), ("int8", "int8", "int8"),
     ("float32", "float32", "float64"), ("int32", "int8", "int64"), ("bool", "bool", "int32")],
)  # fmt: skip
def test_products_without_a_warning(a: str, b: str, dtype: str | None) -> None:
    assert not sum_of_products(a, b, dtype)
