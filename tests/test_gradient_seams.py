"""Derivatives where the formula of a function changes, beside limits by mpmath."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import mpmath
import numpy as np
import pytest

import schedlang as sl
from schedlang.expr.functions import FUNCTIONS
from schedlang.gradient import functions, stage_sites
from schedlang.language.composed import COMPOSED
from tests.fuzz.gradient_seams import check_seams
from tests.marks import slow_but
from tests.seams import KINKS, OTHERS, UFUNCS, Point, Seam

# how far from a seam its sides are looked at
_SIDE = 1e-3
_SEAMS = {**UFUNCS, **OTHERS}


def total(y: sl.Tensor, name: str) -> sl.Tensor:
    """Return the sum of all elements, a tensor of no dimensions."""
    axes = [sl.reduce_axis(n, name=f"s{k}") for k, n in enumerate(y.shape)]
    return sl.compute((), lambda: sl.sum(y[tuple(axes)], axis=axes), name=name)


def derivatives(
    function: Any, points: list[Point], dtype: str = "float64"
) -> tuple[list[Any], list[list[Any]]]:
    """Return the first and second derivatives of a function of elements, at each of ``points``."""
    columns = [np.array(column, dtype) for column in zip(*points)]
    xs = [sl.placeholder((len(points),), dtype, name=f"x{k}") for k in range(len(columns))]
    first = sl.gradient(total(function(*xs), "loss"), xs)
    second = [sl.gradient(total(by, f"loss{k}"), xs) for k, by in enumerate(first)]
    f = sl.reference([*first, *(t for row in second for t in row)])
    with np.errstate(all="ignore"):
        found = f(**{x.name: column for x, column in zip(xs, columns) if x in f.inputs})
    count = len(xs)
    rest = found[count:]
    return list(found[:count]), [list(rest[k * count : (k + 1) * count]) for k in range(count)]


def around(points: Any) -> Iterator[Point]:
    """Yield each point, and the points on both sides of it along each argument."""
    for point in points:
        yield point
        for k, value in enumerate(point):
            for side in (-_SIDE, _SIDE):
                step = side * (abs(value) if 0 < abs(value) < _SIDE else 1)
                yield (*point[:k], value + step, *point[k + 1 :])


def exact(seam: Seam, point: Point, order: tuple[int, ...]) -> float:
    """Return a partial derivative by mpmath, from differences of 110 digits."""
    with mpmath.workdps(110):
        at = tuple(map(mpmath.mpf, point))
        scale = min((abs(v) for v in at if v), default=mpmath.mpf(1))
        step = mpmath.mpf(10) ** -25 * min(scale, 1)
        return float(_differences(seam.exact, at, order, step))


def _differences(function: Any, at: Any, order: tuple[int, ...], step: Any) -> Any:
    """Return a central difference of ``function``, once for each of ``order`` by its argument."""
    if not any(order):
        return function(*at)
    k = next(k for k, n in enumerate(order) if n)
    rest = (*order[:k], order[k] - 1, *order[k + 1 :])
    ends = [
        _differences(function, (*at[:k], at[k] + s * step, *at[k + 1 :]), rest, step)
        for s in (1, -1)
    ]
    return (ends[0] - ends[1]) / (2 * step)


def unit(count: int, *places: int) -> tuple[int, ...]:
    return tuple(sum(1 for p in places if p == k) for k in range(count))


@pytest.mark.parametrize("name", _SEAMS)
def test_derivatives_at_a_seam_are_those_of_the_function(name: str) -> None:
    seam = _SEAMS[name]
    points = list(around(seam.points))
    first, second = derivatives(seam.ours, points)
    for n, point in enumerate(points):
        for j, by in enumerate(first):
            wanted = exact(seam, point, unit(len(point), j))
            assert by[n] == pytest.approx(wanted, rel=1e-9, abs=1e-12), (name, point, j)
            for k in range(len(point)) if seam.second else ():
                wanted = exact(seam, point, unit(len(point), j, k))
                value = second[j][k][n]
                assert value == pytest.approx(wanted, rel=1e-8, abs=1e-9), (name, point, j, k)


@pytest.mark.parametrize("name", [n for n, seam in _SEAMS.items() if seam.jumps])
def test_derivatives_at_a_jump_are_the_limits_from_both_sides(name: str) -> None:
    seam = _SEAMS[name]
    first, _ = derivatives(seam.ours, list(seam.jumps))
    for n, point in enumerate(seam.jumps):
        sides = [
            exact(seam, (point[0] + side, *point[1:]), unit(len(point), 0))
            for side in (-1e-12, 1e-12)
        ]
        assert sides[0] == pytest.approx(sides[1])
        assert first[0][n] == pytest.approx(sides[0]), (name, point)
        # by the others, it is the limit from one of the sides
        for k in range(1, len(point)):
            ends = [
                exact(seam, (point[0] + side, *point[1:]), unit(len(point), k))
                for side in (-1e-12, 1e-12)
            ]
            assert any(first[k][n] == pytest.approx(end) for end in ends), (name, point, k)


@pytest.mark.parametrize("name", KINKS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_derivatives_at_a_kink_are_those_of_the_documents(name: str, dtype: str) -> None:
    for kink in KINKS[name]:
        first, _ = derivatives(kink.ours, [kink.point], dtype)
        assert [by[0] for by in first] == list(kink.chosen), kink.point


def test_float32_has_the_derivatives_of_float64_at_the_seams() -> None:
    """Some functions have another formula for short floats."""
    for name, seam in _SEAMS.items():
        points = [p for p in seam.points if all(v == 0 or abs(v) > 1e-30 for v in p)]
        first, _ = derivatives(seam.ours, points, "float32")
        for n, point in enumerate(points):
            for j, by in enumerate(first):
                wanted = exact(seam, tuple(map(float, np.float32(point))), unit(len(point), j))
                assert by[n] == pytest.approx(wanted, rel=2e-4, abs=1e-6), (name, point, j)


@pytest.mark.parametrize("first", slow_but(["0"], range(0, 200, 10)))
def test_random_functions_at_their_seams(first: int) -> None:
    wrong = [found for seed in range(first, first + 10) if (found := check_seams(seed))]
    assert not wrong, wrong[0]


def forgotten_support(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(stage_sites, "join", lambda supports, indices: (None, False))


def larger_of_equal_operands(patch: pytest.MonkeyPatch) -> None:
    def logaddexp(a: Any, b: Any) -> Any:
        more = sl.log1p(sl.exp(-sl.abs(a - b)))
        return sl.if_then_else(a >= b, a, b) + more

    patch.setitem(COMPOSED, "logaddexp", logaddexp)


PLANTED = (forgotten_support, larger_of_equal_operands)


@pytest.mark.slow
@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_random_functions_find_planted_errors(
    plant: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    assert any("derivative" in check_seams(seed) for seed in range(200))


def test_every_function_with_a_derivative_has_its_seams_in_the_table() -> None:
    names = {f.ufunc or f.name for f in FUNCTIONS.values()
             if f.name in (*functions.DIFFERENTIABLE, *functions.FLAT, "abs", "min", "max")}
    # signbit is a comparison
    names |= set(COMPOSED) - {"signbit"}
    assert not names - set(_SEAMS) - set(KINKS)
