"""The tuning database: a file of trials, one JSON object a line, that is only ever appended to."""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Union

from schedlang.autotune.record import Trial, Where, tolerance_of
from schedlang.autotune.records.entry import LONGEST, Entry, from_line, to_line
from schedlang.autotune.records.lines import append, opened, read_lines
from schedlang.autotune.records.nearness import comparable, differences, preferred
from schedlang.autotune.records.replay import decisions_for, sizes_in, steps_for
from schedlang.autotune.records.warn import warn
from schedlang.autotune.text import one_line
from schedlang.compute.rename import Names, names_of
from schedlang.compute.tensor import Tensor
from schedlang.errors import BuildError, SchedlangError, TuningError, first_line
from schedlang.runtime.files import cache_folder

# the end of what was read, to see whether what stands before it is still the same
_TAIL = 1024
# outcomes that say of a candidate that was measured before nothing but what it was given
_LIMITED = ("build timed out", "run timed out", "out of memory")


class Database:
    """Trials in the file at ``path``, by default ``tuning.jsonl`` in the cache folder.

    A line stands for itself, and is written whole before the next trial begins: a killed process
    loses the trial in flight, and several may write at once. What is read is checked and never
    executed; lines that cannot be used are skipped, listed in ``problems``, and one
    :class:`~schedlang.errors.DatabaseWarning` says so. A file that does not exist is empty.

    Where a method takes ``outputs``, the tensors of the computation that is asked about, names
    do not matter: sizes and steps are given in those of ``outputs``. Without them names are as
    they were recorded.

    Raises :class:`~schedlang.errors.TuningError` for a path that cannot be read.

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

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self.path = _path(path)
        self._lock = threading.Lock()
        self._forget()
        # what cannot be read is said at once, and not when a search is over
        self.exists()

    @staticmethod
    def open(value: Database | str | os.PathLike[str] | None) -> Database:
        """Return ``value`` if it is a database, else the one in that file."""
        return value if isinstance(value, Database) else Database(value)

    def __reduce__(self) -> tuple[type[Database], tuple[Path]]:
        return Database, (self.path,)

    def __repr__(self) -> str:
        return f"Database({str(self.path)!r})"

    def check_writable(self) -> None:
        """Make the file; raise :class:`~schedlang.errors.TuningError` if lines cannot be added."""
        with opened(self.path, write=True):
            pass

    def add(self, where: Where, name: str, trial: Trial, outputs: Sequence[Tensor] = ()) -> None:
        """Write one trial of the kernel ``name``, which is the next thing on the disk.

        With ``outputs`` it is found again for an equal computation whose tensors have other names.
        Raises :class:`~schedlang.errors.TuningError` if it cannot be written.
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
        """Return what was tried there, in the order of the file, for a search that goes on.

        A trial whose steps do not fit ``outputs`` is left out.
        """
        return list(self.each_trial(where, outputs))

    def each_trial(self, where: Where, outputs: Sequence[Tensor] = ()) -> Iterator[Trial]:
        """Yield the trials of :meth:`trials`, replaying steps under other names as they come."""
        for entry in self._asked(where, outputs):
            if not entry.differs and (named := self._in_names(entry, outputs)) is not None:
                yield named.trial

    def ranked(self, where: Where, outputs: Sequence[Tensor] = ()) -> list[Entry]:
        """Return what went well with the same computation on the same kind of target, nearest
        first.

        Least differences come first (versions, then the machine, the target's details, sizes), of
        other sizes the larger, then least seconds, where first times count for more than those of a
        race. What failed later in the file, under another template or other data too, is left out,
        but not for a wrong answer by a smaller tolerance. Steps stay in the names that they were
        recorded with.
        """
        asked = self._asked(where, outputs)
        failed = defaultdict(list)
        for entry in asked:
            if entry.trial.outcome not in ("ok", *_LIMITED):
                failed[_schedule(entry)].append(entry)
        found = [e for e in asked if e.seconds is not None]
        refuted = (any(_refutes(f, e) for f in failed[_schedule(e)]) for e in found)
        return preferred(where, [e for e, wrong in zip(found, refuted) if not wrong])

    def best(self, where: Where, outputs: Sequence[Tensor] = ()) -> Entry | None:
        """Return the fastest that holds exactly there."""
        exact = (e for e in self.ranked(where, outputs) if not e.differs)
        return self._first(exact, outputs)

    def nearest(self, where: Where, outputs: Sequence[Tensor] = ()) -> Entry | None:
        """Return the first of :meth:`ranked`; its ``differs`` says what is not the same."""
        return self._first(iter(self.ranked(where, outputs)), outputs)

    @property
    def problems(self) -> list[str]:
        """Return what was skipped and why, as ``"line 7: ..."``."""
        self._read()
        return [f"line {n}: {why}" for n, why in sorted({**self._problems, **self._torn}.items())]

    def skip(self, entry: Entry, error: str) -> None:
        """List an entry of this database among its problems, since its steps do not fit."""
        why = f"its steps cannot be replayed: {one_line(first_line(error), 200)}"
        with self._lock:
            if entry.line in self._problems:
                return
            self._problems[entry.line] = why
            self._warned += 1
        warn(f"line {entry.line} of {self.path} is skipped: {why}")

    def _asked(self, where: Where, outputs: Sequence[Tensor]) -> list[Entry]:
        """Return the entries to compare with ``where``, sizes in the names of ``outputs``."""
        found = _last(e for e in self._read() if comparable(where, e.where))
        if outputs and found:
            names = names_of(outputs)
            found = [replace(e, where=sizes_in(names, e)) for e in found]
        return [replace(e, differs=differences(where, e.where)) for e in found]

    def _in_names(self, entry: Entry, outputs: Sequence[Tensor]) -> Entry | None:
        """Return ``entry`` in the names of ``outputs``; ``None`` if its steps do not fit."""
        if not outputs or entry.names in (Names(), names_of(outputs)):
            return entry
        try:
            steps = steps_for(entry, outputs)
        except SchedlangError as error:
            # the steps of a failure may be no schedule at all
            if entry.seconds is not None:
                self.skip(entry, str(error))
            return None
        # the hash of the nest is that of other names
        decisions = decisions_for(entry, outputs)
        trial = replace(entry.trial, steps=steps, source="", decisions=decisions)
        return replace(entry, trial=trial)

    def _first(self, entries: Iterator[Entry], outputs: Sequence[Tensor]) -> Entry | None:
        fitting = (self._in_names(entry, outputs) for entry in entries)
        return next((entry for entry in fitting if entry is not None), None)

    def exists(self) -> bool:
        """Return whether there is a file yet."""
        try:
            with opened(self.path, write=False):
                return True
        except FileNotFoundError:
            return False

    def _forget(self) -> None:
        """Reset the state to that of a file of which nothing has been read."""
        self._entries: list[Entry] = []
        self._last: list[Entry] = []
        self._problems: dict[int, str] = {}
        self._torn: dict[int, str] = {}
        self._warned = 0
        self._offset = self._lines = 0
        self._identity = (0, 0)
        self._tail = b""

    def _read(self) -> list[Entry]:
        """Return all entries, after reading what was appended since the last time."""
        with self._lock:
            try:
                with opened(self.path, write=False) as descriptor:
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
            identity = (status.st_dev, status.st_ino)
            start = max(0, self._offset - _TAIL)
            file.seek(start)
            # of a file that was cut there is less to read
            same = file.read(self._offset - start) == self._tail
            if identity != self._identity or not same:
                self._forget()
                self._identity = identity
                file.seek(0)
            self._last, self._torn = [], {}
            for line in read_lines(file, LONGEST):
                if not line.ended:
                    # a writer may have been killed here: it is looked at again the next time
                    self._take(line.text, self._last, self._torn)
                    break
                self._take(line.text, self._entries, self._problems)
                self._offset += line.length
                self._lines += 1
            start = max(0, self._offset - _TAIL)
            file.seek(start)
            self._tail = file.read(self._offset - start)

    def _take(self, line: bytes | None, entries: list[Entry], problems: dict[int, str]) -> None:
        """Add the next line's entry to ``entries``, or what is wrong with it to ``problems``."""
        number = self._lines + 1
        if line is None:
            problems[number] = f"it is longer than {LONGEST} bytes"
        elif line.strip():
            try:
                entry = from_line(line)
            except (ValueError, RecursionError) as error:
                problems[number] = str(error)
            else:
                entries.append(replace(entry, line=number, path=str(self.path)))


