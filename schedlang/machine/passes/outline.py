"""Functions of a kernel: the bodies of parallel loops, marked loops, and long blocks.

numba compiles the body of a parallel loop well only as a function of its own. Its compile time
grows with the square of a function's length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from operator import is_

from schedlang.ir.nodes import with_fields
from schedlang.machine.nest import MachineNest
from schedlang.machine.nodes import (
    INDEX,
    Alloc,
    Array,
    Body,
    Cast,
    For,
    Function,
    Hint,
    Let,
    Load,
    Reg,
    Run,
    Stmt,
)
from schedlang.machine.passes.equal import find_repeated
from schedlang.machine.passes.job import Job
from schedlang.machine.walks import (
    arrays,
    bodies,
    bound,
    defined_names,
    parts,
    values,
    walk,
    with_bodies,
)

MOST_NESTS = 25

Named = Array | Reg


def outline(nest: MachineNest, job: Job) -> MachineNest:
    """Return ``nest``, which is one function, with the functions that it calls, callees first."""
    outliner = _Outliner(job.public, job.function, nest.entry.parameters)
    return nest.with_functions(outliner.function(nest.entry))


@dataclass
class _Outliner:
    """The functions made so far. ``order`` are the kernel's parameters, which come first."""

    public: str
    fresh: Callable[[str], str]
    order: tuple[Named, ...]
    functions: list[Function] = field(default_factory=list)

    def function(self, function: Function) -> tuple[Function, ...]:
        body = _apart(self.body(function.body, set()), function.parameters)
        parallel = any(isinstance(s, For) and s.parallel for s, _ in walk(body))
        self.functions.append(with_fields(function, body=body, parallel=parallel))
        return tuple(self.functions)

    def body(self, body: Body, known: set[str]) -> Body:
        """Return a block; ``known`` are the registers of those around."""
        inside = set(known)
        block: list[Stmt] = []
        for stmt in body:
            block.append(self.statement(stmt, inside))
            inside |= _defined([stmt])
        if _nests(block) > MOST_NESTS:
            return self.in_parts(block, known)
        return body if all(map(is_, block, body)) else tuple(block)

    def statement(self, stmt: Stmt, known: set[str]) -> Stmt:
        if isinstance(stmt, For) and stmt.parallel:
            called = self.called(stmt.label, stmt.body, [stmt.index], stmt.number)
            args = (Cast(stmt.index, INDEX), *called.args[1:])
            return with_fields(stmt, body=(with_fields(called, args=args),))
        if isinstance(stmt, For) and stmt.function:
            body = (with_fields(stmt, function=False),)
            return self.called(stmt.label, body, [], stmt.number)
        return with_bodies(stmt, lambda body: self.body(body, known))

    def called(
        self,
        wanted: str,
        body: Body,
        first: Sequence[Named],
        number: int | None = None,
        as_used: bool = False,
    ) -> Run:
        """Make a function of ``body``, whose parameters begin with ``first``; return a call.

        ``number`` is the number of the body's loop, for a function of one loop. The other
        parameters are in the order of the kernel's, or ``as_used``.
        """
        named = free(body) if as_used else _in_order(free(body), self.order)
        used = [p for p in named if p not in first]
        parameters = (*first, *used)
        name = self.fresh(wanted)
        self.function(Function(name, parameters, body, number=number))
        return Run(name, parameters, number)

    def in_parts(self, body: Sequence[Stmt], known: set[str]) -> Body:
        """Return a long block as calls of functions of ``MOST_NESTS`` loops and branches each.

        A part defines no register that is used after it, and assigns none of ``known``. Loops that
        are equal but for their names are separate functions, and numba compiles one of them.
        """
        alone = find_repeated(body)
        result: list[Stmt] = []
        part: list[Stmt] = []
        # the registers that each of both assigns, and the loops and branches of the part
        outside: set[str] = set()
        inside: set[str] = set()
        nests = 0
        # the last statement that uses each name
        last = {v.name: k for k, stmt in enumerate(body) for v in free([stmt])}

        def closes(before: int) -> bool:
            """Return whether no statement from ``before`` on uses what the part defines."""
            return all(last.get(name, -1) < before for name in inside)

        def flush(before: int) -> None:
            nonlocal nests
            if part:
                # a part that could end nowhere is too long for a function, too
                if closes(before) and nests <= MOST_NESTS:
                    result.append(self.called(f"{self.public}_part", tuple(part), []))
                else:
                    result.extend(part)
                    outside.update(inside)
                part.clear()
                inside.clear()
                nests = 0

        for position, stmt in enumerate(body):
            assigned = _assigned(stmt)
            if isinstance(stmt, Alloc):
                # it stands before the part, unless that computes its size or uses its name
                sized = any(v.name in inside for v in free([stmt]))
                if sized or stmt.array.name in _arrays(part):
                    flush(position)
                result.append(stmt)
            elif isinstance(stmt, Hint) or assigned & known or assigned & outside:
                flush(position)
                result.append(stmt)
                outside |= _defined([stmt])
            elif alone[position] and isinstance(stmt, For) and closes(position):
                flush(position)
                result.append(self.called(stmt.label, (stmt,), [], stmt.number, as_used=True))
            else:
                part.append(stmt)
                inside |= _defined([stmt])
                nests += bool(stmt.BODIES)
            if nests >= MOST_NESTS and closes(position + 1):
                flush(len(body))
        flush(len(body))
        return tuple(result)


