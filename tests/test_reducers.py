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
    from schedlang.autotune.space import Space
    from schedlang.autotune.tactics.facts import Problem

    C = best(argmax(), 64)
    target = sl.Target("cpu")
    space = Space(Problem(tuple(C), target))
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


def last(identity: float) -> Callable[..., Any]:
    """Return an argmax that picks the last of equal values, even if it is the identity."""

    def combine(x: Any, y: Any) -> Any:
        return tuple(sl.select(x[1] > y[1], p, q) for p, q in zip(x, y))

    return sl.comm_reducer(combine, lambda t, u: (-1, identity), "last")


def over(reducer: Any, n: Any, dtype: str, masked: bool = True) -> tuple[Any, Any]:
    A, M = sl.placeholder((n,), dtype, name="A"), sl.placeholder((n,), "bool", name="M")
    k = sl.reduce_axis(n, name="k")
    where = M[k] if masked else None
    return sl.compute((), lambda: reducer((k, A[k]), axis=k, where=where), name="L"), k


TIED = [("uint8", 0), ("int8", -128), ("float32", -np.inf), ("float32", 0)]


@pytest.mark.parametrize(("dtype", "identity"), TIED)
@pytest.mark.parametrize("mask", [0b0000011, 0b0101100, 0b0000000, 0b1000000])
@pytest.mark.parametrize("first", [True, False])
def test_masked_elements_are_left_out(dtype: str, identity: Any, mask: int, first: bool) -> None:
    """The identity does not take the place of masked elements, with which it may tie."""

    def combine(x: Any, y: Any) -> Any:
        left = x[1] >= y[1] if first else x[1] > y[1]
        return tuple(sl.select(left, p, q) for p, q in zip(x, y))

    C, _ = over(sl.comm_reducer(combine, lambda t, u: (-1, identity), "pick"), 7, dtype)
    a, m = np.full(7, identity, dtype), np.array([mask >> k & 1 for k in range(7)], bool)
    wanted = -1 if first or not mask else np.flatnonzero(m)[-1]
    for f in (sl.reference(list(C)), sl.build(sl.schedule(list(C)), target="python")):
        assert [v.item() for v in f(a, m)] == [wanted, identity]


def _rfactor_outer(C: Any, k: Any, **split: int) -> Any:
    s = sl.schedule(list(C))
    s.rfactor(list(C), s[C[0]].split(k, **split)[0])
    return s


@pytest.mark.parametrize(("dtype", "identity"), TIED)
def test_an_empty_partial_result_that_may_win_warns(dtype: str, identity: Any) -> None:
    C, k = over(last(identity), 7, dtype)
    with pytest.warns(OrderWarning, match=r"(?s)a partial result without elements is the identity "
                                          r"of last.*with the identity \(-1, .*trusted") as caught:
        _rfactor_outer(C, k, factor=4)
    assert len(caught) == 1 and caught[0].filename == __file__
    C, k = over(last(identity), 5, dtype, masked=False)
    with pytest.warns(OrderWarning, match="a partial result without elements"):
        _rfactor_outer(C, k, nparts=4)  # the last part has no elements


