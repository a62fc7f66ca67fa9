"""Coordinate descent: change one decision at a time, and keep what lowers the estimate."""

from __future__ import annotations

import json
from random import Random

from schedlang.autoschedule.moves import in_order, others
from schedlang.autotune.knobs import Decisions, Rejected
from schedlang.autotune.space import Candidate, Space

# a decision is changed only for a gain of more than this part: the first options are the safest
LEAST_GAIN = 1e-3
# random draws, if the decisions to start from are rejected
MOST_DRAWS = 8


def descend(space: Space, evaluations: int, given: Decisions | None = None) -> Candidate | None:
    """Return the candidate of the least estimate that ``evaluations`` draws of ``space`` find.

    The descent starts from the decisions ``given`` and those that ``space.pick`` makes. It visits
    the knobs in the order of :mod:`.moves`, and again as long as one gains. The result depends on
    no clock and no state: the same space gives the same candidate. ``None`` if all are rejected.
    """
    best, left = _first(space, evaluations, given or {})
    # what was drawn already: equal decisions give equal candidates
    drawn = set() if best is None else {_key(best.decisions)}
    gained = best is not None
    while gained and left > 0:
        gained = False
        assert best is not None
        for name in in_order(best.decisions):
            if name not in best.decisions:
                # an earlier change has removed the knob
                continue
            for value in others(name, best.decisions[name], best.options[name]):
                decisions = {**best.decisions, name: value}
                if left <= 0 or _key(decisions) in drawn:
                    continue
                drawn.add(_key(decisions))
                left -= 1
                found = _draw(space, decisions)
                if found is not None and _better(found, best):
                    best, gained = found, True
                    drawn.add(_key(best.decisions))
                    if name not in best.decisions:
                        break
    return best


def _first(space: Space, evaluations: int, given: Decisions) -> tuple[Candidate | None, int]:
    """Return the candidate to start from, and how many evaluations are left then."""
    found = _draw(space, given)
    tries = 0
    while found is None and tries < min(MOST_DRAWS, evaluations - 1):
        found = _draw(space, given, Random(tries))
        tries += 1
    return found, evaluations - 1 - tries


def _draw(space: Space, decisions: Decisions, rng: Random | None = None) -> Candidate | None:
    try:
        return space.draw_unverified(rng, decisions)
    except Rejected:
        return None


def _better(candidate: Candidate, best: Candidate) -> bool:
    return candidate.estimate.seconds < best.estimate.seconds * (1 - LEAST_GAIN)


def _key(decisions: Decisions) -> str:
    return json.dumps(decisions, sort_keys=True)


__all__ = ["descend"]
