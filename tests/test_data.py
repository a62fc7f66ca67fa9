"""Tests of the data form of a computation: round trips, and refusals of tampered data."""

from __future__ import annotations

import copy
import json
import math
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedlang.compute import compute, placeholder, var
from schedlang.compute import math as m
from schedlang.compute import reduce as r
from schedlang.compute.custom_reducer import comm_reducer
from schedlang.compute.data import (
    Graph,
    Structure,
    dumps,
    expr_from_data,
    expr_to_data,
    from_data,
    loads,
    structure,
    to_data,
)  # fmt: skip
from schedlang.compute.read import Read
from schedlang.compute.reference import reference
from schedlang.compute.scan import scan
from schedlang.compute.tensor import Tensor
from schedlang.errors import ComputeError
from schedlang.expr.nodes import Axis
from schedlang.expr.visit import postorder
from schedlang.language.construct import const
from schedlang.schedule.schedule import schedule
from schedlang.targets.build import build


def matmul() -> Tensor:
    A, B = placeholder((6, 5), name="A"), placeholder((5, 4), name="B")
    k = r.reduce_axis((1, 5), name="k")
    return compute((6, 4), lambda i, j: r.sum(A[i, k] * B[k, j], axis=k), name="C")


def shared() -> tuple[Tensor, ...]:
    A = placeholder((8,), name="A")
    k = r.reduce_axis(8, name="k")
    T = compute((8,), lambda i: m.exp(A[i]) + A[i], name="T")
    P = compute((8,), lambda i: r.sum(T[k], axis=k, where=k <= i, init=i * 2), name="P")
    Q = compute((8,), lambda i: r.max(T[k] * P[i], axis=k), name="Q")
    return P, Q, A


def symbolic() -> Tensor:
    n, alpha = var("n"), var("alpha", "float32")
    A = placeholder((n + 2, 2 * n), name="A")
    s = r.reduce_axis((1, n + 1), name="s")
    return compute((n,), lambda i: r.prod(A[i + 1, s] * alpha, axis=s), name="C")


