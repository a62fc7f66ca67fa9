"""Tests of ``sl.scatter``: what it computes, its data form and text, and what it refuses."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.compute.data import dumps, from_data, loads, structure, to_data
from schedlang.errors import BoundsError, ComputeError, ComputeTypeError

rng = np.random.default_rng(0)
n = sl.var("n")
# the places of ten updates: one element has three, two have none
where_to = np.array([4, 0, 4, 5, 1, 4, 0, 5, 1, 6], "int32")
values = rng.normal(size=10).astype("float32")


def inputs() -> tuple[sl.Tensor, sl.Tensor]:
    return sl.placeholder((n,), "int32", name="P"), sl.placeholder((n,), name="V")


def expected(combine: str, start: Any, dtype: str = "float32") -> np.ndarray:
    """Return the result of the ten updates of eight elements, by a loop of Python."""
    made = np.full(8, start, dtype)
    best: dict[int, float] = {}
    for position, (at, value) in enumerate(zip(where_to, values)):
        old = made[at]
        if combine in ("argmin", "argmax"):
            new = value if combine == "argmax" else -value
            if at not in best or new > best[at]:
                best[at], made[at] = new, position
            continue
        made[at] = {
            "sum": old + value, "prod": old * value, "min": min(old, value), "max": max(old, value),
            "last": value, "any": old or value > 0, "all": old and value > 0,
        }[combine]  # fmt: skip
    return made


KINDS = {
    "sum": (0, "float32"), "prod": (1, "float32"), "min": (np.inf, "float32"),
    "max": (-np.inf, "float32"), "last": (0, "float32"), "argmin": (-1, "int64"),
    "argmax": (-1, "int64"), "any": (False, "bool"), "all": (True, "bool"),
}  # fmt: skip


@pytest.mark.parametrize("combine", KINDS)
def test_every_combiner(combine: str) -> None:
    P, V = inputs()
    truth = combine in ("any", "all")
    D = sl.scatter((8,), (n,), lambda t: (P[t], V[t] > 0 if truth else V[t]), combine, name="D")
    wanted = expected(combine, *KINDS[combine])
    assert D.dtype == wanted.dtype
    np.testing.assert_allclose(sl.reference(D)(where_to, values), wanted, rtol=1e-6)
    for target in ("python", "cpu") if combine in ("sum", "last", "argmax") else ("python",):
        made = sl.build(sl.schedule(D), target=target)(where_to, values)
        np.testing.assert_allclose(made, wanted, rtol=1e-6)
    again = pickle.loads(pickle.dumps(D))
    np.testing.assert_allclose(sl.reference(again)(where_to, values), wanted, rtol=1e-6)
    assert structure(loads(dumps(D))) == structure(D)


def test_functions_name_combiners() -> None:
    P, V = inputs()
    D = sl.scatter((8,), n, lambda t: (P[t], V[t]), sl.max, init=-9, name="D")
    np.testing.assert_allclose(sl.reference(D)(where_to, values), expected("max", -9), rtol=1e-6)


def test_a_reducer_of_tuples() -> None:
    P, V = inputs()
    spread = sl.comm_reducer(
        lambda x, y: (sl.min(x[0], y[0]), sl.max(x[1], y[1])),
        lambda *_: (float("inf"), float("-inf")), name="spread",
    )  # fmt: skip
    low, high = sl.scatter((8,), (n,), lambda t: (P[t], (V[t], V[t])), spread, name="D")
    for made in (
        sl.reference([low, high])(where_to, values),
        sl.build(sl.schedule([low, high]), target="python")(where_to, values),
    ):
        np.testing.assert_array_equal(made[0], expected("min", np.inf))
        np.testing.assert_array_equal(made[1], expected("max", -np.inf))


def test_a_histogram_prints_and_counts() -> None:
    X = sl.placeholder((60,), "uint8", name="X")
    H = sl.scatter((4,), (60,), lambda k: (X[k], 1), name="H")
    assert str(sl.schedule(H)) == (
        "H(X: uint8[60]) -> H: int64[4]\n\n"
        "for i0 in 0..4:\n"
        "  H[i0] = 0\n"
        "for k in 0..60:\n"
        "  H[int64(X[k])] += 1"
    )
    assert H.latex() == r"H_{i_{0}} = \sum_{0 \leq k < 60,\; X_{k} = i_{0}} 1"
    x = rng.integers(0, 4, 60).astype("uint8")
    np.testing.assert_array_equal(sl.reference(H)(x), np.bincount(x, minlength=4))
    # 4 stores of zeros, 60 updates; an update loads its element, and X once
    cost = sl.cost(sl.schedule(H))
    assert (cost.flops, cost.stores, cost.loads) == (60, 64, 120)


def test_the_initial_elements() -> None:
    P, V = inputs()
    B = sl.placeholder((8,), "float64", name="B")
    b = rng.normal(size=8)
    for start in (
        sl.scatter(B, (n,), lambda t: (P[t], V[t]), name="D"),
        sl.scatter((8,), (n,), lambda t: (P[t], V[t]), init=B, name="D"),
        sl.scatter((8,), (n,), lambda t: (P[t], V[t]), init=lambda i: B[i], name="D"),
    ):
        assert start.dtype == "float64"
        wanted = b.copy()
        np.add.at(wanted, where_to, values.astype("float64"))
        np.testing.assert_allclose(sl.reference(start)(where_to, values, b), wanted)
        made = sl.build(sl.schedule(start), target="python")(where_to, values, b)
        np.testing.assert_allclose(made, wanted)


def test_initial_elements_of_two_dimensions() -> None:
    """Elements that depend on one axis are added to in place, not in a copy."""
    D = sl.scatter((3, 4), (5,), lambda k: ((k % 3, k % 4), 10), init=lambda i, j: j, name="D")
    wanted = np.tile(np.arange(4), (3, 1))
    np.add.at(wanted, (np.arange(5) % 3, np.arange(5) % 4), 10)
    np.testing.assert_array_equal(sl.reference(D)(), wanted)


def test_where_and_drop_leave_updates_out() -> None:
    P, V = inputs()
    D = sl.scatter((5,), (n,), lambda t: (P[t] - 1, V[t]), where=lambda t: V[t] > 0, mode="drop",
                   name="D")  # fmt: skip
    wanted = np.zeros(5, "float32")
    kept = (values > 0) & (where_to >= 1) & (where_to < 6)
    np.add.at(wanted, where_to[kept] - 1, values[kept])
    np.testing.assert_allclose(sl.reference(D)(where_to, values), wanted, rtol=1e-6)
    made = sl.build(sl.schedule(D), target="python")(where_to, values)
    np.testing.assert_allclose(made, wanted, rtol=1e-6)


def test_rows_of_an_embedding() -> None:
    """An index that is an axis of the domain is an axis of the result, too."""
    P, G = sl.placeholder((n,), "int32", name="P"), sl.placeholder((n, 3), name="G")
    D = sl.scatter((8, 3), (n, 3), lambda t, j: ((P[t], j), G[t, j]), name="D")
    assert [a.name for a in D.op.axis] == ["i0", "j"]
    assert [a.name for a in D.op.reduce_axis] == ["t"]
    g = rng.normal(size=(10, 3)).astype("float32")
    wanted = np.zeros((8, 3), "float32")
    np.add.at(wanted, where_to, g)
    for run in (sl.reference(D), sl.build(sl.schedule(D), target="python")):
        np.testing.assert_allclose(run(where_to, g), wanted, rtol=1e-6)


def test_the_last_update_of_a_domain_in_order() -> None:
    """Of the updates of one element, the last one in row-major order remains."""
    D = sl.scatter((4,), (3, 5), lambda a, b: ((a * 5 + b) % 4, a * 5 + b), "last", name="D")
    for run in (sl.reference(D), sl.build(sl.schedule(D), target="python")):
        np.testing.assert_array_equal(run(), [12, 13, 14, 11])


def test_places_that_are_the_axes_make_plain_operations() -> None:
    X = sl.placeholder((6, 2), name="X")
    rows = sl.scatter((6,), (6, 2), lambda i, j: (i, X[i, j]), name="rows")
    assert rows.op.destination is None and len(rows.op.reduce_axis) == 1
    copy = sl.scatter((6, 2), (6, 2), lambda i, j: ((i, j), X[i, j]), init=1, name="copy")
    assert copy.op.reducer is None
    x = rng.normal(size=(6, 2)).astype("float32")
    np.testing.assert_allclose(sl.reference(rows)(x), x.sum(1), rtol=1e-6)
    np.testing.assert_allclose(sl.reference(copy)(x), x + 1, rtol=1e-6)


@pytest.mark.parametrize("domain", [(), (0,), (1,)])
def test_domains_of_few_points(domain: tuple[int, ...]) -> None:
    D = sl.scatter((3,), domain, lambda *_: (1, 7), name="D")
    wanted = [0, 0 if domain == (0,) else 7, 0]
    for run in (sl.reference(D), sl.build(sl.schedule(D), target="python")):
        np.testing.assert_array_equal(run(), wanted)


def test_empty_and_scalar_results() -> None:
    P, V = inputs()
    none, one = np.zeros(0, "int32"), np.zeros(0, "float32")
    D = sl.scatter((0,), (n,), lambda t: (P[t], V[t]), mode="drop", name="D")
    assert sl.build(sl.schedule(D), target="python")(where_to, values).shape == (0,)
    assert sl.reference(D)(where_to, values).shape == (0,)
    T = sl.scatter((), (n,), lambda t: ((), V[t]), name="T")
    np.testing.assert_allclose(sl.reference(T)(values), values.sum(), rtol=1e-5)
    E = sl.scatter((n,), (n,), lambda t: (P[t], V[t]), name="E")
    assert sl.build(sl.schedule(E), target="python")(none, one).shape == (0,)


def test_nan_and_narrow_dtypes() -> None:
    P = sl.placeholder((4,), "int8", name="P")
    V = sl.placeholder((4,), "uint8", name="V")
    D = sl.scatter((3,), 4, lambda t: (P[t], V[t]), name="D")
    at, v = np.array([0, 0, 2, 0], "int8"), np.array([200, 100, 3, 5], "uint8")
    for run in (sl.reference(D), sl.build(sl.schedule(D), target="python")):
        np.testing.assert_array_equal(run(at, v), np.array([49, 0, 3], "uint8"))
    F = sl.placeholder((4,), name="F")
    low = sl.scatter((3,), 4, lambda t: (P[t], F[t]), "min", name="low")
    f = np.array([1, np.nan, 2, 0], "float32")
    for run in (sl.reference(low), sl.build(sl.schedule(low), target="python")):
        np.testing.assert_array_equal(run(at, f), np.array([np.nan, np.inf, 2], "float32"))


@pytest.mark.parametrize("place", [-1, 3, 300])
def test_places_outside_of_the_result_raise(place: int) -> None:
    P = sl.placeholder((2,), "int32", name="P")
    D = sl.scatter((3,), 2, lambda t: (P[t], 1), name="D")
    at = np.array([1, place], "int32")
    with pytest.raises(BoundsError, match=rf"D updates D\[int64\(P\[t\]\)\]: index 0 is {place}, "):
        sl.reference(D)(at)
    with pytest.raises(IndexError, match="D"):
        sl.build(sl.schedule(D), target="python")(at)


I0, V0 = sl.placeholder((9,), "int32", name="P"), sl.placeholder((9,), name="V")
k0 = sl.reduce_axis(9, name="k")
rows0 = sl.compute((9,), lambda i: V0[i] + 1, name="rows")


def half(t: Any) -> Any:
    return I0[t] / 2


REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "no pair": (lambda: sl.scatter(4, 9, lambda t: V0[t]), ComputeTypeError,
                r"returns Read, not \(index, value\)"),
    "nothing": (lambda: sl.scatter(4, 9, lambda t: None), ComputeTypeError, "returns None"),
    "too many indices": (lambda: sl.scatter(4, 9, lambda t: ((I0[t], t), 1)), BoundsError,
                         r"an update has 2 indices, but scatter of shape \(4,\) has 1 dimension"),
    "too few indices": (lambda: sl.scatter((4, 4), 9, lambda t: (I0[t], 1)), BoundsError,
                        "an update has 1 index, but scatter of shape"),
    "a float index": (lambda: sl.scatter(4, 9, lambda t: (half(t), 1)), ComputeTypeError,
                      "index 0 of scatter is float64.*divide with //"),
    "a bool index": (lambda: sl.scatter(4, 9, lambda t: (V0[t] > 0, 1)), ComputeTypeError,
                     "index 0 of scatter is bool"),
    "a large constant": (lambda: sl.scatter(4, 9, lambda t: (7, 1)), BoundsError,
                         r"updates scatter\[7\]: index 0 is 7, but scatter of shape \(4,\)"),
    "a constant before the start": (lambda: sl.scatter(4, 9, lambda t: (-5, 1)), BoundsError,
                                    r"index -5 of scatter.*-4\.\.0 from the end"),
    "an axis too long": (lambda: sl.scatter(4, 9, lambda t: (t, 1)), BoundsError,
                         r"takes the values 0\.\.8.*sl\.min\(t, 3\)"),
    "past any size": (lambda: sl.scatter(n, n, lambda t: (t + 1, 1)), BoundsError,
                      "index 0 takes the values 1"),
    "an empty result": (lambda: sl.scatter(0, 9, lambda t: (0, 1)), BoundsError, "extent 0"),
    "a shape from data": (lambda: sl.scatter((I0[0],), 9, lambda t: (0, 1)), ComputeError,
                          "dimension 0 of scatter is P.0.: it depends on data"),
    "a domain from data": (lambda: sl.scatter(4, I0[0], lambda t: (0, 1)), ComputeError,
                           "it depends on data"),
    "another combiner": (lambda: sl.scatter(4, 9, lambda t: (0, 1), "add"), ComputeError,
                         "Did you mean 'sum'"),
    "a function of two": (lambda: sl.scatter(4, 9, lambda t: (0, 1), lambda x, y: x + y),
                          ComputeError, "a reducer made by sl.comm_reducer"),
    "no combiner": (lambda: sl.scatter(4, 9, lambda t: (0, 1), 3), ComputeError,
                    "combine=3: it is not a combiner"),
    "a subtraction": (
        lambda: sl.scatter(4, 9, lambda t: (I0[t], V0[t]),
                           sl.comm_reducer(lambda x, y: x - y, lambda d: 0, name="minus")),
        ComputeError, "minus"),
    "another mode": (lambda: sl.scatter(4, 9, lambda t: (0, 1), mode="clip"), ComputeError,
                     'give mode="drop"'),
    "a reduction as value": (lambda: sl.scatter(4, 9, lambda t: (0, sl.sum(V0[k0], axis=k0))),
                             ComputeError, "a stage of its own"),
    "another axis": (lambda: sl.scatter(4, 9, lambda t: (0, V0[k0])), ComputeError,
                     "reduction axis k outside"),
    "a data axis": (lambda: sl.scatter(4, rows0.op.axis, lambda t: (0, 1)), ComputeError,
                    "i of the domain is a data axis"),
    "an axis twice": (lambda: sl.scatter(4, (k0, k0), lambda a, b: (0, 1)), ComputeError,
                      "k of the domain is given twice"),
    "parameters": (lambda: sl.scatter(4, (3, 3), lambda t: (0, 1)), ComputeError,
                   r"the domain has 2 dimensions, but the function takes 1 \(t\)"),
    "no function": (lambda: sl.scatter(4, 9, (0, 1)), ComputeTypeError, "must be a function"),
    "no domain": (lambda: sl.scatter(4, lambda t: (0, 1), 9), ComputeTypeError,
                  "the domain of the updates must follow"),
    "no shape": (lambda: sl.scatter(lambda t: (0, 1), 9, 4), ComputeTypeError,
                 "the shape of the result must come first"),
    "two starts": (lambda: sl.scatter(V0, 9, lambda t: (0, 1), init=1), ComputeError,
                   "already starts from V"),
    "a start of another shape": (lambda: sl.scatter(4, 9, lambda t: (0, V0[t]), init=V0),
                                 ComputeError, r"init=V has shape \(9,\)"),
    "a start of another rank": (lambda: sl.scatter(4, 9, lambda t: (0, 1), init=lambda i, j: 0),
                                ComputeError, "init= takes 2 axes"),
    "a value of another kind": (lambda: sl.scatter(I0, 9, lambda t: (0, V0[t])), ComputeTypeError,
                                "the value is float32, but init is int32"),
    "a start of argmax": (lambda: sl.scatter(4, 9, lambda t: (0, V0[t]), "argmax", init=0),
                          ComputeError, "argmax takes no init"),
    "a dtype of max": (lambda: sl.scatter(4, 9, lambda t: (0, V0[t]), "max", dtype="float64"),
                       ComputeTypeError, "dtype= is for sum and prod"),
    "a tuple for sum": (lambda: sl.scatter(4, 9, lambda t: (0, (V0[t], 1))), ComputeTypeError,
                        "sum combines single values"),
    "no condition": (lambda: sl.scatter(4, 9, lambda t: (0, 1), where=lambda t: V0[t]),
                     ComputeTypeError, "where= returns float32"),
    "a condition that is no function": (lambda: sl.scatter(4, 9, lambda t: (0, 1), where=True),
                                        ComputeTypeError, "where= must be a function"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    call, kind, message = REFUSED[case]
    with pytest.raises(kind, match=f"(?s){message}"):
        call()


def test_a_scan_takes_no_scatter() -> None:
    S, X = sl.placeholder((5, 4), name="S"), sl.placeholder((5, 4), name="X")
    first = sl.compute((1, 4), lambda t, i: X[0, i], name="first")
    step = sl.scatter((5, 4), (5, 4), lambda t, i: ((t, 3 - i), S[t - 1, i]), name="step")
    with pytest.raises(ComputeError, match="its part step is a scatter"):
        sl.scan(first, step, S, inputs=[X], name="scan")


def test_data_of_a_scatter_is_checked() -> None:
    P, V = inputs()
    data = to_data(sl.scatter((8,), (n,), lambda t: (P[t], V[t]), "last", name="D"))
    item = data["items"][-1]
    assert item[0] == "scatter"
    _, name, axes, places, body, reduced, reducer, where, init, names = item
    for wrong, message in (
        (["scatter", name, axes, [], body, reduced, reducer, where, init, names], "0 indices of"),
        (["scatter", name, axes, body, body, reduced, reducer, where, init, names], "be int64"),
        (["scatter", name, axes, places, body, reduced, None, where, init, names], "needs a red"),
        (["compute", name, axes, body, reduced, reducer, where, init, names], "for scatters alone"),
        (["scatter", name, axes, reduced, axes, reduced, reducer, where, init, names], "."),
    ):
        with pytest.raises(ComputeError, match=message):
            from_data({**data, "items": [*data["items"][:-1], wrong]})
