"""Tests of the plain nests of the benchmark and their C versions, at small sizes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import autovectorization as benchmark
from benchmarks import harness
from benchmarks.computations.scalar_nests import SIZES
from benchmarks.peers import gcc_loops

# multiples of the tiles, as in the table
SMALL = {"n": 6, "m": 5, "p": 7, "c": 2}
TILED = {"blocked": 32, "tiles": 32}
NESTS = {
    make.__name__: make(**{k: TILED.get(make.__name__, SMALL[k]) for k in sizes})
    for make, sizes in SIZES.items()
}


@pytest.fixture(scope="module")
def loops(tmp_path_factory: pytest.TempPathFactory) -> gcc_loops.Loops:
    if reason := gcc_loops.missing():
        pytest.skip(reason)
    sizes = {
        make.__name__: {k: TILED.get(make.__name__, SMALL[k]) for k in own}
        for make, own in SIZES.items()
    }
    return gcc_loops.compiled(sizes, tmp_path_factory.mktemp("gcc"))


@pytest.mark.parametrize("name", NESTS)
def test_a_twin_in_c_computes_the_same(name: str, loops: gcc_loops.Loops) -> None:
    nest = NESTS[name]
    arrays = benchmark.arrays_of(nest)
    benchmark.poison(nest, arrays)
    assert not benchmark.right(nest, arrays)
    loops.call(name, arrays)()
    assert benchmark.right(nest, arrays)


@pytest.mark.parametrize("name", NESTS)
def test_a_nest_is_plain_and_right(name: str) -> None:
    nest = NESTS[name]
    assert not any(loop.kind == "vectorize" for loop in benchmark.sl.lower(nest.schedule).loops)
    kernel = benchmark.sl.build(nest.schedule, nest.args, target="python")
    arrays = benchmark.arrays_of(nest)
    benchmark.poison(nest, arrays)
    with np.errstate(all="ignore"):
        kernel(*arrays)
    assert benchmark.right(nest, arrays)


def test_the_vectorization_report_of_gcc_is_read_by_loop() -> None:
    source = """void a(float *x)
{
    for (int i = 0; i < 9; i++)
        for (int j = 0; j < 9; j++)
            x[j] += 1;
}

void b(float *x)
{
    for (int i = 0; i < 9; i++)
        x[i] = 0;
}

void c(float *x)
{
    x[0] = 1;
}
"""
    said = "scalar_nests.c:%d:27: optimized: loop vectorized using 32 byte vectors\n"
    inner = gcc_loops.vectorized(source, said % 4 + said % 10)
    assert inner == {"a": "innermost", "b": "innermost", "c": "none"}
    outer = gcc_loops.vectorized(source, said % 3 + said % 4)
    assert outer == {"a": "outer", "b": "none", "c": "none"}


def test_rows_with_a_goal_are_separate() -> None:
    def row(work: str, who: str, seconds: float, kind: str) -> harness.Row:
        case = harness.Case(work, who, lambda: lambda: None, facts={"gcc": kind})
        return harness.Row(case, seconds, 0.0, True)

    rows: list[Any] = []
    found = (("x", 1.0, "innermost"), ("y", 4.0, "innermost"), ("z", 9.0, "outer"))
    for work, seconds, kind in found:
        rows += [row(work, benchmark.PEER, 2.0, kind), row(work, benchmark.OURS, seconds, kind)]
    lines = benchmark.summary(rows).splitlines()
    assert lines[0].startswith("gcc vectorizes the innermost loop: 1.000 of gcc")
    assert lines[1] == "below 0.95: y (0.50)"
    assert lines[2].startswith("an outer loop: 0.222 of gcc")


def test_the_command_times_one_nest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if reason := gcc_loops.missing():
        pytest.skip(reason)
    monkeypatch.setattr(harness, "LEAST", 0.0)
    run = benchmark.Run(tmp_path)
    cases = [c for c in run.cases() if c.work == "column_sum"]
    measured = list(harness.measure(cases, 3))
    assert all(isinstance(r, harness.Row) and r.correct for r in measured)
    assert measured[1].case.facts["compile_seconds"] > 0  # type: ignore[union-attr]
