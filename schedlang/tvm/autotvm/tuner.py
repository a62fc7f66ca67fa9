"""The tuners: searches of :func:`schedlang.autotune` over the configurations of a task."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, ClassVar

from schedlang.autotune import TuningResult, autotune
from schedlang.autotune.options import checked_count
from schedlang.autotune.record import Trial
from schedlang.autotune.report.progress import Bar
from schedlang.autotune.search import Evolve, Strategy
from schedlang.autotune.search import Random as ByEstimate
from schedlang.compute.graph import placeholders
from schedlang.errors import TuningError, explain
from schedlang.signatures import public
from schedlang.tvm.autotvm.callback import LogToFile, ProgressBar
from schedlang.tvm.autotvm.config import ConfigEntity
from schedlang.tvm.autotvm.measure import (
    MeasureInput,
    MeasureOption,
    MeasureResult,
)
from schedlang.tvm.autotvm.measure import (
    measure_option as measure_locally,
)
from schedlang.tvm.autotvm.strategies import InOrder, Watched, shuffled
from schedlang.tvm.autotvm.task import Task

logger = logging.getLogger("autotvm")
SI_PREFIXES = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
SEED = 0


class Tuner:
    """A search over the configurations of a task.

    ``result`` is the :class:`~schedlang.autotune.result.TuningResult` after :meth:`tune`; its
    summary names the tuner and what it ran. ``best_config`` is the fastest configuration, and
    ``best_flops`` its operations per second.
    """

    # what the tuner runs, in the summary of its result
    ran: ClassVar[str]

    def __init__(self, task: Task, **options: Any) -> None:
        self.task = task
        self.result: TuningResult | None = None
        self.best_config: ConfigEntity | None = None
        self.best_flops = 0.0
        self.best_iter = 0
        self.best_measure_pair: tuple[MeasureInput, MeasureResult] | None = None
        self._history: list[Trial] = []

    def strategy(self) -> Strategy:
        """Return the strategy of the search."""
        raise NotImplementedError

    @public
    def tune(
        self, n_trial: int, measure_option: MeasureOption | None = None,
        early_stopping: int | None = None, callbacks: Iterable[Any] = (), si_prefix: str = "G",
    ) -> None:  # fmt: skip
        """Measure up to ``n_trial`` configurations, by ``sl.autotune``.

        Every trial goes to the file of a ``callback.log_to_file``, or else to the tuning database
        in the cache folder; trials that are there already do not count. Other ``callbacks`` are
        functions of the tuner, a list of one ``MeasureInput`` and one of its ``MeasureResult``. The
        search ends early after ``early_stopping`` trials without a shorter time. The logger
        ``"autotvm"`` gets each trial, and the summary at the end.

        Raise :class:`~schedlang.errors.TuningError` for unusable options, and if no configuration
        works.
        """
        task = self.task
        option = measure_locally() if measure_option is None else measure_option
        if not isinstance(option, MeasureOption):
            raise TuningError(
                f"tuner.tune(measure_option={option!r}): give autotvm.measure_option(...)"
            )
        if si_prefix not in SI_PREFIXES:
            raise TuningError(
                f"tuner.tune(si_prefix={si_prefix!r}): give one of "
                f"{', '.join(map(repr, SI_PREFIXES))}"
            )
        count = checked_count("n_trial", n_trial, 1, "tuner.tune")
        most = None
        if early_stopping is not None:
            most = checked_count("early_stopping", early_stopping, 1, "tuner.tune")
        log, called, bar = _sorted(callbacks)
        flushed = option.runner.enable_cpu_cache_flush and task.target.facts.host_arrays
        name = f"{type(self).__name__}: {self.ran}"
        shown = Bar(count, None, True) if bar else None
        with shown or nullcontext():

            def tell(trial: Trial) -> None:
                if shown is not None:
                    shown.trial(trial)
                self._tell(trial, called, si_prefix)

            self.result = autotune(
                list(task.outputs), target=task.target, trials=count,
                search=Watched(self.strategy(), name, most, self._history), seed=SEED,
                database=log, resume=False, template=task.template(), progress=tell,
                limits=option.limits, workers=option.builder.n_parallel,
                cold=[t.name for t in placeholders(task.outputs)] if flushed else (),
            )  # fmt: skip
        self._take(self.result.best)
        logger.info("%s", self.result)

    @public
    def load_history(self, data_set: Iterable[tuple[MeasureInput, MeasureResult]]) -> None:
        """Give earlier records to the search, such as ``autotvm.record.load_from_file(log)``.

        ``GATuner`` has parents among them; the others learn nothing from trials.
        """
        for given, result in data_set:
            if result.error_no == 0 and result.costs:
                decisions = given.config.to_json_dict()
                self._history.append(Trial(0, "ok", "", decisions, seconds=result.costs[0]))

    def _pair(self, trial: Trial) -> tuple[MeasureInput, MeasureResult]:
        config = self.task.config_space.entity(trial.decisions)
        return MeasureInput(self.task.target, self.task, config), MeasureResult.of(trial)

    def _tell(self, trial: Trial, called: Sequence[Callable[..., Any]], prefix: str) -> None:
        """Log a trial, and call the callbacks with it."""
        given, result = self._pair(trial)
        flops = self.task.flop / trial.seconds if trial.seconds else 0.0
        if flops > self.best_flops:
            self._take(trial)
        unit = SI_PREFIXES[prefix]
        logger.debug(
            "No: %d\t%sFLOPS: %.2f/%.2f\tresult: %s\t%s", trial.number + 1, prefix, flops / unit,
            self.best_flops / unit, result, given.config,
        )  # fmt: skip
        for callback in called:
            callback(self, [given], [result])

    def _take(self, best: Trial) -> None:
        self.best_measure_pair = self._pair(best)
        self.best_config, self.best_iter = self.best_measure_pair[0].config, best.number
        self.best_flops = self.task.flop / best.seconds if best.seconds else 0.0


def _sorted(callbacks: Iterable[Any]) -> tuple[Path | None, list[Callable[..., Any]], bool]:
    """Return the log file of callbacks, the functions to call, and whether a line is shown."""
    callbacks = list(callbacks)
    logs = [c.path for c in callbacks if isinstance(c, LogToFile)]
    if len(set(logs)) > 1:
        raise TuningError(
            explain(
                "tuner.tune(callbacks=...)",
                f"a search has one log, and these are {', '.join(map(str, logs))}",
                "Give one; autotvm.record.pick_best copies the best of a log to another.",
            )
        )
    others = [c for c in callbacks if not isinstance(c, (LogToFile, ProgressBar))]
    for callback in others:
        if not callable(callback):
            raise TuningError(f"tuner.tune(callbacks=[{callback!r}]): give functions")
    return next(iter(logs), None), others, any(isinstance(c, ProgressBar) for c in callbacks)


class RandomTuner(Tuner):
    """Configurations in a random order, each once."""

    ran = "configurations in random order"

    def strategy(self) -> Strategy:
        space = self.task.config_space
        return InOrder(space, shuffled(len(space), SEED))


class GridSearchTuner(Tuner):
    """Configurations in the order of their index, so that the first knob changes first."""

    ran = "configurations in the order of the grid"

    def strategy(self) -> Strategy:
        space = self.task.config_space
        return InOrder(space, iter(range(len(space))))


class GATuner(Tuner):
    """The evolution of :func:`schedlang.autotune`: ``search="evolve"``.

    TVM's sizes of the population and rates have no effect.
    """

    ran = "evolution of the fastest trials"

    def strategy(self) -> Strategy:
        return Evolve(SEED)


class XGBTuner(Tuner):
    """The search of :func:`schedlang.autotune` by the cost model, which trains nothing.

    Options of TVM's model have no effect.
    """

    ran = "draws ranked by the cost model"

    def strategy(self) -> Strategy:
        return ByEstimate(SEED)


__all__ = ["GATuner", "GridSearchTuner", "RandomTuner", "Tuner", "XGBTuner"]
