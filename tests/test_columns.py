"""Tests of transposed loads, masked lanes and prefetches in emitted source."""

from __future__ import annotations

import re
import subprocess
import sys
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import schedlang as sl
from schedlang.errors import LoweringError
from schedlang.intrinsics import scattered
from schedlang.ir import offsets

pytestmark = pytest.mark.slow


def transpose(rows: int, columns: int, dtype: str, lanes: int, copies: int) -> sl.Schedule:
    A = sl.placeholder((rows, columns), dtype, name="A")
    T = sl.compute((columns, rows), lambda j, i: A[i, j], name="T")
    s = sl.schedule(T)
    j, i = T.op.axis
    jo, ji = s[T].split(j, factor=copies, tail="cut")
    io, ii = s[T].split(i, factor=lanes, tail="cut")
    s[T].reorder(jo, io, ji, ii)
    s[T].unroll(ji)
    s[T].vectorize(ii)
    return s


@pytest.mark.parametrize(
    "dtype",
    ["float16", "float32", "float64", "int8", "bool"],
)
@pytest.mark.parametrize(("rows", "columns"), [(16, 16), (37, 53), (5, 40)])
def test_a_transpose_reads_rows(dtype: str, rows: int, columns: int):
    a = np.random.default_rng(1).integers(0, 2, (rows, columns)).astype(dtype)
    for target in ("cpu", "python"):
        f = sl.build(transpose(rows, columns, dtype, 16, 16), target=target)
        np.testing.assert_array_equal(f(a), a.T)
    half = "_half" if dtype == "float16" else ""
    assert f"vload_columns{half}(" in f.source


@pytest.mark.parametrize("target", ["python", "cpu"])
@settings(max_examples=40, deadline=None)
@given(
    rows=st.integers(1, 40), columns=st.integers(1, 40),
    lanes=st.integers(1, 20), copies=st.integers(1, 20),
)  # fmt: skip
def test_transposes_of_any_shape(
    target: str, rows: int, columns: int, lanes: int, copies: int
) -> None:
    a = np.random.default_rng(rows).random((rows, columns), "float32")
    f = sl.build(transpose(rows, columns, "float32", lanes, copies), target=target)
    np.testing.assert_array_equal(f(a), a.T)


def test_the_emitted_transpose():
    f = sl.build(transpose(16, 4, "float32", 16, 4), target="python")
    assert "A_columns = vload_columns(A, 0, 4, 4, 16)" not in f.source  # picked from whole vectors
    f = sl.build(transpose(16, 8, "float32", 16, 8), target="python")
    assert "    A_columns = vload_columns(A, 0, 8, 8, 16)\n" in f.source
    assert "    vstore(T, 48, A_columns[3])\n" in f.source


def test_fused_adjacent_axes_are_one_row():
    """Three fused dimensions of a convolution's weights, adjacent in memory, load as one row."""
    W = sl.placeholder((32, 6, 3, 3), name="W")
    P = sl.compute((2, 6, 3, 3, 16), lambda p, c, v, u, o: W[p * 16 + o, c, v, u], name="P")
    s = sl.schedule(P)
    p, c, v, u, o = P.op.axis
    _, inner = s[P].split(s[P].fuse(s[P].fuse(c, v), u), factor=16, tail="cut")
    s[P].unroll(inner)
    s[P].vectorize(o)
    f = sl.build(s)
    w = np.random.default_rng(2).random((32, 6, 3, 3), "float32")
    np.testing.assert_array_equal(f(w), w.reshape(2, 16, 6, 3, 3).transpose(0, 2, 3, 4, 1))
    assert "vload_columns(W, p*864 + c_v_u_fused_outer*16, 54, 16, 16)" in f.source


