"""Tensors with more elements: at their ends, between them, and each of them repeated."""

from __future__ import annotations

from typing import Any

from schedlang.arrays.naming import mark_automatic
from schedlang.arrays.shapes import extent
from schedlang.compute import boundary
from schedlang.compute.math import all as every
from schedlang.compute.math import if_then_else
from schedlang.compute.tensor import Extent, Tensor
from schedlang.errors import ComputeError
from schedlang.expr.nodes import Axis, Expr
from schedlang.language.calls import call
from schedlang.language.construct import as_expr, const
from schedlang.signatures import public
from schedlang.tvm.topi.checks import (
    MEANINGS,
    check_choice,
    check_divides,
    check_numbers,
    check_tensor,
)
from schedlang.tvm.topi.rules import one_of, operator, tensor
from schedlang.tvm.topi.stages import compute, names_of_user


@operator(data=tensor())
def pad(
    data: Any,
    pad_before: Any,
    pad_after: Any = None,
    pad_value: Any = 0.0,
    name: str = "PadInput",
    attrs: Any = None,
) -> Tensor:
    """Return ``data`` with ``pad_value`` before and after the elements of each dimension.

    ``pad_before`` and ``pad_after`` (by default the same) have a width of 0 or more for each
    dimension, which may be a size. ``attrs`` has no effect.

    >>> import schedlang as sl
    >>> pad(sl.placeholder((4, 5), name="A"), [0, 1], [0, 2])
    Tensor(PadInput: float32[4, 8])
    """
    with names_of_user("pad(", "topi.nn.pad("):
        result = boundary.pad(data, pad_before, pad_after, value=pad_value, name=name)
    mark_automatic(result)
    return result


@operator(data=tensor(), mode=one_of("SYMMETRIC", "REFLECT"))
def mirror_pad(
    data: Any,
    pad_before: Any,
    pad_after: Any = None,
    mode: str = "SYMMETRIC",
    name: str = "MirrorPadInput",
) -> Tensor:
    """Return ``data`` with its own elements in reverse order before and after each dimension.

    ``mode="SYMMETRIC"`` repeats the elements at the ends, ``"REFLECT"`` does not. The widths must
    be numbers, of at most the extent (less one for ``"REFLECT"``).

    >>> import numpy as np, schedlang as sl
    >>> A = sl.placeholder((3,), "int32", name="A")
    >>> sl.reference(mirror_pad(A, [2], [1]))(np.array([1, 2, 3], "int32"))
    array([2, 1, 1, 2, 3, 3], dtype=int32)
    """
    asked = "topi.nn.mirror_pad"
    before = check_numbers(asked, pad_before, "pad_before", (data.ndim,), 0)
    after = check_numbers(
        asked, pad_before if pad_after is None else pad_after, "pad_after", (data.ndim,), 0
    )
    if mode == "REFLECT":
        with names_of_user("pad(", "topi.nn.mirror_pad("):
            result = boundary.pad(data, before, after, mode="reflect", name=name)
        mark_automatic(result)
        return result
    for k, (size, widths) in enumerate(zip(data.shape, zip(before, after))):
        if isinstance(size, int) and max(widths) > size:
            raise ComputeError(
                f"{asked} of {data.name}: a width of {max(widths)} is more than the {size} "
                f"elements of dimension {k}, which it mirrors"
            )

    def source(i: Axis, b: int, size: Extent, a: int) -> Expr:
        place: Expr = i - b if b else i
        low = call("max", place, -1 - place) if b else place
        index = call("min", low, as_expr(size) * 2 - 1 - place) if a else low
        # provably within the tensor, also for a symbolic size
        return call("max", call("min", index, as_expr(size) - 1), 0) if a or b else index

    shape = tuple(extent(as_expr(e) + b + a) for b, e, a in zip(before, data.shape, after))
    return compute(
        name,
        shape,
        lambda *i: data[tuple(source(*part) for part in zip(i, before, data.shape, after))],
    )


