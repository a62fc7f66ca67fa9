"""Blocks of the spatial dimensions as elements of the batch, and back."""

from __future__ import annotations

from math import prod
from typing import Any

from schedlang.arrays.shapes import extent
from schedlang.compute.tensor import Tensor
from schedlang.errors import ComputeError
from schedlang.expr.nodes import Expr
from schedlang.language.construct import as_expr
from schedlang.tvm.topi.checks import check_divides, check_numbers
from schedlang.tvm.topi.nn.padding import pad
from schedlang.tvm.topi.rules import operator, tensor
from schedlang.tvm.topi.stages import compute


def _sizes(asked: str, data: Tensor, block_shape: Any) -> tuple[int, ...]:
    count = len(block_shape) if isinstance(block_shape, (list, tuple)) else 1
    if not 1 <= count < data.ndim:
        raise ComputeError(
            f"{asked}: block_shape={block_shape} has {count} numbers, but must have one for each "
            f"spatial dimension of {data.name}, from dimension 1 on, which has {data.ndim} in all"
        )
    return check_numbers(asked, block_shape, "block_shape", (count,), 1)


@operator(data=tensor())
def space_to_batch_nd(
    data: Any, block_shape: Any, pad_before: Any, pad_after: Any, pad_value: float = 0.0
) -> Tensor:
    """Return the elements of each block of the padded spatial dimensions as batches.

    ``data`` is ``[batch, spatial dimensions, others]``; the other arguments have a number for each
    spatial dimension.

    >>> import schedlang as sl
    >>> space_to_batch_nd(sl.placeholder((2, 6, 7, 3), name="A"), [2, 2], [0, 0], [0, 1])
    Tensor(space_to_batch_nd: float32[8, 3, 4, 3])
    """
    asked = "topi.nn.space_to_batch_nd"
    blocks = _sizes(asked, data, block_shape)
    count = len(blocks)
    before = check_numbers(asked, pad_before, "pad_before", (count,), 0)
    after = check_numbers(asked, pad_after, "pad_after", (count,), 0)
    rest = (0,) * (data.ndim - count - 1)
    padded = data
    if any(before) or any(after):
        padded = pad(data, (0, *before, *rest), (0, *after, *rest), pad_value)
    for k, block in enumerate(blocks, 1):
        what = f"dimension {k} of {data.name} with its padding"
        check_divides(asked, padded.shape[k], block, what, f"blocks of {block}")
    batch = padded.shape[0]
    spatial = (extent(as_expr(padded.shape[k + 1]) // b) for k, b in enumerate(blocks))
    shape = (extent(as_expr(batch) * prod(blocks)), *spatial, *padded.shape[count + 1 :])

    def element(n: Any, *at: Any) -> Expr:
        places = _places(n // batch, blocks)
        own = (i * b + p for i, b, p in zip(at, blocks, places))
        return padded.element((n % batch, *own, *at[count:]))

    return compute("space_to_batch_nd", shape, element)


def _places(number: Any, blocks: tuple[int, ...]) -> list[Any]:
    """Return the place in a block of the element with a number, the last dimension fastest."""
    places = []
    for k, block in enumerate(blocks):
        places.append(number // prod(blocks[k + 1 :]) % block)
    return places


@operator(data=tensor())
def batch_to_space_nd(
    data: Any, block_shape: Any, crop_begin_list: Any, crop_end_list: Any
) -> Tensor:
    """Return the inverse of :func:`space_to_batch_nd`, without elements at both ends.

    >>> import schedlang as sl
    >>> batch_to_space_nd(sl.placeholder((8, 3, 4, 3), name="A"), [2, 2], [0, 0], [0, 1])
    Tensor(batch_to_space_nd: float32[2, 6, 7, 3])
    """
    asked = "topi.nn.batch_to_space_nd"
    blocks = _sizes(asked, data, block_shape)
    count = len(blocks)
    first = check_numbers(asked, crop_begin_list, "crop_begin_list", (count,), 0)
    last = check_numbers(asked, crop_end_list, "crop_end_list", (count,), 0)
    check_divides(asked, data.shape[0], prod(blocks), f"the batch of {data.name}", "blocks")
    batch = extent(as_expr(data.shape[0]) // prod(blocks))
    spatial = []
    for k, (block, low, high) in enumerate(zip(blocks, first, last), 1):
        size = extent(as_expr(data.shape[k]) * block - low - high)
        if isinstance(size, int) and size < 1:
            raise ComputeError(
                f"{asked}: {low} and {high} elements are cut off dimension {k} of {data.name}, "
                "which leaves none"
            )
        spatial.append(size)

    def element(n: Any, *at: Any) -> Expr:
        whole = [i + low for i, low in zip(at, first)]
        number: Any = 0
        for i, block in zip(whole, blocks):
            number = number * block + i % block
        own = (i // block for i, block in zip(whole, blocks))
        return data.element((number * batch + n, *own, *at[count:]))

    return compute("batch_to_space_nd", (batch, *spatial, *data.shape[count + 1 :]), element)


__all__ = ["batch_to_space_nd", "space_to_batch_nd"]
