"""``If``, ``Loop`` and operators that ONNX defines by others, beside ONNX's evaluator and NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import FrontendError
from tests.onnx_cases import Case, check, f32, i64

pytest.importorskip("onnx", reason="imports ONNX models: the extra onnx")

from onnx import AttributeProto, TensorProto, helper, numpy_helper, parser

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def graph_of(text: str) -> Any:
    """Return a model from ONNX's text form, of opset 21."""
    return parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> {text}')


def outputs(model: Any, *arrays: Any, **shapes: Any) -> Any:
    return sl.frontend.from_onnx(model, **shapes).reference(*arrays)


BRANCHES = """
agraph (float[N, 3] x) => (float[N, 3] y) {
    shape = Shape(x)
    zero = Constant <value_int = 0> ()
    rows = Gather(shape, zero)
    four = Constant <value_int = 4> ()
    many = Greater(rows, four)
    y = If (many) <
        then_branch = large () => (float[N, 3] a) { a = Neg(x) },
        else_branch = small () => (float[N, 3] b) { t = Exp(x) b = Add(t, x) }
    >
}
"""


@pytest.mark.parametrize("rows", [1, 4, 5, 9])
def test_a_branch_that_a_shape_decides(rows: int) -> None:
    x = f32(rows, 3)
    expected = -x if rows > 4 else np.exp(x) + x
    found = outputs(graph_of(BRANCHES), x, shapes={"N": rows})
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_a_branch_that_a_symbolic_size_decides_is_refused() -> None:
    with pytest.raises(FrontendError, match=r"its condition is .*\n.*fix its symbolic sizes"):
        sl.frontend.from_onnx(graph_of(BRANCHES), shapes={"N": sl.var("n")})


def test_a_branch_that_data_decide_is_refused() -> None:
    text = BRANCHES.replace(
        "many = Greater(rows, four)",
        "s = ReduceSum <keepdims = 0> (x) z = Constant <value_float = 0.0> () many = Greater(s, z)",
    )
    with pytest.raises(FrontendError, match=r"must be known when.*\n.*Where\(condition, a, b\)"):
        sl.frontend.from_onnx(graph_of(text), shapes={"N": 2})


LOOP = """
agraph (float[3] x) => (float[3] last, float[K, 3] all) {
    count = Constant <value_int = 5> ()
    on = Constant <value = bool {1}> ()
    factor = Constant <value_float = 0.5> ()
    last, all = Loop (count, on, x) <body = step
        (int64 k, bool going, float[3] before) => (bool goes, float[3] after, float[3] row) {
            goes = Identity(going)
            number = Cast <to = 1> (k)
            scaled = Mul(before, factor)
            after = Add(scaled, number)
            row = Sub(after, x)
        }
    >
}
"""


def test_a_loop_of_a_known_count() -> None:
    """The body reads its iteration, a value of the graph around, and stacks its last output."""
    x = f32(3)
    rows, value = [], x
    for k in range(5):
        value = value * np.float32(0.5) + np.float32(k)
        rows.append(value - x)
    last, every = outputs(graph_of(LOOP), x)
    np.testing.assert_allclose(last, value, rtol=1e-6)
    np.testing.assert_allclose(every, np.stack(rows), rtol=1e-6)


def test_a_loop_ends_by_its_condition() -> None:
    text = LOOP.replace(
        "goes = Identity(going)", "two = Constant <value_int = 2> () goes = Less(k, two)"
    )
    last, every = outputs(graph_of(text), f32(3))
    assert every.shape == (3, 3)
    np.testing.assert_allclose(last, ((f32(3) / 2) / 2 + 1) / 2 + 2, rtol=1e-6)


