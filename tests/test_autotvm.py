"""autotvm: the spaces of knobs, templates, tuners, logs, and what is refused."""

from __future__ import annotations

import itertools
import logging
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import schedlang as tvm
from schedlang import autotvm, te
from schedlang.autotune import Database
from schedlang.autotune.knobs import Rejected
from schedlang.autotune.record import Trial, Where
from schedlang.errors import SchedlangError, ScheduleError, TuningError
from schedlang.tvm.autotvm.space import VirtualAxis
from schedlang.tvm.autotvm.strategies import MOST_SHUFFLED, Watched, shuffled


@autotvm.template("test/matmul")
def matmul(n: int, dtype: str) -> Any:
    A, B = (te.placeholder((n, n), dtype, name) for name in "AB")
    k = te.reduce_axis((0, n), name="k")
    C = te.compute((n, n), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    s, cfg = te.create_schedule(C.op), autotvm.get_config()
    y, x = s[C].op.axis
    cfg.define_split("tile_y", y, num_outputs=2)
    cfg.define_split("tile_x", x, num_outputs=2, filter=lambda entity: entity.size[-1] <= 8)
    yo, yi = cfg["tile_y"].apply(s, C, y)
    xo, xi = cfg["tile_x"].apply(s, C, x)
    cfg.define_reorder("order", [yo, xo], policy="all")
    cfg.define_annotate("inner", [xi], policy="try_vec")
    outer = cfg["order"].apply(s, C, [yo, xo])
    s[C].reorder(*outer, k, yi, xi)
    cfg["inner"].apply(s, C, [xi])
    return s, [A, B, C]


def check_product(s: Any, args: Any, n: int) -> None:
    a, b = (np.random.default_rng(seed).random((n, n), "float32") for seed in range(2))
    np.testing.assert_allclose(tvm.build(s, args, "python")(a, b), a @ b, rtol=1e-5)


def test_every_configuration_of_a_template_computes_the_product() -> None:
    task = autotvm.task.create("test/matmul", args=(6, "float32"), target="llvm")
    space = task.config_space
    assert len(space) == 4 * 4 * 2 * 2 and task.flop == 2 * 6**3
    nests = set()
    for index in range(0, len(space), 7):
        config = space.get(index)
        assert config.index == index
        s, args = task.instantiate(config)
        assert s[args[2]].leaf_axes[-1].extent == config["tile_x"].size[1]
        nests.add(str(s))
        check_product(s, args, 6)
    assert len(nests) == len(range(0, len(space), 7))


@pytest.mark.slow
def test_a_search_writes_a_log_and_its_best_is_applied(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log, seen = tmp_path / "matmul.log", []
    task = autotvm.task.create(matmul, args=(12, "float32"), target="llvm")
    tuner = autotvm.tuner.RandomTuner(task)
    with caplog.at_level(logging.DEBUG, "autotvm"):
        tuner.tune(
            n_trial=3,
            measure_option=autotvm.measure_option("local", autotvm.LocalRunner(number=5)),
            callbacks=[autotvm.callback.log_to_file(log), lambda *call: seen.append(call)],
        )  # fmt: skip
    assert [(len(inputs), len(results)) for _, inputs, results in seen] == [(1, 1)] * 3
    assert "RandomTuner: configurations in random order" in str(tuner.result)
    assert sum("FLOPS" in message for message in caplog.messages) == 3
    assert str(tuner.result) == caplog.messages[-1]
    assert tuner.best_flops > 0 and tuner.best_measure_pair is not None

    recorded = list(autotvm.record.load_from_file(log))
    assert {str(i.config.to_json_dict()) for i, _ in recorded} == {
        str(i.config.to_json_dict()) for _, (i,), _ in seen
    }
    history = autotvm.apply_history_best(str(log))
    best = history.query(task.target, task.workload)
    times = [(r.costs[0], i.config.to_json_dict()) for i, r in recorded]
    # a race may have measured the fastest again, on later lines
    last = {str(decisions): seconds for seconds, decisions in times}
    assert best is not None and str(best.to_json_dict()) in last
    with autotvm.apply_history_best(log), tvm.target.Target("llvm"):
        s, args = matmul(12, "float32")
    assert str(s) == str(task.instantiate(best)[0])
    check_product(s, args, 12)

    autotvm.record.pick_best(log, tmp_path / "best.log")
    (only,) = Database(tmp_path / "best.log").entries()
    assert only.seconds == min(r.costs[0] for _, r in recorded)
    # the log is a tuning database, and holds for this computation alone
    with autotvm.apply_history_best([log]), pytest.warns(UserWarning, match="first value"):
        s, args = matmul(8, "float32")
    check_product(s, args, 8)


@pytest.mark.parametrize(("target", "ran"), [("llvm", "cpu"), ("cuda", "cuda-emulator")])
def test_without_times_the_least_estimate_is_applied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, ran: str
) -> None:
    if target == "cuda":
        monkeypatch.setenv("SCHEDLANG_CUDA", "emulator")
    log, task = Database(tmp_path / "log"), autotvm.task.create(limited, args=(16,), target=target)
    where = Where.here(task.outputs, tvm.target.Target(ran), {})
    for number, (lanes, estimate) in enumerate([(2, 3.0), (4, 1.0), (8, 2.0)]):
        trial = Trial(
            number, "ok", "{}", {"lanes": lanes}, estimate=estimate,
            template="autotvm.test/limited(16)",
        )  # fmt: skip
        log.add(where, "B", trial, task.outputs)
    with pytest.warns(tvm.errors.DatabaseWarning, match="was not timed, and has the least"):
        config = autotvm.apply_history_best(log.path).query(task.target, task.workload)
    assert config is not None and config["lanes"].val == 4


def test_a_call_without_a_log_takes_first_values_and_warns() -> None:
    with pytest.warns(UserWarning, match=r"matmul\(6, 'float32'\) has no configuration") as told:
        s, args = matmul(6, "float32")
    assert told[0].filename == __file__
    assert [axis.extent for axis in s[args[2]].leaf_axes] == [6, 6, 6, 1, 1]


def test_a_damaged_log_is_reported_and_a_changed_template_refused(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    log.write_text("__import__('os').system('false')\n")
    task = autotvm.task.create("test/matmul", args=(6, "float32"), target="llvm")
    with pytest.warns(tvm.errors.DatabaseWarning, match="skipped"):
        assert autotvm.apply_history_best(log).query("llvm", task.workload) is None
    other = task.config_space.entity({"tile_y": [-1, 3]})
    with pytest.raises(TuningError, match="no value of the knob 'tile_x'"):
        task.instantiate(other)
    with pytest.raises(TuningError, match=r"\[-1, 5\] of the knob 'tile_y' is none of its options"):
        task.config_space.entity({"tile_y": [-1, 5], "tile_x": [-1, 1]})


def brute_splits(length: int, parts: int, factors: set[int], tails: bool) -> set[tuple[int, ...]]:
    inner = itertools.product(sorted(factors), repeat=parts - 1)
    divides = {sizes for sizes in inner if length % math.prod(sizes) == 0}
    if not tails:
        return divides
    some = itertools.product(sorted(factors), repeat=parts - 1)
    return divides | {sizes for sizes in some if math.prod(sizes) < length}


@given(st.integers(1, 40), st.integers(2, 3), st.sampled_from(["factors", "power2", "verbose"]))
def test_splits_are_all_that_the_policy_allows(length: int, parts: int, policy: str) -> None:
    cfg = autotvm.ConfigSpace()
    cfg.define_split("tile", length, policy=policy, num_outputs=parts)
    sizes = [tuple(entity.size) for entity in cfg.space_map["tile"]]
    divisors = {n for n in range(1, length + 1) if length % n == 0}
    powers = {2**n for n in range(7) if 2**n <= length}
    factors = {"factors": divisors, "power2": powers, "verbose": divisors | powers}[policy]
    wanted = brute_splits(length, parts, factors, policy != "factors")
    assert len(sizes) == len(wanted) and {size[1:] for size in sizes} == wanted
    assert {size[0] for size in sizes} == {-1}


ORDERS: list[tuple[str, dict[str, Any], list[list[int]]]] = [
    ("identity", {}, [[0, 1, 2, 3]]),
    ("interval_all", {"interval": (1, 3)}, [[0, 1, 2, 3], [0, 2, 1, 3]]),
    ("candidate", {"candidate": ["dcba", "abcd"]}, [[3, 2, 1, 0], [0, 1, 2, 3]]),
    ("interleave", {"spatial": ["ab"], "reduce": ["cd"]}, [[0, 2, 1, 3]]),
    ("interleave_cuda", {"spatial": ["ab"], "reduce": ["cd"]}, [[0, 2, 3, 1]]),
]


@pytest.mark.parametrize(("policy", "options", "orders"), ORDERS)
def test_orders(policy: str, options: dict[str, Any], orders: list[list[int]]) -> None:
    axes = {name: VirtualAxis(name, 4) for name in "abcd"}

    def named(value: Any) -> Any:
        return [axes[c] for c in value] if isinstance(value, str) else value

    given = {
        key: [named(chain) for chain in value] if isinstance(value, list) else value
        for key, value in options.items()
    }
    cfg = autotvm.ConfigSpace()
    cfg.define_reorder("order", list(axes.values()), policy, **given)
    assert [entity.perm for entity in cfg.space_map["order"]] == orders


def test_annotations() -> None:
    cfg = autotvm.ConfigSpace()
    axes = [cfg.axis(4) for _ in range(7)]
    cfg.define_annotate("ann", axes[:2], policy="try_unroll_vec")
    assert len(cfg.space_map["ann"]) == 8  # of nine pairs, one vectorizes both
    cfg.define_annotate("bind", axes, policy="bind_gpu")
    assert cfg["bind"].anns[:2] == ["fuse", "blockIdx.z"]
    cfg.define_annotate("cache", axes[:3], policy="locate_cache", num_anchor=2)
    assert [entity.anns for entity in cfg.space_map["cache"]] == [[0, 1], [0, 2], [1, 2]]


def test_annotations_of_a_gpu_bind_and_attach() -> None:
    A = te.placeholder((8, 8, 8), name="A")
    B = te.compute(A.shape, lambda i, j, k: A[i, j, k] + 1, name="B")
    s, cfg = te.create_schedule(B.op), autotvm.ConfigSpace()
    cache = s.cache_read(A, "local", [B])
    axes = list(s[B].op.axis)
    cfg.define_annotate("bind", axes, policy="bind_gpu")
    axes = cfg["bind"].apply(s, B, axes)
    cfg.define_annotate("cache", axes[1:], policy="locate_cache", num_anchor=1)
    cfg["cache"].apply(s, B, axes[1:], source=[[cache]])
    x = np.arange(512, dtype="float32").reshape(8, 8, 8)
    np.testing.assert_array_equal(tvm.build(s, [A, B], "cuda-emulator")(x), x + 1)
    bound = {step.args["thread"] for step in s.steps if step.primitive == "bind"}
    assert {str(thread) for thread in bound} == {"blockIdx.x", "threadIdx.x"}


@autotvm.template("test/limited")
def limited(n: int) -> Any:
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] + 1, name="B")
    s, cfg = te.create_schedule(B.op), autotvm.get_config()
    cfg.define_knob("lanes", [2, 4, 8, 16])
    if cfg["lanes"].val > 4:
        cfg.raise_error("too many lanes")
    s[B].split(B.op.axis[0], cfg["lanes"].val)
    return s, [A, B]


