"""The memory plan of a network: where in one arena each tensor between its kernels has its place.

The planner is :func:`~schedlang.codegen.arena.arena_places`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Optional

from schedlang.codegen.arena import arena_places
from schedlang.errors import BuildError
from schedlang.machine.alignment import align_up
from schedlang.markup.columns import align_columns as in_columns
from schedlang.markup.sizes import bytes_text

# the most calls whose lifetimes are drawn beside the table
MOST_DRAWN = 64


@dataclass(frozen=True)
class Lifetime:
    """A tensor of ``bytes`` that call ``first`` writes and call ``last`` is the last to read."""

    name: str
    bytes: int
    first: int
    last: int


@dataclass(frozen=True)
class Placed:
    """A tensor with its place: from byte ``offset`` of the arena on.

    ``in_place_of`` is the tensor whose memory it takes over, while the same call reads that.
    """

    name: str
    bytes: int
    first: int
    last: int
    offset: int
    in_place_of: Optional[str] = None


@dataclass(frozen=True)
class MemoryPlan:
    """The place of each tensor in an arena of ``peak`` bytes.

    ``total`` is the sum of all tensors, and ``bound`` the largest sum of tensors that are in use at
    once: no plan has a smaller peak. Both count whole cache lines, and memory that is taken over
    once. ``print`` shows a table, with a bar for each tensor from the first call that uses it to
    the last.
    """

    placed: tuple[Placed, ...]
    peak: int
    total: int
    bound: int
    calls: int

    def offset(self, name: str) -> int:
        """Return the byte of the arena at which the tensor ``name`` begins."""
        return next(p.offset for p in self.placed if p.name == name)

    def __str__(self) -> str:
        if not self.placed:
            return "memory: no tensor is stored between kernels"
        head = (
            f"memory: {bytes_text(self.peak)} at the peak, {bytes_text(self.total)} in all; "
            f"in use at once are {bytes_text(self.bound)}"
        )
        rows: list[tuple[list[str], str]] = [(["bytes", "offset", "calls"], "tensor")]
        for p in self.placed:
            over = f" in place of {p.in_place_of}" if p.in_place_of is not None else ""
            cells = [bytes_text(p.bytes), str(p.offset), f"{p.first}..{p.last}"]
            if self.calls <= MOST_DRAWN:
                bar = "." * p.first + "#" * (p.last - p.first + 1)
                cells.append(bar.ljust(self.calls, "."))
            rows.append((cells, f"{p.name}{over}"))
        if self.calls <= MOST_DRAWN:
            rows[0][0].append("")
        return "\n".join([head, *in_columns(rows)])


def plan_memory(
    tensors: Sequence[Lifetime], in_place: Iterable[tuple[str, str]] = ()
) -> MemoryPlan:
    """Return a place in one arena for each of the ``tensors``.

    Two tensors that are in use during the same call do not overlap. ``in_place`` are pairs of
    tensors: a call may write the first one in the place of the second one, since it reads each
    element before it writes there. The two share memory if this call is the last to read the second
    one, both have the same size, and the peak does not grow. Offsets are multiples of 64 bytes.

    Raises :class:`~schedlang.errors.BuildError` for two tensors of one name, and for one that is
    read before it is written.

    >>> a, b = Lifetime("a", 1000, 0, 1), Lifetime("b", 500, 1, 2)
    >>> c, d = Lifetime("c", 500, 2, 3), Lifetime("d", 500, 3, 3)
    >>> print(plan_memory([a, b, c, d], in_place=[("c", "b")]))
    memory: 1536 B at the peak, 2560 B in all; in use at once are 1536 B
     bytes  offset  calls         tensor
    1000 B       0   0..1  ##..   a
     500 B    1024   1..2  .##.   b
     500 B    1024   2..3  ..##   c in place of b
     500 B       0   3..3  ...#   d
    """
    names = [t.name for t in tensors]
    for t in tensors:
        if names.count(t.name) > 1:
            raise BuildError(f"planning memory: two tensors are named {t.name!r}")
        if not 0 <= t.first <= t.last:
            raise BuildError(
                f"planning memory: {t.name} is read by call {t.last}, before call {t.first} "
                "writes it"
            )
    alone = _planned(tensors, {})
    replaced = _taken_over({t.name: t for t in tensors}, in_place)
    together = _planned(tensors, replaced)
    return together if together.peak <= alone.peak else alone


def _taken_over(
    tensors: Mapping[str, Lifetime], pairs: Iterable[tuple[str, str]]
) -> dict[str, str]:
    """Return the tensors that take over the memory of another one, and that one."""
    replaced: dict[str, str] = {}
    for new, old in pairs:
        a, b = tensors.get(new), tensors.get(old)
        if a is None or b is None or new in replaced or old in replaced.values():
            continue
        if b.last == a.first and b.first < a.first and align_up(a.bytes) == align_up(b.bytes):
            replaced[new] = old
    return replaced


@dataclass(frozen=True)
class _Block:
    """Memory that tensors use one after the other, from call ``first`` to call ``last``."""

    names: tuple[str, ...]
    size: int
    first: int
    last: int


def _planned(tensors: Sequence[Lifetime], replaced: Mapping[str, str]) -> MemoryPlan:
    blocks = _blocks(tensors, replaced)
    starts, peak = arena_places([(b.size, b.first, b.last) for b in blocks])
    offsets = {name: start for b, start in zip(blocks, starts) for name in b.names}
    calls = max((t.last + 1 for t in tensors), default=0)
    live = [sum(b.size for b in blocks if b.first <= k <= b.last) for k in range(calls)]
    placed = (
        Placed(t.name, t.bytes, t.first, t.last, offsets[t.name], replaced.get(t.name))
        for t in sorted(tensors, key=lambda t: (t.first, t.last, t.name))
    )
    total = sum(align_up(t.bytes) for t in tensors)
    return MemoryPlan(tuple(placed), peak, total, max(live, default=0), calls)


def _blocks(tensors: Sequence[Lifetime], replaced: Mapping[str, str]) -> list[_Block]:
    """Return the memory of each tensor that takes over no other's, with those that do."""
    by_name = {t.name: t for t in tensors}
    after = {old: new for new, old in replaced.items()}
    blocks: list[_Block] = []
    for t in tensors:
        if t.name in replaced:
            continue
        chain = [t]
        while (following := after.get(chain[-1].name)) is not None:
            chain.append(by_name[following])
        size = align_up(t.bytes)
        blocks.append(_Block(tuple(c.name for c in chain), size, t.first, chain[-1].last))
    return blocks
