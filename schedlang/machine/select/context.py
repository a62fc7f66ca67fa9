"""The place in a nest where a value is computed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, NamedTuple, Optional

from schedlang.expr.nodes import Axis, Expr
from schedlang.index.linear import Lin
from schedlang.ir.nodes import Buffer, Columns, Lanes
from schedlang.machine.nodes import Value
from schedlang.machine.select.sums import Sums


@dataclass(frozen=True)
class Group:
    """The copies of unrolled loops that share loads: the axes with their number of copies.

    ``shared`` are the loads and conditions that they share, and ``blocks`` the transposed blocks
    whose columns they read. ``known`` are the registers that were made for these, and ``bases``
    what the offsets of the copies have in common, without a constant, or ``None`` if it is short.
    """

    shared: frozenset[Expr]
    blocks: frozenset[Columns]
    extents: Mapping[Axis, int] = field(default_factory=dict)
    known: dict[Any, Value] = field(default_factory=dict)
    bases: dict[Lin, Optional[Value]] = field(default_factory=dict)

    def inside(self, axis: Axis, count: int) -> Group:
        """Return the group inside of ``count`` copies of ``axis``."""
        return replace(self, extents={**self.extents, axis: count})


class Context(NamedTuple):
    """A place in the nest: axes with known values, lanes, the current mask.

    ``leads``
        whether the first lane is certain to pass ``mask``
    ``sums``
        the sums that the reduction loop around keeps in registers
    ``copies``
        the copies of unrolled loops around, if they share loads
    ``offsets``
        the offsets that an update reads and writes
    """

    values: Mapping[Any, Lin]
    lanes: Optional[Lanes] = None
    mask: Optional[Value] = None
    leads: bool = False
    sums: Optional[Sums] = None
    copies: Optional[Group] = None
    offsets: Mapping[tuple[Buffer, Lin], Value] = MappingProxyType({})

    @classmethod
    def start(cls, values: Mapping[Any, Lin]) -> Context:
        """Return the place at the start of a function, where axes have these ``values``."""
        return cls(values)

    @property
    def scalar(self) -> Context:
        """The same place, for a value that is one for all lanes."""
        return self if self.lanes is None else self._replace(lanes=None)

    @property
    def branched(self) -> Context:
        """The same place in a branch, whose registers are undefined after it."""
        copies_ = None if self.copies is None else replace(self.copies, known={**self.copies.known})
        return self._replace(copies=copies_)

    @property
    def on_its_own(self) -> Context:
        """The same place in a function of its own, which knows no register from outside."""
        copies = None if self.copies is None else replace(self.copies, known={})
        return self._replace(copies=copies)
