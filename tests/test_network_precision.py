"""Networks whose products have factors of fewer bits: stages, errors beside float64, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang import topi
from schedlang.compute.graph import operations
from schedlang.errors import BuildError, NetworkError
from schedlang.frontend import Imported, precision_error
from schedlang.networks.compiled import key_of
from tests.marks import slow_but

# half of the distance of 1 and the next number, by which a rounded factor errs at most
UNITS = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "tf32": 2.0**-11}
EMULATOR = "cuda-emulator"
Arrays = dict[sl.Tensor, np.ndarray]


def values(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype("float32")


def layers(channels: int = 4) -> Imported:
    """Return a convolution of 3 by 3 with padding, and a product of what is behind its relu."""
    x, w = sl.placeholder((2, 4, 5, 5), name="x"), sl.placeholder((8, channels, 3, 3), name="w")
    v = sl.placeholder((3, 200), name="v")
    groups = 4 // channels
    conv = (
        topi.nn.group_conv2d_nchw(x, w, 1, 1, 1, groups) if groups > 1
        else topi.nn.conv2d_nchw(x, w, 1, 1, 1)
    )  # fmt: skip
    conv = sl.named("conv", conv)
    y = sl.named("fc", topi.nn.dense(topi.nn.flatten(topi.nn.relu(conv)), v))
    return Imported((y,), (x,), {t: values(*t.shape) for t in (w, v)}, {"conv": "conv"})


def in_float64(model: Imported, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the convolution and the product in float64, and the product of all magnitudes."""
    w, v = (array.astype("float64") for array in model.params.values())

    def both(data: np.ndarray, w: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        padded = np.pad(data.astype("float64"), ((0, 0), (0, 0), (1, 1), (1, 1)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
        conv = np.einsum("ncyxrs,fcrs->nfyx", windows, w)
        return conv, np.maximum(conv, 0).reshape(2, -1) @ v.T

    return *both(x, w, v), both(abs(x), abs(w), abs(v))[1]


def stages(net: sl.networks.network.Network) -> dict[str, Any]:
    return {
        op.name: op.body[0]
        for part in net.partition
        for op in operations(part.group.outputs)
        if hasattr(op, "body")
    }


def bound(precision: str, terms: int, layers: int) -> float:
    """Return the most error of sums of ``terms`` in all, per product of magnitudes."""
    return float((1 + UNITS[precision]) ** (2 * layers) * (1 + 2.0**-24) ** (terms + layers) - 1)


@pytest.mark.slow
@pytest.mark.parametrize("precision", UNITS)
def test_the_error_of_layers_is_that_of_rounded_factors(precision: str) -> None:
    model, x = layers(), values(2, 4, 5, 5)
    net = sl.network(model, target=EMULATOR, precision=precision)
    _, expected, magnitude = in_float64(model, x)
    assert (np.abs(net(x) - expected) <= bound(precision, 36 + 200, 2) * magnitude).all()


@pytest.mark.parametrize("precision", slow_but(["float16"], UNITS))
def test_the_report_is_that_of_numpy(precision: str) -> None:
    x, w = sl.placeholder((4, 16), name="x"), sl.placeholder((8, 16), name="w")
    model = Imported((sl.named("fc", topi.nn.dense(x, w)),), (x,), {w: values(8, 16)})
    data = values(4, 16)
    wide, exact = values(8, 16).astype("float64"), data.astype("float64")
    net = sl.network(model, target=EMULATOR, precision=precision)
    error = np.abs(net(data) - exact @ wide.T)
    magnitude = np.abs(exact) @ np.abs(wide).T
    assert (error <= bound(precision, 16, 1) * magnitude).all()
    # sums of 16 terms in float32 alone would err less
    assert (error > 16 * 2.0**-24 * magnitude).any()
    report = precision_error(model, data, precision=precision, target=EMULATOR)
    ratio = 20 * np.log10(np.linalg.norm(exact @ wide.T) / np.linalg.norm(error))
    assert report.layers == {} and report.outputs == (pytest.approx(ratio, rel=1e-5),)


@pytest.mark.slow
def test_the_report_has_layers() -> None:
    model, x = layers(), values(2, 4, 5, 5)
    conv, _, _ = in_float64(model, x)
    report = precision_error(model, x, precision="float16", target=EMULATOR)
    (op,) = (op for op in operations(model.outputs) if op.name == "conv")
    (weights,) = (array for t, array in model.params.items() if t.name == "w")
    alone = Imported(op.outputs, model.inputs, {op.input_tensors[1]: weights})
    near = sl.network(alone, target=EMULATOR, precision="float16")(x)
    ratio = 20 * np.log10(np.linalg.norm(conv) / np.linalg.norm(near - conv))
    assert report.layers == {"conv": pytest.approx(ratio, rel=1e-5)}
    plain = precision_error(model, x, precision="float32", target=EMULATOR)
    assert plain.layers["conv"] > 120 > report.layers["conv"]


def test_the_stages_around_products() -> None:
    net = sl.network(layers(), target=EMULATOR, precision="float16")
    bodies = stages(net)
    assert str(bodies["conv"]).startswith("float32(pad_temp_float16[")
    assert "* float32(w_float16[" in str(bodies["conv"])
    # data are rounded once, before they are padded and moved, by the kernel that computes them
    assert str(bodies["x_float16"]) == "float16(x[i0, i1, i2, i3])"
    assert bodies["pad_temp_float16"].dtype == "float16"
    parts = {part.name: part for part in net.partition}
    assert parts["conv"].writes[0].dtype == "float16"
    assert parts["conv"].stages[-1] == "relu_float16" and parts["conv"].layers == ("conv",)
    # weights are rounded ahead
    weights = {t.name: t.dtype for part in net.partition for t in part.reads}
    assert weights["w_float16"] == weights["v_float16"] == "float16"
    assert parts["fc"].writes[0].dtype == "float32"
    plain = sl.network(layers(), target=EMULATOR)
    assert key_of(plain._compiled) != key_of(net._compiled)


def test_convolutions_of_groups_stay_in_float32() -> None:
    net = sl.network(layers(1), target=EMULATOR, precision="bfloat16")
    assert "bfloat16" not in str(stages(net)["conv"])
    assert "bfloat16" in str(stages(net)["fc"])


def test_tf32_is_in_each_product() -> None:
    net = sl.network(layers(), target=EMULATOR, precision="tf32")
    assert str(stages(net)["conv"]).startswith("tf32(pad_temp[")
    assert {t.dtype for part in net.partition for t in (*part.reads, *part.writes)} == {"float32"}


REFUSED = {
    "unknown": ("float8", EMULATOR, "no such precision.*did you mean 'float32'"),
    "python": ("float16", "python", "no instruction of this target multiplies float16"),
    "cpu": ("tf32", "cpu", "no instruction of this target multiplies tf32"),
    "features": ("bfloat16", sl.Target("cpu", features=["avx2"]), r"vdpbf16ps.*lacks it"),
    "architecture": ("float16", "cuda -arch=sm_75", "kernels are built for sm_80"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case: str) -> None:
    precision, target, message = REFUSED[case]
    with pytest.raises(BuildError, match=message):
        sl.network(layers(), target=target, precision=precision)


def test_scans_are_refused() -> None:
    n, x = 4, sl.placeholder((4, 3), name="x")
    state = sl.placeholder((n, 3), name="state")
    first = sl.compute((1, 3), lambda _, i: x[0, i], name="first")
    step = sl.compute((n, 3), lambda t, i: state[t - 1, i] + x[t, i], name="step")
    total = sl.scan(first, step, state, inputs=[x])
    with pytest.raises(NetworkError, match="the network has a scan"):
        sl.network(total, target=EMULATOR, precision="float16")
