"""Tests of the proof that threads access distinct elements, on small hand-written programs."""

from __future__ import annotations

from typing import Any

import pytest

import schedlang as sl
from schedlang.expr.nodes import Axis, Binary, Call, Const, Expr, Var
from schedlang.gpu_lowering.barriers import with_barriers
from schedlang.gpu_lowering.lower import device_program
from schedlang.gpu_lowering.program import Index, Launch
from schedlang.index import accesses
from schedlang.index.linear import to_expr
from schedlang.index.simplify import to_lin
from schedlang.ir.nodes import Barrier, Block, Buffer, For, Load, Stmt, Store, walk
from tests.gpu_schedules import gemm

S = Buffer("S", "float32", (64,), "shared")
L = Buffer("L", "float32", (1,), "local")
T = Axis("t", 4)
I = Axis("i", 8)  # noqa: E741


def number(value: int) -> Const:
    return Const(value, "int64", True)


def times(a: Expr, b: Expr | int) -> Expr:
    return Binary("*", a, b if isinstance(b, Expr) else number(b), "int64", True)


def plus(a: Expr, b: Expr) -> Expr:
    return Binary("+", a, b, "int64", True)


def write(at: Expr) -> Stmt:
    return Store((S,), (at,), (Const(1, "float32"),), None, "S")


def read(at: Expr) -> Stmt:
    return Store((L,), (number(0),), (Load(S, (at,), "float32"),), None, "L")


def loop(extent: int | Expr, *body: Stmt) -> Stmt:
    return For(I, extent, "serial", Block(body), "S")


def barriers(*body: Stmt) -> int:
    index = Index("threadIdx.x", T, 4)
    launch = with_barriers(Launch("S", "S", (), (index,), Block(body)))
    return sum(isinstance(s, Barrier) for s, _ in walk(launch.body))


GREATER = Call("max", (times(I, 2), number(3)), "int64", True)
OWN_GREATER = Call("max", (times(T, 4), number(2)), "int64", True)
N = Var("n")
NEEDED = {
    "the rows of two loops over one axis are of two lengths": (
        loop(8, write(plus(times(T, 4), I))), loop(4, read(plus(times(T, 4), I))),
    ),
    "rows are as far apart as a loop says": (
        loop(4, write(times(T, GREATER))), loop(4, read(times(T, GREATER))),
    ),
    "rows are as far apart as each thread says": (
        loop(4, write(times(I, OWN_GREATER))), loop(4, read(times(I, OWN_GREATER))),
    ),
    "rows reach into the next one": (
        loop(5, write(plus(times(T, 4), I))), loop(5, read(plus(times(T, 4), I))),
    ),
    "a remainder alone": (write(to_expr(to_lin(T % 2))), read(to_expr(to_lin(T % 2)))),
}  # fmt: skip
NONE = {
    "rows of one length": (
        loop(4, write(plus(times(T, 4), I))), loop(4, read(plus(times(T, 4), I))),
    ),
    "rows as long as a size": (
        loop(N, write(plus(times(T, N), I))), loop(N, read(plus(times(T, N), I))),
    ),
    "columns": (loop(8, write(plus(times(I, 4), T))), loop(8, read(plus(times(I, 4), T)))),
}  # fmt: skip


@pytest.mark.parametrize("case", NEEDED)
def test_threads_that_share_elements_need_a_barrier(case: str) -> None:
    assert barriers(*NEEDED[case])


@pytest.mark.parametrize("case", NONE)
def test_threads_with_distinct_elements_need_no_barrier(case: str) -> None:
    assert not barriers(*NONE[case])


def test_a_double_buffer_is_proven_by_remainders(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The proof tries the two remainders of a double buffer, not every iteration."""
    tried = []
    reached = accesses.reach

    def counted(*given: Any) -> Any:
        found = reached(*given)
        tried.append(None if found is None else found.columns.shape[1])
        return found

    monkeypatch.setattr(accesses, "reach", counted)
    device_program(sl.lower(gemm(64, 64, 4096, double=True).schedule), sl.Target("cuda"))
    # 16 threads, 8 steps per tile, 4 elements per thread, 2 tiles; not each of 512 steps
    assert tried and all(count is not None and count <= 16 * 8 * 4 * 2 for count in tried)
