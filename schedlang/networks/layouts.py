"""Layouts: tensors between stages in blocks of channels, and weights packed for their readers.

A convolution over ``[n, c, y, x]`` computes a vector of output channels at a time, so that each
input element is read once for all of them. With 16 channels innermost, ``[n, c/16, y, x, 16]``,
such a vector is contiguous where it is stored and where the next stage reads it, and no stage
transposes what the last one wrote (E. Georganas et al., "Anatomy of High-Performance Deep Learning
Convolutions on SIMD Architectures", SC 2018; Y. Liu et al., "Optimizing CNN Model Inference on
CPUs", ATC 2019). No operator is known by name: layouts follow from the indices of reads.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from schedlang.compute.graph import operations
from schedlang.compute.read import reads
from schedlang.compute.tensor import ComputeOp, Operation, Tensor
from schedlang.expr.nodes import Axis
from schedlang.index.simplify import to_lin
from schedlang.networks.ahead import known_tensors
from schedlang.networks.blocks import (
    Block,
    Blocked,
    is_clean,
    lone_axis,
    may_be_rewritten,
    splits_of,
)
from schedlang.networks.packing import Packing
from schedlang.state.initial import stage_names
from schedlang.target import Target, TargetLike


@dataclass(frozen=True, eq=False)
class Layouts:
    """A network whose tensors between stages are in blocks of channels where that gains.

    ``outputs`` compute the same as the given outputs, from the same placeholders. ``blocks`` has
    the blocks of each tensor that has some, by the name of its stage. ``packed`` are stages that
    depend on weights alone: the weights in the order in which their readers need them. Compute
    these once, ahead of all calls.
    """

    outputs: tuple[Tensor, ...]
    blocks: Mapping[str, Block] = field(default_factory=dict)
    packed: tuple[Tensor, ...] = ()


def blocked_layouts(
    outputs: Any, params: Collection[Tensor] = (), target: TargetLike | None = None
) -> Layouts:
    """Return a network with the channels of its intermediate tensors in blocks of a vector.

    ``outputs`` is a tensor or a list of them, ``params`` are the placeholders that are weights, and
    ``target`` means the same as in :func:`~schedlang.targets.build.build`; its vectors make the
    blocks.

    *Channels* are the data axis of a reduction that only weights depend on, if other data axes come
    after it: the output channels of a convolution. They are in blocks if their number
    divides by a vector, or by half of one. Stages that read such a tensor element by element along
    its channels have blocks too, such as activations, additions, poolings and concatenations.
    Reductions over channels go over blocks. Other numbers of channels, inputs and outputs of the
    network, and networks with scans or ragged axes keep their layout; a reader that has no use for
    blocks reads a copy without them, or the tensor is left as it was. The results are the same but
    for the order of sums.

    >>> import schedlang as sl
    >>> from schedlang import topi
    >>> A, W = sl.placeholder((1, 3, 8, 8), name="A"), sl.placeholder((32, 3, 3, 3), name="W")
    >>> V = sl.placeholder((8, 32, 1, 1), name="V")
    >>> first = topi.nn.relu(topi.nn.conv2d_nchw(A, W, 1, 1, 1))
    >>> found = blocked_layouts(topi.nn.conv2d_nchw(first, V, 1, 0, 1), [W, V],
    ...                         sl.Target("cpu", vector_bytes=64))
    >>> {name: str(block) for name, block in found.blocks.items()}
    {'conv2d_nchw': '1 in blocks of 16', 'relu': '1 in blocks of 16'}
    >>> found.packed
    (Tensor(W_packed: float32[2, 3, 3, 3, 16]),)
    """
    tensors = tuple(outputs) if isinstance(outputs, (list, tuple)) else (outputs,)
    ops = operations(tensors)
    if not may_be_rewritten(ops):
        return Layouts(tensors)
    known = known_tensors(ops, params)
    device = Target.of(target)
    banned = {*tensors, *known}
    while True:
        chosen = _chosen(ops, known, banned, device)
        useless = _useless(ops, chosen)
        if not useless:
            break
        banned |= useless
    return _rewritten(tensors, ops, chosen, known)


def _chosen(
    ops: Sequence[Operation], known: Collection[Tensor], banned: Collection[Tensor], target: Target
) -> dict[Tensor, Block]:
    """Return the blocks of tensors, producers first: of convolutions, and what follows them."""
    blocks: dict[Tensor, Block] = {}
    for op in ops:
        if not isinstance(op, ComputeOp) or op.outputs[0] in banned or not _may_change(op):
            continue
        width = target.vector_width(op.outputs[0].dtype)
        block = _followed(op, blocks) or _first(op, known, width)
        if block is not None:
            blocks[op.outputs[0]] = block
    return blocks


def _may_change(op: ComputeOp) -> bool:
    return len(op.outputs) == 1 and op.destination is None


def _first(op: ComputeOp, known: Collection[Tensor], width: int) -> Block | None:
    """Return blocks of the channels of a convolution: the data axis that only weights have."""
    if op.reducer is None:
        return None
    operands = list(reads(op.body))
    data = [read for read in operands if read.tensor not in known]
    weights = [read for read in operands if read.tensor in known]
    for at, axis in enumerate(op.axis):
        size = _block_size(axis, width)
        if not size or axis is op.axis[-1]:
            continue
        own = any(lone_axis(i) is axis for read in weights for i in read.indices)
        moved = any(to_lin(i).depends_on({axis}) for read in data for i in read.indices)
        if own and data and not moved:
            return Block(at, size)
    return None


def _block_size(axis: Axis, width: int) -> int:
    """Return the elements of a block of an axis, or 0."""
    if not isinstance(axis.extent, int) or axis.extent < 1 or axis.lo != 0:
        return 0
    return next((n for n in (width, width // 2) if n > 1 and axis.extent % n == 0), 0)


def _followed(op: ComputeOp, blocks: Mapping[Tensor, Block]) -> Block | None:
    """Return the blocks of what reads blocked tensors, element by element along their channels."""
    followed: set[Block] = set()
    for read in reads(op.roots):
        block = blocks.get(read.tensor)
        if block is None:
            continue
        axis = lone_axis(read.indices[block.at], block.size)
        if axis in op.axis:
            followed.add(Block(op.axis.index(axis), block.size))
    if len(followed) != 1:
        return None
    (block,) = followed
    axis = op.axis[block.at]
    fits = isinstance(axis.extent, int) and axis.extent % block.size == 0 and axis.lo == 0
    # the last axis is contiguous as it is
    return block if fits and axis is not op.axis[-1] else None


def _useless(ops: Sequence[Operation], blocks: Mapping[Tensor, Block]) -> set[Tensor]:
    """Return the blocked tensors that no reader reads by blocks."""
    used: set[Tensor] = set()
    for op in ops:
        if not isinstance(op, ComputeOp):
            continue
        splits = splits_of(op, blocks)
        for read in reads(op.roots):
            block = blocks.get(read.tensor)
            if block is None:
                continue
            index = read.indices[block.at]
            # a vector of results of a reduction reads one block
            lanes = op.reducer is not None and lone_axis(index, block.size) in op.axis
            if lanes or is_clean(index, block.size, splits):
                used.add(read.tensor)
    return set(blocks) - used


def _rewritten(
    outputs: tuple[Tensor, ...],
    ops: Sequence[Operation],
    blocks: Mapping[Tensor, Block],
    known: Collection[Tensor],
) -> Layouts:
    """Return the network with these blocks."""
    packing = Packing(known)
    blocked = Blocked(blocks, packing)
    for op in ops:
        if isinstance(op, ComputeOp):
            blocked.add(op)
        else:
            blocked.add_call(op)
    tensors = tuple(blocked.new_of.get(t, t) for t in outputs)
    names = stage_names(operations(tensors))
    named = {names[blocked.new_of[t].op]: block for t, block in blocks.items()}
    return Layouts(tensors, named, packing.stages)


__all__ = ["Block", "Layouts", "blocked_layouts"]
