"""Gradients, compared with differences of the result and with numbers worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import schedlang as sl
from tests.gradient_cases import CASES, Case

STEP = 1e-5


def with_head(case: Case) -> tuple[list[sl.Tensor], sl.Tensor]:
    """Return the gradients of a case, and the head that they take."""
    head = sl.placeholder(case.y.shape, case.y.dtype, name="head")
    return sl.gradient(case.y, list(case.xs), head), head


def values(outputs: list[sl.Tensor], arrays: dict[str, Any]) -> tuple[Any, ...]:
    f = sl.reference(outputs)
    found = f(**{t.name: arrays[t.name] for t in f.inputs})
    return found if isinstance(found, tuple) else (found,)


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_the_limits_of_differences(name: str) -> None:
    case = CASES[name]()
    made, _ = with_head(case)
    arrays = case.arrays()
    rng = np.random.default_rng(1)
    head = rng.normal(size=case.y.shape)
    found = values(made, {**arrays, "head": head})
    for x, by in zip(case.xs, found):
        assert by.shape == x.shape and by.dtype == x.dtype
    step = 1e-3 if name == "half_precision_inside" else STEP
    for _ in range(3):
        ways = [rng.normal(size=x.shape) for x in case.xs]
        ends = []
        for sign in (1, -1):
            moved = {x.name: arrays[x.name] + sign * step * w for x, w in zip(case.xs, ways)}
            ends.append(values([case.y], {**arrays, **moved})[0])
        expected = ((ends[0] - ends[1]) * head).sum() / (2 * step)
        got = sum((by * w).sum() for by, w in zip(found, ways))
        np.testing.assert_allclose(got, expected, rtol=1e-3 if step > STEP else 1e-6, atol=1e-7)