@pytest.mark.parametrize("factor", [8, 24])
@pytest.mark.parametrize("shift", [0, 3])
def test_only_rows_that_are_read_whole_are_columns(factor: int, shift: int):
    """Some unrolled copies are past an end of the array, where nothing may be read.

    With 24 copies, the first or the last columns of the result are a block that is inside.
    """
    A = sl.placeholder((16, 21), name="A")
    T = sl.compute(
        (24, 16),
        lambda j, i: sl.if_then_else(
            sl.all(j >= shift, j < 21 + shift), A[i, j - shift], 0), name="T",
    )  # fmt: skip
    s = sl.schedule(T)
    s[T].unroll(s[T].split(T.op.axis[0], factor=factor)[1])
    s[T].vectorize(T.op.axis[1])
    a = np.random.default_rng(3).random((16, 21), "float32")
    for target in ("cpu", "python"):
        f = sl.build(s, target=target)
        np.testing.assert_array_equal(f(a), np.pad(a, ((0, 0), (shift, 3 - shift))).T)
    blocks = re.findall(r"vload_columns\(A, (\d+), 21, (\d+), 16\)", str(f.machine_nest))
    inside = {0: [("0", "16")], 3: [("13", "8")]}
    assert blocks == (inside[shift] if factor == 24 else [])


CONDITIONS = [
    lambda i: i < 15.5, lambda i: 15.5 > i, lambda i: i - 20 > -4.5, lambda i: i.equal(2.5),
    lambda i: i**2 < 81, lambda i: (i << 1) < 30, lambda i: (i & 3) < 2, lambda i: i >= 15.5,
]  # fmt: skip


@pytest.mark.parametrize("kind", ["unroll", "vectorize"])
@pytest.mark.parametrize("number", range(len(CONDITIONS)))
def test_conditions_on_fractions_powers_and_shifts(kind: str, number: int):
    A = sl.placeholder((32,), name="A")
    a = np.arange(32, dtype="float32")
    B = sl.compute((32,), lambda i: sl.if_then_else(CONDITIONS[number](i), A[i], -1), name="B")
    s = sl.schedule(B)
    getattr(s[B], kind)(B.op.axis[0])
    expected = sl.reference(B)(a)
    for target in ("cpu", "python"):
        np.testing.assert_array_equal(sl.build(s, target=target)(a), expected)


