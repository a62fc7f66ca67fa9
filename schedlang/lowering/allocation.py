"""Storage for the boxes of intermediate stages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from schedlang.compute.extern_op import ExternOp
from schedlang.compute.tensor import ScanOp, Tensor
from schedlang.expr.nodes import Axis
from schedlang.index.linear import Lin, number_or_expr
from schedlang.index.ranges import Ranges
from schedlang.ir.nodes import Alloc, Buffer
from schedlang.state.layout import stored_extents, swizzles_of, whole_dims
from schedlang.state.plan import Dim, whole
from schedlang.state.state import PRIVATE, At, Stage


class LoopLike(Protocol):
    @property
    def var(self) -> Axis: ...
    @property
    def extent(self) -> Lin: ...
    @property
    def tag(self) -> str: ...


def scope_of(stage: Stage, loops: Sequence[LoopLike]) -> str:
    """Return the storage scope of ``stage``.

    The default is TVM te's: local inside a threadIdx loop, else shared inside a blockIdx loop, else
    global. Threads that reduce together share the result.
    """
    if stage.scope:
        return stage.scope
    if isinstance(stage.attach, At):
        tags = [loop.tag for loop in loops]
        together = any(stage.kinds.get(a, "").startswith("threadIdx") for a in stage.reduce_leaves)
        if any(t.startswith("threadIdx") for t in tags):
            return "shared" if together else "local"
        if any(t.startswith("blockIdx") for t in tags):
            return "shared"
    return "global"


def box_scope(scope: str, loops: Sequence[LoopLike]) -> list[LoopLike]:
    """Return the enclosing thread loops that share storage of ``scope``.

    The storage must hold the box of all their threads.
    """
    if scope in PRIVATE:
        return []
    shared = ("threadIdx", "vthread") if scope == "shared" else ("threadIdx", "vthread", "blockIdx")
    return [loop for loop in reversed(loops) if loop.tag and loop.tag.startswith(shared)]


def allocate(stage: Stage, dims: Sequence[Dim], scope: str, title: str) -> list[Alloc]:
    """Return one allocation for each output; ``storage_align`` pads its strides.

    The allocations of a scan hold all of its states, whose shapes differ. The
    shapes of a call for whole arrays may differ, too.
    """
    allocations = []
    op = stage.op
    apart = isinstance(op, ExternOp) and op.boxes is None
    for tensor in stage.outputs:
        own = whole(tensor.shape) if apart else dims
        if isinstance(op, ScanOp):
            own = dims_of_state(op, tensor, dims)
        layout = tuple(part for part in stage.layout if part.dim < tensor.ndim)
        extents = [d.extent for d in own]
        if layout:
            extents = stored_extents(layout, extents, Ranges())
        shape = tuple(number_or_expr(e) for e in extents)
        name = title if len(stage.outputs) == 1 else tensor.name
        buffer = Buffer(
            name,
            tensor.dtype,
            shape,
            scope,
            tensor,
            _strides(stage, shape),
            stage.copies,
            stage.pipeline > 0,
            swizzles_of(layout),
        )
        allocations.append(Alloc(buffer, tuple(d.lo for d in own), layout))
    return allocations


def dims_of_state(scan: ScanOp, tensor: Tensor, dims: Sequence[Dim]) -> tuple[Dim, ...]:
    """Return the dimensions of a state, or of a part of it, where the first state has ``dims``.

    States have their independent data axes in common.
    """
    own = whole(tensor.shape)
    some = {k: dims[k] for k, axis in enumerate(scan.axis, 1) if axis in scan.independent}
    return tuple(some.get(k, dim) for k, dim in enumerate(own))


def _strides(stage: Stage, shape: Sequence[object]) -> tuple[int, ...] | None:
    """Return strides with ``stride % factor == offset`` for aligned axes.

    Return ``None`` if no axis is aligned, or if the shape is symbolic.
    """
    axes = stage.op.axis
    places = whole_dims(stage.layout, len(axes)) if stage.layout else range(len(axes))
    alignments = {k: stage.align[a] for k, a in zip(places, axes) if a in stage.align}
    if not alignments or any(not isinstance(e, int) for e in shape):
        return None
    strides: list[int] = []
    step = 1
    for k in reversed(range(len(shape))):
        if k in alignments:
            factor, offset = alignments[k]
            step += (offset - step) % factor
        strides.insert(0, step)
        step *= shape[k]  # type: ignore[operator]
    return tuple(strides)
