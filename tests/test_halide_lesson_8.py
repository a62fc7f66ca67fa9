"""Halide's lesson 8, counted: each placement of a stage, number for number.

Source: https://halide-lang.org/tutorials/tutorial_lesson_08_scheduling_2.html. Its table has the
first five; the last two follow from the equivalent C that it shows.
"""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

LESSON = runpy.run_path(str(Path(__file__).parent.parent / "examples" / "11_count_placements.py"))
PLACEMENTS = {p.name: p for p in LESSON["PLACEMENTS"]}

# loads, stores, calls of sin, floats of storage, as the lesson gives them
HALIDE = {
    "inline": (0, 16, 64, 0),
    "compute_root": (64, 41, 25, 25),
    "compute_at y": (64, 56, 40, 10),
    "store_root, compute_at y": (64, 41, 25, 10),
    "store_root, compute_at x": (48, 41, 25, 10),
    # four tiles of 5x5 sines and 4x4 averages
    "4x4 tiles of 8x8": (4 * 4 * 16, 4 * (25 + 16), 4 * 25, 25),
    # 10 strips of 17 rows, each 41 vectors of 4 sines; a ring of two rows of 161
    "strips, vectors, threads": (4 * 160**2, 10 * 17 * 164 + 160**2, 10 * 17 * 164, 2 * 161),
}
# what is not as in the lesson, worked out by hand from the loops that ours has
OURS = {
    # every load counts: 4 of each of 16
    "store_root, compute_at x": {"loads": 64},
    # a row has 161 sines: the last is computed alone
    "strips, vectors, threads": {
        "stores": 10 * 17 * 161 + 160**2, "sines": 10 * 17 * 161,
    },
}  # fmt: skip


@pytest.mark.parametrize("name", PLACEMENTS)
def test_numbers(name: str) -> None:
    _, cost = LESSON["counted"](PLACEMENTS[name])
    wanted = dict(zip(("loads", "stores", "sines", "floats"), HALIDE[name]))
    assert vars(cost) == {**wanted, **OURS.get(name, {})}


@pytest.mark.parametrize("name", PLACEMENTS)
def test_the_lesson_shows_what_differs(name: str) -> None:
    """The example has Halide's numbers, and a reason for each of ours that differs."""
    placement: Any = PLACEMENTS[name]
    assert tuple(vars(placement.halide).values()) == HALIDE[name]
    assert {k: n for k, (n, why) in placement.differs.items() if why} == OURS.get(name, {})
