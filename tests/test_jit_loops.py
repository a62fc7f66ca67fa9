"""``sl.fori_loop`` as a scan and on the host: bodies that NumPy runs, in both forms."""

from __future__ import annotations

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import ComputeError
from schedlang.tracing import recurrence
from tests.marks import slow_but
from tests.test_jit import numbers, same

PLACES = np.array([0, 2, 1, 1, 0])


def swapped(x, y, lo, hi):
    return sl.fori_loop(lo, hi, lambda i, c: (c[1], c[0] * 0.5 + c[1]), (x, y))


def rows_by_index(x, y, lo, hi):
    @sl.fori_loop(lo, hi)
    def step(t):
        x[t] = x[t - 1] * 0.5 + y[t]
        y[:, t] += x.sum()

    return x


def kept_carry(x, y, lo, hi):
    def body(i, c):
        high = np.maximum(c["high"], (c["a"] * c["kept"]).sum(axis=0))
        return {"a": c["a"] + i, "high": high, "kept": c["kept"]}

    return sl.fori_loop(lo, hi, body, {"a": x, "high": y[0], "kept": y})


def scalars(x, y, lo, hi):
    total = x.sum()

    def body(i, c):
        return c[0] + c[1].argmax(), np.roll(c[1], 1) * total

    parts = sl.fori_loop(lo, hi, body, (0, y))
    return parts, sl.fori_loop(lo, hi, lambda i, c: c * 2 + i, 1)


def two_arrays(x, y, lo, hi):
    t = np.zeros_like(x)

    @sl.fori_loop(lo, hi)
    def step(i):
        t[1:-1] = (x[:-2] + x[2:]) / 2 + y[0]
        x[...] = t * 0.9
        x[0] = i

    return t, x


def normalized(x, y, lo, hi):
    def body(i, c):
        a, b = c
        mean, spread = a.mean(axis=1, keepdims=True), a.var(axis=1, keepdims=True)
        return (a - mean) / np.sqrt(spread + 1) + b, np.where(a > b, a * 0.5, b)

    return sl.fori_loop(lo, hi, body, (x, y))


def one_value_twice(x, y, lo, hi):
    def body(i, c):
        z = c[0] + c[1] * 0.1
        return z, z, c[2] + z[0, 0]

    return sl.fori_loop(lo, hi, body, (x, y, 1.0))


def nested(x, y, lo, hi):
    total, weights = np.zeros_like(x), np.arange(5.0)

    @sl.fori_loop(0, 3)
    def outer(i):
        @sl.fori_loop(lo, hi)
        def inner(j):
            total[:] = total + y[i] * j + weights

        total[i] = 9

    return total


def complex_numbers(x, y, lo, hi):
    z = (x + 1j * y).astype("complex64")
    return sl.fori_loop(lo, hi, lambda i, c: c * c * 0.1 + z, z)


def gathered(x, y, lo, hi):
    return sl.fori_loop(lo, hi, lambda i, c: (c[PLACES] + i) % 7, x.astype("int32"))


def in_place(x, y, lo, hi):
    def body(i, c):
        c += y * i
        return c

    return sl.fori_loop(lo, hi, body, x)


def winners(x, y, lo, hi):
    def body(i, c):
        least, at = c
        distance = (x * i - y) ** 2
        found, place = distance.min(axis=1), distance.argmin(axis=1)
        return np.where(found < least, found, least), np.where(found < least, place, at)

    return sl.fori_loop(lo, hi, body, (x[0] + 9, np.zeros_like(x[0], "int64")))


def one_after_another(x, y, lo, hi):
    u = np.zeros_like(x)

    @sl.fori_loop(lo, hi)
    def first(t):
        u[...] = u + x

    @sl.fori_loop(lo, hi)
    def second(t):
        x[...] = x * 0.5 + u[t]

    return u * 2


