"""Weights of the products in a scan's steps, in the order in which each step reads them.

A step of a recurrent layer multiplies the state by a matrix, and the next step reads all of the
matrix again. Tiles of a matrix product read it in panels: for each step of the sum, the weights of
some vectors of results. In this order they are one stream through memory; in any other one a
kernel would copy them in each call. Persistent weights are packed ahead of all calls in this way
(M. Holmes et al., "GRNN: Low-Latency and Scalable RNN Inference on GPUs", EuroSys 2019), and so are
the `packed` products of BLAS libraries. No layer is known by name.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from math import prod

from schedlang.compute import math
from schedlang.compute.define import define
from schedlang.compute.extraction import extract
from schedlang.compute.graph import operations, step_operations
from schedlang.compute.read import Read, reads
from schedlang.compute.tensor import ComputeOp, PlaceholderOp, ScanOp, Tensor
from schedlang.expr.nodes import Axis, Expr, Var
from schedlang.expr.visit import postorder, rewrite
from schedlang.index.ranges import Ranges
from schedlang.index.simplify import to_lin
from schedlang.language.construct import const
from schedlang.networks.ahead import in_order, known_tensors
from schedlang.networks.blocks import is_long
from schedlang.networks.prepare import MOST_GROWTH
from schedlang.state.initial import stage_names
from schedlang.target import Target, TargetLike

# the vectors of a panel, as many as the widest tiles have, with rows and without: see
# autotune/tactics/cpu/tile_sizes.py
WITH_ROWS, ALONE = 4, 8


def packed_for_scans(
    outputs: Sequence[Tensor], params: Collection[Tensor] = (), target: TargetLike | None = None
) -> tuple[Tensor, ...]:
    """Return tensors that compute ``outputs``, with the weights of scans' steps in panels.

    ``params`` are the placeholders that are weights. A weight is packed if a reduction in the steps
    of a scan reads it once, at places that change along the last axis of its result and along its
    steps, and if all sizes are numbers. A panel is up to eight vectors of ``target`` wide, or four
    if several rows of results share it, and the last one is filled with zeros. The packed weights
    are stages that depend on weights alone: compute them once, ahead of all calls. The results are
    the same to the last bit if the schedule sums in the same order.

    >>> import schedlang as sl
    >>> from schedlang import topi
    >>> X, Wi = sl.placeholder((5, 1, 3), name="X"), sl.placeholder((160, 3), name="Wi")
    >>> Wh = sl.placeholder((160, 40), name="Wh")
    >>> hidden, _ = topi.nn.lstm(X, Wi, Wh)
    >>> (made,) = packed_for_scans([hidden], [Wi, Wh], sl.Target("cpu", vector_bytes=64))
    >>> s = sl.schedule(made)
    >>> [stage.outputs[0] for stage in s.state.stages.values() if "packed" in stage.name]
    [Tensor(Wh_packed: float32[2, 40, 80])]
    """
    ops = operations(outputs)
    scans = [op for op in ops if isinstance(op, ScanOp)]
    known = known_tensors(ops, params)
    steps = dict.fromkeys(
        op
        for scan in scans
        for op in (*step_operations(scan), *(t.op for t in scan.update))
        if isinstance(op, ComputeOp) and op.outputs[0] not in known
    )
    names = {
        op.outputs[0]: name
        for op, name in stage_names(ops).items()
        if not isinstance(op, PlaceholderOp)
    }
    panels: dict[tuple[Tensor, str], Tensor] = {}
    changed: dict[Tensor, ComputeOp] = {}
    for op in steps:
        packed = _packed(op, known, names, Target.of(target), panels)
        if packed is not None:
            changed[op.outputs[0]] = packed
    if not changed:
        return tuple(outputs)
    copies = extract(in_order(outputs, changed), names)
    return tuple(copies.get(t, t) for t in outputs)


def _packed(
    op: ComputeOp,
    known: Collection[Tensor],
    names: Mapping[Tensor, str],
    target: Target,
    panels: dict[tuple[Tensor, str], Tensor],
) -> ComputeOp | None:
    """Return a reduction that reads packed weights, or ``None`` if it has none to pack.

    ``made`` are the packed weights so far, which equal reads share.
    """
    if op.reducer is None or op.destination is not None or len(op.axis) < 2:
        return None
    last = next((a for a in reversed(op.axis[1:]) if is_long(a)), op.axis[-1])
    swap: dict[Tensor, tuple[Tensor, tuple[Expr, ...]]] = {}
    operands = list(reads(op.roots))
    for read in reads(op.body):
        once = sum(r.tensor is read.tensor for r in operands) == 1
        axes = _axes(read, op, last) if once and read.tensor in known else None
        if axes is None:
            continue
        panel = _panel(op, last, target.vector_width(read.dtype))
        if -(-int(last.extent) // panel) * panel > MOST_GROWTH * int(last.extent):
            continue
        tensor = _panels(read, axes, last, panel, names, panels)
        swap[read.tensor] = tensor, (last // panel, *axes, last % panel)
    if not swap:
        return None

    def swapped(node: Expr) -> Expr | None:
        if isinstance(node, Read) and node.tensor in swap:
            tensor, indices = swap[node.tensor]
            return Read(tensor, indices, node.dtype, node.weak)
        return None

    return replace(op, body=tuple(rewrite(root, swapped) for root in op.body))


def _axes(read: Read, op: ComputeOp, last: Axis) -> list[Axis] | None:
    """Return the other axes that a read depends on, axes of the result first.

    Returns ``None`` for a read that is not to be packed: one that changes in each step of the scan,
    or not along ``last``, or not along the sum, that depends on sizes or on elements, or that only
    conditions keep in bounds.
    """
    inside = set(postorder(read.indices))
    time, own = op.axis[0], [a for a in (*op.axis, *op.reduce_axis) if a in inside]
    if time in own or last not in own or not any(a in op.reduce_axis for a in own):
        return None
    if any(isinstance(node, (Read, Var)) for node in inside) or not all(map(_is_counted, own)):
        return None
    # the copy is made without the conditions around the read
    ranges, shape = Ranges(), read.tensor.shape
    indices = [to_lin(index) for index in read.indices]
    if not all(
        ranges.nonneg(i) and ranges.nonneg(to_lin(n) - 1 - i) for i, n in zip(indices, shape)
    ):
        return None
    others = [a for a in own if a is not last]
    # a copy is of the size of the weight, or smaller
    size = prod(int(a.extent) for a in own)
    return others if size <= prod(map(int, read.tensor.shape)) else None


def _panel(op: ComputeOp, last: Axis, width: int) -> int:
    """Return the results of a panel along ``last``: whole vectors, which divide all if some do."""
    count = int(last.extent)
    rows = any(is_long(axis) for axis in op.axis[1:] if axis is not last)
    most = min(WITH_ROWS if rows else ALONE, -(-count // width))
    whole = (n for n in range(most, 1, -1) if count % (n * width) == 0)
    return width * next(whole, most)


def _is_counted(axis: Axis) -> bool:
    if not isinstance(axis.extent, int) or not isinstance(axis.lo, int):
        return False
    return axis.extent > 0 and axis.lo == 0 and axis.bounds is None


def _panels(
    read: Read,
    axes: Sequence[Axis],
    last: Axis,
    panel: int,
    names: Mapping[Tensor, str],
    panels: dict[tuple[Tensor, str], Tensor],
) -> Tensor:
    """Return the stage of a packed weight: panels along ``last``, the other ``axes``, lanes."""
    count = int(last.extent)
    outer, inner = Axis("panel", -(-count // panel)), Axis("lane", panel)
    # names of their own, so that equal texts are equal reads
    own = [Axis(f"{a.name}_{n}", a.extent) for n, a in enumerate(axes)]
    places: dict[Expr, Expr] = {**dict(zip(axes, own)), last: outer * panel + inner}

    def placed(node: Expr) -> Expr | None:
        return places.get(node) if isinstance(node, Axis) else None

    value: Expr = Read(read.tensor, tuple(rewrite(i, placed) for i in read.indices), read.dtype)
    if count % panel:
        value = math.if_then_else(outer * panel + inner < count, value, const(0, read.dtype))
    key = read.tensor, f"{value} over {[a.extent for a in (outer, *own, inner)]}"
    if key not in panels:
        name = f"{names.get(read.tensor, read.tensor.name)}_packed"
        panels[key] = define(name, (outer, *own, inner), value)
    return panels[key]
