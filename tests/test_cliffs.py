"""The schedules of the cliffs benchmark are right, and only one of them warns."""

from __future__ import annotations

from typing import Any

import pytest

import schedlang as sl
from benchmarks.cliffs import Case, across, by_rows, cases, product, quantized, row_sums
from schedlang.diagnostics.strides import strided_accesses

ROWS = [c for c in cases(256, 32, 1, 36, (50, 60, 9)) if c.implementation != "a search"]


def _slow_after(rows: list[Case], count: int) -> list[Any]:
    """Return the rows; those after the first ``count`` are slow."""
    return [*rows[:count], *(pytest.param(row, marks=pytest.mark.slow) for row in rows[count:])]


@pytest.mark.parametrize(
    "case", _slow_after(ROWS[2:], 5), ids=lambda c: f"{c.work} {c.implementation}"
)
def test_rows_are_right(case: Case) -> None:
    call = case.prepare()
    call()
    assert case.check is not None and case.check()


def test_only_the_row_as_written_warns() -> None:
    target = sl.Target("cpu")
    silent = [
        *(by_rows(row_sums(512), at, target) for at in (0, 1)),
        *(by_rows(quantized(512, form), 1, target) for form in ("//", ">>")),
        across(product(512), 16, target),
    ]
    assert not any(strided_accesses(sl.lower(s), target) for s in silent)
    assert strided_accesses(sl.lower(across(product(512), 1, target)), target)
