"""Weights of integer sums in the order of dot products: the same results, and kernels that use it.

As in ``test_dot_products``, targets name features, and kernels run uncompiled.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang import topi
from schedlang.compute.tensor import ComputeOp, Tensor
from schedlang.networks.dot_products import in_dot_products
from schedlang.networks.layouts import blocked_layouts

WIDE = sl.Target("cpu", vector_bytes=64, features=("avx512vnni", "avx512bf16"))


def integers(tensor: Tensor) -> np.ndarray:
    ends = np.iinfo(tensor.dtype)
    draw = np.random.default_rng(tensor.ndim)
    return draw.integers(ends.min, ends.max, tensor.shape, tensor.dtype, endpoint=True)


def same(before: Tensor, after: Tensor) -> None:
    """Compare two graphs on random integers over the whole range, by NumPy."""
    oracles = sl.reference(before), sl.reference(after)
    first, second = (o(*(integers(t) for t in o.inputs)) for o in oracles)
    np.testing.assert_array_equal(second, first, strict=True)


def weights_of(stage: Tensor) -> tuple[Any, ...]:
    """Return the shape of the weights of a sum, whose data come first."""
    assert isinstance(stage.op, ComputeOp)
    return stage.op.input_tensors[1].shape


def product(*shape: int, dtype: str = "uint8") -> tuple[Tensor, Tensor]:
    m, k, n = shape
    x, w = sl.placeholder((m, k), dtype, name="x"), sl.placeholder((k, n), "int8", name="w")
    return topi.nn.matmul(x, w, out_dtype="int32"), w


@pytest.mark.parametrize(("shape", "weights"), [
    ((3, 8, 32), (2, 32, 4)), ((2, 64, 19), (16, 19, 4)), ((3, 7, 17), (2, 17, 4)),
    ((1, 2, 16), (1, 16, 4)),
])  # fmt: skip
def test_weights_of_a_matrix_stand_side_by_side(shape: Any, weights: Any) -> None:
    stage, w = product(*shape)
    (dots,) = in_dot_products([stage], [w], WIDE)
    assert weights_of(dots) == weights
    same(stage, dots)


def test_a_factor_without_dimensions_stays() -> None:
    x, k = sl.placeholder((), "uint8", name="x"), sl.reduce_axis(8, name="k")
    w = sl.placeholder((8, 32), "int8", name="w")
    stage = sl.compute(
        (32,), lambda j: sl.sum(x().astype("int32") * w[k, j].astype("int32"), axis=k), name="y"
    )
    assert in_dot_products([stage], [w], WIDE) == (stage,)


def test_the_first_convolution_takes_steps_along_its_rows() -> None:
    """Three channels are no steps of a dot product; the taps of a row are, filled up with zeros."""
    x = sl.placeholder((1, 3, 11, 13), "uint8", name="x")
    w = sl.placeholder((32, 3, 7, 7), "int8", name="w")
    v = sl.placeholder((16, 32, 1, 1), "int8", name="v")
    first = topi.nn.conv2d_nchw(x, w, 2, 3, 1, "int32")
    data = topi.cast(topi.minimum(topi.maximum(first, 0), 255), "uint8")
    second = topi.nn.conv2d_nchw(data, v, 1, 0, 1, "int32")
    blocked = blocked_layouts(second, [w, v], WIDE).outputs
    (dots,) = in_dot_products(blocked, [w, v], WIDE)
    same(second, dots)
    names = {t.name: t.shape for t in placed(dots)}
    assert names["w_packed_dots"] == (2, 3, 7, 2, 16, 4)
    assert [shape for name, shape in names.items() if "wider" in name] == [(1, 3, 17, 20)]


def placed(stage: Tensor) -> list[Tensor]:
    from schedlang.compute.graph import operations

    return [op.outputs[0] for op in operations([stage]) if isinstance(op, ComputeOp)]


def test_channels_in_blocks_are_steps() -> None:
    x = sl.placeholder((1, 16, 7, 9), "uint8", name="x")
    weights = [sl.placeholder((n, c, k, k), "int8", name=f"w{n}")
               for n, c, k in ((32, 16, 3), (48, 32, 3), (16, 48, 1))]  # fmt: skip
    stage = x
    for w in weights:
        total = topi.nn.conv2d_nchw(stage, w, 1, w.shape[2] // 2, 1, "int32")
        stage = topi.cast(topi.right_shift(topi.maximum(total, 0), 8), "uint8")
    blocked = blocked_layouts(stage, weights, WIDE).outputs
    (dots,) = in_dot_products(blocked, weights, WIDE)
    same(stage, dots)
    assert {t.name: t.shape for t in placed(dots)}["w48_packed_dots"] == (3, 2, 3, 3, 4, 16, 4)


@pytest.mark.parametrize("stage", [
    product(3, 8, 32, dtype="int8"), product(3, 1, 32), product(2, 64, 10),
    (topi.nn.depthwise_conv2d_nchw(
        sl.placeholder((1, 16, 5, 5), "uint8", name="x"),
        depthwise := sl.placeholder((16, 1, 3, 3), "int8", name="w"), 1, 0, 1, "int32"), depthwise),
])  # fmt: skip
def test_other_sums_keep_their_weights(stage: tuple[Tensor, Tensor]) -> None:
    assert in_dot_products([stage[0]], [stage[1]], WIDE) == (stage[0],)


def test_a_processor_without_dot_products_keeps_the_order() -> None:
    stage, w = product(3, 8, 32)
    without = sl.Target("cpu", vector_bytes=64, features=("avx512f",))
    assert in_dot_products([stage], [w], without) == (stage,)


@pytest.mark.parametrize("shape", [(5, 16, 32), (2, 12, 33), (7, 9, 48)])
def test_a_kernel_uses_the_order(shape: Any) -> None:
    """The kernel has the instruction, and copies no weights."""
    stage, w = product(*shape)
    (dots,) = in_dot_products([stage], [w], WIDE)
    packed = sl.placeholder(weights_of(dots), "int8", name="packed")
    k = [sl.reduce_axis(e, name) for e, name in ((packed.shape[0], "ko"), (4, "ki"))]
    x = sl.placeholder((shape[0], packed.shape[0] * 4), "uint8", name="x")
    total = sl.compute(
        (shape[0], shape[2]),
        lambda i, j: sl.sum(
            x[i, k[0] * 4 + k[1]].astype("int32") * packed[k[0], j, k[1]].astype("int32"), axis=k
        ),
        name="total",
    )
    s = sl.autoschedule(total, WIDE)
    assert "tensorize vpdpbusd" in str(s) and "packed.global" not in str(s)
    f = sl.build(s, [x, packed, total], target="python")
    np.testing.assert_array_equal(
        f(integers(x), integers(packed)), sl.reference(total)(integers(x), integers(packed))
    )
