"""Tests of the schedules of scatters: private copies, concurrent updates, attachment, refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import LoweringError, ScheduleError

rng = np.random.default_rng(0)


def histogram(size: int = 1000, bins: int = 16) -> tuple[sl.Tensor, sl.Tensor, np.ndarray]:
    X = sl.placeholder((size,), "uint8", name="X")
    H = sl.scatter((bins,), (size,), lambda k: (X[k], 1), name="H")
    return X, H, rng.integers(0, bins, size).astype("uint8")


def rows(combine: str = "sum") -> tuple[list[sl.Tensor], sl.Tensor, list[np.ndarray]]:
    P, G = sl.placeholder((40,), "int32", name="P"), sl.placeholder((40, 6), name="G")
    D = sl.scatter((8, 6), (40, 6), lambda t, j: ((P[t], j), G[t, j]), combine, name="D")
    arrays = [rng.integers(0, 8, 40).astype("int32"), rng.normal(size=(40, 6)).astype("float32")]
    return [P, G], D, arrays


def check(s: Any, arrays: list[np.ndarray], wanted: np.ndarray, *targets: str) -> Any:
    """Compare the kernels of a schedule, on ``targets`` and in Python, with ``wanted``."""
    for target in ("python", *targets):
        f = sl.build(s, target=target)
        np.testing.assert_allclose(f(*arrays), wanted, rtol=1e-5)
    assert not f.unproven
    return f


def test_private_copies_in_parallel(golden: Any) -> None:
    """Four interleaved copies for each of eight parts, which run in parallel."""
    X, H, x = histogram()
    s = sl.schedule(H)
    ko, ki = s[H].split(H.op.reduce_axis[0], nparts=8)
    s[H].split(ki, factor=4)
    P = s.rfactor(H, ko)
    Q = s.rfactor(P, s[P].op.reduce_axis[1])
    part, _ = s[P].op.axis
    s[P].parallel(part)
    s[Q].compute_at(s[P], part)
    lane, _, b = s[Q].op.axis
    s[Q].reorder(b, s[Q].op.reduce_axis[0], lane)
    s[Q].unroll(lane)
    golden(str(s))
    check(s, [x], np.bincount(x, minlength=16), "cpu", "c")


def test_the_source_computes_a_place_once(golden: Any) -> None:
    """An index that is read from data has a register, which the load and the store share."""
    tensors, D, arrays = rows()
    s = sl.schedule(D)
    s[D].vectorize(D.op.axis[1])
    f = sl.build(s, target="python")
    source = f.source[f.source.index("def D_kernel") : f.source.index("def _array")]
    golden(source)


@pytest.mark.parametrize("combine", ["sum", "max", "last"])
def test_rows_in_vectors_and_in_parallel(combine: str) -> None:
    """The axis of a row is a data axis: its iterations update different elements."""
    tensors, D, arrays = rows(combine)
    s = sl.schedule(D)
    i, j = D.op.axis
    jo, ji = s[D].split(j, factor=4)
    s[D].reorder(jo, i, D.op.reduce_axis[0], ji)
    s[D].parallel(jo)
    s[D].vectorize(ji)
    assert str(s).count("parallel") == 1
    wanted = np.zeros((8, 6), "float32") if combine != "max" else np.full((8, 6), -np.inf)
    if combine == "last":
        wanted[arrays[0]] = arrays[1]
    else:
        (np.add if combine == "sum" else np.maximum).at(wanted, arrays[0], arrays[1])
    check(s, arrays, wanted, "cpu")


def test_loops_of_initialization_and_of_updates_are_apart(golden: Any) -> None:
    """The loops over scattered axes and those over the domain take their steps independently."""
    X, H, x = histogram(1001)
    s = sl.schedule(H)
    bo, bi = s[H].split(H.op.axis[0], factor=8)
    s[H].vectorize(bi)
    s[H].parallel(bo)
    ko, ki = s[H].split(H.op.reduce_axis[0], factor=4)
    s[H].reorder(ki, ko)
    s[H].unroll(ki)
    golden(str(s))
    check(s, [x], np.bincount(x, minlength=16), "cpu")


def test_an_unrolled_update_keeps_collisions() -> None:
    """Two copies that update one element see each other's update; sums stay in memory."""
    X, H, x = histogram(64, 2)
    s = sl.schedule(H)
    s[H].unroll(s[H].split(H.op.reduce_axis[0], factor=8)[1])
    f = check(s, [x], np.bincount(x, minlength=2), "cpu")
    assert "_sum" not in f.source


