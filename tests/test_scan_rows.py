"""A scan of which only the last rows are read keeps only the rows that are needed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.schedule.schedule import Schedule

STEPS, WIDTH = 11, 16


def recurrence(back: int, read: int, made: int = 1) -> tuple[Any, Any]:
    """Return a scan that reads 1 and ``back`` rows back, and the sum of its last ``read`` rows."""
    X = sl.placeholder((STEPS, WIDTH), name="X")
    S = sl.placeholder((STEPS, WIDTH), name="S")
    first = sl.compute((made, WIDTH), lambda t, i: X[t, i], name="first")
    step = sl.compute(
        (STEPS, WIDTH), lambda t, i: S[t - 1, i] * 0.5 + S[t - back, i] + X[t, i], name="step"
    )
    H = sl.scan(first, step, S, inputs=[X], name="H")
    k = sl.reduce_axis((STEPS - read, STEPS), name="k")
    return H, sl.compute((WIDTH,), lambda i: sl.sum(H[k, i], axis=k), name="L")


def by_hand(x: np.ndarray, back: int, read: int, made: int) -> np.ndarray:
    h = np.zeros_like(x)
    h[:made] = x[:made]
    for t in range(made, STEPS):
        h[t] = h[t - 1] * np.float32(0.5) + h[t - back] + x[t]
    return h[STEPS - read :].sum(0)


def rows_kept(s: Schedule) -> int:
    (found,) = [b for b in sl.lower(s).buffers if b.name == "H"]
    assert isinstance(found.shape[0], int)
    return found.shape[0]


@pytest.mark.parametrize(
    ("back", "read", "made", "kept"),
    [(1, 1, 1, 2), (2, 1, 2, 3), (3, 1, 3, 4), (1, 4, 1, 4), (2, 5, 3, 5), (1, 1, 6, 6)],
)
def test_rows_are_stored_in_a_ring(back: int, read: int, made: int, kept: int) -> None:
    _, L = recurrence(back, read, made)
    s = sl.schedule(L)
    assert rows_kept(s) == kept
    f = sl.build(s, target="python")
    assert f.unproven == ()
    x = np.random.default_rng(back).random((STEPS, WIDTH), "float32")
    np.testing.assert_allclose(f(x), by_hand(x, back, read, made), rtol=1e-5)


def test_rows_are_stored_in_a_ring_under_a_schedule() -> None:
    H, L = recurrence(2, 1, 2)
    s = sl.schedule(L)
    step = s[H.op.update[0]]
    _, lanes = step.split(step.op.axis[1], factor=8)
    step.vectorize(lanes)
    assert rows_kept(s) == 3
    x = np.random.default_rng(0).random((STEPS, WIDTH), "float32")
    np.testing.assert_allclose(sl.build(s)(x), by_hand(x, 2, 1, 2), rtol=1e-5)


def test_all_rows_are_kept_if_all_are_read_or_returned() -> None:
    H, L = recurrence(1, STEPS)
    assert rows_kept(sl.schedule(L)) == STEPS
    H, L = recurrence(1, 1)
    s = sl.schedule([H, L])
    assert rows_kept(s) == STEPS
    x = np.random.default_rng(0).random((STEPS, WIDTH), "float32")
    _, last = sl.build(s, target="python")(x)
    np.testing.assert_allclose(last, by_hand(x, 1, 1, 1), rtol=1e-5)


def test_all_rows_are_kept_if_a_read_depends_on_data() -> None:
    H, _ = recurrence(1, 1)
    at = sl.placeholder((3,), "int64", name="at")
    G = sl.compute((3, WIDTH), lambda j, i: H[at[j], i], name="G")
    s = sl.schedule(G)
    assert rows_kept(s) == STEPS
    x = np.random.default_rng(0).random((STEPS, WIDTH), "float32")
    rows = np.array([0, 7, 3])
    given = {"X": x, "at": rows}
    np.testing.assert_allclose(
        sl.build(s, target="python")(**given), sl.reference(G)(**given), rtol=1e-6
    )
