"""Search for schedules of the parts of a network, one search for all parts that are equal."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from time import monotonic
from typing import Any

from schedlang.autotune import autotune
from schedlang.autotune.database import Database
from schedlang.autotune.options import (
    check_objects,
    checked_count,
    checked_limits,
    checked_seconds,
)
from schedlang.autotune.record import NO_GPU, Trial, Where, machine_for
from schedlang.autotune.runner.task import Limits, target_data
from schedlang.autotune.search import strategy
from schedlang.autotune.sizes import checked_sizes
from schedlang.autotune.state import nest_key
from schedlang.compute.graph import placeholders, variables
from schedlang.compute.tensor import Tensor
from schedlang.compute.work import flops, uncounted
from schedlang.errors import TuningError, explain, first_line, names_text
from schedlang.expr.dtypes import itemsize
from schedlang.expr.evaluate import evaluate
from schedlang.expr.nodes import Expr, Var
from schedlang.lowering.lower import lower_state
from schedlang.markup.columns import align_columns
from schedlang.markup.text import printable
from schedlang.networks.forms import LEAST_GAIN, Forms
from schedlang.networks.model import Recipe
from schedlang.networks.partition import Part, Partition, equal_parts
from schedlang.networks.progress import Progress, Setting, progress_for
from schedlang.networks.surroundings import surroundings
from schedlang.runtime.nvidia import driver
from schedlang.runtime.timing import duration, number
from schedlang.schedule.schedule import Schedule
from schedlang.target import Target
from schedlang.version import __version__

# the least seconds of a search: a shorter one measures nothing
LEAST_SECONDS = 5.0
# the share of the time that is kept for kernels that only a choice between forms makes
SPARE = 0.1
# bytes that are moved in the time of one operation, in a kernel without reuse
BYTES_PER_OPERATION = 0.1
# why no candidate was timed, by how a target is timed
_UNTIMED = {
    "events": "no candidate was timed, since the workers have no GPU",
    "none": "no candidate was timed, since the emulator's times say nothing of a GPU",
}
# why another schedule that worked does not replace the kernel's own
_UNMEASURED = "keeps its schedule, which the time was too short to measure"
# what the table says of rows with 0 in a call
_UNUSED = (
    "0 in a call: kernels of other forms of convolutions; a form replaces the rule's where "
    f"all of its kernels are timed and {LEAST_GAIN - 1:.0%} faster together"
)
# the default of ``trials`` where no timeout is given
TRIALS = 64


@dataclass(frozen=True)
class Work:
    """A computation to tune, and the ``parts`` of the network that it stands for.

    ``key`` is the key of these parts. ``cold`` and ``team`` are arguments of
    :func:`schedlang.autotune`. A computation of another form of a convolution than the network has
    is not ``used``, and called ``"... as F(2x2, 3x3)"`` or ``"... as direct"``.
    """

    name: str
    outputs: tuple[Tensor, ...]
    parts: tuple[str, ...]
    key: str = ""
    cold: tuple[str, ...] = ()
    team: bool = False
    used: bool = True


@dataclass(frozen=True)
class Tuned:
    """The result of the search for one computation.

    ``seconds`` is the time of the best schedule, ``None`` if nothing was timed or no candidate
    worked; ``why`` then says so, and also for a search that an error ended. ``trials`` counts the
    candidates of this search. ``kept`` is true if the schedule that the kernel had is the fastest.
    ``interrupted`` is true after Ctrl-C. ``waited`` are the seconds until the first candidate had
    been measured.
    """

    work: Work
    seconds: float | None
    trials: int
    gflops: float | None = None
    why: str = ""
    interrupted: bool = False
    kept: bool = False
    waited: float = 0.0

    @property
    def note(self) -> str:
        """The text of the table about this search."""
        return "; ".join(filter(None, ("keeps its schedule" if self.kept else "", self.why)))


@dataclass(frozen=True)
class NetworkTuning:
    """The result of tuning a network: each search, and the seconds that all took.

    ``ended`` says why they ended early, ``note`` which forms of convolutions were not searched and
    why. ``complete`` is true if the kernel of each part was searched, which :meth:`within` finds.
    ``print`` shows a table, the part with the longest time in a call first.
    """

    name: str
    searches: tuple[Tuned, ...]
    spent: float
    ended: str = ""
    complete: bool = False
    note: str = ""

    def within(self, partition: Partition) -> NetworkTuning:
        """Return this result for a network with these parts, which may have other forms."""
        names: dict[str, list[str]] = {}
        for part in partition.parts:
            names.setdefault(part.key, []).append(part.name)
        searches = [
            replace(t, work=replace(t.work, parts=tuple(names.get(t.work.key, ()))))
            for t in self.searches
        ]
        complete = names.keys() <= {t.work.key for t in searches}
        return replace(self, searches=tuple(searches), complete=complete)

    @property
    def seconds(self) -> float | None:
        """The sum over all parts of their kernels' seconds; ``None`` if one was not timed."""
        total = 0.0
        for tuned in self.searches:
            if tuned.work.parts and tuned.seconds is None:
                return None
            total += (tuned.seconds or 0.0) * len(tuned.work.parts)
        return total if self.complete else None

    def __str__(self) -> str:
        def whole(tuned: Tuned) -> float:
            return (tuned.seconds or 0.0) * len(tuned.work.parts)

        total = self.seconds
        sum_text = "" if total is None else f"; the kernels of a call take {duration(total)}"
        count = len(self.searches)
        head = (
            f"{printable(self.name)}: {count} search{'es' * (count != 1)} in "
            f"{duration(self.spent)}{sum_text}"
        )
        rows: list[tuple[tuple[str, ...], str]] = [
            (("in a call", "time", "GFLOP/s", "trials"), "kernel")
        ]
        for t in sorted(self.searches, key=whole, reverse=True):
            time = "" if t.seconds is None else duration(t.seconds)
            rate = "" if t.gflops is None else number(t.gflops, 2)
            named = printable(f"{t.work.name}: {t.note}" if t.note else t.work.name)
            rows.append(((str(len(t.work.parts)), time, rate, str(t.trials)), named))
        table = align_columns(rows) if self.searches else []
        unused = _UNUSED if any(not t.work.parts for t in self.searches) else ""
        return "\n".join([head, *table, *filter(None, (unused, self.ended, printable(self.note)))])

    __repr__ = __str__


