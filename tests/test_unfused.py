"""Tests of proofs about fused loops, which are split into their axes again."""

from __future__ import annotations

import warnings
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import schedlang as sl
from schedlang.errors import UnprovenWarning, VerifyError
from schedlang.ir.interpret import interpret
from schedlang.ir.nodes import Store
from schedlang.ir.rewrite import deep
from schedlang.ir.unfuse import unfused
from schedlang.ir.verify import report


def plus_one(shape: tuple[int, ...]) -> Any:
    A = sl.placeholder(shape, "int32", name="A")
    return sl.compute(shape, lambda *idx: A[idx] + 1, name="B")


def fused_tiles(shape: tuple[int, int, int], tile: int, bound: bool) -> sl.Schedule:
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


def test_digits_keep_the_name_of_their_loop() -> None:
    nest = sl.lower(fused_tiles((4, 16, 24), 8, False))
    apart = unfused(nest)
    assert [f.extent for f in nest.loops] == [24, 8, 8]
    assert [f.extent for f in apart.loops] == [4, 2, 3, 8, 8]
    assert {f.axis.name for f in apart.loops[:3]} == {nest.loops[0].axis.name}
    assert all(f.kind == "parallel" for f in apart.loops[:3])


@pytest.mark.parametrize("bound", [False, True])
@pytest.mark.parametrize("shape", [(64, 56, 56), (8, 200, 200), (3, 512, 1000)])
def test_fused_tiles_of_any_size_are_proven(shape: tuple[int, int, int], bound: bool) -> None:
    s = fused_tiles(shape, 8, bound)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UnprovenWarning)
        sl.build(s, target=sl.Target("cuda") if bound else "python")


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 5), min_size=2, max_size=4), st.integers(1, 7), st.data())
def test_the_nest_computes_the_same(extents: list[int], factor: int, data: Any) -> None:
    shape = tuple(extents)
    B = plus_one(shape)
    s = sl.schedule(B)
    order = data.draw(st.permutations(range(len(shape))))
    s[B].reorder(*(B.op.axis[k] for k in order))
    fused = B.op.axis[order[0]]
    for k in order[1:]:
        fused = s[B].fuse(fused, B.op.axis[k])
    s[B].split(fused, factor=factor)
    nest = sl.lower(s)
    a = np.arange(prod(shape), dtype="int32").reshape(shape)
    for made in (nest, unfused(nest)):
        np.testing.assert_array_equal(interpret(made, [a]).outputs[0], a + 1)


def test_wrong_nests_stay_unproven_or_refused() -> None:
    """A nest changed by hand, in which two blocks write one element, is not proven."""
    nest = sl.lower(fused_tiles((64, 512, 512), 8, False))

    def spoiled(stmt: Any) -> Any:
        if not isinstance(stmt, Store):
            return stmt
        first, *rest = stmt.indices
        return replace(stmt, indices=(first // 2, *rest))

    body = deep(nest.body, spoiled)
    try:
        found = report(replace(nest, body=body)).open
    except VerifyError as error:
        found = (str(error),)
    assert found
