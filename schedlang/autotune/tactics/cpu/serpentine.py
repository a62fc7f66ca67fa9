"""Loops that go back and forth from one time step to the next.

Each step of a recurrent layer reads all its weights. If they are larger than a core's own cache and
every step reads them in the same order, each line is evicted before it is read again. In the
opposite order, a step begins with what the step before it read last.
"""

from __future__ import annotations

from math import prod

from schedlang.autotune.knobs import Knobs
from schedlang.autotune.tactics.facts import StageFacts
from schedlang.autotune.tactics.knob import Knob
from schedlang.autotune.tactics.scheduled import Level
from schedlang.schedule.schedule import Schedule
from schedlang.state.state import SERPENTINE

KNOB = Knob(
    "C.serpentine", (True, False),
    "let each thread go through its blocks of a time step backwards in every other step. There is "
    "no knob if what every step reads again fits the caches of the cores",
)  # fmt: skip


def rereads(stage: StageFacts) -> bool:
    """Return whether each time step reads again more than the cores' own caches hold."""
    if not stage.time_axes:
        return False
    times, op = stage.op.axis[: stage.time_axes], stage.op
    again = {r.tensor for r in stage.reads if all(r.fixed(axis) for axis in times)}
    fixed = prod(stage.extents(times)) > 1 and all(isinstance(a.extent, int) for a in op.domain)
    own = stage.problem.target.caches[:2][-1].size * stage.problem.threads
    return fixed and sum(stage.problem.bytes(tensor) for tensor in again) > own


def chosen(stage: StageFacts, level: Level, parallel: bool, knobs: Knobs) -> bool:
    """Return whether a knob lets the iterations of a level, or a thread's share, turn around."""
    threads = stage.problem.threads if parallel else 1
    even = len(level.along) == 1 and level.extent % threads == 0 and level.extent > threads
    return even and bool(knobs.choice(f"{stage.name}.serpentine", [True, False]))


def turned(s: Schedule, stage: StageFacts, level: Level, parallel: bool) -> list[Level]:
    """Let the loop of a level turn around; return its levels, a loop over threads first."""
    found = [level]
    if parallel:
        threads = stage.problem.threads
        over, within = s[stage.tensor].split(level.loop, nparts=threads)
        share = level.extent // threads
        found = [Level(over, level.along, threads), Level(within, level.along, share)]
    s[stage.tensor].pragma(found[-1].loop, SERPENTINE)
    return found


__all__ = ["KNOB", "chosen", "rereads", "turned"]
