"""Sums in an array of vectors, a few at a time where the registers cannot hold them all.

A schedule whose tile is too large adds a term to each sum in turn, and to each again. GCC keeps
this order, and loads and stores a sum for each term.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from schedlang.machine import nodes as m
from schedlang.machine.nodes import Body, Let, Num, Reg, Stmt, Store
from schedlang.machine.walks import parts, values, walk

# sums that fit 16 registers beside their operands, and those that are computed at a time
MOST_SUMS = 12
AT_A_TIME = 8


def sums_together(body: Body) -> Body:
    """Return ``body`` with the terms of each sum closer together.

    The terms of a sum keep their order. Only arrays of the stack are written out of order, and
    nothing else reads these in between.
    """
    stacks = {s.array.name for s in body if isinstance(s, m.Alloc) and s.place == "stack"}
    inside = [stmt for stmt, _ in walk(body)]
    stacks -= {stmt.whole.name for stmt in inside if isinstance(stmt, m.View)}
    if sum(isinstance(s, Store) and s.array.name in stacks for s in body) <= MOST_SUMS:
        return body
    # how often the body assigns each register, and reads it
    sets = Counter(stmt.reg.name for stmt in inside if isinstance(stmt, Let))
    every = (v for stmt in inside for root in values(stmt) for v in parts(root))
    reads = Counter(v.name for v in every if isinstance(v, Reg))
    once = {name for name, count in sets.items() if count == 1}
    passed = {name for name in once if reads[name] == 1}
    arranged: list[Stmt] = []
    run: list[tuple[Stmt, ...]] = []
    masks: list[Stmt] = []
    start = position = 0
    while position < len(body):
        stmt = body[position]
        unit = _unit(body, position, stacks, passed)
        if unit and (not run or _store(run[0]).array.name == _store(unit).array.name):
            start = start if run else position
            run.append(unit)
            position += len(unit)
            continue
        if run and _is_mask(stmt, once) and not any(_names(s, stmt) for u in run for s in u):
            # of later terms
            masks.append(stmt)
            position += 1
            continue
        arranged += _by_sums(run, masks) or (body[start:position] if run else ())
        run, masks = [], []
        if not unit:
            arranged.append(stmt)
            position += 1
    return (*arranged, *(_by_sums(run, masks) or (body[start:] if run else ())))


def _unit(body: Body, position: int, stacks: set[str], passed: set[str]) -> tuple[Stmt, ...] | None:
    """Return the statements that update one sum, or set it, if those from ``position`` on do.

    ``passed`` are registers that one statement assigns and one reads.
    """
    stmt = body[position]
    unit: tuple[Stmt, ...] = (stmt,)
    if isinstance(stmt, Let) and stmt.reg.type.lanes and position + 1 < len(body):
        unit = (stmt, body[position + 1])
        last = unit[1]
        if not isinstance(last, Store) or last.value != stmt.reg or stmt.reg.name not in passed:
            return None
    store = unit[-1]
    if not isinstance(store, Store) or store.array.name not in stacks:
        return None
    if not store.value.type.lanes or not isinstance(store.at, Num) or store.step != 1:
        return None
    if store.how not in ("vstore", "vstore_masked"):
        return None
    own = (load for s in unit for load in _loads(s) if load.array.name == store.array.name)
    same = all(
        load.at == store.at and load.type.lanes == store.value.type.lanes
        and load.how in ("vload", "vload_masked")
        for load in own
    )  # fmt: skip
    return unit if same else None


def _is_mask(stmt: Stmt, once: set[str]) -> bool:
    """Return whether a statement assigns a register once, from other registers alone."""
    if not isinstance(stmt, Let) or stmt.reg.name not in once:
        return False
    return not any(isinstance(v, (m.Load, m.Fn)) for v in parts(stmt.value))


def _names(stmt: Stmt, let: Stmt) -> bool:
    """Return whether ``stmt`` reads the register that ``let`` assigns."""
    return isinstance(let, Let) and any(let.reg in parts(root) for root in values(stmt))


def _store(unit: Sequence[Stmt]) -> Store:
    store = unit[-1]
    assert isinstance(store, Store)
    return store


def _loads(stmt: Stmt) -> list[m.Load]:
    return [v for root in values(stmt) for v in parts(root) if isinstance(v, m.Load)]


def _by_sums(run: Sequence[tuple[Stmt, ...]], masks: Sequence[Stmt]) -> list[Stmt]:
    """Return ``masks`` and the statements of a few sums at a time; none unless sums are many."""
    numbers: dict[int, int] = {}
    lanes: dict[int, int] = {}
    for unit in run:
        at = _at(unit)
        numbers.setdefault(at, len(numbers))
        lanes[at] = max(lanes.get(at, 0), _store(unit).value.type.lanes)
    places = sorted(lanes)
    apart = all(a + lanes[a] <= b for a, b in zip(places, places[1:]))
    if not apart or not MOST_SUMS < len(numbers) < len(run):
        return []
    ordered = sorted(run, key=lambda unit: numbers[_at(unit)] // AT_A_TIME)
    return [*masks, *(stmt for unit in ordered for stmt in unit)]


def _at(unit: Sequence[Stmt]) -> int:
    at = _store(unit).at
    assert isinstance(at, Num)
    return int(at.value)
