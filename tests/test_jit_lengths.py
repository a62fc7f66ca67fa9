"""``sl.jit`` with symbolic lengths: one trace for arrays of any length, beside NumPy."""

from __future__ import annotations

import copy
import pickle
import runpy
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import schedlang as sl
from schedlang.compute.data import from_data, to_data
from schedlang.errors import CallError, ComputeError, ComputeTypeError, SchedlangError
from schedlang.expr.nodes import Var
from schedlang.tracing import specialization
from tests.test_array_properties import expression, replayed

RNG = np.random.default_rng(5)


@pytest.fixture(autouse=True)
def without_schedules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take plain schedules: what a trace means does not depend on them, and they take most time."""
    monkeypatch.setattr(specialization, "schedule_for", lambda out, *_: sl.schedule(out))


def arrays(*shapes: Any, dtype: str = "float64") -> list[np.ndarray]:
    return [RNG.random(shape).astype(dtype) for shape in shapes]


def compared(traced: Any, function: Any, given_: list[Any]) -> None:
    """Check results, and arguments that the function writes, beside NumPy."""
    ours = copy.deepcopy(given_)
    found, wanted = traced(*ours), function(*given_)
    assert type(found) is type(wanted)
    found, wanted = ((), ()) if wanted is None else (found, wanted)
    if not isinstance(wanted, tuple):
        found, wanted = (found,), (wanted,)
    for a, b in zip((*found, *ours), (*wanted, *given_)):
        assert np.shape(a) == np.shape(b) and np.asarray(a).dtype == np.asarray(b).dtype
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def scaled(x, y):
    return np.exp(x) * y + x


def test_the_third_length_makes_one_trace_for_all() -> None:
    f = sl.jit(scaled, target="python")
    for count, n in enumerate((5, 7, 5, 11, 13, 2, 64), 1):
        compared(f, scaled, arrays(n, n))
        assert len(f.specializations) == min(count - (count > 2), 3)
    assert f.lengths == "n is any length from 2 on: x.shape[0], y.shape[0]"
    assert "x: float64[n], y: float64[n]" in str(f.schedule)
    # 0 and 1 broadcast, and the first two lengths have traces already
    for n in (0, 1):
        compared(f, scaled, arrays(n, n))
    f(*arrays(5, 5))
    assert f.lengths == ""
    assert len(f.specializations) == 5


def test_every_length_from_the_first_call_on_or_none() -> None:
    always, never = (sl.jit(scaled, target="python", dynamic=d) for d in (True, False))
    for k, n in enumerate((5, 7, 11, 13), 1):
        compared(always, scaled, arrays(n, n))
        compared(never, scaled, arrays(n, n))
        assert len(always.specializations) == 1
        assert len(never.specializations) == k
        assert never.lengths == ""


@pytest.mark.parametrize("given_", ["yes", 1, 0])
def test_another_dynamic_is_refused(given_: Any) -> None:
    with pytest.raises(ComputeTypeError, match=r"dynamic=.*give True for one trace"):
        sl.jit(scaled, dynamic=given_)


def test_only_the_lengths_that_change_are_symbolic() -> None:
    def layer(x, w):
        return np.maximum(x @ w, 0)

    f = sl.jit(layer, target="python")
    for n in (3, 4, 5, 6):
        compared(f, layer, arrays((n, 8), (8, 2)))
    assert f.lengths == "n is any length from 2 on: x.shape[0]"
    for k in (5, 6, 7):
        compared(f, layer, arrays((4, k), (k, 2)))
    assert f.lengths.splitlines() == [
        "n is any length from 2 on: x.shape[0]", "m is any length from 2 on: x.shape[1], w.shape[0]"
    ]  # fmt: skip


def test_lengths_that_are_equal_in_all_calls_are_one() -> None:
    f = sl.jit(lambda a, b: a + b, target="python")
    for n in (3, 4, 5):
        f(*arrays(n, n))
    before = len(f.specializations)
    with pytest.raises(ComputeError, match=r"\(6,\) and \(7,\): .* 6 and 7 are neither equal nor"):
        f(*arrays(6, 7))
    assert len(f.specializations) == before
    # a length of 1 broadcasts
    x, y = arrays(6, 1)
    np.testing.assert_array_equal(f(x, y), x + y)
    assert len(f.specializations) == before + 1


def test_lengths_that_were_equal_by_chance() -> None:
    def outer(x, y):
        return x[:, None] * y

    f = sl.jit(outer, target="python", dynamic=True)
    compared(f, outer, arrays(5, 5))
    assert f.lengths.count("any length") == 1
    for sizes in ((5, 6), (7, 4), (4, 4)):
        compared(f, outer, arrays(*sizes))
    assert len(f.specializations) == 2


def test_an_empty_array_has_a_trace_of_its_own() -> None:
    def total(x, y):
        return np.max(x, initial=-1.0) + np.sum(y) * len(x)

    f = sl.jit(total, target="python")
    for sizes in ((5, 8), (6, 7), (9, 9), (0, 8), (8, 0), (0, 0), (7, 3)):
        compared(f, total, arrays(*sizes))
    assert f.lengths.count("any length") == 2
    assert len(f.specializations) == 6


def needs(x):
    if len(x) % 2:
        return x * 2
    return x[::2]


def needs_as_key(x):
    return x * {5: 2.0, 7: 3.0}.get(len(x), 1.0)


def needs_as_text(x):
    return x * len(f"{x.shape[0]}")


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("function", [needs, needs_as_key, needs_as_text])
def test_a_function_that_needs_the_number(function: Any, dynamic: bool | None) -> None:
    f = sl.jit(function, target="python", dynamic=dynamic)
    for count, n in enumerate((4, 5, 7, 12, 100), 1):
        compared(f, function, arrays(n))
        assert len(f.specializations) == count
    line = function.__code__.co_firstlineno + 1
    assert f.lengths.startswith("x.shape[0] is 100, since a trace needs the number: ")
    assert f" at line {line}, " in f.lengths or f"(test_jit_lengths.py:{line})" in f.lengths


def test_a_function_that_needs_one_number_of_two() -> None:
    def f(x):
        return x.sum() if x.shape[1] == 3 else x[:, 0].sum()

    traced = sl.jit(f, target="python", dynamic=True)
    for shape in ((5, 3), (7, 3), (9, 3), (9, 4), (5, 4)):
        compared(traced, f, arrays(shape))
    assert len(traced.specializations) == 2
    free, fixed = traced.lengths.splitlines()
    assert free == "n is any length from 2 on: x.shape[0]"
    assert "x.shape[1] is 4" in fixed and "the truth value of m == 3" in fixed


def test_an_error_of_the_function_itself_is_raised() -> None:
    @sl.jit(target="python", dynamic=True)
    def wrong(x):
        raise ValueError("no")

    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            wrong(*arrays(5))
    assert not wrong.specializations


def test_an_index_outside_is_refused_where_a_length_is_too_short() -> None:
    f = sl.jit(lambda x: x[3] * 2, target="python", dynamic=True)
    for n in (9, 4, 6):
        (x,) = arrays(n)
        assert f(x) == x[3] * 2
    assert len(f.specializations) == 1
    with pytest.raises(SchedlangError, match="index 0 of x is 3, but the extent there is 3"):
        f(*arrays(3))


# functions of a vector, and of a matrix
def shape_as_numbers(x):
    n = x.shape[0]
    return (x / n + 1.0 / n + float(n)) * n**2, n, x.size - 1, (n + 1) // 2, n / 2


def shape_in_float32(x):
    x = x.astype("float32")
    return x / len(x) + float(len(x)) * x


def lengths_in_tests(x):
    if x.shape[0] > 1 and len(x) != 0 and x.shape == x.shape:
        return x[-1] + x[len(x) - 1] + x[len(x) // 2]
    return x[:0].sum()


def new_arrays(x):
    n = len(x)
    y = np.zeros(n) + np.ones((n,)) * np.arange(n) + np.full(x.shape, 2.0)
    return y, np.eye(n) * x, np.zeros_like(x), np.empty((2, n), like=x).shape, np.arange(1, n)


def slices(x):
    y = x.copy()
    y[1:-1] = (x[:-2] + x[2:]) / 2
    y[::2] += 1
    y[::-3] *= 2
    y[len(x) // 2 :] -= x[len(x) // 2 :]
    y[-1] = 7
    return y, x[max(len(x) - 3, 0) :].sum(), x[-3:][::-1].cumsum()


def writes(x):
    x[1:] *= 0.5
    x -= x.mean()


def maps(x):
    y = np.zeros(len(x))
    for i in range(len(x)):
        y[i] = x[i] * 2 + i
    for i in range(1, len(x) - 1):
        y[i] += x[i - 1] + x[i + 1]
    return y


def reductions(x):
    total, largest = 0.0, x[0]
    for i in range(len(x)):
        if x[i] > 0.5:
            total += x[i]
        largest = max(largest, x[i])
    for row in x:
        total += row * row
    return total, largest


def scans(x):
    y = np.zeros_like(x)
    y[0] = x[0]
    for i in range(1, len(x)):
        y[i] = x[i] + 0.5 * y[i - 1]
    s = 0.0
    for i in range(len(x)):
        s = s * 0.5 + y[i]
    return y, s


def on_the_host(x):
    order = np.argsort(x)
    while np.abs(x).max() > 0.01:
        x = x * 0.25
    return np.sort(x)[::-1], order, x[x > 0.005].sum(), np.median(x)


def arrangement(x):
    return np.concatenate([x, x * 2]), np.stack([x, x]), np.roll(x, 3), np.pad(x, 2), np.diff(x)


def spread(x):
    d = x[:, None] - x
    return np.sqrt(d * d).sum(axis=1), x.reshape(-1, 1) * np.ones(3), np.outer(x, x).T.ravel()


def statistics(x):
    return x.mean(), x.std(), x.argmax(), x.min(), np.cumsum(x), (x - x.mean()) / x.var()


def choices(x):
    y = np.where(x > 0.5, x, -x)
    y[x < 0.25] = 0
    return y, np.bincount((x * 4).astype(int), minlength=4), x[np.arange(len(x) - 1, -1, -1)]


def softmax(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def triangle(x):
    total = 0.0
    for i in range(x.shape[0]):
        for j in range(min(i, x.shape[1])):
            total += x[i, j]
    return total


def rows_and_columns(x):
    n, m = x.shape
    y = np.zeros((m, n))
    for i in range(n):
        for j in range(m):
            y[j, i] = x[i, j] + i * m + j
    return y, x @ y, np.einsum("ij,kj->ik", x, x), x[1:, :-1].T, x.sum(axis=0) / n


def jacobi(x):
    for _ in range(8):
        x[1:-1, 1:-1] = (x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]) / 4
    return x[:, ::2]


VECTORS = [shape_as_numbers, shape_in_float32, lengths_in_tests, new_arrays, slices, writes, maps,
           reductions, scans, on_the_host, arrangement, spread, statistics, choices]  # fmt: skip
MATRICES = [softmax, rows_and_columns, jacobi]
TRACED = {f: sl.jit(f, target="python", dynamic=True) for f in (*VECTORS, *MATRICES)}
SETTINGS = {"deadline": None, "suppress_health_check": list(HealthCheck), "derandomize": True}


def one_trace(function: Any, shape: tuple[int, ...]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compared(TRACED[function], function, arrays(shape))
    latest = TRACED[function]._latest
    assert len(latest.sizes) == len({e for e in shape if e > 1}) or len({*shape}) < len(shape)


@pytest.mark.parametrize("function", VECTORS)
@settings(max_examples=6, **SETTINGS)
@given(st.integers(1, 40))
def test_vectors(function: Any, n: int) -> None:
    one_trace(function, (n,))
    # all of them but 1
    assert len(TRACED[function].specializations) <= 2


@pytest.mark.parametrize("function", MATRICES)
@settings(max_examples=5, **SETTINGS)
@given(st.integers(2, 12), st.integers(2, 12))
def test_matrices(function: Any, n: int, m: int) -> None:
    one_trace(function, (n, m))
    # a square, and other shapes
    assert len(TRACED[function].specializations) <= 2


def test_rows_of_a_triangle() -> None:
    f = sl.jit(triangle, target="python")
    for n in (5, 6, 7, 9):
        compared(f, triangle, arrays((n, 4)))
    assert f.lengths == "n is any length from 2 on: x.shape[0]"
    # kernels run the loops where the number of columns is known
    for m in (5, 6, 7):
        compared(f, triangle, arrays((8, m)))
    assert "x.shape[1] is 7, since a trace needs the number: a kernel runs" in f.lengths
    assert "host" not in f.loops


def sums(x, y):
    e = np.exp(x - x.max())
    z = e / e.sum()
    z[1:-1] += y[:-2] * y[2:]
    return z, (x * y).sum()


def test_compiled_kernels_at_all_lengths(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    f = sl.jit(sums, dynamic=True)
    for n in (2, 3, 15, 16, 17, 31, 33, 64, 97, 127, 128, 129, 1000, 4099):
        x, y = arrays(n, n, dtype="float32")
        for found, wanted in zip(f(x, y), sums(x, y)):
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
    assert len(f.specializations) == len(f.kernels) == 1
    assert "vectorize" in str(f.kernels[0].loop_nest)


def test_what_users_do_with_a_kernel(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    f = sl.jit(scaled, target="cpu", dynamic=True)
    x, y = arrays(9, 9)
    wanted = f(x, y)
    kernel = f.kernels[0]
    names = runpy.run_path(str(kernel.save(tmp_path / "scaled.py")))
    np.testing.assert_allclose(names["scaled"](x, y, 9), wanted)
    # the kernel is proven from 2 on
    for call, error in ((names["scaled"], ValueError), (kernel, CallError)):
        with pytest.raises(error, match="n is 1.* must be 2 or more"):
            call(*arrays(1, 1), 1)
    names = {"sl": sl, "add": f.schedule.outputs[0]}
    exec(f.schedule.as_python(), names)
    assert str(names["s"]) == str(f.schedule) and "vectorize" in str(f.schedule)
    again = pickle.loads(pickle.dumps(kernel))
    np.testing.assert_array_equal(again(*arrays(4, 4), 4).shape, (4,))
    assert "for i" in f.source and f.loops == ""
    # the tensors of a trace have the shapes that are given
    assert sl.trace(f, x, y).shape == (9,)
    X = sl.placeholder((9,), "float64", name="X")
    (g,) = sl.gradient(sl.named("total", sl.trace(f, X, X).sum()), [X])
    np.testing.assert_allclose(sl.reference(g)(x), np.exp(x) * (1 + x) + 1)


def test_options_stay_in_a_pickle() -> None:
    cloudpickle = pytest.importorskip("cloudpickle")
    for dynamic in (None, True, False):
        f = sl.jit(lambda x: x * 2, target="python", dynamic=dynamic)
        own = pickle.loads(cloudpickle.dumps(f))
        assert own._dynamic is dynamic
        for n in (3, 4):
            compared(own, lambda x: x * 2, arrays(n))
        assert len(own.specializations) == 2 - bool(dynamic)


def test_containers_scalars_and_strides() -> None:
    def f(d, k, a, out):
        out[...] = d["x"] * k + d["parts"][0][::-1] * a
        d["sum"] = out.sum()
        return out, len(d["x"])

    traced = sl.jit(f, target="python", dynamic=True)
    for n in (4, 6, 9):
        x, part, out = arrays(n, n, (n, 2))
        ours = {"x": x, "parts": (part,)}
        theirs = dict(ours)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = traced(ours, 3, 0.5 * n, out[:, 0])
        wanted = f(theirs, 3, 0.5 * n, np.empty(n))
        np.testing.assert_allclose(found[0], wanted[0])
        np.testing.assert_allclose(out[:, 0], wanted[0])
        assert found[1] == n and abs(ours["sum"] - theirs["sum"]) < 1e-9
    assert len(traced.specializations) == 1


def test_few_short_ways_are_kept() -> None:
    f = sl.jit(lambda x: x + 1, target="python", dynamic=True, cache_size=2)
    for n in range(2, 60):
        compared(f, lambda x: x + 1, arrays(n))
    assert len(f.specializations) == 1
    assert 2 < len(f._direct) <= 32


def test_the_trace_comes_again_after_it_was_dropped() -> None:
    f = sl.jit(lambda x, k: x + k, target="python", cache_size=1)
    for n in (3, 4, 5, 6):
        compared(f, lambda x, k: x + k, [*arrays(n), 2])
        compared(f, lambda x, k: x + k, [*arrays(n), 3])
    assert len(f.specializations) == 1


def test_a_line_says_so_once(capsys: pytest.CaptureFixture[str]) -> None:
    f = sl.jit(scaled, target="python", progress=True)
    for n in (3, 4, 5, 6, 7):
        f(*arrays(n, n))
    said = [line for line in capsys.readouterr().err.splitlines() if "any" in line]
    assert said == ["scaled under sl.jit: one trace for any x.shape[0] and y.shape[0]"]


def test_the_least_value_of_a_size_is_kept_as_data() -> None:
    f = sl.jit(lambda x: x[1:] * 2, target="python", dynamic=True)
    f(*arrays(5))
    (made,) = from_data(to_data(f.schedule.outputs))
    assert str(made.shape) == "(n - 1,)" and made.op.axis[0].extent.a.least == 2
    kernel = sl.build(sl.schedule(made), target="python")
    assert kernel(*arrays(2)).shape == (1,)
    with pytest.raises(CallError, match="n is 1 in .* must be 2 or more"):
        kernel(*arrays(1))


@pytest.mark.parametrize("bounds", [{}, {"least": 2}, {"most": 4}, {"least": 2, "most": 4}])
def test_the_bounds_of_a_size_are_checked_and_kept_as_data(bounds: dict[str, int]) -> None:
    n = Var("n", **bounds)
    x = sl.placeholder((n,), "float64", name="x")
    doubled = sl.compute((n,), lambda i: x[i] * 2, name="doubled")
    (copied,) = from_data(to_data([doubled]))
    assert [getattr(copied.shape[0], b) for b in ("least", "most")] == [n.least, n.most]
    kernel = sl.build(sl.schedule(copied), target="python")
    for length in (1, 2, 4, 5):
        (given,) = arrays(length)
        fits = n.least <= length and (n.most is None or length <= n.most)
        rule = f"n must be {n.least} or more" if length < n.least else f"n must be {n.most} or less"
        # the second call may take the fast path
        for f in (sl.reference(copied), kernel, kernel):
            if fits:
                assert np.array_equal(f(given), given * 2)
                continue
            with pytest.raises(CallError, match=f"n is {length}.*, but {rule}"):
                f(given)


RESIZED = [{}, {2: 6, 3: 5, 4: 7}, {2: 5, 3: 2, 4: 3}, {2: 9, 3: 9, 4: 9}]


def random_lengths(data: st.DataObject) -> None:
    """Compare a random expression, traced once, at other lengths, which NumPy may refuse."""
    inputs, found = expression(data.draw)

    def function(*given_: Any) -> Any:
        return replayed(found, inputs, given_)

    traced = sl.jit(function, target="python", dynamic=True)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for lengths in RESIZED:
            own = [
                np.resize(p.array, tuple(lengths.get(e, e) for e in np.shape(p.array)))
                for p in inputs
            ]
            try:
                wanted = np.asarray(function(*own))
            except Exception:
                with pytest.raises(Exception):  # noqa: B017 - NumPy's are of any class
                    traced(*own)
                continue
            got = np.asarray(traced(*own))
            assert got.dtype == wanted.dtype
            np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)


@settings(max_examples=3, **SETTINGS)
@given(st.data())
def test_random_expressions(data: st.DataObject) -> None:
    random_lengths(data)


@pytest.mark.slow
@settings(max_examples=300, **SETTINGS)
@given(st.data())
def test_many_random_expressions(data: st.DataObject) -> None:
    random_lengths(data)
