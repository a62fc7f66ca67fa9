"""Random networks of the fuzzer beside the oracle; ``python -m tests.fuzz.networks`` runs more."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.fuzz.networks import run_case


@pytest.mark.parametrize("index", [pytest.param(k, marks=pytest.mark.slow) for k in range(20)])
def test_a_random_network(index: int) -> None:
    assert run_case("test", index, Counter()) == ""
