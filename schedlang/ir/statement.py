"""The base of the statements of a loop nest; :mod:`schedlang.ir.nodes` has the statements."""

from __future__ import annotations

from typing import ClassVar

# the extent of a loop that elements alone end: the largest index
ENDLESS = 2**63 - 1


class Statement:
    """The base of statements, whose class says what its fields hold."""

    HELD: ClassVar[tuple[str, ...]] = ()
    EXPRESSIONS: ClassVar[tuple[str, ...]] = ()
    POLYNOMIALS: ClassVar[tuple[str, ...]] = ()
    READ: ClassVar[tuple[str, ...]] = ()
    WRITTEN: ClassVar[tuple[str, ...]] = ()
    DEFINES: ClassVar[tuple[str, ...]] = ()
    BINDS: ClassVar[tuple[str, ...]] = ()
