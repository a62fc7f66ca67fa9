"""NPBench's programs as losses: the sum of their float results, each element times a weight."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from benchmarks.computations.npbench import Program

# the steps of a central difference, relative to the mean of an array
STEPS = (1e-5, 1e-8, 1e-6)
# the arguments that a program compares with others and reads for nothing else, by position: the
# loss jumps there
COMPARED = {"azimint_hist": (1,), "azimint_naive": (1,)}


@dataclass(frozen=True, eq=False)
class Loss:
    """A program with fixed arguments, as a function from its float arrays to one number.

    ``returned`` are the positions of the float arrays that it returns. If it returns none,
    ``changed`` are those of the arguments that it changes. ``results`` has the values under NumPy.
    """

    program: Program
    arguments: tuple[Any, ...]
    returned: tuple[int, ...]
    changed: tuple[int, ...]
    results: tuple[np.ndarray, ...]

    @property
    def arrays(self) -> tuple[int, ...]:
        """The positions of the arrays among the arguments."""
        return tuple(k for k, a in enumerate(self.arguments) if isinstance(a, np.ndarray))

    @property
    def sources(self) -> tuple[int, ...]:
        """The positions of the arrays to differentiate by: arrays of floats, not only compared."""
        compared = COMPARED.get(self.program.name, ())
        return tuple(k for k in self.arrays if _is_float(self.arguments[k]) and k not in compared)

    @cached_property
    def weights(self) -> tuple[np.ndarray, ...]:
        """A weight for each element of each result."""
        rng = np.random.default_rng(1)
        return tuple(rng.normal(size=r.shape).astype(r.dtype) for r in self.results)

    def given(self) -> list[np.ndarray]:
        """Return new copies of the arrays among the arguments."""
        return [self.arguments[k].copy() for k in self.arrays]

    def value(self, arrays: Sequence[Any], weights: Sequence[Any]) -> Any:
        """Return the loss: the sum of the results times the weights.

        ``arrays`` may be NumPy's or a trace's; those that the program changes are changed.
        """
        given = dict(zip(self.arrays, arrays))
        passed = [given.get(k, a) for k, a in enumerate(self.arguments)]
        made = in_a_tuple(self.program.function(*passed))
        results = [*(made[k] for k in self.returned), *(passed[k] for k in self.changed)]
        return sum((r * w).sum() for r, w in zip(results, weights))

    def agrees(self, value: Any, gradients: Sequence[Any]) -> bool:
        """Return whether a value and gradients by the ``sources`` are those of the NumPy program.

        A central difference in float64 along a random direction tells, with the best of some steps.
        """
        rng = np.random.default_rng(3)
        start = {k: self.arguments[k].astype("float64") for k in self.sources}
        along = {k: rng.normal(size=a.shape) * (np.abs(a).mean() or 1.0) for k, a in start.items()}
        slope = sum(float(np.vdot(along[k], g)) for k, g in zip(start, gradients))

        def at(step: float) -> float:
            moved = {k: a + step * along[k] for k, a in start.items()}
            return float(self.value([
                moved[k] if k in moved else self.arguments[k].copy() for k in self.arrays
            ], self.weights))  # fmt: skip

        single = any(r.dtype != np.float64 for r in (*self.results, *self.given()) if _is_float(r))
        tolerance = 1e-3 if single else 1e-6

        def slope_of(step: float) -> float:
            try:
                return (at(step) - at(-step)) / (2 * step)
            except np.linalg.LinAlgError:
                # NumPy refuses a matrix that a step makes indefinite, say
                return np.nan

        slopes = map(slope_of, STEPS)
        # a difference of two losses is no better than their own digits
        noise = 1e-8 * abs(float(value))
        right = any(np.isclose(slope, s, rtol=tolerance, atol=noise) for s in slopes)
        return bool(right and np.isclose(float(value), at(0.0), rtol=tolerance, atol=0))


def loss_of(program: Program, given: Sequence[Any]) -> Loss | None:
    """Return a program with the arguments ``given`` as a loss; ``None`` without float arrays."""
    if not any(_is_float(a) for a in given):
        return None
    passed = _copies(given)
    made = in_a_tuple(program.function(*passed))
    returned = tuple(k for k, a in enumerate(made) if _is_float(a))
    changed = () if returned else _changed(program, given)
    results = [*(made[k] for k in returned), *(passed[k] for k in changed)]
    return Loss(program, tuple(given), returned, changed, tuple(results)) if results else None


def _changed(program: Program, given: Sequence[Any]) -> tuple[int, ...]:
    """Return the positions of the float arguments that a program changes.

    The arguments as ``given`` may be a fixed point, so the program gets others near them.
    """
    rng = np.random.default_rng(2)
    near = [a * rng.uniform(1, 1 + 1e-6, a.shape) if _is_float(a) else a for a in given]
    passed = _copies(near)
    program.function(*passed)
    pairs = enumerate(zip(near, passed))
    return tuple(k for k, (a, b) in pairs if _is_float(a) and not np.array_equal(a, b))


def _copies(given: Sequence[Any]) -> list[Any]:
    return [a.copy() if isinstance(a, np.ndarray) else a for a in given]


def in_a_tuple(returned: Any) -> tuple[Any, ...]:
    """Return what a function returns as a tuple of results."""
    if isinstance(returned, tuple):
        return returned
    return () if returned is None else (returned,)


def _is_float(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.ndim > 0