def works_of(partition: Partition, forms: Forms | None, target: Target) -> list[Work]:
    """Return the computations to tune, of the parts and of their other forms."""
    works: dict[str, Work] = {}

    def add(parts: Partition, name_of: Callable[[Part], str], used: bool) -> None:
        among = surroundings(parts.parts, target)
        for same in equal_parts(parts.parts):
            first, names = same[0], tuple(part.name for part in same)
            work = Work(
                name_of(first),
                first.group.outputs,
                names,
                first.key,
                among.cold(first),
                among.team,
                used,
            )
            works.setdefault(first.key, work)

    add(partition, lambda part: part.name, True)
    if forms is not None:
        for divided in forms.divided.values():
            add(divided.partition, partial(forms.named, divided=divided), False)
    return list(works.values())


def tune(
    name: str,
    works: Sequence[Work],
    target: Target,
    trials: int | None,
    timeout: float | None,
    database: Database | str | os.PathLike[str] | None,
    executor: Executor | None,
    progress: Setting,
    resume: bool,
    search: Any,
    seed: int,
    limits: Limits | None,
    sizes: Mapping[Any, int] | None = None,
    others: Callable[[Sequence[Tuned]], Sequence[Work]] | None = None,
    present: Callable[[str], Schedule | None] = lambda key: None,
    began: float | None = None,
    compiler: str = "",
) -> NetworkTuning:
    """Search for a schedule of each of ``works``.

    Works without a trial in the database come first. Among these, and then among the others, works
    that the network uses come before works of other forms, and then the works with the most work in
    a call.

    ``others`` is called with these searches, and returns works; the new ones among them are
    searched, too. ``present`` returns the schedule that the kernel of a key has, which is a
    candidate; ``None`` if there is only the cost model's. Each search gets its part of ``timeout``,
    by its part of the work that is left. A search that ends early leaves its time to the next ones.
    One in which no candidate has worked by then takes more, up to ``timeout`` at most.
    None begins if less time (up to five seconds) is left than the first candidate of another one
    has taken. ``began`` is when the time started, by
    ``time.monotonic``; now by default. ``compiler`` is one of the target's, empty for the default
    one. Ctrl-C ends the search that runs and all others; what was measured is in the database.
    Raises :class:`~schedlang.errors.TuningError` for options that no search takes, and for a GPU
    that is not on this machine, unless the workers of ``executor`` measure;
    :class:`~schedlang.errors.MissingExtraError` if that needs numba-cuda.
    """
    trials = None if trials is None else checked_count("trials", trials, 1, "tune")
    timeout = checked_seconds("timeout", timeout, "tune")
    outputs = [t for work in works for t in work.outputs]
    values = checked_sizes("tune", outputs, sizes, every=True, name=name)
    # a search that fails leaves the others, but what fails each one is the caller's mistake
    strategy(search, checked_count("seed", seed, 0, "tune"), "tune")
    checked_limits(limits, "tune")
    check_objects(executor, None, None, "tune")
    # each search would fail for a target that no job has
    target_data(target)
    if executor is None:
        _check_timed(name, target)
    trials_so_far = Database.open(database)
    trials_so_far.check_writable()
    started = monotonic() if began is None else began
    end = None if timeout is None else started + timeout
    most = TRIALS if trials is None and timeout is None else trials
    searches: list[Tuned] = []

    def searched(these: Sequence[Work], spare: float) -> str:
        """Search for each of these works, and return why that ended early, if it did."""
        weights = {work.key: len(work.parts) * _weight(work.outputs, values) for work in these}
        tried = {work.key: _tried(work, target, values, trials_so_far) for work in these}
        order = sorted(these, key=lambda w: (tried[w.key], not w.used, -weights[w.key]))
        for k, work in enumerate(order):
            left = None if end is None else end - monotonic()
            waits = [tuned.waited for tuned in searches if tuned.waited]
            needed = min([*waits, LEAST_SECONDS]) if waits else 0.0
            if left is not None and left <= needed:
                return f"the time was over before {_listed(order[k:])}"
            share = None
            if left is not None:
                rest = sum(weights[w.key] for w in order[k:]) * (1 + spare) or 1.0
                share = min(left, max(LEAST_SECONDS, left * weights[work.key] / rest))
                # too little for another search
                share = left if left - share < needed else share
            shown.search(len(searches) + 1, work.name, len(work.parts))
            try:
                searches.append(
                    _one(
                        work,
                        target,
                        most,
                        share,
                        None if left is None or share is None else max(0.0, left - share),
                        database,
                        executor,
                        shown,
                        resume,
                        search,
                        seed,
                        limits,
                        values,
                        present,
                        compiler,
                    )
                )
            except KeyboardInterrupt:
                return f"interrupted before {_listed(order[k:])}"
            if searches[-1].interrupted:
                left_out = _listed(order[k + 1 :])
                return f"interrupted before {left_out}" if left_out else "interrupted"
        return ""

    with progress_for(progress, len(works), end) as shown:
        ended = searched(works, 0.0 if others is None else SPARE)
        if others is not None and not ended:
            known = {work.key for work in works}
            more = [work for work in others(tuple(searches)) if work.key not in known]
            ended = searched(more, 0.0)
    return NetworkTuning(name, tuple(searches), monotonic() - started, ended)


