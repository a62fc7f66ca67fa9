"""Networks of which all that depends on weights alone is computed ahead."""

from __future__ import annotations

import warnings
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import schedlang as sl
from schedlang import topi
from schedlang.compute.graph import placeholders, variables
from schedlang.errors import NetworkError
from schedlang.networks.prepare import Prepared, prepare
from schedlang.targets.build import unwritten_kernel
from tests import networks
from tests.fuzz.compare import expected, scalar
from tests.fuzz.graphs import build, random_graph
from tests.fuzz.inputs import arrays


def names(found: Prepared) -> tuple[list[str], list[str], list[str]]:
    """Return the names of the inputs, of the given and of the computed weights."""
    return tuple([t.name for t in ts] for ts in (found.inputs, found.params, found.computed))  # type: ignore[return-value]


def run(found: Prepared, inputs: dict[sl.Tensor, np.ndarray]) -> Any:
    values = {**inputs, **found.values()}
    oracle = sl.reference(list(found.outputs))
    return oracle(*(values[t] for t in oracle.inputs))


def test_the_largest_stages_of_weights_are_cut_off() -> None:
    X, U, V = (sl.placeholder((3,), name=name) for name in "XUV")
    product = sl.named("product", U * V)
    root = sl.named("root", np.sqrt(product + 1))
    out = sl.compute((3,), lambda i: X[i] * root[i] + V[i], name="out")
    u, v, x = (np.array(a, "float32") for a in ([1, 2, 3], [3, 4, 1], [1, 10, 100]))
    found = prepare(out, {U: u, V: v})
    assert names(found) == (["X"], ["V"], ["root"])
    (made,) = found.outputs
    assert made.name == "out" and str(made.op.body[0]) == "X[i] * root[i] + V[i]"
    np.testing.assert_array_equal(run(found, {X: x}), x * np.sqrt(u * v + 1) + v)


def test_a_stage_that_inputs_and_weights_need_stays() -> None:
    X, U = sl.placeholder((3,), name="X"), sl.placeholder((3,), name="U")
    twice = sl.named("twice", U * 2)
    both = sl.named("both", X + twice)
    found = prepare([sl.named("a", both * twice), both], {U: np.ones(3, "f4")})
    assert names(found) == (["X"], [], ["twice"])
    assert [t.name for t in found.outputs] == ["a", "both"]


def test_an_output_of_weights_alone_is_still_computed() -> None:
    U = sl.placeholder((3,), name="U")
    half = sl.named("half", U / 2)
    root = sl.named("root", np.sqrt(half))
    found = prepare([root, half, U], {U: np.array([2, 8, 18], "f4")})
    assert names(found) == ([], ["U"], [])
    for got, wanted in zip(run(found, {}), ([1, 2, 3], [1, 4, 9], [2, 8, 18])):
        np.testing.assert_array_equal(got, np.array(wanted, "f4"))


def test_copies_into_larger_arrays_stay_and_others_do_not() -> None:
    """A table of positions is computed once; a class token is not repeated for a batch."""
    X, token = sl.placeholder((4, 3), name="X"), sl.placeholder((1, 3), name="token")
    repeated = sl.named("repeated", topi.broadcast_to(token, (4, 3)))
    moved = sl.named("moved", topi.transpose(token))
    angles = sl.compute((4, 3), lambda i, j: sl.sin(sl.cast(i * 3 + j, "float32")), name="angles")
    zeros = sl.named("zeros", topi.full((4, 3), "float32", 0.0))
    out = sl.compute(
        (4, 3), lambda i, j: X[i, j] + repeated[i, j] + moved[j, 0] + angles[i, j] + zeros[i, j],
        name="out",
    )  # fmt: skip
    found = prepare(out, {token: np.array([[1, 2, 3]], "f4")})
    assert names(found) == (["X"], ["token"], ["moved", "angles"])
    x = np.ones((4, 3), "f4")
    wanted = x + np.array([2, 4, 6], "f4") + np.sin(np.arange(12, dtype="f4")).reshape(4, 3)
    np.testing.assert_allclose(run(found, {X: x}), wanted, rtol=1e-6)


