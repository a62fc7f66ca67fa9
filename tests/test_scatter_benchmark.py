"""The rows of the benchmark of scatters agree with NumPy."""

from __future__ import annotations

import pytest

from benchmarks.scatter import Case, cases
from tests.marks import slow_but

QUICK = ("histogram, peaked private copies", "embedding gradient columns in threads")


@pytest.mark.parametrize(
    "case", slow_but(QUICK, cases(5000, 60, 20, 200), lambda c: f"{c.work} {c.implementation}")
)
def test_rows_are_right(case: Case) -> None:
    case.prepare()()
    assert case.check is not None and case.check()