def test_an_invalid_configuration_is_rejected() -> None:
    task = autotvm.task.create(limited, args=(16,), target="llvm")
    template, s = task.template(), tvm.schedule(list(task.outputs))
    with pytest.raises(Rejected, match="too many lanes"):
        template(s, tvm.autotune.Knobs({"lanes": 8}))
    template(s, tvm.autotune.Knobs({"lanes": 4}))
    assert [axis.extent for axis in s[task.outputs[0]].leaf_axes] == [4, 4]
    config = task.config_space.get(3)
    task.instantiate(config)
    assert not config.valid() and task.config_space.valid()


@pytest.mark.slow
def test_a_grid_is_searched_in_order(tmp_path: Path) -> None:
    task = autotvm.task.create(limited, args=(16,), target="llvm")
    tuner = autotvm.tuner.GridSearchTuner(task)
    tuner.tune(n_trial=9, callbacks=[autotvm.callback.log_to_file(tmp_path / "log")])
    assert tuner.result is not None
    assert [t.decisions for t in sorted(tuner.result.trials, key=lambda t: t.number)] == [
        {"lanes": 2}, {"lanes": 4}
    ]  # fmt: skip
    assert "every configuration was tried" in tuner.result.ended
    assert "the order of the grid" in str(tuner.result)


