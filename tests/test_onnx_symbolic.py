"""Operators of ONNX whose shapes depend on sizes of a call, beside ONNX's evaluator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import CallError, FrontendError
from tests.onnx_cases import expected_of, f32

onnx = pytest.importorskip("onnx", reason="imports ONNX models: the extra onnx")
helper, numpy_helper = onnx.helper, onnx.numpy_helper

H, W = sl.var("h"), sl.var("w")
WAYS = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric")
PIXELS = [(6, 7), (10, 4), (2, 13)]


def model(nodes: list[Any], opset: int = 19, y: Any = None, **known: np.ndarray) -> Any:
    """Return a model of images ``x`` whose heights and widths are sizes, and of ``y`` if given."""
    inputs = {"x": [2, 3, "h", "w"], **({"y": y} if y else {})}
    graph = helper.make_graph(
        nodes, "case",
        [helper.make_tensor_value_info(n, 1, shape) for n, shape in inputs.items()],
        [helper.make_tensor_value_info("z", 1, None)],
        [numpy_helper.from_array(a, n) for n, a in known.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def scaled(by: tuple[float, float], opset: int = 19, **attributes: Any) -> Any:
    """Return a model of a Resize by constant scales."""
    node = helper.make_node("Resize", ["x", "", "scales"], ["z"], **attributes)
    return model([node], opset, scales=np.array([1, 1, *by], "float32"))


def imported(given: Any, **sizes: Any) -> Any:
    return sl.frontend.from_onnx(given, {"h": H, "w": W, **sizes})


def images(height: int, width: int) -> np.ndarray:
    return f32(2, 3, height, width)


def check_scaled(mode: str, how: str, by: tuple[float, float] = (1.5, 0.5)) -> None:
    """Compare a Resize by constant scales with ONNX's evaluator, for images of several sizes."""
    given = scaled(by, mode=mode, coordinate_transformation_mode=how)
    resized = imported(given)
    for pixels in PIXELS:
        x = images(*pixels)
        (wanted,) = expected_of(given, [x])
        result = resized.reference(x)
        assert result.shape == (2, 3, *(int(n * s) for n, s in zip(pixels, by))) == wanted.shape
        np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_images_are_resized_by_scales(mode: str, how: str) -> None:
    check_scaled(mode, how)


@pytest.mark.slow
@pytest.mark.parametrize("how", WAYS)
def test_images_are_resized_by_scales_with_cubic_weights(how: str) -> None:
    check_scaled("cubic", how)


def test_middles_of_images_agree() -> None:
    # by 0.75, no coordinate is a pixel: for one, ONNX's evaluator takes those beside it
    check_scaled("linear", "half_pixel_symmetric", (0.75, 2.0))


@pytest.mark.parametrize("rounding", ["floor", "ceil", "round_prefer_ceil"])
def test_nearest_pixels_are_rounded_as_asked(rounding: str) -> None:
    given = scaled((2.5, 0.75), mode="nearest", nearest_mode=rounding)
    resized = imported(given)
    for pixels in PIXELS:
        x = images(*pixels)
        np.testing.assert_array_equal(resized.reference(x), expected_of(given, [x])[0])


def test_coordinates_without_their_half_are_those_of_tensorflow() -> None:
    given = scaled((1.5, 0.75), 11, mode="nearest", nearest_mode="floor",
                   coordinate_transformation_mode="tf_half_pixel_for_nn")  # fmt: skip
    resized = imported(given)
    for height, width in PIXELS:
        x = images(height, width)
        rows, columns = (
            np.floor((np.arange(int(n * s)) + 0.5) / s).astype(int)
            for n, s in ((height, 1.5), (width, 0.75))
        )
        np.testing.assert_array_equal(resized.reference(x), x[:, :, rows][..., columns])


