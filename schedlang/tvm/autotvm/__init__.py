"""te's ``tvm.autotvm``: templates and their knobs, as a face of :func:`schedlang.autotune`.

A template is a function that makes a schedule and takes the values of its knobs from
``autotvm.get_config()``. ``entities.py`` has the values of knobs, ``space.py`` lists what a
knob may take, and ``config.py`` holds the knobs of a template. ``task.py`` registers templates and
runs them as templates of :mod:`schedlang.autotune`. ``tuner.py`` has the tuners, ``strategies.py``
the order in which they take configurations, ``measure.py`` their options, and ``callback.py`` what
they call. The log file is a tuning database: ``record.py`` reads it, and ``dispatcher.py`` applies
the best of it.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from schedlang.errors import missing_name
from schedlang.tvm.autotvm import callback, measure, record, task, tuner
from schedlang.tvm.autotvm.config import ConfigEntity, ConfigSpace
from schedlang.tvm.autotvm.dispatcher import ApplyHistoryBest, apply_history_best
from schedlang.tvm.autotvm.measure import (
    LocalBuilder,
    LocalRunner,
    MeasureErrorNo,
    MeasureInput,
    MeasureResult,
    measure_option,
)
from schedlang.tvm.autotvm.task import Task, get_config, template
from schedlang.tvm.autotvm.tuner import GATuner, GridSearchTuner, RandomTuner, XGBTuner

_MODELS = (
    "graphs of models are not part of schedlang",
    "Tune a template by autotvm.task.create, or a network by net.tune.",
)
REFUSED = {
    "RPCRunner": (
        "remote devices are not part of schedlang",
        "Run the program on the machine, or give sl.autotune an executor= with workers there.",
    ),
    **dict.fromkeys(
        (
            "register_topi_compute", "register_topi_schedule", "graph_tuner", "tophub",
            "TaskExtractEnv", "ApplyGraphBest", "register_task_compute", "register_task_schedule",
            "register_customized_task",
        ),
        _MODELS,
    ),
    "DropletTuner": (
        "schedlang has no search of this kind",
        "Use GATuner, RandomTuner, GridSearchTuner or XGBTuner.",
    ),
    "feature": ("no model is trained on features", "sl.cost(s) counts the work of a schedule."),
    "env": ("there are no settings of the process", "Options of tuner.tune decide."),
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name == "space":
        return import_module("schedlang.tvm.autotvm.space")
    raise missing_name(__name__, name, REFUSED, "autotvm")


__all__ = [
    "ApplyHistoryBest", "ConfigEntity", "ConfigSpace", "GATuner", "GridSearchTuner",
    "LocalBuilder", "LocalRunner", "MeasureErrorNo", "MeasureInput", "MeasureResult",
    "RandomTuner", "Task", "XGBTuner", "apply_history_best", "callback", "get_config", "measure",
    "measure_option", "record", "task", "template", "tuner",
]  # fmt: skip
