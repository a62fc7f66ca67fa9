"""Tests of loops split into edges and an interior without clamps, for padded stencils."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.expr.nodes import Call, Select
from schedlang.expr.visit import postorder
from schedlang.ir.interpret import interpret
from schedlang.ir.nodes import For, Load, Store, walk
from schedlang.lowering.loop_partitioning import MOST_COPIES
from tests.marks import slow_but

ROWS, COLUMNS = 13, 72
MODES = ("constant", "edge", "reflect", "wrap")


def stencil(mode: str, pad: int = 1) -> tuple[Any, Any]:
    A = sl.placeholder((ROWS, COLUMNS), "int32", name="A")
    P = sl.pad(A, pad, mode=mode, name="P")
    C = sl.compute(
        (ROWS, COLUMNS),
        lambda y, x: P[y, x] + P[y + pad, x + pad] * 2 + P[y + 2 * pad, x + 2 * pad] * 3, name="C",
    )  # fmt: skip
    return P, C


def expected(a: np.ndarray, mode: str, pad: int = 1) -> np.ndarray:
    p = np.pad(a, pad, mode=mode)  # type: ignore[call-overload]
    return sum(
        p[k * pad : k * pad + ROWS, k * pad : k * pad + COLUMNS] * (k + 1) for k in range(3)
    )


def rows(s: Any, P: Any, C: Any) -> None:
    s[P].compute_inline()
    _, lanes = s[C].split(C.op.axis[1], factor=4)
    s[C].vectorize(lanes)


def strips(s: Any, P: Any, C: Any) -> None:
    rows(s, P, C)
    s[C].parallel(C.op.axis[0])


def tiles(s: Any, P: Any, C: Any) -> None:
    s[P].compute_inline()
    yo, xo, yi, xi = s[C].tile(*C.op.axis, 4, 16)
    _, lanes = s[C].split(xi, factor=4)
    s[C].vectorize(lanes)
    s[C].parallel(yo)


def columns(s: Any, P: Any, C: Any) -> None:
    """Schedule tiles with the columns outermost, where the first and last tile are split again."""
    s[P].compute_inline()
    xo, xi = s[C].split(C.op.axis[1], factor=8)
    s[C].reorder(xo, C.op.axis[0], xi)
    _, lanes = s[C].split(xi, factor=4)
    s[C].vectorize(lanes)


def attached(s: Any, P: Any, C: Any) -> None:
    strip, _ = s[C].split(C.op.axis[0], factor=4)
    s[P].compute_at(s[C], strip)
    _, lanes = s[P].split(P.op.axis[1], factor=4)
    s[P].vectorize(lanes)


def in_tiles(s: Any, P: Any, C: Any) -> None:
    """Attach the producer inside the loop that is split into parts."""
    yo, xo, yi, xi = s[C].tile(*C.op.axis, 4, 16)
    s[C].reorder(xo, yo, yi, xi)
    s[P].compute_at(s[C], yo)
    s[C].vectorize(s[C].split(xi, factor=4)[1])
    s[P].vectorize(s[P].split(P.op.axis[1], factor=2)[1])


def tails(s: Any, P: Any, C: Any) -> None:
    s[P].compute_inline()
    _, lanes = s[C].split(C.op.axis[1], factor=5)
    s[C].vectorize(lanes)


SCHEDULES = [rows, strips, tiles, columns, attached, in_tiles, tails]


@pytest.mark.parametrize("pad", slow_but(["6"], [1, 6]))
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("mode", MODES)
def test_padded_stencils_agree_with_numpy(mode: str, schedule: Any, pad: int) -> None:
    P, C = stencil(mode, pad)
    s = sl.schedule(C)
    schedule(s, P, C)
    nest = sl.lower(s)
    a = np.random.default_rng(0).integers(-99, 99, (ROWS, COLUMNS)).astype("int32")
    np.testing.assert_array_equal(interpret(nest, [a]).outputs[0], expected(a, mode, pad))
    f = sl.build(s, target="python")
    np.testing.assert_array_equal(f(a), expected(a, mode, pad))


def test_compiled() -> None:
    P, C = stencil("reflect")
    s = sl.schedule(C)
    columns(s, P, C)
    a = np.random.default_rng(0).integers(-99, 99, (ROWS, COLUMNS)).astype("int32")
    np.testing.assert_array_equal(sl.build(s)(a), expected(a, "reflect"))


def clamped(store: Store, lanes: Any) -> bool:
    """Return whether a value of ``store`` depends on lanes by a clamp, ``%`` or a condition."""
    for node in postorder(store.values):
        parts = node.indices if isinstance(node, Load) else (
            (node.cond,) if isinstance(node, Select) else ())  # fmt: skip
        for part in postorder(parts):
            if isinstance(part, Call) or getattr(part, "op", "") in ("%", "<", ">=", ">", "<="):
                if any(n is lanes for n in postorder([part])):
                    return True
    return False


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("schedule", [rows, strips, tiles, columns])
def test_only_vectors_at_the_edges_have_clamps(mode: str, schedule: Any) -> None:
    P, C = stencil(mode)
    s = sl.schedule(C)
    schedule(s, P, C)
    free = edges = 0
    stack = [(sl.lower(s).body, 1, None)]
    while stack:
        stmt, points, lanes = stack.pop()
        if isinstance(stmt, Store):
            if clamped(stmt, lanes):
                edges += points
            else:
                free += points
        elif isinstance(stmt, For):
            inner = stmt.axis if stmt.kind == "vectorize" else lanes
            stack.append((stmt.body, points * stmt.extent, inner))
        else:
            stack += [(x, points, lanes) for x in getattr(stmt, "stmts", ())]
            stack += [(stmt.body, points, lanes)] if hasattr(stmt, "cond") else []
    # at most two vectors of a row have clamps
    assert edges * (COLUMNS // 4) <= 2 * (free + edges)
    assert sum(isinstance(x, Store) for x, _ in walk(sl.lower(s).body)) <= MOST_COPIES


def test_a_loop_without_a_provable_interior_stays_whole() -> None:
    A = sl.placeholder((64,), name="A")
    B = sl.compute((64,), lambda i: A[i // 2] + A[(i * 3) % 64] + A[sl.min(i, 63 - i)], name="B")
    s = sl.schedule(B)
    _, lanes = s[B].split(B.op.axis[0], factor=4)
    s[B].vectorize(lanes)
    assert len(sl.lower(s).loops) == 2


def test_the_printed_nest_shows_edges_and_interior() -> None:
    A = sl.placeholder((64,), name="A")
    B = sl.compute((64,), lambda i: A[sl.max(i - 1, 0)] + A[sl.min(i + 1, 63)], name="B")
    s = sl.schedule(B)
    _, lanes = s[B].split(B.op.axis[0], factor=8)
    s[B].vectorize(lanes)
    assert str(s).splitlines()[2:] == [
        "vectorize i.inner in 0..8:",
        "  B[i.inner] = A[max(i.inner - 1, 0)] + A[i.inner + 1]",
        "for i.outer in 0..6:",
        "  vectorize i.inner in 0..8:",
        "    B[i.outer*8 + i.inner + 8] = A[i.outer*8 + i.inner + 7] + A[i.outer*8 + i.inner + 9]",
        "vectorize i.inner in 0..8:",
        "  B[i.inner + 56] = A[i.inner + 55] + A[min(i.inner + 57, 63)]",
    ]


@pytest.mark.parametrize("dtype", ["float16", "int32", "float64"])
@pytest.mark.parametrize("lanes", [4, 8, 16, 32])
@pytest.mark.parametrize("mode", MODES)
def test_reads_at_the_ends_of_a_row_are_shuffles(mode: str, lanes: int, dtype: str) -> None:
    A = sl.placeholder((3, 64), dtype, name="A")
    P = sl.pad(A, 1, mode=mode, name="P")
    C = sl.compute((3, 64), lambda y, x: P[y, x] + P[y + 1, x + 1] + P[y + 2, x + 2], name="C")
    s = sl.schedule(C)
    s[P].compute_inline()
    s[C].vectorize(s[C].split(C.op.axis[1], factor=lanes)[1])
    a = np.random.default_rng(0).integers(-9, 9, (3, 64)).astype(dtype)
    p = np.pad(a, 1, mode=mode)
    f = sl.build(s, target="python")
    np.testing.assert_array_equal(f(a), p[:-2, :-2] + p[1:-1, 1:-1] + p[2:, 2:])
    clamped = mode in ("edge", "reflect")
    assert ("vload_shuffled" in f.source) == (clamped and lanes <= 16)
    assert ("vgather" in f.source) == (mode == "wrap" or (clamped and lanes > 16))


def test_a_shuffle_reads_nothing_past_the_end() -> None:
    """The last vector of the last row, which is not full, is not read past the end."""
    A = sl.placeholder((16,), name="A")
    B = sl.compute((16,), lambda i: A[sl.min(i + 3, 15)], name="B")
    s = sl.schedule(B)
    s[B].vectorize(B.op.axis[0])
    f = sl.build(s)
    assert "order = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 12, 12, 12)" in f.source
    a = np.random.default_rng(0).random(16, "float32")
    np.testing.assert_array_equal(f(a), a[[*range(3, 16), 15, 15, 15]])
    np.testing.assert_array_equal(sl.build(s, target="python")(a), f(a))


def test_a_long_statement_computes_repeated_clamps_once() -> None:
    A = sl.placeholder((64, 80), name="A")
    P = sl.pad(A, 1, mode="edge", name="P")
    around = [(i, j) for i in range(3) for j in range(3)]
    C = sl.compute((64, 80), lambda y, x: sum(P[y + i, x + j] for i, j in around), name="C")
    s = sl.schedule(C)
    s[P].compute_inline()
    assert str(s).splitlines()[2:] == [
        "for y in 0..64:",
        "  for x in 0..80:",
        "    t1 = max(y - 1, 0)",
        "    t2 = max(x - 1, 0)",
        "    t3 = min(x + 1, 79)",
        "    t4 = min(y + 1, 63)",
        "    C[y, x] = A[t1, t2] + A[t1, x] + A[t1, t3] + A[y, t2] + A[y, x] + A[y, t3] + "
        "A[t4, t2] + A[t4, x] + A[t4, t3]",
    ]
