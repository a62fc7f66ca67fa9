"""``autotune``: check the arguments, then run the search."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from time import monotonic
from typing import Any

from schedlang.autotune.best import find_recorded, packaged
from schedlang.autotune.database import Database
from schedlang.autotune.model.problems import refuse_calls
from schedlang.autotune.options import (
    check_objects,
    check_start,
    checked_cold,
    checked_count,
    checked_inputs,
    checked_limits,
    checked_number,
    checked_outputs,
    checked_seconds,
)
from schedlang.autotune.record import GIVEN, NEAR_SIZE, UNTUNED, Where
from schedlang.autotune.records.replay import decisions_for
from schedlang.autotune.report.progress import progress_for
from schedlang.autotune.result import TuningResult
from schedlang.autotune.run import run
from schedlang.autotune.runner.local import Local
from schedlang.autotune.runner.machine import Machine, machine_of_workers, this_machine
from schedlang.autotune.runner.measure import Measurer
from schedlang.autotune.runner.remote import Remote
from schedlang.autotune.runner.task import Limits, Task, tolerance_for
from schedlang.autotune.search import Strategy, strategy
from schedlang.autotune.sizes import checked_sizes
from schedlang.autotune.space import Candidate, Space, Template
from schedlang.autotune.state import Search
from schedlang.autotune.tactics.facts import Problem
from schedlang.compute.tensor import Tensor
from schedlang.errors import SchedlangError, TuningError, explain
from schedlang.runtime.nvidia import driver
from schedlang.schedule.schedule import Schedule
from schedlang.signatures import public
from schedlang.target import Target, TargetLike, or_emulator

# the most build processes; each takes up to four times the arrays' bytes, as random data are made
# in float64
MOST_PROCESSES, COPIES = 8, 4
# module name of a script that a command runs: not "__main__", which scripts test for
SCRIPT = "schedlang_script"
# the default of ``trials`` where no timeout is given
TRIALS = 64


@public
def autotune(
    outputs: Tensor | Sequence[Tensor], target: TargetLike | None = None,
    trials: int | None = None, timeout: float | None = None, search: str | Strategy = "random",
    seed: int = 0, database: Database | str | os.PathLike[str] | None = None, resume: bool = True,
    executor: Executor | None = None, template: Template | None = None,
    inputs: Mapping[str, Any] | Sequence[Any] | None = None,
    sizes: Mapping[Any, int] | None = None, tolerance: float | None = None, progress: Any = None,
    limits: Limits | None = None, workers: int | None = None, cold: Collection[str] = (),
    team: bool = False, start: Schedule | None = None, compiler: str = "",
    overtime: float | None = None,
) -> TuningResult:  # fmt: skip
    """Search for a fast schedule of ``outputs``, a tensor or a list of them.

    Return the best schedule so far, also after Ctrl-C. Candidates come from tactics for the
    computation, or from ``template(s, knobs)``, which applies steps to a schedule ``s`` and asks
    ``knobs`` (:class:`~schedlang.autotune.knobs.Knobs`) for each decision. A child process builds
    each candidate, checks it against the NumPy oracle and times it, so that one that crashes, hangs
    or takes all memory costs one trial. At the end four candidates race in turns, and the winner is
    the result: the fastest, ``start`` or what ``database`` has, the first one and the next fastest.
    What was there before, or else the first one, wins where the gain of the fastest is not larger
    than the noise of the race. On a CPU the untuned
    schedule, which has no steps, is timed too: if it beats all candidates of the tactics, it is one
    more trial, and the result.

    * ``target``: as :func:`~schedlang.targets.build.build` takes it. What it leaves out, such as
      the vector width, is this machine's, also with an ``executor``.
    * ``trials``: how many candidates to measure; the candidates of earlier runs in ``database``
      count. The default is 64, or no limit if ``timeout`` is given. A search also ends when half of
      ``trials`` (at least 64) bring no gain of one percent.
    * ``timeout``: seconds for the whole search: the start of the workers, the candidates, the race
      (up to a fifth; up to half if the fastest and the first candidate need it) and the untuned
      schedule (up to a tenth). If no candidate has worked by then, the first that does ends the
      search. If there is no time for the race, the first candidate is the result unless another
      one was 1.25 times as fast.
    * ``overtime``: the seconds past ``timeout`` after which a search without a candidate that works
      raises an error; by default it waits for one.
    * ``search``: ``"random"``, ``"evolve"``, or a
      :class:`~schedlang.autotune.search.Strategy` of your own. ``seed`` decides the draws.
    * ``database``: a file or a :class:`~schedlang.autotune.database.Database`, by default
      ``tuning.jsonl`` in the cache folder. Every trial is written as it ends.
    * ``resume``: count the trials in ``database`` and measure none of them again, except trials
      with another template, tolerance or input, trials that failed under other limits, and trials
      that other processes disturbed. Without a template, the schedule of ``sl.best`` then comes
      first.
    * ``executor``: any ``concurrent.futures.Executor``, whose workers measure. They need this
      version of schedlang. The search asks one of them for its cores, threads, memory and GPU, and
      tunes for these. A job whose worker is lost is sent once more; one whose worker cannot measure
      goes to another. The search ends after several jobs in a row that fail on every worker, or
      after some minutes without an answer. A worker keeps its child process for 30 seconds and the
      arrays of its last two searches.
    * ``workers``: how many processes build at once, at most one for each of ``trials``: by default
      one per core, at most 8, and fewer where their arrays would take more than half of the memory.
    * ``inputs``: the data to run on, arrays by name or in order. The default is random: floats in
      [-1, 1], integers in -8..8 (unsigned 0..8), scalar arguments in 0.5..1.5 (integers 1..4).
    * ``sizes``: values of symbolic sizes, by name or by ``sl.var``.
    * ``tolerance``: the largest error of an element, relative to its magnitude plus the root mean
      square of its array. The default allows for rounding. Integers must be equal, except where
      floats are cast to integers: there the tolerance holds too, and one element in a hundred may
      be off by 1.
    * ``progress``: a function that is called with each trial, or whether a line says how far the
      search is. By default it shows after two seconds, on a terminal and in a notebook; with True
      its last state stays.
    * ``limits``: the :class:`~schedlang.autotune.runner.task.Limits` of a candidate.
    * ``cold``: the names of inputs that no cache has before a call, such as the weights of a large
      network; each call that is timed on a CPU reads other copies of them. ``team``: threads wait
      for work before a call, as between the kernels of a network, so that the cost model's schedule
      starts them for less.
    * ``start``: a schedule of ``outputs`` that is measured first, as one of the trials, even if
      ``database`` has all of these. The result is slower than ``start`` only if there is no time to
      measure it.
    * ``compiler``: one of the target's, as :func:`~schedlang.targets.build.build` takes it. The
      records name it. Trials of another one are measured again; its best schedule may come first.

    For ``target="cuda"`` on a machine without a GPU, candidates are compiled to machine code and
    ranked by estimates; nothing is timed, and the result says so. Estimates ask the driver how fast
    a GPU is. If the GPU is not there, they use the data sheet of one with the same architecture.

    Raise :class:`~schedlang.errors.TuningError` for invalid options, and where no candidate works;
    :class:`~schedlang.errors.BuildError` for an unknown ``target`` or a compiler that it lacks, and
    :class:`~schedlang.errors.MissingExtraError` where its compiler is not installed.

    >>> import tempfile, numpy as np, schedlang as sl
    >>> A = sl.placeholder((64, 64), name="A")
    >>> B = sl.compute((64, 64), lambda i, j: A[j, i] * 2, name="B")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     result = sl.autotune(B, trials=2, database=folder + "/tuning.jsonl")
    >>> len(result.trials) >= 2, result.seconds > 0
    (True, True)
    >>> a = np.ones((64, 64), "float32")
    >>> bool((result.kernel(a) == 2).all())
    True
    """
    started = monotonic()
    wanted = checked_outputs(outputs)
    where_to = or_emulator(Target.of(target))
    where_to.facts.compiler_named(compiler)
    if not where_to.facts.tuned:
        raise TuningError(
            explain(
                f"sl.autotune(..., target={str(where_to.kind)!r})",
                "searches do not time candidates on devices of this target",
                "sl.autoschedule(C, target) chooses a schedule by the cost model.",
            )
        )
    trials = None if trials is None else checked_count("trials", trials, 1)
    workers = None if workers is None else checked_count("workers", workers, 1)
    seed = checked_count("seed", seed, 0)
    timeout, overtime = checked_seconds("timeout", timeout), checked_seconds("overtime", overtime)
    if overtime is not None and timeout is None:
        raise TuningError(
            f"autotune(overtime={overtime!r}): overtime= counts from the end of timeout=, "
            "which is left out; give both"
        )
    tolerance = checked_number("tolerance", tolerance)
    allowed = checked_limits(limits)
    check_objects(executor, template, workers)
    check_start(wanted, start)
    known_sizes = checked_sizes("autotune", wanted, sizes, every=True)
    given = checked_inputs(wanted, inputs, known_sizes)
    refuse_calls(wanted, where_to, "sl.autotune")
    if where_to.facts.needs_driver and executor is None:
        # a missing driver fails here, once, and not in every trial
        driver()
    records, chosen = Database.open(database), strategy(search, seed)
    records.check_writable()
    machine = this_machine(where_to) if executor is None else machine_of_workers(executor, where_to)
    task = Task(
        wanted, where_to, known_sizes, given, seed,
        tolerance_for(wanted) if tolerance is None else tolerance, allowed.on(machine.memory),
        machine.timed, checked_cold(wanted, cold, where_to), compiler,
    )  # fmt: skip
    end = None if timeout is None else started + timeout
    latest = None if end is None or overtime is None else end + overtime
    problem = Problem(wanted, where_to, machine.threads, task.values, frozenset(task.cold), team)
    space = Space(problem, template, template is None, deadline=end).remembering()
    where = Where.here(
        wanted, where_to, known_sizes, machine.machine, machine.versions, compiler
    )  # fmt: skip
    most = trials if trials is not None else TRIALS if timeout is None else sys.maxsize
    shown = progress_for(progress, None if most == sys.maxsize else most, end)
    measurer: Measurer = (
        Local(task, min(workers or _processes(task, machine), max(most, 1)))
        if executor is None
        else Remote(task, executor)
    )
    sources = [records, *(packaged() if database is None else ())]
    recorded = _start(space, where, sources) if resume and template is None else None
    state = Search(
        task, where, wanted[0].name, space, chosen, measurer, records, most, shown, recorded,
        "" if template is None else _name(template), timeout=timeout, end=end,
        latest=latest, given=None if start is None else _candidate_of(space, start),
    )  # fmt: skip
    return run(state, resume, seed, started)


def _processes(task: Task, machine: Machine) -> int:
    """Return the default number of build processes.

    It is one per core, or fewer if their arrays would take more than half of the memory.
    """
    most = min(MOST_PROCESSES, machine.cores)
    if not machine.memory:
        return most
    return max(1, min(most, machine.memory // 2 // max(1, COPIES * task.bytes)))


def _start(space: Space, where: Where, sources: Sequence[Database]) -> Candidate | None:
    """Return the best recorded schedule, of this machine or a similar one, as a candidate."""
    recorded = find_recorded(space.problem.outputs, where, sources)
    if recorded is None or recorded.entry.trial.strategy == UNTUNED:
        return None
    there = recorded.entry.where
    same_sizes = (there.extents, there.sizes) == (where.extents, where.sizes)
    origin = "database" if same_sizes else NEAR_SIZE
    try:
        return space.of(
            recorded.schedule, decisions_for(recorded.entry, space.problem.outputs), origin
        )
    except SchedlangError:
        return None


def _candidate_of(space: Space, start: Schedule) -> Candidate:
    """Return the schedule that the search is to start from as a candidate."""
    try:
        return space.of(start, {}, GIVEN)
    except SchedlangError as error:
        raise TuningError(f"autotune(start=...): {error}") from None


def _name(template: Template) -> str:
    """Return the name under which the database records the trials of a template."""
    module = getattr(template, "__module__", "")
    if module in ("__main__", SCRIPT):
        module = _import_name(module) or module
    named = [module, getattr(template, "__qualname__", type(template).__qualname__)]
    return ".".join(part for part in named if part)


def _import_name(module: str) -> str:
    """Return the name under which a module that runs as a script would be imported."""
    script = sys.modules.get(module)
    # a spec exists where ``python -m`` runs the module
    named = str(getattr(getattr(script, "__spec__", None), "name", ""))
    return named if named not in ("", SCRIPT) else Path(getattr(script, "__file__", "") or "").stem


__all__ = ["autotune"]