@operator(data=tensor())
def dilate(
    data: Any, strides: Any, dilation_value: Any = 0.0, name: str = "DilatedInput"
) -> Tensor:
    """Return ``data`` with its elements ``strides`` apart, and ``dilation_value`` between them.

    >>> import numpy as np, schedlang as sl
    >>> A = sl.placeholder((3,), "int32", name="A")
    >>> sl.reference(dilate(A, [2]))(np.array([1, 2, 3], "int32"))
    array([1, 0, 2, 0, 3], dtype=int32)
    """
    asked = "topi.nn.dilate"
    steps = check_numbers(asked, strides, "strides", (data.ndim,), 1)
    filler = const(dilation_value, data.dtype)
    shape = tuple(
        0 if isinstance(e, int) and not e else extent((as_expr(e) - 1) * s + 1)
        for e, s in zip(data.shape, steps)
    )

    def element(*i: Axis) -> Expr:
        on = [at % s == 0 for at, s in zip(i, steps) if s > 1]
        value = data[tuple(at // s if s > 1 else at for at, s in zip(i, steps))]
        return if_then_else(every(*on), value, filler) if on else value

    return compute(name, shape, element)


@public
def space_to_depth(data: Any, block_size: int, layout: str = "NCHW") -> Tensor:
    """Return blocks of ``block_size`` by ``block_size`` elements as channels, block by block.

    Channel ``(by*block + bx)*C + c`` of the result is element (by, bx) of each block of channel c.

    >>> import schedlang as sl
    >>> space_to_depth(sl.placeholder((1, 3, 4, 6), name="A"), 2)
    Tensor(space_to_depth: float32[1, 12, 2, 3])
    """
    asked = "topi.nn.space_to_depth"
    block, size = _blocks(asked, data, block_size, layout)
    for c in "HW":
        what = f"the {MEANINGS[c]} of {data.name}"
        check_divides(asked, size[c], block, what, f"blocks of {block}")
    shape = {
        "N": size["N"],
        "C": extent(as_expr(size["C"]) * block * block),
        **{c: extent(as_expr(size[c]) // block) for c in "HW"},
    }

    def element(*axes: Axis) -> Expr:
        at = dict(zip(layout, axes))
        place = at["C"] // size["C"]
        read = {
            "N": at["N"],
            "C": at["C"] % size["C"],
            "H": at["H"] * block + place // block,
            "W": at["W"] * block + place % block,
        }
        return data[tuple(read[c] for c in layout)]

    return compute("space_to_depth", tuple(shape[c] for c in layout), element)


@operator(mode=one_of("DCR", "CDR", "CRD"))
def depth_to_space(data: Any, block_size: int, layout: str = "NCHW", mode: str = "DCR") -> Tensor:
    """Return channels as blocks of ``block_size`` by ``block_size`` elements.

    ``mode="DCR"`` is the inverse of :func:`space_to_depth`. With ``"CDR"`` or ``"CRD"``, TVM's
    and ONNX's names of one order, the block is the fastest part of the channel, as in PyTorch's
    ``pixel_shuffle``.

    >>> import schedlang as sl
    >>> depth_to_space(sl.placeholder((1, 12, 2, 3), name="A"), 2)
    Tensor(depth_to_space: float32[1, 3, 4, 6])
    """
    asked = "topi.nn.depth_to_space"
    block, size = _blocks(asked, data, block_size, layout)
    check_divides(
        asked,
        size["C"],
        block * block,
        f"the number of channels of {data.name}",
        f"blocks of {block} by {block}",
    )
    channels = extent(as_expr(size["C"]) // (block * block))
    shape = {"N": size["N"], "C": channels, **{c: extent(as_expr(size[c]) * block) for c in "HW"}}

    def element(*axes: Axis) -> Expr:
        at = dict(zip(layout, axes))
        place = at["H"] % block * block + at["W"] % block
        c = place * channels + at["C"] if mode == "DCR" else at["C"] * (block * block) + place
        read = {"N": at["N"], "C": c, "H": at["H"] // block, "W": at["W"] // block}
        return data[tuple(read[c] for c in layout)]

    return compute("depth_to_space", tuple(shape[c] for c in layout), element)


def _blocks(asked: str, data: Any, block_size: Any, layout: Any) -> tuple[int, dict[str, Extent]]:
    check_choice(asked, layout, "layout", ("NCHW", "NHWC"))
    check_tensor(asked, data, "data", *layout)
    (block,) = check_numbers(asked, block_size, "block_size", (1,), 1)
    return block, dict(zip(layout, data.shape))
