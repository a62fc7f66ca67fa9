"""auto_scheduler: workloads, tasks and their options, and the record file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import schedlang as tvm
from schedlang import auto_scheduler, te
from schedlang.autotune import Database
from schedlang.autotune.record import Trial, Where
from schedlang.errors import DatabaseWarning, SchedlangError, TuningError


@auto_scheduler.register_workload
def scaled_rows(n: int, shape: tuple[int, int], dtype: str) -> list[Any]:
    A = te.placeholder(shape, dtype, "A")
    B = te.placeholder((shape[0],), dtype, "B")
    C = te.compute(shape, lambda i, j: A[i, j] * n + B[i], name="C")
    return [A, B, C]


def task_of(*shape: int) -> Any:
    return auto_scheduler.SearchTask(
        func=scaled_rows, args=(3, shape or (5, 7), "float32"), target=tvm.target.Target("llvm")
    )


def check_rows(s: Any, args: Any) -> None:
    a, b = np.random.default_rng(0).random((5, 7), "float32"), np.arange(5, dtype="float32")
    np.testing.assert_allclose(tvm.build(s, args, "python")(a, b), a * 3 + b[:, None], rtol=1e-6)


@pytest.mark.slow
def test_a_task_searches_records_and_applies_its_best(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    task, log = task_of(), str(tmp_path / "rows.json")
    assert str(task.compute_dag).startswith("C(A: float32[5, 7], B: float32[5]) -> C")
    task.tune(
        auto_scheduler.TuningOptions(
            num_measure_trials=2,
            measure_callbacks=[auto_scheduler.RecordToFile(log)],
            runner=auto_scheduler.LocalRPCMeasureContext(min_repeat_ms=100).runner,
        )  # fmt: skip
    )
    assert capsys.readouterr().out == f"{task.result}\n" and "(evolve, seed 0)" in str(task.result)
    assert {e.name for e in Database(log).entries()} == {"C"}
    s, args = task.apply_best(log)
    assert str(s) == str(task.result.schedule)
    check_rows(s, args)
    assert task.print_best(log) == s.as_python()
    assert "def C" in task.print_best(log, print_mode="cuda")
    measured, result = auto_scheduler.load_best_record(log, task.workload_key, task.target)
    again, args = task_of().compute_dag.apply_steps_from_state(measured.state)
    check_rows(again, args)
    assert task.compute_dag.print_python_code_from_state(measured.state) == s.as_python()
    assert (result.costs, result.error_no) == ((task.result.seconds,), 0)
    # the record is a tuning database, which sl.best reads
    assert tvm.autotune.best(args[-1], "cpu", log).schedule.as_python() == s.as_python()


@pytest.mark.slow
def test_a_search_goes_on_from_its_record(tmp_path: Path) -> None:
    # of a shape with many schedules
    task, log = task_of(48, 80), tmp_path / "rows.json"
    record = auto_scheduler.RecordToFile(log)
    option = auto_scheduler.TuningOptions(2, verbose=0, measure_callbacks=record)
    task.tune(option)
    earlier = {t.source for t in task.result.trials if not t.disturbed}
    policy = auto_scheduler.SketchPolicy(
        task, auto_scheduler.XGBModel(), seed=1,
        init_search_callbacks=[auto_scheduler.PreloadMeasuredStates(log)],
    )  # fmt: skip
    task.tune(option, search_policy=policy)
    own = [t for t in task.result.trials if not t.resumed]
    assert not earlier & {t.source for t in own if t.strategy != "untuned"} and len(own) >= 2


def test_where_nothing_was_timed_the_least_estimate_is_applied(tmp_path: Path) -> None:
    task, log = task_of(), tmp_path / "rows.json"
    (C,), i = task.outputs, task.outputs[0].op.axis[0]
    where = Where.here([C], task.target, {})
    for number, (estimate, step) in enumerate([(3e-6, "unroll"), (2e-6, "parallel"), (1e-6, "")]):
        s = te.create_schedule(C.op)
        if step:
            getattr(s[C], step)(i)
        outcome = "ok" if step else "wrong answer"
        Database(log).add(where, "C", Trial(number, outcome, s.to_json(), estimate=estimate), [C])
    with pytest.warns(DatabaseWarning, match=r"not timed, and has the least estimate \(line 2 of"):
        s, args = task.apply_best(log)
    assert "parallel i" in str(s)
    check_rows(s, args)
    with pytest.raises(TuningError, match="nothing could be timed"):
        tvm.autotune.best(C, task.target, log)
    with pytest.raises(TuningError, match="no schedule of C for cpu"):
        task_of(4, 7).apply_best(log)


def test_without_trials_the_cost_model_chooses() -> None:
    s, args = auto_scheduler.auto_schedule(task_of())
    assert s.steps
    check_rows(s, args)


def test_the_key_of_a_workload_names_it() -> None:
    key = auto_scheduler.make_workload_key("scaled_rows", (3, (5, 7), "float32"))
    assert key == '["scaled_rows", 3, [5, 7], "float32"]' == task_of().workload_key
    again = auto_scheduler.SearchTask(workload_key=key, target="llvm")
    assert again.outputs[0].shape == (5, 7) and again.compute_dag.flop_ct == 2 * 35


@auto_scheduler.register_workload("nothing computed")
def nothing_computed() -> list[Any]:
    return [te.placeholder((4,), name="A")]


PRELOADED = auto_scheduler.SketchPolicy(
    None, init_search_callbacks=[auto_scheduler.PreloadMeasuredStates("a.json")]
)
REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: auto_scheduler.register_workload(3), "give a function"),
    (lambda: auto_scheduler.SearchTask(), "give func="),
    (lambda: auto_scheduler.SearchTask(func="scaled_row", args=()), "mean 'scaled_rows'"),
    (lambda: auto_scheduler.SearchTask(func=scaled_rows, args=(object(),)), "must be numbers"),
    (lambda: auto_scheduler.SearchTask(workload_key="[1]"), "not the key of a registered"),
    (lambda: auto_scheduler.SearchTask(func=nothing_computed), "return the list of its input"),
    (lambda: auto_scheduler.SearchTask(func=scaled_rows, hardware_params=1), "facts of the"),
    (lambda: task_of().tune(auto_scheduler.TuningOptions()), "give num_measure_trials"),
    (lambda: task_of().tune({}), "give auto_scheduler.TuningOptions"),
    (lambda: task_of().tune(auto_scheduler.TuningOptions(1), 3), "give auto_scheduler.Sketch"),
    (lambda: task_of().tune(auto_scheduler.TuningOptions(1), PRELOADED), "the same file"),
    (lambda: task_of().apply_best("/nowhere/at/all.json"), "there is no such file"),
    (lambda: task_of().apply_best(3), "give the path"),
    (lambda: auto_scheduler.load_best_record("a.json"), "give task.workload_key"),
    (lambda: auto_scheduler.load_best_record("/no.json", task_of().workload_key), "no such file"),
    (lambda: auto_scheduler.TuningOptions(runner="rpc"), "on this machine"),
    (lambda: auto_scheduler.TuningOptions(measure_callbacks=[print]), "give one"),
    (lambda: auto_scheduler.TuningOptions(-1), "an integer of 0 or more"),
    (lambda: auto_scheduler.LocalBuilder(build_func="ndk"), "leave build_func out"),
    (lambda: auto_scheduler.SketchPolicy(None, init_search_callbacks=[3]), "PreloadMeasured"),
]


@pytest.mark.parametrize(("call", "message"), REFUSED)
def test_refusals_say_what_to_do(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(TuningError, match=message):
        call()


@pytest.mark.parametrize("name", ["TaskScheduler", "extract_tasks", "load_records", "RPCRunner"])
def test_absent_names_say_what_to_use(name: str) -> None:
    with pytest.raises(SchedlangError, match=f"^auto_scheduler.{name}"):
        getattr(auto_scheduler, name)
