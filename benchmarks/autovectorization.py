"""Compare nests that no schedule vectorizes with gcc on the same loops in C.

    python -m benchmarks.autovectorization [--only PATTERN] [--json FILE]

Both run warm, on one thread, in turns in one process. Every result is checked against NumPy. gcc's
functions check no arguments, so kernels are called by ``unchecked``, which checks none either.

``of gcc`` is gcc's time over the row's own. ``gcc`` says which loops gcc vectorizes: the innermost
ones, an outer one, or none. Only rows of the first kind have a goal, since choosing another loop
is up to the schedule. Nests are in ``computations/scalar_nests.py``, the C loops in
``peers/scalar_nests.c``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from math import exp, log
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any
from zlib import crc32

import numpy as np

import schedlang as sl
from benchmarks.computations.scalar_nests import SIZES, ScalarNest
from benchmarks.harness import Case, Column, Row, main
from benchmarks.peers import gcc_loops
from benchmarks.peers.gcc_loops import Loops
from benchmarks.works.work import aligned
from schedlang.compute.tensor import PlaceholderOp

OURS, PEER = "schedlang", "gcc -O3"
ROUNDS = 15
GOAL, MEAN = 0.95, 1.0
TOLERANCE = 1e-3


class Run:
    """The nests of one run, and gcc's library of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.missing = gcc_loops.missing()
        self.loops: Loops | None = None

    def library(self) -> Loops:
        if self.loops is None:
            sizes = {make.__name__: own for make, own in SIZES.items()}
            self.loops = gcc_loops.compiled(sizes, self.folder)
        return self.loops

    def cases(self) -> Iterator[Case]:
        for make, sizes in SIZES.items():
            nest = make(**sizes)
            # Both use the same arrays, since the speed of some loops depends on addresses.
            arrays = arrays_of(nest)
            facts: dict[str, Any] = dict(sizes)
            if not self.missing:
                facts["gcc"] = self.library().vectorized[nest.name]
            yield case(nest, arrays, PEER, self.gcc, facts, self.missing)
            yield case(nest, arrays, OURS, ours, facts, "")

    def gcc(
        self, nest: ScalarNest, arrays: list[Any], facts: dict[str, Any]
    ) -> Callable[[], object]:
        return self.library().call(nest.name, arrays)


def ours(nest: ScalarNest, arrays: list[Any], facts: dict[str, Any]) -> Callable[[], object]:
    start = perf_counter()
    kernel = sl.build(nest.schedule, nest.args).compile()
    facts["compile_seconds"] = perf_counter() - start
    flat = [a.reshape(-1) for a in arrays]
    return lambda: kernel.unchecked(*flat)


def case(
    nest: ScalarNest, arrays: list[Any], who: str, prepare: Callable[..., Callable[[], object]],
    facts: dict[str, Any], missing: str,
) -> Case:  # fmt: skip
    """Return a case of one implementation. Its check fills the outputs with NaN and runs again."""
    own = dict(facts)
    calls: list[Callable[[], object]] = []

    def prepared() -> Callable[[], object]:
        calls.append(prepare(nest, arrays, own))
        return calls[0]

    def check() -> bool:
        poison(nest, arrays)
        calls[0]()
        return right(nest, arrays)

    return Case(nest.name, who, prepared, check, missing=missing, facts=own)


def arrays_of(nest: ScalarNest) -> list[Any]:
    """Return the arguments of ``nest``; inputs are the same in every run."""
    rng = np.random.default_rng(crc32(nest.name.encode()))
    made: list[Any] = []
    for tensor in nest.args:
        array = aligned(tuple(int(e) for e in tensor.shape)).view(tensor.dtype)
        if tensor.dtype == "int32":
            array[...] = rng.integers(-9, 9, array.shape)
        else:
            rng.random(out=array, dtype="float32")
        made.append(array)
    return made


def poison(nest: ScalarNest, arrays: Sequence[Any]) -> None:
    """Fill the outputs with NaN, so that the check finds elements that a call leaves unwritten."""
    for tensor, array in zip(nest.args, arrays):
        if not isinstance(tensor.op, PlaceholderOp):
            array.view("float32").fill(np.nan)


def right(nest: ScalarNest, arrays: Sequence[Any]) -> bool:
    """Return True if the last array is NumPy's result, computed in float64 or int64."""
    inputs = [a for t, a in zip(nest.args, arrays) if isinstance(t.op, PlaceholderOp)]
    wide = {"f": "float64", "i": "int64"}
    expected = nest.oracle(*(a.astype(wide[a.dtype.kind]) for a in inputs))
    return bool(np.allclose(arrays[-1], expected, rtol=TOLERANCE, atol=TOLERANCE))


def ratio(row: Row, group: Sequence[Row]) -> float | None:
    """Return gcc's time over the row's own; ``None`` for gcc itself, or without it."""
    peer = [r.seconds for r in group if r.case.implementation == PEER and r.correct]
    return peer[0] / row.seconds if peer and row.case.implementation == OURS else None


def summary(rows: Sequence[Row]) -> str:
    """Return the mean of each kind of row, and the rows below the goal where there is one."""
    found: list[tuple[str, str, float]] = []
    for _, members in groupby(rows, lambda r: r.case.work):
        group = list(members)
        for row in group:
            value = ratio(row, group)
            if value is not None:
                found.append((row.case.work, row.case.facts["gcc"], value))
    lines = []
    for kind, title in (
        ("innermost", "gcc vectorizes the innermost loop"), ("outer", "an outer loop"),
        ("none", "nothing"),
    ):  # fmt: skip
        values = [(name, v) for name, k, v in found if k == kind]
        if values:
            mean = exp(sum(log(v) for _, v in values) / len(values))
            lines.append(f"{title}: {mean:.3f} of gcc (geometric mean of {len(values)} rows)")
        if values and kind == "innermost":
            short = [f"{name} ({v:.2f})" for name, v in values if v < GOAL]
            lines.append(f"below {GOAL}: " + ("; ".join(short) or "none"))
    compiled = [s for r in rows if (s := r.case.facts.get("compile_seconds"))]
    if compiled:
        lines.append(f"compile time: {sum(compiled) / len(compiled):.2f} s per nest (mean)")
    return "\n".join(lines)


def _columns() -> list[Column]:
    def of_gcc(row: Row, group: Sequence[Row]) -> str:
        value = ratio(row, group)
        return "" if value is None else f"{value:.2f}"

    def kind(row: Row, _: Sequence[Row]) -> str:
        return str(row.case.facts.get("gcc", "")) if row.case.implementation == OURS else ""

    return [Column("of gcc", of_gcc), Column("gcc", kind)]


if __name__ == "__main__":
    with TemporaryDirectory() as scratch:
        run = Run(Path(scratch))
        status = main(
            "ScalarNest nests, one thread", run.cases(), _columns(), summary=summary, rounds=ROUNDS
        )
    sys.exit(status)
