"""Tests of register tiles of convolutions whose channels are in blocks of a vector."""

from __future__ import annotations

import re

import numpy as np
import pytest

import schedlang as sl
from schedlang import topi
from schedlang.autotune.knobs import Decision
from schedlang.autotune.space import Candidate
from tests.cpu_candidates import AVX2, AVX512, drawn
from tests.graphs import product


def convolution(blocks: int, rows: int) -> sl.Tensor:
    """Return a convolution of channels in blocks of 16, with bias and relu."""
    A = sl.placeholder((1, 2, rows + 2, rows + 2, 16), name="A")
    W = sl.placeholder((blocks, 2, 3, 3, 16, 16), name="W")
    b = sl.placeholder((blocks, 16), name="b")
    C = topi.nn.conv2d_NCHWc(A, W, 1, 0, 1, "NCHW16c", "NCHW16c")
    return sl.compute(
        C.shape, lambda n, f, y, x, i: sl.max(C[n, f, y, x, i] + b[f, i], 0), name="R"
    )


def tiled(Y: sl.Tensor, tile: Decision, count: int = 2) -> list[Candidate]:
    given = {"conv2d_NCHWc.fuse": True, "conv2d_NCHWc.tile": tile}
    return drawn(Y, count, AVX512, given=given)


@pytest.mark.parametrize("tile", [[1, [1, 2], [3, 14]], [1, [1, 2], [2, 2], [3, 7]]])
def test_inner_rows_of_a_tile_hold_the_fewest_operands(tile: Decision) -> None:
    """Two vectors of weights are held, and not the 14 elements that meet them."""
    for candidate in tiled(convolution(4, 28), tile):
        text = str(candidate.nest)
        assert re.search(r"unroll x in 0..(14|7):\n +unroll fo in 0..2:\n +vectorize fi", text)
        # the epilogue is written out too, so that sums are in their registers to the end
        assert re.search(r"unroll x.inner in 0..(14|7):\n +vectorize i in 0..16:\n +R\[", text)


def test_an_odd_number_of_rows_is_in_larger_tiles() -> None:
    """Two rows of 7 elements read the weights half as often; the last tile has one row."""
    Y = convolution(2, 7)
    (candidate, *_) = tiled(Y, [1, [1, 2], [2, 2], [3, 7]], 1)
    # channels are the lanes, and weights are in panels as they are
    assert "W.global" not in str(candidate.nest)
    f = sl.build(candidate.schedule, target="python")
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-3, 4, t.shape).astype("float32") for t in sl.reference(Y).inputs]
    assert np.array_equal(f(*arrays), sl.reference(Y)(*arrays))


def test_rows_of_one_vector_are_not_copied() -> None:
    """They are in the order of a copy as they are."""
    *_, C = product(256, 8, 256)
    assert not any("B.global" in str(c.nest) for c in drawn(C, 8, AVX2))