def test_a_loop_in_a_branch_runs_as_a_kernel() -> None:
    text = """
    agraph (float[4, 3] x) => (float[4, 3] y) {
        yes = Constant <value = bool {1}> ()
        y = If (yes) <
            then_branch = repeated () => (float[4, 3] a) {
                count = Constant <value_int = 3> ()
                none = Constant <value = bool {1}> ()
                a = Loop (count, none, x) <body = step
                    (int64 k, bool going, float[4, 3] v) => (bool goes, float[4, 3] w) {
                        goes = Identity(going)
                        w = Tanh(v)
                    }
                >
            },
            else_branch = once () => (float[4, 3] b) { b = Neg(x) }
        >
    }
    """
    x = f32(4, 3)
    net = sl.network(sl.frontend.from_onnx(graph_of(text)), target="python", database=None)
    np.testing.assert_allclose(net(x), np.tanh(np.tanh(np.tanh(x))), rtol=1e-5)


def test_a_loop_whose_count_is_data_is_refused() -> None:
    text = LOOP.replace("agraph (float[3] x)", "agraph (float[3] x, int64 count)").replace(
        "count = Constant <value_int = 5> ()", ""
    )
    with pytest.raises(FrontendError, match=r"its number of iterations is count: int64\[\], which"):
        sl.frontend.from_onnx(graph_of(text))


def test_a_scan() -> None:
    """It goes through one input from its end, and stacks its output along the last dimension."""
    text = """
    agraph (float[3] s, float[4, 3] x, float[3, 4] z) => (float[3] last, float[3, 4] all) {
        last, all = Scan <num_scan_inputs = 2, scan_input_axes = [0, 1],
            scan_input_directions = [1, 0], scan_output_axes = [1], body = step
            (float[3] before, float[3] row, float[3] column)
            => (float[3] after, float[3] out) {
                t = Mul(before, row)
                after = Add(t, column)
                out = Sub(after, s)
            }
        > (s, x, z)
    }
    """
    s, x, z = f32(3), f32(4, 3), f32(3, 4)
    value, columns = s, []
    for k in range(4):
        value = value * x[3 - k] + z[:, k]
        columns.append(value - s)
    last, every = outputs(graph_of(text), s, x, z)
    np.testing.assert_allclose(last, value, rtol=1e-5)
    np.testing.assert_allclose(every, np.stack(columns, 1), rtol=1e-5)


def of(operator: str, *inputs: Any, note: str = "", opset: int = 22, outputs: int = 1,
       **attributes: Any) -> Case:  # fmt: skip
    return Case(operator, inputs, attributes, opset, outputs, 1e-5, note)


X = f32(3, 5)
LABELS = i64(0, 4, 2)
DEFINED = [
    of("SoftmaxCrossEntropyLoss", X, LABELS, reduction="mean"),
    of("SoftmaxCrossEntropyLoss", X, LABELS, np.abs(f32(5)), outputs=2, note="weights"),
    of("NegativeLogLikelihoodLoss", X, LABELS, reduction="none"),
    of("NegativeLogLikelihoodLoss", f32(3, 5, 2, 2), np.zeros((3, 2, 2), "int64"), ignore_index=0),
    of("LayerNormalization", X, f32(5, seed=1), outputs=3, note="with mean and deviation"),
]


@pytest.mark.parametrize("case", DEFINED, ids=str)
def test_operators_by_their_definitions(case: Case) -> None:
    check(case)


def test_an_attribute_that_a_definition_does_not_have_is_refused() -> None:
    x, y = (helper.make_tensor_value_info(n, FLOAT, (2, 3)) for n in "xy")
    node = helper.make_node("SoftmaxCrossEntropyLoss", ["x", "l"], ["y"], reductoin="mean")
    labels = numpy_helper.from_array(np.array([0, 1]), "l")
    graph = helper.make_graph([node], "g", [x], [y], [labels])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    with pytest.raises(FrontendError, match="reductoin"):
        sl.frontend.from_onnx(model)


