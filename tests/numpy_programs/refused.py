"""Programs of the same sources that are refused: the words of the message, which say why."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.numpy_programs.exercises import MATRIX, VECTOR, WHOLE

REFUSED: dict[int, tuple[Callable[..., Any], tuple[Any, ...], list[str]]] = {}
POSITION = [("x", float), ("y", float)]


def refused(number: int, *arguments: Any, words: list[str]) -> Callable[..., Any]:
    """Register the program of an exercise, and the words of its refusal."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        REFUSED[number] = function, arguments, words
        return function

    return register


class Symmetric(np.ndarray):
    """An array whose assignments change the mirrored element, too."""


# drawn once, when the function is traced
@refused(12, MATRIX, words=["random numbers in random_cube", "make the generator outside"])
def random_cube(x):
    return np.random.random((3, 3, 3)) + x[0, 0]


# dtypes with fields, and dates
@refused(23, VECTOR, words=["dtype", "is not supported: choose one of bool"])
def colors_as_bytes(x):
    return x.astype([("r", np.ubyte), ("g", np.ubyte)])


@refused(34, VECTOR, words=["returns datetime64", "returns arrays and numbers"])
def yesterday(x):
    return np.datetime64("2024-05-01") - np.timedelta64(1)


@refused(46, MATRIX, words=["in grid_with_fields at line", "z is a structured array"])
def grid_with_fields(x):
    z = np.zeros((5, 5), POSITION)
    z["x"], z["y"] = np.meshgrid(x[0], x[1])
    return z


@refused(51, MATRIX, words=["in rows_with_fields at line", "z is a structured array"])
def rows_with_fields(x):
    z = np.zeros(5, POSITION)
    z["x"] = x[0]
    return z


@refused(91, MATRIX, words=["np.rec.fromarrays", "its elements are unknown"])
def records(x):
    return np.rec.fromarrays([x[0], x[1]], names="a, b")


# properties of memory, and classes of arrays
@refused(43, VECTOR, words=["no attribute 'flags'", "what the function returned"])
def read_only(x):
    x.flags.writeable = False
    return x


@refused(85, MATRIX, words=["no attribute 'view'", "to reinterpret bits is not supported"])
def symmetric(x):
    return (x + x.T).view(Symmetric)


# the elements are known when the function runs, and it prints when it is traced
@refused(49, MATRIX, words=["the text of an array of shape (5, 5) in printed at line", "print"])
def printed(x):
    print(x)
    return x


# NumPy does not ask the counts, which are of the trace, what to do: np.arange(n, like=c) would
@refused(74, WHOLE, words=["in counted at line", "its elements are unknown"])
def counted(c):
    return np.repeat(np.arange(len(c)), c)
