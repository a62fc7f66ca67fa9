"""Coordinate descent: change one decision at a time, and keep what lowers the estimate."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from random import Random

from schedlang.autotune.knobs import Decisions, Rejected
from schedlang.autotune.model.pressure import spill_factor
from schedlang.autotune.space import Candidate, Space
from schedlang.compute.tensor import ComputeOp
from schedlang.ir.findings import Findings
from schedlang.runtime.collection import no_collection
from schedlang.target import Target

# a decision is changed only for a gain of more than this part: the first options are the safest
# nobody has measured this value
LEAST_GAIN = 1e-3
# random draws, if the decisions to start from are rejected
# nobody has measured this value
MOST_DRAWS = 8
# how many structures are refined, each with this part of the evaluations
# nobody has measured these values
REFINED, PART = 2, 0.3
# more evaluations, as a part, of candidates that compute stages in the loops of their readers, and
# the rows of a block that goes through these stages
# nobody has measured these values
INSIDE, ROWS = 0.5, 4
# the fewest stages of a chain
# nobody has measured this value
CHAIN = 3
# such a candidate wins up to this many times the estimate of the best other one: the estimate sees
# little of what it costs to pass over memory again
# nobody has measured this value
SLOWER = 1.05


def descend(space: Space, evaluations: int, given: Decisions | None = None) -> Candidate | None:
    """Return the candidate of the least estimate that ``evaluations`` draws of ``space`` find.

    The first candidate has the decisions ``given`` and those that ``space.pick`` makes. Each change
    of its structure, such as another tactic, is tried. The best two structures are refined, and
    then the better one until the evaluations are used up or nothing gains. If stages may be
    computed in the loops of others, a candidate that does so is refined, too, by some more draws.
    The result depends on no clock: the same space gives the same candidate. It is ``None`` if all
    are rejected.
    """
    # a collection would walk all objects of the process, and draws leave few cycles behind
    with no_collection():
        return _descend(_Draws(space.remembering(), evaluations), given or {})


def _descend(draws: _Draws, given: Decisions) -> Candidate | None:
    evaluations = draws.left
    first = draws.first(given)
    if first is None:
        return None
    some = sorted([first, *draws.structures(first)], key=_seconds)[:REFINED]
    if len(some) > 1:
        part = int(PART * evaluations)
        some = [draws.refine(candidate, part, structure=False) for candidate in some]
    best = draws.refine(min(some, key=_seconds), draws.left)
    draws.left = int(INSIDE * evaluations)
    inside = draws.inside(first)
    if inside:
        refined = min(inside, key=_seconds)
        refined = draws.refine(refined, draws.left, structure=False)
        best = refined if refined.estimate.seconds < SLOWER * best.estimate.seconds else best
    return best


@dataclass
class _Draws:
    """The draws of one descent: how many are ``left``, and the decisions of those so far."""

    space: Space
    left: int
    drawn: set[str] = field(default_factory=set)

    def first(self, given: Decisions) -> Candidate | None:
        """Return the candidate of the given decisions, or a random one that is not rejected."""
        candidate = self.draw(given)
        for seed in range(MOST_DRAWS):
            if candidate is not None or self.left <= 0:
                break
            candidate = self.draw(given, Random(seed))
        return candidate

    def inside(self, first: Candidate) -> list[Candidate]:
        """Return candidates that compute stages in the loops of their readers, if that may gain.

        One goes through single rows of the first reader, the other through blocks of rows. A change
        of one stage after the other would not get there: the first ones alone gain nothing.
        """
        moves = self.space.moves
        if not self._has_rows(first):
            return []
        space = replace(self.space, pick=moves.start_inside)
        rows = self.draw({}, space=space)
        if rows is None:
            return []
        block = next((name for name in rows.decisions if moves.of(name).blocks), None)
        sizes = (rows.options[block] or []) if block is not None else []
        if block is None or ROWS not in sizes:
            return [rows]
        blocks = self.draw({**rows.decisions, block: ROWS}, space=space)
        return [rows] if blocks is None else [rows, blocks]

    def structures(self, first: Candidate) -> list[Candidate]:
        """Return candidates with other structures: one decision is changed after the other.

        A change that gains is kept for those after it. A knob that is gone then, such as the lanes
        of a tile, is changed where it was. Decisions that only a change brings, such as the tactic
        of a stage that is fused no more, are changed with it. So are those whose best value depends
        on the changed one, such as the instruction for other lanes.
        """
        best, moves = first, self.space.moves
        candidates: list[Candidate] = []
        for name in moves.in_order(first.decisions):
            if not moves.of(name).structure:
                continue
            start = min(
                (c for c in (best, first, *candidates) if name in c.decisions), key=_seconds
            )
            for value in moves.others(name, start.decisions[name], start.options[name]):
                variant = self.change(start, name, value)
                if variant is not None:
                    brought = [
                        self.change(variant, other, choice)
                        for other in moves.in_order(variant.decisions)
                        if moves.of(other).structure
                        if other not in start.decisions or moves.depends(other, name)
                        for choice in moves.others(
                            other, variant.decisions[other], variant.options[other]
                        )
                    ]
                    variant = min([variant, *filter(None, brought)], key=_seconds)
                    candidates.append(variant)
                    best = variant if _better(variant, best) else best
                    if best is variant and name in best.decisions:
                        start = best
        return candidates

    def refine(self, best: Candidate, most: int, structure: bool = True) -> Candidate:
        """Return a candidate that is better by up to ``most`` more draws.

        Without ``structure``, the knobs that decide on others are not changed.
        """
        end, gained, moves = max(0, self.left - most), True, self.space.moves
        while gained and self.left > end:
            gained = False
            for name in moves.in_order(best.decisions):
                if name not in best.decisions or (moves.of(name).structure and not structure):
                    # an earlier change may have removed the knob
                    continue
                for value in moves.others(name, best.decisions[name], best.options[name]):
                    changed = self.change(best, name, value) if self.left > end else None
                    if changed is not None and _better(changed, best):
                        best, gained = changed, True
                        if name not in best.decisions:
                            break
        return best

    def _has_rows(self, candidate: Candidate) -> bool:
        """Return whether a reduction, or a chain of stages, may be computed in the loops of others.

        A pad or another single stage gets there by one change.
        """
        placed = [name for name in candidate.decisions if self.space.moves.of(name).places]
        names = [name.removesuffix(".at") for name in placed]
        stages = candidate.schedule.state.stages
        ops = (stages[name].op for name in names if name in stages)
        sums = any(isinstance(op, ComputeOp) and op.reducer is not None for op in ops)
        return sums or len(names) >= CHAIN

    def change(self, best: Candidate, name: str, value: object) -> Candidate | None:
        """Return the candidate with one other decision, unless it is known or rejected."""
        decisions = {**best.decisions, name: value}
        return None if _key(decisions) in self.drawn else self.draw(decisions)

    def draw(
        self, decisions: Decisions, rng: Random | None = None, space: Space | None = None
    ) -> Candidate | None:
        """Return the candidate of ``decisions``; ``None`` if it is rejected or none are left."""
        if self.left <= 0:
            return None
        self.left -= 1
        self.drawn.add(_key(decisions))
        try:
            candidate = (space or self.space).draw_unverified(rng, decisions)
        except Rejected:
            return None
        self.drawn.add(_key(candidate.decisions))
        return _with_spills(candidate, self.space.target, self.space.findings)


def _with_spills(candidate: Candidate, target: Target, findings: Findings) -> Candidate:
    """Return a candidate whose estimate counts spills that the cost model does not see."""
    factor = 1.0 if target.facts.binds_threads else spill_factor(candidate.nest, target, findings)
    if factor == 1:
        return candidate
    seconds = factor * candidate.estimate.seconds
    return replace(candidate, estimate=replace(candidate.estimate, seconds=seconds))


def _seconds(candidate: Candidate) -> float:
    return candidate.estimate.seconds


def _better(candidate: Candidate, best: Candidate) -> bool:
    return candidate.estimate.seconds < best.estimate.seconds * (1 - LEAST_GAIN)


def _key(decisions: Decisions) -> str:
    return json.dumps(decisions, sort_keys=True)
