"""Tasks: searches for a schedule of a workload, and the best schedule of a record file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from schedlang.autotune import Database, TuningResult, autotune
from schedlang.autotune.at_once.scheduler import autoschedule
from schedlang.autotune.best import best
from schedlang.autotune.record import UNTUNED, Where
from schedlang.autotune.records.estimates import least_estimate
from schedlang.autotune.records.replay import replay
from schedlang.autotune.records.warn import warn
from schedlang.autotune.search import Evolve
from schedlang.compute.graph import placeholders
from schedlang.compute.tensor import Tensor
from schedlang.compute.work import needed_flops
from schedlang.errors import TuningError
from schedlang.schedule.schedule import Schedule, empty_schedule
from schedlang.signatures import public
from schedlang.target import Target, TargetLike, or_emulator
from schedlang.targets.build import build
from schedlang.tvm.auto_scheduler.options import SketchPolicy, TuningOptions, checked_path
from schedlang.tvm.auto_scheduler.workload import computed, make_workload_key, tensors_of
from schedlang.tvm.autotvm.strategies import Watched


class ComputeDAG:
    """The computation of a task; ``print`` shows its stages as loops without a step."""

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        self.tensors = list(tensors)
        self.outputs = computed(tensors)

    @property
    def flop_ct(self) -> float:
        """The number of its operations."""
        return float(needed_flops(self.outputs) or 0)

    @public
    def apply_steps_from_state(
        self, state: Schedule, layout_rewrite: Any = None
    ) -> tuple[Schedule, list[Tensor]]:
        """Return a schedule of these tensors with the steps of another, and the tensors.

        Raise :class:`~schedlang.errors.ScheduleError` for a schedule of another computation.
        """
        return Schedule.from_json(state.to_json(), list(self.outputs)), list(self.tensors)

    @public
    def print_python_code_from_state(self, state: Schedule) -> str:
        """Return the steps of a schedule as Python statements."""
        return self.apply_steps_from_state(state)[0].as_python()

    def __str__(self) -> str:
        return str(empty_schedule(list(self.outputs)))


class SearchTask:
    """A workload with its arguments and a target.

    ``compute_dag`` is its computation, ``result`` the
    :class:`~schedlang.autotune.result.TuningResult` of the last :meth:`tune`. Raise
    :class:`~schedlang.errors.TuningError` for a function that is not registered.

    >>> from schedlang import auto_scheduler, te
    >>> @auto_scheduler.register_workload
    ... def doc_double(n):
    ...     A = te.placeholder((n,), name="A")
    ...     return [A, te.compute((n,), lambda i: A[i] * 2, name="B")]
    >>> task = SearchTask(func=doc_double, args=(64,), target="llvm")
    >>> print(task.compute_dag)
    B(A: float32[64]) -> B: float32[64]
    <BLANKLINE>
    for i in 0..64:
      B[i] = A[i] * 2
    """

    @public
    def __init__(
        self, func: Any = None, args: Sequence[Any] | None = None, compute_dag: Any = None,
        workload_key: str | None = None, target: TargetLike | None = None,
        target_host: TargetLike | None = None, hardware_params: Any = None,
        layout_rewrite_option: Any = None, task_inputs: Mapping[str, Any] | None = None,
        desc: str = "",
    ) -> None:  # fmt: skip
        if compute_dag is not None or hardware_params is not None:
            raise TuningError(
                "auto_scheduler.SearchTask(compute_dag=, hardware_params=): give func= and args=, "
                "and a target, which has the facts of the hardware"
            )
        if workload_key is None:
            if func is None:
                raise TuningError("auto_scheduler.SearchTask(): give func= and args=")
            workload_key = make_workload_key(func, args or ())
        self.workload_key, self.desc = workload_key, desc
        self.target = Target.of(target)
        self.compute_dag = ComputeDAG(tensors_of(workload_key))
        self.result: TuningResult | None = None
        self._inputs = task_inputs

    @property
    def outputs(self) -> list[Tensor]:
        """The tensors that it computes."""
        return list(self.compute_dag.outputs)

    @public
    def tune(
        self, tuning_options: TuningOptions, search_policy: SketchPolicy | None = None,
        adaptive_training: bool = False,
    ) -> None:  # fmt: skip
        """Search for a schedule by evolution, by ``sl.autotune(search="evolve")``.

        Every trial goes to the file of a ``RecordToFile``, or else to the tuning database in the
        cache folder. With a ``PreloadMeasuredStates`` of the same file, the trials there are not
        measured again, and ``num_measure_trials`` more are. The summary is printed if ``verbose``
        is 1 or more.

        Raise :class:`~schedlang.errors.TuningError` without trials, and if no candidate works.
        """
        option, policy = _checked(tuning_options, search_policy)
        if not option.num_measure_trials:
            raise TuningError(
                "task.tune(TuningOptions()): give num_measure_trials, 1 or more; "
                "sl.autoschedule(out) measures nothing"
            )
        resumed = policy.preloaded is not None
        if resumed and policy.preloaded != option.log:
            raise TuningError(
                f"task.tune: the search is to resume from {policy.preloaded}, and to record to "
                f"{option.log}; give RecordToFile and PreloadMeasuredStates the same file"
            )
        where_to = or_emulator(self.target)
        flushed = option.runner.enable_cpu_cache_flush and where_to.facts.host_arrays
        known = self._known(option.log, where_to) if resumed else 0
        self.result = autotune(
            self.outputs, target=where_to, trials=option.num_measure_trials + known,
            search=Watched(Evolve(policy.seed), Evolve.name, option.early_stopping, ()),
            seed=policy.seed, database=option.log, resume=resumed, limits=option.limits,
            workers=option.builder.n_parallel, inputs=self._inputs,
            cold=[t.name for t in placeholders(self.outputs)] if flushed else (),
        )  # fmt: skip
        if option.verbose:
            print(self.result)

    def _known(self, log: Path | None, target: Target) -> int:
        """Return how many schedules of this task a record has that are not measured again."""
        trials = Database(log).trials(Where.here(self.outputs, target, {}), self.outputs)
        kept = (t for t in trials if t.strategy != UNTUNED and not t.template and not t.disturbed)
        return len({t.source for t in kept})

    @public
    def apply_best(
        self, log_file: str | os.PathLike[str], include_compatible: bool = False,
        layout_rewrite_option: Any = None,
    ) -> tuple[Schedule, list[Tensor]]:  # fmt: skip
        """Return the fastest schedule of a record file, and the arguments of its kernel.

        If it was measured on another machine or with other versions, a
        :class:`~schedlang.errors.DatabaseWarning` says so, or that it has the least estimate, if
        none was timed. Raise :class:`~schedlang.errors.TuningError` if the file has none.
        """
        return self._best(log_file), list(self.compute_dag.tensors)

    @public
    def print_best(self, log_file: str | os.PathLike[str], print_mode: str = "schedule") -> str:
        """Return the best schedule of a record file as code.

        It is the code of the schedule's steps, or with ``print_mode="cuda"`` the kernel's source.
        Raise :class:`~schedlang.errors.TuningError` for another mode, and as :meth:`apply_best`.
        """
        schedule = self._best(log_file)
        if print_mode == "schedule":
            return schedule.as_python()
        if print_mode == "cuda":
            return build(schedule, self.compute_dag.tensors, self.target).source
        raise TuningError(
            f'task.print_best(print_mode={print_mode!r}): give "schedule", or "cuda" for the source'
        )

    def _best(self, log_file: Any) -> Schedule:
        path, target = checked_path("SearchTask.apply_best", log_file), or_emulator(self.target)
        try:
            return best(self.outputs, target, database=path).schedule
        except TuningError:
            least = least_estimate([Database(path)], Where.here(self.outputs, target, {}))
            if least is None:
                raise
        warn(
            f"the schedule of {self.workload_key} was not timed, and has the least estimate "
            f"(line {least.line} of {least.path})"
        )
        return replay(least, self.outputs)

    def __repr__(self) -> str:
        return f"SearchTask({self.workload_key}, {self.target.kind})"


def _checked(option: Any, policy: Any) -> tuple[TuningOptions, SketchPolicy]:
    if not isinstance(option, TuningOptions):
        raise TuningError(f"task.tune({option!r}): give auto_scheduler.TuningOptions(...)")
    if policy is None or policy in ("default", "sketch.xgb", "sketch.random"):
        return option, SketchPolicy(None)
    if not isinstance(policy, SketchPolicy):
        raise TuningError(
            f"task.tune(search_policy={policy!r}): give auto_scheduler.SketchPolicy(task, ...); "
            "sl.autotune(search=) takes a strategy of yours"
        )
    return option, policy


@public
def create_task(func: Any, args: Sequence[Any], target: TargetLike | None = None) -> SearchTask:
    """Return the task of a workload; an old name of ``SearchTask(func=, args=, target=)``."""
    return SearchTask(func=func, args=args, target=target)


@public
def auto_schedule(
    task: SearchTask, search_policy: Any = None, tuning_options: TuningOptions | None = None
) -> tuple[Schedule, list[Tensor]]:
    """Search for a schedule of a task, and return it with the arguments of its kernel.

    Without trials, :func:`schedlang.autoschedule` chooses it. Raise the errors of
    :meth:`SearchTask.tune`.
    """
    options = tuning_options or TuningOptions()
    if not options.num_measure_trials:
        return autoschedule(task.outputs, task.target), list(task.compute_dag.tensors)
    task.tune(options, search_policy)
    assert task.result is not None
    return task.result.schedule, list(task.compute_dag.tensors)


__all__ = ["ComputeDAG", "SearchTask", "auto_schedule", "create_task"]
