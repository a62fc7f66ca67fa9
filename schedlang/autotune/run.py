"""The loop of a search: propose candidates, measure them, learn from the times, record them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from time import monotonic
from traceback import extract_tb

from schedlang.autotune.budget import for_the_end
from schedlang.autotune.final_race import final_race, record_untuned
from schedlang.autotune.record import NEAR_SIZE, Trial
from schedlang.autotune.result import TuningResult
from schedlang.autotune.resume import resume as resume_earlier
from schedlang.autotune.runner.measure import Job, Measured
from schedlang.autotune.runner.sandbox import Broken
from schedlang.autotune.search import Exhausted, name_of
from schedlang.autotune.space import Candidate
from schedlang.autotune.state import BASELINE, Search, key_of
from schedlang.errors import SchedlangError, TuningError, first_line
from schedlang.runtime.collection import collection_at_the_end

# duplicates in a row that end the search, and those that end a batch which has a candidate
MOST_REPEATED, SOME_REPEATED = 200, 4
# a batch is at most an eighth of the trials, counted up to 256, so that a strategy can learn
GENERATIONS, MOST_LEARNED = 8, 256
# the part of a timeout that the draws of the first batch may take
DRAWING = 0.25
# factor on the estimate of a GPU kernel whose registers spill
SPILLED = 2.0


def run(search: Search, resume: bool, seed: int, started: float | None = None) -> TuningResult:
    """Run a search until it ends, for any reason, and return the best so far.

    ``started`` is when its call began, by ``time.monotonic``; by default that is now.
    """
    started = monotonic() if started is None else started
    with closing(search.measurer), search.progress:
        try:
            if resume:
                resume_earlier(search)
            _measure_all(search)
            measured = monotonic()
            final_race(search)
            search.finals_took = monotonic() - measured
        except KeyboardInterrupt:
            search.ended = "interrupted"
            if search.best() is None:
                raise
        except Exception as error:
            # also from a user's template or strategy: keep the trials so far
            _broken(search, error)
            if search.best() is None:
                if isinstance(error, Broken):
                    # users see only TuningError
                    raise TuningError(str(error)) from None
                raise
        try:
            record_untuned(search)
        except KeyboardInterrupt:
            search.ended = "interrupted"
        except Exception as error:
            _broken(search, error)
    return TuningResult.of(search, started, seed)


def _broken(search: Search, error: Exception) -> None:
    """End the search after an error that further trials would repeat.

    Measuring failed, the database could not be written, or the user's code raised an error.
    """
    message = first_line(error)
    if not isinstance(error, SchedlangError):
        place = extract_tb(error.__traceback__)[-1]
        message = f"{type(error).__name__}: {message} ({place.filename}:{place.lineno})"
    search.ended, search.broken = message, True


def _measure_all(search: Search) -> None:
    """Propose, measure and learn until there is a reason to stop."""
    # with a timeout, the untuned schedule is timed last
    untuned_first = search.times_untuned and search.end is None
    while not _over(search):
        batch = _Batch(search, untuned_first)
        untuned_first = False
        best = search.best()
        least = best.seconds if best else None
        for measured in search.measurer.measure(batch, least, search.space.deadline):
            if measured.number == BASELINE:
                search.untuned = measured
            else:
                _record_trial(search, *batch.known[measured.number], measured)
            if search.space.late() and search.best() is not None:
                break
        if not batch.known:
            search.ended = _nothing_new(search)
            return


class _Batch:
    """The jobs of the next candidates, none of them measured before, which an iteration draws.

    ``known`` has the candidate and the job of each trial number so far. The untuned schedule is the
    second job if ``with_untuned``: the first one shows that the workers can measure.
    """

    def __init__(self, search: Search, with_untuned: bool) -> None:
        self.known: dict[int, tuple[Candidate, Job]] = {}
        self._search, self._with_untuned = search, with_untuned

    def __iter__(self) -> Iterator[Job]:
        search = self._search
        for number, candidate in enumerate(_proposals(search), len(search.trials)):
            job = Job(number, candidate.schedule.to_json(), search.end, search.latest)
            self.known[number] = candidate, job
            yield job
            if self._with_untuned and len(self.known) == 1:
                yield search.untuned_job()


def _over(search: Search) -> bool:
    """Return whether the search has a reason to stop, and set ``ended`` to it."""
    if search.end is not None:
        search.space.deadline = search.end - for_the_end(search)
    if len(search.trials) >= search.most and not search.left_out():
        search.ended = "all trials are done"
    elif search.space.late():
        search.ended = "the time is up"
    elif search.stalled():
        search.ended = "no progress for many trials"
    return bool(search.ended)


def _proposals(search: Search) -> Iterator[Candidate]:
    """Draw the next candidates, none of them measured before."""
    left = search.most - len(search.trials)
    first = _new_candidate(search, search.given)
    early = search.trials or (search.start and search.start.origin != NEAR_SIZE)
    if early and len(first) < left:
        first += _take_start(search)
    yield from first
    wanted = min(search.measurer.batch, left, _largest_batch(search))
    proposed, repeated = len(first), 0
    # a batch that is hard to fill is measured as it is
    while (
        proposed < wanted
        and not search.space.late()
        and not (proposed and _slow(search))
        and repeated < (SOME_REPEATED if proposed else MOST_REPEATED)
    ):
        try:
            with collection_at_the_end():
                candidate = search.strategy.propose(search.space)
        except Exhausted as error:
            search.exhausted = str(error)
            break
        key = key_of(candidate)
        search.first = search.first or key
        if search.kept.get(key, 0):
            search.kept[key] -= 1
            continue
        if key in search.seen:
            search.duplicates += 1
            repeated += 1
            continue
        search.seen.add(key)
        repeated = 0
        # what was fast at another size may be slower than the first proposal, the model's
        more = _take_start(search) if proposed + 1 < wanted else []
        yield from (candidate, *more)
        proposed += 1 + len(more)
    if not proposed:
        yield from _take_start(search)


def _slow(search: Search) -> bool:
    """Return whether the first draws have taken so long that they are measured as they are."""
    if search.trials or search.end is None or search.timeout is None:
        return False
    return monotonic() > search.end - (1 - DRAWING) * search.timeout


def _take_start(search: Search) -> list[Candidate]:
    """Return the candidate that a database knows, once, unless it was measured."""
    start, search.start = search.start, None
    return _new_candidate(search, start)


def _new_candidate(search: Search, candidate: Candidate | None) -> list[Candidate]:
    """Return a candidate for the next trial, unless it was measured."""
    if candidate is None or key_of(candidate) in search.seen:
        return []
    search.seen.add(key_of(candidate))
    return [candidate]


def _largest_batch(search: Search) -> int:
    """Return the largest batch that leaves even a short search several generations."""
    return max(1, search.measurer.batch // 2, min(search.most, MOST_LEARNED) // GENERATIONS)


def _nothing_new(search: Search) -> str:
    """Return why there are no proposals."""
    if search.space.late():
        return "the time is up"
    return search.exhausted or "no other candidates were found"


def _record_trial(search: Search, candidate: Candidate, job: Job, measured: Measured) -> None:
    """Record the trial of a measured candidate, and tell the strategy and the line of progress."""
    detail = measured.other_work or measured.detail
    trial = Trial(
        measured.number, measured.outcome, job.steps, candidate.decisions, measured.seconds,
        _count_spills(candidate.estimate.seconds, measured), detail, key_of(candidate),
        candidate.origin or name_of(search.strategy), measured.took, template=search.template,
        disturbed=measured.seconds is not None and not measured.quiet, checked=search.task.checked,
        limits=search.task.limited,
    )  # fmt: skip
    search.trials.append(trial)
    search.record(trial, measured)
    search.strategy.learn(trial)
    search.progress.trial(trial)


def _count_spills(estimate: float, measured: Measured) -> float:
    """Return an estimate, raised where the machine code of a GPU kernel spills registers."""
    spilled = any(r.get("spill_bytes") for r in measured.resources.values())
    return estimate * SPILLED if spilled else estimate
