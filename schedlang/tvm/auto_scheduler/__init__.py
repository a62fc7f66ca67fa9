"""te's ``tvm.auto_scheduler``: searches without a template, by :func:`schedlang.autotune`.

``workload.py`` registers functions that return the tensors of a computation. ``search_task.py`` has
the tasks, which search, and apply the best of a record; ``records.py`` reads it. ``options.py`` has
the options of a search. The record file is a tuning database: data, checked when it is read, and
never executed.
"""

from __future__ import annotations

from typing import Any

from schedlang.errors import missing_name
from schedlang.tvm.auto_scheduler.options import (
    LocalBuilder,
    LocalRPCMeasureContext,
    LocalRunner,
    PreloadMeasuredStates,
    RandomModel,
    RecordToFile,
    SketchPolicy,
    TuningOptions,
    XGBModel,
)
from schedlang.tvm.auto_scheduler.records import MeasureInput, load_best_record
from schedlang.tvm.auto_scheduler.search_task import (
    ComputeDAG,
    SearchTask,
    auto_schedule,
    create_task,
)
from schedlang.tvm.auto_scheduler.workload import make_workload_key, register_workload

_MODELS = (
    "graphs of models are not part of schedlang",
    "net.tune searches for the kernels of a network; sl.apply_best applies records to schedules.",
)
_RECORDS = (
    "a record is a line of a tuning database",
    "task.apply_best(file) applies the best one; sl.autotune.Database(file).entries() reads all.",
)
REFUSED = {
    **dict.fromkeys(
        (
            "extract_tasks", "ApplyHistoryBest", "ApplyHistoryBestOrSample",
            "is_auto_scheduler_enabled",
        ),
        _MODELS,
    ),
    **dict.fromkeys(
        ("load_records", "save_records", "RecordReader", "distill_record_file"),
        _RECORDS,
    ),
    "TaskScheduler": ("tasks are tuned one by one", "Call task.tune(options) of each."),
    "HardwareParams": (
        "the target has the facts of the hardware",
        "sl.Target names the size of vectors; cores and caches are this machine's.",
    ),
    **dict.fromkeys(
        ("RPCRunner", "RPCMeasureContext"),
        (
            "remote devices are not part of schedlang",
            "Give sl.autotune an executor= whose workers are there.",
        ),
    ),
    **dict.fromkeys(
        ("_ffi_api", "PreloadCustomSketchRule"),
        (
            "searches have no rules of sketches",
            "sl.autotune(C, template=...) searches over the steps that you write.",
        ),
    ),
    "EmptyPolicy": ("it makes a schedule without steps", "Call te.create_schedule(out.op)."),
}  # fmt: skip


def __getattr__(name: str) -> Any:
    raise missing_name(__name__, name, REFUSED, "auto_scheduler")


__all__ = [
    "ComputeDAG", "LocalBuilder", "LocalRPCMeasureContext", "LocalRunner", "MeasureInput",
    "PreloadMeasuredStates", "RandomModel", "RecordToFile", "SearchTask", "SketchPolicy",
    "TuningOptions", "XGBModel", "auto_schedule", "create_task", "load_best_record",
    "make_workload_key", "register_workload",
]  # fmt: skip
