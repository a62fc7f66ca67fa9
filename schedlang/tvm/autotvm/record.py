"""The records of a log file, which is a tuning database."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from schedlang.autotune.database import Database, Entry
from schedlang.autotune.records.entry import to_line
from schedlang.autotune.records.lines import append
from schedlang.errors import TuningError
from schedlang.signatures import public
from schedlang.tvm.autotvm.config import ConfigEntity
from schedlang.tvm.autotvm.measure import MeasureInput, MeasureResult

PREFIX = "autotvm."


@dataclass(frozen=True)
class RecordedTask:
    """The task of a record: the name of its template and its arguments, as text."""

    workload: str

    @property
    def name(self) -> str:
        return self.workload.partition("(")[0]


@public
def load_from_file(
    filename: str | os.PathLike[str],
) -> Iterator[tuple[MeasureInput, MeasureResult]]:
    """Yield the records of templates in a log, each with its configuration and its result.

    Lines are checked and never executed; damaged ones are skipped with a warning. Raise
    :class:`~schedlang.errors.TuningError` if the file does not exist.
    """
    for entry in _entries(filename):
        task = RecordedTask(entry.trial.template.removeprefix(PREFIX))
        config = ConfigEntity(entry.trial.decisions)
        yield MeasureInput(entry.where.target, task, config), MeasureResult.of(entry.trial)


@public
def pick_best(in_file: str | os.PathLike[str], out_file: str | os.PathLike[str]) -> None:
    """Append the fastest record of each template, its arguments and its target to another log.

    Raise :class:`~schedlang.errors.TuningError` if a file cannot be read or written.
    """
    best: dict[tuple[str, ...], Entry] = {}
    for entry in _entries(in_file):
        where = entry.where
        key = (where.op, str(where.extents), where.target, where.machine, entry.trial.template)
        known = best.get(key)
        if entry.seconds is None:
            continue
        if known is None or entry.seconds < (known.seconds or 0.0):
            best[key] = entry
    for entry in best.values():
        append(Path(out_file), to_line(entry))


def _entries(filename: str | os.PathLike[str]) -> Iterator[Entry]:
    database = Database(filename)
    if not database.exists():
        raise TuningError(f"{database.path}: the file is absent; a search with "
                          "autotvm.callback.log_to_file writes one")  # fmt: skip
    return (entry for entry in database.entries() if entry.trial.template.startswith(PREFIX))


__all__ = ["load_from_file", "pick_best"]
