"""``best`` and ``apply_best``: the fastest schedule of a computation in the tuning databases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from typing import Any

from schedlang.autotune.database import Database, nearest_first
from schedlang.autotune.record import UNTUNED, Where
from schedlang.autotune.records.distance import kind
from schedlang.autotune.records.entry import Entry
from schedlang.autotune.records.replay import replay
from schedlang.autotune.records.warn import warn
from schedlang.autotune.sizes import checked_sizes, size_values
from schedlang.autotune.text import one_line
from schedlang.callable_module import make_callable
from schedlang.compute.graph import variables
from schedlang.compute.tensor import Tensor
from schedlang.errors import SchedlangError, TuningError
from schedlang.runtime.evaluate import duration
from schedlang.runtime.tuning_files import packaged_files
from schedlang.schedule.schedule import Schedule, empty_schedule
from schedlang.schedule.starting_steps import STARTER
from schedlang.signatures import public
from schedlang.target import Target, TargetLike

# the most schedules of other extents that are replayed and lowered in search of one that fits
_MOST_REPLAYED = 8


@dataclass(frozen=True)
class Best:
    """A schedule from a database.

    * ``seconds``: its time at ``entry.where``.
    * ``exact``: sizes, target, machine and versions are those asked for.
    * ``note``: one sentence that says what differs, empty if ``exact``.
    """

    schedule: Schedule = field(repr=False)
    seconds: float
    entry: Entry = field(repr=False)
    exact: bool
    note: str

    def __str__(self) -> str:
        entry = self.entry
        name = one_line(entry.name) if self.exact else f"the nearest, {one_line(entry.name)}"
        lines = [
            f"{name}: {duration(self.seconds)} on {one_line(entry.where.machine)} "
            f"(line {entry.line} of {entry.path})",
            self.note,
            "its schedule is .schedule; print(best.schedule.as_python()) shows it as code",
        ]
        return "\n  ".join(filter(None, lines))


def packaged(op: str = "") -> list[Database]:
    """Return the databases that come with schedlang, of the computation ``op`` alone if given."""
    return [Database(path, op) for path in packaged_files()]


@public
def best(
    C: Any,
    target: TargetLike | None = None,
    database: Database | str | Path | None = None,
    sizes: Mapping[Any, int] | None = None,
    compiler: str = "",
) -> Best:
    """Return the fastest known schedule of ``C``, a tensor or a list of them.

    Nothing is measured. Equal computations share their schedules: names may differ, dtypes may not.
    ``sizes`` gives values for symbolic sizes, by name or by ``sl.var``. Without a ``database``, the
    one in the cache folder and the ones that come with schedlang are searched.

    If these sizes, this target, this machine, these versions or this ``compiler`` of the target
    were not measured, the nearest schedule is returned, and a
    :class:`~schedlang.errors.DatabaseWarning` says how it differs. The sizes count most, then the
    target, the machine, the compiler and the versions. Among equally near schedules,
    larger sizes come first, then shorter times. A time from before a race is too short, since it is
    the least of many noisy times; so it is multiplied by the factor by which the race slowed its
    winner. A schedule that a search kept, as the gain of another one may be noise, comes before
    that one here, too. The untuned schedule is returned only for the sizes that it was measured at.

    Raise :class:`~schedlang.errors.TuningError` if nothing fits, and
    :class:`~schedlang.errors.BuildError` for an unknown target or a compiler that it lacks.

    >>> import tempfile, schedlang as sl
    >>> from schedlang.autotune.record import Trial
    >>> A = sl.placeholder((8,), name="A")
    >>> B = sl.compute((8,), lambda i: A[i] + 1, name="B")
    >>> s = sl.schedule(B)
    >>> s[B].vectorize(B.op.axis[0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     database = Database(f"{folder}/tuning.jsonl")
    ...     trial = Trial(0, "ok", s.to_json(), seconds=2e-6)
    ...     database.add(Where.here([B], sl.Target(), {}), "B", trial, [B])
    ...     found = best(B, database=database)
    >>> found.exact, found.seconds, found.schedule.steps[0].primitive
    (True, 2e-06, 'vectorize')
    """
    outputs = empty_schedule(C, "best").outputs
    device, sources = Target.of(target), _sources(database)
    given = checked_sizes("best", outputs, sizes)
    where = Where.here(outputs, device, given, compiler=compiler)
    entry = _find(outputs, where, sources)
    if entry is None:
        raise TuningError(_nothing(outputs, where, sources, database is not None))
    return entry


@dataclass
class Applied:
    """The record of an :func:`apply_best` context.

    ``used`` lists the schedules that were applied, in order. ``missing`` lists the outputs for
    which no schedule was known.
    """

    used: list[Best] = field(default_factory=list)
    missing: list[tuple[Tensor, ...]] = field(default_factory=list)


@public
@contextmanager
def apply_best(
    database: Database | str | Path | None = None,
    target: TargetLike | None = None,
    sizes: Mapping[Any, int] | None = None,
    compiler: str = "",
) -> Iterator[Applied]:
    """Start every ``sl.schedule(C)`` inside from the steps of ``sl.best(C)``, if there are any.

    Yield an :class:`Applied`, which lists the schedules found. The default target is the CPU of
    this machine. ``sizes`` may name sizes that a computation does not have; ``compiler`` is the one
    of :func:`best`. Other threads and tasks
    are not affected. In nested contexts, the innermost counts. If the file of ``database`` does not
    exist, a :class:`~schedlang.errors.DatabaseWarning` says so, and no schedule is known.

    >>> import tempfile, schedlang as sl
    >>> B = sl.compute((8,), lambda i: i + 1, name="B")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Path(f"{folder}/tuning.jsonl").touch()
    ...     with apply_best(f"{folder}/tuning.jsonl") as known:
    ...         s = sl.schedule(B)
    >>> s.steps, known.missing
    ((), [(Tensor(B: int64[8]),)])
    """
    device, sources = Target.of(target), _sources(database)
    device.facts.compiler_named(compiler)
    given = size_values("apply_best", sizes)
    if database is not None and not sources[0].exists():
        warn(
            f'apply_best(database="{sources[0].path}"): there is no such file, so no schedule is '
            f'known; sl.autotune(C, database="{sources[0].path}") creates it'
        )
    applied = Applied()

    def start(s: Schedule) -> Schedule | None:
        its = {v.name for v in variables(s.outputs)}
        values = {n: value for n, value in given.items() if n in its}
        where = Where.here(s.outputs, device, values, compiler=compiler)
        fastest = _find(s.outputs, where, sources)
        if fastest is None:
            applied.missing.append(s.outputs)
            return None
        applied.used.append(fastest)
        return fastest.schedule

    token = STARTER.set(start)
    try:
        yield applied
    finally:
        STARTER.reset(token)


def _sources(database: Database | str | Path | None) -> list[Database]:
    sources = [Database.open(database)]
    if database is None:
        sources += packaged()
    for source in sources:
        # read the file now, so that its problems are reported here
        source.entries()
    return sources


def find_recorded(
    outputs: Sequence[Tensor], where: Where, sources: Sequence[Database]
) -> Best | None:
    """Return the schedule that :func:`best` finds, without its warning; ``None`` if none fits."""
    return _find(outputs, where, sources, silent=True)


def _find(
    outputs: Sequence[Tensor], where: Where, sources: Sequence[Database], silent: bool = False
) -> Best | None:
    """Return the nearest entry that replays; the first source decides between equally near ones."""
    replayed = 0
    for _, source, entry in nearest_first(sources, [where], outputs):
        other_extents = entry.where.extents != where.extents
        other_size = other_extents or entry.where.sizes != where.sizes
        if other_size and entry.trial.strategy == UNTUNED:
            # another size may well gain from steps
            continue
        replayed += other_extents
        if replayed > _MOST_REPLAYED:
            break
        try:
            schedule = replay(entry, outputs)
        except SchedlangError as error:
            # steps for other extents need not fit: no problem of the file
            if not other_extents:
                source.skip(entry, str(error))
            continue
        note = _note(outputs, entry)
        if note and not silent:
            warn(note)
        return Best(schedule, entry.seconds or 0.0, entry, not note, note)
    return None


def _note(outputs: Sequence[Tensor], entry: Entry) -> str:
    """Return the sentence that says how ``entry`` differs from what was asked for."""
    if not entry.differs:
        return ""
    return (
        f"the schedule of {_names(outputs)} is the nearest known one, and was tuned "
        f"{'; '.join(entry.differs)} (line {entry.line} of {entry.path})"
    )


def _nothing(
    outputs: Sequence[Tensor], where: Where, sources: Sequence[Database], given: bool
) -> str:
    """Return why no schedule is known; ``given``: the user named the database."""
    same = [e for source in sources for e in source.entries() if e.where.op == where.op]
    wanted, name = kind(where.target), _names(outputs)
    others = sorted({one_line(kind(e.where.target)) for e in same} - {wanted})
    here = [e for e in same if kind(e.where.target) == wanted]
    call, command = _tuning(outputs, where, sources[0].path if given else None)
    how = f"{call} finds one and stores it there. From a shell:\n    {command}"
    if given and not sources[0].exists():
        why = "there is no such file"
    elif any(e.trial.outcome == "ok" and e.seconds is None for e in here):
        why = "it was tuned where nothing could be timed"
        how = (
            "Search on a machine with such a GPU. The schedule that the estimate ranks first is "
            "result.schedule of that search; result.schedule.to_json() stores it."
        )
    elif here:
        why = "every candidate failed, or the steps cannot be replayed"
    elif others:
        why = f"it was tuned only for {', '.join(others)}"
    else:
        why = "it was not tuned"
    files = ", ".join(str(source.path) for source in sources)
    return f"no schedule of {name} for {wanted} is known in {files}: {why}.\n  {how}"


def _tuning(outputs: Sequence[Tensor], where: Where, path: Path | None) -> tuple[str, str]:
    """Return how to tune: the call, and the shell command for the user's script."""
    target, known = kind(where.target), dict(where.sizes)
    sizes = {v.name: str(known.get(v.name, "...")) for v in variables(outputs) if v.is_size}
    call = outputs[0].name if len(outputs) == 1 else f"[{_names(outputs)}]"
    options = [f'target="{target}"']
    command = [f"script.py:{outputs[0].name}", "--target", target]
    if sizes:
        options.append(f"sizes={{{', '.join(f'{name!r}: {n}' for name, n in sizes.items())}}}")
        command += [part for name, n in sizes.items() for part in ("--size", f"{name}={n}")]
    if path is not None:
        options.append(f"database={str(path)!r}")
        command += ["--database", str(path)]
    shell = " ".join(["python -m schedlang tune", *map(quote, command)])
    return f"sl.autotune({call}, {', '.join(options)})", shell


def _names(outputs: Sequence[Tensor]) -> str:
    return ", ".join(t.name for t in outputs)


__all__ = ["Applied", "Best", "apply_best", "best", "packaged"]

make_callable(__name__, best)
