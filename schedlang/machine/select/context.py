"""The place in a nest for which a value is computed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Optional

from schedlang.expr.nodes import Axis
from schedlang.index.linear import Lin
from schedlang.ir.nodes import Buffer, Columns, Lanes
from schedlang.machine.nodes import Reg, Value
from schedlang.machine.select.sums import Sums


@dataclass(frozen=True)
class Context:
    """A place in the nest: axes with known values, lanes, the current mask.

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
    ``shared``
        values that several copies read and none writes, so that they are loaded once
    ``blocks``
        the transposed blocks whose columns the copies read
    ``named``
        the registers of index arithmetic in this block and those around it, by its value
    """

    values: Mapping[Any, Lin]
    lanes: Optional[Lanes] = None
    mask: Optional[Value] = None
    leads: bool = False
    offsets: Mapping[tuple[Buffer, Lin], Reg] = field(default_factory=dict)
    sums: Optional[Sums] = None
    copies: Mapping[Axis, int] = field(default_factory=dict)
    written: frozenset[Buffer] = frozenset()
    blocks: frozenset[Columns] = frozenset()
    shared: dict[Any, Value] = field(default_factory=dict)
    named: dict[Value, Reg] = field(default_factory=dict)

    @cached_property
    def scalar(self) -> Context:
        """The same place, for a value that is one for all lanes."""
        return self if self.lanes is None else replace(self, lanes=None)
