"""Search for a random schedule: try steps until enough are accepted and the nest lowers."""

from __future__ import annotations

import warnings
from random import Random
from typing import Any

import schedlang as sl
from schedlang.errors import LoweringError, OrderWarning, SchedlangError
from schedlang.lowering.lower import lower_state
from tests.fuzz.record import Case, Mismatch
from tests.fuzz.steps import Impossible, attempt, weights

STEPS = (5, 6, 6, 7, 8, 10)
FEWEST = min(STEPS)
MOST_TRIES = 600
CUTS = 0.1


def schedule_randomly(rng: Random, case: Case, outputs: list[Any], prints: bool) -> Any:
    """Return a schedule that lowers, with at least five steps if that many can be found."""
    search = _Search(rng, case, sl.schedule(outputs if len(outputs) > 1 else outputs[0]), prints)
    wanted, chosen = rng.choice(STEPS), weights(rng, "stencil" in case.graph.kinds)
    if Random(f"cuts:{case.key}").random() < CUTS:
        # cut tails and steps that may break them; their own generator leaves other cases unchanged
        chosen.update(split=24, tile=8, fuse=10, reorder=10, vectorize=6, parallel=5, unroll=4)
    # te programs attach in any order: sometimes keep a step that does not lower yet
    keep_unfit = rng.choice((0.03, 0.03, 0.03, 0.6))
    for tried in range(MOST_TRIES):
        count = len(case.applied)
        if count >= wanted or (tried >= wanted * 12 and count >= FEWEST):
            if lowers(search.schedule):
                break
            if count >= 2 * wanted:
                search.undo_unfit()
                keep_unfit = 0.0
        search.step(rng.choices(list(chosen), list(chosen.values()))[0], keep_unfit)
    search.undo_unfit()
    search.check_history()
    if search.unfit:
        case.features.add("unfit on the way")
    return search.schedule


class _Search:
    """The schedule so far, its text after each step, and the steps after which it did not lower."""

    def __init__(self, rng: Random, case: Case, schedule: Any, prints: bool) -> None:
        self.rng, self.case, self.schedule, self.prints = rng, case, schedule, prints
        self.texts = [str(schedule)] if prints else []
        self.unfit: list[int] = []

    def step(self, primitive: str, keep_unfit: float) -> None:
        """Try ``primitive`` once, and undo it if the nest does not lower.

        Keep a share ``keep_unfit`` of the steps that would be undone.
        """
        case, s = self.case, self.schedule
        before = s.copy()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", OrderWarning)
                attempt(self.rng, s, primitive)
        except Impossible:
            return
        except OrderWarning:
            # which of several equal values the reduction picks would depend on the schedule
            self.schedule = before
            return
        except SchedlangError:
            case.counts["refused steps"] += 1
            if len(s.steps) != len(before.steps) or s.state is not before.state:
                raise Mismatch(f"a refused {primitive} changed the schedule") from None
            return
        case.applied.append(primitive)
        case.source = s.to_json()
        if self.prints:
            self.texts.append(str(s))
        if lowers(s):
            return
        if self.rng.random() < keep_unfit:
            self.unfit.append(len(case.applied))
        else:
            case.counts["steps undone"] += 1
            self.cut(before, len(case.applied) - 1)

    def undo_unfit(self) -> None:
        """Go back to the last step after which the nest lowered."""
        count = len(self.case.applied)
        while not lowers(self.schedule.at(count)):
            count -= 1
        if count < len(self.case.applied):
            self.case.counts["steps undone"] += len(self.case.applied) - count
            self.cut(self.schedule.at(count), count)

    def cut(self, schedule: Any, count: int) -> None:
        self.schedule = schedule
        del self.case.applied[count:]
        del self.texts[count + 1 :]
        self.unfit = [k for k in self.unfit if k <= count]

    def check_history(self) -> None:
        for count in self.rng.sample(range(len(self.texts)), min(2, len(self.texts))):
            if str(self.schedule.at(count)) != self.texts[count]:
                raise Mismatch(f"s.at({count}) prints another nest than it did")


def lowers(s: Any) -> bool:
    """Return whether ``s`` lowers with its current attachments."""
    try:
        lower_state(s.state)
    except LoweringError:
        return False
    return True


__all__ = ["FEWEST", "schedule_randomly"]
