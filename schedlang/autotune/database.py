"""The tuning database: an append-only file of trials, one JSON object per line."""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Union

from schedlang.autotune.record import Trial, Where, tolerance_of
from schedlang.autotune.records.distance import comparable, differences, sort_entries
from schedlang.autotune.records.entry import LONGEST, Entry, from_line, to_line
from schedlang.autotune.records.lines import append, open_lines, places, read_lines
from schedlang.autotune.records.replay import decisions_for, sizes_in, steps_for
from schedlang.autotune.records.warn import warn
from schedlang.autotune.text import one_line
from schedlang.compute.rename import Names, names_of
from schedlang.compute.tensor import Tensor
from schedlang.errors import BuildError, SchedlangError, TuningError, first_line
from schedlang.runtime.tuning_files import own_file
from schedlang.signatures import public

# bytes before the read offset that are compared to tell whether the file was replaced
_TAIL = 1024
# what became of a line: its entry, its number and why it has none, or nothing if it is blank
_Parsed = Union[Entry, tuple[int, str], None]
# outcomes that depend on the limits, and so do not replace an earlier time
_LIMITED = ("build timed out", "run timed out", "out of memory")


class Database:
    """Trials in the file at ``path``, by default ``tuning.jsonl`` in the cache folder.

    Each line is written in full as its trial ends, so a killed process loses only the trial in
    flight, and several processes may write at once. Lines are checked when read, and never
    executed. Unusable lines are skipped, listed in ``problems``, and reported by one
    :class:`~schedlang.errors.DatabaseWarning`. A file that does not exist is empty.

    Methods that take ``outputs``, the tensors of a computation, return sizes and steps in the names
    of these tensors. Without ``outputs``, names are as recorded. With ``op``, the key of a
    computation (see :class:`~schedlang.autotune.record.Where`), the lines of all others are passed
    over without parsing them.

    Raise :class:`~schedlang.errors.TuningError` for a path that cannot be read.

    >>> import tempfile, schedlang as sl
    >>> A = sl.placeholder((8,), name="A")
    >>> B = sl.compute((8,), lambda i: A[i] + 1, name="B")
    >>> here = Where.here([B], sl.Target(), {})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     database = Database(f"{folder}/tuning.jsonl")
    ...     database.add(here, "B", Trial(0, "ok", sl.schedule(B).to_json(), seconds=2e-6), [B])
    ...     database.add(here, "B", Trial(1, "wrong answer", sl.schedule(B).to_json()), [B])
    ...     [trial.outcome for trial in database.trials(here)], database.best(here).seconds
    (['ok', 'wrong answer'], 2e-06)
    """

    @public
    def __init__(self, path: str | os.PathLike[str] | None = None, op: str = "") -> None:
        self.path = _path(path)
        self._op = op.encode()
        self._lock = threading.Lock()
        self._forget()
        # an unreadable file is an error now, not at the end of a search
        self.exists()

    @staticmethod
    def open(value: Database | str | os.PathLike[str] | None) -> Database:
        """Return ``value`` if it is a database, else the database in that file."""
        return value if isinstance(value, Database) else Database(value)

    def __reduce__(self) -> tuple[type[Database], tuple[Path, str]]:
        return Database, (self.path, self._op.decode())

    def __repr__(self) -> str:
        return f"Database({str(self.path)!r})"

    def check_writable(self) -> None:
        """Create the file; raise :class:`~schedlang.errors.TuningError` if it is not writable."""
        with open_lines(self.path, write=True):
            pass

    def add(self, where: Where, name: str, trial: Trial, outputs: Sequence[Tensor] = ()) -> None:
        """Append one trial of the kernel ``name`` to the file.

        With ``outputs``, an equal computation whose tensors have other names finds it too. Raise
        :class:`~schedlang.errors.TuningError` if it cannot be written.
        """
        names = names_of(outputs) if outputs else Names()
        try:
            line = to_line(Entry(where, name, trial, names=names))
        except ValueError as error:
            raise TuningError(
                f"trial {trial.number} of {name} cannot be written to the tuning database "
                f"{self.path}: {error}"
            ) from None
        append(self.path, line)

    def entries(self) -> Iterator[Entry]:
        """Yield every entry, in the order of the file."""
        return iter(self._read())

    def trials(self, where: Where, outputs: Sequence[Tensor] = ()) -> list[Trial]:
        """Return the trials at ``where``, in the order of the file, to resume a search.

        Trials whose steps do not fit ``outputs`` are left out.
        """
        return list(self.each_trial(where, outputs))

    def each_trial(self, where: Where, outputs: Sequence[Tensor] = ()) -> Iterator[Trial]:
        """Yield the trials of :meth:`trials`, renaming the steps of each as it is asked for."""
        for entry in self._comparable(where, outputs):
            if not entry.differs and (named := self._in_names(entry, outputs)) is not None:
                yield named.trial

    def has_trials(self, where: Where, outputs: Sequence[Tensor] = ()) -> bool:
        """Return whether a trial was recorded for these sizes and this target, on any machine."""
        return any(
            (e.where.target, e.where.extents) == (where.target, where.extents)
            and dict(e.where.sizes) == dict(where.sizes)
            for e in self._comparable(where, outputs)
        )

    def ranked(self, where: Where, outputs: Sequence[Tensor] = ()) -> list[Entry]:
        """Return the timed entries of :meth:`by_distance`."""
        return [entry for _, entry in self.by_distance(where, outputs)]

    def by_distance(
        self, where: Where, outputs: Sequence[Tensor] = ()
    ) -> list[tuple[tuple[float, ...], Entry]]:
        """Return the timed entries of the same computation and kind of target, nearest first.

        Each has its distance. Sizes count most, then the details of the target, the machine and the
        versions. Equally near entries are ordered by size, the larger first, and then by time, the
        shorter first; a time from before a race is multiplied by the factor by which the race
        slowed its winner. A schedule that failed later in the file is left out, unless it failed by
        a smaller tolerance. Steps keep their recorded names.
        """
        entries = self._comparable(where, outputs)
        failed = defaultdict(list)
        for entry in entries:
            if entry.trial.outcome not in ("ok", *_LIMITED):
                failed[_schedule(entry)].append(entry)
        timed = [e for e in entries if e.seconds is not None]
        refuted = (any(_refutes(f, e) for f in failed[_schedule(e)]) for e in timed)
        return sort_entries(where, [e for e, wrong in zip(timed, refuted) if not wrong])

    def best(self, where: Where, outputs: Sequence[Tensor] = ()) -> Entry | None:
        """Return the fastest entry that was measured exactly at ``where``."""
        exact = (e for e in self.ranked(where, outputs) if not e.differs)
        return self._first(exact, outputs)

    def nearest(self, where: Where, outputs: Sequence[Tensor] = ()) -> Entry | None:
        """Return the first entry of :meth:`ranked`; its ``differs`` lists the differences."""
        return self._first(iter(self.ranked(where, outputs)), outputs)

    @property
    def problems(self) -> list[str]:
        """The lines that were skipped and why, each as ``"line 7: ..."``."""
        self._read()
        return [f"line {n}: {why}" for n, why in sorted({**self._problems, **self._torn}.items())]

    def skip(self, entry: Entry, error: str) -> None:
        """Add an entry whose steps do not fit to the problems, and warn of it."""
        why = f"its steps cannot be replayed: {one_line(first_line(error), 200)}"
        with self._lock:
            if entry.line in self._problems:
                return
            self._problems[entry.line] = why
            self._warned += 1
        warn(f"line {entry.line} of {self.path} is skipped: {why}")

    def _comparable(self, where: Where, outputs: Sequence[Tensor]) -> list[Entry]:
        """Return the entries to compare with ``where``, sizes in the names of ``outputs``."""
        entries = _last(e for e in self._read() if comparable(where, e.where))
        if outputs and any(e.where.sizes for e in entries):
            names = names_of(outputs)
            entries = [replace(e, where=sizes_in(names, e)) for e in entries]
        return [replace(e, differs=differences(where, e.where)) for e in entries]

    def _in_names(self, entry: Entry, outputs: Sequence[Tensor]) -> Entry | None:
        """Return ``entry`` in the names of ``outputs``; ``None`` if its steps do not fit."""
        if not outputs or entry.names in (Names(), names_of(outputs)):
            return entry
        try:
            steps = steps_for(entry, outputs)
        except SchedlangError as error:
            # a failed trial need not have valid steps, and the file is sound with them
            if entry.seconds is not None:
                self.skip(entry, str(error))
            return None
        # the recorded source is a hash of a nest with other names
        decisions = decisions_for(entry, outputs)
        trial = replace(entry.trial, steps=steps, source="", decisions=decisions)
        return replace(entry, trial=trial)

    def _first(self, entries: Iterator[Entry], outputs: Sequence[Tensor]) -> Entry | None:
        """Return the first entry whose steps fit ``outputs``."""
        fitting = (self._in_names(entry, outputs) for entry in entries)
        return next((entry for entry in fitting if entry is not None), None)

    def exists(self) -> bool:
        """Return whether the file exists."""
        try:
            with open_lines(self.path, write=False):
                return True
        except FileNotFoundError:
            return False

    def _forget(self) -> None:
        """Reset the state to the one before the file was read."""
        self._entries: list[Entry] = []
        self._last: list[Entry] = []
        self._problems: dict[int, str] = {}
        self._torn: dict[int, str] = {}
        self._warned = 0
        self._offset = self._lines = 0
        self._identity: tuple[int, ...] = ()
        self._tail = b""

    def _read(self) -> list[Entry]:
        """Read the lines that were appended since the last call, and return all entries."""
        with self._lock:
            try:
                with open_lines(self.path, write=False) as descriptor:
                    self._read_from(descriptor)
            except FileNotFoundError:
                self._forget()
            except OSError as error:
                raise TuningError(
                    f"the tuning database {self.path} cannot be read: {error.strerror}"
                ) from None
            skipped = {**self._problems, **self._torn}
            entries, news = [*self._entries, *self._last], len(skipped) > self._warned
            self._warned = len(skipped)
        if news:
            first = min(skipped)
            some = "1 line is" if len(skipped) == 1 else f"{len(skipped)} lines are"
            warn(f"{some} skipped in {self.path}; line {first}: {skipped[first]}")
        return entries

    def _read_from(self, descriptor: int) -> None:
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            status = os.fstat(descriptor)
            identity: tuple[int, ...] = (status.st_dev, status.st_ino)
            if self._op:
                self._read_computation((*identity, status.st_size, status.st_mtime_ns))
                return
            start = max(0, self._offset - _TAIL)
            file.seek(start)
            # false for a truncated file too, which has fewer bytes here
            same = file.read(self._offset - start) == self._tail
            if identity != self._identity or not same:
                self._forget()
                self._identity = identity
                file.seek(0)
            self._last, self._torn = [], {}
            for line in read_lines(file, LONGEST):
                if not line.ended:
                    # still being written, or torn by a kill: read it again the next time
                    self._take(line.text, self._last, self._torn)
                    break
                self._take(line.text, self._entries, self._problems)
                self._offset += line.length
                self._lines += 1
            start = max(0, self._offset - _TAIL)
            file.seek(start)
            self._tail = file.read(self._offset - start)

    def _read_computation(self, stamp: tuple[int, ...]) -> None:
        """Read the lines of the computation alone, unless the file is as it was."""
        if stamp == self._identity:
            return
        self._forget()
        self._identity = stamp
        for parsed in _computation(self.path, stamp, self._op):
            self._add(parsed, self._entries, self._problems)

    def _take(self, line: bytes | None, entries: list[Entry], problems: dict[int, str]) -> None:
        """Parse the next line into ``entries``, or add its error to ``problems``."""
        self._add(_parsed(line, self._lines + 1, self.path), entries, problems)

    def _add(self, parsed: _Parsed, entries: list[Entry], problems: dict[int, str]) -> None:
        if isinstance(parsed, Entry):
            entries.append(parsed)
        elif parsed is not None:
            number, why = parsed
            problems[number] = why


