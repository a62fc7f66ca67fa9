"""Networks of quantized values: exact sums of integers, rescaled, beside floats and NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.compute.graph import operations, placeholders
from schedlang.compute.tensor import ComputeOp, Tensor
from schedlang.errors import FrontendError
from schedlang.networks.integers import integer_sums
from tests.onnx_cases import expected_of, f32
from tests.quantized_models import layer, model

onnx = pytest.importorskip("onnx", reason="imports ONNX models: the extra onnx")
DOT = ("uint8", "int8", "int32")
LAYERS = {
    "plain": {},
    "int8": {"data": "int8"},
    "uint8-weights": {"weights": "uint8"},
    "padded": {"pads": [1, 0, 2, 1]},
    "int8-padded": {"data": "int8", "pads": [1] * 4, "strides": [2, 1]},
    "dilated": {"pads": [2] * 4, "dilations": [2, 1]},
    "groups": {"kernel": (32, 4, 3, 3), "group": 4},
    "depthwise": {"kernel": (16, 1, 3, 3), "group": 16, "pads": [1] * 4},
    "number": {"channels": False, "bias": False, "relu": False},
    "row": {"shape": (2, 5, 11), "kernel": (7, 5, 3)},
    "odd": {"shape": (3, 7, 5, 5), "kernel": (13, 7, 2, 3)},
    "matrix": {"shape": (5, 19), "kernel": (19, 13)},
    "matrix-int8": {"shape": (5, 19), "kernel": (19, 13), "data": "int8", "bias": False},
}


def operands(outputs: Sequence[Tensor], name: str) -> tuple[str, ...]:
    """Return the dtypes of what a stage reads, and the dtype of its sum."""
    (op,) = (op for op in operations(outputs) if op.name == name)
    assert isinstance(op, ComputeOp) and op.reducer is not None
    return (*(t.dtype for t in op.input_tensors), op.outputs[0].dtype)


def rewritten(imported: Any) -> tuple[tuple[Tensor, ...], list[str]]:
    outputs, notes = integer_sums(imported.outputs, imported.params)
    return outputs, [note.stage for note in notes]


def run(outputs: Sequence[Tensor], imported: Any, x: np.ndarray) -> np.ndarray:
    oracle = sl.reference(list(outputs))
    result = oracle(*(imported.params.get(t, x) for t in oracle.inputs))
    return np.asarray(result[0] if isinstance(result, tuple) else result)


@pytest.mark.parametrize("options", LAYERS.values(), ids=LAYERS)
def test_a_layer_of_dequantized_values_sums_integers(options: dict[str, Any]) -> None:
    """The results are those of the floats, within one step: a float sum is rounded at each term."""
    given = layer(**options)
    imported = sl.frontend.from_onnx(given)
    x = f32(*(options.get("shape") or (1, 16, 9, 8)))
    outputs, stages = rewritten(imported)
    assert stages == ["layer"] and operands(outputs, "layer") == DOT
    own, floats = run(outputs, imported, x), run(imported.outputs, imported, x)
    assert own.dtype == floats.dtype
    difference = np.abs(own.astype(int) - floats)
    assert difference.max() <= 1 and np.mean(difference > 0) < 0.01
    (wanted,) = expected_of(given, [x])
    assert np.abs(own.astype(int) - wanted).max() <= 1


def integer_model(operator: str, data: str, weights: str, zero: int, **attributes: Any) -> Any:
    """Return a model of a product of integers, whose data are floats that it quantizes."""
    node, rng = onnx.helper.make_node, np.random.default_rng(5)
    matrix = "MatMul" in operator
    shape, kernel = ((4, 21), (21, 6)) if matrix else ((1, 5, 8, 7), (6, 5, 3, 2))
    ends = np.iinfo(weights)
    known = {
        "sx": np.float32(0.021), "zx": np.array(99 if data == "uint8" else -9, data),
        "w": rng.integers(ends.min + zero, ends.max, kernel, weights, endpoint=True),
        "sw": rng.uniform(0.001, 0.02, 6).astype("float32"), "zw": np.full(6, zero, weights),
        "sy": np.float32(0.217), "zy": np.array(5, data),
    }  # fmt: skip
    quantized = ["q", "sx", "zx", "w", "sw", "zw", "sy", "zy"]
    inputs = quantized if operator.startswith("QLinear") else ["q", "w", "zx", "zw"]
    nodes = [
        node("QuantizeLinear", ["x", "sx", "zx"], ["q"]),
        node(operator, inputs, ["y"], "layer", **attributes),
    ]
    result = model(nodes, known, shape, data)
    if not operator.startswith("QLinear"):
        result.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.INT32
    return result


@pytest.mark.parametrize("operator", ["MatMulInteger", "ConvInteger", "QLinearMatMul",
                                      "QLinearConv"])  # fmt: skip
@pytest.mark.parametrize(("data", "weights", "zero"), [
    ("uint8", "int8", 0), ("int8", "int8", 0), ("uint8", "uint8", 128), ("int8", "uint8", 127),
])  # fmt: skip
def test_an_operator_on_integers_keeps_each_bit(
    operator: str, data: str, weights: str, zero: int
) -> None:
    at = {} if "MatMul" in operator else {"pads": [1, 0, 2, 1], "strides": [1, 2]}
    imported = sl.frontend.from_onnx(integer_model(operator, data, weights, 0, **at))
    for tensor, array in imported.params.items():
        if tensor.name == "zw":
            array[...] = zero
        if tensor.name == "w" and weights == "uint8":
            # the ends fit int8 once the zero point is taken out
            array[...] = np.clip(array, zero - 128 if zero > 127 else 0, 254)
    x = f32(*imported.inputs[0].shape)
    outputs, stages = rewritten(imported)
    (name,) = stages
    assert name == ("y" if operator.endswith("Integer") else "layer")
    assert operands(outputs, name) == DOT
    np.testing.assert_array_equal(
        run(outputs, imported, x), run(imported.outputs, imported, x), strict=True
    )


REFUSED = {
    "weights that do not fit int8": {"weights": "uint8", "weight_zero": 3},
    "a sum that int32 may not hold": {"shape": (1, 66000), "kernel": (66000, 2)},
}


@pytest.mark.parametrize("options", REFUSED.values(), ids=REFUSED)
def test_other_sums_stay_as_they_are(options: dict[str, Any]) -> None:
    imported = sl.frontend.from_onnx(layer(**options))
    outputs, stages = rewritten(imported)
    assert stages == [] and list(outputs) == list(imported.outputs)


def test_a_scale_along_the_steps_stays_in_the_sum() -> None:
    x, w = sl.placeholder((2, 8), "uint8", name="x"), sl.placeholder((4, 8), "int8", name="w")
    s = sl.placeholder((8,), name="s")
    scaled = sl.topi.multiply(sl.topi.cast(x, "float32"), s)
    y = sl.topi.nn.dense(scaled, sl.topi.cast(w, "float32"))
    arrays = {w: np.ones((4, 8), "int8"), s: np.ones(8, "float32")}
    assert integer_sums([y], arrays) == ((y,), ())


def test_integers_that_are_multiplied_as_they_are_stay_so() -> None:
    x, w = sl.placeholder((2, 8), "uint8", name="x"), sl.placeholder((4, 8), "int8", name="w")
    y = sl.topi.nn.dense(x, w, out_dtype="int32")
    assert integer_sums([y], {w: np.ones((4, 8), "int8")}) == ((y,), ())


def test_data_with_a_computed_zero_point() -> None:
    """The zero point is an input: its effect is computed by each call."""
    x, w = sl.placeholder((3, 8), "uint8", name="x"), sl.placeholder((8, 4), "int8", name="w")
    zero = sl.placeholder((), "uint8", name="zero")
    centred = sl.compute(
        (3, 8), lambda i, k: x[i, k].astype("int32") - zero[()].astype("int32"), name="centred"
    )
    y = sl.topi.nn.matmul(centred, sl.topi.cast(w, "int32"))
    rng = np.random.default_rng(0)
    weights = rng.integers(-128, 128, (8, 4), "int8")
    net = sl.network(y, {w: weights}, database=None)
    data, point = rng.integers(0, 256, (3, 8), "uint8"), np.array(77, "uint8")
    expected = (data.astype("int32") - 77) @ weights.astype("int32")
    given = {"x": data, "zero": point}
    found = net(*(given[t.name] for t in placeholders([y]) if t.name in given))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "options",
    [
        LAYERS["int8-padded"], pytest.param(LAYERS["odd"], marks=pytest.mark.slow),
        LAYERS["matrix"],
    ],
)  # fmt: skip
def test_a_network_runs_the_integers(options: dict[str, Any]) -> None:
    given = layer(**options)
    imported = sl.frontend.from_onnx(given)
    x = f32(*imported.inputs[0].shape)
    outputs, _ = rewritten(imported)
    net = sl.network(imported, database=None)
    assert operands(net.partition.parts[-1].group.outputs, "layer") == DOT
    np.testing.assert_array_equal(net(x), run(outputs, imported, x))
    assert {*net.partition.parts[-1].layers} >= {"layer"}
    floats = sl.network(imported, fold=False, database=None)
    assert np.abs(floats(x).astype(int) - net(x)).max() <= 1


def test_the_error_against_floats_is_that_of_numpy() -> None:
    given = layer(data="int8", pads=[1] * 4, relu=False)
    known = {t.name: onnx.numpy_helper.to_array(t) for t in given.graph.initializer}
    scale = known["sw"][:, None, None, None]
    weights = {"w": known["w"] * scale, "b": known["b"].astype("float32") * known["sb"]}
    node = onnx.helper.make_node("Conv", ["x", "w", "b"], ["c"], "layer", pads=[1] * 4)
    rounded = onnx.helper.make_node("QuantizeLinear", ["c", "sy", "zy"], ["y"])
    plain = model([node, rounded], {**weights, "sy": known["sy"], "zy": known["zy"]},
                  (1, 16, 9, 8), "int8")  # fmt: skip
    floats, quantized = map(sl.frontend.from_onnx, (plain, given))
    x = f32(1, 16, 9, 8)
    error = sl.frontend.quantization_error(floats, quantized, x)
    exact, near = (
        run([op.outputs[0]], m, x)
        for m in (floats, quantized)
        for op in operations(m.outputs)
        if op.name == "layer.bias"
    )
    expected = 20 * np.log10(np.linalg.norm(exact) / np.linalg.norm(exact - near))
    assert error.layers == {"layer": pytest.approx(expected, rel=1e-4)}
    assert 20 < error.layers["layer"] < 60 and len(error.outputs) == 1
    assert str(error).splitlines()[1] == f"layer     {expected:.1f}"


def test_models_with_other_results_are_refused() -> None:
    floats = sl.frontend.from_onnx(layer(data="int8"))
    with pytest.raises(FrontendError, match="they are not one model, in floats and quantized"):
        sl.frontend.quantization_error(floats, sl.frontend.from_onnx(layer()), f32(1, 16, 9, 8))
