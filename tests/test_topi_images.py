"""Images of another size: topi beside PyTorch, and exact coordinates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang import topi
from tests.topi_cases import check, given, values

SIZES = [(5, 9), (16, 14), (3, 1)]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("method", ["linear", "cubic"])
@pytest.mark.parametrize("aligned", [False, True])
def test_interpolation(size: Any, method: str, aligned: bool) -> None:
    torch = pytest.importorskip("torch", reason="compares with PyTorch: the extra test-torch")
    (A,) = given(A=(1, 2, 8, 7))
    data = values(A)
    mode = "align_corners" if aligned else "half_pixel"
    made = topi.image.resize2d(A, None, size, "NCHW", method, mode, bicubic_alpha=-0.75)
    expected = torch.nn.functional.interpolate(
        torch.from_numpy(data["A"]), size, align_corners=aligned,
        mode="bilinear" if method == "linear" else "bicubic",
    )  # fmt: skip
    np.testing.assert_allclose(sl.reference(made)(**data), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("transform", "theirs"),
    [("asymmetric", "nearest"), ("tf_half_pixel_for_nn", "nearest-exact")],
)
def test_nearest_pixels(size: Any, transform: str, theirs: str) -> None:
    torch = pytest.importorskip("torch", reason="compares with PyTorch: the extra test-torch")
    (A,) = given(A=(1, 2, 8, 7))
    data = values(A)
    made = topi.image.resize2d(A, None, size, "NCHW", "nearest_neighbor", transform)
    expected = torch.nn.functional.interpolate(torch.from_numpy(data["A"]), size, mode=theirs)
    check(made, expected.numpy(), **data)


@pytest.mark.parametrize(
    ("rounding", "expected"),
    [("floor", [0, 0, 1, 1, 2]), ("ceil", [0, 1, 1, 2, 2]), ("round", [0, 1, 1, 2, 2]),
     ("round_prefer_ceil", [0, 1, 1, 2, 2]), ("round_prefer_floor", [0, 0, 1, 1, 2])],
)  # fmt: skip
def test_ties_of_rounding(rounding: str, expected: list[int]) -> None:
    # corners aligned: coordinates 0, 1/2, 1, 3/2, 2
    A = sl.placeholder((1, 1, 3), "int32", name="A")
    made = topi.image.resize1d(A, None, 5, "NCW", "nearest_neighbor", "align_corners", rounding)
    check(made, np.array([[expected]], "int32"), A=np.array([[[0, 1, 2]]], "int32"))


def test_coordinates_are_exact_where_floats_are_not() -> None:
    """Output 3*k of 49 pixels from 147 is pixel k, by any rounding: 1/3 is no float."""
    A = sl.placeholder((1, 1, 49), "int32", name="A")
    x = np.arange(49, dtype="int32").reshape(1, 1, 49)
    made = topi.image.resize1d(A, None, 147, "NCW", "nearest_neighbor", "asymmetric")
    np.testing.assert_array_equal(sl.reference(made)(x)[0, 0, ::3], np.arange(49))


def test_layouts_dtypes_and_excluded_pixels() -> None:
    A = sl.placeholder((1, 4, 3), "uint8", name="A")
    x = np.arange(12, dtype="uint8").reshape(1, 4, 3) * 10
    made = topi.image.resize1d(A, None, 7, "NWC", "linear")
    assert made.dtype == "uint8" and made.shape == (1, 7, 3)
    places = np.clip((np.arange(7) + 0.5) * 4 / 7 - 0.5, 0, 3)
    low = np.minimum(places.astype(int), 2)
    part = (places - low)[:, None]
    expected = x[0, low] * (1 - part) + x[0, low + 1] * part
    got = sl.reference(made)(x)[0].astype(float)
    assert np.abs(got - expected).max() < 1 + 1e-3
    ones = sl.placeholder((1, 1, 4), name="ones")
    made = topi.image.resize1d(ones, None, 9, "NCW", "cubic", bicubic_exclude=1)
    check(made, np.ones((1, 1, 9), "float32"), ones=np.ones((1, 1, 4), "float32"))
    made = topi.image.resize3d(
        sl.placeholder((1, 2, 2, 2, 1), name="V"), None, (3, 2, 4), "NDHWC"
    )
    assert made.shape == (1, 3, 2, 4, 1)
