"""Tests of knobs: values, recorded decisions, refusals."""

from __future__ import annotations

import json
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import schedlang as sl
from schedlang.autotune.knobs import Knobs, Rejected, divisors, factorizations
from schedlang.errors import TuningError


@given(st.integers(1, 3000), st.integers(2, 4), st.integers(0, 99))
def test_a_split_has_the_extent_as_its_product(extent: int, parts: int, seed: int) -> None:
    found = Knobs(rng=Random(seed)).split("s", extent, parts)
    product = 1
    for part in found:
        product *= part
    assert product == extent and len(found) == parts


@given(st.integers(1, 5000))
def test_divisors(whole: int) -> None:
    assert divisors(whole) == tuple(n for n in range(1, whole + 1) if whole % n == 0)


def test_every_factorization_is_drawn() -> None:
    rng = Random(0)
    found = {Knobs(rng=rng).split("s", 12, 3) for _ in range(500)}
    assert found == set(factorizations(12, 3)) and len(found) == 18


def test_numpy_numbers_become_plain_decisions() -> None:
    knobs = Knobs()
    assert knobs.split("rows", np.int64(8), np.int32(2), np.uint8(4))[1] <= 4
    assert knobs.choice("lanes", list(np.array([8, 16]))) == 8
    knobs.choice("scale", [np.float32(0.5)])
    assert json.loads(json.dumps(knobs.decisions)) == knobs.decisions
    for most in ("x", 0, 2.5):
        with pytest.raises(TuningError, match=r"most=.*: give an integer, 1 or more"):
            knobs.split("tile", 8, most=most)  # type: ignore[arg-type]


def test_a_split_takes_an_axis() -> None:
    A = sl.placeholder((96,), name="A")
    B = sl.compute((96,), lambda i: A[i] + 1, name="B")
    outer, inner = Knobs(rng=Random(1)).split("i", B.op.axis[0], most=8)
    assert outer * inner == 96 and inner <= 8


def test_decisions_round_trip_as_json() -> None:
    def ask(knobs: Knobs) -> tuple[object, ...]:
        return (
            knobs.split("rows", 64, 3), knobs.choice("lanes", [8, 16, None, "auto", (1, 2)]),
            knobs.permutation("order", ["i", "j", "k"]),
        )  # fmt: skip

    rng = Random(5)
    for _ in range(50):
        first = Knobs(rng=rng)
        answers = ask(first)
        again = Knobs(json.loads(json.dumps(first.decisions)))
        assert ask(again) == answers and again.decisions == first.decisions


def test_a_decision_that_is_no_longer_an_option_is_drawn_again() -> None:
    knobs = Knobs({"lanes": 64, "order": [0, 0, 1]}, Random(0))
    assert knobs.choice("lanes", [8, 16]) in (8, 16)
    assert sorted(knobs.permutation("order", "abc")) == ["a", "b", "c"]


def test_without_a_generator_the_first_option_is_taken() -> None:
    knobs = Knobs()
    assert knobs.choice("a", [3, 1]) == 3 and knobs.permutation("p", "xy") == ("x", "y")


def test_require() -> None:
    knobs = Knobs({"rows": [8, 4], "lanes": 16})
    _, rows = knobs.split("rows", 32)
    knobs.choice("lanes", [16])
    knobs.require(rows == 4)
    knobs.require(lambda rows, lanes: rows[1] * lanes == 64)
    with pytest.raises(Rejected, match="too wide"):
        knobs.require(lambda lanes: lanes < 16, "too wide")
    with pytest.raises(TuningError, match="'depth', which is not a knob .* are rows, lanes"):
        knobs.require(lambda depth: depth > 1)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda k: k.choice("a", []), "give at least one option"),
        (lambda k: k.choice("a", [object()]), "an option must be a number, a string"),
        (lambda k: k.choice("a", [np.float32("inf")]), "inf cannot be stored"),
        (lambda k: k.choice("", [1]), "the name of a knob must be a non-empty string"),
        (lambda k: (k.choice("a", [1]), k.choice("a", [1])), "'a' is asked for twice"),
        (lambda k: k.split("a", 0), "give an extent of 1 or more"),
        (lambda k: k.split("a", 8, parts=1), "give 2 parts or more"),
        (lambda k: k.split("a", 8, most=0), "give an integer, 1 or more"),
    ],
)
def test_refusals(ask: object, message: str) -> None:
    with pytest.raises(TuningError, match=message):
        ask(Knobs())  # type: ignore[operator]
