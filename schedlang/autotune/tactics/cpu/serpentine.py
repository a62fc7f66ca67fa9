"""Loops that go back and forth from one time step to the next.

Each step of a recurrent layer reads all its weights. If they are larger than a core's own cache and
every step reads them in the same order, each line is evicted before it is read again. In the
opposite order, a step begins with what the step before it read last.
"""

from __future__ import annotations

from math import prod

from schedlang.autotune.knobs import Knobs
from schedlang.autotune.tactics.cpu.tile_sizes import Lane
from schedlang.autotune.tactics.facts import StageFacts
from schedlang.autotune.tactics.knob import Knob, Moves, yes
from schedlang.autotune.tactics.scheduled import Level
from schedlang.schedule.schedule import Schedule
from schedlang.state.state import SERPENTINE

KNOB = Knob(
    "C.serpentine",
    (False, True),
    "in a recurrence, let each thread compute its blocks of elements forwards in one time step and "
    "backwards in the next, which begins with what is still in the cache. The knob is left out if "
    "what every step reads again fits the caches of the cores",
    # the estimate does not see what is gained
    Moves(rank=31, start=yes),
)


def reread_bytes(stage: StageFacts, lane: Lane) -> int:
    """Return the bytes of panels that each time step of a scan reads again; 0 of other stages.

    Panels are what moves along the lanes.
    """
    times, op = stage.op.axis[: stage.time_axes], stage.op
    fixed = all(isinstance(axis.extent, int) for axis in op.domain)
    if prod(stage.extents(times)) == 1 or not fixed:
        return 0
    along = op.axis[lane.at]
    again = {
        read.tensor
        for read in stage.reads
        if all(read.fixed(axis) for axis in times) and not read.fixed(along, stage.width)
    }
    return sum(map(stage.problem.bytes, again))


def chosen(
    head: StageFacts, level: Level, along: int, reread: int, parallel: bool, knobs: Knobs
) -> bool:
    """Return whether a knob lets the blocks of a time step, or a thread's share, turn around.

    ``level`` is the outermost loop of the step, which must move ``along`` the axis of the lanes, so
    that its iterations read other parts of the ``reread`` bytes.
    """
    threads = head.problem.threads if parallel else 1
    own = head.problem.target.caches[:2][-1].size * threads
    even = level.extent % threads == 0 and level.extent > threads
    asks = level.along == (along,) and even and reread > own
    return asks and bool(knobs.choice(f"{head.name}.serpentine", [False, True]))


def back_and_forth(s: Schedule, stage: StageFacts, level: Level, parallel: bool) -> list[Level]:
    """Let the loop of a level go back and forth; return its levels, a loop over threads first."""
    levels = [level]
    if parallel:
        threads = stage.problem.threads
        over, within = s[stage.tensor].split(level.loop, nparts=threads)
        share = level.extent // threads
        levels = [Level(over, level.along, threads), Level(within, level.along, share)]
    s[stage.tensor].pragma(levels[-1].loop, SERPENTINE)
    return levels
