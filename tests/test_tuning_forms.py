"""For every form of a read, the tactics make vectorized candidates."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import numpy as np
import pytest

import schedlang as sl
from schedlang.autotune.knobs import Rejected
from schedlang.autotune.space import Space
from schedlang.autotune.tactics.facts import Problem
from tests.cpu_candidates import AVX2, drawn, in_lanes

N = M = 64
Form = Callable[..., sl.Expr]


def placed(shape: tuple[int, ...], dtype: str = "float32") -> sl.Tensor:
    return sl.placeholder(shape, dtype, name="A")


A, WIDE, SCALES = placed((N, M)), placed((N, 2 * M + 8)), placed((N, M // 32))
ROW, TABLE, PLACES = placed((M,)), placed((32,)), placed((M,), "int32")
WHOLE, HALF, BYTES = placed((N, M), "int8"), placed((N, M), "float16"), placed((N, M), "uint8")
PICTURE, FLAT = placed((N, M, 3)), placed((N * M,))


def real(value: sl.Expr) -> sl.Expr:
    return sl.cast(value, "float32")


FORMS: dict[str, Form] = {
    "A[n, k]": lambda n, k: A[n, k],
    "A[n, k + 3]": lambda n, k: WIDE[n, k + 3],
    "A[n, M - 1 - k]": lambda n, k: A[n, M - 1 - k],
    "A[n, 2*k]": lambda n, k: WIDE[n, 2 * k],
    "A[n, 2*k] + A[n, 2*k + 1]": lambda n, k: WIDE[n, 2 * k] + WIDE[n, 2 * k + 1],
    "A[n, k << 1]": lambda n, k: WIDE[n, k << 1],
    "A[n, k, 0] + A[n, k, 2]": lambda n, k: PICTURE[n, k, 0] + PICTURE[n, k, 2],
    "A[k]": lambda n, k: ROW[k],
    "S[n, k // 32]": lambda n, k: SCALES[n, k // 32],
    "A[n, k] * S[n, k // 32]": lambda n, k: A[n, k] * SCALES[n, k // 32],
    "A[n, k] * S[n, k >> 5]": lambda n, k: A[n, k] * SCALES[n, k >> 5],
    "A[n, k] * S[n, k // 3]": lambda n, k: A[n, k] * A[n, k // 3],
    "T[k % 32]": lambda n, k: TABLE[k % 32],
    "A[n, k] * T[k % 32]": lambda n, k: A[n, k] * TABLE[k % 32],
    "A[n, k] * T[k & 31]": lambda n, k: A[n, k] * TABLE[k & 31],
    "A[n, k] * T[k % 5]": lambda n, k: A[n, k] * TABLE[k % 5],
    "A[(n*M + k)]": lambda n, k: FLAT[n * M + k],
    "A[n // 2, k]": lambda n, k: A[n // 2, k],
    "A[(n + k // 32) % N, k]": lambda n, k: A[(n + k // 32) % N, k],
    "A[n, k % 32 * 2 + k // 32]": lambda n, k: A[n, k % 32 * 2 + k // 32],
    "a cast of a read": lambda n, k: real(WHOLE[n, k]) * ROW[k],
    "a cast of a product": lambda n, k: real(WHOLE[n, k] * WHOLE[n, k]) * ROW[k],
    "groups of int8": lambda n, k: real(WHOLE[n, k]) * SCALES[n, k // 32] * ROW[k],
    "halves of a byte": lambda n, k: real((BYTES[n, k // 2] >> real4(k)) & 15) * ROW[k],
    "float16": lambda n, k: real(HALF[n, k]) * ROW[k],
    "A[n, min(k + 1, M - 1)]": lambda n, k: A[n, sl.min(k + 1, M - 1)],
    "A[n, max(k - 1, 0)]": lambda n, k: A[n, sl.max(k - 1, 0)],
    "A[n, min(k, M - 1 - k)]": lambda n, k: A[n, sl.min(k, M - 1 - k)],
    "where a condition holds": lambda n, k: sl.if_then_else(k > 0, A[n, sl.max(k - 1, 0)], 0.0),
    "what is selected": lambda n, k: sl.select(A[n, k] > 0, A[n, k], 0.0),
    "T[G[k]]": lambda n, k: ROW[PLACES[k]],
    "A[n, k] * T[G[k]]": lambda n, k: A[n, k] * ROW[PLACES[k]],
    "A[n, k] * A[k % 32, G[k]]": lambda n, k: A[n, k] * A[k % 32, PLACES[k]],
    "A[n, k] * k": lambda n, k: A[n, k] * real(k),
    "exp(A[n, k])": lambda n, k: sl.exp(A[n, k]),
}


def real4(k: sl.Expr) -> sl.Expr:
    return sl.cast(k % 2 * 4, "uint8")


def vectorized(output: sl.Tensor) -> bool:
    """Return whether one of a few candidates is vectorized."""
    space, rng = Space(Problem((output,), AVX2, 2)), Random(0)
    for _ in range(6):
        try:
            if in_lanes(space.draw(rng)):
                return True
        except Rejected:
            continue
    return False


@pytest.mark.parametrize("form", list(FORMS))
def test_points_in_lanes(form: str) -> None:
    assert vectorized(sl.compute((N, M), FORMS[form], name="P"))


@pytest.mark.parametrize("form", list(FORMS))
def test_steps_in_lanes(form: str) -> None:
    k = sl.reduce_axis(M, name="k")
    assert vectorized(sl.compute((N,), lambda n: sl.sum(FORMS[form](n, k), axis=k), name="R"))


@pytest.mark.parametrize("form", list(FORMS))
def test_results_in_lanes(form: str) -> None:
    k = sl.reduce_axis(N, name="k")
    assert vectorized(sl.compute((M,), lambda n: sl.sum(FORMS[form](k, n), axis=k), name="C"))


@pytest.mark.parametrize("form", list(FORMS))
def test_products_in_lanes(form: str) -> None:
    k, Y = sl.reduce_axis(M, name="k"), sl.placeholder((M, 64), name="Y")
    product = sl.compute((N, 64), lambda n, m: sl.sum(FORMS[form](n, k) * Y[k, m], k), name="C")
    assert vectorized(product)


@pytest.mark.parametrize("form", list(FORMS))
def test_steps_in_lanes_are_right(form: str) -> None:
    k, rng = sl.reduce_axis(M, name="k"), np.random.default_rng(0)
    R = sl.compute((N,), lambda n: sl.sum(FORMS[form](n, k), axis=k), name="R")
    inputs = [
        (rng.random(t.shape) * (M if t is PLACES else 3)).astype(t.dtype)
        for t in R.op.input_tensors
    ]  # fmt: skip
    (candidate,) = drawn(R, 1, given={"R.how": "rows", "R.vectors": 1})
    made = sl.build(candidate.schedule, [*R.op.input_tensors, R], target="python")(*inputs)
    np.testing.assert_allclose(made, sl.reference(R)(*inputs), rtol=1e-5)


def test_scales_in_a_separate_stage() -> None:
    """A stage before the product applies the scales of groups."""
    k = sl.reduce_axis(M, name="k")
    D = sl.compute((N, M), lambda n, m: real(WHOLE[n, m]) * SCALES[n, m // 32], name="D")
    R = sl.compute((N,), lambda n: sl.sum(D[n, k] * ROW[k], axis=k), name="R")
    assert any(in_lanes(c, "R.rf") for c in drawn(R, 12))


def test_lanes_are_no_longer_than_a_group() -> None:
    """No candidate has vectors over two groups, which would gather their scales."""
    k = sl.reduce_axis(M, name="k")
    R = sl.compute((N,), lambda n: sl.sum(A[n, k] * SCALES[n, k // 32], axis=k), name="R")
    lanes = {
        f.extent for c in drawn(R, 16, given={"R.how": "rows"}) for f in c.nest.loops
        if f.kind == "vectorize" and f.stage == "R.rf"
    }  # fmt: skip
    assert lanes and all(32 % n == 0 for n in lanes)


@pytest.mark.parametrize(
    ("index", "of"),
    [
        (lambda k: k >> 2, lambda k: k >> 2),
        (lambda k: k << 1, lambda k: k << 1),
        (lambda k: k & 7, lambda k: k & 7),
        (lambda k: (k - 9 >> 1) + 5, lambda k: (k - 9 >> 1) + 5),
        (lambda k: k - 40 & 15, lambda k: k - 40 & 15),
        (lambda k: k & 5, lambda k: k & 5),
    ],
)
def test_bits_of_an_index(index: Callable[[object], sl.Expr], of: Callable[..., object]) -> None:
    """Shifts and masks of an axis index as in NumPy, also vectorized."""
    B = sl.placeholder((80,), "int32", name="B")
    C = sl.compute((40,), lambda k: B[index(k)], name="C")
    s = sl.schedule(C)
    s[C].vectorize(s[C].split(C.op.axis[0], factor=8)[1])
    b = np.arange(80, dtype="int32") * 7
    np.testing.assert_array_equal(sl.build(s, target="python")(b), b[of(np.arange(40))])
