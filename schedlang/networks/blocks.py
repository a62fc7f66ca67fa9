"""Tensors in blocks along one dimension, and operations rewritten to make and to read them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from schedlang.compute.define import define, finish
from schedlang.compute.read import Read, reads
from schedlang.compute.tensor import ComputeOp, Operation, ScanOp, Tensor
from schedlang.expr.nodes import Axis, Expr
from schedlang.expr.visit import rewrite
from schedlang.index.linear import Lin, to_expr
from schedlang.index.ranges import Ranges
from schedlang.index.rules import floordiv, mod
from schedlang.index.simplify import to_lin
from schedlang.networks.packing import Packing
from schedlang.networks.reading import with_inputs

# the end of the name of a copy without blocks
_PLAIN = "_plain"


@dataclass(frozen=True)
class Block:
    """Dimension ``at`` of a tensor in blocks of ``size`` elements, which are its last dimension.

    >>> Block(1, 16).shape((1, 64, 7, 9))
    (1, 4, 7, 9, 16)
    """

    at: int
    size: int

    def __str__(self) -> str:
        return f"{self.at} in blocks of {self.size}"

    def shape(self, shape: Sequence[Any]) -> tuple[Any, ...]:
        """Return the shape of a tensor of ``shape`` in these blocks."""
        return (*shape[: self.at], shape[self.at] // self.size, *shape[self.at + 1 :], self.size)

    def indices(self, indices: Sequence[Expr]) -> tuple[Expr, ...]:
        """Return where the element at ``indices`` is."""
        outer, inner = (to_expr(part) for part in parts(to_lin(indices[self.at]), self.size))
        return (*indices[: self.at], outer, *indices[self.at + 1 :], inner)


@dataclass(frozen=True)
class Split:
    """An axis as ``outer * size + inner``."""

    outer: Axis
    inner: Axis
    size: int

    @property
    def value(self) -> Lin:
        return Lin.of(self.outer) * self.size + Lin.of(self.inner)


Splits = Mapping[Axis, Split]


def may_be_rewritten(ops: Sequence[Operation]) -> bool:
    """Return whether operations can be copied one by one, producers first.

    The states of a scan refer to each other, and the ends of ragged axes to elements of tensors.
    """
    return not any(
        isinstance(op, ScanOp) or any(axis.bounds is not None for axis in op.reduce_axis)
        for op in ops
    )


def is_long(axis: Axis) -> bool:
    """Return whether the extent of an axis is not known to be 1."""
    return not isinstance(axis.extent, int) or axis.extent != 1


def lone_axis(index: Expr, size: int = 0) -> Axis | None:
    """Return the axis that an index is; with a ``size``, a multiple of it may be added.

    >>> c = Axis("c", 64)
    >>> lone_axis(c) is lone_axis(c - 32, 16) is c, lone_axis(c - 8, 16), lone_axis(c * 2)
    (True, None, None)
    """
    form = to_lin(index)
    rest = form.offset
    terms = {product: n for product, n in form.terms.items() if product}
    if len(terms) != 1 or (rest if not size else rest % size):
        return None
    ((product, factor),) = terms.items()
    if len(product) == 1 and factor == 1 and isinstance(product[0], Axis):
        return product[0]
    return None


def parts(index: Lin, size: int) -> tuple[Lin, Lin]:
    """Return the block of an index, and its place there."""
    return floordiv(index, Lin.of(size), Ranges()), mod(index, Lin.of(size), Ranges())


def is_clean(index: Expr, size: int, splits: Splits) -> bool:
    """Return whether the block of an index and its place there need no division.

    >>> c, o, i = Axis("c", 64), Axis("o", 4), Axis("i", 16)
    >>> [is_clean(c, 16, splits) for splits in ({}, {c: Split(o, i, 16)})]
    [False, True]
    """
    values = {axis: split.value for axis, split in splits.items()}
    terms = parts(to_lin(index, values), size)
    return all(isinstance(atom, Axis) for part in terms for atom in part.atoms())


def splits_of(op: ComputeOp, blocks: Mapping[Tensor, Block]) -> dict[Axis, Split]:
    """Return the axes of an operation to split, for its own blocks and for its reads."""
    sizes: dict[Axis, int] = {}
    block = blocks.get(op.outputs[0])
    if block is not None:
        sizes[op.axis[block.at]] = block.size
    for read in reads(op.roots):
        own = blocks.get(read.tensor)
        axis = None if own is None else lone_axis(read.indices[own.at], own.size)
        if own is None or axis is None or axis not in op.reduce_axis:
            continue
        # the inner part goes behind the other axes, where ties would be broken in another way
        if op.reducer is not None and op.reducer.ties and axis is not op.reduce_axis[-1]:
            continue
        whole = isinstance(axis.extent, int) and axis.extent % own.size == 0
        if whole and axis.lo == 0 and axis.bounds is None:
            sizes.setdefault(axis, own.size)
    names = {axis.name for axis in (*op.axis, *op.reduce_axis)}

    def part(axis: Axis, extent: int, letter: str) -> Axis:
        name = f"{axis.name}{letter}"
        while name in names:
            name += "_"
        names.add(name)
        return Axis(name, extent, axis.kind)

    return {
        axis: Split(part(axis, int(axis.extent) // n, "o"), part(axis, n, "i"), n)
        for axis, n in sizes.items()
    }


def plain_copies(ops: Iterable[Operation]) -> list[tuple[str, str]]:
    """Return the names of the copies without blocks that a network has, each with what it copies.

    :class:`Blocked` made them, for readers that do not take channels in the order of the blocks.
    """
    copies = []
    for op in ops:
        for source in op.input_tensors if isinstance(op, ComputeOp) else ():
            if op.name == f"{source.name}{_PLAIN}" and source.ndim == len(op.axis) + 1:
                copies.append((op.name, source.name))
    return copies


class Blocked:
    """The operations of a network, rewritten one by one, producers first.

    ``made`` maps the tensors that changed to those that stand for them.
    """

    def __init__(self, blocks: Mapping[Tensor, Block], packing: Packing) -> None:
        self.blocks = blocks
        self.packing = packing
        self.new_of: dict[Tensor, Tensor] = {}
        self._plain: dict[Tensor, Tensor] = {}

    def add(self, op: ComputeOp) -> None:
        """Rewrite an operation whose producers were added before."""
        splits = splits_of(op, self.blocks)
        axes, steps = _split(op.axis, splits), _split(op.reduce_axis, splits)
        memo: dict[int, Expr] = {}
        packs = self.packing.orders(op, splits, axes, steps)

        def changed(node: Expr) -> Expr | None:
            if isinstance(node, Axis) and node in splits:
                return to_expr(splits[node].value)
            if not isinstance(node, Read):
                return None
            pack = packs.get(node.tensor)
            if pack is not None:
                return self.packing.read(node, pack)
            return self._read(op, node)

        def copy(root: Expr) -> Expr:
            return rewrite(root, changed, memo)

        twin = replace(
            op,
            axis=axes,
            reduce_axis=steps,
            body=tuple(map(copy, op.body)),
            where=None if op.where is None else copy(op.where),
            init=None if op.init is None else tuple(map(copy, op.init)),
            destination=None if op.destination is None else tuple(map(copy, op.destination)),
            outputs=(),
        )
        same = all(a is b for a, b in zip((*op.roots, *op.axis), (*twin.roots, *twin.axis)))
        if same and not splits:
            return
        results = finish(twin, len(op.outputs), several=True)
        for old, new in zip(op.outputs, results):
            new.name = old.name
            self.new_of[old] = new

    def add_call(self, op: Operation) -> None:
        """Rewrite a call of a user's function, which takes arrays without blocks."""
        plain = {
            t: self._without_blocks(t, self.blocks[t]) if t in self.blocks else self.new_of[t]
            for t in op.input_tensors
            if t in self.new_of
        }
        self.new_of.update(with_inputs(op, plain))

    def _read(self, op: ComputeOp, node: Read) -> Read | None:
        """Return a read of what stands for the tensor, if that changed."""
        tensor = node.tensor
        block = self.blocks.get(tensor)
        if block is None:
            new = self.new_of.get(tensor)
            return None if new is None else Read(new, node.indices, node.dtype, node.weak)
        # by division, lanes along the channels read within a block
        lanes = lone_axis(node.indices[block.at], block.size) in op.axis
        if not lanes and not is_clean(node.indices[block.at], block.size, {}):
            return Read(self._without_blocks(tensor, block), node.indices, node.dtype, node.weak)
        return Read(self.new_of[tensor], block.indices(node.indices), node.dtype, node.weak)

    def _without_blocks(self, tensor: Tensor, block: Block) -> Tensor:
        """Return a copy of a tensor without its blocks."""
        if tensor not in self._plain:
            assert isinstance(tensor.op, ComputeOp)
            axes = tuple(Axis(axis.name, axis.extent) for axis in tensor.op.axis)
            source = self.new_of[tensor]
            value = Read(source, block.indices(axes), source.dtype)
            self._plain[tensor] = define(f"{tensor.name}{_PLAIN}", axes, value)
        return self._plain[tensor]


def _split(axes: Sequence[Axis], splits: Splits) -> tuple[Axis, ...]:
    """Return axes with the outer part of a split one in its place, and the inner ones last."""
    outer = [splits[axis].outer if axis in splits else axis for axis in axes]
    return (*outer, *(splits[axis].inner for axis in axes if axis in splits))
