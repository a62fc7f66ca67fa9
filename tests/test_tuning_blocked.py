"""Tests of register tiles of convolutions whose channels are in blocks of a vector."""

from __future__ import annotations

import re

import numpy as np
import pytest

import schedlang as sl
from schedlang import topi
from schedlang.autotune.knobs import Decision
from schedlang.autotune.space import Candidate
from schedlang.networks.partition import partition
from schedlang.networks.prepare import prepare
from schedlang.networks.winograd import with_winograd
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
        rows = r"unroll x(\.inner)? in 0..(14|7):\n +unroll fo in 0..2:\n +vectorize fi"
        assert re.search(rows, text)
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


@pytest.fixture(scope="module")
def winograd() -> dict[str, sl.Tensor]:
    """The parts of a 3 by 3 convolution of 10 by 7 pixels by F(4x4, 3x3), with relu."""
    A = sl.placeholder((1, 2, 10, 7, 16), name="A")
    W = sl.placeholder((2, 2, 3, 3, 16, 16), name="W")
    out = topi.nn.relu(topi.nn.conv2d_NCHWc(A, W, 1, 1, 1, "NCHW16c", "NCHW16c"))
    fast = with_winograd(out, [W], lambda found: 4)
    ready = prepare(list(fast.outputs), {W: np.zeros(W.shape, "float32")})
    return {part.name: part.group.outputs[0] for part in partition(list(ready.outputs))}


def right(Y: sl.Tensor, s: sl.Schedule) -> bool:
    oracle = sl.reference(Y)
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-3, 4, t.shape).astype("float32") for t in oracle.inputs]
    found = sl.build(s, [*oracle.inputs, Y], target="python")(*arrays)
    return bool(np.allclose(found, oracle(*arrays), rtol=1e-4, atol=1e-3))


def test_a_transform_makes_all_it_needs_of_another_at_once(winograd: dict[str, sl.Tensor]) -> None:
    """Both transforms of the input are loops of one tile of 6 by 6, inside of all others."""
    Y = winograd["conv2d_NCHWc_data"]
    s = sl.autoschedule(Y, AVX512)
    text = str(sl.lower(s))
    assert re.search(r"for u in 0..6:\n +unroll v in 0..6:\n +vectorize rci in 0..16", text)
    # the rows of one tile, which stay in the first cache
    assert re.search(r"conv2d_NCHWc_rows: float32\[6, 1, 1, 1, \d+, 16\] +local", text)
    assert right(Y, s)


def test_tiles_of_results_are_written_out(winograd: dict[str, sl.Tensor]) -> None:
    """10 rows are 2 tiles of 4 and one of 2, 7 columns one tile of 4 and one of 3."""
    Y = winograd["relu"]
    s = sl.autoschedule(Y, AVX512)
    text = str(sl.lower(s))
    assert re.search(r"unroll k.inner in 0..4:\n +unroll l.inner in 0..4:\n +vectorize", text)
    # inside of the loops over tiles
    assert re.search(r"\n +conv2d_NCHWc_columns: float32", text)
    assert right(Y, s)