def _check_timed(name: str, target: Target) -> None:
    """Raise for a target whose kernels this machine cannot time for want of a GPU."""
    if not target.facts.needs_driver:
        return
    # without numba-cuda nobody knows whether there is a GPU
    driver()
    if machine_for(target) == NO_GPU:
        raise TuningError(
            explain(
                f'tune of network {name} for target="cuda"',
                "it times candidates on an NVIDIA GPU, and none is available on this machine",
                "Tune on a machine with a GPU, or on workers that have one (executor=), and give "
                "the database of that search to sl.network(..., database=).\n"
                "Without a search the network runs by the schedules of the cost model, and by "
                "those that come with schedlang.",
            )
        )


def _one(
    work: Work,
    target: Target,
    trials: int | None,
    timeout: float | None,
    overtime: float | None,
    database: Any,
    executor: Executor | None,
    shown: Progress,
    resume: bool,
    search: Any,
    seed: int,
    limits: Limits | None,
    values: Mapping[str, int],
    present: Callable[[str], Schedule | None],
    compiler: str,
) -> Tuned:
    """Return what the search of one computation found; the others go on if it finds nothing."""
    seen: list[Trial] = []
    began, waited = monotonic(), 0.0
    own = {v.name: values[v.name] for v in variables(work.outputs) if v.is_size}

    def each(trial: Trial) -> None:
        nonlocal waited
        seen.append(trial)
        if not (waited or trial.resumed):
            waited = monotonic() - began
        shown.trial(work.name, trial)

    try:
        start = present(work.key)
        result = autotune(
            list(work.outputs),
            target,
            trials=trials,
            timeout=timeout,
            overtime=overtime,
            search=search,
            seed=seed,
            database=database,
            resume=resume,
            executor=executor,
            progress=each,
            limits=limits,
            sizes=own or None,
            cold=work.cold,
            team=work.team,
            start=start,
            compiler=compiler,
        )
    except TuningError as error:
        # the row of the table names the kernel, and the error its last stage
        why = first_line(error).removeprefix(f"autotune({work.outputs[0].name}): ")
        return Tuned(work, None, len(seen), why=why, waited=waited or monotonic() - began)
    seconds = result.seconds
    facts = result.facts
    why, interrupted = facts.ended if facts.broken else "", facts.ended == "interrupted"
    if not seconds:
        # for a GPU that is not there, candidates are only compiled and checked
        why = why or _UNTIMED.get(target.facts.timing, "")
        return Tuned(work, None, len(seen), None, why, interrupted)
    key = "" if start is None else nest_key(lower_state(start.state))
    if start is not None and all(trial.source != key for trial in result.trials):
        return Tuned(work, None, len(seen), None, why or _UNMEASURED, interrupted)
    operations = flops(work.outputs, _extents(work.outputs, own))
    gflops = None if uncounted(work.outputs) else operations / seconds / 1e9
    kept = start is not None and result.best.source == key
    return Tuned(work, seconds, len(seen), gflops, why, interrupted, kept, waited)


