"""Registers for values that do not fit on a line.

A printed value is at most as long as a person reads easily, and not deeper than Python's parser
allows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import is_

from schedlang.errors import BuildError
from schedlang.ir.nodes import with_fields
from schedlang.machine.nest import MachineNest
from schedlang.machine.nodes import (
    INDEX,
    Body,
    Both,
    Choice,
    For,
    If,
    Let,
    Load,
    Num,
    Op,
    Reg,
    Splat,
    Stmt,
    Store,
    Value,
)
from schedlang.machine.passes.changing import changing_registers, is_lasting
from schedlang.machine.passes.job import Job
from schedlang.machine.rewrite import with_children, with_values
from schedlang.machine.text import Printer
from schedlang.machine.walks import children, operations, values, with_bodies

# the characters of an operand, and of both operands of an operation
LONGEST = 72
WIDEST = 76
# nested operations
DEEPEST = 12
# a value of more operations is hardly ever short, so its parts are printed first
FEW = 10
# nested loops and choices: Python allows 100 levels of indentation
DEEPEST_BLOCKS = 96
# a line, the indentation of a block, and what a store needs beside its value
WIDTH = 98
INDENT = 4
CALL = 32


def name_long_values(nest: MachineNest, job: Job) -> MachineNest:
    """Return ``nest`` with registers for parts of values that are too long or too deep for a line.

    Equal index arithmetic has one register in its block and those inside, unless it changes. Raises
    :class:`~schedlang.errors.BuildError` for more nested choices and loops than Python allows.
    """
    pass_ = _Pass(job, Printer(nest.texts), nest)
    functions = []
    for function in nest.functions:
        body = pass_.body(function.body, 1, {})
        functions.append(function if body is function.body else with_fields(function, body=body))
    return nest.with_functions(functions)


@dataclass
class _Pass:
    """The names, the texts of values, and the registers that several statements assign."""

    job: Job
    printer: Printer
    nest: MachineNest

    @cached_property
    def changing(self) -> frozenset[str]:
        return frozenset().union(*(changing_registers(f.body) for f in self.nest.functions))

    def body(self, body: Body, depth: int, indices: dict[Value, Reg]) -> Body:
        """Return a block at this depth; ``indices`` are the registers of index arithmetic."""
        if depth > DEEPEST_BLOCKS:
            raise BuildError(
                f"{self.job.public} nests more than {DEEPEST_BLOCKS} choices and loops, and Python "
                "allows 100 levels: give the inner if_then_else a stage of its own"
            )
        block: list[Stmt] = []
        inside = dict(indices)
        for stmt in body:
            if not self.fits(stmt, depth):
                stmt = _Walk(self, inside, block, stmt.number).statement(stmt, _width(depth))
            block.append(self.nested(stmt, depth, inside))
        return body if all(map(is_, block, body)) else tuple(block)

    def nested(self, stmt: Stmt, depth: int, indices: dict[Value, Reg]) -> Stmt:
        """Return ``stmt`` with the blocks in it."""
        if isinstance(stmt, For) and (stmt.parallel or stmt.function):
            # a function knows no registers of outside, and begins at the first column
            depth, indices = 0 if stmt.parallel else 1, {}
        return with_bodies(stmt, lambda body: self.body(body, depth + 1, indices))

    def fits(self, stmt: Stmt, depth: int) -> bool:
        """Return whether the values of a statement, and so their parts, fit on a line."""
        for value in values(stmt):
            if not self.stays(value):
                return False
        if not isinstance(stmt, Store):
            return True
        return self.width(_unsplat(stmt.value)) <= _width(depth)

    def stays(self, root: Value) -> bool:
        """Return whether no part of ``root`` needs a register; itself may be long."""
        if isinstance(root, (Reg, Num)):
            return True
        inside = operations(root)
        if len(inside) <= FEW and self.is_short(root):
            # so are its parts
            return True
        if not all(map(self.is_short, inside[:-1])):
            return False
        if isinstance(root, Op) and not root.index:
            return self.width(root.a) + self.width(root.b) <= WIDEST
        return True

    def is_short(self, value: Value) -> bool:
        printed = self.printer.text(value)
        return len(printed.text) <= LONGEST and printed.depth <= DEEPEST

    def width(self, value: Value) -> int:
        return len(self.printer.text(value).text)


@dataclass
class _Walk:
    """The walk over the values of one statement; ``done`` holds what became of their parts.

    ``offsets`` are the offsets of accesses, by ``id``: rather than these, a load gets a register.
    """

    owner: _Pass
    indices: dict[Value, Reg]
    before: list[Stmt]
    number: int | None
    done: dict[int, Value] = field(default_factory=dict)
    offsets: set[int] = field(default_factory=set)

    def statement(self, stmt: Stmt, width: int) -> Stmt:
        """Return ``stmt``; a stored value has at most ``width`` characters."""
        if isinstance(stmt, Store):
            mask = [] if stmt.mask is None else [self.root(stmt.mask)]
            value = self.root(stmt.value)
            if self.owner.width(_unsplat(value)) > width:
                reg = self.let(_unsplat(value))
                value = Splat(reg, value.type) if isinstance(value, Splat) else reg
            self.offsets |= _whole(stmt.at)
            return with_values(stmt, [self.root(stmt.at), value, *mask])
        return with_values(stmt, [self.root(value) for value in values(stmt)])

    def root(self, value: Value) -> Value:
        """Return ``value`` with registers for the parts that are too long; itself may be long."""
        return value if self.owner.stays(value) else self.part(value, whole=True)

    def part(self, root: Value, whole: bool = False) -> Value:
        """Return ``root`` with registers for parts that are too long; it may be one itself.

        Operands come before operations, and the sides of a choice after its condition.
        """
        inside = operations(root)
        if not any(isinstance(node, (Choice, Both)) for node in inside):
            for node in inside:
                if isinstance(node, Load):
                    self.offsets |= _whole(node.at)
            for node in inside:
                self.finish(node, whole and node is root)
            return self.of(root)
        stack: list[tuple[Value, bool]] = [(root, False)]
        while stack:
            node, ready = stack.pop()
            if isinstance(node, (Reg, Num)) or id(node) in self.done:
                continue
            operands = () if ready else _eager(node)
            if operands:
                if isinstance(node, Load):
                    self.offsets |= _whole(node.at)
                stack.append((node, True))
                stack.extend([(c, False) for c in reversed(operands)])
                continue
            self.finish(node, whole and node is root)
        return self.of(root)

    def finish(self, node: Value, stays: bool) -> None:
        """Note what becomes of ``node`` after its operands; one that ``stays`` may be long."""
        stays = stays or id(node) in self.offsets
        if not self.done and not stays and not isinstance(node, (Choice, Both)):
            # no operand has become another, so only the length is left to ask for
            if self.owner.is_short(node):
                return
        if id(node) not in self.done:
            result = self.with_new_operands(node)
            result = result if stays else self.shortened(result)
            if result is not node:
                self.done[id(node)] = result

    def of(self, value: Value) -> Value:
        return self.done.get(id(value), value)

    def with_new_operands(self, node: Value) -> Value:
        """Return ``node`` with what became of its operands."""
        if isinstance(node, (Choice, Both)):
            return self.choice(node)
        old = children(node)
        new = [self.of(c) for c in old]
        if isinstance(node, Op) and not node.index:
            new = self.fitted(node, new)
        return node if all(map(is_, new, old)) else with_children(node, new)

    def shortened(self, value: Value) -> Value:
        """Return ``made``, or a register if it is too long or too deep."""
        if self.owner.is_short(value):
            return value
        if not _is_index(value) or not is_lasting(value, self.owner.changing):
            return self.let(value)
        reg = self.indices.get(value)
        if reg is None:
            reg = self.indices[value] = self.let(value)
        return reg

    def fitted(self, node: Op, operands: list[Value]) -> list[Value]:
        """Return both operands; if they do not fit on a line, the longer one gets a register.

        One that is a register already stays: its name comes from the user.
        """
        fitting, sides = list(operands), (node.a, node.b)
        while sum(lengths := list(map(self.owner.width, fitting))) > WIDEST:
            long = [k for k in (0, 1) if not isinstance(fitting[k], (Reg, Num))]
            if not long:
                break
            k = max(long, key=lengths.__getitem__)
            side = sides[k]
            fitting[k] = self.let(fitting[k], _name(side))
            self.done[id(side)] = fitting[k]
        return fitting

    def choice(self, node: Choice | Both) -> Value:
        """Return a choice, as a branch if one of its sides needs a register.

        A register that a branch assigns is undefined outside of it.
        """
        cond = self.of(node.cond if isinstance(node, Choice) else node.a)
        sides = (node.a, node.b) if isinstance(node, Choice) else (node.b,)
        branches: list[tuple[list[Stmt], Value]] = []
        for side in sides:
            inner = _Walk(self.owner, dict(self.indices), [], self.number, dict(self.done))
            branches.append((inner.before, inner.part(side)))
        if not any(stmts for stmts, _ in branches):
            return with_children(node, [cond, *(value for _, value in branches)])
        result = Reg(self.owner.job.fresh("t"), node.type)
        if isinstance(node, Both):
            branches.append(([], Num(False, node.type)))
        body, orelse = (
            (*stmts, Let(result, value, number=self.number)) for stmts, value in branches
        )
        self.before.append(If(cond, body, orelse, result=result, number=self.number))
        return result

    def let(self, value: Value, wanted: str = "t") -> Reg:
        reg = Reg(self.owner.job.fresh(wanted), value.type)
        self.before.append(Let(reg, value, number=self.number))
        return reg


def _width(depth: int) -> int:
    """Return the characters for the value of a store in a block at this depth."""
    return WIDTH - INDENT * depth - CALL


def _unsplat(value: Value) -> Value:
    return value.a if isinstance(value, Splat) else value


def _eager(node: Value) -> Sequence[Value]:
    """Return the operands of ``node`` that are evaluated in any case."""
    if isinstance(node, Choice):
        return (node.cond,)
    return (node.a,) if isinstance(node, Both) else children(node)


def _whole(at: Value) -> set[int]:
    """Return what stays whole in an offset, by ``id``: itself, and the terms of ``row*64 + j``."""
    parts, rows = {id(at)}, False
    stack = [at]
    while stack:
        node = stack.pop()
        if isinstance(node, Op) and node.index and node.op in ("+", "-"):
            parts.add(id(node))
            stack += (node.a, node.b)
        elif isinstance(node, Op) and node.op == "*" and isinstance(node.a, Op):
            # the row of several terms
            rows = rows or node.a.op in ("+", "-")
            parts |= {id(node), id(node.a)}
    return parts if rows and len(parts) <= DEEPEST else {id(at)}


def _name(value: Value) -> str:
    """Return a name for the register of ``value``."""
    if isinstance(value, Load) and value.other is None:
        return f"{value.array.name}_el"
    # a load under a test may be another value than an element
    return "t"


def _is_index(value: Value) -> bool:
    return isinstance(value, Op) and value.index and value.type == INDEX
