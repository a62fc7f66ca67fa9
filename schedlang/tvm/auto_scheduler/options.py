"""The options of a search: trials, limits, the record file, and an earlier one to resume from."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from schedlang.autotune.options import checked_count
from schedlang.autotune.runner.task import Limits
from schedlang.errors import TuningError, explain
from schedlang.signatures import public


def checked_path(call: str, filename: Any) -> Path:
    """Return the path of a record file."""
    if not isinstance(filename, (str, os.PathLike)):
        raise TuningError(f"auto_scheduler.{call}({filename!r}): give the path of a file")
    return Path(filename)


class RecordToFile:
    """The file to which a search writes every trial, a tuning database."""

    @public
    def __init__(self, filename: str | os.PathLike[str]) -> None:
        self.path = checked_path("RecordToFile", filename)


class PreloadMeasuredStates:
    """The record file that a search resumes from: it measures none of these trials again."""

    @public
    def __init__(self, filename: str | os.PathLike[str]) -> None:
        self.path = checked_path("PreloadMeasuredStates", filename)


class LocalBuilder:
    """The processes that build candidates: ``n_parallel`` of them, each ``timeout`` seconds.

    Raise :class:`~schedlang.errors.TuningError` for another ``build_func``.
    """

    @public
    def __init__(
        self, timeout: float | None = None, n_parallel: int | None = None,
        build_func: Any = "default",
    ) -> None:  # fmt: skip
        if build_func != "default":
            raise TuningError(
                f"auto_scheduler.LocalBuilder(build_func={build_func!r}): kernels are built by "
                "tvm.build, for this machine; leave build_func out"
            )
        self.timeout, self.n_parallel = timeout, n_parallel


class LocalRunner:
    """The limits of a run: ``timeout`` seconds; caches are flushed where that is asked for.

    The other arguments have no effect: a measurement takes as many calls as its time needs.
    """

    @public
    def __init__(
        self, timeout: float | None = None, number: int = 3, repeat: int = 1,
        min_repeat_ms: float = 0, cooldown_interval: float = 0.0,
        enable_cpu_cache_flush: bool = False, device: int = 0,
    ) -> None:  # fmt: skip
        self.timeout, self.enable_cpu_cache_flush = timeout, enable_cpu_cache_flush


class LocalRPCMeasureContext:
    """A runner in a process of its own, as every candidate's is: ``.runner``, a LocalRunner."""

    @public
    def __init__(
        self, priority: int = 1, n_parallel: int = 1, timeout: float | None = None,
        number: int = 3, repeat: int = 1, min_repeat_ms: float = 0,
        cooldown_interval: float = 0.0, enable_cpu_cache_flush: bool = False, device: int = 0,
    ) -> None:  # fmt: skip
        self.runner = LocalRunner(timeout, enable_cpu_cache_flush=enable_cpu_cache_flush)


class XGBModel:
    """A place for TVM's cost model: searches use the model of schedlang, which trains nothing."""

    def __init__(self, **options: Any) -> None:
        pass

    def update_from_file(self, file_name: Any, n_lines: Any = None) -> None:
        """Do nothing: the model does not learn from records."""


class RandomModel(XGBModel):
    """A place for TVM's random model; it means the same as :class:`XGBModel`."""


class SketchPolicy:
    """The search by evolution. ``init_search_callbacks`` may name a file to resume from.

    ``seed`` decides the draws. TVM's model and parameters have no effect.
    """

    @public
    def __init__(
        self, task: Any, program_cost_model: Any = None, params: Any = None,
        seed: int | None = None, verbose: int = 1,
        init_search_callbacks: Sequence[Any] | None = None,
    ) -> None:  # fmt: skip
        self.seed = 0 if seed is None else checked_count("seed", seed, 0, "SketchPolicy")
        self.preloaded: Path | None = None
        for callback in init_search_callbacks or ():
            if not isinstance(callback, PreloadMeasuredStates):
                raise TuningError(
                    f"auto_scheduler.SketchPolicy(init_search_callbacks=[{callback!r}]): give "
                    "auto_scheduler.PreloadMeasuredStates(file); sl.autotune(template=) takes "
                    "rules of yours"
                )
            self.preloaded = callback.path


class TuningOptions:
    """The options of a search: trials, early end, limits, and the record file.

    Without trials, nothing is measured, and the cost model chooses. Raise
    :class:`~schedlang.errors.TuningError` for a builder or a runner that is not local, and for
    other callbacks than one :class:`RecordToFile`.
    """

    @public
    def __init__(
        self, num_measure_trials: int = 0, early_stopping: int | None = None,
        num_measures_per_round: int = 64, verbose: int = 1, builder: Any = "local",
        runner: Any = "local", measure_callbacks: Any = None,
    ) -> None:  # fmt: skip
        self.num_measure_trials = checked_count(
            "num_measure_trials", num_measure_trials, 0, "TuningOptions"
        )
        # TVM's -1 means no early end
        self.early_stopping = early_stopping if (early_stopping or 0) > 0 else None
        self.verbose = verbose
        self.builder = LocalBuilder() if builder == "local" else builder
        self.runner = LocalRunner() if runner == "local" else runner
        local = isinstance(self.builder, LocalBuilder) and isinstance(self.runner, LocalRunner)
        if not local:
            raise TuningError(
                explain(
                    f"auto_scheduler.TuningOptions(builder={builder!r}, runner={runner!r})",
                    "candidates are built and measured on this machine",
                    'Give "local", LocalBuilder(...), LocalRunner(...), or the runner of a '
                    "LocalRPCMeasureContext.",
                )
            )
        given = measure_callbacks or ()
        callbacks = list(given) if isinstance(given, (list, tuple)) else [given]
        if len(callbacks) > 1 or not all(isinstance(c, RecordToFile) for c in callbacks):
            raise TuningError(
                f"auto_scheduler.TuningOptions(measure_callbacks={callbacks}): give one "
                "auto_scheduler.RecordToFile(file); sl.autotune(progress=) calls a function"
            )
        self.log: Path | None = callbacks[0].path if callbacks else None

    @property
    def limits(self) -> Limits:
        """The limits of a candidate."""
        default = Limits()
        build, run = self.builder.timeout, self.runner.timeout
        return Limits(
            build=default.build if build is None else build,
            run=default.run if run is None else run,
        )