def _schedule(entry: Entry) -> tuple[Where, str | int]:
    """Return a schedule in its place, whoever made it."""
    return entry.where, entry.trial.source or entry.line


def _refutes(failure: Entry, entry: Entry) -> bool:
    """Return whether a failure of the schedule of ``entry`` says that it is no good, either."""
    if failure.line < max(entry.line, entry.again):
        return False
    if failure.trial.outcome != "wrong answer":
        return True
    asked, held = (tolerance_of(e.trial.checked) for e in (failure, entry))
    return asked is None or held is None or asked >= held


def _last(entries: Iterable[Entry]) -> list[Entry]:
    """Return one entry for each schedule: the last time that it was measured.

    Entries of different templates, or checked differently, are kept apart. A trial that hit a limit
    or was disturbed does not replace an earlier time.
    """
    last: dict[tuple[Any, ...], Entry] = {}
    for entry in entries:
        trial = entry.trial
        key = (*_schedule(entry), trial.template, trial.checked)
        known = last.get(key)
        if known is None or known.trial.outcome != "ok" or not _no_news(trial, known.trial):
            last[key] = entry
        elif trial.outcome == "ok":
            # it is right again, if not as fast
            last[key] = replace(known, again=entry.line)
    return list(last.values())


def _no_news(trial: Trial, known: Trial) -> bool:
    """Return whether a trial says nothing of a schedule that was measured before."""
    return trial.outcome in _LIMITED or (trial.disturbed and not known.disturbed)


def _path(path: Union[str, os.PathLike[str], None]) -> Path:
    if path is None:
        try:
            return cache_folder() / "tuning.jsonl"
        except BuildError as error:
            raise TuningError(str(error)) from None
    if not isinstance(path, (str, os.PathLike)):
        raise TuningError(f"database={path!r}: give a path, a Database or None")
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise TuningError(f"database={path!r}: {error}") from None


__all__ = ["Database", "Entry"]
