"""Programs of NumPy users run as they stand under ``sl.jit``, or are refused."""

from __future__ import annotations

import re
import warnings
from copy import deepcopy
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import SchedlangError
from tests.marks import slow_but
from tests.numpy_programs import chapters, exercises
from tests.numpy_programs.refused import REFUSED

PROGRAMS: dict[Any, Any] = {**exercises.RUNS, **chapters.RUNS}
# each of these takes a second or more
LONG = {"boids", "reaction_and_diffusion", "game_of_life", "smoke", 75, 78, 79, 88, 100}
COMPILED = {"k_nearest", "unique_rows"}


def leaves(value: Any) -> list[Any]:
    if isinstance(value, (tuple, list)):
        return [leaf for part in value for leaf in leaves(part)]
    return [value]


def compared(name: Any, target: str) -> None:
    """Check what a program returns, and its arguments afterwards, beside NumPy."""
    function, arguments = PROGRAMS[name]
    theirs, ours = deepcopy(arguments), deepcopy(arguments)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = [*leaves(function(*theirs)), *theirs]
        found = [*leaves(sl.jit(function, target=target)(*ours)), *ours]
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted):
        assert np.shape(a) == np.shape(b) and np.asarray(a).dtype == np.asarray(b).dtype
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", slow_but({*map(str, {*PROGRAMS} - LONG)}, PROGRAMS))
def test_a_program(name: Any) -> None:
    compared(name, "python")


@pytest.mark.parametrize("name", slow_but(COMPILED, PROGRAMS, lambda n: PROGRAMS[n][0].__name__))
def test_a_compiled_program(name: Any) -> None:
    compared(name, "cpu")


@pytest.mark.parametrize("number", REFUSED)
def test_a_refusal(number: int) -> None:
    function, arguments, words = REFUSED[number]
    with pytest.raises(SchedlangError, match="(?s)" + ".*".join(map(re.escape, words))):
        sl.jit(function, target="python")(*deepcopy(arguments))


def test_four_of_five_run() -> None:
    asked = len({*PROGRAMS, *REFUSED})
    assert not {*PROGRAMS} & {*REFUSED}
    assert len(PROGRAMS) / asked > 0.8
