"""Tests of custom combiners: accepted ones, the order of the fold, warnings."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang import te
from schedlang.compute.data import from_data, to_data
from schedlang.errors import ComputeError, ComputeTypeError, OrderWarning, PrecisionWarning


def argmax(first: bool = True, magnitude: bool = False) -> Callable[..., Any]:
    """Return te's usual argmax, which picks the first or the last of equal values."""

    def combine(x: Any, y: Any) -> Any:
        a, b = (sl.abs(x[1]), sl.abs(y[1])) if magnitude else (x[1], y[1])
        left = a >= b if first else a > b
        return sl.select(left, x[0], y[0]), sl.select(left, x[1], y[1])

    return sl.comm_reducer(combine, lambda t0, t1: (-1, 0 if magnitude else -np.inf), "argmax")


def best(reducer: Callable[..., Any], n: int = 40) -> Any:
    X, k = sl.placeholder((n,), name="X"), sl.reduce_axis(n, name="k")
    return sl.compute((1,), lambda i: reducer((sl.cast(k, "int32"), X[k]), axis=k), name="B")


VALUES = np.tile(np.array([1, 5, 3, 5], "float32"), 10)
WANTED = {True: 1, False: 39}


def kept(C: Any) -> list[Any]:
    """Return schedules that keep the order."""
    made = []
    for k in range(5):
        s = sl.schedule(list(C))
        stage, axis = s[C[0]], C[0].op.reduce_axis[0]
        if k:
            outer, inner = stage.split(axis, factor=(8, 7, 16, 8)[k - 1], tail="auto")
        if k == 2:
            stage.unroll(inner)
        if k == 3:
            s.rfactor(list(C), outer)
        if k == 4:
            stage.fuse(outer, inner)
        made.append(s)
    return made


@pytest.mark.parametrize("first", [True, False])
def test_schedules_that_keep_the_order_do_not_warn(first: bool) -> None:
    """The first or the last of equal values wins, as in a plain fold."""
    C = best(argmax(first))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        schedules = kept(C)
    for s in schedules:
        for args in (s, None):
            got = (
                sl.reference(list(C))(VALUES)
                if args is None
                else sl.build(s, target="python")(VALUES)
            )
            assert (got[0][0], got[1][0]) == (WANTED[first], 5)


def _rfactor_inner(s: Any, C: Any) -> Any:
    _, inner = s[C[0]].split(C[0].op.reduce_axis[0], factor=4)
    return lambda: s.rfactor(list(C), inner)


def _reorder(s: Any, C: Any) -> Any:
    outer, inner = s[C[0]].split(C[0].op.reduce_axis[0], factor=4)
    return lambda: s[C[0]].reorder(inner, outer)


def _bind(s: Any, C: Any) -> Any:
    return lambda: s[C[0]].bind(C[0].op.reduce_axis[0], "threadIdx.x")


@pytest.mark.parametrize("magnitude", [False, True])
@pytest.mark.parametrize("prepare", [_rfactor_inner, _reorder, _bind])
def test_the_step_that_loses_the_order_warns(prepare: Any, magnitude: bool) -> None:
    C = best(argmax(magnitude=magnitude), 32)
    s = sl.schedule(list(C))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        step = prepare(s, C)
    with pytest.warns(OrderWarning, match="where values tie the result depends on that "
                                          "order") as caught:
        step()
    assert len(caught) == 1 and caught[0].filename == __file__


