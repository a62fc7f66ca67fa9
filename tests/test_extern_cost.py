"""What ``sl.cost``, ``sl.explain`` and evaluations know of kernels with functions of users."""

from __future__ import annotations

import pickle
import re
import time
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.contrib import cblas
from schedlang.errors import ComputeError


def product(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
    np.dot(a, b, out)


def total(a: np.ndarray, out: np.ndarray) -> None:
    np.cumsum(a, axis=1, out=out)


def scaled(flops: Any = None) -> tuple[sl.Tensor, tuple[sl.Var, ...]]:
    M, N, K = (sl.var(name) for name in "MNK")
    A, B = sl.placeholder((M, K), name="A"), sl.placeholder((K, N), name="B")
    count = None if flops is None else flops(M, N, K)
    C = sl.extern((M, N), [A, B], product, name="C", flops=count)
    return sl.compute((M, N), lambda i, j: C[i, j] * 2, name="D"), (M, N, K)


def test_what_is_known_around_a_function() -> None:
    D, (M, N, K) = scaled()
    cost = sl.cost(D).at({M: 3, N: 5, K: 7})
    assert (cost.flops, cost.bytes, cost.unknown) == (15, 4 * (21 + 35 + 15), ("product",))
    assert "without the operations of product: sl.extern(..., flops=)" in str(cost)
    nest = sl.cost(sl.schedule(D)).at({M: 3, N: 5, K: 7})
    # the function reads its boxes once, and writes its output; the stage behind it does so, too
    assert (nest.loads, nest.stores, nest.allocated) == (21 + 35 + 15, 30, 60)
    assert (nest.executed, nest.unknown) == (15, ("product",))
    assert nest._repr_latex_().startswith("$$")


def test_the_operations_that_a_user_gives() -> None:
    D, (M, N, K) = scaled(lambda M, N, K: 2 * M * N * K)
    sizes = {M: 3, N: 5, K: 7}
    assert sl.cost(D).at(sizes).flops == 2 * 105 + 15 and sl.cost(D).unknown == ()
    assert sl.cost(sl.schedule(D), sizes).executed == 225
    assert sl.graph(D).nodes["C"]["work"].subs(sizes) == 210
    again = pickle.loads(pickle.dumps(D))
    assert sl.cost(again).at(M=3, N=5, K=7).flops == 225
    x, y = np.ones((3, 7), "float32"), np.ones((7, 5), "float32")
    f = sl.build(sl.schedule(D), target="python")
    assert sl.evaluate(f, x, y, repeat=1).gflops is not None
    net = sl.network(D, target="python")
    assert net.partition.at({"M": 3, "N": 5, "K": 7})["C"].flops == 210


def test_the_operations_of_blas_are_known() -> None:
    A, B = sl.placeholder((4, 6), name="A"), sl.placeholder((5, 6), name="B")
    assert sl.cost(cblas.matmul(A, B, transb=True)).flops == 2 * 4 * 5 * 6


def test_a_box_has_its_share_of_the_operations() -> None:
    X = sl.placeholder((20, 6), name="X")
    B = sl.extern(
        (20, 6), [X], total, name="B", flops=120,
        reads=lambda i, j: np.s_[i, :], writes=lambda i, j: np.s_[i, :],
    )  # fmt: skip
    C = sl.compute((19, 6), lambda i, j: B[i, j] + B[i + 1, j], name="C")
    s = sl.schedule(C)
    outer, _ = s[C].split(C.op.axis[0], factor=4)
    s[B].compute_at(s[C], outer)
    # 4 boxes of 5 rows, and the last one of 4: 24 rows of 6 operations each
    cost = sl.cost(s)
    assert cost.flops == 120 + 19 * 6 and cost.executed == 24 * 6 + 19 * 6
    assert [b.stores for b in cost.buffers if b.name == "B"] == [24 * 6]


@pytest.mark.parametrize("flops", [-1, True, 2.5, float("nan"), float("inf"), "12"])
def test_flops_that_are_no_number(flops: Any) -> None:
    asked = re.escape(f"sl.extern for D: flops={flops!r}: ")
    with pytest.raises(ComputeError, match=f"{asked}it must be a whole number of operations"):
        sl.extern((3,), [sl.placeholder((3,), name="A")], total, name="D", flops=flops)


@pytest.mark.parametrize("flops", [np.prod([3, 4]), np.float32(12), 12.0])
def test_flops_of_numpy(flops: Any) -> None:
    A = sl.placeholder((3,), name="A")
    assert sl.cost(sl.extern((3,), [A], total, name="D", flops=flops)).flops == 12


def test_flops_of_other_sizes() -> None:
    n, m = sl.var("n"), sl.var("m")
    A = sl.placeholder((n,), name="A")
    with pytest.raises(ComputeError, match="or an expression of the sizes n\n"):
        sl.extern((n,), [A], total, name="B", flops=n * m)
    assert str(sl.extern((n,), [A], total, name="B", flops=3 * n).op.flops) == "3*n"


def test_advice_says_what_its_estimate_leaves_out() -> None:
    X = sl.placeholder((64, 64), name="X")
    B = sl.extern((64, 64), [X], total, name="B")
    C = sl.compute((64, 64), lambda i, j: B[i, j] * 2 + 1, name="C")
    found = sl.explain(sl.schedule(C))
    assert found.unknown == ("total",)
    assert "The estimate leaves out 'total': schedlang cannot look into it." in str(found)
    assert "schedlang cannot look into it" in found._repr_html_()
    assert all(step.stage == "C" for step in sl.next_steps(sl.schedule(C)))
    plain = sl.explain(sl.schedule(sl.compute((64,), lambda i: X[i, i] * 2, name="D")))
    assert plain.unknown == () and "leaves out" not in str(plain)


def test_a_profile_has_the_time_of_each_call() -> None:
    X = sl.placeholder((4, 3), name="X")

    def slow(a: np.ndarray, out: np.ndarray) -> None:
        time.sleep(0.002)
        out[...] = a

    B = sl.extern((4, 3), [X], slow, name="B", reads=lambda i, j: np.s_[i, j])
    C = sl.compute((4, 3), lambda i, j: B[i, j] + 1, name="C")
    s = sl.schedule(C)
    s[B].compute_at(s[C], C.op.axis[0])
    profile = sl.build(s, target="python").profile(np.ones((4, 3), "float32"), repeat=1)
    (call,) = (part for part in profile.parts if part.stage == "B")
    assert call.times == 4 and call.name == "slow" and profile.stages["B"] >= 4 * 0.002
    assert not any("B" in note for note in profile.notes)