def test_a_knob_may_not_change_what_is_computed(tmp_path: Path) -> None:
    @autotvm.template("test/changing")
    def changing() -> Any:
        cfg = autotvm.get_config()
        cfg.define_knob("scale", [1, 2])
        A = te.placeholder((4,), name="A")
        B = te.compute((4,), lambda i: A[i] * cfg["scale"].val, name="B")
        return te.create_schedule(B.op), [A, B]

    task = autotvm.task.create(changing, args=(), target="llvm")
    with pytest.raises(TuningError, match="computes something else with {'scale': 2}"):
        task.template()(tvm.schedule(list(task.outputs)), tvm.autotune.Knobs({"scale": 2}))


def test_the_first_legal_configuration_gives_the_space() -> None:
    @autotvm.template("test/illegal_first")
    def illegal_first() -> Any:
        A, k = te.placeholder((4, 4), name="A"), te.reduce_axis((0, 4), name="k")
        B = te.compute((4,), lambda i: te.sum(A[i, k], axis=k), name="B")
        s, cfg = te.create_schedule(B.op), autotvm.get_config()
        cfg.define_knob("axis", ["k", "i"])
        s[B].vectorize(k if cfg["axis"].val == "k" else B.op.axis[0])
        return s, [A, B]

    task = autotvm.task.create(illegal_first, args=(), target="llvm")
    assert len(task.config_space) == 2
    with pytest.raises(ScheduleError, match="k is a reduction axis"):
        task.instantiate(task.config_space.get(0))