SCAN = """
agraph (float[3] s, float[{rows}] x) => (float[3] y) {{
    y = Scan <num_scan_inputs = 1, {more} body = step
        (float[3] v, float r) => (float[3] w) {{ w = Add(v, r) }}
    > (s, x)
}}
"""
ENDLESS = """
agraph (float[3] x) => (float[3] y) {
    count = Constant <value_int = 9223372036854775807> ()
    on = Constant <value = bool {1}> ()
    y = Loop (count, on, x) <body = step (int64 k, bool g, float[3] v) => (bool g, float[3] v) {}>
}
"""
GROWING = """
agraph (float[3] x) => (float[N] z, float[K, N] y) {
    count = Constant <value_int = 3> ()
    on = Constant <value = bool {1}> ()
    z, y = Loop (count, on, x) <body = step
        (int64 k, bool g, float[N] v) => (bool g, float[N] w, float[N] row) {
            w = Concat <axis = 0> (v, v)
            row = Identity(w)
        }
    >
}
"""


@pytest.mark.parametrize(("text", "words"), [
    (ENDLESS, "Loop node .*: loops compute more than 10,000 nodes"),
    (SCAN.format(rows=8_000_000_000, more=""), "Scan node .*: it repeats 8,000,000,000 times"),
    (SCAN.format(rows=4, more="scan_input_axes = 3,"), "Scan node .*: its axes or directions"),
    (SCAN.format(rows=4, more="scan_input_axes = [7],"), "Scan node .*axis=7 is out of range"),
    (GROWING, r"Loop node .*\n.*all shapes must be equal"),
], ids=["endless", "long", "axes", "axis", "growing"])  # fmt: skip
def test_loops_that_are_refused(text: str, words: str) -> None:
    with pytest.raises(FrontendError, match=words):
        sl.frontend.from_onnx(graph_of(text))


def test_a_loop_stacks_a_value_that_is_known_at_first() -> None:
    text = """
    agraph (float[3] x) => (float[3] last, float[K, 3] all) {
        count = Constant <value_int = 3> ()
        on = Constant <value = bool {1}> ()
        zero = Constant <value = float[3] {0.0, 0.0, 0.0}> ()
        last, all = Loop (count, on, zero) <body = step
            (int64 k, bool g, float[3] v) => (bool goes, float[3] w, float[3] row) {
                goes = Identity(g)
                w = Add(v, x)
                row = Identity(v)
            }
        >
    }
    """
    x = f32(3)
    last, every = outputs(graph_of(text), x)
    np.testing.assert_allclose(last, 3 * x, rtol=1e-6)
    np.testing.assert_allclose(every, np.stack([0 * x, x, 2 * x]), rtol=1e-6)


def test_iterations_share_the_weights_of_a_body() -> None:
    text = LOOP.replace("after = Add(scaled, number)", "t = Add(scaled, number) after = Add(t, w)")
    text = text.replace("float[3] row) {", "float[3] row) <float[3] w = {1.0, 2.0, 3.0}> {")
    imported = sl.frontend.from_onnx(graph_of(text))
    assert len([a for a in imported.params.values() if a.tolist() == [1, 2, 3]]) == 1
    value = f32(3)
    x = value
    for k in range(5):
        value = value * np.float32(0.5) + np.float32(k) + np.array([1, 2, 3], "float32")
    np.testing.assert_allclose(imported.reference(x)[0], value, rtol=1e-5)


@pytest.mark.parametrize("kind", ["graph", "empty list"])
def test_attributes_that_no_definition_has_are_refused(kind: str) -> None:
    x, y, q = (helper.make_tensor_value_info(n, FLOAT, (2, 3)) for n in "xyq")
    node = helper.make_node("SoftmaxCrossEntropyLoss", ["x", "l"], ["y"], name="loss")
    body = helper.make_graph([helper.make_node("Neg", ["x"], ["q"])], "body", [], [q])
    node.attribute.append(
        helper.make_attribute("more", body)
        if kind == "graph"
        else helper.make_attribute("more", [], attr_type=AttributeProto.INTS)
    )
    labels = numpy_helper.from_array(np.array([0, 1]), "l")
    graph = helper.make_graph([node], "g", [x], [y], [labels])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    with pytest.raises(FrontendError, match="SoftmaxCrossEntropyLoss node 'loss': one of its att"):
        sl.frontend.from_onnx(model)
