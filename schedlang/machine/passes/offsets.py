"""Registers for offsets that several accesses have in common.

An update loads and stores at one offset. The offsets of unrolled copies are one common part plus a
constant each, which processors add in the address of the access. numba would compile the common
part for each access on its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import is_
from typing import NamedTuple, Optional

from schedlang.ir.nodes import with_fields
from schedlang.machine.nest import MachineNest
from schedlang.machine.nodes import (
    Array,
    Body,
    Both,
    Choice,
    For,
    Function,
    Let,
    Load,
    Num,
    Op,
    Prefetch,
    Reg,
    Stmt,
    Store,
    Value,
)
from schedlang.machine.passes.changing import changing_registers, is_lasting
from schedlang.machine.passes.job import Job
from schedlang.machine.rewrite import with_children, with_values
from schedlang.machine.text import Printer, is_short
from schedlang.machine.walks import bodies, children, operations, values, with_bodies


def name_offsets(nest: MachineNest, job: Job) -> MachineNest:
    """Return ``nest`` with registers for the offsets that several accesses have in common.

    An offset, or an offset plus a constant, is common to accesses that hold it as one object. Its
    register is assigned before the first of them in its block, unless its text is short, and used
    until the end of the next loop.
    """
    return nest.with_functions(_in_function(f, job, Printer(nest.texts)) for f in nest.functions)


def _in_function(function: Function, job: Job, printer: Printer) -> Function:
    uses = _Uses()
    uses.add(function.body)
    if not uses.repeated:
        return function
    pass_ = _Pass(job, printer, uses, changing_registers(function.body))
    return with_fields(function, body=pass_.body(function.body, {}))


# how many accesses hold an offset, by its id
Counts = dict[int, int]


class Access(NamedTuple):
    """An access of an array: its offset, and the offset to which that adds a constant, if any.

    ``always`` says that it happens whenever its statement runs, which makes no choice.
    """

    array: Array
    at: Value
    base: Optional[Value]
    always: bool

    @property
    def offsets(self) -> tuple[Value, ...]:
        return (self.at,) if self.base is None else (self.base, self.at)


@dataclass
class _Uses:
    """The accesses of each statement, and how often each block holds an offset or its base.

    A block is counted in sections, each up to the end of a loop. Statements, blocks and offsets are
    known by ``id``. ``repeated`` are the offsets that a block holds several times.
    """

    accesses: dict[int, list[Access]] = field(default_factory=dict)
    sections: dict[int, list[Counts]] = field(default_factory=dict)
    repeated: set[int] = field(default_factory=set)

    def add(self, body: Body) -> list[Counts]:
        """Count the uses in a block, and return the counts of its sections."""
        section: Counts = {}
        sections = self.sections[id(body)] = [section]
        for stmt in body:
            for access in self.own(stmt):
                self.count(section, id(access.at), 1)
                if access.base is not None:
                    self.count(section, id(access.base), 1)
            if isinstance(stmt, For):
                self.join(section, self.add(stmt.body))
                section = {}
                sections.append(section)
            else:
                for inner in bodies(stmt):
                    self.join(section, self.add(inner))
        return sections

    def join(self, section: Counts, inner: Sequence[Counts]) -> None:
        for counts in inner:
            if not section:
                section.update(counts)
            else:
                for key, times in counts.items():
                    self.count(section, key, times)

    def count(self, section: Counts, key: int, times: int) -> None:
        before = section.get(key)
        if before is None:
            section[key] = times
        else:
            section[key] = before + times
            self.repeated.add(key)

    def own(self, stmt: Stmt) -> list[Access]:
        """Return the accesses of a statement itself whose offset is computed, in order."""
        accesses: list[Access] = []
        for root in (stmt.value,) if isinstance(stmt, Store) else values(stmt):
            if isinstance(root, (Reg, Num)):
                continue
            always = True
            start = len(accesses)
            for value in operations(root):
                if isinstance(value, Load):
                    if not isinstance(value.at, (Reg, Num)):
                        accesses.append(Access(value.array, value.at, _base(value.at), True))
                elif isinstance(value, (Choice, Both)):
                    always = False
            if not always:
                accesses[start:] = [access._replace(always=False) for access in accesses[start:]]
        if isinstance(stmt, (Store, Prefetch)) and not isinstance(stmt.at, (Reg, Num)):
            accesses.append(Access(stmt.array, stmt.at, _base(stmt.at), True))
        if accesses:
            self.accesses[id(stmt)] = accesses
        return accesses


@dataclass
class _Pass:
    """The facts about a function: ``changing`` are the registers that several statements assign."""

    job: Job
    printer: Printer
    uses: _Uses
    changing: frozenset[str]

    def body(self, body: Body, known: Mapping[int, Reg]) -> Body:
        """Return a block; ``known`` are the registers of offsets in blocks around, by ``id``."""
        sections = self.uses.sections[id(body)]
        if all(map(self.uses.repeated.isdisjoint, sections)):
            return body
        place, inside = 0, dict(known)
        block: list[Stmt] = []
        for stmt in body:
            named: dict[int, Reg] = {}
            if (accesses := self.uses.accesses.get(id(stmt))) is not None:
                # what this statement alone has in common is not known after it
                named = dict(inside)
                self.name(accesses, sections[place], stmt, named, inside, block)
            block.append(self.statement(stmt, named, inside))
            if isinstance(stmt, For):
                # a register would be taken during the loop
                place, inside = place + 1, dict(known)
        return body if all(map(is_, block, body)) else tuple(block)

    def name(
        self,
        accesses: Sequence[Access],
        counts: Counts,
        stmt: Stmt,
        named: dict[int, Reg],
        inside: dict[int, Reg],
        before: list[Stmt],
    ) -> None:
        """Assign registers ``before`` a statement to what its accesses have in common.

        ``named`` has the registers for the statement, and ``inside`` those for the statements after
        it.
        """
        repeated = self.uses.repeated
        for access in accesses:
            for value in access.offsets:
                if id(value) not in repeated or id(value) in named or not access.always:
                    continue
                lasts = is_lasting(value, self.changing)
                if not self.is_common(value, access.at, counts if lasts else _counts(accesses)):
                    continue
                new = _replace(value, named)
                if not is_short(new, self.printer):
                    reg = Reg(self.job.fresh(f"{access.array.name}_at"), new.type)
                    before.append(Let(reg, new, number=stmt.number))
                    named[id(value)] = reg
                    if lasts:
                        inside[id(value)] = reg

    def is_common(self, value: Value, at: Value, counts: Mapping[int, int]) -> bool:
        """Return whether several accesses hold ``value``, which is the offset ``at`` or its base.

        A base gets a register only if more accesses hold it than the offset itself.
        """
        count = counts[id(value)]
        return count > 1 and (value is at or count > counts[id(at)])

    def statement(self, stmt: Stmt, named: Mapping[int, Reg], inside: Mapping[int, Reg]) -> Stmt:
        """Return ``stmt`` with the registers ``named``, and its blocks with ``inside``."""
        if named:
            stmt = with_values(stmt, [_replace(v, named) for v in values(stmt)])
        alone = isinstance(stmt, For) and (stmt.function or stmt.parallel)
        return with_bodies(stmt, lambda body: self.body(body, {} if alone else inside))


def _base(at: Value) -> Value | None:
    """Return the offset to which ``at`` adds a constant, if it does."""
    if isinstance(at, Op) and at.op in ("+", "-") and isinstance(at.b, Num):
        return None if isinstance(at.a, (Reg, Num)) else at.a
    return None


def _counts(accesses: Sequence[Access]) -> Counts:
    """Return how many of the accesses of one statement hold each offset."""
    return Counter(id(value) for access in accesses for value in access.offsets)


def _replace(root: Value, named: Mapping[int, Reg]) -> Value:
    """Return ``root`` with the parts of ``named`` replaced, which are known by ``id``."""
    results: dict[int, Value] = dict(named)
    if id(root) in results:
        return results[id(root)]
    for node in operations(root):
        inside = children(node)
        for operand in inside:
            if id(operand) in results:
                if id(node) not in results:
                    new = [results.get(id(c), c) for c in inside]
                    results[id(node)] = with_children(node, new)
                break
    return results.get(id(root), root)
