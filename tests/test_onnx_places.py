"""Operators of ONNX that choose, sample, and transform, beside ONNX's evaluator and NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import FrontendError
from tests.onnx_cases import Case, Known, check, f32, i64, model_of, results

pytest.importorskip("onnx", reason="imports ONNX models: the extra onnx")

X = f32(2, 3, 8, 7)
# a cubic polynomial goes beyond the limits of their dtype
BYTES = np.where(X > 0, 127, 0)
ROWS = f32(3, 9)
TIES = np.array([[3, 1, 3, 2, 1], [0, 0, 0, 0, 5]], "int32")
ODD = np.array([[np.nan, 2, np.nan, np.inf, 1], [0.0, 1, -np.inf, -0.0, 3]], "float32")
# places inside and outside of an image, and on its pixels
GRID = np.concatenate([f32(2, 4, 2, 2), np.array([[[[1, -1], [0, 0]]]] * 2, "float32")], 1)


def of(operator: str, *inputs: Any, note: str = "", opset: int = 21, outputs: int = 1,
       tolerance: float = 1e-5, **attributes: Any) -> Case:  # fmt: skip
    return Case(operator, inputs, attributes, opset, outputs, tolerance, note)


def scales(*numbers: float) -> Known:
    return Known(np.array(numbers, "float32"))


def signal(*shape: int) -> np.ndarray:
    return f32(*shape, seed=7)


CASES = [
    *(of("TopK", ROWS, i64(k), outputs=2, largest=large, note=f"{k}-{large}")
      for k in (1, 4, 9, 0) for large in (0, 1)),
    *(of("TopK", TIES, i64(3), outputs=2, largest=large, axis=axis, note=f"ties-{axis}-{large}")
      for large in (0, 1) for axis in (-1,)),
    of("TopK", X, i64(2), outputs=2, axis=1, note="axis"),
    of("TopK", ROWS.astype("float16"), i64(4), outputs=2, note="float16"),
    of("TopK", ROWS, i64(4), outputs=2, opset=10, note="first"),
    *(of("DFT", signal(2, 10, parts), length, Known(np.array(1)),
         inverse=inverse, onesided=onesided, opset=20, note=f"{parts}-{inverse}-{onesided}-{n}")
      for parts, inverse, onesided in (
          (1, 0, 0), (1, 0, 1), (2, 0, 0), (2, 0, 1), (2, 1, 0), (2, 1, 1))
      for n, length in enumerate((None, Known(np.array(7)), Known(np.array(16))))),
    of("DFT", signal(2, 0, 1), Known(np.array(4)), Known(np.array(1)), opset=20, note="empty"),
    of("DFT", signal(3, 2, 6, 1), None, Known(np.array(0)), opset=20, note="axis"),
    of("DFT", signal(2, 6, 5, 1).astype("float64"), axis=2, opset=17, note="attribute"),
    *(of("STFT", signal(2, 40, parts), Known(np.array(7)), window, Known(np.array(16)),
         onesided=onesided, opset=17, note=f"{parts}-{onesided}-{n}")
      for parts, onesided in ((1, 1), (1, 0), (2, 0))
      for n, window in enumerate((None, Known(signal(16)), signal(16)))),
    of("STFT", signal(1, 30, 1), Known(np.array(4)), Known(signal(9)), opset=17, note="odd"),
    *(of("GridSample", X, GRID, mode=mode, padding_mode=padding, align_corners=align, opset=20,
         tolerance=1e-4, note=f"{mode}-{padding}-{align}")
      for mode, padding, align in (("linear", "zeros", 0), ("nearest", "border", 1),
                                   ("cubic", "reflection", 0))),
    of("GridSample", X[:, :, None], f32(2, 2, 3, 4, 3), opset=22, note="volume"),
    of("Col2Im", f32(1, 6, 9), i64(4, 5), i64(2, 3), opset=18, note="stride 1"),
    of("Col2Im", f32(2, 12, 9), i64(6, 5), i64(2, 2), strides=[2, 2], pads=[0, 1, 0, 0], opset=18,
       note="padded"),
    of("MaxPool", X, kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1], outputs=2, note="at"),
    of("MaxPool", X, kernel_shape=[3, 2], dilations=[2, 1], ceil_mode=1, outputs=2, note="apart"),
    *(of("Resize", X, None, scales(1, 1, 0.6, 0.55), mode=mode, antialias=1, opset=18,
         exclude_outside=outside, note=f"smooth-{mode}-{outside}")
      for mode in ("linear", "cubic") for outside in (0, 1)),
    *(of("Resize", BYTES.astype(dtype), None, None, i64(2, 3, 7, 4), mode=mode, antialias=smooth,
         opset=18, note=f"{dtype}-{mode}-{smooth}")
      for dtype in ("int8", "int32") for mode, smooth in (("cubic", 0), ("linear", 1))),
    *(of("Resize", X, None, scales(1, 1, 1.3, 0.7), mode=mode, opset=19, note=f"symmetric-{mode}",
         coordinate_transformation_mode="half_pixel_symmetric")
      for mode in ("nearest", "linear", "cubic")),
    *(of("Resize", X, Known(np.float32([0, 0, 0.1, -0.37, 1, 1, 0.8, 1.21])), None, i64(2, 3, 5, 6),
         mode=mode, opset=13, coordinate_transformation_mode="tf_crop_and_resize",
         extrapolation_value=9.0, note=f"crop-{mode}") for mode in ("nearest", "linear")),
    *(of("Resize", X, None, None, i64(5, 9), axes=[2, 3], keep_aspect_ratio_policy=policy,
         mode="linear", opset=18, note=policy) for policy in ("not_larger", "not_smaller")),
    of("SVMRegressor", ROWS, coefficients=[0.5, -2.0], kernel_params=[0.3, 0.1, 3.0], n_supports=2,
       kernel_type="POLY", rho=[0.2], support_vectors=ROWS[:2].ravel().tolist(), tolerance=1e-4),
    *(of("SVMRegressor", ROWS, coefficients=[0.5, -2.0], kernel_params=[0.3, 0.1, 3.0],
         n_supports=2, kernel_type=kind, rho=[0.2], support_vectors=ROWS[:2].ravel().tolist(),
         one_class=one, note=f"{kind}-{one}")
      for kind, one in (("RBF", 0), ("SIGMOID", 0), ("LINEAR", 1))),
    of("SVMRegressor", ROWS, coefficients=ROWS[0].tolist(), rho=[0.2], note="linear"),
    *(of("SVMClassifier", ROWS, classlabels_ints=[*range(4, 4 + classes)], rho=[0.1, -0.2, 0.3][:p],
         coefficients=f32((classes - 1) * 2 * classes).tolist(), vectors_per_class=[2] * classes,
         kernel_type="RBF", kernel_params=[0.2, 0.0, 3.0], outputs=2, note=f"{classes}",
         support_vectors=f32(2 * classes, 9, seed=3).ravel().tolist())
      for classes, p in ((2, 1), (3, 3))),
    of("Pad", ROWS, i64(1, 2, 0, 1), np.array(2.5, "float32"), note="a call's value"),
    of("Pad", ROWS, i64(1, 2, 0, 1), Known(np.array([np.nan], "float32")), note="nan"),
    of("Dropout", ROWS, outputs=2, note="mask"),
    of("OneHotEncoder", np.array([[3, 7], [7, 1], [9, 3]]), cats_int64s=[7, 3, 1], zeros=1),
    of("OneHotEncoder", np.array([1.0, 3.0], "float32"), cats_int64s=[7, 3, 1], note="floats"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_an_operator_agrees_with_onnx(case: Case) -> None:
    check(case)


def test_modes_of_samples_had_other_names_before() -> None:
    for mode, name in (("linear", "bilinear"), ("cubic", "bicubic"), ("nearest", "nearest")):
        before, arrays = model_of(of("GridSample", X, GRID, mode=name, opset=16))
        now, _ = model_of(of("GridSample", X, GRID, mode=mode, opset=20))
        np.testing.assert_array_equal(results(before, *arrays)[0], results(now, *arrays)[0])


@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_elements_that_are_no_numbers_have_an_order(dtype: str, largest: int) -> None:
    """NaN is greater than infinity, and zeros of both signs are equal."""
    rows = -ODD if largest else ODD
    model, arrays = model_of(of("TopK", rows.astype(dtype), i64(4), outputs=2, largest=largest))
    places = results(model, *arrays)[1]
    wanted = [[0, 2, 4, 1], [2, 0, 3, 1]] if largest else [[4, 1, 3, 0], [2, 0, 3, 1]]
    np.testing.assert_array_equal(places, wanted)


@pytest.mark.slow
@pytest.mark.parametrize("length", [5, 3000])
def test_the_first_elements_of_axes_of_any_length(length: int) -> None:
    """The axis may be longer than a sort allows, and its length a size of each call."""
    model, _ = model_of(of("TopK", f32(2, length), i64(5), outputs=2))
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_param = "n"
    imported = sl.frontend.from_onnx(model, {"n": sl.var("n")})
    network = sl.network(imported, database=None)
    x = np.random.default_rng(0).integers(0, 50, (2, length)).astype("float32")
    values, places = network(x)
    wanted = np.argsort(-x, 1, kind="stable")[:, :5]
    np.testing.assert_array_equal(places, wanted)
    np.testing.assert_array_equal(values, np.take_along_axis(x, wanted, 1))


def test_columns_of_an_image_are_counted_first() -> None:
    model, arrays = model_of(of("MaxPool", X, kernel_shape=[3, 3], storage_order=1, outputs=2))
    values, places = results(model, *arrays)
    image = X.transpose(0, 1, 3, 2).ravel()
    np.testing.assert_array_equal(image[places], values)


def test_the_second_of_two_base_values_belongs_to_the_score() -> None:
    """Where one class alone has weights; the first class then has the negative score."""
    case = of(
        "TreeEnsembleClassifier", ROWS, outputs=2, base_values=[0.5, 0.25], class_ids=[1, 1],
        class_nodeids=[1, 2], class_treeids=[0, 0], class_weights=[1.0, -2.0],
        classlabels_int64s=[0, 1], nodes_falsenodeids=[2, 0, 0], nodes_featureids=[0, 0, 0],
        nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"], nodes_nodeids=[0, 1, 2],
        nodes_treeids=[0, 0, 0], nodes_truenodeids=[1, 0, 0], nodes_values=[0.0, 0.0, 0.0],
        post_transform="LOGISTIC",
    )  # fmt: skip
    model, arrays = model_of(case)
    labels, chances = results(model, *arrays)
    score = np.where(ROWS[:, 0] <= 0, 1.0, -2.0) + 0.25
    np.testing.assert_allclose(chances[:, 1], 1 / (1 + np.exp(-score)), rtol=1e-6)
    np.testing.assert_array_equal(labels, score > 0)


@pytest.mark.parametrize(("case", "words"), [
    (of("TopK", ROWS, i64(10), outputs=2), "it chooses 10 of 9 elements"),
    (of("DFT", signal(2, 10, 3), opset=20), "has 3 parts in the last dimension, not 1 or 2"),
    (of("DFT", signal(1, 5000, 1), opset=20), "5000 points are more than a product is good for"),
    (of("DFT", signal(2, 10, 1), None, Known(np.array(-1)), opset=20), "its axis is -1"),
    (of("STFT", signal(2, 9, 1), Known(np.array(2)), None, Known(np.array(10)), opset=17),
     "of 9 elements is shorter than a frame of 10"),
    (of("STFT", signal(2, 9, 1), Known(np.array(2)), opset=17), "neither a window nor a frame"),
    (of("GridSample", X, GRID, mode="bilinear", opset=20), "'mode' is 'bilinear', not one of lin"),
    (of("GridSample", X, f32(2, 4, 3), opset=20), r"its grid \(2, 4, 3\)"),
    (of("Col2Im", f32(1, 6, 11), i64(4, 5), i64(2, 3), opset=18), r"no windows of \(2, 3\)"),
    (of("Resize", X, None, None, i64(2, 3, 4, 4), keep_aspect_ratio_policy="xx", opset=18),
     "'keep_aspect_ratio_policy' is 'xx', not one of stretch"),
    (of("Resize", X, None, None, i64(2, 3, 4, 4), opset=13,
        coordinate_transformation_mode="tf_crop_and_resize"), "its roi must have a start"),
    (of("MaxPool", X, kernel_shape=[2, 2], storage_order=2), "'storage_order' is 2, not one of"),
    (of("SVMClassifier", ROWS, classlabels_ints=[0, 1], coefficients=[1.0, -1.0], rho=[0.0],
        prob_a=[1.0], prob_b=[1.0], vectors_per_class=[1, 1], outputs=2), "found by iterations"),
    (of("SVMRegressor", ROWS, coefficients=[1.0], n_supports=1, rho=[0.0],
        support_vectors=[1.0]), "its support vectors have 1 numbers: not 1 vectors"),
    (of("OneHotEncoder", TIES, cats_int64s=[1, 1]), "two of them are one"),
    (of("Resize", X, None, None, i64(2, 3, 0, 4), mode="linear", antialias=1, opset=18),
     "it makes 0 pixels of 8, and both must be 1 or more"),
    (of("Resize", X, Known(np.float32([0, 0, 0, 0, 1, 1, np.nan, 1])), None, i64(2, 3, 4, 4),
        coordinate_transformation_mode="tf_crop_and_resize", opset=13), "its roi has the number"),
    (of("GridSample", X[:, :, :0], GRID, opset=20), "its input has no pixels"),
    (of("SVMRegressor", ROWS, coefficients=[1.0], n_supports=1, rho=[0.0], kernel_type="POLY",
        kernel_params=[1.0, 0.0, np.nan], support_vectors=ROWS[0].tolist()), "of degree nan"),
    (of("Gelu", ROWS, approximate="xx"), "'approximate' is 'xx', not one of none, tanh"),
    (of("Gelu", ROWS, approximate=3), "'approximate' is 3, but must be str"),
    (of("Trilu", ROWS, upper=7), "'upper' is 7, not one of 0, 1"),
    (of("CumSum", ROWS, Known(np.array(0)), exclusive=7), "'exclusive' is 7, not one of 0, 1"),
    (of("Resize", X, None, Known(np.ones(4, "float32")), keep_aspect_ratio_policy="xx", opset=18),
     "'keep_aspect_ratio_policy' is 'xx', not one of stretch"),
    (of("Attention", *[f32(1, 2, 3, 4)] * 3, qk_matmul_output_mode=7, opset=24, outputs=4),
     "'qk_matmul_output_mode' is 7, not one of 0, 1, 2, 3"),
    (of("Attention", *[f32(1, 2, 3, 4)] * 3, softmax_precision=99, opset=24),
     "'softmax_precision' is 99, not one of 1, 10"),
    (of("RotaryEmbedding", f32(1, 2, 3, 4), f32(1, 3, 2), f32(1, 3, 2), interleaved=7, opset=23),
     "'interleaved' is 7, not one of 0, 1"),
    (of("NegativeLogLikelihoodLoss", ROWS, np.array([0, 1, 2]), reduction="xx"),
     "'reduction' is 'xx', not one of none, mean, sum"),
], ids=str)  # fmt: skip
def test_refusals(case: Case, words: str) -> None:
    model, _ = model_of(case)
    with pytest.raises(FrontendError, match=words):
        sl.frontend.from_onnx(model)
