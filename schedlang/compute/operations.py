"""The operations of a graph that are computed: elements over axes, and recurrences.

An operation is not frozen: its outputs refer to it, and names and marks may change until it is
scheduled, as :func:`schedlang.named` and :func:`schedlang.assume` do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from schedlang.compute.read import reads
from schedlang.expr.nodes import Axis, Expr, Var
from schedlang.expr.visit import postorder

if TYPE_CHECKING:
    from schedlang.compute.reducer import Reducer
    from schedlang.compute.tensor import Extent, Shape, Tensor


@dataclass(eq=False)
class ComputeOp:
    """An operation that defines each element by expressions over ``axis``.

    With a ``reducer``, the expressions of ``body`` are reduced over ``reduce_axis`` where ``where``
    holds, starting from ``init`` (the reducer's identity if ``None``). ``where`` contains the
    ranges of ragged axes. For each of its conditions that is one, ``limits`` has the end of the
    axis's box at that side, and ``None`` for the others.

    With a ``destination``, one index for each dimension, the operation is a scatter: a point of
    ``domain`` combines its values into the element there. ``init`` still ranges over ``axis``.

    ``automatic`` says that an operation on whole arrays chose the name, and ``view`` that other
    such operations read the operand in its place. The operation is a derivative of the tensors
    ``gradient_of``: it depends on what they depend on, even if it reads none of that. te's ``tag``
    and ``attrs`` describe the computation for programs, and change nothing. ``remarks`` are
    comments for readers of a printed nest, which stand above its loops there.
    """

    name: str
    axis: tuple[Axis, ...]
    body: tuple[Expr, ...]
    reduce_axis: tuple[Axis, ...] = ()
    reducer: Reducer | None = None
    where: Expr | None = None
    init: tuple[Expr, ...] | None = None
    destination: tuple[Expr, ...] | None = None
    outputs: tuple[Tensor, ...] = ()
    automatic: bool = False
    view: bool = False
    limits: tuple[Extent | None, ...] = ()
    gradient_of: tuple[Tensor, ...] = ()
    tag: str = ""
    attrs: Mapping[str, Any] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()

    @property
    def shape(self) -> Shape:
        return tuple(a.extent for a in self.axis)

    @property
    def combiner(self) -> Reducer:
        """The reducer of an operation that is known to reduce."""
        assert self.reducer is not None
        return self.reducer

    @property
    def roots(self) -> tuple[Expr, ...]:
        """The expressions that the operation evaluates: updates, ``where``, ``init``."""
        extra = (self.where,) if self.where is not None else ()
        return (*self.updates, *extra, *(self.init or ()))

    @cached_property
    def variables(self) -> tuple[Var, ...]:
        """The sizes and scalars in its extents and expressions, in order of first appearance."""
        ends = [e for a in (*self.axis, *self.reduce_axis) for e in (a.lo, a.extent)]
        nodes = postorder([*(e for e in ends if isinstance(e, Expr)), *self.roots])
        return tuple(dict.fromkeys(node for node in nodes if isinstance(node, Var)))

    @property
    def updates(self) -> tuple[Expr, ...]:
        """The expressions that a point evaluates where ``where`` holds: destination, body."""
        return (*(self.destination or ()), *self.body)

    @property
    def scattered(self) -> tuple[Axis, ...]:
        """The data axes that a scatter's updates do not loop over: they compute the index there."""
        pairs = zip(self.axis, self.destination or self.axis)
        return tuple(axis for axis, index in pairs if index is not axis)

    @property
    def domain(self) -> tuple[Axis, ...]:
        """The axes over which the body is evaluated: all, but for the scattered ones."""
        scattered = self.scattered
        looped = (a for a in self.axis if not any(a is b for b in scattered))
        return (*looped, *self.reduce_axis)

    @property
    def loops(self) -> tuple[Axis, ...]:
        """All axes, in the order of the loops of an empty schedule.

        The loops of a scatter follow the dimensions of the result, so that updates of rows of
        elements run along these rows.
        """
        scattered = self.scattered
        if not scattered:
            return (*self.axis, *self.reduce_axis)
        first = next(k for k, a in enumerate(self.axis) if any(a is b for b in scattered))
        rows = tuple(a for a in self.axis[first:] if not any(a is b for b in scattered))
        return (*self.axis[:first], *scattered, *self.reduce_axis, *rows)

    @cached_property
    def input_tensors(self) -> list[Tensor]:
        """The tensors that the operation reads, in order of first appearance."""
        tensors: dict[Tensor, None] = {}
        for read in reads(self.roots):
            tensors.setdefault(read.tensor)
        return list(tensors)

    def output(self, index: int = 0) -> Tensor:
        return self.outputs[index]


@dataclass(eq=False)
class ScanOp:
    """A recurrence along the first axis of its states (te's ``scan``).

    ``axis`` are its data axes, one for each later dimension of the first state. No element depends
    on others along the ``independent`` ones, so that their loops may stand outside of time.
    """

    name: str
    scan_axis: Axis
    axis: tuple[Axis, ...]
    init: tuple[Tensor, ...]
    update: tuple[Tensor, ...]
    state: tuple[Tensor, ...]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...] = ()
    reduce_axis: tuple[Axis, ...] = ()
    automatic: bool = False
    tag: str = ""
    independent: tuple[Axis, ...] = ()

    @property
    def loops(self) -> tuple[Axis, ...]:
        """Time, and the data axes that may be reordered outside of it."""
        return (self.scan_axis, *self.independent)

    @property
    def input_tensors(self) -> list[Tensor]:
        return [*self.init, *self.update]

    def output(self, index: int = 0) -> Tensor:
        return self.outputs[index]
