"""Imports by ``from_onnx``: names, parameters, sizes, shape arithmetic, the table."""

from __future__ import annotations

import inspect
import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import FrontendError, SchedlangError
from schedlang.frontend.node_stages import Stages
from tests.onnx_cases import f32

onnx = pytest.importorskip("onnx", reason="imports ONNX models: the extra onnx")
helper, numpy_helper = onnx.helper, onnx.numpy_helper


def value(name: str, shape: Any, dtype: str = "float32") -> Any:
    return helper.make_tensor_value_info(
        name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape
    )


def model(nodes: list[Any], inputs: list[Any], outputs: list[Any], opset: int = 21,
          **weights: Any) -> Any:  # fmt: skip
    graph = helper.make_graph(
        nodes, "graph", inputs, outputs,
        [numpy_helper.from_array(np.asarray(v), k) for k, v in weights.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def node(operator: str, inputs: str, outputs: str, name: str = "", **attributes: Any) -> Any:
    given = ["" if word == "-" else word for word in inputs.split()]
    return helper.make_node(operator, given, outputs.split(), name, **attributes)


def classifier() -> Any:
    """Return a convolution, an activation and a product, with names as PyTorch writes them."""
    return model(
        [node("Conv", "input.1 conv.weight conv.bias", "/conv/Conv_output_0", "/conv/Conv",
              pads=[1, 1, 1, 1]),
         node("Relu", "/conv/Conv_output_0", "r", "/Relu"),
         node("Flatten", "r", "f", "/Flatten"),
         node("Gemm", "f fc.weight fc.bias", "logits", "/fc/Gemm", transB=1)],
        [value("input.1", (1, 2, 4, 4))], [value("logits", (1, 3))],
        **{"conv.weight": f32(2, 2, 3, 3), "conv.bias": np.float32([np.nan, 1.5]),
           "fc.weight": f32(3, 32), "fc.bias": f32(3)},
    )  # fmt: skip


def test_names_and_layers_are_those_of_the_nodes() -> None:
    found = sl.frontend.from_onnx(classifier())
    assert str(found) == (
        "input_1: float32[1, 2, 4, 4] -> logits: float32[1, 3]; 4 parameters, 548 B"
    )
    assert found.layers == {
        "conv_Conv.pad_temp": "/conv/Conv", "conv_Conv": "/conv/Conv",
        "conv_Conv.bias": "/conv/Conv", "Relu": "/Relu", "Flatten": "/Flatten",
        "fc_Gemm": "/fc/Gemm", "logits": "/fc/Gemm",
    }  # fmt: skip


def test_weights_keep_dtype_and_values() -> None:
    given = classifier()
    found = sl.frontend.from_onnx(given)
    arrays = {t.name: array for t, array in found.params.items()}
    for tensor in given.graph.initializer:
        array = arrays[tensor.name.replace(".", "_")]
        np.testing.assert_array_equal(array, numpy_helper.to_array(tensor))
        assert array.dtype == "float32" and array.flags.writeable
    # what is computed is NaN in the channel of the NaN bias, and so everywhere after
    assert np.isnan(found.reference(f32(1, 2, 4, 4))).all()


def test_models_come_from_paths_bytes_and_objects(tmp_path: Path) -> None:
    given = classifier()
    path = tmp_path / "model.onnx"
    onnx.save(given, path)
    for each in (given, given.SerializeToString(), path, str(path), memoryview(path.read_bytes())):
        assert str(sl.frontend.from_onnx(each)) == str(sl.frontend.from_onnx(given))
    assert pickle.loads(pickle.dumps(sl.frontend.from_onnx(given).outputs))


def test_weights_of_every_dtype_are_read() -> None:
    rng = np.random.default_rng(0)
    for dtype in ("float32", "float64", "float16", "int8", "int16", "int32", "int64", "uint8",
                  "uint16", "uint32", "uint64", "bool", "complex64", "complex128"):  # fmt: skip
        array = (rng.standard_normal((2, 3)) * 50).astype(dtype)
        number = helper.np_dtype_to_tensor_dtype(array.dtype)
        flat = array.ravel().tolist()
        raw = numpy_helper.from_array(array, "w")
        listed = helper.make_tensor("w", number, array.shape, flat)
        for tensor in (raw, listed):
            graph = helper.make_graph([node("Identity", "w", "y")], "g", [],
                                      [value("y", (2, 3), dtype)], [tensor])  # fmt: skip
            found = sl.frontend.from_onnx(helper.make_model(graph))
            ((_, kept),) = found.params.items()
            assert kept.dtype == dtype
            np.testing.assert_array_equal(kept, array)


def test_bfloat16_weights_are_read() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    array = np.array([1.5, -2.25, np.inf], ml_dtypes.bfloat16)
    for tensor in (numpy_helper.from_array(array, "w"),
                   helper.make_tensor("w", 16, [3], [1.5, -2.25, np.inf])):  # fmt: skip
        graph = helper.make_graph([node("Cast", "w", "y", to=1)], "g", [], [value("y", (3,))],
            [tensor])
        found = sl.frontend.from_onnx(helper.make_model(graph))
        np.testing.assert_array_equal(found.reference(), [1.5, -2.25, np.inf])


def test_a_weight_that_several_nodes_read_is_one_parameter() -> None:
    given = model(
        [node("Add", "x w", "a"), node("Mul", "a w", "b"), node("Add", "b one", "y")],
        [value("x", (3,))], [value("y", (3,))], w=f32(3), one=np.float32(1),
    )  # fmt: skip
    found = sl.frontend.from_onnx(given)
    # a number is part of the expression
    assert [t.name for t in found.params] == ["w"]
    assert found.outputs[0].op.name == "y" and found.layers["y"] == "Add_2"


def classic(operator: str, x: str, y: str, name: str, **attributes: Any) -> Any:
    return helper.make_node(operator, [x], y.split(), name, domain="ai.onnx.ml", **attributes)


def results_of(
    nodes: list[Any], *outputs: str, dtype: str = "float32", **weights: Any
) -> list[Any]:
    """Return what the import of classic nodes computes, after comparing it with ONNX's own."""
    from onnx.reference import ReferenceEvaluator

    given = model(nodes, [value("x", (1, 2))], [value(y, None, dtype) for y in outputs], **weights)
    given.opset_import.append(helper.make_opsetid("ai.onnx.ml", 1))
    x = np.float32([[1, 1]])
    found = sl.frontend.from_onnx(given).reference(x)
    for own, wanted in zip(found, ReferenceEvaluator(given).run(None, {"x": x}), strict=True):
        np.testing.assert_allclose(own, wanted)
    return [np.asarray(y).ravel().tolist() for y in found]


def test_nodes_of_one_name_have_their_own_parameters() -> None:
    """ONNX asks for distinct names of values, not of nodes."""
    lines = [
        classic("LinearRegressor", "x", f"y{k}", "lin", coefficients=[1.0 * k, 2.0 * k],
                intercepts=[0.5 * k])
        for k in (1, 10)
    ]  # fmt: skip
    assert results_of(lines, "y1", "y10") == [[3.5], [35.0]]
    scalers = [
        classic("Scaler", "x", f"y{k}", "s", scale=[1.0 * k, 2.0 * k], offset=[0.5 * k, 0.0])
        for k in (1, 10)
    ]
    assert results_of(scalers, "y1", "y10") == [[0.5, 2.0], [-40.0, 20.0]]
    classifiers = [
        classic("LinearClassifier", "x", f"y{k} z{k}", "c", coefficients=[1.0] * 6,
                classlabels_ints=[k, k + 1, k + 2], intercepts=[0.0, 1.0, 0.0])
        for k in (1, 10)
    ]  # fmt: skip
    assert results_of(classifiers, "y1", "y10", dtype="int64") == [[2], [11]]


def test_parameters_of_a_node_are_not_the_initializer_of_that_name() -> None:
    nodes = [node("Add", "x fc.weight", "y"),
             classic("LinearRegressor", "x", "z", "fc", coefficients=[10.0, 20.0],
                     intercepts=[0.0])]  # fmt: skip
    wanted = [[2.0, 3.0], [30.0]]
    assert results_of(nodes, "y", "z", **{"fc.weight": np.float32([[1, 2]])}) == wanted


def test_inputs_weights_and_copies_may_be_outputs() -> None:
    given = model(
        [node("Identity", "x", "same"), node("Relu", "x", "y"), node("Identity", "y", "again")],
        [value("x", (3,))],
        [value("x", (3,)), value("w", (2,)), value("y", (3,)), value("again", (3,))], w=f32(2),
    )  # fmt: skip
    found = sl.frontend.from_onnx(given)
    assert [t.name for t in found.outputs] == ["x_1", "w", "y"] and found.structure == (0, 1, 2, 2)
    assert [t.name for t in found.params] == ["w_1"]
    x = np.float32([-1, 0, 2])
    for got, wanted in zip(found.reference(x), (x, f32(2), np.maximum(x, 0), np.maximum(x, 0))):
        np.testing.assert_array_equal(got, wanted)


def test_nodes_without_use_are_left_out() -> None:
    given = model([node("TopK", "x k", "v i"), node("Relu", "x", "y")], [value("x", (3,))],
                  [value("y", (3,))], k=np.array([1]))  # fmt: skip
    assert sl.frontend.from_onnx(given).layers == {"y": "Relu_1"}


def test_names_in_use_get_numbers() -> None:
    given = model([node("Relu", "x", "a", "x"), node("Exp", "a", "b", "class"),
        node("Neg", "b", "y", "7")],
                  [value("x", (3,))], [value("y", (3,))])  # fmt: skip
    assert sl.frontend.from_onnx(given).layers == {"x_1": "x", "class_": "class", "y": "7"}


def named_outputs() -> Any:
    """Return two products with outputs of odd names, one also a node's and one a weight's."""
    return model(
        [node("Gemm", "IN__0 w1 b1", "h", "OUT__0", transB=1), node("Relu", "h", "hidden:0"),
         node("Gemm", "hidden:0 w2 b2", "OUT__0", "fc2", transB=1), node("Neg", "OUT__0", "if")],
        [value("IN__0", (2, 8))],
        [value("OUT__0", (2, 4)), value("hidden:0", (2, 16)), value("if", (2, 4))],
        w1=f32(16, 8), b1=f32(16), w2=f32(4, 16), b2=f32(4),
    )  # fmt: skip


def test_outputs_have_the_names_of_the_file() -> None:
    found = sl.frontend.from_onnx(named_outputs())
    names = ["OUT__0", "hidden_0", "if_"]
    assert [t.name for t in found.inputs] == ["IN__0"]
    assert [t.name for t in found.outputs] == names
    assert found.layers == {
        "OUT_0": "OUT__0", "OUT_0.bias": "OUT__0", "hidden_0": "Relu_1", "fc2": "fc2",
        "OUT__0": "fc2", "if_": "Neg_3",
    }  # fmt: skip
    net = sl.network(found, target="python")
    assert [t.name for t in net.outputs] == names
    assert [p.name for p in net.module.signature.outputs] == names
    assert "-> OUT__0: float32[2, 4], hidden_0: float32[2, 16], if_: float32[2, 4]" in net.source
    x = f32(2, 8)
    out = [np.empty(t.shape, "float32") for t in net.outputs]
    net(x, OUT__0=out[0], hidden_0=out[1], if_=out[2])
    for got, wanted in zip(out, found.reference(x)):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)
    with pytest.raises(SchedlangError, match="give an array for each: OUT__0, hidden_0, if_"):
        net(x, out=out[:2])


def test_names_that_python_gives_to_methods() -> None:
    found = sl.frontend.from_onnx(
        model([node("Neg", "args", "self")], [value("args", (3,))], [value("self", (3,))])
    )
    net, x = sl.network(found, target="python"), f32(3)
    kernel = sl.build(sl.schedule(found.outputs[0]), target="python")
    for call in (net, net.module, kernel, sl.reference(found.outputs[0])):
        np.testing.assert_array_equal(call(args=x), -x)
    out = np.zeros(3, "float32")
    net(x, self=out)
    np.testing.assert_array_equal(out, -x)


@pytest.mark.parametrize("nodes", [
    [node("Conv", "x w", "y", "conv", pads=[1, 1, 1, 1])],
    [node("Conv", "x w", "c", "conv"), node("Flatten", "c", "y", "flat")],
    [node("Conv", "x w", "c", "conv"), node("Shape", "c", "y")],
])  # fmt: skip
def test_an_output_keeps_its_name_in_other_layouts(nodes: list[Any]) -> None:
    given = model(nodes, [value("x", (1, 32, 8, 8))], [value("y", None)], w=f32(32, 32, 3, 3))
    given.graph.output[0].type.tensor_type.elem_type = 0
    net = sl.network(sl.frontend.from_onnx(given))
    assert [p.name for p in net.module.signature.outputs] == ["y"]


def test_states_of_a_scan_have_the_names_of_the_outputs() -> None:
    given = model(
        [node("LSTM", "x w r", "rows last state", "lstm", hidden_size=4)],
        [value("x", (5, 2, 3))], [value(name, None) for name in ("rows", "last", "state")],
        w=f32(1, 16, 3), r=f32(1, 16, 4),
    )  # fmt: skip
    found = sl.frontend.from_onnx(given)
    assert [t.name for t in found.outputs] == ["rows", "last", "state"]
    assert {found.layers[name] for name in ("rows", "last", "state")} == {"lstm"}


def test_one_of_several_results_is_copied_under_the_name_of_the_output() -> None:
    A = sl.placeholder((3,), name="A")
    pair = sl.compute((3,), lambda i: (A[i] + 1, A[i] * 2), name="pair")
    stages = Stages([A])
    stages.name(pair, "pair", "twice")
    first, second = (stages.rename(t, name) for t, name in zip(pair, ("more", "double")))
    assert (first.name, second.name, stages.layers["double"]) == ("more", "double", "twice")
    got = sl.reference([first, second])(np.ones(3, "float32"))
    assert [a.tolist() for a in got] == [[2, 2, 2], [2, 2, 2]]


# sizes


def reshaped() -> Any:
    """Return a model that flattens by arithmetic on the shape, as PyTorch writes it."""
    return model(
        [node("Shape", "x", "s"), node("Gather", "s zero", "n"), node("Unsqueeze", "n axis", "n1"),
         node("Concat", "n1 rest", "shape", axis=0), node("Reshape", "x shape", "f"),
         node("MatMul", "f w", "y")],
        [value("x", ("batch", 2, 3))], [value("y", ("batch", 4))], zero=np.int64(0),
        axis=np.array([0]), rest=np.array([-1]), w=f32(6, 4),
    )  # fmt: skip


def test_symbolic_sizes_pass_through_shape_arithmetic() -> None:
    batch = sl.var("batch")
    found = sl.frontend.from_onnx(reshaped(), shapes={"batch": batch})
    assert found.inputs[0].shape == (batch, 2, 3) and found.outputs[0].shape == (batch, 4)
    for count in (0, 1, 5):
        x = f32(count, 2, 3)
        np.testing.assert_allclose(found.reference(x), x.reshape(count, 6) @ f32(6, 4), rtol=1e-5,
                                   atol=1e-6)  # fmt: skip
    kernel = sl.build(sl.schedule(found.outputs[0]), target="python")
    (w,) = found.params.values()
    x = f32(3, 2, 3)
    np.testing.assert_allclose(kernel(x, w), x.reshape(3, 6) @ w, rtol=1e-5, atol=1e-6)


def test_arithmetic_on_symbolic_sizes() -> None:
    n = sl.var("n")
    nodes = [
        node("Shape", "x", "s"), node("Slice", "s one two", "c"), node("Slice", "s zero one", "r"),
        node("Mul", "r c", "all"), node("Div", "all c", "rows"), node("Mod", "all c", "none"),
        node("Add", "none c", "c2"), node("Sub", "c2 zero", "c3"), node("Max", "c3 one", "c4"),
        node("Equal", "c4 minus", "open"), node("Where", "open one c4", "c5"),
        node("Cast", "rows", "rows32", to=6), node("Cast", "rows32", "rows64", to=7),
        node("Concat", "rows64 c5", "both", axis=0), node("ReduceProd", "both", "count"),
        node("Concat", "one count", "flat", axis=0), node("Reshape", "x flat", "y"),
        node("Squeeze", "rows zero", "scalar"), node("Cast", "scalar", "f", to=1),
        node("Mul", "y f", "z"), node("Min", "both both", "m"), node("Neg", "m", "neg"),
    ]  # fmt: skip
    given = model(nodes, [value("x", ("n", 3))], [value("z", (1, "m")), value("neg", (2,),
        "int64")],
                  zero=np.array([0]), one=np.array([1]), two=np.array([2]), minus=np.array([-1]))
    found = sl.frontend.from_onnx(given, shapes={"n": n})
    x = f32(4, 3)
    flat, negative = found.reference(x)
    np.testing.assert_array_equal(flat, x.reshape(1, 12) * 4)
    np.testing.assert_array_equal(negative, [-4, -3])
    # with a number, all of it is known
    fixed = sl.frontend.from_onnx(given, shapes={"n": 4})
    assert fixed.outputs[0].shape == (1, 12)
    np.testing.assert_array_equal(fixed.reference(x)[1], [-4, -3])


def test_extents_that_exporters_leave_open_differ() -> None:
    """-1 and "?" are no names, so that two of them may be different."""
    given = model([node("Relu", "x", "y")], [value("x", (-1, 3, "?", "?"))], [value("y", None)])
    with pytest.raises(FrontendError, match="leaves open dimension 0 .no name. of input 'x'"):
        sl.frontend.from_onnx(given)
    imported = sl.frontend.from_onnx(given, {"x": (2, 3, 4, 5)})
    assert imported.outputs[0].shape == (2, 3, 4, 5)


@pytest.mark.parametrize(("shapes", "message"), [
    (None, r"leaves open dimension 0 'batch' of input 'x'\n.*shapes={'batch': 4} or shapes="),
    ({}, "leaves open dimension 0 'batch' of input 'x'"),
    ({"bach": 4}, "the model has no dimension 'bach'; did you mean 'batch'"),
    ({"n": 4}, "the model has no dimension 'n'; it has 'batch'\n  Its inputs: x of batch x "),
    ({"x": 4}, "the model has no dimension 'x'; it has 'batch'\n  Give an input's whole shape"),
    ({"y": (1, 2, 3)}, "the model has no input 'y'; it has 'x'"),
    ({"x": (4, 2)}, "the input has 3 dimensions in the model, not 2"),
    ({"x": (4, 2, 5)}, "dimension 2 is 3 in the model"),
    ({"x": (4, 2, 3), "batch": 5}, "dimension 0 is 'batch', given as 5"),
    ({"batch": -1}, "an extent must be 0 or more"),
    ({"batch": 2.5}, "must be an integer or a size"),
    ({"batch": True}, "must be an integer or a size"),
    ({"batch": "4"}, "must be an integer or a size"),
    ([4], r"from_onnx\(shapes=\[4\]\): it is a list"),
    ({"batch": 2**40}, r"more than 2\*\*33 elements"),
])  # fmt: skip
def test_sizes_that_do_not_fit_are_refused(shapes: Any, message: str) -> None:
    with pytest.raises(FrontendError, match=message):
        sl.frontend.from_onnx(reshaped(), shapes=shapes)


def test_shapes_of_inputs_that_name_no_dimension() -> None:
    given = model([node("Add", "x y", "z")], [value("x", (None, 3)), value("y", None)],
                  [value("z", None)])  # fmt: skip
    with pytest.raises(FrontendError,
        match=r"dimension 0 \(no name\) of input 'x' and the shape of inp"):
        sl.frontend.from_onnx(given)
    with pytest.raises(FrontendError,
        match="no dimension 'batch'; none has a name\n  Its inputs: x of None x 3, y of any shape"):
        sl.frontend.from_onnx(given, shapes={"batch": 2})
    found = sl.frontend.from_onnx(given, shapes={"x": (2, 3), "y": [3]})
    assert found.outputs[0].shape == (2, 3)
    with pytest.raises(FrontendError, match=r"Add node(.|\n)* do not broadcast"):
        sl.frontend.from_onnx(given, shapes={"x": (2, 3), "y": (4,)})


def test_a_whole_shape_binds_the_names_of_its_dimensions() -> None:
    given = model([node("Add", "x y", "z")], [value("x", ("n", "m")), value("y", ("m",))],
                  [value("z", ("n", "m"))])  # fmt: skip
    found = sl.frontend.from_onnx(given, shapes={"x": (2, 3)})
    assert [t.shape for t in found.inputs] == [(2, 3), (3,)]


def test_initializers_among_the_inputs_are_weights() -> None:
    """Before IR version 4, every initializer was an input, too."""
    given = model([node("Add", "x w", "y")], [value("x", (3,)), value("w", (3,))],
        [value("y", (3,))],
                  w=f32(3))  # fmt: skip
    found = sl.frontend.from_onnx(given)
    assert [t.name for t in found.inputs] == ["x"] and [t.name for t in found.params] == ["w"]


# operators


@pytest.mark.parametrize(("nodes", "message"), [
    ([node("NonMaxSuppression", "x x", "y", "nms")],
        "NonMaxSuppression node 'nms': it sorts.*\n  Export the model up to"),
    ([node("NonZero", "x", "y", "nz")],
        "NonZero node 'nz': the shape of its result depends on data"),
    ([node("Reshape", "x s", "y", "view")],
     "Reshape node 'view': its input 'shape' is s: int64.2., which is computed when the network"),
    ([node("BatchNormalization", "x4 a a a a", "y mean", "bn")],
        "its outputs running_mean and running_var are not supp"),
    ([node("BatchNormalization", "x4 a a a a", "y", "bn", training_mode=1)],
        "it is in training mode"),
    ([node("Dropout", "x p t", "y", "drop")], "Dropout node 'drop': it is in training mode"),
    ([node("Conv", "x4 w", "y", "conv", group=3)],
        "Conv node 'conv': it has no form here\n  topi.nn"),
    ([node("Conv", "x4 w", "y", "conv", pads=[0, -1, 0, 0])],
        "'pads' is .*, with a negative width"),
    ([node("Conv", "x4 w", "y", "conv", pads=[0, 1])], "'pads' has 2 numbers, but needs 4"),
    ([node("Conv", "x4 w", "y", "conv", strides=[0, 1])],
        "strides and dilations must be 1 or more"),
    ([node("Conv", "x4 w", "y", "conv", auto_pad="SAME")],
        "'auto_pad' is 'SAME', which is unknown"),
    ([node("Conv", "x4 w", "y", "conv", kernel_shape=[5, 5])],
        "'kernel_shape' is .5, 5., but its wei"),
    ([node("Cast", "x", "y", "cast", to=8)],
        "Cast node 'cast': its attribute 'to': .* type string"),
    ([node("Sin", "k", "y", "sin")],
        "Sin node 'sin': its input is int64, but the operator computes"),
    ([node("Gather", "x far", "y", "g")],
        "Gather node 'g': its index 9 is out of range for 3 elem"),
    ([node("Split", "x", "y z", "split")], "3 elements do not divide into 2 equal parts"),
    ([node("Resize", "x - scales", "y", "r", mode="area")],
        "'mode' is 'area', which has no form here"),
    ([node("Resize", "x - scales", "y", "r", coordinate_transformation_mode="sideways")],
     "'sideways', which has no form here\n  The modes with a form are half_pixel"),
    ([node("Constant", "", "y", "c", value_string="a")],
        "Constant node 'c': its value is a string"),
    ([node("Transpose", "x", "y", "t", perm=[0, 0, 1])], "Transpose node 't': it has no form here"),
    ([node("Reshape", "x five", "y", "view")], "Reshape node 'view': it has no form here"),
    ([node("Pad", "x five", "y", "pad")], "its pads are 1 widths, but must be 2"),
    ([node("Concat", "five x", "y", "cat", axis=0)],
        "Concat node 'cat': its inputs are int64 and floa"),
    ([node("Div", "five none", "y", "div")], "Div node 'div': .*a division by 0"),
    ([node("Reshape", "five many", "y", "view")],
        "Reshape node 'view': it does not fit its inputs"),
    ([node("Softmax", "x", "y", "soft", axis=3)], "Softmax node 'soft': it has no form here"),
])  # fmt: skip
def test_what_has_no_form_is_refused_by_node_and_operator(nodes: list[Any], message: str) -> None:
    inputs = [value("x", (3,)), value("x4", (1, 2, 4, 4)), value("s", (2,), "int64")]
    given = model(
        nodes, inputs, [value("y", None)], w=f32(2, 2, 3, 3), a=f32(2), k=np.array([1]),
        p=np.float32(0.5), t=np.array(True), far=np.array(9), scales=np.float32([2]),
        five=np.array([5]), none=np.array([0]), many=np.array([2, 2]),
    )  # fmt: skip
    given.graph.output[0].type.tensor_type.elem_type = 0
    with pytest.raises(FrontendError, match=message):
        sl.frontend.from_onnx(given)


def test_the_tables_are_those_of_onnx() -> None:
    """Each operator has an entry for each opset in which it changed, with inputs and attributes."""
    from schedlang.frontend.onnx.checked import OPSETS
    from schedlang.frontend.onnx.operators import TABLES, refused

    schemas: dict[Any, dict[int, Any]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        schemas.setdefault((schema.domain, schema.name), {})[schema.since_version] = schema
    if onnx.defs.onnx_opset_version() < OPSETS[""][1]:
        pytest.skip("this version of onnx does not know the newest opset of the tables")
    # inputs that came in a later opset, defaults that are written out in the function, and lists
    optional = {"Resize": {1, 2}, "Gemm": {2}, "Pad": {3}, "Attention": {6}}
    own = {"Clip": {"min", "max"}, "Constant": {"value"}, "MeanVarianceNormalization": {"axes"},
           "RNN": {"activations"}}  # fmt: skip
    for domain, table in TABLES.items():
        oldest, newest = OPSETS[domain]
        for operator, versions in table.items():
            assert operator not in refused.REASONS
            changed = [v for v in schemas[domain, operator] if v <= newest]
            first = max((v for v in changed if v <= oldest), default=min(changed))
            assert set(versions) == {v for v in changed if v >= first}, operator
            for version, function in versions.items():
                schema = schemas[domain, operator][version]
                given = list(inspect.signature(function).parameters.values())[1:]
                inputs = [p for p in given if p.kind is not p.KEYWORD_ONLY]
                attributes = {p.name: p for p in given if p.kind is p.KEYWORD_ONLY}
                for k, parameter in enumerate(inputs[: len(schema.inputs)]):
                    is_optional = str(schema.inputs[k].option).endswith("Optional")
                    if k not in optional.get(operator, ()):
                        assert is_optional == (parameter.default is None), (operator, version, k)
                later = range(len(schema.inputs), len(inputs))
                assert set(later) <= optional.get(operator, set()), (operator, version)
                assert len(inputs) >= len(schema.inputs), (operator, version)
                missing = set(schema.attributes) - set(attributes)
                assert missing <= {"sparse_value"}, (operator, version, missing)
                for name, parameter in attributes.items():
                    attribute = schema.attributes.get(name)
                    if attribute is None or name in own.get(operator, ()):
                        continue
                    assert attribute.required == (parameter.default is parameter.empty)
                    if attribute.default_value.type:
                        default = helper.get_attribute_value(attribute.default_value)
                        default = default.decode() if isinstance(default, bytes) else default
                        assert parameter.default == default, (operator, version, name)


def test_the_page_lists_the_operators() -> None:
    from schedlang.frontend.onnx.operators import TABLES

    docs = Path(__file__).parent.parent / "docs"
    page = (docs / "reference" / "importers.md").read_text("utf-8")
    section = page[page.index("### Operators of ONNX") :]
    rows = [line for line in section.splitlines() if line.startswith("| ")]
    listed = sorted(name for row in rows for name in re.findall(r"`([A-Z]\w*)`", row))
    assert listed == sorted(name for table in TABLES.values() for name in table)


def test_every_reason_names_an_operator_of_onnx() -> None:
    from schedlang.frontend.onnx.operators import refused

    known = {schema.name for schema in onnx.defs.get_all_schemas_with_history()}
    assert set(refused.REASONS) <= known


def test_onnx_is_imported_when_a_model_is_and_its_absence_is_explained(tmp_path: Path) -> None:
    script = (
        "import sys, schedlang as sl\n"
        "sl.frontend.from_onnx\n"
        "assert 'onnx' not in sys.modules\n"
        "sys.modules['onnx'] = None\n"
        "try:\n    sl.frontend.from_onnx('m.onnx')\n"
        "except sl.errors.MissingExtraError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.strip() == (
        'schedlang.frontend.from_onnx needs onnx: pip install "schedlang[onnx]" installs it.'
    ), done.stderr