@pytest.mark.parametrize("target", ["python", "cpu"])
def test_sizes_that_make_places_meet(target: str) -> None:
    """Unrolled updates of ``k*m`` are of one element if m is 0, so no register may hold them."""
    m = sl.var("m")
    W = sl.placeholder((m,), name="W")
    D = sl.scatter((64,), (4,), lambda k: (k * m, W[0] if False else 1.0), name="D",
                   init=lambda i: sl.if_then_else(m > i, W[i], 0.0))  # fmt: skip
    s = sl.schedule(D)
    s[D].unroll(D.op.reduce_axis[0])
    f = sl.build(s, target=target)
    for size in (0, 3):
        w = np.arange(size, dtype="float32")
        wanted = np.zeros(64, "float32")
        wanted[:size] = w
        np.add.at(wanted, np.arange(4) * size, 1)
        np.testing.assert_array_equal(f(w), wanted)


@pytest.mark.parametrize("target", ["python", "cpu"])
def test_a_tensor_is_updated_in_place(target: str) -> None:
    """The tensor from which a scatter starts may be its output; one that updates read may not."""
    B, V = sl.placeholder((8,), name="B"), sl.placeholder((5,), name="V")
    P = sl.placeholder((5,), "int32", name="P")
    f = sl.build(sl.schedule(sl.scatter(B, (5,), lambda k: (P[k], V[k]), name="D")), target=target)
    p, v = np.array([0, 1, 1, 7, 0], "int32"), np.ones(5, "float32")
    b = np.arange(8, dtype="float32")
    wanted = b + np.bincount(p, minlength=8)
    f(p, v, b, b)
    np.testing.assert_array_equal(b, wanted)
    C = sl.scatter(B, (8,), lambda k: (k // 2, B[k]), name="C")
    with pytest.raises(sl.errors.CallError, match="output C overlaps B, which is still read"):
        sl.build(sl.schedule(C), target=target)(b, b)


def test_dropped_updates_in_lanes() -> None:
    """A lane whose update is dropped touches no element, before the loop and after it, either."""
    X = sl.placeholder((4, 13), name="X")
    D = sl.scatter((3,), (4, 13), lambda i, j: (j - 1, X[i, j]), mode="drop", name="D")
    s = sl.schedule(D)
    s[D].vectorize(D.op.reduce_axis[1])
    x = rng.normal(size=(4, 13)).astype("float32")
    check(s, [x], x[:, 1:4].sum(0), "cpu")


def test_strided_places_never_meet() -> None:
    """Updates of ``2*k + 1`` may run in vectors, in parallel and in any order, last or not."""
    Y = sl.placeholder((16,), name="Y")
    D = sl.scatter((40,), (16,), lambda k: (2 * k + 1, Y[k]), "last", init=5, name="D")
    s = sl.schedule(D)
    ko, ki = s[D].split(D.op.reduce_axis[0], factor=4)
    s[D].reorder(ki, ko)
    s[D].parallel(ki)
    s[D].vectorize(ko)
    y = rng.normal(size=16).astype("float32")
    wanted = np.full(40, 5, "float32")
    wanted[1:33:2] = y
    check(s, [y], wanted, "cpu")


def test_col2im_in_vectors(golden: Any) -> None:
    """Overlapping patches add up: x runs in lanes once the offsets are outside of it."""
    P = sl.placeholder((8, 8, 3, 3), name="P")
    C = sl.scatter((10, 10), (8, 8, 3, 3),
                   lambda y, x, dy, dx: ((y + dy, x + dx), P[y, x, dy, dx]), name="C")  # fmt: skip
    s = sl.schedule(C)
    y, x, dy, dx = C.op.reduce_axis
    with pytest.raises(ScheduleError, match=r"Call reorder first, so that x is inside of dy, dx"):
        s[C].vectorize(x)
    s[C].reorder(dy, dx, y, x)
    s[C].vectorize(x)
    s[C].parallel(y)
    golden(str(s))
    p = rng.normal(size=(8, 8, 3, 3)).astype("float32")
    wanted = np.zeros((10, 10), "float32")
    for a in range(3):
        for b in range(3):
            wanted[a : a + 8, b : b + 8] += p[:, :, a, b]
    check(s, [p], wanted, "cpu")
    with pytest.raises(ScheduleError, match="y is parallel, and its iterations could then update"):
        s[C].reorder(y, dy)


def test_attached_at_a_row_of_its_consumer(golden: Any) -> None:
    """A histogram of each row is computed where the row is read, as large as one row."""
    X = sl.placeholder((6, 50), "uint8", name="X")
    H = sl.scatter((6, 4), (6, 50), lambda r, k: ((r, X[r, k]), 1), name="H")
    C = sl.compute((6, 4), lambda r, b: H[r, b] * 2, name="C")
    s = sl.schedule(C)
    s[H].compute_at(s[C], C.op.axis[0])
    s[C].parallel(C.op.axis[0])
    golden(str(s))
    x = rng.integers(0, 4, (6, 50)).astype("uint8")
    wanted = 2 * np.stack([np.bincount(row, minlength=4) for row in x])
    check(s, [x], wanted, "cpu")
    s[H].set_scope("local")
    check(s, [x], wanted)


def test_a_whole_result_inside_of_a_loop() -> None:
    """An attached scatter without rows is computed whole, whichever elements are read."""
    X, H, x = histogram(50)
    C = sl.compute((16,), lambda b: H[b] + H[sl.max(b - 1, 0)], name="C")
    s = sl.schedule(C)
    bo, _ = s[C].split(C.op.axis[0], factor=4)
    s[H].compute_at(s[C], bo)
    count = np.bincount(x, minlength=16)
    check(s, [x], count + count[np.maximum(np.arange(16) - 1, 0)])


def test_inputs_of_the_updates_at_their_loops() -> None:
    """A stage that the updates read is computed at a loop of the domain, or inlined."""
    X = sl.placeholder((40,), name="X")
    Y = sl.compute((40,), lambda k: sl.cast(X[k] * 4, "int32"), name="Y")
    W = sl.compute((40,), lambda k: X[k] + 1, name="W")
    H = sl.scatter((8,), (40,), lambda k: (Y[k], W[k]), name="H")
    s = sl.schedule(H)
    ko, _ = s[H].split(H.op.reduce_axis[0], factor=8)
    s[Y].compute_at(s[H], ko)
    s[W].compute_inline()
    x = rng.random(40, "float32")
    wanted = np.zeros(8, "float32")
    np.add.at(wanted, (x * 4).astype("int32"), x + 1)
    check(s, [x], wanted, "cpu")


def test_cache_write_updates_a_copy() -> None:
    X, H, x = histogram(50)
    s = sl.schedule(H)
    L = s.cache_write(H, "local")
    assert s[L].op.destination is not None and s[H].op.reducer is None
    check(s, [x], np.bincount(x, minlength=16))


def test_rfactor_keeps_init_once() -> None:
    P, V = sl.placeholder((30,), "int32", name="P"), sl.placeholder((30,), name="V")
    D = sl.scatter((5,), (30,), lambda t: (P[t], V[t]), init=10, where=lambda t: V[t] > 0, name="D")
    s = sl.schedule(D)
    to, _ = s[D].split(D.op.reduce_axis[0], factor=7)
    F = s.rfactor(D, to, factor_axis=1)
    assert F.shape == (5, 5)
    p, v = rng.integers(0, 5, 30).astype("int32"), rng.normal(size=30).astype("float32")
    wanted = np.full(5, 10, "float32")
    np.add.at(wanted, p[v > 0], v[v > 0])
    check(s, [p, v], wanted)
    check(sl.Schedule.from_json(s.to_json(), D), [p, v], wanted)


def test_sorted_places_by_a_counting_sort() -> None:
    """Counts, their prefix sums, and the scatter of a permutation, which are three stages."""
    X = sl.placeholder((30,), "uint8", name="X")
    H = sl.scatter((8,), (30,), lambda k: (X[k], 1), name="H")
    b, q = sl.reduce_axis(8, name="b"), sl.reduce_axis(30, name="q")
    start = sl.compute((8,), lambda i: sl.sum(H[b], axis=b, where=b < i), name="start")
    rank = sl.compute(
        (30,), lambda k: sl.sum(1, axis=q, where=(q < k) & (X[q] == X[k])), name="rank"
    )
    S = sl.scatter((30,), (30,), lambda k: (start[X[k]] + rank[k], X[k]), "last", name="S")
    x = rng.integers(0, 8, 30).astype("uint8")
    check(sl.schedule(S), [x], np.sort(x))


def scheduled(combine: str = "sum") -> tuple[Any, sl.Tensor, sl.Tensor]:
    _, D, _ = rows(combine)
    C = sl.compute((8, 6), lambda i, j: D[i, j] + 1, name="C")
    return sl.schedule(C), D, C


REFUSED: dict[str, tuple[str, Callable[..., Any], str]] = {
    "parallel without copies": (
        "sum", lambda s, D, C: s[D].parallel(D.op.reduce_axis[0]),
        r"several iterations of t may update the same element of D at once\n.*different elements "
        r"\(j\), or give each .*s\.rfactor\(D, outer\)\n.*s\[DF\]\.parallel"),
    "lanes that meet": (
        "sum", lambda s, D, C: s[D].vectorize(s[D].split(D.op.reduce_axis[0], 4)[1]),
        r"several lanes of t\.inner .*DF = s\.rfactor\(D, t_inner\)"),
    "a vthread": ("sum", lambda s, D, C: s[D].bind(D.op.reduce_axis[0], "vthread"),
                  "several iterations of t"),
    "another order of last": (
        "last", lambda s, D, C: s[D].reorder(*s[D].split(D.op.reduce_axis[0], 4)[::-1]),
        "the last update in the order of the domain must remain, and this step changes"),
    "copies of last": ("last", lambda s, D, C: s.rfactor(D, D.op.reduce_axis[0]),
                       "copies of its parts do not tell which update was the last"),
    "parallel last": ("last", lambda s, D, C: s[D].parallel(D.op.reduce_axis[0]),
                      r"the last update.* must remain\n.*\(j\), or keep t serial"),
    "threads of last": ("last", lambda s, D, C: s[D].bind(D.op.reduce_axis[0], "threadIdx.x"),
                        "several threads of t may update"),
    "fused scattered": ("sum", lambda s, D, C: s[D].fuse(D.op.axis[0], D.op.axis[1]),
                        "i0 only initializes D, and j is a loop of its updates"),
    "a predicate": ("sum", lambda s, D, C: s[D].set_store_predicate(D.op.axis[1] == 0),
                    "D is a scatter, whose updates are needed wherever they go"),
    "inlined": ("sum", lambda s, D, C: s[D].compute_inline(), "reduc|scatter"),
    "streamed": ("sum", lambda s, D, C: s[D].pragma(D.op.axis[1], "nontemporal"),
                 "adds to what it stored before"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    combine, step, message = REFUSED[case]
    s, D, C = scheduled(combine)
    if case == "fused scattered":
        s[D].reorder(D.op.reduce_axis[0], D.op.axis[0], D.op.axis[1])
    before = str(s)
    with pytest.raises(ScheduleError, match=f"(?s){message}"):
        step(s, D, C)
    assert case != "parallel without copies" or str(s) == before


def test_refused_attachment_at_a_loop_of_the_initialization() -> None:
    P, G = sl.placeholder((40,), "int32", name="P"), sl.placeholder((40,), name="G")
    W = sl.compute((40,), lambda t: G[t] * 2, name="W")
    D = sl.scatter((8,), (40,), lambda t: (P[t], W[t]), name="D")
    s = sl.schedule(D)
    with pytest.raises(ScheduleError, match=r"i0 is a loop that initializes D.*\n.*root, \(D, t\)"):
        s[W].compute_at(s[D], D.op.axis[0])


def test_refused_prefetch_of_its_own_elements() -> None:
    X, H, _ = histogram(64)
    s = sl.schedule(H)
    s[H].prefetch(H, H.op.reduce_axis[0], 1)
    with pytest.raises(LoweringError, match="the indices of H depend on data"):
        sl.lower(s, [X, H])
