"""Other shapes of the same elements, as views, which elementwise operators read through."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from schedlang import topi
from schedlang.arrays import shaping
from schedlang.arrays.shapes import axis_numbers, broadcast, is_one, size_of
from schedlang.compute.tensor import Extent, Tensor
from schedlang.frontend.onnx.call import Call, Flag
from schedlang.frontend.onnx.operators.table import Table, since
from schedlang.frontend.onnx.values import Known


def reshape(call: Call, data: Tensor, shape: Known, *, allowzero: Flag = 0) -> Tensor:
    """An extent of 0 stands for the input's, and -1 for what is left."""
    new_shape = call.sizes(shape, "shape")
    call.check_ndim(len(new_shape))
    extents: list[Extent] = []
    for k, extent in enumerate(new_shape):
        if isinstance(extent, int) and extent == 0 and not allowzero:
            if k >= data.ndim:
                raise call.refused(
                    f"extent {k} of its new shape is 0, but its input has no extent {k} to copy"
                )
            extent = data.shape[k]
        if isinstance(extent, int) and extent < -1:
            raise call.refused(f"its new shape has the extent {extent}")
        extents.append(extent)
    if allowzero and -1 in [e for e in extents if isinstance(e, int)] and 0 in extents:
        raise call.refused("its new shape has both 0 and -1")
    return shaping.reshape(data, tuple(extents))


def flatten(call: Call, input: Tensor, *, axis: int = 1) -> Tensor:  # noqa: A002
    if not -input.ndim <= axis <= input.ndim:
        raise call.refused(f"its attribute 'axis' is {axis}, of {input.ndim} dimensions")
    at = axis + input.ndim if axis < 0 else axis
    return shaping.reshape(input, (size_of(input.shape[:at]), size_of(input.shape[at:])))


def transpose(call: Call, data: Tensor, *, perm: list[int] | None = None) -> Tensor:
    return shaping.transpose(data, perm)


def squeeze_of_attribute(call: Call, data: Tensor, *, axes: list[int] | None = None) -> Tensor:
    return _squeezed(call, data, axes)


def squeeze(call: Call, data: Tensor, axes: Known | None = None) -> Tensor:
    return _squeezed(call, data, None if axes is None else call.integers(axes, "axes"))


def _squeezed(call: Call, data: Tensor, axes: Sequence[int] | None) -> Tensor:
    if axes is None:
        gone = tuple(k for k, e in enumerate(data.shape) if is_one(e))
    else:
        gone = axis_numbers(tuple(axes), data.ndim, str(call.node), "axes")
    return shaping.squeeze(data, gone) if gone else data


def unsqueeze_of_attribute(call: Call, data: Tensor, *, axes: list[int]) -> Tensor:
    return _unsqueezed(call, data, axes)


def unsqueeze(call: Call, data: Tensor, axes: Known) -> Tensor:
    return _unsqueezed(call, data, call.integers(axes, "axes"))


def _unsqueezed(call: Call, data: Tensor, axes: Sequence[int]) -> Tensor:
    call.check_ndim(data.ndim + len(axes))
    return shaping.expand_dims(data, tuple(axes)) if axes else data


def expand(call: Call, input: Tensor, shape: Known) -> Tensor:  # noqa: A002
    """The input and the new shape broadcast to each other."""
    wanted = tuple(call.sizes(shape, "shape"))
    call.check_ndim(len(wanted))
    if any(isinstance(e, int) and e < 0 for e in wanted):
        raise call.refused(f"its new shape {wanted} has a negative extent")
    return shaping.broadcast_to(input, broadcast([input.shape, wanted], str(call.node)))


def tile(call: Call, input: Tensor, repeats: Known) -> Tensor:  # noqa: A002
    counts = call.sizes(repeats, "repeats")
    if len(counts) != input.ndim:
        raise call.refused(f"its input 'repeats' has {len(counts)} numbers, not {input.ndim}")
    return topi.tile(input, tuple(counts)) if counts else input


def depth_to_space(
    call: Call,
    input: Tensor,  # noqa: A002
    *,
    blocksize: int,
    mode: Literal["DCR", "CRD"] = "DCR",
) -> Tensor:
    return topi.nn.depth_to_space(input, blocksize, mode=mode)


def space_to_depth(
    call: Call,
    input: Tensor,  # noqa: A002
    *,
    blocksize: int,
    mode: Literal["DCR", "CRD"] = "DCR",
) -> Tensor:
    if mode == "DCR":
        return topi.nn.space_to_depth(input, blocksize)
    blocks = topi.nn.space_to_depth(input, blocksize)
    n, _, h, w = blocks.shape
    # channel (by*block + bx)*C + c becomes (c*block + by)*block + bx
    parts = shaping.reshape(blocks, (n, blocksize * blocksize, input.shape[1], h, w))
    return shaping.reshape(shaping.transpose(parts, (0, 2, 1, 3, 4)), blocks.shape)


def trilu(call: Call, input: Tensor, k: Known | None = None, *, upper: Flag = 1) -> Tensor:  # noqa: A002
    return topi.trilu(input, 0 if k is None else call.integer(k, "k"), bool(upper))


def reverse_sequence(
    call: Call,
    input: Tensor,  # noqa: A002
    sequence_lens: Tensor,
    *,
    batch_axis: int = 1,
    time_axis: int = 0,
) -> Tensor:
    return topi.reverse_sequence(input, sequence_lens, time_axis, batch_axis)


OPERATORS: Table = {
    "Reshape": since(reshape, 5, 13, 14, 19, 21, 23, 24, 25),
    "Flatten": since(flatten, 1, 9, 11, 13, 21, 23, 24, 25),
    "Transpose": since(transpose, 1, 13, 21, 23, 24, 25),
    "Squeeze": {**since(squeeze_of_attribute, 1, 11), **since(squeeze, 13, 21, 23, 24, 25)},
    "Unsqueeze": {**since(unsqueeze_of_attribute, 1, 11), **since(unsqueeze, 13, 21, 23, 24, 25)},
    "Expand": since(expand, 8, 13),
    "Tile": since(tile, 6, 13),
    "DepthToSpace": since(depth_to_space, 1, 11, 13, 28),
    "SpaceToDepth": since(space_to_depth, 1, 13, 28),
    "Trilu": since(trilu, 14),
    "ReverseSequence": since(reverse_sequence, 10, 28),
}