def _parsed(line: bytes | None, number: int, path: Path) -> _Parsed:
    """Return the entry of a line, or its number and why it has none; ``None`` of a blank line."""
    if line is None:
        return number, f"it is longer than {LONGEST} bytes"
    if not line.strip():
        return None
    try:
        entry = from_line(line)
    except (ValueError, RecursionError) as error:
        return number, str(error)
    return replace(entry, line=number, path=str(path))


@lru_cache(maxsize=256)
def _computation(path: Path, stamp: tuple[int, ...], op: bytes) -> list[_Parsed]:
    """Return the lines of a computation, parsed once for all kernels that compute it.

    ``stamp`` tells a file from what it was before.
    """
    by_key = places(path, stamp, LONGEST)
    of_op = (*by_key.get(b"", ()), *by_key.get(op, ()))
    if not of_op:
        return []
    parsed: list[_Parsed] = []
    with open(path, "rb") as file:
        for place in of_op:
            file.seek(place.start)
            line = file.read(place.length) if place.whole else None
            parsed.append(_parsed(line, place.number, path))
    return parsed


def _schedule(entry: Entry) -> tuple[Where, str | int]:
    """Return a key that is equal for entries of one schedule at one place."""
    return entry.where, entry.trial.source or entry.line


def _refutes(failure: Entry, entry: Entry) -> bool:
    """Return whether a failure of the same schedule rules out ``entry``, which worked.

    It must come later in the file. A wrong answer by a smaller tolerance does not rule it out.
    """
    if failure.line < max(entry.line, entry.again):
        return False
    if failure.trial.outcome != "wrong answer":
        return True
    failed, passed = (tolerance_of(e.trial.checked) for e in (failure, entry))
    return failed is None or passed is None or failed >= passed