@pytest.mark.parametrize("n", [7, 8, None])
def test_partial_results_with_elements_do_not_warn(n: int | None) -> None:
    C, k = over(last(0), sl.var("n") if n is None else n, "uint8", masked=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        s = _rfactor_outer(C, k, factor=4)
    got = sl.build(s, target="python")(np.zeros(n or 5, "uint8"))
    assert got[0] == sl.reference(list(C))(np.zeros(n or 5, "uint8"))[0] == (n or 5) - 1


def test_a_mask_does_not_warn_if_the_first_of_equal_values_wins() -> None:
    def combine(x: Any, y: Any) -> Any:
        return tuple(sl.select(x[1] >= y[1], p, q) for p, q in zip(x, y))

    C, k = over(sl.comm_reducer(combine, lambda t, u: (-1, 0), "first"), 7, "uint8")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        s = _rfactor_outer(C, k, factor=4)
    for a, m in (([0] * 7, [1] * 7), ([0, 2, 0, 0, 2, 0, 0], [1, 1, 0, 0, 1, 0, 0])):
        arrays = np.array(a, "uint8"), np.array(m, bool)
        wanted = 1 if max(a) else -1
        assert sl.build(s, target="python")(*arrays)[0] == wanted
        assert sl.reference(list(C))(*arrays)[0] == wanted


A8 = sl.placeholder((8,), name="A8")


def folded(combine: Any, identity: float, init: float | None = None, **more: Any) -> Any:
    k = sl.reduce_axis(8, name="k")
    reducer = sl.comm_reducer(combine, lambda t: identity, name="m", **more)
    return sl.compute((), lambda: reducer(A8[k], axis=k, init=init), name="R")


def _steps_of_partial_results(C: Any, step: str) -> Any:
    s = sl.schedule(C)
    outer, inner = s[C].split(C.op.reduce_axis[0], 4)
    if step == "bind":
        s[C].bind(inner, "threadIdx.x")
    else:
        s.rfactor(C, {"outer": outer, "inner": inner}[step])
    return s


@pytest.mark.parametrize("step", ["outer", "inner", "bind"])
def test_partial_results_from_an_identity_that_is_not_neutral_warn(step: str) -> None:
    """max with identity 0 is right for values of 0 or more; for others init= tells the steps."""
    C = folded(sl.max, 0.0, -5.0)
    x = np.full(8, -7, "float32")
    assert sl.reference(C)(x) == sl.build(sl.schedule(C), target="python")(x) == -5
    with pytest.warns(OrderWarning, match=r"(?s)which is not neutral.*from init=: -5.0 with .*but "
                                          r"the identity 0.0 with .*samples.*trusted"):
        s = _steps_of_partial_results(C, step)
    if step != "bind":
        assert sl.build(s, target="python")(x) == 0  # as warned
        assert sl.build(s, target="python")(-x) == sl.reference(C)(-x) == 7
    again = from_data(to_data([C]))[0]
    with pytest.warns(OrderWarning, match="which is not neutral"):
        _steps_of_partial_results(again, step)
    with warnings.catch_warnings():
        warnings.simplefilter("error", OrderWarning)
        with pytest.raises(OrderWarning):
            _steps_of_partial_results(C, step)
        for quiet in (folded(sl.max, 0.0, -5.0, trusted=True), folded(sl.max, -np.inf, -5.0),
                      folded(sl.max, 0.0, -5.0, samples=[0, 1, 7.5]), folded(sl.max, 0.0, 5.0),
                      folded(sl.max, 0.0)):  # fmt: skip
            _steps_of_partial_results(quiet, step)


def test_without_init_a_partly_neutral_identity_counts_once() -> None:
    C = folded(sl.max, 0.0)
    for value in (-7, 7):
        x = np.full(8, value, "float32")
        for step in ("outer", "inner"):
            s = _steps_of_partial_results(C, step)
            assert sl.build(s, target="python")(x) == sl.reference(C)(x) == max(value, 0)


@pytest.mark.parametrize("init", [None, 1.0])
@pytest.mark.parametrize(
    ("combine", "identity"),
    [(lambda x, y: x * y, 0.0), (lambda x, y: x + y, np.nan), (lambda x, y: x + y, np.inf),
     (lambda x, y: x + y, -np.inf), (sl.max, np.inf), (sl.min, -np.inf), (sl.max, np.nan)],
)  # fmt: skip
def test_an_identity_that_absorbs_every_element_is_refused(
    combine: Any, identity: float, init: float | None
) -> None:
    with pytest.raises(ComputeError, match="fidentity is not a neutral element of fcombine"):
        folded(combine, identity, init)
    folded(combine, identity, init, trusted=True)


def test_an_identity_that_absorbs_a_part_is_refused() -> None:
    def combine(x: Any, y: Any) -> Any:
        return x[0] + y[0], x[1] * y[1]

    both = sl.comm_reducer(combine, lambda t, u: (0, 0), "both")
    k = sl.reduce_axis(8, name="k")
    with pytest.raises(ComputeError, match="fidentity is not a neutral element of fcombine"):
        sl.compute((), lambda: both((A8[k], A8[k]), axis=k), name="P")


def test_raw_elements_combine_as_states_do() -> None:
    """x + abs(y) is a sum on its states, which are never negative, but not on elements."""
    with pytest.raises(ComputeError, match="fcombine is not associative"):
        folded(lambda x, y: x + sl.abs(y), 0.0)
    C = folded(lambda x, y: sl.abs(x) + sl.abs(y), 0.0)
    x = np.array([-3, 1, -4, 1, -5, 9, -2, 6], "float32")
    for step in ("outer", "inner"):
        s = _steps_of_partial_results(C, step)
        assert sl.build(s, target="python")(x) == sl.reference(C)(x) == np.abs(x).sum()


def test_combiners_of_pairs_with_a_meaning_are_accepted() -> None:
    """Log-sum-exp pairs (maximum, scaled sum), with init= and an identity of -inf."""

    def combine(x: Any, y: Any) -> Any:
        top = sl.max(x[0], y[0])
        return top, x[1] * sl.exp(x[0] - top) + y[1] * sl.exp(y[0] - top)

    lse = sl.comm_reducer(combine, lambda t, u: (-np.inf, 0), "lse")
    k, one = sl.reduce_axis(8, name="k"), sl.const(1, "float32")
    C = sl.compute((), lambda: lse((A8[k], one), axis=k, init=(A8[0], 1)), name="E")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        s = _rfactor_outer(C, k, factor=4)
    x = np.array([-3, 1, -4, 1, -5, 9, -2, 6], "float32")
    for f in (sl.reference(list(C)), sl.build(s, target="python")):
        top, total = f(x)
        wanted = np.log(np.exp(x.astype("float64")).sum() + np.exp(-3.0))
        np.testing.assert_allclose(top + np.log(total), wanted, rtol=1e-6)
