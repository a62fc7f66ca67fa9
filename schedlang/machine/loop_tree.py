"""The loops of a machine nest as a tree, through calls, and how often each begins in a call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from schedlang.machine.evaluate import Evaluator
from schedlang.machine.nest import MachineNest
from schedlang.machine.nodes import INDEX, Body, For, Let, Load, Reg, Run, Stmt, Value
from schedlang.machine.walks import bodies, parts

# the iterations of a loop whose end depends on data
UNKNOWN = 8


@dataclass(frozen=True, eq=False)
class Place:
    """A loop of a machine nest: the place of the loop around it, its depth, its own beginnings.

    ``times`` says how often the loop begins in a call, and ``iterations`` how many it has each
    time. Both are estimates if a range depends on other loops, a guard or data. ``outer`` is a
    place in the tree, or -1.
    """

    loop: For
    outer: int
    depth: int
    times: float
    iterations: float


def loop_tree(nest: MachineNest, sizes: Mapping[str, int]) -> tuple[Place, ...]:
    """Return the loops of ``nest`` in program order, each after the loops around it.

    ``sizes`` are the values of the entry's scalar parameters, by name. A function that is called
    belongs to the loop that calls it.

    >>> import schedlang as sl
    >>> A = sl.placeholder((4, 5), name="A")
    >>> B = sl.compute((4, 5), lambda i, j: A[i, j] * 2, name="B")
    >>> tree = loop_tree(sl.build(sl.schedule(B), target="python").machine_nest, {})
    >>> [(p.loop.axis, p.outer, p.times, p.iterations) for p in tree]
    [('i', -1, 1.0, 4.0), ('j', 0, 4.0, 5.0)]
    """
    builder = _Builder({f.name: f.body for f in nest.functions})
    return tuple(builder.body(nest.entry.body, -1, 0, 1.0, dict(sizes), 0))


@dataclass
class _Builder:
    """The bodies of the functions by name."""

    functions: Mapping[str, Body]

    def body(
        self, body: Body, outer: int, depth: int, times: float, known: dict[str, float], first: int
    ) -> list[Place]:
        """Return the loops of a block. ``known`` are registers' values, a loop index's the middle.

        ``first`` is the place of the first loop in the tree.
        """
        places: list[Place] = []
        for stmt in body:
            places += self.statement(stmt, outer, depth, times, known, first + len(places))
        return places

    def statement(
        self, stmt: Stmt, outer: int, depth: int, times: float, known: dict[str, float], first: int
    ) -> list[Place]:
        if isinstance(stmt, Let):
            value = _value(stmt.value, known)
            if value is None:
                known.pop(stmt.reg.name, None)
            else:
                known[stmt.reg.name] = value
        elif isinstance(stmt, Run):
            return self.body(self.functions[stmt.function], outer, depth, times, known, first)
        elif isinstance(stmt, For):
            start, stop = _value(stmt.start, known), _value(stmt.stop, known)
            length = UNKNOWN if start is None or stop is None else stop - start
            count = max(0.0, -(-length // stmt.step))
            inside = {**known, stmt.index.name: (start or 0.0) + max(0.0, length - 1) // 2}
            place = Place(stmt, outer, depth, times, float(count))
            inner = self.body(stmt.body, first, depth + 1, times * count, inside, first + 1)
            return [place, *inner]
        places: list[Place] = []
        for side in bodies(stmt):
            places += self.body(side, outer, depth, times, dict(known), first + len(places))
        return places


def _value(value: Value, known: Mapping[str, float]) -> float | None:
    """Return the value of an index, or ``None`` if it depends on data or is not an index."""
    inside = tuple(parts(value))
    registers = (v.name for v in inside if isinstance(v, Reg))
    if value.type != INDEX or any(isinstance(v, Load) for v in inside):
        return None
    return float(Evaluator()(value, known)) if all(n in known for n in registers) else None


def around(tree: tuple[Place, ...], place: int) -> Iterator[int]:
    """Yield the places of the loops around the one at ``place``, from inside out."""
    while (place := tree[place].outer) >= 0:
        yield place
