"""References of ``topi.testing`` beside loops written here."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import schedlang as tvm
from schedlang import te, topi
from schedlang.errors import ComputeError, SchedlangError
from schedlang.topi import testing

RNG = np.random.default_rng(0)


def convolved(a: np.ndarray, w: np.ndarray, stride: Any, pads: Any, groups: int) -> np.ndarray:
    """Return a convolution, element by element."""
    top, left, bottom, right = pads
    a = np.pad(a, ((0, 0), (0, 0), (top, bottom), (left, right)))
    filters, channels, kh, kw = w.shape
    shape = ((a.shape[2] - kh) // stride[0] + 1, (a.shape[3] - kw) // stride[1] + 1)
    result = np.zeros((a.shape[0], filters, *shape))
    for n, f, y, x in np.ndindex(*result.shape):
        first = f // (filters // groups) * channels
        y0, x0 = y * stride[0], x * stride[1]
        window = a[n, first : first + channels, y0 : y0 + kh, x0 : x0 + kw]
        result[n, f, y, x] = (window * w[f]).sum()
    return result


CASES = [
    (1, 0, (1, 1), (0, 0, 0, 0), 1),
    (2, (1, 2), (2, 2), (1, 2, 1, 2), 1),
    ((1, 2), [0, 1, 2, 0], (1, 2), (0, 1, 2, 0), 2),
    (1, "SAME", (1, 1), (1, 1, 1, 0), 1),
    (1, "VALID", (1, 1), (0, 0, 0, 0), 2),
]


@pytest.mark.parametrize(("stride", "padding", "steps", "pads", "groups"), CASES)
def test_convolutions(stride: Any, padding: Any, steps: Any, pads: Any, groups: int) -> None:
    a, w = RNG.random((2, 4, 5, 7)), RNG.random((6, 4 // groups, 3, 2))
    expected = convolved(a, w, steps, pads, groups)
    nchw = testing.conv2d_nchw_python(a, w, stride, padding, groups)
    np.testing.assert_allclose(nchw, expected)
    last, hwio = a.transpose(0, 2, 3, 1), w.transpose(2, 3, 1, 0)
    nhwc = testing.conv2d_nhwc_python(last, hwio, stride, padding, groups)
    np.testing.assert_allclose(nhwc, expected.transpose(0, 2, 3, 1))
    if groups == 1:
        hwcn = testing.conv2d_hwcn_python(a.transpose(2, 3, 1, 0), hwio, stride, padding)
        np.testing.assert_allclose(hwcn, expected.transpose(2, 3, 1, 0))


def test_depthwise_convolutions() -> None:
    a, w = RNG.random((2, 3, 5, 4)), RNG.random((3, 2, 3, 3))
    expected = convolved(a, w.reshape(6, 1, 3, 3), (2, 2), (1, 1, 1, 1), 3)
    np.testing.assert_allclose(testing.depthwise_conv2d_python_nchw(a, w, 2, 1), expected)
    last = a.transpose(0, 2, 3, 1), w.transpose(2, 3, 0, 1)
    nhwc = testing.depthwise_conv2d_python_nhwc(*last, 2, 1)
    np.testing.assert_allclose(nhwc, expected.transpose(0, 2, 3, 1))
    A, W = te.placeholder(a.shape, "float64", "A"), te.placeholder(w.shape, "float64", "W")
    same = tvm.reference(topi.nn.depthwise_conv2d_nchw(A, W, 3, "SAME", 1))(a, w)
    np.testing.assert_allclose(testing.depthwise_conv2d_python_nchw(a, w, 3, "SAME"), same)


def test_softmaxes_and_dilation() -> None:
    a = RNG.random((3, 5)).astype("float32")
    powers = np.exp(a.astype("float64"))
    expected = powers / powers.sum(axis=0)
    np.testing.assert_allclose(testing.softmax_python(a, axis=0), expected, rtol=1e-6)
    np.testing.assert_allclose(testing.log_softmax_python(a, 0), np.log(expected), rtol=1e-5)
    spread = testing.dilate_python(np.array([[1, 2], [3, 4]], "int32"), (1, 2), 9)
    assert spread.tolist() == [[1, 9, 2], [3, 9, 4]] and spread.dtype == "int32"


def test_schedules_by_the_name_of_a_target() -> None:
    A = te.placeholder((6, 5), name="A")
    B = topi.exp(A)
    for target in ("llvm", "cuda"):
        for kind in ("injective", "elemwise", "broadcast", "reduce"):
            schedule = getattr(topi.testing, f"get_{kind}_schedule")(target)
            place = topi.cuda if target == "cuda" else topi.x86
            assert schedule is getattr(place, f"schedule_{kind}")
        conv, by = topi.testing.get_conv2d_nchw_implement(target)
        assert conv is topi.nn.conv2d_nchw and by.__name__ == "schedule_conv2d_nchw"
    s = tvm.topi.testing.get_elemwise_schedule("llvm")(B)
    a = RNG.random((6, 5)).astype("float32")
    np.testing.assert_allclose(tvm.build(s, [A, B], "python")(a), np.exp(a), rtol=1e-6)


def test_what_is_refused() -> None:
    a = np.ones((1, 4, 5, 5))
    with pytest.raises(ComputeError, match="4 channels and 6 filters of 3 channels do not fit"):
        testing.conv2d_nchw_python(a, np.ones((6, 3, 3, 3)), 1, 1)
    with pytest.raises(ComputeError, match=r"padding=\(1, 2, 3\) has 3 numbers"):
        testing.conv2d_nchw_python(a, np.ones((6, 4, 3, 3)), 1, (1, 2, 3))
    with pytest.raises(SchedlangError, match=r"lstm_python: this reference .*\n  Use sl.reference"):
        topi.testing.lstm_python()
    with pytest.raises(AttributeError, match="did you mean 'softmax_python'"):
        topi.testing.softmax_pyton()
