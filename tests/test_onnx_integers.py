"""ONNX's products of integers of 8 bits: bit for bit as ONNX's evaluator and NumPy compute them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import FrontendError
from tests.onnx_cases import Case, Known, check, model_of, results

onnx = pytest.importorskip("onnx", reason="imports ONNX models: the extra onnx")
NODE_TESTS = ("test_convinteger_with_padding",
              "test_convinteger_without_padding", "test_matmulinteger", "test_qlinearconv",
              "test_qlinearmatmul_2D_int8_float16", "test_qlinearmatmul_2D_int8_float32",
              "test_qlinearmatmul_2D_uint8_float16", "test_qlinearmatmul_2D_uint8_float32",
              "test_qlinearmatmul_3D_int8_float16", "test_qlinearmatmul_3D_int8_float32",
              "test_qlinearmatmul_3D_uint8_float16",
              "test_qlinearmatmul_3D_uint8_float32")  # fmt: skip


def bytes_of(dtype: str, *shape: int, seed: int = 0) -> np.ndarray:
    """Return random integers over the whole range of a dtype of 8 bits."""
    rng, ends = np.random.default_rng([seed, *shape]), np.iinfo(dtype)
    return rng.integers(ends.min, ends.max, shape, dtype, endpoint=True)


def of(operator: str, *inputs: Any, note: str = "", opset: int = 21, **attributes: Any) -> Case:
    return Case(operator, inputs, attributes, opset, tolerance=0, note=note)


def quantized(dtype: str, scale: Any, zero: int) -> tuple[np.ndarray, np.ndarray]:
    return np.array(scale, "float32"), np.array(zero, dtype)


X, W = bytes_of("uint8", 2, 4, 7, 6), bytes_of("int8", 6, 4, 3, 2, seed=1)
X8, W8 = bytes_of("int8", 2, 4, 7, 6), bytes_of("uint8", 6, 4, 3, 2, seed=1)
HALVES, ROW = bytes_of("int8", 6, 2, 3, 3, seed=2), bytes_of("uint8", 1, 3, 9)
BIAS = np.random.default_rng(3).integers(-9000, 9000, 6).astype("int32")
WIDE = np.float32([0.01, 0.02, 0.005, 0.03, 0.001, 0.04])
ZEROS, ONE = np.zeros(6, "int8"), np.array(0, "int8")
BY, TO = quantized("uint8", 0.0307, 120), quantized("uint8", 0.893, 7)
BY8, TO8 = quantized("int8", 0.0307, -9), quantized("int8", 0.893, -7)
A, B = bytes_of("uint8", 5, 7), bytes_of("int8", 7, 3)
STACK = bytes_of("int8", 2, 1, 5, 7), bytes_of("uint8", 3, 7, 2)
CASES = [
    of("MatMulInteger", A, B), of("MatMulInteger", *STACK, note="batches"),
    of("MatMulInteger", A, B, np.array(9, "uint8"), np.array(-3, "int8"), note="zeros"),
    of("MatMulInteger", A, B, np.uint8([9]), bytes_of("int8", 3), note="columns"),
    of("MatMulInteger", *STACK, np.array(-9, "int8"), np.array(3, "uint8"), note="others"),
    of("MatMulInteger", *STACK, bytes_of("int8", 2, 1, 5, 1), bytes_of("uint8", 3, 1, 2),
        note="each"),
    of("MatMulInteger", A[0], B, note="row"), of("MatMulInteger", A, B[:, 0], note="column"),
    of("MatMulInteger", A[0], B[:, 0], note="vectors"),
    of("ConvInteger", X, W), of("ConvInteger", X8, W, note="int8"),
    of("ConvInteger", X, W8, note="uint8"), of("ConvInteger", X, W, BY[1], note="zero"),
    of("ConvInteger", X, W8, BY[1], np.array(131, "uint8"), pads=[1, 0, 2, 1], note="pads"),
    of("ConvInteger", X, W, BY[1], bytes_of("int8", 6), strides=[2, 1], dilations=[1, 2],
        note="channels"),
    of("ConvInteger", X8, HALVES, BY8[1], group=2, pads=[1] * 4, note="groups"),
    of("ConvInteger", X, W8, BY[1], auto_pad="SAME_UPPER", strides=[2, 2], note="same"),
    *(of("QLinearConv", x, *by, w, *quantized(w.dtype.name, 0.02, zero), *to, note=note, **at)
      for x, by in ((X, BY), (X8, BY8)) for w, zero in ((W, 0), (W8, 128)) for to in (TO, TO8)
      for at in ({"pads": [1, 0, 2, 1], "strides": [2, 1], "dilations": [1, 2]},)
      for note in (f"{x.dtype}-{w.dtype}-{to[1].dtype}",)),
    of("QLinearConv", X, *BY, W, WIDE, ZEROS, *TO, BIAS, note="channels"),
    of("QLinearConv", X, *map(Known, BY), Known(W), Known(WIDE), Known(ZEROS), *map(Known, TO),
        Known(BIAS), note="known"),
    of("QLinearConv", X, *BY, HALVES, WIDE, ZEROS, *TO, BIAS, group=2, note="groups"),
    of("QLinearConv", X, *BY, HALVES[:4, :1], WIDE[:4], ZEROS[:4], *TO, group=4, note="depthwise"),
    *(of("QLinearMatMul", a, *by, b, np.array(0.02, "float32"), zero, *to, opset=opset, note=note)
      for a, b in ((A, B), STACK) for opset in (10, 21) for to in (TO, TO8)
      for by in ((BY if a.dtype == "uint8" else BY8),) for zero in (np.array(5, b.dtype),)
      for note in (f"{a.dtype}-{to[1].dtype}",)),
    of("QLinearMatMul", A, *BY, B, WIDE[:3], ZEROS[:3], *TO, note="columns"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_an_operator_on_integers_agrees_with_onnx(case: Case) -> None:
    check(case)


def test_rows_and_volumes_are_convolved() -> None:
    """ONNX's evaluator takes zero points of channels for pictures alone."""
    w, zero = bytes_of("int8", 4, 3, 4, seed=1), np.int8([3, -4, 0, 9])
    model, arrays = model_of(of("ConvInteger", ROW, w, np.array(7, "uint8"), zero, pads=[2, 1]))
    data = np.pad(ROW.astype("int32") - 7, ((0, 0), (0, 0), (2, 1)))
    slid = np.lib.stride_tricks.sliding_window_view(data, 4, 2)
    expected = np.einsum("ncxk,ock->nox", slid, w.astype("int32") - zero[:, None, None])
    np.testing.assert_array_equal(results(model, *arrays)[0], expected)


