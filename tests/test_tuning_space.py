"""One space draws the candidates of the tuner, of the plain schedule and of the next steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.autotune.at_once.plain import plain_schedule
from schedlang.autotune.at_once.scheduler import choose
from schedlang.autotune.knobs import Decisions, Knobs, Rejected
from schedlang.autotune.model.descent import descend
from schedlang.autotune.model.problems import problem_of, space_of
from schedlang.autotune.search import strategy
from schedlang.autotune.space import Candidate, Space
from schedlang.autotune.tactics.facts import Problem
from schedlang.autotune.tactics.registries import CPU
from schedlang.autotune.tactics.tactic import Registry
from schedlang.ir.nest import Nest
from schedlang.schedule.schedule import Schedule, empty_schedule
from schedlang.schedule.step_memo import StepMemo
from schedlang.targets.cpu.backend import CpuBackend
from tests.cpu_candidates import AVX2
from tests.graphs import product
from tests.marks import slow_but

# the cores of a machine that starts no others
CORES = 32


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Candidate]:
    """Return the list to which every draw of any space adds its candidate."""
    candidates: list[Candidate] = []
    draw = Space.draw_unverified

    def seen(space: Space, rng: Random | None, given: Decisions | None = None) -> Candidate:
        candidates.append(draw(space, rng, given))
        return candidates[-1]

    monkeypatch.setattr(Space, "draw_unverified", seen)
    return candidates


def test_every_candidate_is_a_draw_of_a_space(drawn: list[Candidate]) -> None:
    *_, C = product(64, 64, 64)
    search, space = strategy("random", 0), Space(problem_of([C], AVX2, {}))
    # the first proposal is the schedule of the cost model, which may have less threads
    search.propose(space)
    proposed = search.propose(space).schedule
    plain = plain_schedule(space.problem)
    steps = [step.schedule for step in sl.next_steps(sl.schedule(C), AVX2)]
    assert proposed.steps and plain.steps and len(steps) > 10
    known = {id(candidate.schedule) for candidate in drawn}
    assert {id(s) for s in (proposed, plain, *steps)} <= known


def test_candidates_start_from_a_schedule() -> None:
    *_, C = product(64, 64, 64)
    start = sl.schedule(C)
    start[C].unroll(start[C].split(C.op.axis[1], factor=4)[1])
    before = list(start.steps)

    def template(s: Schedule, knobs: Knobs) -> None:
        s[C].parallel(s[C].leaf_axes[knobs.choice("loop", [0, 2, 3])])

    space = Space(problem_of([C], AVX2, {}), template, by_tactics=False, start=start)
    candidate = space.draw(None, {"loop": 0})
    assert [step.primitive for step in candidate.schedule.steps] == ["split", "unroll", "parallel"]
    for refused in (2, 3):
        with pytest.raises(Rejected):
            # a loop is unrolled already, or a reduction axis
            space.draw(None, {"loop": refused})
    assert list(start.steps) == before


def chain() -> sl.Tensor:
    A, W = sl.placeholder((30, 70), name="A"), sl.placeholder((70, 50), name="W")
    k = sl.reduce_axis(70, name="k")
    B = sl.compute((30, 70), lambda i, j: sl.exp(A[i, j]) * 2, name="B")
    C = sl.compute((30, 50), lambda i, j: sl.sum(B[i, k] * W[k, j], axis=k), name="C")
    return sl.compute((30, 50), lambda i, j: sl.max(C[i, j], 0) + 1, name="D")


def rows() -> sl.Tensor:
    A, k, m = sl.placeholder((40, 64), name="A"), *(sl.reduce_axis(64, name=n) for n in "km")
    top = sl.compute((40,), lambda i: sl.max(A[i, k], axis=k), name="top")
    E = sl.compute((40, 64), lambda i, j: sl.exp(A[i, j] - top[i]), name="E")
    total = sl.compute((40,), lambda i: sl.sum(E[i, m], axis=m), name="total")
    return sl.compute((40, 64), lambda i, j: E[i, j] / total[i], name="out")


# decisions whose partial sums fit the registers
FITS: Decisions = {"top.vectors": 1, "total.vectors": 1}


def outcome(space: Space, rng: Random | None, decisions: Decisions) -> tuple[Any, ...]:
    try:
        found = space.draw_unverified(rng, decisions)
    except Rejected as why:
        return type(why), str(why)
    made = found.schedule.to_json(), str(found.nest)
    return *made, found.estimate, found.decisions, list(found.options.items())


@pytest.mark.parametrize("computation", slow_but(["rows"], [chain, rows], lambda f: f.__name__))
@pytest.mark.parametrize("target", [AVX2, sl.Target("cuda", arch="sm_80")], ids=["cpu", "cuda"])
def test_draws_that_remember_earlier_ones_are_the_same(
    target: sl.Target, computation: Callable[[], sl.Tensor]
) -> None:
    space = space_of(problem_of([computation()], target, {}))
    knowing, random = space.remembering(), Random(0)
    found = space.draw_unverified(None, FITS)
    for _ in range(12):
        name = random.choice(list(found.decisions))
        options = found.options[name]
        decisions = dict(found.decisions)
        if options is not None:
            decisions[name] = random.choice(list(options))
        seed = random.choice([None, None, 1, 2])
        each = [outcome(x, None if seed is None else Random(seed), decisions)
                for x in (space, knowing, knowing)]  # fmt: skip
        assert each[0] == each[1] == each[2]
        try:
            found = space.draw_unverified(None, decisions)
        except Rejected:
            continue
    # they are schedules of their own, to which other steps may be added
    first, second = (knowing.draw_unverified(None, FITS).schedule for _ in range(2))
    assert first is not second and type(first) is Schedule
    assert first.state is second.state


def test_draws_that_differ_in_one_stage_share_the_nests_of_the_others() -> None:
    space = space_of(problem_of([rows()], AVX2, {}))
    knowing = space.remembering()
    at_root: Decisions = {**FITS, **dict.fromkeys(("top.at", "E.at", "total.at"), -1)}
    first = knowing.draw_unverified(None, at_root)
    for name, other in (("out.lanes", 8), ("top.vectors", 2)):
        assert first.decisions[name] != other and other in (first.options[name] or ())
        second = knowing.draw_unverified(None, {**first.decisions, name: other})
        known = {id(loop) for loop in first.nest.loops}
        stages: dict[bool, set[str]] = {True: set(), False: set()}
        for loop in second.nest.loops:
            stages[id(loop) in known].add(loop.stage)
        changed, shared = stages[False], stages[True]
        stage = name.split(".")[0]
        assert all(s.startswith(stage) for s in changed) and len(shared) >= 2
        assert str(sl.lower(second.schedule.copy())) == str(second.nest)


def test_the_same_step_on_the_same_stage_has_the_same_loops() -> None:
    memo = StepMemo(empty_schedule([rows()]))
    one, other = memo.schedule(), memo.schedule()
    for s, factor in ((one, 4), (other, 8)):
        s["out"].split(s["out"].op.axis[1], factor=factor)
    loops = [s["top"].split(s["top"].op.axis[0], factor=5) for s in (one, other)]
    copies = [s.cache_write(s.tensor("total"), "local") for s in (one, other)]
    assert loops[0][0] is loops[1][0] and loops[0][1] is loops[1][1] and copies[0] is copies[1]
    assert one.state is not other.state and one.state.of(copies[0]) is other.state.of(copies[0])
    for s in (one, other):
        s["top"].parallel(loops[0][0])
        plain = Schedule.from_json(s.to_json(), list(s.outputs))
        assert str(plain) == str(s) and plain.to_json() == s.to_json()


def test_a_descent_asks_no_tactic_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[tuple[str, str, str]] = []
    apply = Schedule.apply

    def counted(s: Schedule, primitive: str, stage: str, **args: Any) -> Any:
        result = apply(s, primitive, stage, **args)
        taken.append((primitive, stage, s.to_json()))
        return result

    monkeypatch.setattr(Schedule, "apply", counted)
    space = space_of(problem_of([chain()], AVX2, {}))
    assert descend(space, 20) is not None
    assert space.counts["drawn"] > 10
    assert len(taken) > 100 and len(set(taken)) == len(taken)


def starts_few(nest: Nest, target: sl.Target) -> str:
    """Return why a package refuses a nest: its machine starts each iteration on a core."""
    many = any(loop.kind == "parallel" and loop.extent > CORES for loop in nest.loops)
    return "there are more iterations than cores" if many else ""


class Many(CpuBackend):
    """The target of a package that refuses candidates with too many parallel iterations."""

    facts = replace(
        CpuBackend.facts, name="many", backend="", tactics=replace(CPU, checks=(starts_few,))
    )


@pytest.mark.slow
def test_a_check_of_a_package_judges_every_candidate(monkeypatch: pytest.MonkeyPatch) -> None:
    A, B, C = product(256, 256, 256)
    here, there = AVX2, sl.Target.of(Many())
    space = space_of(Problem((C,), there, 4))
    for seed in range(20):
        try:
            assert not starts_few(space.draw(Random(seed)).nest, there)
        except Rejected:
            continue
    assert space.reasons["there are more iterations than cores"] and space.counts["valid"]
    a, b = np.random.default_rng(0).integers(0, 4, (2, 256, 256)).astype("float32")

    def check(target: sl.Target, origin: str, many: bool) -> None:
        choice = choose(C, target, database="none.jsonl")
        assert choice.origin == origin
        assert bool(starts_few(sl.lower(choice.schedule), target)) == many
        np.testing.assert_array_equal(sl.build(choice.schedule, [A, B, C])(a, b), a @ b)

    check(there, "model", False)
    for target in (here, there):
        steps = sl.next_steps(sl.schedule(C), target)
        assert any(starts_few(step.nest, target) for step in steps) == (target is here)

    def fails(problem: object) -> None:
        raise KeyError("what no tactic knows")

    monkeypatch.setattr("schedlang.autotune.at_once.scheduler.by_model", fails)
    check(here, "plain", True)
    check(there, "plain", False)


@pytest.mark.parametrize("target", [AVX2, sl.Target("cuda", arch="sm_90")], ids=["cpu", "gpu"])
def test_a_plain_schedule_asks_no_tactic_and_no_estimate(
    target: sl.Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*arguments: Any, **options: Any) -> None:
        raise KeyError("what nobody knows")

    for name in ("estimate", "estimate_gpu", "spilled", "gpu_spills"):
        monkeypatch.setattr(f"schedlang.autotune.rules.{name}", fails)
    monkeypatch.setattr(Registry, "options", fails)
    *_, C = product(64, 64, 64)
    choice = choose(C, target, database="none.jsonl")
    assert choice.origin == "plain" and "the tactics failed: KeyError" in choice.note
    assert choice.schedule.steps
