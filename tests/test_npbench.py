"""NPBench's programs under ``sl.jit``, at small sizes, compared with NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import schedlang as sl
from benchmarks.computations.npbench import programs
from tests.marks import slow_but

PROGRAMS = {p.name: p for p in programs(quick=True)}
# nbody takes 20 s, the others a second each
LONG = ("nbody", "k3mm", "heat_3d", "hdiff", "mvt", "gemver")


@pytest.mark.parametrize("name", slow_but([n for n in PROGRAMS if n not in LONG], PROGRAMS))
def test_program(name):
    program = PROGRAMS[name]
    given = program.inputs(np.random.default_rng(1))
    theirs = [np.copy(a) if isinstance(a, np.ndarray) else a for a in given]
    expected = program.function(*theirs)
    ours = [np.copy(a) if isinstance(a, np.ndarray) else a for a in given]
    found = sl.jit(program.jitted or program.function, target="python")(*ours)
    for a, b in zip(_tuple(found) + _arrays(ours), _tuple(expected) + _arrays(theirs)):
        assert np.shape(a) == np.shape(b)
        np.testing.assert_allclose(a, b, rtol=1e-4)
    assert len(program.changed) <= 3


def _tuple(value):
    return () if value is None else value if isinstance(value, tuple) else (value,)


def _arrays(values):
    return tuple(v for v in values if isinstance(v, np.ndarray))