def everything() -> Tensor:
    A, B = placeholder((9,), "int32", name="A"), placeholder((9,), "uint8", name="B")

    def body(i):
        gathered = A[B[i]]
        value = m.if_then_else((i > 0) & ~(i == 5), A[i - 1] // 3, gathered % 7 ^ 2)
        large = m.select(value < 2**31 - 1, value.astype("float16"), -math.inf)
        return (
            m.erf(m.sigmoid(large)) + m.atan2(large, 0.1) - m.select(m.isnan(large), math.nan, -0.0)
        )

    return compute((9,), body, name="E")


def reducers() -> tuple[Tensor, ...]:
    A = placeholder((4, 6), name="A")
    k, q = r.reduce_axis(6, name="k"), r.reduce_axis(6, name="q")
    both = comm_reducer(
        lambda x, y: (x[0] + y[0], r.max(x[1], y[1])), lambda a, b: (0, -9.0), name="both"
    )
    P, Q = compute((4,), lambda i: both((A[i, k] * 0 + 1, A[i, k] * 0), axis=k), name="P")
    Z = compute((4,), lambda i: r.argmin(A[i, q], axis=q), name="Z")
    L = compute((4,), lambda i: comm_reducer(lambda x, y: x & y, lambda t: True, name="every")(
        A[i, k] > 0, axis=k), name="L")  # fmt: skip
    return P, Q, Z, L


def recurrence() -> list[Tensor]:
    X, X2 = placeholder((7, 3), name="X"), placeholder((2,), name="unused")
    a, b = placeholder((7, 3), name="a"), placeholder((7, 3), name="b")
    a0 = compute((1, 3), lambda t, i: X[0, i], name="a0")
    b0 = compute((1, 3), lambda t, i: const(1, "float32"), name="b0")
    between = compute((7, 3), lambda t, i: a[t - 1, i] * b[t - 1, i], name="between")
    a1 = compute((7, 3), lambda t, i: between[t, i] + X[t, i], name="a1")
    b1 = compute((7, 3), lambda t, i: between[t, i] - X[t, i], name="b1")
    return scan([a0, b0], [a1, b1], [a, b], inputs=[X, X2], name="pair")


GRAPHS = {
    "matmul": matmul, "shared": shared, "symbolic": symbolic, "everything": everything,
    "reducers": reducers, "recurrence": recurrence,
    "input": lambda: placeholder((), "bool", name="x"),
}  # fmt: skip


def run(outputs: Any) -> Any:
    oracle = reference(outputs)
    rng = np.random.default_rng(3)
    arrays = {}
    for tensor in oracle.inputs:
        shape = [e if isinstance(e, int) else 8 if k else 6 for k, e in enumerate(tensor.shape)]
        arrays[tensor.name] = rng.integers(0, 5, shape).astype(tensor.dtype)
    return oracle(
        **arrays, **({"alpha": 0.5} if "alpha" in {v.name for v in oracle.variables} else {})
    )


def same(found: Any, expected: Any) -> None:
    one = isinstance(expected, np.ndarray)
    for x, y in zip([found] if one else found, [expected] if one else expected):
        assert x.dtype == y.dtype
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("name", GRAPHS)
def test_round_trip(name):
    outputs = GRAPHS[name]()
    data = to_data(outputs)
    again = from_data(json.loads(json.dumps(data, allow_nan=False)))
    assert to_data(again) == data and to_data(loads(dumps(outputs))) == data
    assert structure(again) == structure(outputs)
    wanted = (outputs,) if isinstance(outputs, Tensor) else tuple(outputs)
    for old, new in zip(wanted, again):
        assert (old.name, old.dtype, str(old.shape)) == (new.name, new.dtype, str(new.shape))
    same(run(again), run(outputs))


@pytest.mark.parametrize("name", GRAPHS)
def test_pickle(name):
    outputs = GRAPHS[name]()
    tensors = (outputs,) if isinstance(outputs, Tensor) else tuple(outputs)
    for protocol in (2, pickle.HIGHEST_PROTOCOL):
        one = pickle.loads(pickle.dumps(tensors[0], protocol))
        assert isinstance(one, Tensor) and to_data(one) == to_data(tensors[0])
        several = pickle.loads(pickle.dumps(Graph(tensors), protocol)).tensors
        assert to_data(several) == to_data(tensors)
    same(run(copy.deepcopy(tensors[0])), run(tensors[0]))


def combined(x, y):
    return x * y


def one_of(dtype):
    return 1.0


def test_tensors_pickled_together_keep_identity():
    A, n = placeholder((4, 4), name="A"), var("n")
    X = placeholder((n,), name="X")
    T = compute((n,), lambda i: X[i] * 2, name="T")
    k = r.reduce_axis(4, name="k")
    C = compute((4,), lambda i: r.sum(A[i, k], axis=k), name="C")
    D = compute((4,), lambda i: r.sum(A[k, i] * C[i], axis=k), name="D")
    for pickled in (pickle, pytest.importorskip("cloudpickle")):
        for protocol in (2, pickle.HIGHEST_PROTOCOL):
            again = pickle.loads(pickled.dumps([A, D, {"C": C, "k": k, "n": n}, T, D.op], protocol))
            A2, D2, others, T2, op = again
            C2 = others["C"]
            assert C2.op.input_tensors[0] is A2 and [*D2.op.input_tensors] == [A2, C2]
            assert D2.op is op and C2.op.reduce_axis[0] is D2.op.reduce_axis[0] is others["k"]
            assert T2.op.axis[0].extent is others["n"]
            assert to_data([D2, T2]) == to_data([D, T])
    A2, C2 = copy.deepcopy((A, C))
    assert C2.op.input_tensors[0] is A2 and A2 is not A
    # together they take the room of one
    assert len(pickle.dumps([C, D])) < len(pickle.dumps(D)) + 60


def test_scheduled_tensors_after_a_pickle():
    A = placeholder((4, 4), name="A")
    C = compute((4, 4), lambda i, j: A[i, j] + 1, name="C")
    s = schedule(C)
    s.cache_write(C, "local")
    again, A2, C2 = pickle.loads(pickle.dumps((s, A, C)))
    again[C2].split(C2.op.axis[0], factor=2)
    f = build(again, [A2, C2], target="python")
    np.testing.assert_array_equal(f(np.ones((4, 4), "float32")), np.full((4, 4), 2))


def test_reducers_pickle():
    reducer = pickle.loads(pickle.dumps(comm_reducer(combined, one_of, "product")))
    A, k = placeholder((3, 4), "int64", name="A"), r.reduce_axis(4, name="k")
    P = pickle.loads(pickle.dumps(compute((3,), lambda i: reducer(A[i, k], axis=k), name="P")))
    assert reducer.__name__ == P.op.reducer.name == "product"
    x = np.arange(1, 13).reshape(3, 4)
    np.testing.assert_array_equal(reference(P)(x), x.prod(1))


def test_sharing_and_identity_are_kept():
    P, Q, A = from_data(to_data(shared()))
    assert P.op.reduce_axis == Q.op.reduce_axis and P.op.reduce_axis[0] is Q.op.reduce_axis[0]
    assert Q.op.input_tensors[0].op.input_tensors[0] is A and Q.op.input_tensors[1] is P
    (T,) = (t for t in Q.op.input_tensors if t.name == "T")
    exp_, read = T.op.body[0].children
    assert exp_.children[0] is not read and isinstance(read, Read)
    B = placeholder((4,), name="B")

    def squared(i):
        value = B[i] + 1
        return value * value

    C = from_data(to_data(compute((4,), squared, name="C")))[0]
    assert C.op.body[0].children[0] is C.op.body[0].children[1]


def test_constants_keep_value_and_kind():
    values = [math.inf, -math.inf, -0.0, 0.1, 1e-300]
    C = compute((), lambda: tuple(const(v, "float64") for v in (*values, math.nan)), name="C")
    again = [t.op.body[t.value_index].value for t in from_data(json.loads(dumps(C)))]
    assert [repr(v) for v in again] == [*map(repr, values), "nan"]
    U = placeholder((2,), "uint64", name="U")
    D = compute((2,), lambda i: U[i] + (2**64 - 1), name="D")
    assert to_data(from_data(to_data(D))) == to_data(D)


def test_structure_ignores_names_and_sharing():
    A, X = placeholder((4,), name="A"), placeholder((4,), name="X")

    def once(i):
        value = A[i] + 1
        return value * value

    B = compute((4,), once, name="B")
    Y = compute((4,), lambda j: (X[j] + 1) * (X[j] + 1), name="Y")
    assert structure(B) == structure(Y) and len(structure(B).key) == 64
    n, size = var("n"), var("size")
    assert structure(placeholder((n, n))) == structure(placeholder((size, size)))
    k, one, two = (r.reduce_axis(4, name=x) for x in ("k", "one", "two"))

    def twice(first: Axis, second: Axis) -> tuple[Tensor, ...]:
        W = placeholder((4,), name="W")
        return tuple(compute((), lambda a=a: r.sum(W[a], axis=a)) for a in (first, second))

    assert structure(twice(k, k)) == structure(twice(one, two))


def test_structure_keeps_extents_apart():
    A, X = placeholder((6, n := var("n")), name="A"), placeholder((7, n), name="X")
    assert structure(A) != structure(X) and structure(A).key == structure(X).key
    assert (structure(A).extents, structure(X).extents) == ((6,), (7,))
    k = r.reduce_axis((1, 5), name="k")
    # the start of a range is not its extent
    B = compute((), lambda: r.sum(A[k, 0], axis=k))
    assert structure(B).extents == (6, 4)


def test_structure_tells_structures_apart():
    A, B = placeholder((4,), name="A"), placeholder((4,), name="B")
    k, n, p = r.reduce_axis(4, name="k"), var("n"), var("p")
    half = r.reduce_axis((1, 4), name="half")
    graphs = [
        A, placeholder((5,)), placeholder((4,), "float64"), placeholder((4, 1)),
        placeholder((n, n)), placeholder((n, p)), (A, B), (A, A),
        compute((4,), lambda i: A[i] + B[i]), compute((4,), lambda i: A[i] + A[i]),
        compute((4,), lambda i: A[i] - B[i]), compute((4,), lambda i: A[3 - i] + B[i]),
        compute((4,), lambda i: m.select(i > 1, A[i], 0)),
        compute((4,), lambda i: m.if_then_else(i > 1, A[i], 0)),
        compute((), lambda: r.sum(A[k], axis=k)), compute((), lambda: r.max(A[k], axis=k)),
        compute((), lambda: r.sum(A[half], axis=half)),
        compute((), lambda: r.sum(A[k], axis=k, init=1)),
        compute((), lambda: r.sum(A[k], axis=k, where=k > 1)),
    ]  # fmt: skip
    assert len({structure(g) for g in graphs}) == len(graphs)


def test_structure_is_stable():
    assert structure(matmul()) == structure(matmul())
    # tuning databases rely on it, so it may change only with the version of the data form
    key = "fec6d99550947546699599a0c092043f1d364f37acb88762551299205cca1099"
    assert structure(placeholder((2,))) == Structure(key, (2,))


@pytest.mark.slow
def test_deep_graphs_and_expressions_round_trip():
    A = placeholder((8,), name="A")
    T = A
    for k in range(2000):
        T = compute((8,), lambda i, T=T: T[i] + 1, name=f"s{k}")
    again = pickle.loads(pickle.dumps(T))
    assert dumps(again) == dumps(T) and structure(again) == structure(T)

    def deep(i):
        value = A[i]
        for _ in range(5000):
            value = value * value + 1
        return value

    D = compute((8,), deep, name="D")
    assert len(to_data(D)["items"]) < 20_000
    again = pickle.loads(pickle.dumps(D))
    assert len(list(postorder(again.op.body))) == len(list(postorder(D.op.body)))


# single expressions


def test_expression_round_trip():
    i, n, t = Axis("i", 8), var("n"), var("t", "float32")
    names = {i: "i.outer", n: "n", t: "t"}
    value = ((i * 4 + 1) % n < 3) & (m.exp(t) > 0.5)
    data = expr_to_data(value, names)
    leaves = {name: leaf for leaf, name in names.items()}
    again = expr_from_data(json.loads(json.dumps(data)), leaves)
    assert expr_to_data(again, names) == data and str(again) == str(value)
    assert {node for node in postorder([again]) if isinstance(node, Axis)} == {i}
    assert expr_from_data([["leaf", "x"]], {"x": i}) is i


def test_expression_refusals():
    i, j = Axis("i", 8), Axis("j", 8)
    A = placeholder((8,), name="A")
    with pytest.raises(ComputeError, match="j is not a leaf of the expression; leaves: i"):
        expr_to_data(i + j, {i: "i"})
    with pytest.raises(ComputeError, match="a Read cannot be written as data here"):
        expr_to_data(A[i], {i: "i"})
    with pytest.raises(ComputeError, match="there is no leaf 'j'; the leaves are i"):
        expr_from_data([["leaf", "j"]], {"i": i})
    with pytest.raises(ComputeError, match="has the unknown kind 'placeholder'"):
        expr_from_data([["placeholder", "A", [8], "float32"]], {})
    with pytest.raises(ComputeError, match="has no items"):
        expr_from_data([], {})
    with pytest.raises(ComputeError, match="not a list"):
        expr_from_data("i > 3", {"i": i})


# untrusted data


def base(*items: Any, outputs: Any = None) -> dict[str, Any]:
    outputs = [[len(items) - 1, 0]] if outputs is None else outputs
    return {"format": "schedlang.compute", "version": 1, "items": list(items), "outputs": outputs}


A4 = ["placeholder", "A", [4], "float32"]
I4 = ["axis", "i", 4, "data", 0, ""]
K4 = ["axis", "k", 4, "reduce", 0, ""]
READ = ["read", 0, 0, [1]]
COPY = (A4, I4, READ)
X, Y = ["var", "x", "float32", False], ["var", "y", "float32", False]
ZERO = ["const", "float32", 0.0, False]


def total(
    body: Any = 3, result: Any = "+", axis: Any = 2, unit: Any = ZERO, where: Any = None
) -> Any:
    """Return the data of a sum over k of A, with parts that can be replaced."""
    return base(
        A4, I4, K4, ["read", 0, 0, [2]], X, Y, ["binary", result, 4, 5, "float32", False], unit,
        ["reducer", "sum", [4], [5], [6], [7]],
        ["compute", "C", [1], [body], [axis], 8, where, None, ["C"]],
    )  # fmt: skip


TAMPERED: dict[str, tuple[Any, str]] = {
    "not a dict": ([1], "'format' must be 'schedlang.compute'"),
    "other format": ({"format": "x"}, "'format' must be"),
    "later version": ({**base(A4), "version": 2}, "version 2 cannot be read"),
    "bool version": ({**base(A4), "version": True}, "version True cannot be read"),
    "unknown field": ({**base(A4), "code": "1"}, "has no field 'code'"),
    "no items": ({**base(A4), "items": None}, "'items' of the data is None, not a list"),
    "no outputs": (base(A4, outputs=[]), "'outputs' names no tensor"),
    "output shape": (base(A4, outputs=[0]), "a tensor is 0"),
    "output of an axis": (base(I4), "cannot be item 0, which is of kind axis"),
    "output number": (base(A4, outputs=[[0, 1]]), r"A has no output 1: it has 1"),
    "negative output": (base(A4, outputs=[[0, -1]]), "no output -1"),
    "bool output": (base(A4, outputs=[[0, False]]), "output number of A is False"),
    "unknown kind": (base(["import", "os"]), "item 0 of the data has the unknown kind 'import'"),
    "item that is no list": (base({"kind": "axis"}), "has the unknown kind None"),
    "kind that is a list": (base([["axis"]]), "has the unknown kind a list of 1"),
    "leaf in a graph": (base(["leaf", "i"]), "has the unknown kind 'leaf'"),
    "field count": (base([*A4, False, None, 3]), r"item 0 .*\(placeholder\) has 6 fields, not 3"),
    "evil name": (base(["placeholder", "A; import os", [4], "float32"]), "item 0 .* cannot name"),
    "name kind": (base(["placeholder", 7, [4], "float32"]), "must be a string, got int"),
    "dtype": (base(["placeholder", "A", [4], "object"]), "'object' is not a dtype"),
    "dtype kind": (base(["placeholder", "A", [4], {"a": 1}]), "a dict of 1 is not a dtype"),
    "negative extent": (base(["placeholder", "A", [-4], "float32"]), "is -4, but an extent"),
    "bool extent": (base(["placeholder", "A", [True], "float32"]), "an extent is True"),
    "float extent": (base(["placeholder", "A", [4.0], "float32"]), r"an extent is 4\.0"),
    "huge extent": (base(["placeholder", "A", [2**70], "float32"]), "overflow"),
    "extent by reference": (
        base(["placeholder", "A", [[5]], "float32"]), "item 5, which is not an earlier"),
    "extent over an axis": (
        base(I4, ["placeholder", "A", [[0]], "float32"]), "cannot depend on axis i"),
    "thread axis": (base(["axis", "t", 4, "thread", 0, "threadIdx.x"]), "must be of kind data or "
                                                                        "reduce"),
    "late data axis": (base(["axis", "t", 4, "data", 1, ""]), "starts at 1, not at 0"),
    "size of a dtype": (base(["var", "n", "int8", True]), "size n is 'int8', not int64"),
    "flag": (base(["var", "n", "int8", 1]), "a flag is 1, not true or false"),
    "constant kind": (base(["const", "int8", 1.5, False]), r"a constant of int8 cannot be 1\.5"),
    "constant bool": (base(["const", "int8", True, False]), "a constant of int8 cannot be True"),
    "constant text": (base(["const", "float32", "__import__('os')", False]), "must be a number, "
                                                                             "inf, -inf or nan"),
    "constant range": (base(["const", "int8", 200, False]), "200 does not fit int8"),
    "constant weak": (base(["const", "int8", 2, True]), "a weak constant is int64 or float64"),
    "constant list": (
        base(["const", "float64", [1], False]), "a constant of float64 cannot be a list of 1"),
    "later item": (base(A4, I4, ["read", 0, 0, [3]]), "item 3, which is not an earlier item"),
    "own item": (base(["unary", "-", 0, "float32", False]), "item 0, which is not an earlier item"),
    "negative item": (base(A4, I4, ["read", 0, 0, [-1]]), "item -1, which is not an earlier item"),
    "item as text": (
        base(A4, I4, ["read", 0, 0, ["1"]]), "must be the number of an earlier item"),
    "operand that is a tensor": (base(A4, ["unary", "-", 0, "float32", False]), "kind "
                                                                                "placeholderop"),
    "operator": (base(*COPY, ["binary", "@", 2, 2, "float32", False]), "there is no operator '@'"),
    "result dtype": (
        base(*COPY, ["binary", "+", 2, 2, "int8", False]), "recorded as int8, but the language "
                                                           "gives float32"),
    "mixed operands": (base(*COPY, ["binary", "+", 2, 1, "float32", False]), "recorded as float32"),
    "weak result": (
        base(*COPY, ["binary", "+", 2, 2, "float32", True]), "recorded as weak float32"),
    "bits of floats": (
        base(*COPY, ["binary", "&", 2, 2, "float32", False]), "take integers or bools"),
    "unary operator": (
        base(*COPY, ["unary", "+", 2, "float32", False]), "there is no operator '\\+'"),
    "function": (
        base(*COPY, ["call", "system", [2], "float32", False]), "there is no function 'system'"),
    "function arity": (
        base(*COPY, ["call", "exp", [2, 2], "float32", False]), r"takes 1 operand"),
    "function dtype": (base(*COPY, ["call", "exp", [2], "float64", False]), "recorded as float64"),
    "no such call": (base(I4, ["call", "floor", [0], "int64", True]), "recorded as weak int64"),
    "weak conversion": (base(*COPY, ["cast", 2, "float64", True]), "goes from sizes to float64"),
    "condition": (
        base(*COPY, ["select", 2, 2, 2, "float32", False, False]), "the condition is float32"),
    "index count": (base(A4, I4, ["read", 0, 0, [1, 1]]), r"A has 1 dimension, got 2"),
    "index dtype": (base(A4, I4, ["cast", 1, "int8", False], ["read", 0, 0, [2]]), "is not int64"),
    "float index": (base(A4, ["const", "float64", 1.0, True], ["read", 0, 0, [1]]), "is float64"),
    "out of bounds": (
        base(A4, ["axis", "i", 5, "data", 0, ""], READ,
             ["compute", "C", [1], [2], [], None, None, None, ["C"]]),
        r"item 3 .*C reads A\[i\].*0\.\.4"),
    "weak body": (
        base(I4, ["compute", "C", [0], [0], [], None, None, None, ["C"]]), "a value without a "
                                                                           "dtype"),
    "empty body": (
        base(I4, ["compute", "C", [0], [], [], None, None, None, []]), "its body has no values"),
    "name count": (
        base(*COPY, ["compute", "C", [1], [2], [], None, None, None, []]),
        "got 0 names, expected 1"),
    "axis twice": (
        base(*COPY, ["compute", "C", [1, 1], [2], [], None, None, None, ["C"]]), "given twice"),
    "axis kind": (base(A4, K4, READ, ["compute", "C", [1], [2], [], None, None, None, ["C"]]),
                  "k is a reduce axis, not a data axis"),
    "foreign axis": (
        base(*COPY, ["compute", "C", [], [2], [], None, None, None, ["C"]]), "belongs to another"),
    "axes without reducer": (
        base(*COPY, K4, ["compute", "C", [1], [2], [3], None, None, None, ["C"]]),
                             "a reducer needs reduction axes"),
    "where without reducer": (
        base(*COPY, ["compute", "C", [1], [2], [], None, 2, None, ["C"]]), "a reducer needs "
                                                                           "reduction axes"),
    "where dtype": (total(where=3), "where is float32, not bool"),
    "reducer that subtracts": (total(result="-"), "fcombine is not commutative"),
    "reducer identity": (
        total(unit=["const", "float32", 1.0, False]), "fidentity is not a neutral element"),
    "reducer identity dtype": (
        total(unit=["const", "int8", 0, False]), "its parts differ in number or dtype"),
    "reducer as a body": (total(body=8), "an operand is item 8, a reducer|the body|a reducer"),
    "reducer with an axis": (
        base(I4, X, Y, ["cast", 0, "float32", False], ZERO, ["reducer", "sum", [1], [2], [3], [4]]),
        "its combiner uses i, which is not one of its operands"),
    "reducer operands": (
        base(X, ZERO, ["reducer", "s", [0], [0], [0], [1]]), "are not distinct scalars"),
    "scan without state": (base(["scan", "s", [], [], [], [], []]), "a scan has no state"),
    "scan of inputs": (base(A4, ["scan", "s", [[0, 0]], [[0, 0]], [[0, 0]], [], ["s"]]),
                       "the init A must be made by sl.compute"),
}  # fmt: skip


@pytest.mark.parametrize("case", TAMPERED)
def test_tampered_data_is_refused(case):
    data, message = TAMPERED[case]
    with pytest.raises(ComputeError, match=message):
        from_data(data)


def test_the_same_data_untampered_loads():
    assert from_data(total())[0].name == "C"
    copied = base(*COPY, ["compute", "C", [1], [2], [], None, None, None, ["C"]])
    assert from_data(copied)[0].shape == (4,)


def test_text_that_is_not_json_is_refused():
    for text in ("", "{", "[" * 100_000, "nan()"):
        with pytest.raises(ComputeError, match="is not JSON|should be"):
            loads(text)


def check_tampering(name, draw):
    """Data with one leaf replaced either loads as a computation or is refused."""
    data = to_data(GRAPHS[name]())
    spot = data["items"]
    while True:
        place = draw.draw(st.integers(0, len(spot) - 1))
        if not isinstance(spot[place], list) or not spot[place]:
            break
        spot = spot[place]
    other = st.one_of(st.none(), st.booleans(), st.integers(-3, 60), st.floats(),
                      st.text(CHARACTERS, max_size=3),
                      st.sampled_from(["float32", "int64", "axis", "+", "exp", []]))  # fmt: skip
    spot[place] = draw.draw(other)
    try:
        tensors = from_data(data)
    except ComputeError:
        return
    assert all(isinstance(t, Tensor) for t in tensors)
    to_data(tensors)


# all characters of UTF-8, which st.text() looks for in seconds
CHARACTERS = st.characters(exclude_categories=["Cs"])
GRAPH_NAMES = st.sampled_from(["matmul", "everything", "reducers", "recurrence"])


@settings(max_examples=25, deadline=None)
@given(GRAPH_NAMES, st.data())
def test_random_tampering_is_refused_or_harmless(name, draw):
    check_tampering(name, draw)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(GRAPH_NAMES, st.data())
def test_much_random_tampering_is_refused_or_harmless(name, draw):
    check_tampering(name, draw)
