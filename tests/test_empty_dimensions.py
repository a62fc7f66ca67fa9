"""Empty dimensions: reads are refused where something is read, by whatever index."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import BoundsError, CallError, ComputeError, OutOfBoundsError
from schedlang.expr.nodes import Axis, Expr

TARGETS = ["cpu", "python", "c", "cuda-emulator"]
Index = Callable[[Any, Any], Any]
# an index of an element, by an axis or a gathered number, for an array of n elements
CLAMPS: dict[str, Index] = {
    "max of min": lambda i, n: sl.max(0, sl.min(i, n - 1)),
    "min of max": lambda i, n: sl.min(sl.max(i, 0), n - 1),
    "clip": lambda i, n: np.clip(i, 0, n - 1),
    "wrap": lambda i, n: i % n,
    "last": lambda i, n: n - 1 + 0 * i,
    "itself": lambda i, n: i,
}  # fmt: skip
GATHERED = [name for name in CLAMPS if name != "last"]


def gathering(n: Any, index: Index, m: Any = 3) -> sl.Tensor:
    I, A = sl.placeholder((m,), "int64", name="I"), sl.placeholder((n,), name="A")  # noqa: E741
    return sl.compute((m,), lambda i: A[index(I[i], A.shape[0])], name="C")


def clamping(n: Any, index: Index, m: Any = 3) -> sl.Tensor:
    A = sl.placeholder((n,), name="A")
    return sl.compute((m,), lambda i: A[index(i, A.shape[0])], name="C")


def built(C: sl.Tensor, target: str) -> Any:
    s = sl.schedule(C)
    if target == "cuda-emulator":
        s[C].bind(s[C].op.axis[0], "blockIdx.x")
    return sl.build(s, target=target)


def floats(*items: float) -> np.ndarray:
    return np.array(items, "float32")


def ints(*items: int) -> np.ndarray:
    return np.array(items, "int64")


@pytest.mark.parametrize("name", GATHERED)
@pytest.mark.parametrize("target", TARGETS)
def test_a_gathered_element_of_nothing_is_refused_at_the_call(name: str, target: str) -> None:
    C = gathering(sl.var("n"), CLAMPS[name], sl.var("m"))
    f = built(C, target)
    for _ in range(2):
        with pytest.raises(CallError, match="kernel C cannot run where .*n=0.*: index 0 of A, .*"):
            f(I=ints(0, 0), A=floats())
    with pytest.raises(BoundsError):
        sl.reference(C)(I=ints(0, 0), A=floats())
    # nothing is read, or there is something to read
    assert f(I=ints(), A=floats()).shape == (0,)
    assert f(I=ints(0, 1), A=floats(5, 6)).tolist() == [5, 6]


@pytest.mark.parametrize("name", [n for n in CLAMPS if n != "itself"])
@pytest.mark.parametrize("target", TARGETS)
def test_an_element_of_nothing_is_refused_at_the_call(name: str, target: str) -> None:
    f = built(clamping(sl.var("n"), CLAMPS[name], sl.var("m")), target)
    with pytest.raises(CallError, match="kernel C cannot run where .*n=0.*: index 0 of A, .*0..0"):
        f(A=floats(), m=2)
    assert f(A=floats(), m=0).shape == (0,)
    assert f(A=floats(7, 8), m=2).tolist() == [8 if name == "last" else 7, 8]


@pytest.mark.parametrize("name", CLAMPS)
def test_an_element_of_nothing_is_refused_where_it_is_written(name: str) -> None:
    for make in (gathering, clamping):
        with pytest.raises(BoundsError, match=r"C reads A\[.*A of shape \(0,\)"):
            make(0, CLAMPS[name])
        assert make(0, CLAMPS[name], 0).shape == (0,)


@pytest.mark.parametrize("mode", ["clip", "wrap", "raise"])
@pytest.mark.parametrize("target", TARGETS)
def test_take_from_nothing(mode: str, target: str) -> None:
    A, I = sl.placeholder((sl.var("n"),), name="A"), sl.placeholder((2,), "int64", name="I")  # noqa: E741
    C = np.take(A, I, mode=mode)
    with pytest.raises(CallError, match="kernel take cannot run where n=0: index 0 of A"):
        built(C, target)(I=ints(0, 0), A=floats())
    with pytest.raises(IndexError, match="cannot do a non-empty take from an empty axes"):
        np.take(floats(), [0, 0], mode=mode)
    with pytest.raises(BoundsError, match=r"A of shape \(0,\) is empty in dimension 0"):
        np.take(sl.placeholder((0,), name="A"), I, mode=mode)


@pytest.mark.parametrize("mode", ["edge", "reflect", "wrap"])
@pytest.mark.parametrize("target", TARGETS)
def test_pads_of_nothing(mode: Any, target: str) -> None:
    C = np.pad(sl.placeholder((sl.var("n"),), name="A"), 1, mode=mode)
    f = built(C, target)
    with pytest.raises(CallError, match="kernel pad cannot run where n=0: index 0 of A"):
        f(floats())
    np.testing.assert_array_equal(f(floats(1, 2, 3)), np.pad([1, 2, 3], 1, mode=mode))
    with pytest.raises(ComputeError, match="dimension 0 is empty"):
        np.pad(sl.placeholder((0,), name="A"), 1, mode=mode)


@pytest.mark.parametrize("extent", [0, sl.var("n")])
@pytest.mark.parametrize("target", TARGETS)
def test_what_a_guard_leaves_out_is_not_refused(extent: Any, target: str) -> None:
    A, I = sl.placeholder((extent,), name="A"), sl.placeholder((2,), "int64", name="I")  # noqa: E741
    size = A.shape[0]

    def element(i: Axis) -> Expr:
        inside = (I[i] >= 0) & (I[i] < size)
        known = sl.if_then_else(i < size, A[sl.max(0, sl.min(i, size - 1))], 1.0)
        return sl.if_then_else(inside, A[I[i]], 2.0) + known

    f = built(sl.compute((2,), element, name="C"), target)
    assert f(I=ints(0, 1), A=floats()).tolist() == [3, 3]


def test_a_guard_that_holds_is_refused() -> None:
    A, I = sl.placeholder((0,), name="A"), sl.placeholder((4,), "int64", name="I")  # noqa: E741
    C = sl.compute((4,), lambda i: sl.if_then_else(i > 2, A[I[i]], 1.0), name="C")
    message = r"index 0 of A, I\[i\], cannot lie in 0\.\.0 where i = 3"
    with pytest.raises(OutOfBoundsError, match=message):
        sl.build(sl.schedule(C), target="python")
    never = sl.compute((4,), lambda i: sl.if_then_else(i > 3, A[I[i]], 1.0), name="C")
    assert built(never, "cpu")(I=ints(0, 0, 0, 0), A=floats()).tolist() == [1] * 4


@pytest.mark.parametrize("target", ["cpu", "python", "c"])
def test_an_update_of_nothing_is_refused(target: str) -> None:
    n, m = sl.var("n"), sl.var("m")
    I, B = sl.placeholder((m,), "int64", name="I"), sl.placeholder((n,), name="B")  # noqa: E741
    D = sl.scatter((n,), (m,), lambda t: (I[t], 1.0), init=lambda i: B[i], name="D")
    f = sl.build(sl.schedule(D), target=target)
    with pytest.raises(CallError, match="kernel D cannot run where .*n=0.*index 0 of D"):
        f(I=ints(0), B=floats())
    assert f(I=ints(), B=floats()).shape == (0,)
    assert f(I=ints(1, 1), B=floats(1, 2)).tolist() == [1, 4]
    dropped = sl.scatter((n,), (m,), lambda t: (I[t], 1.0), init=lambda i: B[i], mode="drop")
    assert sl.build(sl.schedule(dropped), target=target)(I=ints(0), B=floats()).shape == (0,)


def test_fused_sizes_are_proven_at_all_sizes() -> None:
    m, n = sl.var("m"), sl.var("n")
    A = sl.placeholder((m, n), name="A")
    C = sl.compute((m, n), lambda i, j: A[i, j] * 2, name="C")
    s = sl.schedule(C)
    s[C].split(s[C].fuse(*s[C].op.axis), 16)
    f = sl.build(s, target="python")
    assert not f.checked_by_size
    assert f(np.ones((0, 3), "float32")).shape == (0, 3)


DIVISIONS = """
import numpy as np, schedlang as sl
n, x = sl.var("n"), sl.placeholder((4,), name="x")
def element(i):
    first = sl.if_then_else(i % n < 1, 1.0, 0.0)
    return x[sl.min(i % n, 3)] + sl.cast(i // n, "float32") + first
y = sl.compute((4,), element, name="y")
f = sl.build(sl.schedule(y), [x, n, y], target="c")
print(f(np.ones(4, "float32"), 0).tolist(), f(np.ones(4, "float32"), 3).tolist())
"""


def test_c_divides_an_index_by_a_size_that_is_0() -> None:
    """As in NumPy the result is 0; the processor would end the process."""
    done = subprocess.run([sys.executable, "-c", DIVISIONS], capture_output=True, text=True)
    assert done.stdout == "[2.0, 2.0, 2.0, 2.0] [2.0, 1.0, 1.0, 3.0]\n"


@pytest.mark.parametrize("target", ["python", "c"])
@pytest.mark.parametrize("extents", [(0, 5), (5, 0), (0, 0)])
def test_a_scan_of_a_state_without_elements(extents: tuple[int, int], target: str) -> None:
    """The other state has its rows all the same."""
    starts = [sl.placeholder((n,), name=name) for n, name in zip(extents, "AB")]
    states = [sl.placeholder((4, n), name=name) for n, name in zip(extents, "ST")]
    inits = [sl.compute((1, X.shape[0]), lambda t, i, X=X: X[i]) for X in starts]
    updates = [
        sl.compute((4, S.shape[1]), lambda t, i, S=S, k=k: S[t - 1, i] + k)
        for k, S in enumerate(states, 1)
    ]
    rows = sl.scan(inits, updates, states)
    last = [sl.compute((n,), lambda i, R=R: R[3, i]) for n, R in zip(extents, rows)]
    kernel = sl.build(sl.schedule(last), target=target)
    results = kernel(*(np.arange(n, dtype="float32") for n in extents))
    for k, (result, n) in enumerate(zip(results, extents), 1):
        np.testing.assert_array_equal(result, np.arange(n) + 3 * k)
