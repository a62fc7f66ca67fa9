"""Tests of tiles that take blocks of reduction steps in turn, and prefetch their panels evenly."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

import schedlang as sl
from schedlang.autotune.knobs import Rejected
from schedlang.autotune.space import Candidate, Space
from schedlang.autotune.tactics.facts import Problem
from schedlang.target import Cache

pytestmark = pytest.mark.slow

# the weights of two blocks of output channels below, 12 KiB for one tap, do not fit the first cache
SMALL = (Cache(8 << 10, 8), Cache(1 << 16, 8))


# by taps: blocks of input channels whose panels the first cache holds, and how far to prefetch
STEPS = {1: ((2, 0), (6, 1), (12, 2), (0, 1)), 2: ((1, 1), (4, 2)), 3: ((1, 0), (1, 1))}


def layer(
    rows: int = 5, columns: int = 4, taps: int = 1, stride: int = 1, fused: bool = True
) -> list[sl.Tensor]:
    """Return X, W and a convolution of blocks of 8 channels, 24 in and 4 out, or its reader."""
    height, width = (stride * (n - 1) + taps for n in (rows, columns))
    X = sl.placeholder((24, height, width, 8), name="X")
    W = sl.placeholder((4, 24, taps, taps, 8, 8), name="W")
    c, u, v, q = (sl.reduce_axis(n, name=a) for a, n in zip("cuvq", (24, taps, taps, 8)))
    Y = sl.compute(
        (4, rows, columns, 8),
        lambda o, y, x, p: sl.sum(
            X[c, y * stride + u, x * stride + v, q] * W[o, c, u, v, q, p], axis=[c, u, v, q]
        ), name="Y",
    )  # fmt: skip
    if not fused:
        return [X, W, Y]
    return [X, W, sl.compute(Y.shape, lambda o, y, x, p: sl.max(Y[o, y, x, p], 0.0), name="Z")]


def space(output: sl.Tensor, caches: tuple[Cache, ...] = SMALL) -> Space:
    target = sl.Target("cpu", vector_bytes=32, vector_registers=16, caches=caches)
    return Space(Problem((output,), target, 2))


def drawn(made: Space, count: int, **knobs: object) -> list[Candidate]:
    """Return draws that took all of the decisions ``knobs``, by the last part of their names."""
    rng, found = Random(0), []
    stage = "Y" if made.problem.outputs[0].name == "Z" else "Y.local"
    given = {f"{'Y' if name == 'tile' else stage}.{name}": v for name, v in knobs.items()}
    for _ in range(20 * count):
        try:
            candidate = made.draw(rng, {"Y.fuse": True, "Y.how": "tile", **given})
        except Rejected:
            continue
        if all(candidate.decisions.get(name) == value for name, value in given.items()):
            found.append(candidate)
        if len(found) == count:
            return found
    raise AssertionError(f"{len(found)} draws, {made.reasons}")


def check(tensors: list[sl.Tensor], candidate: Candidate, stride: int) -> None:
    """Compare a candidate with NumPy."""
    rng = np.random.default_rng(0)
    x, w = (rng.integers(-4, 5, [int(n) for n in t.shape]).astype("float32") for t in tensors[:2])
    _, rows, columns, _ = (int(n) for n in tensors[2].shape)
    expected = np.zeros((4, rows, columns, 8), "float32")
    for u, v in np.ndindex(w.shape[2:4]):
        seen = x[:, u : u + stride * (rows - 1) + 1 : stride, v : v + stride * columns : stride]
        expected += np.einsum("cyxq,ocqp->oyxp", seen[:, :, :columns], w[:, :, u, v])
    if tensors[2].name == "Z":
        expected = np.maximum(expected, 0)
    f = sl.build(candidate.schedule, tensors, target="python")
    np.testing.assert_array_equal(f(x, w), expected, err_msg=str(candidate.nest))


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize(("taps", "stride"), [(1, 1), (1, 2), (3, 1), (2, 2)])
def test_results_do_not_depend_on_blocks_and_prefetches(
    taps: int, stride: int, fused: bool
) -> None:
    tensors = layer(taps=taps, stride=stride, fused=fused)
    made = space(tensors[-1])
    for steps, ahead in STEPS[taps]:
        order = [0, 1] if taps == 1 else [0, 2, 1, 3]
        # a stage that reads the result changes no tile
        for tile in ([1, [0, 2], [2, 4]], [1, [0, 2], [1, 5]])[: 2 if fused else 1]:
            (candidate,) = drawn(
                made, 1, step_block=steps, prefetch=ahead, tile=tile, reduce_order=order
            )
            check(tensors, candidate, stride)
            assert ("prefetch W" in str(candidate.nest)) == (ahead > 0)


def test_the_tiles_of_a_group_take_each_block_in_turn() -> None:
    X, W, Z = layer()
    made = space(Z)
    (found,) = drawn(
        made,
        1,
        step_block=4,
        prefetch=1,
        tile=[1, [0, 2], [2, 4]],
        reduce_order=[0, 1],
        unroll=False,
    )
    text = str(found.nest)
    start = text.index("for c.outer in 0..6:")
    loops = [line.strip() for line in text[start:].splitlines()[:8]]
    assert loops == [
        "for c.outer in 0..6:",
        "for y in 0..5:",
        "for c.inner in 0..4:",
        "for q in 0..8:",
        # a panel has 64 rows of 32 bytes: those of two output channels in 32 iterations each
        "prefetch W[o.outer*2 + min(y, 1), min(c.outer*4 + c.inner + 4, 23), 0, 0, q, 0]",
        "unroll x in 0..4:",
        "unroll o in 0..2:",
        "vectorize p in 0..8:",
    ]
    check([X, W, Z], found, 1)


@pytest.mark.parametrize(
    ("pixels", "caches", "why"),
    [
        (5, (Cache(1 << 20, 8),), "the weights of a tile fit the first cache"),
        (1, SMALL, "each group has one tile"),
    ],
)
def test_no_blocks_where_they_cannot_help(pixels: int, caches: tuple[Cache, ...], why: str) -> None:
    *_, Z = layer(pixels, pixels)
    made, rng = space(Z, caches), Random(0)
    for _ in range(30):
        assert "Y.step_block" not in made.draw(rng).decisions, why


def test_panels_that_the_kernel_computes_are_not_prefetched() -> None:
    X, W, _ = layer()
    V = sl.compute(W.shape, lambda *i: W[i] * 2, name="V")
    c, q = sl.reduce_axis(24, name="c"), sl.reduce_axis(8, name="q")
    Y = sl.compute(
        (4, 5, 4, 8),
        lambda o, y, x, p: sl.sum(X[c, y, x, q] * V[o, c, 0, 0, q, p], axis=[c, q]),
        name="Y",
    )
    made, rng = space(Y), Random(0)
    names: set[str] = set()
    for _ in range(40):
        try:
            names |= set(made.draw(rng, {"V.inline": False}).decisions)
        except Rejected:
            continue
    assert "Y.local.step_block" in names and "Y.local.prefetch" not in names


@pytest.mark.parametrize(("second", "ahead"), [(1 << 16, 0), (1 << 15, 1)])
def test_panels_that_the_second_cache_keeps_are_not_prefetched_at_first(
    second: int, ahead: int
) -> None:
    """The weights take 24 KiB."""
    *_, Z = layer()
    first = space(Z, (Cache(4 << 10, 8), Cache(second, 8))).draw(None, {"Y.fuse": True})
    assert first.decisions["Y.prefetch"] == ahead


def test_panels_whose_place_depends_on_data_are_not_prefetched() -> None:
    X, at = sl.placeholder((6, 512), name="X"), sl.placeholder((512,), "int32", name="at")
    W, k = sl.placeholder((64, 8), name="W"), sl.reduce_axis(512, name="k")
    Y = sl.compute((6, 8), lambda i, p: sl.sum(X[i, k] * W[at[k], p], axis=k), name="Y")
    made, rng = space(Y), Random(0)
    drawn_names = {name for _ in range(20) for name in made.draw(rng).decisions}
    assert "Y.tile" in drawn_names and not any("prefetch" in name for name in drawn_names)
