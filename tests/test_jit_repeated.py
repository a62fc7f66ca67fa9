"""Long loops of traced functions: after a few checked calls, the same arrays come around again."""

from __future__ import annotations

import numpy as np
import pytest

import schedlang as sl
from schedlang.runtime.kernel import Kernel
from schedlang.tracing import recurrence


@pytest.fixture(autouse=True)
def on_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run loops of little work on the host, too."""
    monkeypatch.setattr(recurrence, "MOST_POINTS", -1)


def rotation(x, y, z, scale, steps):
    """Return three carries after ``steps`` changes of places, one of them new in each."""
    return sl.fori_loop(
        -2, steps - 2, lambda i, c: (c[1], c[2], (c[0] * 0.5 + c[1]) * scale + i), (x, y, z)
    )


@pytest.mark.parametrize(
    ("target", "steps"),
    [*(("python", n) for n in (1, 2, 3, 4, 7, 30, 31, 32)), ("cpu", 23), ("c", 23)],
)
def test_carries_that_change_places_in_a_long_loop(target: str, steps: int) -> None:
    given = [np.random.default_rng(k).random((2, 3)) for k in range(3)]
    kept = [a.copy() for a in given]
    f = sl.jit(rotation, static_argnums=(4,), target=target)
    for _ in range(2):
        found = f(*given, 0.75, steps)
        for a, b in zip(found, rotation(*given, 0.75, steps)):
            np.testing.assert_allclose(a, b, rtol=1e-12)
    np.testing.assert_array_equal(given, kept)


def test_an_earlier_result_is_not_written_by_a_later_call() -> None:
    x = np.arange(5.0)
    f = sl.jit(lambda x: sl.fori_loop(0, 9, lambda i, c: c * 2 - i, x), target="python")
    first = f(x)
    kept = first.copy()
    f(x + 1)
    np.testing.assert_array_equal(first, kept)


def test_most_calls_of_a_loop_are_not_checked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    checks, checked = [], Kernel._checked

    def counted(self, args, named):
        checks.append(self.name)
        return checked(self, args, named)

    monkeypatch.setattr(Kernel, "_checked", counted)
    f = sl.jit(
        lambda a, n: sl.fori_loop(0, 50, lambda i, c: c * n + i, a),
        target="python",
    )  # fmt: skip
    np.testing.assert_array_equal(f(np.ones(3), 1), 1 + np.full(3, sum(range(50))))
    assert 0 < len(checks) < 6


def test_a_loop_that_reads_what_it_does_not_change() -> None:
    def f(x, w):
        total = np.zeros_like(x)

        @sl.fori_loop(0, 40)
        def step(t):
            total[:] = total + x * w[t]

        return total

    x, w = np.arange(4.0), np.linspace(-1, 1, 40)
    np.testing.assert_allclose(sl.jit(f, target="python")(x, w), x * w.sum(), atol=1e-12)


@pytest.mark.parametrize("steps", [1, 2, 3, 5])
def test_parts_of_a_carry_that_change_places_stay_the_arrays_that_they_are(steps: int) -> None:
    def f(x, y):
        def body(i, c):
            new = c[0] + c[1]
            return c[1], c[0], c[4], new, new

        found = sl.fori_loop(0, steps, body, (x, y, x * 2, x - y, x + y))
        for k, part in enumerate(found):
            part[k] += 10 * (k + 1)
        return found

    given = [np.arange(5.0), np.arange(5.0) ** 2]
    expected = [a.copy() for a in given]
    for a, b in zip(sl.jit(f, target="python")(*given), f(*expected)):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(given, expected)


def test_an_argument_that_a_loop_passes_on_is_not_overwritten_in_its_memory() -> None:
    def f(x, y, z):
        def body(i):
            y[...] = x
            z[...] = np.cumsum(z)

        sl.fori_loop(0, 3, body)
        x[...] = x * 2

    given = [np.arange(4.0) + k for k in range(3)]
    expected = [a.copy() for a in given]
    sl.jit(f, target="python")(*given)
    f(*expected)
    np.testing.assert_array_equal(given, expected)
