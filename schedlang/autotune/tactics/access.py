"""The reads of a stage, and how their indices change along its axes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from schedlang.compute.read import reads
from schedlang.compute.tensor import ComputeOp, Tensor
from schedlang.expr.nodes import Axis, Expr
from schedlang.expr.visit import postorder
from schedlang.index.linear import Atom, Div, Extreme, Lin, Mod, Opaque, to_expr
from schedlang.index.simplify import ceildiv, to_lin
from schedlang.ir.offsets import CLOSE
from schedlang.ir.rewrite import with_leaves


@dataclass(frozen=True, eq=False)
class Access:
    """A read of a tensor, with indices in terms of the axes of the reading stage."""

    tensor: Tensor
    indices: tuple[Expr, ...]

    def steps(self, axis: Axis, factor: int | None = None) -> tuple[int | None, ...]:
        """Return how far each index moves with one step of ``axis``; ``None`` if that varies.

        With a ``factor``, it is a step within a tile of that many elements, in which an index such
        as ``axis // 64`` may be constant.

        >>> import schedlang as sl
        >>> A = sl.placeholder((8, 8), name="A")
        >>> B = sl.compute((4, 64), lambda i, j: A[i * 2, j // 8], name="B")
        >>> (read,) = accesses(B.op)
        >>> i, j = B.op.axis
        >>> read.steps(i), read.steps(j), read.steps(j, 8)
        ((2, 0), (0, None), (0, 0))
        """
        known = self._known.get((axis, factor))
        if known is None:
            inner, moved = self._in_tile(axis, factor)
            known = self._known[axis, factor] = tuple(_step(index, inner) for index in moved)
        return known

    @cached_property
    def _known(self) -> dict[tuple[Axis, int | None], tuple[int | None, ...]]:
        """The steps that were asked for: tactics ask for the same ones again and again."""
        return {}

    def fixed(self, axis: Axis, factor: int | None = None) -> bool:
        """Return whether the same element is read in all steps of ``axis``."""
        return not any(step != 0 for step in self.steps(axis, factor))

    def contiguous(self, axis: Axis, factor: int | None = None) -> bool:
        """Return whether steps of ``axis`` read adjacent elements."""
        steps, last = self.steps(axis, factor), self.innermost
        others = (step for at, step in enumerate(steps) if at != last)
        return bool(steps) and steps[last] == 1 and not any(step != 0 for step in others)

    def near(self, axis: Axis, factor: int | None = None) -> bool:
        """Return whether steps of ``axis`` stay so close in memory that vector loads serve them.

        Small strides, quotients, remainders, and indices clamped by min and max are near. An index
        that is itself read from a tensor is not.

        >>> import schedlang as sl
        >>> A = sl.placeholder((8, 256), name="A")
        >>> body = lambda i, j: A[i, j * 2] + A[i, j // 4] + A[i, sl.min(j, 9)] + A[j % 8, i]
        >>> C = sl.compute((8, 128), body, name="C")
        >>> [read.near(C.op.axis[1], 16) for read in accesses(C.op)]
        [True, True, True, False]
        """
        inner, moved = self._in_tile(axis, factor)
        if not moved or self.fixed(axis):
            return False
        rates = [_rate(index, inner) for index in moved]
        total, stride = 0.0, Lin.of(1)
        for at in reversed(range(len(rates))):
            rate, step = rates[at], stride.const
            if rate is None or (rate and step is None and at != self.innermost):
                return False
            total += rate * (step or 1)
            stride = stride * to_lin(self.tensor.shape[at])
        return total <= CLOSE

    def gathered(self, axis: Axis) -> bool:
        """Return whether an index is read from a tensor and changes along ``axis``."""
        return any(
            isinstance(leaf, Opaque) and axis in _axes(leaf.expr) and list(reads([leaf.expr]))
            for index in self.indices
            for leaf in to_lin(index).leaves()
        )

    def _in_tile(self, axis: Axis, factor: int | None) -> tuple[Axis, list[Lin]]:
        """Return the axis inside a tile of ``factor`` steps, and the indices in terms of it."""
        inner, values = axis, None
        if factor is not None:
            extent = axis.extent
            lanes = min(factor, extent) if isinstance(extent, int) else factor
            inner = Axis("inner", lanes)
            outer = Axis("outer", to_expr(ceildiv(to_lin(extent), Lin.of(factor))))
            values = {axis: Lin.of(outer) * factor + Lin.of(inner)}
        return inner, [to_lin(index, values) for index in self.indices]

    @property
    def innermost(self) -> int:
        """The contiguous dimension: the last one longer than 1."""
        shape = self.tensor.shape
        long = (at for at in reversed(range(len(shape))) if to_lin(shape[at]).const != 1)
        return next(long, len(shape) - 1)

    def element_by_element(self, axes: Sequence[Axis]) -> bool:
        """Return whether ``axes``, fused into one loop, read adjacent elements in order.

        >>> import schedlang as sl
        >>> A = sl.placeholder((4, 8, 8), name="A")
        >>> B = sl.compute((4, 2, 4, 8), lambda i, j, k, l: A[i, j * 4 + k, l], name="B")
        >>> i, j, k, l = B.op.axis
        >>> (read,) = accesses(B.op)
        >>> [read.element_by_element(axes) for axes in ([j, k, l], [i, l], [i, k, l])]
        [True, False, False]
        """
        axes = [a for a in axes if to_lin(a.extent).const != 1]
        if len(axes) == 1:
            return self.contiguous(axes[0])
        run = Lin.of(1)
        for axis in reversed(axes):
            moved, stride = Lin.of(0), Lin.of(1)
            for step, extent in zip(reversed(self.steps(axis)), reversed(self.tensor.shape)):
                if step is None:
                    return False
                moved, stride = moved + stride * step, stride * to_lin(extent)
            if moved != run:
                return False
            run = run * to_lin(axis.extent)
        return bool(axes)

    def own_dimension(self, axis: Axis) -> int | None:
        """Return the dimension whose index is ``axis`` alone, if no other index depends on it."""
        moving = [d for d, step in enumerate(self.steps(axis)) if step != 0]
        if len(moving) == 1 and to_lin(self.indices[moving[0]]) == Lin.of(axis):
            return moving[0]
        return None

    def axes(self) -> set[Axis]:
        """Return all axes in the indices."""
        return {axis for index in self.indices for axis in _leaves(to_lin(index))}

    def depends(self, dimension: int, axes: Collection[Axis]) -> bool:
        """Return whether the index of a dimension depends on any of ``axes``."""
        return any(leaf in axes for leaf in _leaves(to_lin(self.indices[dimension])))


def accesses(op: ComputeOp, inlined: Collection[Tensor] = ()) -> list[Access]:
    """Return the distinct reads of ``op``.

    In place of a read of an ``inlined`` producer stand the reads that the producer makes.
    """
    return [a for a in points_read(op, inlined) if a.tensor not in inlined]


def points_read(op: ComputeOp, inlined: Collection[Tensor] = ()) -> list[Access]:
    """Return the reads of :func:`accesses`, and those that read ``inlined`` producers."""
    points: list[Access] = []
    # equal reads of an inlined stage are expanded once
    known: set[tuple[Tensor, tuple[Lin, ...]]] = set()
    stack: list[tuple[Tensor, tuple[Expr, ...]]] = list(_reads(op.roots))[::-1]
    while stack:
        tensor, indices = stack.pop()
        key = (tensor, tuple(to_lin(i) for i in indices))
        if key in known:
            continue
        known.add(key)
        points.append(Access(tensor, indices))
        producer = tensor.op
        if tensor in inlined and isinstance(producer, ComputeOp):
            swap: dict[Expr, Expr] = dict(zip(producer.axis, indices))
            inner = [
                (t, tuple(with_leaves(i, swap) for i in at)) for t, at in _reads(producer.roots)
            ]
            stack.extend(reversed(inner))
    return points


def labels(operands: Collection[Tensor]) -> dict[Tensor, str]:
    """Return the label of each operand in knobs: its name, or its number if names are not unique.

    >>> import schedlang as sl
    >>> A, B = sl.placeholder((8,), name="A"), sl.placeholder((8,), name="B")
    >>> list(labels([A, B]).values()), list(labels([B, sl.placeholder((4,), name="B")]).values())
    (['A', 'B'], ['0', '1'])
    """
    names = [t.name for t in operands]
    return {t: t.name if names.count(t.name) == 1 else str(n) for n, t in enumerate(operands)}


def _reads(roots: Sequence[Expr]) -> Iterator[tuple[Tensor, tuple[Expr, ...]]]:
    return ((read.tensor, read.indices) for read in reads(roots))


def _step(index: Lin, axis: Axis) -> int | None:
    if any(
        leaf is axis
        for product in index.terms
        if product != (axis,)
        for leaf in _leaves(Lin({product: 1}))
    ):
        return None
    return index.terms.get((axis,), 0)


def _rate(index: Lin, axis: Axis) -> float | None:
    """Return a bound on the average movement of an index in a step of ``axis``, if known."""
    total = 0.0
    for product, coef in index.terms.items():
        moving = [atom for atom in product if axis in _leaves(Lin.of(atom))]
        if not moving:
            continue
        rate = _atom_rate(moving[0], axis) if len(product) == 1 else None
        if rate is None:
            return None
        total += abs(coef) * rate
    return total


def _atom_rate(atom: Atom, axis: Axis) -> float | None:
    if isinstance(atom, Axis):
        return 1.0
    if isinstance(atom, Extreme):
        rates = [_rate(arg, axis) for arg in atom.args]
        known = [rate for rate in rates if rate is not None]
        return max(known) if len(known) == len(rates) else None
    if isinstance(atom, (Div, Mod)) and axis not in _leaves(atom.den):
        rate, size = _rate(atom.num, axis), atom.den.const
        return rate / abs(size) if rate and size and isinstance(atom, Div) else rate
    return None


def _leaves(index: Lin) -> Iterator[Axis]:
    for leaf in index.leaves():
        if isinstance(leaf, Opaque):
            yield from _axes(leaf.expr)
        elif isinstance(leaf, Axis):
            yield leaf


def _axes(root: Expr) -> Iterator[Axis]:
    return (node for node in postorder([root]) if isinstance(node, Axis))
