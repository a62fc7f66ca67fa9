"""The windows of convolutions and poolings: their attributes, and padding that ONNX computes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from schedlang.compute.tensor import Extent
from schedlang.frontend.convolutions import LAYOUTS
from schedlang.frontend.onnx.call import Call


@dataclass(frozen=True)
class Windows:
    """Windows along each spatial dimension; ``pads`` are the widths before all, then after."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[int, ...]


def windows(
    call: Call,
    spatial: Sequence[Extent],
    kernel: Sequence[Extent],
    strides: list[int] | None,
    dilations: list[int] | None,
    pads: list[int] | None,
    auto_pad: str,
) -> Windows:
    """Return the windows that the attributes of a node describe, over ``spatial`` extents."""
    count = len(spatial)
    if count not in LAYOUTS:
        raise call.refused(
            f"its input has {count} spatial dimensions, and convolutions and poolings have 1 to 3"
        )
    sizes = [_whole(call, k, "kernel") for k in kernel]
    steps = _each(call, strides, "strides", count, 1)
    spread = _each(call, dilations, "dilations", count, 1)
    for k, s, d in zip(sizes, steps, spread):
        if min(k, s, d) < 1:
            raise call.refused("its kernel, strides and dilations must be 1 or more")
    if len(sizes) != count:
        raise call.refused(f"its kernel has {len(sizes)} dimensions, and its input {count}")
    if auto_pad == "NOTSET":
        widths = _each(call, pads, "pads", 2 * count, 0)
        if min(widths) < 0:
            raise call.refused(f"its attribute 'pads' is {widths}, with a negative width")
    elif auto_pad == "VALID":
        widths = (0,) * (2 * count)
    elif auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        if pads and any(pads):
            raise call.refused("it has both 'pads' and 'auto_pad'")
        widths = _same(call, spatial, sizes, steps, spread, auto_pad == "SAME_LOWER")
    else:
        raise call.refused(f"its attribute 'auto_pad' is {auto_pad!r:.40}, which is unknown")
    return Windows(tuple(sizes), steps, spread, widths)


def _each(
    call: Call, given: list[int] | None, what: str, count: int, default: int
) -> tuple[int, ...]:
    if given is None or (not given and what != "kernel"):
        return (default,) * count
    if len(given) != count:
        raise call.refused(f"its attribute {what!r} has {len(given)} numbers, but needs {count}")
    return tuple(given)


def _whole(call: Call, extent: Extent, what: str) -> int:
    if not isinstance(extent, int):
        raise call.refused(
            f"the extent {extent} of its {what} is symbolic, but decides its loops",
            "Import the model with a number for this size: shapes={...}.",
        )
    return extent


def _same(
    call: Call,
    spatial: Sequence[Extent],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    lower: bool,
) -> tuple[int, ...]:
    """Return the pads that give a window for every ``stride`` elements of the input."""
    before, after = [], []
    for extent, k, s, d in zip(spatial, kernel, strides, dilations):
        # a stride of 1 needs the same padding at any extent
        size = 0 if s == 1 else _whole(call, extent, "input, which is padded to SAME,")
        needed = max((-(-size // s) - 1) * s + (k - 1) * d + 1 - size, 0)
        first = (needed + 1) // 2 if lower else needed // 2
        before.append(first)
        after.append(needed - first)
    return (*before, *after)