def test_a_symbolic_extent_warns_too() -> None:
    n = sl.var("n")
    X = sl.placeholder((n,), name="X")
    k = sl.reduce_axis(n, name="k")
    C = sl.compute((1,), lambda i: argmax()((sl.cast(k, "int32"), X[k]), axis=k), name="B")
    s = sl.schedule(list(C))
    _, inner = s[C[0]].split(k, nparts=2)
    with pytest.warns(OrderWarning, match="rfactor over the outermost loop, k.outer, keeps"):
        s.rfactor(list(C), inner)
    assert len(s.steps) == 2
    s = sl.schedule(list(C))
    outer, _ = s[C[0]].split(k, nparts=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        s.rfactor(list(C), outer)
    got = sl.build(s, target="python")(VALUES)
    assert (got[0][0], got[1][0]) == (1, 5)


@pytest.mark.parametrize("prepare", [_rfactor_inner, _reorder, _bind])
def test_a_warning_that_is_an_error_leaves_the_schedule_unchanged(prepare: Any) -> None:
    C = best(argmax(), 32)
    s = sl.schedule(list(C))
    step = prepare(s, C)
    before = (s.steps, s.state, str(s), s.to_json())
    with warnings.catch_warnings():
        warnings.simplefilter("error", OrderWarning)
        for _ in range(2):
            with pytest.raises(OrderWarning, match="depends on that order"):
                step()
            assert (s.steps, s.state, str(s), s.to_json()) == before
    got = sl.build(s, target="python")(VALUES[:32])
    assert (got[0][0], got[1][0]) == (1, 5)


def test_the_warning_of_float64_is_an_error_each_time() -> None:
    X = sl.placeholder((4,), "uint8", name="X")
    C = sl.compute((4,), lambda i: (X[i] * 0.5).astype("float32"), name="C")
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrecisionWarning)
        for _ in range(2):
            with pytest.raises(PrecisionWarning):
                sl.schedule(C)


def test_reordered_reduction_axes_warn() -> None:
    X = sl.placeholder((6, 4), name="X")
    k, m = sl.reduce_axis(6, name="k"), sl.reduce_axis(4, name="m")
    pick = argmax()
    C = sl.compute((1,), lambda i: pick((sl.cast(k * 4 + m, "int32"), X[k, m]), axis=[k, m]))
    s = sl.schedule(list(C))
    with pytest.warns(OrderWarning, match="reorder on stage compute"):
        s[C[0]].reorder(m, k)


def test_reducers_that_decide_ties_do_not_warn() -> None:
    def combine(x: Any, y: Any) -> Any:
        left = (x[1] > y[1]) | ((x[1] == y[1]) & (x[0] < y[0]))
        return sl.select(left, x[0], y[0]), sl.select(left, x[1], y[1])

    pick = sl.comm_reducer(combine, lambda t0, t1: (2**31 - 1, -np.inf), name="argmax")
    C = best(pick)
    X, k = sl.placeholder((40,), name="X"), sl.reduce_axis(40, name="k")
    D = sl.compute((1,), lambda i: sl.argmax(X[k], axis=k), name="D")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for made in (list(C), [D]):
            s = sl.schedule(made)
            _, inner = s[made[0]].split(made[0].op.reduce_axis[0], factor=4)
            s.rfactor(made if len(made) > 1 else D, inner)
            got = sl.build(s, target="python")(VALUES)
            assert (got[0] if len(made) > 1 else got)[0] == 1


def test_the_tuner_keeps_the_order() -> None:
    """Every candidate picks the first of equal values."""
    from random import Random

    from schedlang.autotune.knobs import Rejected
    from schedlang.autotune.rules.templates import template_for
    from schedlang.autotune.space import Space

    C = best(argmax(), 64)
    target = sl.Target("cpu")
    space = Space(list(C), target, template_for(target, 1))
    rng, found = Random(0), 0
    for _ in range(30):
        try:
            s = space.draw(rng).schedule
        except Rejected:
            continue
        found += 1
        assert sl.build(s, target="python")(np.tile(VALUES[:4], 16))[0][0] == 1
    assert found


def welford(x: Any, y: Any) -> Any:
    n = x[0] + y[0]
    delta = y[1] - x[1]
    part = y[0] / sl.max(n, 1)
    return n, x[1] + delta * part, x[2] + y[2] + delta * delta * x[0] * part


def test_a_combiner_of_structured_states() -> None:
    """Welford's combiner is accepted, though most triples of numbers are not a valid state."""
    X, k = sl.placeholder((3, 50), "float64", name="X"), sl.reduce_axis(50, name="k")
    one, zero = sl.const(1, "float64"), sl.const(0, "float64")
    moments = sl.comm_reducer(welford, lambda *t: (0, 0, 0), name="moments")
    C = sl.compute((3,), lambda i: moments((one, X[i, k], zero), axis=k), name="W")
    s = sl.schedule(list(C))
    _, inner = s[C[0]].split(C[0].op.reduce_axis[0], factor=8)
    s.rfactor(list(C), inner)
    x = np.random.default_rng(0).normal(3, 2, (3, 50))
    n, mean, squares = sl.build(s, target="python")(x)
    np.testing.assert_allclose(mean, x.mean(1))
    np.testing.assert_allclose(squares / n, x.var(1))
    again = from_data(to_data(list(C)))
    np.testing.assert_allclose(sl.reference(list(again))(x)[1], x.mean(1))


