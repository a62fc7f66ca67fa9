"""Operators of ONNX whose shapes depend on sizes of a call, beside ONNX's evaluator."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import CallError, FrontendError, MultipleError
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


def check_halved(call: Any, size: str = "h") -> None:
    """Compare ``call`` at even heights with ONNX's evaluator; an odd one is refused."""
    for height in (2, 6, 10):
        x = images(height, 5)
        (wanted,) = expected_of(halved(), [x])
        # half of the height, 1, and what is left of 2 x 3 x height x 5
        assert wanted.shape == (height // 2, 1, 60)
        np.testing.assert_array_equal(call(x), wanted)
    says = rf"dimension 2 of x is 7, but must be a multiple of 2: it is (2\*)?{size}"
    with pytest.raises(CallError, match=says):
        call(images(7, 5))


def test_a_size_that_a_reshape_divides_is_a_multiple() -> None:
    with pytest.warns(UserWarning, match=r"divides h by 2, so h is 2 \* h_over_2 and calls"):
        reshaped = sl.frontend.from_onnx(halved(), {"h": H, "w": 5})
    check_halved(reshaped.reference, "h_over_2")
    with pytest.raises(MultipleError, match=r'h//2, 1, -1(.|\n)*2 \* sl\.var\("h"\) in place of'):
        np.reshape(sl.placeholder((H, 5), name="x"), (H // 2, 1, -1))


def parts(by: int, into: str) -> list[Any]:
    """Return nodes that reshape images to ``by`` strips of their height and what is left."""
    return [
        helper.make_node("Shape", ["x"], [f"{into}.shape"]),
        helper.make_node("Gather", [f"{into}.shape", "second"], [f"{into}.height"]),
        helper.make_node("Div", [f"{into}.height", f"{by}"], [f"{into}.part"]),
        helper.make_node("Concat", [f"{into}.part", "left"], [f"{into}.new"], axis=0),
        helper.make_node("Reshape", ["x", f"{into}.new"], [into]),
    ]


def test_a_size_that_two_reshapes_divide_is_a_multiple_of_both_numbers() -> None:
    nodes = [
        *parts(4, "a"), *parts(6, "b"),
        helper.make_node("ReduceMax", ["a"], ["c"]), helper.make_node("Mul", ["b", "c"], ["z"]),
    ]  # fmt: skip
    known = {"second": np.array([2]), "left": np.array([-1]), "4": np.array([4])}
    given = model(nodes, **known, **{"6": np.array([6])})
    divided = sl.frontend.from_onnx(given, {"h": sl.var("h"), "w": 3})
    for height in (12, 24):
        x = images(height, 3)
        np.testing.assert_array_equal(divided.reference(x), expected_of(given, [x])[0])
    with pytest.raises(CallError, match="must be a multiple of 12"):
        divided.reference(images(18, 3))


def test_half_of_a_size_has_a_name_of_its_own() -> None:
    """A dimension that the model calls ``h_over_2`` is not half of ``h``."""
    own = {"h": sl.var("h"), "w": sl.var("h_over_2")}
    known = {"second": np.array([2]), "left": np.array([1, -1]), "2": np.array([2])}
    reshaped = sl.frontend.from_onnx(model(parts(2, "z"), **known), own)
    kernel = sl.build(sl.schedule(reshaped.outputs[0]), target="python")
    assert kernel(images(4, 3)).shape == (2, 1, 36)


def pooled_and_joined() -> Any:
    """Return a model that halves images twice, doubles them twice, and joins them, as U-Nets do."""
    pool = {"kernel_shape": [2, 2], "strides": [2, 2]}
    twice = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric"}
    nodes = [
        helper.make_node("MaxPool", ["x"], ["a"], **pool),
        helper.make_node("MaxPool", ["a"], ["b"], **pool),
        helper.make_node("Resize", ["b", "", "scales"], ["c"], **twice),
        helper.make_node("Concat", ["c", "a"], ["d"], axis=1),
        helper.make_node("Resize", ["d", "", "scales"], ["e"], **twice),
        helper.make_node("Concat", ["e", "x"], ["z"], axis=1),
    ]
    return model(nodes, scales=np.array([1, 1, 2, 2], "float32"))


def test_images_that_are_halved_and_joined_have_even_sizes() -> None:
    joined = imported(pooled_and_joined())
    for height, width in ((4, 8), (12, 4)):
        x = images(height, width)
        (wanted,) = expected_of(pooled_and_joined(), [x])
        assert wanted.shape == (2, 9, height, width)
        np.testing.assert_array_equal(joined.reference(x), wanted)
    with pytest.raises(CallError, match="dimension 3 of x is 6, but must be a multiple of 4"):
        joined.reference(images(8, 6))


@pytest.mark.slow
def test_every_form_checks_that_a_size_is_a_multiple(tmp_path: Path) -> None:
    reshaped = sl.frontend.from_onnx(halved(), {"h": H, "w": 5})
    net = sl.network(reshaped, database=None)
    net.save(tmp_path / "python")
    kernel = sl.build(sl.schedule(reshaped.outputs[0]), target="c")
    kernel.save(tmp_path / "kernel.so")
    runs = [
        net,
        sl.load(tmp_path / "python"),
        sl.network(reshaped, target="c", database=None),
        kernel,
        sl.load_module(tmp_path / "kernel.so"),
        sl.network(reshaped, target="cuda-emulator", database=None),
        # an array of another library, by DLPack
        lambda x: net(_ByDlpack(x)),
    ]
    for run in runs:
        check_halved(run, "h_over_2")


class _ByDlpack:
    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["network", "kernel"])
def test_files_that_run_alone_check_that_a_size_is_a_multiple(name: str, tmp_path: Path) -> None:
    reshaped = sl.frontend.from_onnx(halved(), {"h": H, "w": 5})
    if name == "network":
        sl.network(reshaped, database=None).save(tmp_path)
    else:
        s = sl.schedule(reshaped.outputs[0])
        sl.build(s, name="kernel").save(tmp_path / "kernel.py")
    program = f"""
import numpy as np
from {name} import {name}
for height in (6, 7):
    try:
        print({name}(np.ones((2, 3, height, 5), "float32")).sum())
    except ValueError as error:
        print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    right, wrong = done.stdout.splitlines()
    assert right == "180.0"
    assert wrong == "dimension 2 of x is 7, but must be a multiple of 2: it is h_over_2*2"


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
