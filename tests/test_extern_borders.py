"""Functions of users that write outside of their boxes: each run that is not compiled shows it."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numba import njit

import schedlang as sl
from schedlang.ir.interpret import interpret
from tests.marks import slow_but

X = np.random.default_rng(0).random((20, 6), "float32")
RIGHT = X + 1
# right for the whole array, and a row too many for a box of fewer rows
SOURCE = """
int B(const float *a, float *out, const int64_t *sizes) {
    int64_t rows = sizes[0] + (sizes[0] < 20), columns = sizes[1];
    const int64_t *from = sizes + 2, *to = sizes + 6;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++)
            out[i * to[0] + j * to[1]] = a[i * from[0] + j * from[1]];
    return 0;
}
"""


@njit
def compiled(a, out):
    rows = a.shape[0]
    if rows < 20:
        rows += 1
    for i in range(rows):
        for j in range(a.shape[1]):
            out[i, j] = a[i, j]


def on_the_host(a, out):
    rows = len(a) + (len(a) < 20)
    for i in range(rows):
        width = out.shape[1] * out.itemsize
        row = np.ascontiguousarray(a[min(i, len(a) - 1)])
        ctypes.memmove(out.ctypes.data + i * out.strides[0], row.ctypes.data, width)


def changing(a, out):
    out[...] = a
    ctypes.memset(a.ctypes.data, 0, 4)


CALLS = {
    "C": SOURCE,
    "numba": compiled,
    "host": on_the_host,
}


def schedule(call: Any, at_a_loop: bool = True) -> sl.Schedule:
    A = sl.placeholder((20, 6), name="A")
    B = sl.extern((20, 6), [A], call, name="B", reads=lambda y, x: np.s_[y, x])
    C = sl.compute((20, 6), lambda i, j: B[i, j] + 1, name="C")
    s = sl.schedule(C)
    if at_a_loop:
        s[B].compute_at(s[C], s[C].split(C.op.axis[0], factor=5)[0])
    return s


def in_python(s: sl.Schedule) -> Any:
    return sl.build(s, target="python")(X)


def interpreted(s: sl.Schedule) -> Any:
    return interpret(sl.lower(s), [X]).outputs[0]


@pytest.mark.parametrize("name", slow_but(["C", "host"], CALLS))
@pytest.mark.parametrize("run", [in_python, interpreted])
def test_boxes_at_loops(run: Callable[[sl.Schedule], Any], name: str) -> None:
    call = CALLS[name]
    np.testing.assert_array_equal(run(schedule(call, at_a_loop=False)), RIGHT)
    with pytest.raises(sl.errors.VerifyError, match="it writes outside of the box of (output 1|B)"):
        run(schedule(call))


@pytest.mark.parametrize("name", slow_but(["C", "host"], CALLS))
@pytest.mark.parametrize("form", ["tensor", "schedule", "kernel"])
def test_check_of_an_answer(form: str, name: str) -> None:
    s = schedule(CALLS[name])
    answer = {"tensor": s.outputs[0], "schedule": s, "kernel": sl.build(s)}[form]
    message = "check of B, .*in the box .*it writes outside of the box of B\n  Write as many"
    with pytest.raises(sl.errors.VerifyError, match=message):
        sl.testing.check(answer, RIGHT, X)


@njit
def beyond(a, out):
    for i in range(a.shape[0] + 1):
        for j in range(a.shape[1]):
            out[i, j] = 2


def test_the_oracle() -> None:
    message = "reference of B, which beyond computes: it writes outside of the box of B"
    with pytest.raises(sl.errors.VerifyError, match=message):
        sl.reference(schedule(beyond).outputs[0])(X)


RUNS = [in_python, interpreted, sl.testing.check]


@pytest.mark.parametrize("run", RUNS, ids=["python", "interpreter", "check"])
def test_a_changed_input(run: Callable[[sl.Schedule], Any]) -> None:
    before = X.copy()
    message = "it changes its input (input 1|A)"
    with pytest.raises(sl.errors.VerifyError, match=message):
        run(schedule(changing))
    np.testing.assert_array_equal(X, before)


def test_check_of_an_answer_passes(capsys: pytest.CaptureFixture[str]) -> None:
    n = sl.var("n")
    A = sl.placeholder((n, 6), name="A")
    two = sl.compute((n, 6), lambda i, j: A[i, j] * 2, name="two")
    k = sl.reduce_axis(6, name="k")
    rows = sl.compute((n,), lambda i: sl.sum(A[i, k], axis=k), name="rows")

    def divided(a: np.ndarray, by: np.ndarray, out: np.ndarray) -> None:
        out[...] = a / by[:, None]

    box = {"reads": lambda y, x: [np.s_[y, x], np.s_[y]]}
    B = sl.extern((n, 6), [two, rows], divided, name="B", **box)
    sl.testing.check(B, lambda a: 2 * a / a.sum(axis=1, keepdims=True), X[:7])
    assert re.match("Correct: all 42 elements of B are right", capsys.readouterr().out)
