"""Golden loop nests of the benchmarks' schedules for AVX2.

The target has vectors of eight floats, sixteen registers, and a second-level cache of 2 MiB.
"""

from __future__ import annotations

import inspect
import re
from collections import Counter

import pytest

import schedlang as sl
from benchmarks import schedules, works
from schedlang.host import Cache
from schedlang.ir.nodes import Alloc, walk
from tests.conftest import Golden
from tests.marks import slow_but

AVX2 = sl.Target("cpu", vector_bytes=32, caches=(Cache(32 << 10, 8), Cache(2 << 20, 16)))
MADE = re.compile(r"(?:heap|stack)_array\((\d+), float32\)  # (.+)$", re.MULTILINE)


@pytest.mark.parametrize("name", works.TABLE)
def test_nest(name: str, golden: Golden) -> None:
    work = works.TABLE[name]
    s, args = schedules.of(work)[schedules.MAIN].make(work, AVX2)
    golden(sl.lower(s, args))


@pytest.mark.parametrize("name", works.TABLE)
def test_a_schedule_is_at_most_thirty_lines(name: str) -> None:
    """A schedule has at most 30 lines, not counting its computation."""
    make = schedules.of(works.TABLE[name])[schedules.MAIN].make
    lines = inspect.getsource(make).splitlines()
    start = next(n for n, line in enumerate(lines) if "sl.schedule(" in line)
    assert 0 < len(lines) - start <= 30


@pytest.mark.parametrize("name", slow_but([*works.TABLE][::3], works.TABLE))
@pytest.mark.filterwarnings("ignore::schedlang.errors.SpillWarning")
def test_a_kernel_allocates_the_storage_of_its_nest(name: str) -> None:
    work = works.TABLE[name]
    s, args = schedules.of(work)[schedules.MAIN].make(work, AVX2)
    f = sl.build(s, args, target=AVX2)
    said = Counter(
        (stmt.buffer.size, f"{stmt.buffer.name}[{', '.join(map(str, stmt.buffer.shape))}]")
        for stmt, _ in walk(f.loop_nest.body) if isinstance(stmt, Alloc)
    )  # fmt: skip
    assert Counter((int(size), label) for size, label in MADE.findall(f.source)) == said
    # no array of the source is missing above
    assert len(re.findall(r"(?:heap|stack)_array\(", f.source)) == len(MADE.findall(f.source))
