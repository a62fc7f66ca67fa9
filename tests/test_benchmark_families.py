"""Tests of the operator families at small sizes: computations, numba loops and Halide."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import schedlang as sl
from benchmarks import computations, works
from benchmarks.peers import PEERS
from benchmarks.works import Work, convolution, families, linear

# one of each kind, then other pads, strides and batches
SMALL = (
    families.gmm(1, 6, 5, 9), families.c1d(9, 3, 4, 3, 2, 1), families.c2d(9, 3, 4, 3, 2, 1),
    families.c3d(5, 6, 3, 4, 3, 2, 1), families.grp(6, 8, 12, 3, 1, 1),
    families.dil(9, 3, 4, 3, 1, 1), families.dep(8, 5, 3, 2, 1), families.t2d(4, 3, 5, 4, 2, 1),
    families.cap(6, 3, 5, 3, 2, 1), families.nrm(1, 7, 9), families.sfm(5, 16),
    families.cbr(7, 3, 4, 3, 2, 1), families.tbg(1, 6, 3, 4),
)  # fmt: skip
MORE = (
    families.gmm(3, 6, 5, 9), families.c1d(8, 4, 3, 1, 2, 0), families.c2d(6, 3, 4, 1, 1, 0),
    families.c3d(4, 6, 3, 4, 1, 1, 0), families.grp(7, 8, 8, 3, 2, 1, groups=2),
    families.dil(11, 3, 4, 3, 2, 2, dilation=3), families.dep(6, 5, 3, 1, 0),
    families.t2d(5, 4, 3, 3, 3, 0), families.t2d(5, 4, 3, 3, 1, 1), families.t2d(5, 4, 3, 3, 2, 1),
    families.cap(5, 2, 3, 3, 1, 0, side=2), families.nrm(3, 4, 5), families.tbg(2, 6, 3, 4),
)  # fmt: skip
TABLE = (
    linear.sgemm(5, 6, 7), linear.batched(2, 3, 4, 5),
    convolution.conv2d("small", 9, 3, 4, 3, 2, 1), convolution.conv2d("plain", 6, 3, 4, 1, 1, 0),
    convolution.depthwise("small", 8, 5, 2),
)  # fmt: skip


def name(work: Work) -> str:
    return work.name


def error_of(module: str, implementation: str, work: Work) -> str:
    """Return what is wrong with a peer's result, or an empty string."""
    arrays, outs = work.arrays(), work.empty()
    made = import_module(f"benchmarks.peers.{module}").prepare(implementation, work, arrays, outs)
    call = made[0] if isinstance(made, tuple) else made
    call()
    return work.wrong(tuple(outs.values()), work.expected(arrays))


def test_thirteen_families_of_four_works_are_outside_the_table() -> None:
    kinds = [w.kind for w in works.FAMILIES]
    assert sorted(kinds) == sorted(4 * [w.kind for w in SMALL])
    assert all(works.ALL[w.name] is w and w.name not in works.TABLE for w in works.FAMILIES)
    assert len(works.FAMILIES) == 52


def test_three_peers_run_the_families() -> None:
    found = {p.implementation for p in PEERS if p.has(works.FAMILIES[0])}
    assert found == {"numba loops", "Halide Mullapudi2016", "Halide Adams2019"}


@pytest.mark.parametrize("work", works.FAMILIES, ids=name)
def test_published_computations_have_the_shapes_of_their_works_and_lower(work: Work) -> None:
    tensors = computations.computation(work)
    shapes = [tuple(t.shape) for t in tensors]
    assert shapes == [*work.inputs.values(), *work.outputs.values()]
    sl.lower(sl.schedule(tensors[-1]), tensors)


@pytest.mark.parametrize("work", [*SMALL, *MORE, *TABLE], ids=name)
def test_computations(work: Work) -> None:
    tensors = computations.computation(work)
    arrays = work.arrays()
    got: Any = sl.reference(tensors[len(arrays) :])(*arrays.values())
    assert not work.wrong(got if isinstance(got, tuple) else (got,), work.expected(arrays))


def test_a_kind_without_a_computation_is_named() -> None:
    with pytest.raises(KeyError, match="no computation of kind transpose"):
        computations.computation(works.ALL["transpose 4096^2"])


@pytest.mark.slow
@pytest.mark.parametrize("work", [*SMALL, *MORE], ids=name)
def test_numba_loops(work: Work) -> None:
    assert not error_of("numba_loops", "numba loops", work)


@pytest.mark.skipif(find_spec("halide") is None, reason="halide is not installed")
@pytest.mark.parametrize("work", SMALL, ids=name)
def test_halide(work: Work, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCHEDLANG_BENCHMARKS", str(tmp_path))
    assert not error_of("halide_peer", "Halide Mullapudi2016", work)
