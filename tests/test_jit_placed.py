"""Functions that leave out, insert or replace elements, in traced functions, beside NumPy."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from tests.test_jit_source import check

VECTOR, MATRIX = np.array([5.0, 2, 7, 1, 4, 3, 6]), np.arange(15.0).reshape(3, 5)


def put(x):
    np.put(x, [0, -1, 3], [50, 60, 70])
    np.put(x, [1, 2], 9)
    return x


def putmask(x):
    np.putmask(x, x > 4, 0)
    np.putmask(x, x < 2, x * 3)
    return x


def single_types(x):
    return np.float32(x[0]), np.int64(x), np.complex128(x[1]), np.bool_(x[2] - 7), np.uint8(x)


CASES: dict[str, tuple[Callable[..., Any], np.ndarray]] = {
    "delete one": (lambda x: np.delete(x, 3), VECTOR),
    "delete the last": (lambda x: np.delete(x, -1), VECTOR),
    "delete a slice": (lambda x: np.delete(x, slice(1, 6, 2)), VECTOR),
    "delete a list": (lambda x: np.delete(x, [0, 2, 4, 6]), VECTOR),
    "delete by bools": (lambda x: np.delete(x, np.arange(7) % 3 == 0), VECTOR),
    "delete all": (lambda x: np.delete(x, np.arange(7)), VECTOR),
    "delete of the elements": (lambda x: np.delete(x, 4), MATRIX),
    "delete a column": (lambda x: np.delete(x, 1, axis=1), MATRIX),
    "delete rows": (lambda x: np.delete(x, [0, 2], axis=0), MATRIX),
    "insert": (lambda x: np.insert(x, 2, 9), VECTOR),
    "insert several": (lambda x: np.insert(x, [1, 1, 5], [7, 8, 9]), VECTOR),
    "insert a list": (lambda x: np.insert(x, 3, [7, 8]), VECTOR),
    "insert elements": (lambda x: np.insert(x, [0, 7], x[:2] * 2), VECTOR),
    "insert a column": (lambda x: np.insert(x, 1, 0.5, axis=1), MATRIX),
    "resize": (lambda x: np.resize(x, (3, 4)), VECTOR),
    "resize to less": (lambda x: np.resize(x, 4), MATRIX),
    "choose": (lambda x: np.choose(x.astype(int) % 4, [x, x * 2, -x], mode="clip"), VECTOR),
    "choose in turns": (lambda x: np.choose(x.astype(int), [x, x * 2], mode="wrap"), VECTOR),
    "put": (put, VECTOR),
    "putmask": (putmask, VECTOR),
    "types": (single_types, VECTOR),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(
    "dtype", ["float32", pytest.param("int16", marks=pytest.mark.slow)]
)  # fmt: skip
def test_places(case: str, dtype: str) -> None:
    function, x = CASES[case]
    check(function, x.astype(dtype))


def by_key(x):
    return {x[0]: 1}


def in_masks(x):
    return np.ma.masked_array(x, x > 2)


def shuffled(x):
    return np.random.permutation(x)


def of_ranges(x):
    return np.add.reduceat(x, [0, 2])


def along(x):
    return np.apply_along_axis(np.sum, 0, x)


def iterated(x):
    return [v for v in np.nditer(x)]


def deleted_by_elements(x):
    return np.delete(x, x[:2].astype(int))


def deleted_outside(x):
    return np.delete(x, 12)


def root(x):
    import math

    return math.sqrt(x[0])


def resized(x):
    x.resize((7, 1))
    return x


def shaped_by_elements(x):
    return x.reshape(int(x[0]), -1)


def chosen(x):
    return np.choose(x.astype(int), [x, x])


def shown(x):
    return np.array2string(x)


MESSAGES = [
    (by_key, "as a key of a dict, or in a set"),
    (in_masks, r"Keep the mask as an array of bools: np.where\(mask, 0, x\)"),
    (shuffled, r"rng.permutation\(len\(x\)\)"),
    (of_ranges, r"x\[a:b\].sum\(\), or .*np.add.at\(sums, numbers, x\)"),
    (along, "it calls a Python function with one element or one row"),
    (iterated, r"np.nditer of an array in .*for i in range\(len\(x\)\)"),
    (deleted_by_elements, "np.delete in .*its places are unknown"),
    (deleted_outside, "np.delete in .*index 12 is out of bounds"),
    (root, r"math.sqrt\(\) of an array .*Write np.sqrt\."),
    (resized, r"x = np.resize\(x, shape\)"),
    (shaped_by_elements, r"an integer of an array of shape \(\)"),
    (chosen, "Give mode='clip' or mode='wrap'"),
    (shown, "Return the array, and print or save"),
]


@pytest.mark.parametrize(("function", "words"), MESSAGES, ids=lambda v: getattr(v, "__name__", ""))
def test_messages_speak_of_numpy(function: Callable[..., Any], words: str) -> None:
    with pytest.raises(sl.errors.SchedlangError, match=f"(?s){words}") as caught:
        sl.jit(function, target="python")(VECTOR)
    text = re.sub("`[^`]*`", "", str(caught.value))
    assert not re.search(r"sl\.|tensor|axis=k\b.*where=", text)
    # a reason follows what was asked
    assert not re.search(r": *\n", text)
