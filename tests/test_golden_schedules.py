"""The nests of the benchmarks' schedules, for AVX2: eight floats a vector, sixteen registers."""

from __future__ import annotations

import pytest

import schedlang as sl
from benchmarks import schedules, works
from tests.conftest import Golden

AVX2 = sl.Target("cpu", vector_bytes=32)


@pytest.mark.parametrize("name", works.ALL)
def test_nest(name: str, golden: Golden) -> None:
    work = works.ALL[name]
    s, args = schedules.of(work)[schedules.MAIN].make(work, AVX2)
    golden(sl.lower(s, args))
