"""The best record of a workload, as TVM's ``load_best_record`` gives it."""

from __future__ import annotations

import os
from dataclasses import dataclass

from schedlang.autotune.best import best
from schedlang.errors import TuningError
from schedlang.schedule.schedule import Schedule
from schedlang.signatures import public
from schedlang.target import TargetLike, or_emulator
from schedlang.tvm.auto_scheduler.options import checked_path
from schedlang.tvm.auto_scheduler.search_task import SearchTask
from schedlang.tvm.autotvm.measure import MeasureResult


@dataclass(frozen=True)
class MeasureInput:
    """A schedule that was measured, ``state``, and its task."""

    task: SearchTask
    state: Schedule


@public
def load_best_record(
    filename: str | os.PathLike[str], workload_key: str | None = None,
    target: TargetLike | None = None, include_compatible: bool = False,
) -> tuple[MeasureInput, MeasureResult]:  # fmt: skip
    """Return the fastest schedule of a workload in a record file, and its time.

    ``task.compute_dag.apply_steps_from_state(inp.state)`` applies it. If it was measured on another
    machine or with other versions, a :class:`~schedlang.errors.DatabaseWarning` says so. Raise
    :class:`~schedlang.errors.TuningError` without a key, for the key of no registered workload,
    and if the file has no record of the workload.
    """
    path = checked_path("load_best_record", filename)
    if workload_key is None:
        raise TuningError(
            f"auto_scheduler.load_best_record({str(filename)!r}): a record has no key of a "
            "workload; give task.workload_key"
        )
    task = SearchTask(workload_key=workload_key, target=target)
    fastest = best(task.outputs, or_emulator(task.target), database=path)
    result = MeasureResult((fastest.seconds,), 0, fastest.entry.trial.took)
    return MeasureInput(task, fastest.schedule), result


__all__ = ["MeasureInput", "load_best_record"]
