"""The statement that calls a user's function, and what it reads inside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Optional

from schedlang.compute.extern_op import ExternFunction
from schedlang.expr.nodes import Expr
from schedlang.index.linear import Lin
from schedlang.ir.statement import Statement

if TYPE_CHECKING:
    from schedlang.ir.nodes import Block, Buffer


@dataclass(frozen=True, eq=False)
class Touch(Statement):
    """A read of elements by the user's function around it."""

    EXPRESSIONS = ("value",)

    value: Expr


@dataclass(frozen=True)
class View:
    """The shape and the strides, in elements, of an array that a user's function gets."""

    shape: tuple[int, ...]
    strides: tuple[Lin, ...]


@dataclass(frozen=True, eq=False)
class Extern(Statement):
    """A call of a user's function for a box of each array: the ``inputs``, then the ``outputs``.

    A box begins at ``starts`` and has ``extents``, one for each dimension of each array, in order.
    A function gets an array for each box, or one of the ``views`` from its start on. Nothing runs
    ``body``: its loops say which elements the function writes and reads. ``cycles`` of a call are 0
    if nobody knows them.
    """

    HELD = ("body",)
    EXPRESSIONS = ("starts", "extents")

    function: ExternFunction
    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    starts: tuple[Expr, ...]
    extents: tuple[Expr, ...]
    body: Block
    stage: str
    number: Optional[int] = None
    views: tuple[View, ...] = ()
    cycles: float = 0.0

    @property
    def boxes(self) -> list[tuple[Buffer, tuple[Expr, ...], tuple[Expr, ...]]]:
        """Each array with the start and the extents of its box."""
        boxes, at = [], 0
        for buffer in (*self.inputs, *self.outputs):
            end = at + len(buffer.shape)
            boxes.append((buffer, self.starts[at:end], self.extents[at:end]))
            at = end
        return boxes
