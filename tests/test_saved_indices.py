"""Indices that depend on weights, in folders of networks: none leaves its tensor."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang import topi
from schedlang.errors import NetworkError
from schedlang.expr.evaluate import evaluate
from schedlang.expr.nodes import Axis, Call, Const
from schedlang.networks.element_ranges import ElementRanges
from schedlang.networks.saved_indices import check_indices


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCHEDLANG_CACHE", str(tmp_path / "cache"))


def scattered(**options: Any) -> tuple[sl.Tensor, sl.Tensor]:
    x = sl.placeholder((4,), name="x")
    idx = sl.placeholder((1,), "int64", name="idx")
    return sl.scatter((4,), (1,), lambda k: (idx[k], x[k]), "sum", name="y", **options), idx


@pytest.mark.parametrize("known", [False, True])
def test_a_write_outside_is_refused_at_load(tmp_path: Path, known: bool) -> None:
    y, idx = scattered()
    saved = sl.network(y, {idx: np.array([1], "int64")}).save(tmp_path / "net")
    ones = np.ones(4, "float32")
    if known:
        np.testing.assert_array_equal(sl.load(saved, target="python")(ones), [0, 1, 0, 0])
    for value in (4, -1, 1 << 40):
        np.savez(saved / "weights.npz", idx=np.array([value], "int64"))
        said = r"load\(.*net'\): stage y updates y\[int64\(idx|load\(.*stage y updates y\[idx"
        with pytest.raises(NetworkError, match=said) as caught:
            sl.load(saved, target="python")
        assert "the elements of idx lead it outside" in str(caught.value)
        assert "sl.assume" in str(caught.value)
    np.savez(saved / "weights.npz", idx=np.array([3], "int64"))
    np.testing.assert_array_equal(sl.load(saved, target="python")(ones), [0, 0, 0, 1])


def test_a_network_that_load_would_refuse_is_not_saved(tmp_path: Path) -> None:
    y, idx = scattered()
    net = sl.network(y, {idx: np.array([4], "int64")})
    with pytest.raises(NetworkError, match=r"save\(.*net'\): stage y updates y\[.*lead it outside"):
        net.save(tmp_path / "net")
    assert not list(tmp_path.glob("net*"))


def is_known(net: sl.Network) -> bool:
    """Return whether the cache folder had the module, for the weights of the folder."""
    return net._compiled.params is not None


def test_a_folder_is_known_with_the_weights_that_were_checked(tmp_path: Path) -> None:
    y, idx = scattered()
    saved = sl.network(y, {idx: np.array([1], "int64")}).save(tmp_path / "net")
    ones = np.ones(4, "float32")
    sl.load(saved, target="python")(ones)
    assert is_known(sl.load(saved, target="python"))
    np.savez(saved / "weights.npz", idx=np.array([2], "int64"))
    again = sl.load(saved, target="python")
    assert not is_known(again)
    np.testing.assert_array_equal(again(ones), [0, 0, 1, 0])
    assert is_known(sl.load(saved, target="python"))


def test_the_range_of_a_reduction_from_init_has_the_identity() -> None:
    """Partial results start from it."""
    k = sl.reduce_axis(4, name="k")
    most = sl.comm_reducer(sl.max, lambda t: sl.const(100, t), name="most", trusted=True)
    few = sl.compute((4,), lambda i: sl.cast(i, "int32"), name="few")
    found = sl.compute((1,), lambda i: most(few[k], axis=k, init=0), name="found")
    low, high = ElementRanges({}).of(found[0])
    assert low is not None and high is not None and low <= 0 and high >= 100


@pytest.mark.parametrize("seed", range(40))
def test_the_range_of_an_expression_holds_its_values(seed: int) -> None:
    """Random expressions of small dtypes, which wrap, under random conditions."""
    rng = np.random.default_rng(seed)
    dtype = str(rng.choice(["int8", "uint8", "int16"]))
    info = np.iinfo(dtype)
    span = sorted(int(v) for v in rng.integers(info.min, info.max, 2, endpoint=True))
    array = rng.integers(span[0], span[1], 64, endpoint=True).astype(dtype)
    tensor = sl.placeholder((64,), dtype, name="P")
    k = Axis("k", 64)

    def number() -> Any:
        return sl.const(int(rng.integers(max(info.min, -60), min(info.max, 60))), dtype)

    def expression(depth: int) -> Any:
        if depth == 0:
            return tensor[k] if rng.random() < 0.7 else number()
        a, b = expression(depth - 1), expression(depth - 1)
        return [
            lambda: a + b, lambda: a - b, lambda: a * b, lambda: sl.max(a, b), lambda: sl.min(a, b),
            lambda: sl.abs(a), lambda: -a, lambda: ~a, lambda: a % 7, lambda: a // 3,
            lambda: a & 15, lambda: sl.select(a < b, a, b), lambda: a | b, lambda: a ^ b,
            lambda: sl.cast(sl.cast(a, "int8"), dtype), lambda: sl.cast(a < b, dtype),
        ][int(rng.integers(16))]()  # fmt: skip

    for _ in range(20):
        root, shared, bound = expression(3), expression(1), number()
        root = root + shared
        least = -9 if info.min < 0 else 0
        tests = [shared < bound, shared >= bound, (shared <= bound) & (shared > least),
                 shared == bound, (shared < bound) | (shared > bound)]  # fmt: skip
        held = tuple((tests[int(n)], bool(rng.random() < 0.5)) for n in rng.integers(5, size=2))
        values = {k: np.arange(64)}
        with np.errstate(all="ignore"):
            found, *kept = (np.broadcast_to(evaluate(e, values, lambda _, at: array[at]), 64)
                            for e in (root, *(cond for cond, _ in held)))  # fmt: skip
        low, high = ElementRanges({tensor: array}).of(root, held)
        live = np.all([test == truth for test, (_, truth) in zip(kept, held)], axis=0)
        inside = found[live].astype("int64")
        assert low is not None and high is not None
        assert not inside.size or low <= inside.min() <= inside.max() <= high, (root, held)


def exact(node: Any, at: int, seen: list[int]) -> int:
    """Return an index expression of one axis at a point, and add the values of its nodes."""
    of = [exact(child, at, seen) for child in node.children]
    if isinstance(node, Axis):
        found = at
    elif isinstance(node, Const):
        found = int(node.value)
    elif isinstance(node, Call):
        found = min(of) if node.fn == "min" else max(of)
    else:
        a, b = of
        found = {"+": a + b, "-": a - b, "*": a * b, "//": a // b if b else 0,
                 "%": a % b if b else 0}[node.op]  # fmt: skip
    seen.append(found)
    return found


@pytest.mark.parametrize("seed", range(10))
def test_the_range_of_index_arithmetic_holds_its_values_without_overflow(seed: int) -> None:
    """As kernels compute it after simplification; what may leave int64 is said to overflow."""
    rng = np.random.default_rng(seed)
    i, limit = Axis("i", 5, lo=-2), 2**63

    def expression(depth: int) -> Any:
        if depth == 0:
            number = int(rng.integers(1, 9)) << int(rng.choice([0, 1, 30, 59]))
            return i if rng.random() < 0.5 else sl.const(number)
        a, b = expression(depth - 1), expression(depth - 1)
        return [
            lambda: a + b, lambda: a - b, lambda: a * b, lambda: a // 2**58, lambda: a % 9,
            lambda: sl.min(a, b), lambda: sl.max(a, b),
        ][int(rng.integers(7))]()  # fmt: skip

    for _ in range(60):
        root, values, ranges = expression(int(rng.integers(1, 5))), list[int](), ElementRanges({})
        low, high = ranges.of(root)
        ends = [exact(root, at, values) for at in range(-2, 3)]
        assert low is None or low <= min(ends), root
        assert high is None or high >= max(ends), root
        if min(values) < -limit or max(values) >= limit:
            assert ranges.overflows([root]), root


def test_a_sparse_matrix_of_weights_is_loaded(tmp_path: Path) -> None:
    a = topi.sparse.placeholder((3, 8), nonzeros=4, name="a")
    y = topi.sparse.csrmv(a, sl.placeholder((8,), name="x"))
    columns, ends = np.array([0, 1, 2, 7], "int32"), np.array([0, 2, 3, 4], "int32")
    params = {a.data: np.ones(4, "float32"), a.indices: columns, a.indptr: ends}
    saved = sl.network(y, params).save(tmp_path / "net")
    given = np.arange(8, dtype="float32")
    for _ in range(2):
        np.testing.assert_array_equal(sl.load(saved, target="python")(given), [1, 2, 7])


X = sl.placeholder((8,), name="X")
N = sl.placeholder((sl.var("n"), 8), name="N")
W = sl.placeholder((4,), "int32", name="W")
U = sl.placeholder((4,), "uint8", name="U")
I = sl.placeholder((4,), "int32", name="I")  # noqa: E741
B = sl.assume(sl.placeholder((4,), "int32", name="B"), within=(0, 7))
A = sl.assume(sl.placeholder((4,), "int32", name="A"), within=(0, 7))
T = sl.placeholder((256,), name="T")
V = sl.placeholder((4, 8), name="V")
L = sl.placeholder((8, 8), name="L")
K = sl.reduce_axis(8, name="k")
WEIGHTS: dict[sl.Tensor, np.ndarray] = {
    W: np.array([0, 1, 2, 3], "int32"), B: np.array([0, 2, 3, 7], "int32"),
    L: np.ones((8, 8), "float32"), U: np.arange(4, dtype="uint8"),
}  # fmt: skip


def gather(index: Callable[[Any], Any], of: sl.Tensor = X) -> sl.Tensor:
    return sl.compute((4,), lambda i: of[index(i)], name="Y")


def clamped(index: Any) -> Any:
    return sl.max(sl.min(index, 7), 0)


def chosen() -> sl.Tensor:
    logits = sl.compute((4, 8), lambda i, j: V[i, j] * L[j, j], name="logits")
    best = sl.compute((4,), lambda i: sl.argmax(logits[i, K], axis=K), name="best")
    return sl.compute((4,), lambda i: X[best[i]], name="Y")


def guarded(index: Callable[[Any], Any]) -> sl.Tensor:
    def element(i: Any) -> Any:
        at = index(i)
        return sl.if_then_else((at >= 0) & (at < 8), X[at], 0.0)

    return sl.compute((4,), element, name="Y")


def two_steps(low: int) -> sl.Tensor:
    place = sl.compute((4,), lambda i: clamped(W[i] + I[i]) + low, name="place")
    return gather(lambda i: place[i])


def least(extra: int) -> sl.Tensor:
    """A minimum of clamped integers, which is an index."""
    many = sl.compute((4, 8), lambda i, j: clamped(I[i] + W[i] + sl.cast(j, "int32")), name="many")
    low = sl.compute((4,), lambda i: sl.min(many[i, K], axis=K), name="low")
    # the identity of the minimum is the largest integer
    return gather(lambda i: sl.min(low[i], 7) + extra)


@pytest.mark.parametrize("made", [
    lambda: gather(lambda i: I[i]),
    lambda: gather(lambda i: I[i] * 1000),
    lambda: gather(lambda i: clamped(I[i] + W[i])),
    lambda: gather(lambda i: (I[i] + W[i]) % 8),
    lambda: gather(lambda i: U[i], T),
    lambda: gather(lambda i: A[i]),
    lambda: guarded(lambda i: I[i] + W[i]),
    lambda: guarded(lambda i: W[i] * 100),
    lambda: two_steps(0),
    lambda: least(0),
    chosen,
    lambda: gather(lambda i: W[i]),
    lambda: gather(lambda i: W[i] + 4 - 2 * sl.cast(i, "int32") // 2),
    lambda: sl.compute((4,), lambda i: sl.if_then_else(W[i] < 0, X[i + 6], X[i]), name="Y"),
    lambda: sl.compute((4,), lambda i: sl.if_then_else(I[i] < 0, X[i + 6], X[i]), name="Y"),
    lambda: sl.compute(
        (4,), lambda i: sl.if_then_else((i < 2) & (I[i] > W[i]), X[i + 6], 0.0), name="Y"
    ),
    lambda: sl.scatter((4,), (4,), lambda k: (I[k] + W[k], X[k]), name="Y", mode="drop"),
    lambda: sl.scatter((4,), (4,), lambda k: (W[k], X[k]), name="Y"),
    lambda: rows(lambda i: A[i]),
    lambda: rows(lambda i: B[i] + 1),
    lambda: rows(lambda i: W[i] * 2),
    lambda: rows(lambda i: I[i]),
    lambda: rows(lambda i: clamped(W[i] + I[i])),
    lambda: sl.compute((N.shape[0], 4), lambda i, j: N[i, W[j]], name="Y"),
])  # fmt: skip
def test_what_is_safe_is_loaded(made: Callable[[], sl.Tensor]) -> None:
    y = made()
    found = sl.reference(y).inputs
    given = {t: array for t, array in WEIGHTS.items() if t in found}
    used = check_indices([y], [t for t in found if t not in given], given)
    assert set(used) <= {W, U, B}


def rows(end: Callable[[Any], Any]) -> sl.Tensor:
    """The sums of ranges of ``X``, whose ends are elements."""

    def row(i: Any) -> Any:
        k = sl.reduce_axis((end(i), end(i + 1)), name="k")
        return sl.sum(X[k], axis=k)

    return sl.compute((3,), row, name="Y")


def ordered() -> sl.Tensor:
    """An index by a reduction whose value depends on the order of its operands."""
    combine = sl.comm_reducer(
        lambda a, b: a * 2 + b, lambda t: sl.const(0, t), name="ordered", trusted=True
    )
    k = sl.reduce_axis(4, name="k")
    last = sl.compute((1,), lambda i: combine(W[k] // 3, axis=k), name="last")
    return gather(lambda i: last[0])


def far() -> sl.Tensor:
    """Elements of a stage that no kernel keeps, which is longer than any array may be."""
    long = sl.compute((2**58,), lambda j: X[j // 2**54 + W[0]], name="long")
    return sl.compute((4,), lambda i: long[i * 2**56], name="Y")


@pytest.mark.parametrize("made, said", [
    (lambda: rows(lambda i: sl.min(B[i] * 2**30, 7)), "reduces over k in (?s:.*)lead it outside"),
    (lambda: rows(lambda i: W[i] * 3), "reduces over k in (?s:.*)lead it outside"),
    (lambda: rows(lambda i: W[i] + I[i]), "reduces over k in (?s:.*)on I of a call"),
    (lambda: gather(lambda i: W[i] + 5), "the elements of W lead it outside"),
    (lambda: gather(lambda i: I[i] + W[i]), "it depends on W in the file and on I of a call"),
    (lambda: gather(lambda i: A[i] + W[i]), "it depends on W in the file and on A of a call"),
    (lambda: two_steps(1), "it depends on .* of a call"),
    (lambda: least(1), "it depends on .* of a call"),
    # an overflow of int32 makes it negative
    (lambda: gather(lambda i: sl.min((A[i] + W[i]) * 2**30, 7)), "of a call"),
    (lambda: gather(lambda i: sl.cast(sl.cast(W[i] + 126, "int8"), "int32") - 126),
     "lead it outside"),
    (lambda: sl.compute((4,), lambda i: sl.if_then_else(W[i] > 2, X[i + 6], X[i]), name="Y"),
     "the elements of W lead it outside"),
    (lambda: sl.compute(
        (4,), lambda i: sl.if_then_else(I[i] > W[i], X[i + 6], X[i]), name="Y"),
     "on W in the file and on I of a call"),
    (lambda: sl.compute((4,), lambda i: N[W[i], i], name="Y"), "the extent on a call"),
    (lambda: gather(lambda i: W[clamped(W[i] + 2)]), "lead it outside"),
    (lambda: gather(lambda i: sl.compute((4,), lambda j: 40 + j * 0, name="far")[i]), "constants"),
    (lambda: sl.scatter((4,), (4,), lambda k: (W[k] + 1, X[k]), name="Y"), "lead it outside"),
    # a kernel may round exp in another way, or take a denormal for 0
    (lambda: gather(lambda i: W[i] + sl.cast(sl.exp(W[i] * 0.001), "int32") - 1),
     "on W in the file by floats"),
    (lambda: sl.compute((4,), lambda i: sl.if_then_else(L[i, i] > 2, X[i + 6], X[i]), name="Y"),
     "on L in the file by floats"),
    # in int64 it is negative
    (lambda: gather(lambda i: (i << (i + 60)) // 2**61 + W[i] * 0), "arithmetic that may overflow"),
    (ordered, "by reduction last, whose value may depend on a schedule"),
    # longer than any array
    (far, "too many values"),
    # a size of a call may make it overflow
    (lambda: gather(lambda i: sl.min(N.shape[0] << (i + 60), 7) + W[i] * 0), "may overflow"),
    (lambda: gather(lambda i: sl.min(N.shape[0], 9) + W[i] * 0), "on n of a call"),
])  # fmt: skip
def test_what_is_not_safe_is_refused(made: Callable[[], sl.Tensor], said: str) -> None:
    y = made()
    found = sl.reference(y).inputs
    given = {t: array for t, array in WEIGHTS.items() if t in found}
    with pytest.raises(NetworkError, match=rf"stage (?s:.*){said}"):
        check_indices([y], [t for t in found if t not in given], given)
