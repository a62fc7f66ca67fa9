"""Schedules for GPUs, and the choice of one for each work of ``works/gpu.py``."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import schedlang as sl
from benchmarks.gpu import convolution, memory, products, rows, windows
from benchmarks.works import Work

Made = tuple[sl.Schedule, Sequence[sl.Tensor]]
_MAKE: dict[str, tuple[Callable[..., Made], tuple[str, ...]]] = {
    "sgemm": (products.sgemm, ("m", "n", "k")),
    "conv2d": (convolution.conv2d, ("batch", "ic", "oc", "size", "size", "k", "stride")),
    "depthwise": (convolution.depthwise, ("batch", "channels", "size", "size", "stride")),
    "softmax": (rows.softmax, ("rows", "width")),
    "layer_norm": (rows.layer_norm, ("rows", "width")),
    "row_sum": (rows.row_sum, ("rows", "width")),
    "column_sum": (rows.column_sum, ("rows", "width")),
    "transpose": (memory.transpose, ("size", "size")),
    "chain": (memory.chain, ("count",)),
    "box_blur": (windows.blur, ("size", "size")),
    "jacobi": (windows.jacobi, ("size", "size")),
    "attention": (products.attention, ("heads", "length", "width")),
}
# these schedules take the sizes of their input, which has a border
_BORDERED = ("box_blur", "jacobi")


def scheduled(work: Work) -> Made:
    """Return the schedule of a work, and its tensors in calling order."""
    make, names = _MAKE[work.kind]
    border = 2 if work.kind in _BORDERED else 0
    return make(*(work.sizes[name] + border for name in names))


__all__ = ["scheduled"]