def test_several_results_of_a_stage_are_computed_together() -> None:
    X, U = sl.placeholder((2, 4), name="X"), sl.placeholder((2, 4), name="U")
    k = sl.reduce_axis(4, name="k")
    low, high = sl.compute(
        (2,), lambda i: (sl.min(U[i, k], axis=k), sl.max(U[i, k], axis=k)), name="range"
    )
    out = sl.compute((2, 4), lambda i, j: sl.max(sl.min(X[i, j], high[i]), low[i]), name="out")
    u = np.array([[1, 5, 2, 3], [0, -1, 4, 2]], "f4")
    found = prepare(out, {U: u})
    assert names(found)[2] == ["range.v0", "range.v1"]
    x = np.arange(-2, 6, dtype="f4").reshape(2, 4)
    np.testing.assert_array_equal(run(found, {X: x}), x.clip(u.min(1)[:, None], u.max(1)[:, None]))


def test_a_scan_is_computed_ahead_as_a_whole_or_not_at_all() -> None:
    def running(source: sl.Tensor, name: str) -> Any:
        state = sl.placeholder((5, 3), name=f"{name}_state")
        first = sl.compute((1, 3), lambda t, i: source[0, i], name=f"{name}_first")
        step = sl.compute((5, 3), lambda t, i: state[t - 1, i] + source[t, i], name=f"{name}_step")
        return sl.scan(first, step, state, name=name)

    X, U = sl.placeholder((5, 3), name="X"), sl.placeholder((5, 3), name="U")
    known, not_known = running(U, "known"), running(sl.named("mixed", X * (U + 1)), "open")
    u, x = np.arange(15, dtype="f4").reshape(5, 3), np.full((5, 3), 2, "f4")
    found = prepare(sl.named("out", known + not_known), {U: u})
    assert set(names(found)[2]) == {"known", "add"}
    np.testing.assert_array_equal(run(found, {X: x}), u.cumsum(0) + (x * (u + 1)).cumsum(0))


def test_ranges_that_are_read_from_weights() -> None:
    X = sl.placeholder((6,), name="X")
    indptr = sl.assume(sl.placeholder((4,), "int32", name="indptr"), monotonic=True, within=(0, 6))
    scale = sl.placeholder((3,), name="scale")

    def row(i: Any) -> Any:
        k = sl.reduce_axis((indptr[i], indptr[i + 1]), name="k")
        return sl.sum(X[k], axis=k)

    rows = sl.compute((3,), row, name="rows")
    out = sl.compute((3,), lambda i: rows[i] * (scale[i] * 2), name="out")
    given = {indptr: np.array([0, 2, 2, 6], "i4"), scale: np.array([1, 2, 3], "f4")}
    found = prepare(out, given)
    assert names(found) == (["X"], ["indptr", "scale"], [])
    x = np.arange(6, dtype="f4")
    wanted = np.array([1, 0, 14], "f4") * np.array([2, 4, 6], "f4")
    np.testing.assert_array_equal(run(found, {X: x}), wanted)


def test_a_scatter_of_weights_is_computed_and_one_of_inputs_stays() -> None:
    X, U = sl.placeholder((5,), "int32", name="X"), sl.placeholder((5,), "int32", name="U")
    hists = [sl.scatter((4,), (5,), lambda k, t=t: (t[k], 1), name=f"of_{t.name}") for t in (X, U)]
    out = sl.named("out", hists[0] - hists[1])
    u, x = np.array([0, 0, 3, 1, 3], "i4"), np.array([1, 1, 1, 2, 0], "i4")
    found = prepare(out, {U: u})
    assert names(found) == (["X"], [], ["of_U"])
    wanted = np.bincount(x, minlength=4) - np.bincount(u, minlength=4)
    np.testing.assert_array_equal(run(found, {X: x}), wanted)


