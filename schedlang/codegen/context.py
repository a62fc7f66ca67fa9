"""The surroundings of a value while it is emitted, and the text that results."""

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
    """Source of a value: its precedence, its lanes (0 for one element), its nesting."""

    text: str
    level: int = ATOM
    lanes: int = 0
    depth: int = 0

    def at(self, least: int) -> str:
        return paren(self.text, self.level, least)


@dataclass(frozen=True)
class Lanes:
    """The loop that is a vector: ``axis`` takes the values ``start + 0..count``."""

    axis: Axis
    count: int
    start: Lin


@dataclass(frozen=True)
class Context:
    """Where text is emitted: loop variables with known values, lanes, the mask in force.

    ``known`` are the ranges of the loops (and on a GPU of the indices) around and what the tests
    around say; with ``leads`` the
    first lane is certain to be one of those that ``mask`` lets through.
    ``sums`` are values that the reduction loop around keeps in registers; ``stream`` names the
    stage whose stores bypass the cache. ``copies`` are the unrolled loops, with their extents, that
    are being written out inside the innermost loop; what several copies read alike, and nothing in
    that loop writes (``written``), is read once and kept in ``shared``; where a test leaves some of
    them out the rest is ``tested``. ``named`` are the names of
    index arithmetic that this block and those around it gave, by its text.
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