def gcd(x: Any, y: Any) -> Any:
    for _ in range(12):
        x, y = sl.select(y == 0, x, y), sl.select(y == 0, 0, x % sl.select(y == 0, 1, y))
    return x


def test_the_options_samples_and_trust() -> None:
    X, k = sl.placeholder((6,), "int32", name="X"), sl.reduce_axis(6, name="k")

    def over(**more: Any) -> Any:
        reducer = sl.comm_reducer(gcd, lambda t: 0, name="gcd", **more)
        return sl.compute((1,), lambda i: reducer(X[k], axis=k), name="G")

    with pytest.raises(
        ComputeError, match=r"(?s)not commutative.*samples=\[\.\.\.\].*trusted=True"
    ):
        over()  # gcd(-2, 3) is 1 or -1
    x = np.array([12, 18, 30, 6, 42, 24], "int32")
    for C in (over(samples=[4, 6, 9, 12, 30]), over(trusted=True)):
        for made in (C, from_data(to_data([C]))[0]):
            assert sl.reference(made)(x)[0] == sl.build(sl.schedule(made), target="python")(x)[0]
            assert sl.reference(made)(x)[0] == np.gcd.reduce(x)
    with pytest.raises(ComputeError, match="not commutative"):
        over(samples=[-2, 3])
    with pytest.raises(ComputeError, match="an element has 1 part"):
        over(samples=[(1, 2)])
    with pytest.raises(ComputeTypeError, match="a list of one element or more"):
        over(samples=7)
    positive = sl.comm_reducer(gcd, lambda t: 0, name="gcd")
    C = sl.compute((1,), lambda i: positive(sl.abs(X[k]), axis=k), name="G")
    assert sl.reference(C)(-x)[0] == 6
    C = sl.compute((1,), lambda i: positive(X[k], axis=k, where=X[k] > 0), name="G")
    assert sl.reference(C)(x)[0] == 6


def test_the_order_of_ties_survives_a_round_trip() -> None:
    for more in ({}, {"samples": [(k, 1.0) for k in range(4)]}):

        def combine(x: Any, y: Any) -> Any:
            return tuple(sl.select(x[1] >= y[1], a, b) for a, b in zip(x, y))

        C = best(sl.comm_reducer(combine, lambda *t: (-1, -np.inf), "argmax", **more))
        again = from_data(to_data(list(C)))
        assert C[0].op.reducer.ties and again[0].op.reducer.ties == C[0].op.reducer.ties


@pytest.mark.parametrize(
    "identity",
    [lambda t: sl.cast(-1, t), lambda t: np.int32(-1), lambda t: -sl.const(1, t),
     lambda t: sl.const(3, t) - 4, lambda t: te.min_value("int8") - te.min_value("int8") - 1],
)  # fmt: skip
def test_identities_are_constant_expressions(identity: Any) -> None:
    X, k = sl.placeholder((5,), "int32", name="X"), sl.reduce_axis(5, name="k")
    every = sl.comm_reducer(lambda x, y: x & y, identity, name="every")
    C = sl.compute((1,), lambda i: every(X[k], axis=k), name="C")
    x = np.array([7, 15, 6, 14, 31], "int32")
    assert sl.build(sl.schedule(C), target="python")(x)[0] == 6 == sl.reference(C)(x)[0]


def test_an_identity_that_does_not_fit_is_refused() -> None:
    X, k = sl.placeholder((5,), "uint8", name="X"), sl.reduce_axis(5, name="k")
    every = sl.comm_reducer(lambda x, y: x & y, lambda t: np.int32(-1), name="every")
    with pytest.raises(ComputeTypeError, match="-1 does not fit uint8"):
        sl.compute((1,), lambda i: every(X[k], axis=k), name="C")