def test_orders_of_large_spaces_repeat_nothing() -> None:
    large = list(itertools.islice(shuffled(MOST_SHUFFLED * 1000, 1), 500))
    assert len(set(large)) == 500 and max(large) > MOST_SHUFFLED
    assert sorted(shuffled(100, 3)) == list(range(100)) != list(shuffled(100, 3))


def test_a_search_ends_when_trials_bring_no_gain() -> None:
    from schedlang.autotune.search import Exhausted, Random

    watched = Watched(Random(0), "a tuner", 2, ())
    for number, seconds in enumerate((3.0, 2.0, 2.5)):
        watched.learn(Trial(number, "ok", "", seconds=seconds))
    watched.learn(Trial(3, "crashed", ""))
    with pytest.raises(Exhausted, match="no better configuration in 2 trials"):
        watched.propose(None)  # type: ignore[arg-type]


CFG = autotvm.ConfigSpace()
REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: autotvm.get_config(), "no template runs now"),
    (lambda: autotvm.task.create("test/matmull", args=(), target="llvm"), "'test/matmul'"),
    (lambda: autotvm.task.create(matmul, args=8), "a list of arguments"),
    (lambda: matmul([object()]), "must be numbers"),
    (lambda: autotvm.template(3), "give a name"),
    (lambda: CFG["tile"], "no such knob"),
    (lambda: CFG.get(1), "an index from 0 to 0"),
    (lambda: CFG.define_split("t", 8, policy="factor", num_outputs=2), "mean 'factors'"),
    (lambda: CFG.define_split("t", 8), "give num_outputs"),
    (lambda: CFG.define_split("t", te.var("n"), num_outputs=2), "is not known now"),
    (lambda: CFG.define_split("t", 8, num_outputs=2, filter=lambda e: False), "no value is left"),
    (lambda: CFG.define_split("t", 8, policy="candidate", candidate=[[1], [2, 4]]), "same number"),
    (lambda: CFG.define_split("t", 2**40, num_outputs=6), "ways to split"),
    (lambda: CFG.define_reorder("o", [VirtualAxis("i", 4)], "sorted"), "policy is unknown"),
    (lambda: CFG.define_reorder("o", [1], "interval_all"), r"give interval=\(begin, end\)"),
    (lambda: CFG.define_annotate("a", [1], "try_vector"), "policy is unknown"),
    (lambda: CFG.define_annotate("a", [1], "bind_gpu"), "too few"),
    (lambda: CFG.define_knob("k", []), "a list of at least one"),
    (lambda: CFG.__setitem__("k", 3), "not the value of a knob"),
    (lambda: autotvm.measure_option("local", "remote"), "on this machine"),
    (lambda: autotvm.LocalBuilder(build_func="ndk"), "Leave build_func out"),
    (lambda: autotvm.callback.log_to_file(3), "give the path of a file"),
    (lambda: autotvm.callback.log_to_file("x", protocol="pickle"), "can execute"),
    (lambda: autotvm.apply_history_best("/nowhere/at/all.log"), "the file is absent"),
    (lambda: list(autotvm.record.load_from_file("/nowhere/at/all.log")), "the file is absent"),
]


@pytest.mark.parametrize(("call", "message"), REFUSED)
def test_refusals_say_what_to_do(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(TuningError, match=message):
        call()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_trial": 0}, "an integer of 1 or more"),
        ({"measure_option": {}}, "measure_option"),
        ({"si_prefix": "X"}, "give one of"),
        ({"early_stopping": -1}, "early_stopping"),
        ({"callbacks": [3]}, "give functions"),
        ({"callbacks": [autotvm.callback.log_to_file(x) for x in "ab"]}, "has one log"),
    ],
)
def test_refusals_of_a_tuner(options: dict[str, Any], message: str) -> None:
    task = autotvm.task.create("test/matmul", args=(6, "float32"), target="llvm")
    with pytest.raises(TuningError, match=message):
        autotvm.tuner.GATuner(task).tune(**{"n_trial": 1, **options})


@pytest.mark.parametrize("name", ["RPCRunner", "register_topi_compute", "DropletTuner", "tophub"])
def test_absent_names_say_what_to_use(name: str) -> None:
    with pytest.raises(SchedlangError, match=f"^autotvm.{name}"):
        getattr(autotvm, name)


def test_parents_come_from_the_history() -> None:
    task = autotvm.task.create("test/matmul", args=(6, "float32"), target="llvm")
    config = task.config_space.get(5)
    pair = (
        autotvm.MeasureInput(task.target, task, config),
        autotvm.MeasureResult((1e-6,), 0, 0.1),
    )
    tuner = autotvm.tuner.GATuner(task)
    tuner.load_history([pair])
    assert [trial.decisions for trial in tuner._history] == [config.to_json_dict()]
