"""Steps on the loops of a stage that tactics share."""

from __future__ import annotations

from collections.abc import Sequence

from schedlang.compute.tensor import Tensor
from schedlang.expr.nodes import Axis
from schedlang.schedule.schedule import Schedule


def in_order(s: Schedule, tensor: Tensor | str, loops: Sequence[Axis]) -> None:
    """Reorder loops from outer to inner; a single loop needs no step."""
    if len(loops) > 1:
        s[tensor].reorder(*loops)


def fuse_loops(s: Schedule, tensor: Tensor, axes: Sequence[Axis]) -> Axis:
    """Fuse adjacent loops into one; without any, make a loop of a single iteration."""
    if not axes:
        return s[tensor].fuse()
    whole = axes[0]
    for axis in axes[1:]:
        whole = s[tensor].fuse(whole, axis)
    return whole


def innermost(s: Schedule, tensor: Tensor | str, *inner: Axis) -> None:
    """Put loops inside of all others, in this order."""
    in_order(s, tensor, [*(a for a in s[tensor].leaf_axes if a not in inner), *inner])


def in_blocks(s: Schedule, tensor: Tensor, axes: Sequence[Axis], threads: int) -> Axis:
    """Share the iterations of adjacent loops among blocks of GPU threads; return their loop."""
    block, thread = s[tensor].split(fuse_loops(s, tensor, axes), factor=threads)
    s[tensor].bind(block, "blockIdx.x")
    s[tensor].bind(thread, "threadIdx.x")
    return thread


def first(outputs: Tensor | list[Tensor]) -> Tensor:
    """Return the first output of a stage made by rfactor or cache_write."""
    return outputs[0] if isinstance(outputs, list) else outputs