def _last(entries: Iterable[Entry]) -> list[Entry]:
    """Return the last entry of each schedule.

    Entries of different templates, tolerances or inputs are kept apart. A trial that hit a limit or
    was disturbed does not replace an earlier time.
    """
    last: dict[tuple[Any, ...], Entry] = {}
    for entry in entries:
        trial = entry.trial
        key = (*_schedule(entry), trial.template, trial.checked)
        known = last.get(key)
        if known is None or known.trial.outcome != "ok" or not _no_news(trial, known.trial):
            last[key] = entry
        elif trial.outcome == "ok":
            # keep the earlier time, and note that the schedule was right again
            last[key] = replace(known, again=entry.line)
    return list(last.values())


def _no_news(trial: Trial, known: Trial) -> bool:
    """Return whether a trial gives no better information than the known one."""
    return trial.outcome in _LIMITED or (trial.disturbed and not known.disturbed)


def nearest_first(
    databases: Sequence[Database], places: Iterable[Where], outputs: Sequence[Tensor]
) -> Iterator[tuple[Where, Database, Entry]]:
    """Yield the timed entries of databases, each with the place that it is near to.

    The nearest comes first; of equally near ones, the first place and database count.
    """
    near = [
        (apart, rank, place, where, entry)
        for where in places
        for rank, database in enumerate(databases)
        for place, (apart, entry) in enumerate(database.by_distance(where, outputs))
    ]
    for _, rank, _, where, entry in sorted(near, key=lambda item: item[:3]):
        yield where, databases[rank], entry


def _path(path: Union[str, os.PathLike[str], None]) -> Path:
    if path is None:
        try:
            return own_file()
        except BuildError as error:
            raise TuningError(str(error)) from None
    if not isinstance(path, (str, os.PathLike)):
        raise TuningError(f"database={path!r}: give a path, a Database or None")
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise TuningError(f"database={path!r}: {error}") from None


__all__ = ["Database", "Entry"]
