"""The context in which a value is emitted, and the text of the value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Optional

from schedlang.codegen.sums import Sums
from schedlang.expr.interval import Ranges
from schedlang.expr.linear import Lin
from schedlang.expr.nodes import Axis
from schedlang.expr.printer import ATOM, paren
from schedlang.ir.nodes import Buffer


@dataclass(frozen=True)
class Text:
    """The source of a value, with its precedence, lanes (0 for one element) and nesting depth."""

    text: str
    level: int = ATOM
    lanes: int = 0
    depth: int = 0

    def at(self, least: int) -> str:
        return paren(self.text, self.level, least)


@dataclass(frozen=True)
class Lanes:
    """The vectorized loop around: ``axis`` takes the values ``start + 0..count``."""

    axis: Axis
    count: int
    start: Lin


@dataclass(frozen=True)
class Context:
    """The place at which text is emitted: axes with known values, lanes, the current mask.

    ``known``
        the ranges of the loops around (on a GPU also of thread and block indices), and the facts
        that the tests around establish
    ``leads``
        whether the first lane is certain to pass ``mask``
    ``offsets``
        the names of offsets that were computed before
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
        the names of index arithmetic defined in this block and those around it, by its text
    """

    values: Mapping[Any, Lin]
    lanes: Optional[Lanes] = None
    mask: str = ""
    known: Ranges = field(default_factory=Ranges)
    leads: bool = False
    offsets: Mapping[tuple[Buffer, Lin], str] = field(default_factory=dict)
    sums: Optional[Sums] = None
    stream: str = ""
    copies: Mapping[Axis, int] = field(default_factory=dict)
    written: frozenset[Buffer] = frozenset()
    tested: bool = False
    shared: dict[Any, Text] = field(default_factory=dict)
    named: dict[str, Text] = field(default_factory=dict)