BODIES = {f.__name__: f for f in (
    swapped, rows_by_index, kept_carry, scalars, two_arrays, normalized, one_value_twice, nested,
    complex_numbers, gathered, in_place, winners, one_after_another,
)}  # fmt: skip
# these assign to parts of arrays, which a scan would copy in each iteration
IN_PLACE = ("rows_by_index", "two_arrays", "nested")
# these have no form as a scan
NO_SCAN = {
    "the recurrence cumsum": lambda i, c: np.cumsum(c, axis=0) * 0.3,
    "the scatter assigned": lambda i, c: _added(c, i),
}


def _added(c, i):
    np.add.at(c, PLACES, i)
    return c


def compare(body, lo, hi, target="python"):
    theirs, ours = ([numbers(5, 5), numbers(5, 5, seed=1)] for _ in range(2))
    expected = body(*theirs, lo, hi)
    traced = sl.jit(body, target=target)
    same(traced(*ours, lo, hi), expected, 1e-4)
    same(ours, theirs, 1e-4)
    return traced


@pytest.mark.parametrize("name", slow_but(
    ["swapped", "rows_by_index", "kept_carry", "scalars", "one_value_twice", "winners"],
    list(BODIES),
))  # fmt: skip
def test_bodies_as_scans(name):
    traced = compare(BODIES[name], 1, 4)
    kept = "serial inside the kernel, since " if name in IN_PLACE else "a scan of 3 rows"
    assert f": {kept}" in traced.loops
    if name != "nested":
        assert len(traced.kernels) <= 1 + (name in IN_PLACE)


@pytest.mark.parametrize("name", slow_but(["swapped", "nested"], list(BODIES)))
def test_bodies_on_the_host(name, monkeypatch):
    monkeypatch.setattr(recurrence, "MOST_POINTS", -1)
    traced = compare(BODIES[name], 1, 4)
    assert "scan" not in traced.loops


@pytest.mark.parametrize("ends", [(0, 1), (-3, 2), (2, 2)], ids=str)
@pytest.mark.parametrize("body", [rows_by_index, winners, two_arrays], ids=lambda f: f.__name__)
def test_bounds(body, ends):
    compare(body, *ends)


def test_on_a_gpu_also_much_work_is_a_scan(monkeypatch):
    monkeypatch.setattr(recurrence, "MOST_POINTS", 0)
    assert "a scan of 3 rows" in compare(two_arrays, 1, 4, "cuda-emulator").loops


@pytest.mark.parametrize("reason", NO_SCAN)
def test_bodies_without_a_scan(reason):
    def f(x):
        return sl.fori_loop(0, 3, NO_SCAN[reason], x * 1)

    x = numbers(5, 5)
    traced = sl.jit(f, target="python")
    same(traced(x), f(x), 1e-4)
    assert f"serial inside the kernel, since its body has {reason}" in traced.loops
    with pytest.raises(ComputeError, match=f"(?s)sl.trace.*its body has {reason}.*sl.jit"):
        sl.trace(f, x)


def test_the_form_is_said():
    @sl.jit(target="python")
    def f(x, n):
        y = sl.fori_loop(0, 9, lambda i, c: c * 2, x)
        return sl.fori_loop(0, n, lambda i, c: c @ c, y)

    f(np.eye(2), 3)
    line = f.function.__code__.co_firstlineno + 2
    assert f.loops == (
        f"sl.fori_loop(0, 9) at line {line}: a scan of 9 rows\n"
        f"sl.fori_loop(0, 3) at line {line + 1}: a scan of 3 rows"
    )
    assert f.schedule.as_python() and "for loop.t in 0..9:" in str(f.schedule)
    large = np.eye(70)
    f(large, 2)
    assert f.loops.splitlines()[1].endswith(
        "on the host, since each iteration computes 343,000 elements and terms of sums, more than "
        "262,144"
    )