AT_THE_END = """
import ctypes, mmap, numpy as np, schedlang as sl
page = mmap.PAGESIZE
pages = mmap.mmap(-1, 2 * page)
start = np.frombuffer(pages, "uint8").ctypes.data
assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(start + page), page, 0) == 0
memory = np.frombuffer(pages, "float32", page // 4)
for step in (2, 3, 4):
    for count in (2, 3, 5, 17):
        A = sl.placeholder((count, step), name="A")
        def way(i):
            held = sl.if_then_else(i > 0, A[i, step - 1], 0)
            return A[i, step - 1] + held + A[count - 1 - i, step - 1]
        B = sl.compute((count,), way, name="B")
        s = sl.schedule(B)
        s[B].vectorize(B.op.axis[0])
        a = memory[-count * step:].reshape(count, step)
        sl.build(s, target="cpu")(a)
print("read")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="protects a page")
def test_strided_lanes_end_with_their_array():
    """Vector loads stop at the end of the array, since the next page is not readable."""
    run = subprocess.run(
        [sys.executable, "-c", AT_THE_END], capture_output=True, text=True, check=False
    )
    assert run.stdout == "read\n", (run.returncode, run.stderr[-500:])


def test_lanes_inside_need_no_mask():
    """Only the first and the last vector of a padded row are masked."""
    X = sl.placeholder((4, 70), name="X")
    P = sl.pad(X, (0, 1), (0, 2), name="P")
    s = sl.schedule(P)
    s[P].vectorize(P.op.axis[1])
    f = sl.build(s)
    x = np.random.default_rng(4).random((4, 70), "float32")
    np.testing.assert_array_equal(f(x), np.pad(x, ((0, 0), (1, 2))))
    masked = f.source.count("vload_masked(X")
    assert 1 <= masked <= 2


def test_masked_strided_lanes_are_picked_from_vectors():
    X = sl.placeholder((3, 31), name="X")
    P = sl.compute((3, 16), lambda y, x: sl.if_then_else(x >= 1, X[y, x * 2 - 1], -1.0), name="P")
    s = sl.schedule(P)
    s[P].vectorize(P.op.axis[1])
    x = np.random.default_rng(5).random((3, 31), "float32")
    expected = np.concatenate([np.full((3, 1), -1, "float32"), x[:, 1::2]], axis=1)
    for target in ("cpu", "python"):
        f = sl.build(s, target=target)
        np.testing.assert_array_equal(f(x), expected)
    assert "vload_strided_masked(X, y*31 - 1, 2, m)" in f.source


def test_a_prefetch_asks_for_every_line_of_an_iteration():
    A = sl.placeholder((8, 40), name="A")
    k = sl.reduce_axis(40, name="k")
    C = sl.compute((8,), lambda i: sl.sum(A[i, k], axis=k), name="C")
    s = sl.schedule(C)
    s[C].prefetch(A, C.op.axis[0], 2)
    text = str(s)
    assert "unroll A_line in 0..3:\n    prefetch A[min(i + 2, 7), A_line*16]" in text
    a = np.random.default_rng(6).random((8, 40), "float32")
    np.testing.assert_allclose(sl.build(s)(a), a.sum(1), rtol=1e-5)


def panels(rows: int) -> tuple[sl.Tensor, sl.Tensor, sl.Schedule, list[sl.Axis]]:
    """Return a product of panels `A[:, r]` and rows: A, C, the schedule, and the loops r, j, q."""
    A = sl.placeholder((8, 5, 48), name="A")
    B = sl.placeholder((5, rows, 48), name="B")
    r, q = sl.reduce_axis(5, name="r"), sl.reduce_axis(48, name="q")
    C = sl.compute((8, rows), lambda i, j: sl.sum(A[i, r, q] * B[r, j, q], axis=[r, q]), name="C")
    s = sl.schedule(C)
    i, j = C.op.axis
    over, inner = s[C].split(i, factor=2)
    s[C].reorder(over, r, j, q, inner)
    return A, C, s, [r, j, q]


@pytest.mark.parametrize(
    ("rows", "at", "line"),
    [
        # a panel has six lines: one for each iteration, two, or one again at the end
        (6, 1, "prefetch A[i.outer*2 + j//3, min(r + 1, 4), j%3*16]"),
        (4, 1, "unroll A_line in 0..2:"),
        (7, 1, "prefetch A[i.outer*2 + min(j//3, 1), min(r + 1, 4), j%3*16]"),
        (1, 2, "prefetch A[i.outer*2 + min(q//3, 1), min(r + 1, 4), q%3*16]"),
    ],
)
def test_the_iterations_of_inner_loops_share_the_lines_of_a_prefetch(
    rows: int, at: int, line: str
) -> None:
    A, C, s, loops = panels(rows)
    s[C].prefetch(A, loops[0], 1, at=loops[at])
    assert line in str(s), s
    rng = np.random.default_rng(rows)
    a, b = rng.random((8, 5, 48), "float32"), rng.random((5, rows, 48), "float32")
    # both targets run one source
    for target in ("cpu", "python") if rows == 6 else ("python",):
        f = sl.build(s, target=target)
        np.testing.assert_allclose(f(a, b), np.einsum("irq,rjq->ij", a, b), rtol=1e-5)
    trace = f.trace(a, b)
    fetched = trace.offset[(trace.kind == 2) & (trace.buffer == trace.buffers.index("A"))]
    # every panel but the first of each two rows, and the last one again
    panel = [(i * 5 + r) * 48 * 4 + n * 64 for r in range(1, 5) for i in range(8) for n in range(3)]
    assert sorted({*fetched.tolist()}) == sorted(panel)


def test_a_shared_prefetch_in_the_rest_of_a_cut():
    A, C, s, (r, j, _) = panels(7)
    _, inner = s[C].split(j, factor=4, tail="cut")
    s[C].prefetch(A, r, 1, at=inner)
    rng = np.random.default_rng(0)
    a, b = rng.random((8, 5, 48), "float32"), rng.random((5, 7, 48), "float32")
    # six lines: two in each of the four iterations of the main part, and none in the rest
    assert str(s).count("unroll A_line in 0..2") == 1 and str(s).count("prefetch") == 1
    np.testing.assert_allclose(sl.build(s)(a, b), np.einsum("irq,rjq->ij", a, b), rtol=1e-5)


def test_iterations_share_a_prefetch_of_what_an_attached_stage_reads():
    A, B = sl.placeholder((8, 48), name="A"), sl.placeholder((48,), name="B")
    D = sl.compute((8, 48), lambda i, j: A[i, j] * 2, name="D")
    k = sl.reduce_axis(48, name="k")
    C = sl.compute((8,), lambda i: sl.sum(D[i, k] * B[k], axis=k), name="C")
    for attached_first, inside in product((True, False), repeat=2):
        s = sl.schedule(C)
        _, inner = s[C].split(k, factor=16)
        where = inner if inside else C.op.axis[0]
        if attached_first:
            s[D].compute_at(s[C], where)
        s[C].prefetch(A, C.op.axis[0], 1, at=inner)
        if not attached_first:
            s[D].compute_at(s[C], where)
        if inside:
            assert "prefetch A[min(i + 1, 7), " in str(s)
            continue
        with pytest.raises(LoweringError, match=r"k\.inner does not read A from outside"):
            sl.lower(s)


def test_a_shared_prefetch_in_the_updates_of_a_scatter():
    P = sl.placeholder((6,), "int32", name="P")
    X = sl.placeholder((6, 64), name="X")
    H = sl.scatter((8, 64), (6, 64), lambda t, j: ((P[t], j), X[t, j]), "sum", name="H")
    s = sl.schedule(H)
    (scattered, j), (t,) = s[H].op.axis, s[H].op.reduce_axis
    with pytest.raises(sl.errors.ScheduleError, match="only initializes the scatter H"):
        s[H].prefetch(X, scattered, 1, at=j)
    s[H].reorder(t, j)
    s[H].prefetch(X, t, 1, at=j)
    assert "prefetch X[min(t + 1, 5), " in str(s)


def test_shared_prefetches_that_cannot_be_divided_are_refused():
    n = sl.var("n")
    A, B = sl.placeholder((8, 48), name="A"), sl.placeholder((8, n), name="B")
    r, q = sl.reduce_axis(8, name="r"), sl.reduce_axis(48, name="q")
    C = sl.compute((n,), lambda i: sl.sum(A[r, q] * B[r, i], axis=[r, q]), name="C")
    s = sl.schedule(C)
    s[C].reorder(r, C.op.axis[0], q)
    s[C].prefetch(A, r, 1, at=C.op.axis[0])
    with pytest.raises(LoweringError, match=r"prefetch\(A, r, 1, at=i\) .*\n?.*i has n iterations"):
        sl.lower(s)
    s = sl.schedule(C)
    s[C].reorder(r, C.op.axis[0], q)
    s[C].prefetch(B, r, 1, at=q)
    with pytest.raises(LoweringError, match="known only at run time"):
        sl.lower(s)


def test_a_prefetch_of_an_output():
    A = sl.placeholder((64, 64), name="A")
    C = sl.compute((64, 64), lambda i, j: A[i, j] + 1, name="C")
    s = sl.schedule(C)
    io, jo, _, _ = s[C].tile(*C.op.axis, 4, 32)
    s[C].prefetch(C, jo, 1)
    assert "prefetch C[i.outer*4 + C_row, min(j.outer*32 + C_line*16 + 32, 63)]" in str(s)
    a = np.random.default_rng(7).random((64, 64), "float32")
    np.testing.assert_array_equal(sl.build(s)(a), a + 1)


def test_a_prefetch_ahead_of_an_empty_loop():
    A = sl.placeholder((7,), name="A")
    r, q = sl.reduce_axis(12, name="r"), sl.reduce_axis(0, name="q")
    C = sl.compute((7,), lambda i: sl.sum(A[q] * A[sl.min(r, 6)], axis=[r, q]), name="C")
    s = sl.schedule(C)
    s[C].prefetch(A, C.op.axis[0], 2)
    s[C].fuse(r, q)
    for target in ("cpu", "python"):
        f = sl.build(s, target=target)
        np.testing.assert_array_equal(f(np.ones(7, "float32")), np.zeros(7))


def test_a_prefetch_is_left_out_where_nothing_is_read():
    A = sl.placeholder((32,), name="A")
    C = sl.compute((40,), lambda i: sl.if_then_else(i < 32, A[i], 0.0), name="C")
    s = sl.schedule(C)
    _, inner = s[C].split(C.op.axis[0], 16, tail="cut")
    s[C].prefetch(A, inner, 1)
    # the tail, elements 32 to 39, reads nothing
    assert str(s).count("prefetch A") == 1
    a = np.arange(32, dtype="float32")
    f = sl.build(s, [A, C], target="python")
    np.testing.assert_array_equal(f(a), np.append(a, np.zeros(8, "float32")))


def test_a_prefetch_in_a_loop_of_one_iteration_is_checked():
    A = sl.placeholder((1,), name="A")
    B = sl.compute((1,), lambda i: A[i] * 2, name="B")
    C = sl.compute((1,), lambda i: B[i] * 2, name="C")
    s = sl.schedule(C)
    s[C].prefetch(A, C.op.axis[0], 1)
    with pytest.raises(sl.errors.LoweringError, match="i does not read A from outside the loop"):
        sl.lower(s)
    s[B].compute_at(s[C], C.op.axis[0])
    assert "prefetch" not in str(s)


def test_what_cannot_be_prefetched_is_refused():
    A = sl.placeholder((64,), name="A")
    far = sl.placeholder((1000000,), name="far")
    at = sl.placeholder((64,), "int32", name="at")
    D = sl.compute((64,), lambda i: far[i] + 1, name="D")
    C = sl.compute((64,), lambda i: D[i] + far[i] + far[999999 - i] + A[at[i]], name="C")
    refusals = {
        far: "an iteration reads 62500 cache lines of far, and at most 1024 are prefetched",
        D: "i does not read D from outside the loop",
        A: "the indices of A depend on data",
    }
    for tensor, why in refusals.items():
        s = sl.schedule(C)
        s[D].compute_at(s[C], C.op.axis[0])
        s[C].prefetch(tensor, C.op.axis[0], 1)
        with pytest.raises(LoweringError, match=why):
            sl.lower(s)


def test_two_modules_agree_on_the_largest_step_of_whole_vectors():
    assert offsets.CLOSE == scattered.LARGEST_SHUFFLED_STEP


@pytest.mark.parametrize("target", ["cpu", "python"])
def test_copies_that_a_guard_leaves_out_read_no_rows(target: str) -> None:
    """The second tile of 16 has 8 rows; the other copies would read past the array."""
    A = sl.placeholder((16, 24), name="A")
    B = sl.compute((24, 16), lambda k, j: A[j, k], name="B")
    s = sl.schedule(B)
    k, j = B.op.axis
    for axis in s[B].split(k, factor=16, tail="guard"):
        s[B].unroll(axis)
    s[B].vectorize(j)
    a = np.random.default_rng(8).random((16, 24), "float32")
    np.testing.assert_array_equal(sl.build(s, target=target)(a), a.T)
