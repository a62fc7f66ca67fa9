"""A machine nest as parts, each of which becomes a module of LLVM's code.

The parts of a large nest are compiled at once, in several processes (``pool.py``). A part has the
functions of some kernels, with the bodies of their parallel loops, and is optimized at their level.
How a nest is divided depends on the nest alone, so that all machines make the same code of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property

from schedlang.codegen.numba_cpu import equal_functions
from schedlang.machine.nest import MachineNest
from schedlang.machine.nodes import Alloc, Body, For, Run
from schedlang.machine.walks import walk
from schedlang.runtime.llvm.passes import level_of

# a nest with so many statements is divided, and a part with so many takes no other kernel
LARGE, ENOUGH = 1000, 400


@dataclass(frozen=True)
class Part:
    """Functions that become one module, by name, and the ``level`` of its passes.

    ``called`` are the functions that other parts call.
    """

    functions: frozenset[str]
    level: int
    called: frozenset[str] = frozenset()


class Whole:
    """What the parts of a machine nest share.

    ``equal`` has the first function that differs in names alone, by the name of a later one, and
    ``shared`` the functions that stand for another one. ``failing`` are functions that may lack
    memory.
    """

    def __init__(self, nest: MachineNest) -> None:
        self.nest = nest
        self.equal = equal_functions(nest)
        self.shared = frozenset(self.equal.values())
        self.failing = failing(nest)
        self.by_name = {f.name: f for f in nest.functions if f.name not in self.equal}
        self._called: dict[str, list[str]] = {}

    @cached_property
    def one(self) -> Part:
        """The part that has all functions."""
        return Part(frozenset(self.by_name), level_of(self.by_name.values()))

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """The parts of a large nest, else the one; the last part has the entry."""
        sizes = {name: sum(1 for _ in walk(f.body)) for name, f in self.by_name.items()}
        if sum(sizes.values()) < LARGE:
            return (self.one,)
        filled: list[tuple[int, list[str]]] = []
        last: dict[int, list[str]] = {}
        for kernel in self._kernels():
            level = level_of(self.by_name[name] for name in kernel)
            names = last.get(level)
            if names is None or sum(sizes[name] for name in names) >= ENOUGH:
                names = last[level] = []
                filled.append((level, names))
            names += kernel
        place = {name: k for k, (_, names) in enumerate(filled) for name in names}
        called = {
            callee for name in place for callee in self._calls(name) if place[callee] != place[name]
        }
        return tuple(
            Part(frozenset(names), level, frozenset(called.intersection(names)))
            for level, names in reversed(filled)
        )

    def _kernels(self) -> list[list[str]]:
        """Return the functions in groups whose calls LLVM may inline, the entry's group first."""
        groups: dict[str, list[str]] = {}
        entry, group_of = self.nest.entry, dict[str, str]()
        # a call in a loop takes longer if it goes to another module
        loops = (s for s, _ in walk(entry.body) if isinstance(s, For))
        repeated = {self.named(name) for loop in loops for name in _calls(loop.body)}
        for name in reversed(self.by_name):
            group = group_of.get(name, name)
            groups.setdefault(group, []).append(name)
            for callee in self._calls(name):
                if callee not in self.shared and (name != entry.name or callee in repeated):
                    group_of.setdefault(callee, group)
        return list(groups.values())

    @cached_property
    def by_team(self) -> frozenset[str]:
        """The functions that a team of threads runs, since the entry calls several with loops.

        They have parallel loops, or call functions that have some. There are none if a parallel
        loop calls such a function.
        """
        launching: set[str] = set()
        for function in self.by_name.values():
            loops = (s for s, _ in walk(function.body) if isinstance(s, For) and s.parallel)
            inside = {self.named(name) for loop in loops for name in _calls(loop.body)}
            if not launching.isdisjoint(inside):
                return frozenset()
            if function.parallel or not launching.isdisjoint(self._calls(function.name)):
                launching.add(function.name)
        called = self._calls(self.nest.entry.name)
        return frozenset(launching if sum(name in launching for name in called) > 1 else ())

    def is_member(self, name: str) -> bool:
        """Return whether a thread of a team calls a function, which takes the team then."""
        named = self.named(name)
        return named in self.by_team and named != self.named(self.nest.entry.name)

    def named(self, name: str) -> str:
        """Return the name of the function that is compiled for another one."""
        return self.equal.get(name, name)

    def _calls(self, name: str) -> list[str]:
        called = self._called.get(name)
        if called is None:
            called = [self.named(callee) for callee in _calls(self.by_name[name].body)]
            self._called[name] = called
        return called


def _calls(body: Body) -> Iterator[str]:
    return (s.function for s, _ in walk(body) if isinstance(s, Run))


def failing(nest: MachineNest) -> frozenset[str]:
    """Return the names of the functions that may lack memory."""
    names: frozenset[str] = frozenset()
    for function in nest.functions:
        if may_fail(function.body, names):
            names |= {function.name}
    return names


def may_fail(body: Body, failing: Collection[str]) -> bool:
    """Return whether a block may lack memory, as the functions do that are ``failing``."""
    return any(
        (isinstance(s, Alloc) and s.place == "heap")
        or (isinstance(s, Run) and s.function in failing)
        for s, _ in walk(body)
    )
