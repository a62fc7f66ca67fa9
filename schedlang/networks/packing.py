"""Weights in the order in which a reduction reads them: its steps, and then a vector of results."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schedlang.compute.define import define
from schedlang.compute.read import Read, reads
from schedlang.compute.tensor import ComputeOp, Tensor
from schedlang.expr.nodes import Axis, Const, Expr
from schedlang.expr.visit import rewrite
from schedlang.index.linear import Lin
from schedlang.index.simplify import to_lin


@dataclass(frozen=True, eq=False)
class Order:
    """The axes of a reduction in the order of the dimensions of a packed weight.

    ``indices`` are the indices of the reduction's read, in terms of these axes. Equal orders of one
    weight have equal keys.
    """

    axes: tuple[Axis, ...]
    indices: tuple[Expr, ...]
    key: tuple[Any, ...]


class Packing:
    """Stages that pack weights, each one once. ``known`` depend on weights alone."""

    def __init__(self, known: Collection[Tensor]) -> None:
        self.known = known
        self._made: dict[tuple[Tensor, tuple[Any, ...]], Tensor] = {}

    @property
    def stages(self) -> tuple[Tensor, ...]:
        """The packed weights, in the order of their readers."""
        return tuple(self._made.values())

    def orders(
        self,
        op: ComputeOp,
        splits: Mapping[Axis, Any],
        axes: Sequence[Axis],
        steps: Sequence[Axis],
    ) -> dict[Tensor, Order]:
        """Return how to pack each weight that a reduction reads again and again.

        ``axes`` and ``steps`` are the data and the reduction axes after ``splits``. The order is
        data axes, steps, and last the axis that comes last in the result, if the weight has it. A
        weight that is read in two ways, at other places than an axis each, or in that order
        already, is not packed.
        """
        if op.reducer is None or op.destination is not None:
            return {}
        reads_of: dict[Tensor, list[Read]] = {}
        for read in reads(op.roots):
            if read.tensor in self.known:
                reads_of.setdefault(read.tensor, []).append(read)
        orders = {}
        for tensor, own in reads_of.items():
            order = _order(own[0], splits, axes, steps) if len(own) == 1 else None
            if order is not None:
                orders[tensor] = order
        return orders

    def read(self, node: Read, order: Order) -> Read:
        """Return the read of a packed weight that replaces a read of the weight."""
        key = (node.tensor, order.key)
        if key not in self._made:
            own = {axis: Axis(axis.name, axis.extent) for axis in order.axes}
            indices = tuple(
                rewrite(i, lambda n: own.get(n) if isinstance(n, Axis) else None)
                for i in order.indices
            )
            value = Read(node.tensor, indices, node.tensor.dtype)
            name = f"{node.tensor.name}_packed"
            self._made[key] = define(name, tuple(own.values()), value)
        return Read(self._made[key], order.axes, node.dtype, node.weak)


def _order(
    read: Read, splits: Mapping[Axis, Any], axes: Sequence[Axis], steps: Sequence[Axis]
) -> Order | None:
    own: list[Axis] = []
    indices: list[Expr] = []
    fixed = tuple(to_lin(index).const for index in read.indices)
    for index in read.indices:
        form = to_lin(index)
        if form.const is not None:
            indices.append(Const(form.const, index.dtype, index.weak))
            continue
        axis = next(iter(form.atoms()), None)
        if not isinstance(axis, Axis) or form != Lin.of(axis):
            return None
        if not _counted(axis) or axis.bounds is not None:
            return None
        split = splits.get(axis)
        parts = [axis] if split is None else [split.outer, split.inner]
        if any(part in own for part in parts):
            return None
        own += parts
        indices.append(axis if split is None else split.outer * split.size + split.inner)
    last = next((a for a in reversed(axes) if not _is_one(a)), None)
    # without the last data axis, any order is as good
    if last not in own:
        return None
    # without another data axis, each element is used once: vectors of blocks alone gain
    blocked = any(split.inner is last for split in splits.values())
    if not blocked and not any(a not in own and not _is_one(a) for a in axes):
        return None
    data = [a for a in axes if a in own and a is not last]
    order = (*data, *(a for a in steps if a in own), last)
    if list(order) == own:
        return None
    place = {axis: n for n, axis in enumerate(own)}
    return Order(order, tuple(indices), (tuple((place[a], a.extent) for a in order), fixed))


def _counted(axis: Axis) -> bool:
    return isinstance(axis.extent, int) and isinstance(axis.lo, int) and axis.lo == 0


def _is_one(axis: Axis) -> bool:
    return isinstance(axis.extent, int) and axis.extent == 1