def test_symbolic_sizes_and_scalars_are_not_known_ahead() -> None:
    n, alpha = sl.var("n"), sl.var("alpha", "float32")
    X, U = sl.placeholder((n, 3), name="X"), sl.placeholder((3,), name="U")
    scaled = sl.compute((3,), lambda j: U[j] * alpha, name="scaled")
    squared = sl.named("squared", U * U)
    out = sl.compute((n, 3), lambda i, j: X[i, j] * scaled[j] + squared[j], name="out")
    u = np.array([1, 2, 3], "f4")
    found = prepare(out, {U: u})
    assert names(found) == (["X"], ["U"], ["squared"])
    values = {**found.values(), X: np.ones((2, 3), "f4")}
    oracle = sl.reference(found.outputs[0])
    got = oracle(*(values[t] for t in oracle.inputs), alpha=np.float32(2))
    np.testing.assert_array_equal(got, np.ones((2, 3), "f4") * (u * 2) + u * u)


def test_a_weight_of_symbolic_size_is_not_known_ahead() -> None:
    n = sl.var("n")
    X, U = sl.placeholder((n,), name="X"), sl.placeholder((n,), name="U")
    out = sl.named("out", X + sl.named("twice", U * 2))
    found = prepare(out, {U: np.array([1, 2], "f4")})
    assert names(found) == (["X"], ["U"], [])
    np.testing.assert_array_equal(run(found, {X: np.ones(2, "f4")}), [3, 5])


def test_the_weights_keep_their_values_and_any_strides() -> None:
    X, U = sl.placeholder((3,), name="X"), sl.placeholder((3,), name="U")
    backwards = np.array([1, np.nan, np.inf], "f4")[::-1]
    found = prepare(sl.named("out", X * U), {U: backwards})
    (value,) = found.values().values()
    assert value.flags.c_contiguous
    np.testing.assert_array_equal(value, backwards)
    scalar = sl.placeholder((), name="scalar")
    found = prepare(sl.named("out", X * scalar), {scalar: np.float32(3)})
    assert [v.shape for v in found.values().values()] == [()]


