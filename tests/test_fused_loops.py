"""Tests of what the verifier proves of fused loops, of the digits that the indices select."""

from __future__ import annotations

import warnings
from dataclasses import replace
from itertools import permutations
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang import topi
from schedlang.compute.graph import placeholders
from schedlang.errors import UnprovenWarning, VerifyError
from schedlang.expr.nodes import Binary, Expr
from schedlang.expr.visit import rewrite
from schedlang.index import enumeration
from schedlang.ir.nodes import Block, For, If, Store
from schedlang.ir.rewrite import deep
from schedlang.ir.verify import report
from schedlang.language.construct import as_expr
from tests.marks import slow_but
from tests.nests import axis, buffer, loop, nest, store

N, M = sl.var("n"), sl.var("m")


def plus_one(shape: tuple[Any, ...]) -> sl.Tensor:
    A = sl.placeholder(shape, "int32", name="A")
    return sl.compute(shape, lambda *idx: A[idx] + 1, name="B")


def fused_tiles(shape: tuple[Any, ...], tile: int, bound: bool = False) -> sl.Schedule:
    """Return a schedule that fuses the first axis with the tiles of the others."""
    B = plus_one(shape)
    s = sl.schedule(B)
    n, y, x = B.op.axis
    yo, xo, yi, xi = s[B].tile(y, x, tile, tile)
    s[B].reorder(n, yo, xo, yi, xi)
    blocks = s[B].fuse(s[B].fuse(n, yo), xo)
    if bound:
        s[B].bind(blocks, "blockIdx.x")
        s[B].bind(s[B].fuse(yi, xi), "threadIdx.x")
    else:
        s[B].parallel(blocks)
    return s


