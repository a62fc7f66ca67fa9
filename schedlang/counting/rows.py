"""The statements of an instrumented nest, with what each of them does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Optional

from schedlang.counting.regions import Region
from schedlang.counting.work import Work
from schedlang.machine.nest import MachineNest
from schedlang.machine.nodes import Array, Stmt

# the kinds of accesses, as the probes know them
KINDS = ("load", "store", "prefetch", "stream")


@dataclass(frozen=True, eq=False)
class Access:
    """The accesses of one load, store or prefetch: ``elements`` of them in each run of ``region``.

    ``active``, if it is not -1, is the slot that counts the lanes under a mask instead. ``site``
    numbers the access in reports. ``kind`` is one of :data:`KINDS`. An ``opaque`` one is a box that
    a user's function accesses, by instructions that nobody knows.
    """

    kind: str
    array: Array
    elements: int
    lanes: int
    region: Region
    site: int
    active: int = -1
    opaque: bool = False


@dataclass(frozen=True, eq=False)
class Assignment:
    """The elements of a stage that a statement computes; see :class:`Access`."""

    stage: str
    elements: int
    active: int = -1


@dataclass(frozen=True, eq=False)
class Row:
    """A statement of the nest with what it does itself, in program order.

    It runs as often as ``region``; ``inside`` is the body of a loop. The rows up to ``end`` are the
    statements inside of this one.
    """

    stmt: Stmt
    region: Region
    stage: str
    inside: Optional[Region]
    accesses: tuple[Access, ...]
    work: Mapping[tuple[Region, Work], int]
    assignment: Optional[Assignment]
    end: int


@dataclass(frozen=True, eq=False)
class Instrumented:
    """A nest that counts, what its rows are, and where its entry expects the tally.

    The last parameters of its entry are the tally and, if it reports accesses, the probes' model.
    ``bases`` maps each array to the cell of the tally that holds its address. ``counts`` says
    whether the kernel has counters, so that it must run before its counts are known. ``functions``
    maps a function's name to its first row and the one after its last. ``probe`` is the name of the
    function that is called at each access, which the nest declares without a body.
    """

    nest: MachineNest
    original: MachineNest
    rows: tuple[Row, ...]
    functions: Mapping[str, tuple[int, int]]
    calls: Mapping[str, tuple[Region, ...]]
    bases: Mapping[Array, int]
    cells: int
    sites: tuple[Access, ...]
    counts: bool
    probe: str = ""


__all__ = ["KINDS", "Access", "Assignment", "Instrumented", "Row"]