def test_much_work_is_done_by_a_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hints for whoever writes a schedule are not shown: nobody wrote this one."""
    targets = []

    def built(s: sl.Schedule, args: Any, target: sl.Target) -> sl.Kernel:
        targets.append(target.kind)
        return unwritten_kernel(s, args, sl.Target("python"))

    monkeypatch.setattr("schedlang.networks.prepare.MOST_FLOPS", 0)
    monkeypatch.setattr("schedlang.networks.prepare.unwritten_kernel", built)
    X, U = sl.placeholder((2, 3), name="X"), sl.placeholder((3, 3), name="U")
    out = topi.nn.dense(X, sl.named("square", topi.nn.matmul(U, U)))
    u = np.arange(9, dtype="f4").reshape(3, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (value,) = prepare(out, {U: u}).values().values()
    np.testing.assert_array_equal(value, u @ u)
    assert targets == ["cpu"]


def test_weights_are_transformed_for_winograd_ahead() -> None:
    X, W = sl.placeholder((1, 2, 8, 8), name="X"), sl.placeholder((3, 2, 3, 3), name="W")
    out = topi.nn.conv2d_winograd_nchw(X, W, 1, 1, 1, tile_size=2)
    w = np.random.default_rng(0).standard_normal((3, 2, 3, 3)).astype("f4")
    found = prepare(out, {W: w})
    assert names(found) == (["X"], [], ["winograd_weight"])
    # F(2, 3): G w G^T, of Lavin and Gray
    g = np.array([[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]], "f4")
    (value,) = found.values().values()
    np.testing.assert_allclose(value, np.einsum("uy,oiyx,vx->uvio", g, w, g), rtol=1e-5, atol=1e-6)


def test_stages_of_one_name_get_names_of_their_own() -> None:
    X, U = sl.placeholder((3,), name="X"), sl.placeholder((3,), name="U")
    first = sl.compute((3,), lambda i: U[i] + 1, name="s")
    second = sl.compute((3,), lambda i: X[i] * first[i], name="s")
    third = sl.compute((3,), lambda i: second[i] + 2, name="s")
    found = prepare(third, {U: np.zeros(3, "f4")})
    assert [t.name for t in found.computed] == ["s"]
    assert found.outputs[0].op.name == "s_2"
    assert [t.op.name for t in found.outputs[0].op.input_tensors] == ["s_1"]


@pytest.mark.parametrize("made", [
    networks.resnet((1, 1)), networks.inverted_residual(), networks.tagger(), networks.mlp(),
], ids=["resnet", "inverted residual", "tagger", "mlp"])  # fmt: skip
def test_a_network_computes_what_it_did(made: Any) -> None:
    out, x, params = made
    found = prepare(out, params)
    rng = np.random.default_rng(3)
    value = rng.integers(0, 9, x.shape) if x.dtype == "int64" else rng.standard_normal(x.shape)
    oracle = sl.reference(out)
    values = {x: value.astype(x.dtype), **params}
    wanted = oracle(*(values[t] for t in oracle.inputs))
    got = run(found, {x: values[x]})
    assert np.abs(got - wanted).max() <= 1e-5 * np.abs(wanted).max()
    again = prepare(list(found.outputs), found.values())
    assert names(again) == (names(found)[0], [*names(found)[1], *names(found)[2]], [])


def check_random(index: int) -> None:
    """Compare a random computation, of which some inputs are weights, with the oracle."""
    rng = Random(f"prepare:{index}")
    g = random_graph(rng, symbolic=0.1, complexes=0.1)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        space = build(g)
        outputs = [space[name] for name in g.outputs]
        values = arrays(g, index, g.sizes)
        wanted = expected(outputs, values, g.sizes)
        scalars = {v.name: scalar(v, g.sizes) for v in variables(outputs)}
        weights = {t: values[t.name] for t in placeholders(outputs) if rng.random() < 0.6}
        found = prepare(outputs, weights, fold=False)
        known = {t: values[t.name] for t in found.inputs} | found.values()
        oracle = sl.reference(list(found.outputs))
        named = {v.name: scalars[v.name] for v in oracle.variables}
        made = oracle(*(known[t] for t in oracle.inputs), **named)
        for got, old in zip(made if isinstance(made, tuple) else (made,), outputs):
            want = wanted[old.name]
            if old.dtype == "bfloat16":
                got, want = got.astype("f4"), want.astype("f4")
            np.testing.assert_array_equal(got, want)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6))
def test_random_computations(index: int) -> None:
    check_random(index)


@pytest.mark.slow
def test_many_random_computations() -> None:
    for index in range(400):
        check_random(index)


def test_refusals() -> None:
    X, U = sl.placeholder((3,), name="X"), sl.placeholder((3,), name="U")
    out = sl.named("out", X + U)
    with pytest.raises(NetworkError, match=r"the weight U: float32\[3\]: its array is float64 of "
                       r"shape \(3,\)\n  Give an array of the dtype and shape"):  # fmt: skip
        prepare(out, {U: np.ones(3)})
    with pytest.raises(NetworkError, match=r"float32 of shape \(2, 3\)"):
        prepare(out, {U: np.ones((2, 3), "f4")})
    with pytest.raises(NetworkError, match="params with out: out is not a placeholder"):
        prepare(out, {out: np.ones(3, "f4")})
    with pytest.raises(NetworkError, match="params with 'U': 'U' is not a placeholder"):
        prepare(out, {"U": np.ones(3, "f4")})  # type: ignore[dict-item]
    with pytest.raises(sl.errors.CallTypeError, match="the array of weight U is of type list"):
        prepare(out, {U: [1, 2, 3]})


def test_a_large_product_of_weights_is_computed_on_the_cpu_whatever_the_target(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("schedlang.networks.prepare.MOST_FLOPS", 0)
    a, b = (sl.placeholder((8, 8), name=name) for name in "ab")
    x = sl.placeholder((8,), name="x")
    values = {t: np.random.default_rng(0).random((8, 8), "float32") for t in (a, b)}
    with sl.Target("cuda", arch="sm_90"):
        (made,) = prepare(x + topi.matmul(a, b), values).values().values()
    np.testing.assert_allclose(made, values[a] @ values[b], rtol=1e-5)
