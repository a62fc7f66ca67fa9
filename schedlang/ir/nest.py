"""The loop nest: the result of lowering, and the input of every later step."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Union

from schedlang.expr.nodes import Axis, Var
from schedlang.ir.html import nest_html
from schedlang.ir.nodes import Block, Buffer, For, If, walk
from schedlang.ir.printer import nest_text
from schedlang.ir.rewrite import storage
from schedlang.ir.terminal import show_nest
from schedlang.markup.bundle import InNotebooks
from schedlang.markup.fragment import fragment
from schedlang.markup.name_table import NameTable


@dataclass(frozen=True, eq=False)
class Nest(InNotebooks):
    """A lowered schedule: its arguments in order, and its statements.

    ``args`` are buffers of tensors and scalar variables; ``outputs`` are the buffers of results.
    """

    name: str
    args: tuple[Union[Buffer, Var], ...]
    outputs: tuple[Buffer, ...]
    body: Block
    sizes: tuple[Var, ...] = ()
    names: dict[Axis, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return nest_text(self)

    __repr__ = __str__

    def show(self) -> None:
        """Print the nest, in colours if the terminal has them (extra ``viz``).

        The environment variable ``NO_COLOR`` turns colours off. Raise
        :class:`~schedlang.errors.MissingExtraError` if rich is not installed.
        """
        show_nest(self)

    def _repr_html_(self) -> str:
        names = NameTable()
        body = nest_html(self, names)
        return fragment(body, len(names))

    @cached_property
    def buffers(self) -> tuple[Buffer, ...]:
        """All buffers: arguments first, then allocations in program order."""
        arguments = tuple(a for a in self.args if isinstance(a, Buffer))
        return (*arguments, *storage(self.body))

    @cached_property
    def loops(self) -> tuple[For, ...]:
        return tuple(s for s, _ in walk(self.body) if isinstance(s, For))

    @cached_property
    def guards(self) -> tuple[If, ...]:
        return tuple(s for s, _ in walk(self.body) if isinstance(s, If) and s.note)
