"""Places in one arena: the planner of networks, which stands in their files, too.

The places come from a greedy algorithm that takes the largest blocks first, each in the smallest
gap between those that are in use at the same time ("greedy by size for offset calculation" of
Pisarchyk and Lee, "Efficient memory management for deep neural net inference", MLSys 2020). Two
other orders are tried, and the one with the least peak is taken.
"""

from __future__ import annotations

import inspect


def arena_places(blocks: list[tuple[int, int, int]]) -> tuple[list[int], int]:
    """The first byte of each block in one arena, and the bytes of all.

    A block has its bytes, and the first and the last call that uses it. No two blocks that one call
    uses overlap. Each is placed in the smallest gap that has room. Three orders are
    tried, and the one that needs the fewest bytes counts.
    """
    orders = [
        [(-size, first) for size, first, _ in blocks],
        [(first - last, -size) for size, first, last in blocks],
        [(first, -size) for size, first, _ in blocks],
    ]
    plans: list[tuple[int, list[int]]] = []
    for order in orders:
        starts = [0] * len(blocks)
        placed: list[tuple[int, int, int, int]] = []
        for k in sorted(range(len(blocks)), key=order.__getitem__):
            size, first, last = blocks[k]
            end, gaps = 0, []
            for start, stop, begun, ended in sorted(placed):
                if begun <= last and first <= ended:
                    gaps += [(start - end, end)] if start - end >= size else []
                    end = max(end, stop)
            starts[k] = min(gaps)[1] if gaps else end
            placed.append((starts[k], starts[k] + size, first, last))
        plans.append((max([0, *(stop for _, stop, *_ in placed)]), starts))
    peak, starts = min(plans, key=lambda plan: plan[0])
    return starts, peak


def arena_source() -> str:
    """Return the source of :func:`arena_places`, which needs nothing else."""
    return inspect.getsource(arena_places).strip()