def test_what_depends_on_the_index_alone_is_read_and_computed_in_bounds():
    def f(x, w):
        return sl.fori_loop(-2, 3, lambda t, c: c + w[t + 2] * 2 + w[:3][t].sum(), x)

    x, w = numbers(3), numbers(5, 3, seed=1)
    traced = sl.jit(f, target="python")
    same(traced(x, w), f(x, w), 1e-5)
    assert "a scan" in traced.loops

    def large(x):
        return sl.fori_loop(0, 100_000, lambda t, c: c * 0.5 + np.exp(x * t), x)

    traced = sl.jit(large, target="python")
    traced.specialized(numbers(100))
    assert traced.loops.endswith(
        "serial inside the kernel, since what depends on its index alone has 20,000,000 elements "
        "in all iterations, more than 4,194,304"
    )


def test_only_two_rows_are_kept():
    f = sl.jit(lambda x: sl.fori_loop(0, 1000, lambda i, c: c * 0.5 + i, x), target="python")
    x = numbers(3)
    same(f(x), f.function(x), 1e-5)
    assert "loop: float32[2, 3]" in str(f.schedule)


def test_a_traced_loop_has_sizes_and_a_gradient():
    n = sl.var("n")

    def f(x, a):
        return sl.fori_loop(0, 4, lambda i, c: np.tanh(a @ c) + i * 0.1, x)

    t = sl.trace(f, sl.placeholder((n,), name="x"), sl.placeholder((n, n), name="a"))
    x, a = numbers(5), numbers(5, 5, seed=1)
    kernel = sl.build(sl.schedule(t), target="python")
    np.testing.assert_allclose(kernel(x=x, a=a), f(x, a), rtol=1e-4)

    X, A = (sl.placeholder(s, "float64", name=m) for s, m in (((5,), "x"), ((5, 5), "a")))
    (adjoint,) = sl.gradient(sl.trace(f, X, A).sum(), [X])
    x, a = x.astype("float64"), a.astype("float64") * 0.2
    steps = np.eye(5) * 1e-6
    differences = [(f(x + d, a).sum() - f(x - d, a).sum()) / 2e-6 for d in steps]
    np.testing.assert_allclose(sl.reference(adjoint)(x=x, a=a), differences, rtol=1e-5, atol=1e-8)


def runs_above(x, limit):
    count, out = 0, np.zeros(len(x), "int64")
    for i, value in enumerate(x, start=0):
        count = count + 1 if value > limit else 0
        out[i] = count
    return out


def side_by_side(x, y):
    out, total = np.zeros(len(y)), 0.0
    for i, (a, b) in enumerate(zip(x, y)):
        out[i] = a - b
        total += a * b
    return out, total


@pytest.mark.parametrize(("function", "arrays"), [
    (runs_above, (np.random.default_rng(0).random(300), 0.3)),
    (side_by_side, (np.random.default_rng(1).random(303), np.random.default_rng(2).random(301))),
])  # fmt: skip
def test_items_with_numbers_and_items_side_by_side(function, arrays):
    """Each becomes one loop: unrolled, it would have too many stages."""
    jitted = sl.jit(function, target="python")
    same(jitted(*arrays), function(*arrays), 1e-6)
    assert "unrolled" not in str(jitted.loops)


def added_in_parts(x, y):
    total, twice = 0.0, 0.0
    for i in range(len(x)):
        total = total - 2
        total = x[i] + (total + i)
        twice += 1
        if x[i] > 1:
            twice += x[i]
        y[0] = y[0] + 3 + x[i]
    return total, twice, y


def test_sums_of_numbers_and_elements():
    """A number that an iteration adds first counts, whatever it adds after it."""
    x, y = np.random.default_rng(3).random(9) * 2, np.zeros(2)
    jitted = sl.jit(added_in_parts, target="python")
    same(jitted(x, y.copy()), added_in_parts(x, y), 1e-6)
    assert "a reduction" in str(jitted.loops)
