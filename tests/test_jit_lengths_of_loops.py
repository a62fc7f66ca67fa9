"""Loops of ``sl.jit`` whose ranges depend on symbolic lengths: serial inside the kernel.

An iteration copies no array, so that a call takes as many steps as Python's loop.
"""

from __future__ import annotations

import copy
import warnings
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import LoopWarning, SchedlangError
from schedlang.ir.nodes import For, walk
from schedlang.tracing import specialization

RNG = np.random.default_rng(58)


@pytest.fixture(autouse=True)
def without_schedules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take plain schedules: the loops do not depend on them, and they take most time."""
    monkeypatch.setattr(specialization, "schedule_for", lambda out, *_: sl.schedule(out))


def smoothed(x, a):
    y = np.zeros(len(x))
    y[0] = x[0]
    for i in range(1, len(x)):
        y[i] = a * x[i] + (1 - a) * y[i - 1]
    return y


def moving_average(x):
    w = 3
    out = np.empty(len(x) - w + 1)
    total = 0.0
    for i in range(w):
        total += x[i]
    out[0] = total / w
    for i in range(w, len(x)):
        total += x[i] - x[i - w]
        out[i - w + 1] = total / w
    return out


def running_sum(x):
    for i in range(1, len(x)):
        x[i] += x[i - 1]
    return x


def carried_sum(x):
    y = np.zeros(len(x))
    total = 0.0
    for i in range(len(x)):
        total += x[i]
        y[i] = total
    return y


def sum_until(x):
    y = np.zeros(len(x))
    total = 0.0
    for i in range(len(x)):
        total += x[i]
        y[i] = total
        if total > 2:
            break
    return y


def vectors(n: int) -> list[Any]:
    return [RNG.random(n)]


LOOPS: list[tuple[Any, Any]] = [
    (smoothed, lambda n: [RNG.random(n), 0.3]),
    (moving_average, vectors),
    (running_sum, vectors),
    (running_sum, lambda n: [RNG.integers(-9, 9, n).astype("int16")]),
    (carried_sum, vectors),
    (sum_until, vectors),
]


def edit_distance(a, b):
    n, m = len(a), len(b)
    d = np.zeros((n + 1, m + 1), dtype=np.int64)
    for i in range(n + 1):
        d[i, 0] = i
    for j in range(m + 1):
        d[0, j] = j
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            cost = 0 if a[i - 1] == b[j - 1] else 1
            d[i, j] = min(d[i - 1, j] + 1, d[i, j - 1] + 1, d[i - 1, j - 1] + cost)
    return d[n, m]


def longest_common(a, b):
    before = np.zeros(len(b) + 1, dtype=np.int64)
    for i in range(len(a)):
        row = np.zeros(len(b) + 1, dtype=np.int64)
        for j in range(1, len(b) + 1):
            if a[i] == b[j - 1]:
                row[j] = before[j - 1] + 1
            else:
                row[j] = max(before[j], row[j - 1])
        before = row
    return before[-1]


def compared(traced: Any, function: Any, given: list[Any]) -> None:
    """Check what a function returns, and the arguments that it writes, beside Python's loop."""
    ours = copy.deepcopy(given)
    result, wanted = traced(*ours), function(*given)
    for a, b in zip((result, *ours), (wanted, *given)):
        assert np.shape(a) == np.shape(b) and np.asarray(a).dtype == np.asarray(b).dtype
        np.testing.assert_allclose(a, b, rtol=1e-12)


def loops_in_loops(traced: Any) -> list[For]:
    """Return the loops inside of the loop of a serial kernel, which copy or compute arrays."""
    nests = [k.loop_nest.body for k in traced.kernels if k.name.endswith("_loop")]
    assert nests
    outer = [stmt for nest in nests for stmt in nest.stmts if isinstance(stmt, For)]
    return [stmt for loop in outer for stmt, _ in walk(loop.body) if isinstance(stmt, For)]


