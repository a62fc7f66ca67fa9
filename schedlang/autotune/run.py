"""A search as it runs: it proposes, measures, learns and keeps."""

from __future__ import annotations

from contextlib import closing
from time import monotonic
from traceback import extract_tb

from schedlang.autotune.budget import for_the_end
from schedlang.autotune.earlier import resume as resume_earlier
from schedlang.autotune.finals import finals, keep_untuned
from schedlang.autotune.record import DISTURBED, Trial
from schedlang.autotune.result import TuningResult
from schedlang.autotune.runner.measure import Job, Measured
from schedlang.autotune.runner.sandbox import Broken
from schedlang.autotune.search import Exhausted, name_of
from schedlang.autotune.space import Candidate
from schedlang.autotune.state import BASELINE, Search, key_of
from schedlang.errors import SchedlangError, TuningError, first_line

# proposals in a row that were all measured before: then the space is taken to be exhausted; and
# after so many what was found is measured
MOST_REPEATED, SOME_REPEATED = 200, 4
# a search proposes at most this part of its trials at once, as if there were at most so many
GENERATIONS, MOST_LEARNED = 8, 256
# an estimate where registers do not suffice
SPILLED = 2.0


def run(search: Search, resume: bool, seed: int) -> TuningResult:
    """Run to the end, whatever that is; the best so far."""
    started = monotonic()
    with closing(search.measurer), search.progress:
        try:
            if resume:
                resume_earlier(search)
            _measure_all(search)
            measured = monotonic()
            finals(search)
            search.finals_took = monotonic() - measured
        except KeyboardInterrupt:
            search.ended = "interrupted"
            if search.best() is None:
                raise
        except Exception as error:
            # of a template or a strategy of the user's too: what was found is not lost with it
            _broken(search, error)
            if search.best() is None:
                if isinstance(error, Broken):
                    # for users there is one kind
                    raise TuningError(str(error)) from None
                raise
        try:
            keep_untuned(search)
        except KeyboardInterrupt:
            search.ended = "interrupted"
        except Exception as error:
            _broken(search, error)
    return TuningResult.of(search, monotonic() - started, seed)


def _broken(search: Search, error: Exception) -> None:
    """End the search after an error that further trials would repeat.

    Measuring fails, the database takes no more lines, or code of the user's failed.
    """
    said = first_line(error)
    if not isinstance(error, SchedlangError):
        place = extract_tb(error.__traceback__)[-1]
        said = f"{type(error).__name__}: {said} ({place.filename}:{place.lineno})"
    search.ended, search.broken = said, True


def _measure_all(search: Search) -> None:
    """Propose, measure and learn until there is a reason to stop."""
    # where time is short, it comes last
    first = search.times_plain and search.end is None
    while not _over(search):
        batch = _proposals(search)
        if not batch:
            search.ended = _nothing_new(search)
            return
        by_number = {n: Job(n, c.schedule.to_json(), search.end) for n, c in batch.items()}
        jobs = list(by_number.values())
        if first:
            # behind a candidate, which says that the workers can measure
            jobs.insert(1, search.plain())
            first = False
        best = search.best()
        least = best.seconds if best else None
        for found in search.measurer.measure(jobs, least, search.space.deadline):
            if found.number == BASELINE:
                search.untuned = found
            else:
                _ended(search, batch[found.number], by_number[found.number], found)
            if search.space.late() and search.best() is not None:
                break


def _over(search: Search) -> bool:
    if search.end is not None:
        search.space.deadline = search.end - for_the_end(search)
    if len(search.trials) >= search.most:
        search.ended = "all trials are done"
    elif search.space.late():
        search.ended = "the time is up"
    elif search.stalled():
        search.ended = "no progress for many trials"
    return bool(search.ended)


def _proposals(search: Search) -> dict[int, Candidate]:
    """Return candidates that were not measured before, by the number of their trial."""
    made: dict[int, Candidate] = {}
    if search.start is not None and key_of(search.start) not in search.seen:
        search.seen.add(key_of(search.start))
        made[len(search.trials)] = search.start
    search.start = None
    left = search.most - len(search.trials)
    wanted = min(search.measurer.batch, left, _learned_from(search))
    repeated = 0
    # a batch that is hard to fill does not wait for long
    while len(made) < wanted and not search.space.late() and (
        repeated < (SOME_REPEATED if made else MOST_REPEATED)
    ):  # fmt: skip
        try:
            candidate = search.strategy.propose(search.space)
        except Exhausted as error:
            search.exhausted = str(error)
            break
        key = key_of(candidate)
        if search.kept.get(key, 0):
            search.kept[key] -= 1
            continue
        if key in search.seen:
            search.duplicates += 1
            repeated += 1
            continue
        search.seen.add(key)
        repeated = 0
        made[len(search.trials) + len(made)] = candidate
    return made


def _learned_from(search: Search) -> int:
    """Return how many are proposed at once, so that a search of few trials has several
    generations."""
    return max(1, search.measurer.batch // 2, min(search.most, MOST_LEARNED) // GENERATIONS)


def _nothing_new(search: Search) -> str:
    """Return why there are no proposals."""
    if search.space.late():
        return "the time is up"
    return search.exhausted or "no other candidates were found"


def _ended(search: Search, candidate: Candidate, job: Job, found: Measured) -> None:
    detail = found.detail if found.quiet else DISTURBED
    trial = Trial(
        found.number, found.outcome, job.steps, candidate.decisions, found.seconds,
        _refined(candidate.estimate.seconds, found), detail, key_of(candidate),
        candidate.origin or name_of(search.strategy), found.took, template=search.template,
        disturbed=found.seconds is not None and not found.quiet, checked=search.task.checked,
        limits=search.task.limited,
    )  # fmt: skip
    search.trials.append(trial)
    search.keep(trial, found)
    search.strategy.learn(trial)
    search.progress.trial(trial)


def _refined(estimate: float, found: Measured) -> float:
    """Return an estimate for a GPU after its machine code is known: what spills goes through
    memory."""
    spilled = any(r.get("spill_bytes") for r in found.resources.values())
    return estimate * SPILLED if spilled else estimate


__all__ = ["run"]
