"""The fastest recorded configuration of a template, for its calls outside of a search."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from schedlang.autotune.database import Database, nearest_first
from schedlang.autotune.record import Where
from schedlang.autotune.records.estimates import least_estimate
from schedlang.autotune.records.warn import warn
from schedlang.errors import TuningError
from schedlang.signatures import public
from schedlang.target import Target, or_emulator
from schedlang.tvm.autotvm.config import ConfigEntity
from schedlang.tvm.autotvm.task import (
    DISPATCH,
    Query,
    Task,
    create,
    recorded_name,
    workload_text,
)


class ApplyHistoryBest:
    """The best configurations of logs, for the calls of templates in a ``with`` block.

    ``records`` is the path of a log, or a list of paths. Logs are tuning databases: they are
    checked, and never executed. Raise :class:`~schedlang.errors.TuningError` for a log that does
    not exist.
    """

    @public
    def __init__(self, records: Any) -> None:
        self._databases: list[Database] = []
        self._chosen: dict[tuple[str, Any], ConfigEntity] = {}
        self._around: list[tuple[Query | None, Any]] = []
        self.load(records)

    @public
    def load(self, records: Any) -> None:
        """Add the log at a path, or several."""
        if records is None:
            return
        if not isinstance(records, (str, os.PathLike)):
            if not isinstance(records, Sequence):
                raise TuningError(
                    f"autotvm.apply_history_best({records!r}): give the path of a log, or a list"
                )
            for path in records:
                self.load(path)
            return
        database = Database(records)
        if not database.exists():
            raise TuningError(
                f"autotvm.apply_history_best({str(records)!r}): the file is absent; a search "
                "with autotvm.callback.log_to_file writes one"
            )
        self._databases.append(database)

    @public
    def query(self, target: Any, workload: Sequence[Any]) -> ConfigEntity | None:
        """Return the fastest configuration of a workload, the name of a template and arguments.

        Return ``None`` if the logs do not have it for this kind of target. If it was measured on
        another machine, or with other versions, a :class:`~schedlang.errors.DatabaseWarning` says
        so, or that it has the least estimate, if none was timed.
        """
        where = Target.of(target)
        key = (str(where), tuple(workload))
        if key not in self._chosen:
            task = create(workload[0], workload[1:], where)
            config = self._recorded(task)
            if config is None:
                return None
            self._chosen[key] = config
        return self._chosen[key]

    @public
    def update(self, target: Any, workload: Sequence[Any], cfg: ConfigEntity) -> None:
        """Take ``cfg`` for the calls of a workload, whatever the logs have."""
        self._chosen[str(Target.of(target)), tuple(workload)] = cfg

    def _recorded(self, task: Task) -> ConfigEntity | None:
        # searches record the target that they ran, which may be the emulator
        place = Where.here(task.outputs, or_emulator(task.target), {})
        name = recorded_name(task.workload)
        for _, _, entry in nearest_first(self._databases, [place], task.outputs):
            if entry.trial.template != name:
                continue
            if entry.differs:
                warn(
                    f"the configuration of {workload_text(task.workload)} was measured "
                    f"{'; '.join(entry.differs)} (line {entry.line} of {entry.path})"
                )
            return task.config_space.entity(entry.trial.decisions)
        return self._by_estimate(task, name, place)

    def _by_estimate(self, task: Task, name: str, place: Where) -> ConfigEntity | None:
        """Return the configuration of the least estimate, where nothing could be timed."""
        least = least_estimate(self._databases, place, name)
        if least is None:
            return None
        warn(
            f"the configuration of {workload_text(task.workload)} was not timed, and has the least "
            f"estimate (line {least.line} of {least.path})"
        )
        return task.config_space.entity(least.trial.decisions)

    def __enter__(self) -> ApplyHistoryBest:
        outer = DISPATCH.get()

        def query(target: Any, workload: Any) -> ConfigEntity | None:
            config = self.query(target, workload)
            return outer(target, workload) if config is None and outer is not None else config

        self._around.append((outer, DISPATCH.set(query)))
        return self

    def __exit__(self, *raised: object) -> None:
        DISPATCH.reset(self._around.pop()[1])


def apply_history_best(records: Any) -> ApplyHistoryBest:
    """Return the context in which templates take the best configurations of a log."""
    return ApplyHistoryBest(records)


__all__ = ["ApplyHistoryBest", "apply_history_best"]
