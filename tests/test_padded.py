"""Every row of the benchmark of padded stencils agrees with NumPy."""

from __future__ import annotations

import pytest

from benchmarks.padded import Case, cases
from tests.marks import slow_but

QUICK = ("inlined edge", "in parallel reflect", "in tiles wrap", "sliding constant")


@pytest.mark.parametrize(
    "case", slow_but(QUICK, cases(150), lambda c: f"{c.work} {c.implementation}")
)
def test_rows_are_right(case: Case) -> None:
    case.prepare()()
    assert case.check is not None and case.check()
