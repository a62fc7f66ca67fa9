"""Sliding windows along several loops, and storage that is folded to the rows in use."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import schedlang as sl
from tests.conftest import Golden


def halide_lesson(size: int = 4) -> tuple[Any, Any]:
    """Return the stages of Halide's lesson 8: a sine, and the mean of four neighbours."""
    P = sl.compute(
        (size + 1, size + 1), lambda y, x: sl.sin((x * y).astype("float32")), name="producer"
    )
    C = sl.compute(
        (size, size), lambda y, x: (P[y, x] + P[y, x + 1] + P[y + 1, x] + P[y + 1, x + 1]) / 4,
        name="consumer",
    )  # fmt: skip
    return P, C


def mean_of_sines(size: int) -> np.ndarray:
    p = np.sin(np.outer(np.arange(size + 1), np.arange(size + 1)).astype("float32"))
    return (p[:-1, :-1] + p[:-1, 1:] + p[1:, :-1] + p[1:, 1:]) / 4


@pytest.mark.parametrize(
    ("at", "stored", "computed", "floats"),
    [("y", None, 40, 10), ("y", "root", 25, 10), ("x", "root", 25, 10), ("x", "y", 40, 4),
     ("x", None, 64, 4)],
)  # fmt: skip
def test_the_placements_of_halides_lesson_8(
    at: str, stored: str | None, computed: int, floats: int
) -> None:
    P, C = halide_lesson()
    s = sl.schedule(C)
    axes = dict(zip("yx", s[C].op.axis))
    s[P].compute_at(s[C], axes[at])
    if stored == "root":
        s[P].store_root()
    elif stored:
        s[P].store_at(s[C], axes[stored])
    np.testing.assert_allclose(sl.build(s, [C], target="python")(), mean_of_sines(4), rtol=1e-6)
    cost = sl.cost(s)
    assert cost.stores == computed + 16 and cost.allocated == 4 * floats


def test_a_window_slides_along_both_loops(golden: Golden) -> None:
    P, C = halide_lesson()
    s = sl.schedule(C)
    s[P].compute_at(s[C], s[C].op.axis[1])
    s[P].store_root()
    golden(sl.lower(s))


def test_rows_that_two_loops_move_are_computed_again() -> None:
    P, C = halide_lesson(6)
    s = sl.schedule(C)
    y, x = s[C].op.axis
    outer, inner = s[C].split(y, 4)
    s[C].reorder(outer, x, inner)
    s[P].compute_at(s[C], inner)
    s[P].store_root()
    # only columns slide: the rows of a window depend on two loops
    assert "slides along x" in str(s) and "slides along y" not in str(s)
    np.testing.assert_allclose(sl.build(s, [C], target="python")(), mean_of_sines(6), rtol=1e-6)


def test_the_last_dimension_is_not_folded_under_vectors() -> None:
    A = sl.placeholder((66,), name="A")
    B = sl.compute((66,), lambda i: A[i] * 2, name="B")
    C = sl.compute((64,), lambda i: B[i] + B[i + 2], name="C")
    s = sl.schedule(C)
    outer, inner = s[C].split(C.op.axis[0], 8)
    s[C].vectorize(inner)
    s[B].compute_at(s[C], outer)
    s[B].store_root()
    assert "B: float32[66]" in str(s) and "slides along i.outer" in str(s)
    a = np.arange(66, dtype="float32")
    np.testing.assert_array_equal(sl.build(s, [A, C], target="python")(a), 2 * (a[:-2] + a[2:]))


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_chains_of_windows_agree_with_numpy(data: st.DataObject) -> None:
    height, width = data.draw(st.integers(1, 9), "height"), data.draw(st.integers(1, 7), "width")
    taps, more = data.draw(st.integers(1, 5), "taps"), data.draw(st.integers(1, 4), "more")
    step = data.draw(st.integers(1, 3), "step")
    rows = (height - 1) * step + more
    X = sl.placeholder((rows + taps - 1, width + 2), "int64", name="X")
    B = sl.compute(
        (rows, width + 2), lambda y, x: sum(X[y + d, x] * (d + 1) for d in range(taps)), name="B"
    )
    C = sl.compute((rows, width), lambda y, x: B[y, x] - B[y, x + 2] * 2, name="C")
    D = sl.compute(
        (height, width), lambda y, x: sum(C[y * step + d, x] * (d + 2) for d in range(more)),
        name="D",
    )
    s = sl.schedule(D)
    y, x = D.op.axis
    store: Any = "root"
    if data.draw(st.booleans(), "split"):
        tail = data.draw(st.sampled_from(["guard", "cut"]), "tail")
        store, y = s[D].split(y, data.draw(st.integers(1, 4), "factor"), tail=tail)
    if data.draw(st.booleans(), "swapped"):
        s[D].reorder(x, y)
    place = data.draw(st.sampled_from([x, y]), "place")
    for T in (C, B):
        s[T].compute_at(s[D], place)
        if data.draw(st.booleans(), "stored"):
            if store == "root":
                s[T].store_root()
            else:
                try:
                    s[T].store_at(s[D], store)
                except sl.errors.ScheduleError:
                    continue
    x_ = np.random.default_rng(0).integers(-9, 9, (rows + taps - 1, width + 2))
    b = sum(x_[d : d + rows] * (d + 1) for d in range(taps))
    c = b[:, :-2] - b[:, 2:] * 2
    d_ = sum(c[d : d + (height - 1) * step + 1 : step] * (d + 2) for d in range(more))
    np.testing.assert_array_equal(sl.build(s, [X, D], target="python")(x_), d_)


def test_storage_in_a_stage_that_is_attached_later() -> None:
    """The loops of C.local are inside those of C, whichever call comes first."""
    P, C = halide_lesson()
    texts = []
    for late in (False, True):
        s = sl.schedule(C)
        L = s.cache_write(C, "local")
        y, x = s[L].op.axis
        if not late:
            s[L].compute_at(s[C], C.op.axis[0])
        s[P].compute_at(s[L], x)
        s[P].store_at(s[C], C.op.axis[0])
        if late:
            with pytest.raises(sl.errors.LoweringError, match="not inside y of consumer\n"):
                sl.lower(s)
            s[L].compute_at(s[C], C.op.axis[0])
            # a stage that is stored so may move to a loop whose stage is attached
            s[P].compute_at(s[L], y)
            s[P].compute_at(s[L], x)
        texts.append(str(s))
        np.testing.assert_allclose(sl.build(s, [C], target="python")(), mean_of_sines(4), rtol=1e-6)
    assert texts[0] == texts[1]


def test_a_window_in_a_step_of_a_scan() -> None:
    S, X = (sl.placeholder((8, n), "int64", name=name) for n, name in ((4, "S"), (6, "X")))
    T = sl.compute((8, 6), lambda t, i: X[t, i] * 3, name="T")
    first = sl.compute((1, 4), lambda _, i: X[0, i], name="first")
    U = sl.compute((8, 4), lambda t, i: S[t - 1, i] + T[t, i] + T[t, i + 2], name="U")
    scan = sl.scan(first, U, S, inputs=[X])
    s = sl.schedule(scan)
    s[T].compute_at(s[U], U.op.axis[1])
    s[T].store_at(s[scan], s[scan].leaf_axes[0])
    assert "T: int64[1, 4]" in str(s) and "T slides along i" in str(s)
    x = np.random.default_rng(0).integers(-9, 9, (8, 6))
    steps = np.concatenate([x[:1, :4], 3 * (x[1:, :4] + x[1:, 2:])])
    np.testing.assert_array_equal(sl.build(s, [X, scan], target="python")(x), steps.cumsum(axis=0))