# the lengths that are traced first do not depend on the loop
@pytest.mark.parametrize(
    ("function", "given", "dynamic"),
    [(*loop, True) for loop in LOOPS] + [(*loop, None) for loop in (LOOPS[1], LOOPS[-1])],
)
def test_a_loop_with_a_carry(function: Any, given: Any, dynamic: bool | None) -> None:
    f = sl.jit(function, target="python", dynamic=dynamic)
    for n in (8, 9, 10, 3, 33):
        compared(f, function, given(n))
        assert ": serial inside the kernel, since " in f.loops.splitlines()[-1]
        assert "scan" not in f.loops and "host" not in f.loops
        assert not loops_in_loops(f)
    assert f.lengths == "n is any length from 2 on: x.shape[0]"
    assert len(f.specializations) == (1 if dynamic else 3)


@pytest.mark.parametrize(("function", "dynamic"), [(edit_distance, None), (longest_common, True)])
def test_a_loop_in_a_loop_over_two_lengths(function: Any, dynamic: bool | None) -> None:
    f = sl.jit(function, target="python", dynamic=dynamic)
    for n, m in ((4, 5), (5, 7), (7, 4), (2, 8), (9, 3)):
        compared(f, function, [RNG.integers(0, 3, n), RNG.integers(0, 3, m)])
        outer, inner = f.loops.splitlines()[-2:]
        assert outer.endswith(": serial inside the kernel, since its body has a serial loop")
        assert ": serial inside the kernel, since " in inner
    assert [line[-10:] for line in f.lengths.splitlines()] == ["a.shape[0]", "b.shape[0]"]
    assert len(f.specializations) == (1 if dynamic else 3)


def test_the_inner_loop_of_an_edit_distance_copies_nothing() -> None:
    f = sl.jit(edit_distance, target="python", dynamic=True)
    compared(f, edit_distance, [RNG.integers(0, 3, 6), RNG.integers(0, 3, 5)])
    # the columns of the copy of d before the loop, and the inner loop
    assert len(loops_in_loops(f)) == 2


def test_storage_that_grows_with_the_index() -> None:
    def products(x):
        y = np.zeros(len(x))
        for i in range(1, len(x)):
            z = y[:i] + x[:i]
            y[i] = (z * z[::-1]).sum() / i + x[i]
        return y

    f = sl.jit(products, target="python", dynamic=True)
    for n in (7, 8, 12):
        compared(f, products, vectors(n))
        assert ": serial inside the kernel, since " in f.loops
    assert len(f.specializations) == 1


def along_a_parabola(x):
    y = x.copy()
    for i in range(1, len(x)):
        y[i] = y[i - 1] + x[4 * i * (len(x) - 1 - i) // len(x)]
    return y


def test_a_loop_in_bounds_at_each_length_alone_has_a_trace_for_each() -> None:
    f = sl.jit(along_a_parabola, target="python")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for count, n in enumerate((6, 7, 8, 20), 1):
            compared(f, along_a_parabola, vectors(n))
            assert len(f.specializations) == count
            assert "serial inside the kernel" in f.loops
    line = along_a_parabola.__code__.co_firstlineno + 2
    assert f.lengths.startswith("x.shape[0] is 20, since a trace needs the number: a kernel runs")
    assert f"at any length, line {line}: on the host, since " in f.lengths


def test_dynamic_warns_where_a_loop_needs_the_number() -> None:
    f = sl.jit(along_a_parabola, target="python", dynamic=True, cache_size=2)
    with pytest.warns(LoopWarning, match=r"dynamic=True has no effect on x\.shape\[0\], since a"):
        compared(f, along_a_parabola, vectors(9))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for n in (6, 7):
            compared(f, along_a_parabola, vectors(n))
            assert "serial inside the kernel" in f.loops
    assert len(f.specializations) == 2


def test_a_read_outside_is_refused() -> None:
    def shifted(x):
        y = np.zeros(len(x))
        for i in range(1, len(x)):
            y[i] = y[i - 1] + x[i + 1]
        return y

    with pytest.raises(IndexError):
        shifted(*vectors(6))
    f = sl.jit(shifted, target="python", dynamic=True)
    with pytest.warns(LoopWarning), pytest.raises(SchedlangError, match="index 0 of x"):
        f(*vectors(6))


@pytest.mark.slow
@pytest.mark.parametrize(("function", "given"), LOOPS)
def test_compiled_loops(function: Any, given: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    f = sl.jit(function)
    for n in (8, 9, 10, 3, 4, 17, 64, 1001):
        compared(f, function, given(n))
    assert f.lengths == "n is any length from 2 on: x.shape[0]"
