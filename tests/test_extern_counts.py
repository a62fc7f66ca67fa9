"""Counts of kernels that call functions of users: the boxes alone, and what they say about it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numba import njit

import schedlang as sl
from tests.marks import slow_but

SOURCE = """
int B(const float *a, float *out, const int64_t *s) {
    for (int64_t i = 0; i < s[4]; i++)
        for (int64_t j = 0; j < s[5]; j++)
            out[i * s[6] + j * s[7]] = a[i * s[2] + j * s[3]] + a[(i + 1) * s[2] + j * s[3]];
    return 0;
}
"""


@njit
def of_numba(a, out):
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = a[i, j] + a[i + 1, j]


def on_host(a, out):
    out[...] = a[:-1] + a[1:]


CALLS = {"numba": of_numba, "host": on_host, "C": SOURCE}


def pairs(call: Any, n: Any = 8, m: Any = 6, boxes: bool = True) -> tuple[sl.Tensor, sl.Tensor]:
    """Return sums of two rows that ``call`` computes, and twice their first columns."""
    A = sl.placeholder((n + 1, m), name="A")
    reads = (lambda y, x: np.s_[y.start : y.stop + 1, x.start : x.stop]) if boxes else None
    B = sl.extern((n, m), [A], call, name="B", reads=reads)
    return B, sl.compute((n, 4), lambda i, j: B[i, j] * 2, name="C")


KINDS = [f"{kind} {target}" for kind in CALLS for target in ("cpu", "c", "python")]


@pytest.mark.parametrize("case", slow_but(["numba python", "host cpu", "C c"], KINDS))
def test_a_call_for_the_whole_array(case: str) -> None:
    kind, target = case.split()
    _, C = pairs(CALLS[kind], boxes=False)
    f = sl.build(sl.schedule(C), target=target)
    counts = f.counters(np.ones((9, 6), "float32"), caches=False)
    call = counts["B"]
    assert (call.loads, call.stores, call.evaluations) == (9 * 6, 8 * 6, 8 * 6)
    assert (call.load_requests, call.store_requests) == (0, 0)
    assert (call.loaded_bytes, call.stored_bytes) == (4 * 9 * 6, 4 * 8 * 6)
    assert not call.arithmetic and counts["C"].loads == counts["C"].stores == 32
    name = {"numba": "of_numba", "host": "on_host", "C": "B"}[kind]
    assert counts.unknown == (name,)
    assert f"the arithmetic of {name} is unknown; each element of its boxes" in str(counts)


@pytest.mark.parametrize("n", [8, "n"])
def test_boxes_at_a_loop(n: Any) -> None:
    """Each box of two rows and four columns reads three rows."""
    B, C = pairs(of_numba, sl.var("n") if n == "n" else n)
    s = sl.schedule(C)
    outer, _ = s[C].split(C.op.axis[0], factor=2)
    s[B].compute_at(s[C], outer)
    counts = sl.build(s).counters(np.ones((9, 6), "float32"), caches=False)
    assert (counts["B"].loads, counts["B"].stores) == (4 * 3 * 4, 4 * 2 * 4)
    assert counts["B"].evaluations == 32


@pytest.mark.parametrize("n", [8, 0])
def test_symbolic_sizes(n: int) -> None:
    """The box has the four columns that are read, and one more row than it computes."""
    _, C = pairs(of_numba, sl.var("n"))
    counts = sl.build(sl.schedule(C)).counters(np.ones((n + 1, 6), "float32"), caches=False)
    assert (counts["B"].loads, counts["B"].stores) == ((n + 1) * 4, n * 4)


def test_lines_of_the_caches() -> None:
    """A call reads each line of whole rows once; its rows are 64 bytes long."""
    B, _ = pairs(of_numba, 32, 16, boxes=False)
    counts = sl.build(sl.schedule(B)).counters(np.ones((33, 16), "float32"))
    # the lines that it reads, and those that it writes; an array may begin inside of a line
    assert 65 <= counts["B"].lines[0] <= 67


def test_a_trace_has_the_elements_of_boxes() -> None:
    B, C = pairs(on_host)
    trace = sl.build(sl.schedule(C)).trace(np.ones((9, 6), "float32"))
    text = str(trace)
    assert "B" in text and "A" in text


def test_no_hint_is_about_a_call() -> None:
    _, C = pairs(of_numba)
    assert all(step.stage != "B" for step in sl.next_steps(sl.schedule(C)))