def _tried(work: Work, target: Target, values: Mapping[str, int], database: Database) -> bool:
    """Return whether a database has a trial of a computation, of any machine."""
    sizes = {v.name: values[v.name] for v in variables(work.outputs) if v.is_size}
    where = Where.here(work.outputs, target, sizes, "any", (("schedlang", __version__),))
    return database.has_trials(where, work.outputs)


def _weight(outputs: Sequence[Tensor], values: Mapping[str, int]) -> float:
    """Return the work of a computation at these sizes: its operations, and the bytes it moves."""
    known = _extents(outputs, values)
    moved = sum(_bytes(t, known) for t in (*placeholders(outputs), *outputs))
    return float(flops(outputs, known)) + moved / BYTES_PER_OPERATION


def _extents(outputs: Sequence[Tensor], values: Mapping[str, int]) -> dict[Var, int]:
    return {v: values[v.name] for v in variables(outputs) if v.is_size}


def _bytes(tensor: Tensor, sizes: Mapping[Var, int]) -> int:
    return itemsize(tensor.dtype) * prod(
        int(evaluate(n, sizes)) if isinstance(n, Expr) else n for n in tensor.shape
    )


def unsearched(forms: Forms | None, settled: Mapping[str, int], recipe: Recipe) -> str:
    """Return which convolutions keep their forms and why; empty if there are none, or ``forms``.

    ``settled`` has those that several forms may compute.

    >>> unsearched(None, {"conv": 4}, Recipe("network", (), {}, ("conv",), (), 0))
    "forms of 'conv' stay: cut= and fuse= name stages of the rule's"
    """
    if forms is not None or not settled:
        return ""
    why = (
        "cut= and fuse= name stages of the rule's"
        if recipe.cut or recipe.fuse
        else "the module is made, and its weights are packed for them; tune a new network before "
        "its first call to search others"
    )
    return f"forms of {names_text(settled, most=3)} stay: {why}"


def _listed(works: Sequence[Work]) -> str:
    return names_text((work.name for work in works), most=3)
