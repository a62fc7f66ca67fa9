"""The place in a nest for which a value is computed."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, Optional

from schedlang.expr.nodes import Axis
from schedlang.index.linear import Lin
from schedlang.ir.nodes import Buffer, Columns, Lanes
from schedlang.machine.nodes import Reg, Value
from schedlang.machine.select.sums import Sums


class Context(NamedTuple):
    """A place in the nest: axes with known values, lanes, the current mask.

    ``shared``
        values that several copies read and none writes, so that they are loaded once
    ``named``
        the registers of index arithmetic in this block and those around it, by its value
    ``leads``
        whether the first lane is certain to pass ``mask``
    ``offsets``
        the registers of offsets that were computed before
    ``sums``
        the sums that the reduction loop around keeps in registers
    ``copies``
        the axes of the unrolled loops being written out, with their extents
    ``written``
        the buffers that those loops write
    ``blocks``
        the transposed blocks whose columns the copies read
    """

    values: Mapping[Any, Lin]
    shared: dict[Any, Value]
    named: dict[Value, Reg]
    lanes: Optional[Lanes] = None
    mask: Optional[Value] = None
    leads: bool = False
    offsets: Mapping[tuple[Buffer, Lin], Reg] = MappingProxyType({})
    sums: Optional[Sums] = None
    copies: Mapping[Axis, int] = MappingProxyType({})
    written: frozenset[Buffer] = frozenset()
    blocks: frozenset[Columns] = frozenset()

    @classmethod
    def start(cls, values: Mapping[Any, Lin]) -> Context:
        """Return the place at the start of a function, where axes have these ``values``."""
        return cls(values, {}, {})

    @property
    def scalar(self) -> Context:
        """The same place, for a value that is one for all lanes."""
        return self if self.lanes is None else self._replace(lanes=None)
