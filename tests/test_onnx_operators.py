"""Operators of ONNX, each in a model of its own, beside ONNX's evaluator and NumPy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.compute.graph import placeholders
from schedlang.errors import FrontendError
from schedlang.frontend.onnx.folding import COMPUTED, MOVED
from schedlang.frontend.onnx.limits import MOST_FOLDED
from tests.onnx_cases import Case, Known, check, expected_of, f32, i64, model_of, results

pytest.importorskip("onnx", reason="imports ONNX models: the extra onnx")

X = f32(2, 3, 8, 7)
V = f32(3, 5)
POSITIVE = np.abs(V) + 0.5
UNIT = np.tanh(V).astype("float32")
WHOLE = np.array([[7, -7, 3], [-8, 5, 1]], "int32")
BY = np.array([[2, 3, -2], [3, -3, 7]], "int32")
BITS = np.array([[1, 200, 7]], "uint8")
TRUE = np.array([[True], [False], [True]])
ODD = np.array([[np.nan, np.inf, -np.inf, 0.5, -1.5, 2.5, -0.0]], "float32")
WIDE = np.array([0.0, -0.0, 0.5, 1.0, 1.5, 300, 1e10, 1e20, 3e38, np.inf, np.nan])
WIDE = np.stack([WIDE, -WIDE])
SHORT = np.array([0.0, -0.5, 1.0, 1.001, 300, -300, 60000, -np.inf, np.inf, np.nan], "float16")
ENDS = np.array([-1, -1 + 2.0**-53, -1 + 2.0**-24, -0.999, -0.0, 0.999, 1, -2, 2, np.nan])
SCALE, SHIFT, MEAN = f32(3, seed=1), f32(3, seed=2), f32(3, seed=3)
VARIANCE = np.abs(f32(3, seed=4)) + 0.1


def of(operator: str, *inputs: Any, note: str = "", opset: int = 21, outputs: int = 1,
       tolerance: float = 1e-5, **attributes: Any) -> Case:  # fmt: skip
    return Case(operator, inputs, attributes, opset, outputs, tolerance, note)


ELEMENTS = [
    *(of(op, V, f32(5, seed=1)) for op in ("Add", "Sub", "Mul", "Div", "Equal", "Less", "Greater",
                                           "LessOrEqual", "GreaterOrEqual")),
    *(of(op, WHOLE, BY, note="int") for op in ("Add", "Sub", "Mul", "Mod", "BitwiseAnd",
                                               "BitwiseOr", "BitwiseXor", "Less", "Equal")),
    *(of(op, TRUE, np.array([True, False])) for op in ("And", "Or", "Xor")),
    *(of(op, V) for op in ("Abs", "Neg", "Sign", "Floor", "Ceil", "Exp", "Sin", "Cos", "Tan",
                           "Atan", "Sinh", "Cosh", "Asinh", "Erf", "Sigmoid", "Tanh", "Relu",
                           "HardSwish", "Softplus", "Softsign", "Mish", "Identity")),
    *(of(op, POSITIVE) for op in ("Log", "Sqrt", "Reciprocal")),
    *(of(op, UNIT) for op in ("Asin", "Acos", "Atanh")),
    *(of(op, WIDE.astype(dtype), note=f"wide-{dtype}") for op in ("Asinh", "Acosh")
      for dtype in ("float32", "float64")),
    *(of(op, SHORT, note="wide-float16", tolerance=1e-3) for op in ("Asinh", "Acosh")),
    *(of("Atanh", ENDS.astype(dtype), note=f"ends-{dtype}") for dtype in ("float32", "float64")),
    of("Acosh", POSITIVE + 0.5), of("Round", ODD), of("Not", TRUE), of("BitwiseNot", WHOLE),
    of("IsNaN", ODD), of("IsInf", ODD), of("IsInf", ODD, detect_negative=0, note="positive"),
    of("IsInf", ODD, detect_positive=0, note="negative"), of("Sign", ODD, note="odd"),
    of("Add", V, Known(np.float32(1.5)), note="number"),
    of("Mul", Known(np.float32([[[2.0]]])), V, note="rank"),
    of("Add", V, Known(f32(3, 1, seed=5)), note="weights"),
    of("Add", V, Known(np.float32([np.nan])), note="nan"),
    of("Mod", V, POSITIVE, fmod=1), of("Mod", WHOLE, BY, fmod=1, note="fmod-int"),
    of("Mod", V, POSITIVE, opset=28, note="float"),
    of("Pow", POSITIVE, f32(5, seed=1)), of("Pow", POSITIVE, Known(np.float32(1.7)), note="number"),
    *(of("Pow", POSITIVE, Known(np.float32(p)), note=str(p)) for p in (2, 3, 0.5, -0.5, -1, 0)),
    of("Pow", V, Known(np.int64(2)), note="int64"),
    of("Pow", WHOLE, Known(np.int32(2)), note="int"),
    of("Max", V, f32(5, seed=1), f32(3, 1, seed=2)), of("Min", V, f32(5, seed=1)),
    of("Max", V, note="one"), of("Sum", V, f32(5, seed=1), f32(1, seed=2)),
    of("Mean", V, f32(5, seed=1), f32(1, seed=2)),
    of("BitShift", BITS, np.array([[3, 2, 1]], "uint8"), direction="LEFT"),
    of("BitShift", BITS, np.array([[0, 2, 1]], "uint8"), direction="RIGHT", note="right"),
    *(of("Cast", V * 3, to=k, note=str(k)) for k in (3, 6, 7, 9, 10, 11)),
    of("Cast", WHOLE, to=1, note="int"), of("Cast", TRUE, to=7, note="bool"),
    of("CastLike", V, BITS), of("Where", TRUE, V, f32(5, seed=1)),
    of("Where", TRUE, V, Known(np.float32(-np.inf)), note="number"),
    of("Clip", V, Known(np.float32(-0.5)), Known(np.float32(0.5))),
    of("Clip", V, Known(np.float32(0.5)), Known(np.float32(-0.5)), note="crossed"),
    of("Clip", V, Known(np.float32(0.0)), note="low"),
    of("Clip", V, None, Known(np.float32(0.3)), note="high"),
    of("Clip", V, note="none"), of("Clip", V, np.array(-0.5, "float32"), note="computed"),
    of("Clip", WHOLE, Known(np.int32(-2)), Known(np.int32(4)), note="int"),
    of("Clip", V, opset=6 + 1, min=-0.5, max=0.5), of("Dropout", V),
    of("Dropout", V, opset=7, ratio=0.3),
]  # fmt: skip
ACTIVATIONS = [
    of("LeakyRelu", V), of("LeakyRelu", V, alpha=0.3, note="alpha"), of("Elu", V, alpha=0.7),
    of("Celu", V, alpha=0.7), of("Selu", V), of("Selu", V, alpha=1.5, gamma=1.2, note="both"),
    of("ThresholdedRelu", V, alpha=0.4), of("ThresholdedRelu", ODD, note="odd"),
    of("ThresholdedRelu", ODD.astype("float16"), note="half"), of("Shrink", ODD, note="odd"),
    of("HardSigmoid", V),
    of("HardSigmoid", V, alpha=0.5, beta=0.1, note="both"),
    of("PRelu", X, f32(3, 1, 1, seed=1)), of("PRelu", X, Known(np.float32(0.25)), note="number"),
    of("Gelu", V), of("Gelu", V, approximate="tanh", note="tanh"),
    of("Swish", V, opset=24), of("Swish", V, alpha=1.7, opset=24, note="alpha"),
    of("Shrink", V), of("Shrink", V, bias=0.2, lambd=0.3, note="both"),
    *(of(op, X, axis=a, note=f"axis{a}") for op in ("Softmax", "LogSoftmax", "Hardmax")
      for a in (1, -1)),
    of("Softmax", X, note="default"), of("LogSoftmax", V, axis=0),
]  # fmt: skip


def window(operator: str, *inputs: Any, **attributes: Any) -> Case:
    note = "-".join(f"{k}{v}".replace(" ", "") for k, v in attributes.items() if k != "opset")
    return of(operator, *inputs, note=note, tolerance=1e-4, **attributes)


W = f32(4, 3, 3, 2, seed=1)
CONVOLUTIONS = [
    window("Conv", X, W), window("Conv", X, W, f32(4, seed=2)),
    window("Conv", X, W, strides=[2, 1], pads=[1, 0, 2, 1], dilations=[1, 2]),
    window("Conv", X, W, auto_pad="SAME_UPPER", strides=[2, 2]),
    window("Conv", X, W, auto_pad="SAME_LOWER", strides=[3, 2]),
    window("Conv", X, W, auto_pad="VALID", kernel_shape=[3, 2]),
    window("Conv", f32(1, 4, 6, 5), f32(6, 2, 3, 3, seed=1), f32(6, seed=2), group=2, pads=[1] * 4),
    window("Conv", f32(1, 4, 6, 5), f32(4, 1, 3, 3, seed=1), group=4, strides=[2, 2]),
    window("Conv", f32(1, 4, 6, 5), f32(8, 1, 3, 3, seed=1), f32(8, seed=2), group=4),
    window("Conv", f32(2, 4, 9), f32(6, 2, 3, seed=1), f32(6, seed=2), group=2, strides=[2]),
    window("Conv", f32(1, 2, 4, 5, 3), f32(3, 2, 2, 3, 1, seed=1), pads=[1, 0, 0, 1, 2, 0]),
    window("ConvTranspose", f32(1, 3, 4, 5), f32(3, 2, 3, 2, seed=1), f32(2, seed=2)),
    window("ConvTranspose", f32(1, 3, 4, 5), f32(3, 2, 3, 3, seed=1), strides=[2, 3],
           pads=[1, 0, 0, 1], output_padding=[1, 2]),
    window("ConvTranspose", f32(1, 3, 4, 4), f32(3, 2, 3, 3, seed=1), dilations=[2, 1]),
    window("ConvTranspose", f32(1, 3, 4, 4), f32(3, 2, 3, 3, seed=1), strides=[2, 2],
           auto_pad="SAME_UPPER"),
    window("ConvTranspose", f32(1, 3, 4, 4), f32(3, 2, 3, 3, seed=1), strides=[2, 2],
           auto_pad="SAME_LOWER"),
    window("ConvTranspose", f32(2, 3, 5), f32(3, 2, 4, seed=1), strides=[3], pads=[1, 1]),
    window("ConvTranspose", f32(1, 2, 2, 3, 2), f32(2, 2, 2, 2, 2, seed=1), strides=[2, 1, 2]),
]  # fmt: skip
POOLS = [
    window("MaxPool", X, kernel_shape=[3, 2]),
    window("MaxPool", X, kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 1], dilations=[1, 2]),
    window("MaxPool", X, kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
    window("MaxPool", X, kernel_shape=[3, 3], strides=[2, 2], auto_pad="SAME_UPPER"),
    window("MaxPool", f32(2, 3, 9), kernel_shape=[4], strides=[3], pads=[2, 1]),
    window("MaxPool", f32(1, 2, 4, 5, 6), kernel_shape=[2, 3, 2], strides=[2, 1, 2]),
    window("AveragePool", X, kernel_shape=[3, 2]),
    window("AveragePool", X, kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 1]),
    window("AveragePool", X, kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 1],
           count_include_pad=1),
    window("AveragePool", X, kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
    window("AveragePool", X, kernel_shape=[3, 3], auto_pad="SAME_UPPER", strides=[2, 2]),
    window("AveragePool", f32(2, 3, 9), kernel_shape=[4], strides=[3], pads=[2, 1], opset=11),
    window("LpPool", X, kernel_shape=[3, 2], strides=[2, 2]),
    window("LpPool", X, kernel_shape=[2, 2], p=1), window("LpPool", X, kernel_shape=[2, 2], p=3),
    window("GlobalAveragePool", X), window("GlobalMaxPool", X),
    window("GlobalAveragePool", f32(2, 3, 5)),
]  # fmt: skip
PRODUCTS = [
    of("MatMul", V, f32(5, 4)), of("MatMul", f32(2, 1, 3, 5), f32(4, 5, 2), note="batches"),
    of("MatMul", f32(5), f32(5, 4), note="row"), of("MatMul", f32(2, 3, 5), f32(5), note="column"),
    of("MatMul", f32(5), f32(5, seed=1), note="vectors"),
    of("MatMul", V, Known(f32(5, 4)), note="weights"),
    *(of("Gemm", f32(*a), f32(*b), c, note=n, **at) for a, b, c, n, at in (
        ((3, 5), (5, 4), None, "two", {}),
        ((3, 5), (4, 5), f32(4, seed=1), "linear", {"transB": 1}),
        ((5, 3), (5, 4), f32(3, 1, seed=1), "column", {"transA": 1}),
        ((5, 3), (4, 5), f32(3, 4, seed=1), "both", {"transA": 1, "transB": 1, "alpha": 0.5}),
        ((3, 5), (5, 4), f32(1, seed=1), "scalars", {"alpha": 2.0, "beta": 0.25}),
        ((3, 5), (5, 4), np.full(4, np.nan, "float32"), "beta0", {"beta": 0.0}),
    )),
    of("Gemm", V, f32(5, 4), Known(np.float32(0.5)), note="number"),
    of("Einsum", f32(2, 3, 4), f32(2, 4, 5), equation="bij, bjk -> bik"),
    of("Einsum", f32(3, 3), equation="ii->i", note="diagonal"),
    of("Einsum", f32(2, 3), f32(3, 4), f32(4, 2), equation="ij,jk,kl->il", note="three"),
]  # fmt: skip
TENTH, POINTS = np.array(0.1, "float32"), np.array([3, 128, 255], "uint8")
SCALES, BLOCKS = np.float32([0.1, 0.5, 2]), np.abs(f32(2, 3, 4, 7, seed=9)) + 0.1
HALVES = np.float32([[0.5, 1.5, -0.5, -2.5, 300, -300]])
QUANTIZED = [
    of("QuantizeLinear", HALVES, np.array(1, "float32")),
    of("QuantizeLinear", X, TENTH, np.array(-3, "int8"), note="int8"),
    of("QuantizeLinear", X, Known(TENTH), Known(np.uint16(700)), note="known"),
    of("QuantizeLinear", X, SCALES, POINTS, note="channels"),
    of("QuantizeLinear", X, SCALES[:2], np.int16([0, 9]), axis=0, opset=23, note="rows"),
    of("QuantizeLinear", X, TENTH, output_dtype=5, note="int16"),
    of("QuantizeLinear", X.astype("float16"), np.array(0.1, "float16"), np.array(5, "int8"),
        note="half"),
    of("QuantizeLinear", WHOLE, np.array(2, "float32"), np.array(1, "int8"), opset=19, note="int"),
    of("QuantizeLinear", X, BLOCKS, axis=2, block_size=2, note="blocks"),
    of("QuantizeLinear", X, np.array(0.1, "float16"), precision=1, opset=23, note="precision"),
    of("DequantizeLinear", BITS, TENTH), of("DequantizeLinear", WHOLE, TENTH, note="int32"),
    of("DequantizeLinear", BITS, TENTH, np.array(128, "uint8"), note="zero"),
    of("DequantizeLinear", np.int8(X * 50), Known(SCALES), Known(np.int8([-128, 0, 127])),
        note="channels"),
    of("DequantizeLinear", np.uint16(np.abs(X) * 20000), np.array(0.1, "float16"), note="half",
        tolerance=1e-3),
    of("DequantizeLinear", np.int8(X * 50), np.repeat(BLOCKS, 2, 2)[:, :2], np.int8(X[:, :2]),
        axis=1, block_size=2, note="blocks"),
    of("DequantizeLinear", BITS, TENTH, output_dtype=10, opset=23, note="output",
        tolerance=1e-3),
]  # fmt: skip
NORMS = [
    of("BatchNormalization", X, SCALE, SHIFT, MEAN, VARIANCE),
    of("LayerNormalization", X, f32(7, seed=1), f32(7, seed=2)),
    of("LayerNormalization", X, f32(8, 7, seed=1), axis=2, epsilon=0.1, note="axis"),
    of("LayerNormalization", X, f32(7, seed=1), f32(7, seed=2), axis=1, note="broadcast"),
    of("InstanceNormalization", X, SCALE, SHIFT, epsilon=0.01),
    of("GroupNormalization", f32(2, 6, 4, 3), f32(6, seed=1), f32(6, seed=2), num_groups=3),
    of("GroupNormalization", f32(2, 6, 4, 3), f32(3, seed=1), f32(3, seed=2), num_groups=3,
        opset=18),
    of("RMSNormalization", X, f32(7, seed=1), opset=23),
    of("RMSNormalization", X, f32(8, 7, seed=1), axis=-2, opset=23, note="axis"),
    of("LpNormalization", V),
    of("MeanVarianceNormalization", X), of("MeanVarianceNormalization", X, axes=[2, 3],
        note="axes"),
]  # fmt: skip
REDUCTIONS = [
    *(of(f"Reduce{name}", POSITIVE, axes=[1], opset=11) for name in
      ("Sum", "Mean", "Prod", "Max", "Min", "L1", "L2", "SumSquare", "LogSum", "LogSumExp")),
    *(of(f"Reduce{name}", POSITIVE.reshape(3, 5, 1), i64(-2, 0), keepdims=0) for name in
      ("Sum", "Mean", "Prod", "Max", "Min", "L1", "L2", "SumSquare", "LogSum", "LogSumExp")),
    of("ReduceSum", V, note="all"), of("ReduceMean", V, keepdims=0, note="all"),
    of("ReduceSum", V, noop_with_empty_axes=1, note="noop"),
    of("ReduceL1", V, noop_with_empty_axes=1, note="noop"),
    of("ReduceMax", np.array([[True, False], [False, False]]), i64(1), opset=20, note="bool"),
    of("ReduceSum", WHOLE, i64(0), note="int"), of("ReduceMax", WHOLE, i64(0), note="int"),
    of("ReduceLogSumExp", f32(2, 3) * 1000, i64(1), note="large"),
    *(of(op, np.float32([[1, 3, 3], [4, 0, 4]]), note=n, **at) for op in ("ArgMax", "ArgMin")
      for n, at in (("default", {}), ("axis", {"axis": 1, "keepdims": 0}),
                    ("last", {"axis": -1, "select_last_index": 1}))),
    *(of("CumSum", V, Known(np.int64(a)), note=f"{a}{e}{r}", exclusive=e, reverse=r)
      for a, e, r in ((0, 0, 0), (1, 1, 0), (-1, 0, 1), (0, 1, 1))),
]  # fmt: skip
SHAPES = [
    of("Reshape", X, i64(0, -1, 7)), of("Reshape", f32(0, 3), i64(3, 0), allowzero=1, note="zero"),
    of("Reshape", f32(1), i64(), note="scalar"),
    *(of("Flatten", X, axis=a, note=str(a)) for a in (0, 1, 2, 4, -1)), of("Transpose", X),
    of("Transpose", X, perm=[0, 2, 3, 1], note="perm"), of("Squeeze", f32(1, 3, 1, 2)),
    of("Squeeze", f32(1, 3, 1, 2), i64(-2), note="axes"),
    of("Squeeze", f32(1, 3, 1, 2), axes=[0], opset=11), of("Unsqueeze", V, i64(0, -1)),
    of("Unsqueeze", V, axes=[1], opset=11), of("Expand", f32(3, 1), i64(2, 1, 4)),
    of("Expand", V, i64(1), note="smaller"), of("Tile", V, i64(2, 3)),
    of("DepthToSpace", f32(1, 8, 2, 3), blocksize=2),
    of("DepthToSpace", f32(1, 8, 2, 3), blocksize=2, mode="CRD", note="crd"),
    of("SpaceToDepth", f32(1, 2, 4, 6), blocksize=2),
    of("Trilu", f32(4, 5)), of("Trilu", f32(2, 4, 4), Known(np.int64(-1)), upper=0, note="lower"),
    of("ReverseSequence", f32(4, 3), np.array([1, 4, 2], "int64")),
    of("ReverseSequence", f32(3, 4), np.array([1, 4, 2], "int64"), batch_axis=0, time_axis=1,
        note="axes"),
    of("Concat", V, f32(2, 5), axis=0), of("Concat", V, Known(f32(3, 2)), V, axis=-1,
        note="weights"),
    of("Split", f32(6, 4), outputs=3), of("Split", f32(6, 4), i64(1, 3), axis=1, outputs=2,
        note="sizes"),
    of("Split", f32(7, 4), num_outputs=3, outputs=3, note="uneven"),
    of("Split", f32(6, 4), split=[2, 4], opset=11, outputs=2),
    of("Slice", X, i64(1, 0), i64(8, 2**63 - 1), i64(2, -1), i64(3, 2)),
    of("Slice", X, i64(-1, 6), i64(-(2**63), -9), i64(2, 3), i64(-2, -1), note="back"),
    of("Slice", X, i64(0, -2), i64(1, 9), note="first"),
    of("Slice", V, i64(9), i64(12), note="empty"),
    of("Slice", X, starts=[1, -3], ends=[3, 100], axes=[1, 3], opset=9),
    *(of("Pad", X, i64(0, 1, 2, 0, 0, 0, 1, 3), note=mode, mode=mode) for mode in
      ("constant", "edge", "reflect", "wrap")),
    of("Pad", V, i64(1, 2), Known(np.float32(1.5)), i64(1), note="axes"),
    of("Pad", V, pads=[1, 0, 0, 1], value=2.0, opset=10),
    of("Shape", X), of("Shape", X, start=1, end=-1, note="part"), of("Size", X),
    of("ConstantOfShape", i64(2, 3)), of("ConstantOfShape", i64(20, 30), note="stage"),
    of("EyeLike", V), of("EyeLike", V, k=1, dtype=7, note="int"),
    of("Range", *(Known(np.float32(v)) for v in (1, 4, 0.5))),
    of("Range", *(Known(np.int64(v)) for v in (200, 3, -2)), note="stage"),
]  # fmt: skip
INDICES = [
    of("Gather", X, np.array([[0, -1], [2, 1]]), axis=1),
    of("Gather", X, Known(np.int64(-2)), axis=2, note="number"),
    of("Gather", X, i64(0, 6, -7), axis=3, note="known"),
    of("Gather", f32(4), Known(np.int64(1)), note="element"),
    of("GatherElements", V, np.array([[0, -1, 2, 1, 0]]), axis=0),
    of("GatherElements", V, np.array([[4, -5], [0, 1], [2, 3]], "int32"), axis=1, note="part"),
    of("GatherND", X, np.array([[0, 1], [1, -1]])),
    of("GatherND", X, np.array([[[1, 2]], [[0, -4]]]), batch_dims=1, note="batch"),
    *(of("ScatterElements", V, np.array([[0, 2], [1, -1]]), f32(2, 2, seed=1), axis=axis,
         reduction=how, note=f"{how}-{axis}")
      for how in ("none", "add", "mul", "max", "min") for axis in (0, -1)),
    of("ScatterElements", WHOLE, np.array([[1], [0]], "int32"), WHOLE[:, :1], axis=1, note="int"),
    *(of("ScatterND", X, np.array([[0, 1], [1, -1]]), f32(2, 8, 7, seed=1), reduction=how, note=how)
      for how in ("none", "add", "max")),
    of("ScatterND", V, np.array([[[2, 0]], [[-3, 4]]]), f32(2, 1, seed=1), note="elements"),
    of("OneHot", np.array([[0, 3], [-1, 9]]), Known(np.int64(4)), np.float32([0.5, 2]),
        tolerance=0),
    of("OneHot", np.array([0, 2]), Known(np.int64(3)), np.array([1, 5]), axis=0, note="first"),
]  # fmt: skip
RESIZED = [
    *(of("Resize", f32(1, 2, 5, 4), None, Known(np.float32([1, 1, *by])), note=f"{mode}-{how}-{by}",
         mode=mode, coordinate_transformation_mode=how, tolerance=1e-4)
      for mode in ("nearest", "linear", "cubic")
      for how, by in (("half_pixel", (2, 1.5)), ("asymmetric", (0.6, 2)),
          ("align_corners", (1.6, 0.5)),
                      ("pytorch_half_pixel", (0.4, 3)), ("half_pixel", (0.7, 2.3)))),
    *(of("Resize", f32(1, 1, 4, 6), None, None, i64(1, 1, 6, 3), note=f"sizes-{how}",
        mode="nearest",
         nearest_mode=how) for how in ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")),
    of("Resize", f32(1, 2, 5, 4), None, None, i64(3, 8), axes=[1, 3], mode="linear", note="axes"),
    of("Resize", f32(1, 1, 2, 3), None, None, i64(6, 4), axes=[3, 2], note="axes-3-2"),
    of("Resize", f32(1, 2, 3, 4), None, Known(np.float32([2, 1, 3])), axes=[3, 1, 2],
       mode="linear", note="axes-3-1-2"),
    of("Resize", f32(1, 1, 5, 4), None, None, i64(1, 1, 8, 3), mode="cubic", exclude_outside=1,
       cubic_coeff_a=-0.5, note="exclude", tolerance=1e-4),
    of("Resize", f32(2, 3, 4), None, Known(np.float32([1, 1, 2])), mode="linear", note="one"),
    of("Resize", f32(2, 3), None, Known(np.float32([1, 1])), note="same"),
    *(of("Resize", f32(1, 1, 3, 5), None, Known(np.float32([1, 1, *by])), mode=mode,
         coordinate_transformation_mode=how, tolerance=1e-4, note=f"part-{mode}-{how}-{by}")
      for mode in ("nearest", "linear", "cubic") for how in ("align_corners", "pytorch_half_pixel")
      for by in ((0.75, 0.625), (1.5, 0.375), (0.625, 2.25))),
]  # fmt: skip


ATTENTION = [
    of("Attention", f32(2, 3, 5, 4), f32(2, 3, 6, 4), f32(2, 3, 6, 2), opset=23),
    of("Attention", f32(2, 4, 5, 4), f32(2, 2, 5, 4), f32(2, 2, 5, 4), opset=23, is_causal=1,
       note="causal-groups"),
    of("Attention", f32(2, 5, 12), f32(2, 6, 12), f32(2, 6, 6), opset=24, q_num_heads=3,
       kv_num_heads=3, scale=0.3, note="rows"),
    of("Attention", f32(1, 2, 3, 4), f32(1, 2, 4, 4), f32(1, 2, 4, 4),
       np.array([[1, 0, 1, 1], [0, 1, 1, 0], [1, 1, 1, 1]], "bool"), opset=23, note="mask"),
    of("Attention", f32(1, 2, 3, 4), f32(1, 2, 4, 4), f32(1, 2, 4, 4), f32(1, 1, 3, 4, seed=1),
       opset=23, note="bias"),
    *(of("Attention", f32(1, 2, 3, 4), f32(1, 2, 4, 4), f32(1, 2, 4, 4),
         np.array([[0, 0, 0, 0], [0, 0, 1, 1], [1, 1, 1, 0]], "bool"), opset=opset,
         is_causal=causal, note=f"unseen-{causal}") for opset in (23, 25) for causal in (0, 1)),
    of("Attention", f32(1, 3, 8), f32(1, 4, 8), f32(1, 4, 8),
       np.where([[1, 0, 0, 0], [0] * 4, [1] * 4], 0.5, -np.inf).astype("float32"), opset=23,
       q_num_heads=2, kv_num_heads=2, note="unseen-bias"),
    *(of("Attention", f32(1, 2, 3, 4), f32(1, 2, 4, 4), f32(1, 2, 4, 4),
         np.array([[1, 0, 1], [0, 0, 0], [1, 1, 1]], "bool")[:, :columns], opset=24,
         is_causal=causal, note=f"short-{columns}-{causal}")
      for columns in (3, 1) for causal in (0, 1)),
]  # fmt: skip
OLD = [
    of("Softmax", X, axis=3, opset=11, note="last"),
    of("Upsample", f32(1, 2, 3, 4), Known(np.float32([1, 1, 2, 3])), opset=9),
    of("ArrayFeatureExtractor", V, i64(0, 3)), of("ArrayFeatureExtractor", f32(4), np.array([[2,
        1]])),
    of("Scaler", V, offset=[0.5], scale=[2.0]), of("Scaler", V, offset=[1.0, 2, 3, 4, 5],
        scale=[0.5] * 5, note="each"),
    *(of("Normalizer", V, norm=n, note=n) for n in ("L1", "L2")),
    of("LinearRegressor", V, coefficients=[float(k) for k in range(10)], intercepts=[0.5, -0.5],
        targets=2),
    of("LinearClassifier", V, coefficients=[float(k % 7) for k in range(15)],
        intercepts=[0.5, 0.1, 1.0],
       classlabels_ints=[4, 5, 9], post_transform="SOFTMAX", outputs=2),
    *(of("LinearClassifier", V, coefficients=coefficients,
         intercepts=[0.1] * (len(coefficients) // 5), classlabels_ints=[3, 8], post_transform=post,
         outputs=2, note=f"{len(coefficients)}-{post}")
      for coefficients in ([1.0, -2, 0.5, 1, -1], [-1.0, 2, -0.5, -1, 1, 1, -2, 0.5, 1, -1])
      for post in ("NONE", "LOGISTIC", "SOFTMAX")),
    of("Imputer", ODD, imputed_value_floats=[7.0], replaced_value_float=np.nan, note="nan"),
    of("Imputer", np.array([[0, 3], [4, 0]]), imputed_value_int64s=[7, 9], replaced_value_int64=0),
    of("Binarizer", V, threshold=0.25),
    of("LabelEncoder", np.array([[2, 5], [9, 2]]), keys_int64s=[2, 9], values_floats=[0.5, 1.5],
        default_float=-3.0),
    of("LabelEncoder", np.float32([[2, np.nan]]), keys_floats=[2.0], values_int64s=[4],
        default_int64=-3, note="float"),
    of("LabelEncoder", np.array([[37, 5], [198, 600]]), keys_int64s=[*range(200, 0, -1)],
        values_floats=[k / 4 for k in range(200)], default_float=-3.0, note="table"),
    of("LabelEncoder", np.float32([[2, np.nan, -0.0, 7.25, 1e9]]),
        keys_floats=[k / 4 for k in range(90)], values_int64s=[*range(90)],
        default_int64=-3, note="table of floats"),
]  # fmt: skip
CASES = [
    *ELEMENTS, *ACTIVATIONS, *CONVOLUTIONS, *POOLS, *PRODUCTS, *QUANTIZED, *NORMS, *REDUCTIONS,
    *SHAPES, *INDICES, *RESIZED, *ATTENTION, *OLD,
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_an_operator_agrees_with_onnx(case: Case) -> None:
    check(case)


SMALL = [of("Flatten", f32(2, 3, 2), axis=2), of("Tile", V, i64(2, 1)), of("Transpose", V)]
KNOWN = [
    replace(case, inputs=tuple(Known(x) if isinstance(x, np.ndarray) else x for x in case.inputs))
    for case in (*SMALL, *CASES) if case.operator in {*MOVED, *COMPUTED} and all(
        np.asarray(getattr(x, "array", x)).size <= MOST_FOLDED for x in case.inputs
    )
]  # fmt: skip


@pytest.mark.parametrize("case", KNOWN, ids=str)
def test_an_operator_on_known_arrays_agrees_with_onnx(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("operator", sorted({*MOVED, *COMPUTED}))
def test_operators_on_known_arrays_are_computed_at_import(operator: str) -> None:
    """The outputs are parameters that have the values."""
    model, _ = model_of(next(case for case in KNOWN if case.operator == operator))
    imported = sl.frontend.from_onnx(model)
    for output, wanted in zip(imported.outputs, expected_of(model, []), strict=True):
        (parameter,) = placeholders([output])
        np.testing.assert_allclose(imported.params[parameter], wanted, rtol=1e-6)


def by_hand() -> list[tuple[Case, Any]]:
    """Return cases that ONNX's evaluator does not compute, or not as ONNX says, and results."""
    rows = X.reshape(2, -1).astype("float64")
    exps = np.exp(rows - rows.max(1, keepdims=True))
    largest = (rows == rows.max(1, keepdims=True)).astype("float32")
    image, depth = f32(1, 4, 4, 3), f32(1, 2, 3, 4, 5)
    squares = np.pad(X.astype("float64") ** 2, ((0, 0), (1, 1), (0, 0), (0, 0)))
    normed = SCALE / np.sqrt(VARIANCE + 0.01)
    batch = X * normed[:, None, None] + (SHIFT - MEAN * normed)[:, None, None]
    padded = np.pad(X, ((0, 0), (0, 0), (0, 0), (1, 0)), constant_values=-np.inf)
    weights, spread = f32(4, 2, 3, 3, seed=1), np.zeros((1, 4, 9, 7))
    for c, f, y, x in np.ndindex(4, 2, 3, 3):
        spread[0, c // 2 * 2 + f, y : y + 7 : 2, x : x + 5 : 2] += image[0, c] * weights[c, f, y, x]
    full = np.zeros((1, 2, 9, 7))
    for c, f, y, x in np.ndindex(4, 2, 3, 3):
        full[0, f, y : y + 7 : 2, x : x + 5 : 2] += image[0, c] * weights[c, f, y, x]
    return [
        (of("Softmax", X, opset=11), (exps / exps.sum(1, keepdims=True)).reshape(X.shape)),
        (of("LogSoftmax", X, opset=9),
         (rows - rows.max(1, keepdims=True) - np.log(exps.sum(1, keepdims=True))).reshape(X.shape)),
        (of("Hardmax", X, opset=11), largest.reshape(X.shape)),
        (of("GlobalMaxPool", depth), depth.max((2, 3, 4), keepdims=True)),
        (of("GlobalLpPool", X), np.sqrt((X.astype("float64") ** 2).sum((2, 3), keepdims=True))),
        (of("LpNormalization", V, axis=0, p=1), V / np.abs(V).sum(0)),
        (of("LpNormalization", np.zeros((1, 3), "float32"), note="zeros"), np.zeros((1, 3))),
        (of("LRN", X, size=3, alpha=0.1, beta=0.6, bias=2.0), X / (
            2 + 0.1 / 3 * (squares[:, :-2] + squares[:, 1:-1] + squares[:, 2:])) ** 0.6),
        (of("BatchNormalization", X, SCALE, SHIFT, MEAN, VARIANCE, epsilon=0.01, opset=9), batch),
        (of("BatchNormalization", X, SCALE, SHIFT, MEAN, VARIANCE, epsilon=0.01, opset=7,
            spatial=1),
         batch),
        (of("Pad", V, i64(-1, 2, 0, -1)), np.pad(V[1:, :-1], ((0, 0), (2, 0)))),
        (of("MaxPool", X, kernel_shape=[2, 2], strides=[2, 2], auto_pad="SAME_LOWER"),
         padded.reshape(2, 3, 4, 2, 4, 2).max((3, 5))),
        (of("ConvTranspose", image, weights, group=2, strides=[2, 2]), spread),
        (of("ConvTranspose", image, weights, strides=[2, 2], output_shape=[8, 6]),
            full[..., 1:, 1:]),
        (of("ConvTranspose", image, weights, strides=[2, 2], auto_pad="SAME_UPPER"),
         full[..., :-1, :-1]),
        (of("Resize", X, None, Known(np.float32([1, 1, 0.125, 1])), mode="linear",
            coordinate_transformation_mode="pytorch_half_pixel"), X[:, :, :1]),
        (of("Resize", f32(1, 1, 2, 4), None, Known(np.float32([1, 1, 0.6, 0.6])), mode="linear",
            coordinate_transformation_mode="align_corners"),
         f32(1, 1, 2, 4)[:, :, :1, [0, 2]] * [1, 6 / 7] + f32(1, 1, 2, 4)[:, :, :1, [0, 3]]
         * [0, 1 / 7]),
        *((of("Resize", row, Known(np.float32([1, by])), opset=10, note=f"{by}"), row[:, pixels])
          for row in [np.float32([[1, 2, 3, 4]])]
          for by, pixels in [(0.6, [0, 2]), (0.75, [0, 2, 3]), (0.5, [0, 2]),
                             (1.5, [0, 0, 1, 2, 2, 3])]),
        (of("Resize", f32(3, 4), Known(np.float32([0.7, 1.5])), opset=10, note="both"),
         f32(3, 4)[[[0], [2]], [0, 0, 1, 2, 2, 3]]),
        (of("Resize", np.float32([[1, 2, 3, 4]]), Known(np.float32([1, 0.6])), opset=10,
            mode="linear"), [[1, 1 + 5 / 3]]),
        (of("Upsample", f32(2, 4), scales=[1.0, 1.5], opset=7), f32(2, 4)[:, [0, 0, 1, 2, 2, 3]]),
        (of("Div", WHOLE, BY), np.trunc(WHOLE / BY)),
        (of("OneHot", np.array([0, 2]), i64(3), np.array([1, 5])), [[5, 1, 1], [1, 1, 5]]),
        (of("SpaceToDepth", f32(1, 2, 4, 6), blocksize=2, mode="CRD", opset=28),
         f32(1, 2, 4, 6).reshape(1, 2, 2, 2, 3, 2).transpose(0, 1, 3, 5, 2, 4).reshape(1, 8, 2, 3)),
        (of("Normalizer", np.float32([[1, -3, 2], [0, 0, 0]]), norm="L2"),
         np.float32([[1, -3, 2], [0, 0, 0]]) / [[np.sqrt(14)], [1]]),
        (of("ReduceMean", WHOLE, i64(1)), [[1], [0]]),
        (of("ReduceLogSumExp", np.float32([[-np.inf, -np.inf], [np.inf, 0]]), i64(1), keepdims=0),
         [-np.inf, np.inf]),
    ]  # fmt: skip


@pytest.mark.parametrize(("case", "expected"), [
    pytest.param(case, expected, id=f"{case}{k}") for k, (case, expected) in enumerate(by_hand())
])  # fmt: skip
def test_an_operator_agrees_with_numpy(case: Case, expected: Any) -> None:
    model, arrays = model_of(case)
    (found,) = results(model, *arrays)
    assert found.dtype == case.inputs[-1 if case.operator == "OneHot" else 0].dtype
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_infinities_are_quantized_to_the_ends_of_a_dtype() -> None:
    """ONNX's evaluator converts them by NumPy, which may give any integer."""
    ends = np.float32([np.inf, -np.inf])
    model, arrays = model_of(of("QuantizeLinear", ends, TENTH, np.array(3, "int8")))
    np.testing.assert_array_equal(results(model, *arrays)[0], np.int8([127, -128]))


def test_integers_of_the_first_opset_become_floats() -> None:
    model, arrays = model_of(of("DequantizeLinear", BITS, TENTH, np.array(9, "uint8"), opset=10))
    np.testing.assert_allclose(results(model, *arrays)[0], [[-0.8, 19.1, -0.2]], rtol=1e-6)


@pytest.mark.parametrize(("case", "words"), [
    (of("DequantizeLinear", V, TENTH), "its input is float32, not an integer"),
    (of("DequantizeLinear", BITS, TENTH, np.array(9, "int8")), "and its zero point int8"),
    (of("DequantizeLinear", BITS, SCALES[:2]), "no number for each index of dimension 1"),
    (of("QuantizeLinear", X, BLOCKS, axis=2, block_size=3), "no number for each block of 3"),
    (of("QuantizeLinear", V, TENTH, np.array(0, "uint8"), output_dtype=3), "its zero point uint8"),
    (of("QuantizeLinear", V, TENTH, output_dtype=1), "its output is float32, not an integer"),
    (of("QuantizeLinear", V, np.array(1, "float16")), "is float32, and its scale float16"),
])  # fmt: skip
def test_quantized_values_that_do_not_fit_are_refused(case: Case, words: str) -> None:
    model, _ = model_of(case)
    with pytest.raises(FrontendError, match=words):
        sl.frontend.from_onnx(model)


def test_a_quantized_layer_is_a_kernel() -> None:
    """The weights are integers in the file; the layer runs in floats, as ONNX Runtime's does."""
    ort = pytest.importorskip("onnxruntime")
    from onnx import helper, numpy_helper

    weight = np.int8(f32(5, 4, seed=1) * 60)
    known = {"s": TENTH, "z": np.array(9, "uint8"), "w": weight, "t": np.float32([0.1, 1, 2, 3])}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        helper.make_node("DequantizeLinear", ["w", "t"], ["v"], axis=1),
        helper.make_node("MatMul", ["d", "v"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes, "layer", [helper.make_tensor_value_info("x", 1, (3, 5))],
        [helper.make_tensor_value_info("y", 1, (3, 4))],
        [numpy_helper.from_array(array, name) for name, array in known.items()],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 21)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    (expected,) = ort.InferenceSession(model.SerializeToString()).run(None, {"x": V})
    net = sl.network(sl.frontend.from_onnx(model), target="python", database=None)
    np.testing.assert_allclose(net(V), expected, rtol=1e-5, atol=1e-5)


PAST, PART, FIRST = f32(2, 3, 6, 4), f32(2, 3, 2, 4, seed=1), np.array([1, 4])


@pytest.mark.parametrize(("inputs", "words"), [
    ((PAST, PART.astype("float64"), FIRST), "its data are float32, and its updates float64"),
    ((PAST, f32(2, 3, 7, 4), FIRST), r"its update has the shape \(2, 3, 7, 4\), which does not"),
    ((PAST, PART[:1], FIRST), r"its update has the shape \(1, 3, 2, 4\), which does not fit"),
    ((PAST, PART, FIRST.astype("float32")), "its indices are float32"),
    ((PAST, PART, np.array([1, 2, 3])), r"its write_indices have the shape \(3,\)"),
])  # fmt: skip
def test_blocks_that_do_not_fit_a_cache_are_refused(inputs: Any, words: str) -> None:
    model, _ = model_of(of("TensorScatter", *inputs, opset=24))
    with pytest.raises(FrontendError, match=words):
        sl.frontend.from_onnx(model)


@pytest.mark.parametrize("mode", ["linear", "circular"])
def test_a_block_is_written_into_a_cache(mode: str) -> None:
    first = FIRST if mode == "linear" else np.array([5, 0])
    check(of("TensorScatter", PAST, PART, first, opset=24, mode=mode))


def test_upsample_does_not_make_images_smaller() -> None:
    model, _ = model_of(of("Upsample", V, Known(np.float32([1, 0.5])), opset=9))
    with pytest.raises(FrontendError, match="one of its scales is 0.5, and must be 1 or more"):
        sl.frontend.from_onnx(model)


ONES, LARGE = np.ones((1, 1, 4000), "float16"), np.full((2, 300), 30, "float16")


@pytest.mark.parametrize(("case", "expected"), [
    (of("MatMul", ONES, ONES.reshape(1, -1, 1)), 4000), (of("Conv", ONES, ONES), 4000),
    (of("Conv", ONES[None], ONES[None], ONES[0, 0, :1] * 1000, note="bias"), 5000),
    (of("Conv", ONES.reshape(1, 2, 1, -1), ONES.reshape(2, 1, 1, -1), group=2, note="2"), 2000),
    (of("ConvTranspose", ONES.reshape(1, -1, 1), ONES.reshape(-1, 1, 1)), 4000),
    (of("Gemm", LARGE, LARGE, LARGE[:, :2].copy(), transB=1, alpha=0.1, beta=2.0), 27060),
    (of("Gemm", LARGE, LARGE, transB=1, alpha=0.1, note="product"), 27000),
    (of("Einsum", LARGE, LARGE / 100, equation="ij,kj->ik"), 2700),
], ids=lambda case: str(case))  # fmt: skip
def test_kernels_sum_products_of_float16_in_float32(case: Case, expected: int) -> None:
    model, arrays = model_of(case)
    found = sl.network(sl.frontend.from_onnx(model), target="python")(*arrays)
    assert found.dtype == "float16"
    np.testing.assert_allclose(found.astype("float32"), expected, rtol=1e-3)


@pytest.mark.parametrize("count", [3, 90])
def test_a_key_that_is_nan_has_a_value(count: int) -> None:
    # ONNX compares keys bit by bit; its evaluator in Python finds no NaN
    keys = [*(k / 4 for k in range(count)), float("nan"), 0.5]
    values = [*range(count), -9, -8]
    x = np.float32([[2 / 4, np.nan, -0.0, 1e9]])
    node = of("LabelEncoder", x, keys_floats=keys, values_int64s=values, default_int64=-3)
    result = sl.frontend.from_onnx(model_of(node)[0]).reference(x)
    np.testing.assert_array_equal(result, [[2, -9, 0, -3]])


def test_attributes_of_another_opset_are_refused() -> None:
    places, rows = np.array([[0, 1]]), np.float32([[1, 2]])
    for opset, reduction, message in (
        (13, "add", "opset 13 gives it no attribute 'reduction'"),
        (16, "max", "'max'"),
        (18, "mean", "'mean'"),
    ):
        for operator in ("ScatterElements", "ScatterND"):
            updates = rows if operator == "ScatterElements" else rows[:, 0]
            node = of(operator, rows, places, updates, reduction=reduction, opset=opset)
            with pytest.raises(FrontendError, match=message):
                sl.frontend.from_onnx(model_of(node)[0])
    node = of("LinearClassifier", rows, coefficients=[1.0] * 4, classlabels_ints=[1, 2],
              multi_class=2, outputs=2)  # fmt: skip
    with pytest.raises(FrontendError, match="multi_class"):
        sl.frontend.from_onnx(model_of(node)[0])
