"""Measurements of configurations: the options of the builder and the runner, and the results."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from schedlang.autotune.record import Trial
from schedlang.autotune.runner.task import Limits
from schedlang.errors import TuningError, explain
from schedlang.signatures import public
from schedlang.tvm.autotvm.config import ConfigEntity
from schedlang.tvm.autotvm.task import Task


class MeasureErrorNo(IntEnum):
    """The outcome of a measurement."""

    NO_ERROR = 0
    INSTANTIATION_ERROR = 1
    COMPILE_HOST = 2
    COMPILE_DEVICE = 3
    RUNTIME_DEVICE = 4
    WRONG_ANSWER = 5
    BUILD_TIMEOUT = 6
    RUN_TIMEOUT = 7
    UNKNOWN_ERROR = 8


# outcomes of trials, as TVM numbers them
NUMBERS = {
    "ok": MeasureErrorNo.NO_ERROR,
    "invalid": MeasureErrorNo.INSTANTIATION_ERROR,
    "build failed": MeasureErrorNo.COMPILE_HOST,
    "build timed out": MeasureErrorNo.BUILD_TIMEOUT,
    "run failed": MeasureErrorNo.RUNTIME_DEVICE,
    "run timed out": MeasureErrorNo.RUN_TIMEOUT,
    "wrong answer": MeasureErrorNo.WRONG_ANSWER,
}


@dataclass(frozen=True)
class MeasureInput:
    """A configuration of a task that was measured."""

    target: Any
    task: Task | Any
    config: ConfigEntity


@dataclass(frozen=True)
class MeasureResult:
    """The times of a call in seconds, or, where ``error_no`` is not 0, the message of the error."""

    costs: tuple[Any, ...]
    error_no: int
    all_cost: float

    @staticmethod
    def of(trial: Trial) -> MeasureResult:
        """Return the result of a trial; ``costs`` is empty if nothing could be timed."""
        if trial.outcome != "ok":
            number = NUMBERS.get(trial.outcome, MeasureErrorNo.UNKNOWN_ERROR)
            text = ": ".join(filter(None, (trial.outcome, trial.detail)))
            return MeasureResult((text,), int(number), trial.took)
        costs = () if trial.seconds is None else (trial.seconds,)
        return MeasureResult(costs, int(MeasureErrorNo.NO_ERROR), trial.took)


class LocalBuilder:
    """The processes that build configurations: ``n_parallel`` of them, each ``timeout`` seconds.

    Other arguments of TVM's have no effect. Raise :class:`~schedlang.errors.TuningError` for
    another ``build_func``.
    """

    @public
    def __init__(
        self, timeout: float | None = None, n_parallel: int | None = None,
        build_kwargs: Any = None, build_func: Any = "default", do_fork: bool = False,
        runtime: Any = None,
    ) -> None:  # fmt: skip
        if build_func != "default":
            raise TuningError(
                explain(
                    f"autotvm.LocalBuilder(build_func={build_func!r})",
                    "kernels are built by tvm.build, and for this machine alone",
                    "Leave build_func out.",
                )
            )
        self.timeout, self.n_parallel = timeout, n_parallel


class LocalRunner:
    """The limits of a run: ``timeout`` seconds; caches are flushed where that is asked for.

    ``number``, ``repeat``, ``min_repeat_ms`` and ``cooldown_interval`` have no effect: a
    measurement takes as many calls as its time needs (``sl.autotune.Trial``).
    """

    @public
    def __init__(
        self, timeout: float | None = None, number: int = 4, repeat: int = 3,
        min_repeat_ms: float = 0, cooldown_interval: float = 0.1,
        enable_cpu_cache_flush: bool = False, module_loader: Any = None,
    ) -> None:  # fmt: skip
        self.timeout, self.enable_cpu_cache_flush = timeout, enable_cpu_cache_flush


@dataclass(frozen=True)
class MeasureOption:
    """The builder and the runner of a search."""

    builder: LocalBuilder
    runner: LocalRunner

    @property
    def limits(self) -> Limits:
        """The limits of a candidate."""
        default = Limits()
        build = default.build if self.builder.timeout is None else self.builder.timeout
        run = default.run if self.runner.timeout is None else self.runner.timeout
        return Limits(build=build, run=run)


@public
def measure_option(builder: Any = "local", runner: Any = "local") -> MeasureOption:
    """Return the options of a measurement.

    ``builder`` and ``runner`` are ``"local"``, or a :class:`LocalBuilder` and a
    :class:`LocalRunner`. Raise :class:`~schedlang.errors.TuningError` for others, since candidates
    are measured on this machine.

    >>> measure_option("local", LocalRunner(timeout=4)).limits.run
    4
    """
    given_builder = LocalBuilder() if builder == "local" else builder
    given_runner = LocalRunner() if runner == "local" else runner
    if isinstance(given_builder, LocalBuilder) and isinstance(given_runner, LocalRunner):
        return MeasureOption(given_builder, given_runner)
    raise TuningError(
        explain(
            f"autotvm.measure_option({builder!r}, {runner!r})",
            "candidates are built and measured on this machine",
            'Give "local", or autotvm.LocalBuilder(...) and autotvm.LocalRunner(...); '
            "sl.autotune(executor=...) measures on other machines.",
        )
    )


__all__ = [
    "LocalBuilder", "LocalRunner", "MeasureErrorNo", "MeasureInput", "MeasureResult",
    "measure_option",
]  # fmt: skip
