"""Models of one quantized layer, in the forms that ONNX's quantizers write."""

from __future__ import annotations

from typing import Any

import numpy as np

KINDS = {"float32": 1, "uint8": 2, "int8": 3}


def layer(
    data: str = "uint8",
    weights: str = "int8",
    shape: tuple[int, ...] = (1, 16, 9, 8),
    kernel: tuple[int, ...] = (32, 16, 3, 3),
    relu: bool = True,
    channels: bool = True,
    bias: bool = True,
    weight_zero: int | None = None,
    **attributes: Any,
) -> Any:
    """Return a model that quantizes its input, and computes a layer of dequantized values.

    ``data`` and ``weights`` are the dtypes of the integers. The layer is a convolution, or a
    product of matrices for a ``kernel`` of two dimensions. ``channels`` says whether weights have
    a scale for each output channel, ``weight_zero`` is their zero point.
    """
    from onnx import helper

    rng, matrix = np.random.default_rng(len(shape)), len(kernel) == 2
    axis = 1 if matrix else 0
    outputs = kernel[axis]
    zero = weight_zero if weight_zero is not None else 0 if weights == "int8" else 128
    drawn = rng.integers(-127, 128, kernel) + (0 if weights == "int8" else 128)
    scales = rng.uniform(0.001, 0.02, outputs if channels else ()).astype("float32")
    known = {
        "sx": np.float32(0.0213),
        "zx": np.array(120 if data == "uint8" else -9, data),
        "w": drawn.astype(weights),
        "sw": scales,
        "zw": np.full(scales.shape, zero, weights),
        "b": rng.integers(-3000, 3000, outputs).astype("int32"),
        "sb": np.float32(0.0213) * scales,
        "sy": np.float32(0.217),
        "zy": np.array(7, data),
    }
    node = helper.make_node
    nodes = [
        node("QuantizeLinear", ["x", "sx", "zx"], ["q"]),
        node("DequantizeLinear", ["q", "sx", "zx"], ["d"]),
        node("DequantizeLinear", ["w", "sw", "zw"], ["dw"], axis=axis),
    ]
    given = ["d", "dw"]
    if bias:
        nodes.append(node("DequantizeLinear", ["b", "sb"], ["db"], axis=0))
        given.append("db")
    kind = ("Gemm" if bias else "MatMul") if matrix else "Conv"
    nodes.append(node(kind, given, ["c"], "layer", **attributes))
    if relu:
        nodes.append(node("Relu", ["c"], ["r"]))
    nodes.append(node("QuantizeLinear", ["r" if relu else "c", "sy", "zy"], ["y"]))
    return model(nodes, known, shape, data)


def model(nodes: list[Any], known: dict[str, Any], shape: tuple[int, ...], result: str) -> Any:
    """Return a model from ``x``, floats of a shape, to ``y``, of dtype ``result``."""
    from onnx import helper, numpy_helper

    graph = helper.make_graph(
        nodes, "quantized",
        [helper.make_tensor_value_info("x", KINDS["float32"], shape)],
        [helper.make_tensor_value_info("y", KINDS[result], None)],
        [numpy_helper.from_array(np.asarray(v), name) for name, v in known.items()],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 21)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)