def test_a_result_of_one_pixel_has_the_first_one_of_pytorch() -> None:
    given = scaled((0.5, 0.125), mode="linear", coordinate_transformation_mode="pytorch_half_pixel")
    resized = imported(given)
    for pixels in ((2, 8), (3, 9), (2, 15), (5, 17)):
        x = images(*pixels)
        np.testing.assert_allclose(
            resized.reference(x), expected_of(given, [x])[0], rtol=1e-5, atol=1e-5
        )


@pytest.mark.parametrize("how", ["half_pixel", "align_corners"])
def test_images_take_the_size_of_others(how: str) -> None:
    nodes = [
        helper.make_node("Shape", ["y"], ["sizes"]),
        helper.make_node("Resize", ["x", "", "", "sizes"], ["r"], mode="linear",
                         coordinate_transformation_mode=how),
        helper.make_node("Add", ["r", "y"], ["z"]),
    ]  # fmt: skip
    given = model(nodes, y=[2, 3, "p", "q"])
    resized = imported(given, p=sl.var("p"), q=sl.var("q"))
    for pixels, wanted in (((6, 7), (12, 3)), ((5, 1), (1, 4)), ((4, 4), (4, 9))):
        x, y = images(*pixels), images(*wanted)
        np.testing.assert_allclose(
            resized.reference(x, y), expected_of(given, [x, y])[0], rtol=1e-5, atol=1e-5
        )


def test_factors_that_need_numbers_are_refused() -> None:
    given = scaled((0.5, 0.5), mode="linear", antialias=1)
    with pytest.raises(FrontendError, match=r"symbolic extent h by antialias(.|\n)*shapes="):
        imported(given)


def halved() -> Any:
    """Return a model that reshapes images by half of their height, as PyTorch writes it."""
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "second"], ["height"]),
        helper.make_node("Div", ["height", "two"], ["half"]),
        helper.make_node("Concat", ["half", "rest"], ["new"], axis=0),
        helper.make_node("Reshape", ["x", "new"], ["r"]),
        helper.make_node("Relu", ["r"], ["z"]),
    ]
    return model(nodes, second=np.array([2]), two=np.array([2]), rest=np.array([1, -1]))


def test_a_multiple_is_divided_by_a_reshape() -> None:
    reshaped = sl.frontend.from_onnx(halved(), {"h": 2 * sl.var("h"), "w": 5})
    check_halved(reshaped.reference)


@pytest.mark.slow
def test_a_network_divides_a_multiple_by_a_reshape() -> None:
    reshaped = sl.frontend.from_onnx(halved(), {"h": 2 * sl.var("h"), "w": 5})
    check_halved(sl.network(reshaped, target="python"))


def check_halved(call: Any) -> None:
    """Compare ``call`` at even heights with ONNX's evaluator; an odd one is refused."""
    for height in (2, 6, 10):
        x = images(height, 5)
        (wanted,) = expected_of(halved(), [x])
        # half of the height, 1, and what is left of 2 x 3 x height x 5
        assert wanted.shape == (height // 2, 1, 60)
        np.testing.assert_array_equal(call(x), wanted)
    with pytest.raises(CallError, match=r"dimension 2 of x is 7, but 2\*h has that value for no h"):
        call(images(7, 5))


def test_a_size_that_a_reshape_divides_is_a_multiple() -> None:
    with pytest.raises(FrontendError, match=r"h//2, 1, -1(.|\n)*2 \* sl\.var\(\"h\"\) in place of"):
        sl.frontend.from_onnx(halved(), {"h": H, "w": 5})


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "how"), [
    ("nearest", "asymmetric"), ("nearest", "pytorch_half_pixel"), ("linear", "half_pixel"),
])  # fmt: skip
def test_a_network_resizes_images_of_any_size(mode: str, how: str) -> None:
    given = scaled((1.5, 0.5), mode=mode, coordinate_transformation_mode=how)
    network = sl.network(imported(given))
    for pixels in (*PIXELS, (1, 2), (31, 33)):
        x = images(*pixels)
        np.testing.assert_allclose(network(x), expected_of(given, [x])[0], rtol=1e-5, atol=1e-5)