def _nests(body: Iterable[Stmt]) -> int:
    return sum(bool(stmt.BODIES) for stmt in body)


def free(body: Iterable[Stmt]) -> list[Named]:
    """Return the arrays and registers that ``body`` uses and does not define, in order of use."""
    used: dict[str, Named] = {}
    _free(body, set(), used)
    return list(used.values())


def _free(body: Iterable[Stmt], known: set[str], free: dict[str, Named]) -> None:
    inside = set(known)

    def use(named: Named) -> None:
        if named.name not in inside:
            free.setdefault(named.name, named)

    for stmt in body:
        for root in values(stmt):
            for value in parts(root):
                if isinstance(value, Reg):
                    use(value)
                elif isinstance(value, Load):
                    use(value.array)
        for array in arrays(stmt):
            use(array)
        for body in bodies(stmt):
            _free(body, inside | {reg.name for reg in bound(stmt)}, free)
        inside |= {named.name for named in defined_names(stmt)}


def _defined(body: Iterable[Stmt]) -> set[str]:
    """Return the names of the registers that statements of ``body`` itself assign."""
    return {v.name for stmt in body for v in defined_names(stmt) if isinstance(v, Reg)}


def _assigned(stmt: Stmt) -> set[str]:
    """Return the names of the registers that ``stmt`` and the statements in it assign."""
    return {s.reg.name for s, _ in walk((stmt,)) if isinstance(s, Let)}


def _arrays(body: Iterable[Stmt]) -> set[str]:
    """Return the names of the arrays that ``body`` uses or allocates."""
    own = {s.array.name for s, _ in walk(tuple(body)) if isinstance(s, Alloc)}
    return own | {v.name for v in free(body) if isinstance(v, Array)}


def _in_order(named: Sequence[Named], order: Sequence[Named]) -> list[Named]:
    """Return ``named`` in the order of the kernel's parameters, and others in the order of use."""
    places = {p.name: k for k, p in enumerate(order)}
    return sorted(named, key=lambda p: places.get(p.name, len(places)))


def _apart(body: Body, parameters: Sequence[Named]) -> Body:
    """Return ``body`` with its hint ``apart`` limited to ``parameters``, or without it."""
    block: list[Stmt] = []
    for stmt in body:
        if isinstance(stmt, Hint) and stmt.name == "apart":
            arrays = {a.name for a in stmt.args}
            arrays_inside = tuple(
                p for p in parameters if isinstance(p, Array) and p.name in arrays
            )
            if not arrays_inside:
                continue
            stmt = with_fields(stmt, args=arrays_inside)
        block.append(stmt)
    return tuple(block)
