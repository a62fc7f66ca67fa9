"""The place in a nest for which a value is computed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Optional

from schedlang.expr.nodes import Axis
from schedlang.index.linear import Lin
from schedlang.index.ranges import Ranges
from schedlang.ir.nodes import Buffer
from schedlang.machine.nodes import Reg, Value
from schedlang.machine.select.sums import Sums


@dataclass(frozen=True)
class Lanes:
    """The vectorized loop around: ``axis`` takes the values ``start + 0..count``."""

    axis: Axis
    count: int
    start: Lin


@dataclass(frozen=True)
class Context:
    """A place in the nest: axes with known values, lanes, the current mask.

    ``known``
        the ranges of the loops around (on a GPU also of thread and block indices), and the facts
        that the tests around establish
    ``leads``
        whether the first lane is certain to pass ``mask``
    ``offsets``
        the registers of offsets that were computed before
    ``sums``
        the sums that the reduction loop around keeps in registers
    ``stream``
        the stage whose stores bypass the cache
    ``copies``
        the axes of the unrolled loops being written out, with their extents
    ``written``
        the buffers that those loops write
    ``shared``
        values that several copies read and none writes, so that they are loaded once
    ``tested``
        whether a test may have left out some of the copies
    ``named``
        the registers of index arithmetic in this block and those around it, by its value
    """

    values: Mapping[Any, Lin]
    lanes: Optional[Lanes] = None
    mask: Optional[Value] = None
    known: Ranges = field(default_factory=Ranges)
    leads: bool = False
    offsets: Mapping[tuple[Buffer, Lin], Reg] = field(default_factory=dict)
    sums: Optional[Sums] = None
    stream: str = ""
    copies: Mapping[Axis, int] = field(default_factory=dict)
    written: frozenset[Buffer] = frozenset()
    tested: bool = False
    shared: dict[Any, Value] = field(default_factory=dict)
    named: dict[Value, Reg] = field(default_factory=dict)
