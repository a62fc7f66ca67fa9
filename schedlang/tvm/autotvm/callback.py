"""Callbacks that a tuner calls after each trial: the log file, and a line of progress."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from schedlang.errors import TuningError
from schedlang.signatures import public
from schedlang.tvm.autotvm.measure import MeasureInput, MeasureResult


class LogToFile:
    """The log file of a search: its database, to which each trial is written as it ends."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __call__(
        self, tuner: Any, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]
    ) -> None:
        """Do nothing: the search writes its trials itself."""


class ProgressBar:
    """A line that says how far a search is."""


@public
def log_to_file(file_out: Any, protocol: str = "json") -> LogToFile:
    """Return the callback that writes the trials of a search to a file.

    The file is a tuning database (``sl.autotune.Database``): data, checked when it is read, and
    never executed. ``sl.best`` and ``sl.apply_best`` read it, too. Raise
    :class:`~schedlang.errors.TuningError` unless it is a path, and for another protocol.
    """
    if not isinstance(file_out, (str, os.PathLike)):
        raise TuningError(
            f"autotvm.callback.log_to_file({file_out!r}): give the path of a file; several "
            "searches may write to one"
        )
    if protocol != "json":
        raise TuningError(
            f"autotvm.callback.log_to_file(protocol={protocol!r}): a log is lines of JSON, which "
            'no one can execute; leave protocol out, or give "json"'
        )
    return LogToFile(Path(file_out))


@public
def progress_bar(total: int, prefix: str = "", si_prefix: str = "G") -> ProgressBar:
    """Return the callback that shows a line of progress, the one of ``sl.autotune(progress=True)``.

    The search knows its ``total``; ``prefix`` has no effect.
    """
    return ProgressBar()


__all__ = ["log_to_file", "progress_bar"]