def test_rows_have_zero_points_and_scales() -> None:
    """ONNX's evaluator adds them along the columns; ONNX says that they are of the rows."""
    rows = np.uint8([3, 200, 0, 9, 255])
    model, arrays = model_of(of("MatMulInteger", A, B, rows))
    total = (A.astype("int32") - rows[:, None]) @ B.astype("int32")
    np.testing.assert_array_equal(results(model, *arrays)[0], total)
    scales = np.float32([0.1, 0.2, 0.3, 0.05, 0.5])
    model, arrays = model_of(of("QLinearMatMul", A, scales, rows, B, WIDE[:1], ONE, *TO8))
    factors = scales[:, None] * WIDE[0] / TO8[0]
    expected = np.clip(np.rint(total.astype("float32") * factors) + TO8[1], -128, 127)
    np.testing.assert_array_equal(results(model, *arrays)[0], expected.astype("int8"))


def test_results_are_rounded_half_to_even_before_the_zero_point() -> None:
    """ONNX's evaluator adds the zero point first; ONNX Runtime and QuantizeLinear do not."""
    a, b = np.uint8([[1, 3, 5, 7]]).T, np.int8([[1]])
    half, one = np.array(0.5, "float32"), np.array(1, "float32")
    zero, to = np.array(0, "uint8"), np.array(1, "uint8")
    model, arrays = model_of(of("QLinearMatMul", a, half, zero, b, one, ONE, one, to))
    np.testing.assert_array_equal(results(model, *arrays)[0], np.uint8([[1, 3, 3, 5]]).T)


@pytest.mark.slow
def test_the_node_tests_of_onnx_pass() -> None:
    """The tests that ONNX gives the makers of backends, for these operators."""
    with np.errstate(all="ignore"):
        from onnx.backend.test.case.node import collect_testcases

        cases = {case.name: case for case in collect_testcases("")}
    assert {*NODE_TESTS} == {name for name in cases if name.startswith("test_qlinear") or (
        "integer" in name and "bitwise" not in name)}  # fmt: skip
    for name in NODE_TESTS:
        for inputs, outputs in cases[name].data_sets:
            own = results(cases[name].model, *inputs)
            np.testing.assert_array_equal(own[0], outputs[0], err_msg=name)
            assert own[0].dtype == outputs[0].dtype


@pytest.mark.parametrize(("case", "words"), [
    (of("MatMulInteger", A.astype("int32"), B), "its input is int32, not an integer of 8 bits"),
    (of("MatMulInteger", A, B, np.array(1, "int8")), "its inputs are uint8 and int8"),
    (of("MatMulInteger", A, B, np.uint8([1, 2])), "no number for each index of dimension 0 of"),
    (of("MatMulInteger", A[0, 0:1].reshape(()), B), "one of its inputs is a scalar"),
    (of("QLinearMatMul", A[0], *BY, B, WIDE[:1], ONE, *TO), "have 1 and 2 dimensions"),
    (of("QLinearMatMul", A, *BY, B, WIDE[:2], ONE, *TO), "no number for each index of dimension 1"),
    (of("QLinearMatMul", A, *BY, B, WIDE[:1].astype("float16"), ONE, *TO), "float32 and float16"),
    (of("ConvInteger", X, W, np.uint8([1, 2])), r"of shape \(2,\) is not one number"),
    (of("ConvInteger", X, W, BY[1], np.int8([1, 2])), "no number for each index of dimension 0"),
    (of("ConvInteger", X, W[0]), "its input has 4 dimensions and its weights 3"),
    (of("QLinearConv", X, *BY, W, WIDE, ZEROS, *TO, BIAS.astype("int64")), "its bias is int64"),
    (of("QLinearConv", X, *BY, W, WIDE, ZEROS, TO[0], np.array(1, "int16")), "output is int16"),
])  # fmt: skip
def test_integers_that_do_not_fit_are_refused(case: Case, words: str) -> None:
    model, _ = model_of(case)
    with pytest.raises(FrontendError, match=words):
        sl.frontend.from_onnx(model)