@pytest.fixture
def proofs_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count no iterations: a nest that passes is proven."""
    monkeypatch.setattr(enumeration, "MOST_POINTS", 0)


@pytest.mark.parametrize("bound", [False, True])
@pytest.mark.parametrize(
    "shape", [(64, 56, 56), (8, 200, 200), (3, 512, 1000), (N, 57, 60), (N, M, 30), (4, N + 1, M)]
)
def test_fused_tiles_of_any_size_are_proven(
    shape: tuple[Any, ...], bound: bool, proofs_alone: None
) -> None:
    s = fused_tiles(shape, 8, bound)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UnprovenWarning)
        sl.build(s, target=sl.Target("cuda") if bound else "python")


@pytest.mark.parametrize("shape", [(N, 30), (N, M), (30, N), (N // 2, M + 1), (100, 103)])
@pytest.mark.parametrize("tiles", slow_but(["(1, 5)", "(7, 16)"], [(8, 1), (1, 5), (7, 16)]))
@pytest.mark.parametrize("parts", [{"factor": 4}, {"factor": 7}, {"nparts": 4}])
def test_splits_of_fused_tiles_are_proven(
    shape: tuple[Any, ...], tiles: tuple[int, int], parts: dict[str, int], proofs_alone: None
) -> None:
    for order in permutations(range(2)):
        B = plus_one(shape)
        s = sl.schedule(B)
        halves = [s[B].split(a, factor=tile) for a, tile in zip(B.op.axis, tiles)]
        outer = [halves[k][0] for k in order]
        s[B].reorder(*outer, *(inner for _, inner in halves))
        chunk, _ = s[B].split(s[B].fuse(*outer), tail="guard", **parts)
        s[B].parallel(chunk)
        assert report(sl.lower(s)).open == ()


def test_many_fused_axes_are_proven_out_of_order(proofs_alone: None) -> None:
    for order in ((4, 2, 0, 3, 1), (3, 4, 1, 0, 2), (1, 0, 4, 3, 2)):
        B = plus_one((N, 3, M, (M + 3) // 4, 5))
        s = sl.schedule(B)
        first, *others = (B.op.axis[k] for k in order)
        s[B].reorder(first, *others)
        for other in others:
            first = s[B].fuse(first, other)
        s[B].parallel(first)
        assert report(sl.lower(s)).open == ()


def dense(x: sl.Tensor, *shape: int) -> sl.Tensor:
    return topi.nn.dense(x, sl.placeholder(shape, name=f"w{shape[0]}"))


def convolved(x: sl.Tensor, channels: int, stride: int) -> sl.Tensor:
    w = sl.placeholder((channels, x.shape[1], 3, 3), name=f"w{channels}")
    return topi.nn.relu(topi.nn.conv2d_nchw(x, w, stride, 1, 1))


def input_of(*shape: Any) -> sl.Tensor:
    return sl.placeholder((N, *shape), name="X")


def conv_and_pool() -> sl.Tensor:
    a = convolved(convolved(input_of(64, 56, 56), 64, 1), 128, 2)
    return topi.nn.pool2d(a, (3, 3), (2, 2), (1, 1), (1, 1, 1, 1), "max")


MODELS = {
    "mlp": lambda: dense(topi.nn.relu(dense(input_of(64), 128, 64)), 10, 128),
    "softmax": lambda: topi.nn.softmax(dense(input_of(37), 23, 37)),
    "rows": lambda: topi.nn.softmax(input_of(12, 197, 197)),
    "odd convolution": lambda: convolved(input_of(3, 17, 17), 12, 2),
    "convolutions and pooling": conv_and_pool,
    "products": lambda: sl.einsum(
        "nij,njk->nik", input_of(48, 32), sl.placeholder((N, 32, 56), name="Y")),
    "sequences": lambda: sl.einsum(
        "nmk,ok->nmo", input_of(M, 64), sl.placeholder((128, 64), name="w")),
}  # fmt: skip


# these take seconds to schedule
LONG = {
    "cpu": ("rows", "odd convolution", "convolutions and pooling", "softmax"),
    "cuda": tuple(MODELS),
}


@pytest.mark.parametrize(
    ("name", "target"),
    [
        pytest.param(
            name, target, id=f"{name}-{target}",
            marks=[pytest.mark.slow] if name in LONG[target] else [],
        )
        for name in MODELS
        for target in LONG
    ],
)  # fmt: skip
def test_networks_of_any_batch_do_not_warn(
    name: str, target: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCHEDLANG_CACHE", str(tmp_path))
    out = MODELS[name]()
    weights = [t for t in placeholders([out]) if t.name.startswith("w")]
    given = {t: np.ones(t.shape, "float32") for t in weights}
    with warnings.catch_warnings():
        warnings.simplefilter("error", UnprovenWarning)
        net = sl.network(out, given, target=target, database=str(tmp_path / "none.jsonl"))
        assert {kernel.origin for kernel in net.kernels} == {"model"}


def divided(node: Expr) -> Expr:
    """Return an expression with a larger divisor in each quotient and remainder."""
    def swap(found: Expr) -> Expr | None:
        if isinstance(found, Binary) and found.op in ("//", "%"):
            return Binary(found.op, found.a, as_expr(found.b + 1), found.dtype, found.weak)
        return None

    return rewrite(node, swap)


def spoiled(how: str) -> Any:
    """Return a change that makes a right nest wrong at most sizes."""
    def change(stmt: Any) -> Any:
        if isinstance(stmt, Store):
            first, *rest = stmt.indices
            if how == "two blocks write one row":
                return replace(stmt, indices=(first // 2, *rest))
            if how == "a divisor is too large":
                return replace(stmt, indices=tuple(divided(i) for i in stmt.indices))
            if how == "a quotient is read for a remainder":
                return replace(stmt, indices=(first, rest[1], rest[0]))
        if isinstance(stmt, For) and stmt.kind == "parallel" and how == "the last block is missing":
            return replace(stmt, extent=stmt.extent - 1)
        if isinstance(stmt, For) and how == "a guard is missing":
            inside = [s.body.stmts if isinstance(s, If) else (s,) for s in stmt.body.stmts]
            return replace(stmt, body=Block(tuple(s for part in inside for s in part)))
        return stmt

    return change


@pytest.mark.parametrize("how", [
    "two blocks write one row", "a divisor is too large", "a quotient is read for a remainder",
    "the last block is missing", "a guard is missing",
])  # fmt: skip
@pytest.mark.parametrize("shape", [(N, 57, 60), (N, M, 30), (6, 57, 60)])
def test_wrong_nests_are_not_proven(
    how: str, shape: tuple[Any, ...], proofs_alone: None
) -> None:
    right = sl.lower(fused_tiles(shape, 8))
    assert report(right).open == ()
    body = deep(right.body, spoiled(how))
    assert isinstance(body, Block)
    wrong = replace(right, body=body)
    assert str(wrong) != str(right)
    try:
        found = report(wrong)
        # an index that may leave the array is checked at the call
        assert found.open or found.accesses
    except VerifyError:
        pass


def test_updates_by_another_divisor_in_each_iteration_race(proofs_alone: None) -> None:
    """``f // (j + 1)`` and ``f % (j + 1)`` are 2 and 1 for f = 5 and j = 1, and f = 7 and j = 2."""
    D, f, j = buffer("D", 10, 5), axis("f", 10), axis("j", 5)
    body = loop(f, loop(j, store(D, (f // (j + 1), f % (j + 1)), 1.0, "sum")), kind="parallel")
    found = report(nest([], [D], loop(axis("i", 1), store(D, (0, 0), 0.0)), body)).open
    assert any("parallel loop f" in text for text in found)
