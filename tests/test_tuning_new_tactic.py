"""A new tactic: its file, its door for packages, and tests that draw it and search with it."""

from __future__ import annotations

import os
from dataclasses import FrozenInstanceError, replace
from pathlib import Path
from random import Random

import numpy as np
import pytest

import schedlang as sl
from schedlang.autotune.knobs import Knobs, Rejected
from schedlang.autotune.model.by_model import by_model
from schedlang.autotune.model.problems import space_of
from schedlang.autotune.space import Candidate, Space
from schedlang.autotune.tactics.driver import schedule_stages
from schedlang.autotune.tactics.facts import Dataflow, Problem, StageFacts
from schedlang.autotune.tactics.knob import Knob, Moves, last
from schedlang.autotune.tactics.registries import CPU, CUDA, registry_for
from schedlang.autotune.tactics.scheduled import Scheduled
from schedlang.autotune.tactics.tactic import Applicable, Registry, Tactic
from schedlang.errors import BuildError, TuningError
from schedlang.schedule.schedule import Schedule
from schedlang.targets.cpu.backend import CpuBackend
from schedlang.tvm.topi import x86 as te_schedules
from tests.cpu_candidates import AVX2
from tests.graphs import product

STRIPS = (2, 4)


# the file of a tactic, such as schedlang/autotune/tactics/cpu/strips.py, has these three
def applies(stage: StageFacts, others: Applicable) -> bool:
    """Return whether the stage is elementwise, at root, and divides into strips."""
    elementwise = stage.attached is None and not stage.is_reduction and bool(stage.op.axis)
    return elementwise and stage.lengths[stage.last] % max(STRIPS) == 0


def apply(s: Schedule, stage: StageFacts, knobs: Knobs) -> Scheduled:
    """Unroll strips of the contiguous axis."""
    strip = knobs.choice(f"{stage.name}.strip", list(STRIPS))
    _, inner = s[stage.tensor].split(stage.op.axis[stage.last], factor=strip)
    s[stage.tensor].unroll(inner)
    return Scheduled(frozenset({stage.tensor}))


TACTIC = Tactic(
    "strips", "unroll strips of the contiguous axis", applies, apply,
    knobs=(
        # with how a search without measurements moves it: late, and from the longest strip
        Knob("C.strip", STRIPS, "the number of elements in a strip", Moves(rank=40, start=last)),
    ),
)  # fmt: skip
# and the tactic is listed in schedlang/autotune/tactics/registries.py
WITH_STRIPS = replace(CPU, tactics=(*CPU.tactics, TACTIC))


def plus_one() -> tuple[sl.Tensor, sl.Tensor]:
    A = sl.placeholder((64, 64), name="A")
    return A, sl.compute((64, 64), lambda i, j: A[i, j] + 1, name="B")


def drawn(output: sl.Tensor, registry: Registry, count: int) -> list[Candidate]:
    space, rng = Space(Problem((output,), AVX2, 2), registry=registry), Random(0)
    return [space.draw(rng) for _ in range(count)]


def test_a_new_tactic_is_drawn() -> None:
    *_, B = plus_one()
    found = drawn(B, WITH_STRIPS, 20)
    assert {c.decisions["B.how"] for c in found} == {"points", "strips"}
    strips = [c for c in found if c.decisions["B.how"] == "strips"]
    assert {c.decisions["B.strip"] for c in strips} == set(STRIPS)
    assert all("unroll j.inner" in str(c.nest) for c in strips)
    # the registry of all other searches is as before
    assert {c.decisions["B.how"] for c in drawn(B, CPU, 5)} == {"points"}


def test_the_cost_model_moves_the_knobs_of_a_new_tactic() -> None:
    *_, B = plus_one()
    only = replace(CPU, tactics=(TACTIC,))
    space = space_of(Problem((B,), AVX2, 2), only)
    assert space.draw(None).decisions == {"B.how": "strips", "B.strip": 4}
    assert space.moves.in_order({"B.strip": 4, "B.how": "strips"}) == ["B.how", "B.strip"]
    assert space.moves.others("B.strip", 4, list(STRIPS)) == [2]
    assert space.moves.nearest({"B.strip": 3})("B.strip", [2, 16]) == 0
    s, _ = by_model(Problem((B,), AVX2, 2), only)
    assert s is not None and "unroll" in {step.primitive for step in s.steps}


@pytest.mark.slow
def test_a_search_uses_a_new_tactic(tmp_path: Path) -> None:
    A, B = plus_one()
    only = replace(CPU, tactics=(TACTIC,))

    def template(s: Schedule, knobs: Knobs) -> None:
        schedule_stages(only, s, Problem((B,), sl.Target(), 2), knobs)

    found = sl.autotune(B, trials=2, template=template, database=tmp_path / "tuning.jsonl")
    assert {t.decisions["B.strip"] for t in found.trials if t.decisions} == set(STRIPS)
    a = np.random.default_rng(0).random(A.shape, "float32")
    np.testing.assert_array_equal(found.kernel(a), a + 1)


class Stripped(CpuBackend):
    """The target of a package that brings its tactics as an object."""

    facts = replace(CpuBackend.facts, name="stripped", backend="", tactics=WITH_STRIPS)


ONLY_STRIPS = replace(CPU, kind="strips", tactics=(TACTIC,))


class OnlyStripped(CpuBackend):
    """The target of a package whose tactics are an entry point."""

    facts = replace(CpuBackend.facts, name="only-stripped", backend="", tactics="strips")


class Mistaken(CpuBackend):
    facts = replace(CpuBackend.facts, name="mistaken", backend="", tactics=TACTIC)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file of the entry points of an installed package: tactics, and a target."""
    folder = tmp_path / "strips-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: strips\nVersion: 1.0\n")
    points = folder / "entry_points.txt"
    module = "tests.test_tuning_new_tactic"
    points.write_text(
        f"[schedlang.tactics]\nstrips = {module}:ONLY_STRIPS\n"
        f"[schedlang.targets]\nstripped = {module}:Stripped\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    # for processes that this one starts
    root = Path(__file__).parents[1]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, (tmp_path, root))))
    return points


def test_a_target_may_have_tactics_of_its_own() -> None:
    *_, B = plus_one()
    space, rng = space_of(Problem((B,), sl.Target.of(Stripped()), 2)), Random(0)
    found = [space.draw(rng) for _ in range(10)]
    assert {c.decisions["B.how"] for c in found} == {"points", "strips"}
    # a model of all tactics is free to choose another one, and no other target has it
    assert sl.autoschedule(B, target=Stripped()).steps
    assert registry_for(sl.Target("cpu")) is CPU


def test_tactics_of_a_package_by_their_entry_point(installed: Path) -> None:
    A, B = plus_one()
    s, why = by_model(Problem((B,), sl.Target.of(OnlyStripped()), 2))
    assert s is not None and "unroll" in {step.primitive for step in s.steps}, why
    a = np.random.default_rng(0).random(A.shape, "float32")
    np.testing.assert_array_equal(sl.build(s, target="python")(a), a + 1)
    # a schedule of a te program is that of the target around it
    with sl.Target.of(OnlyStripped()):
        planned = te_schedules.schedule_injective([B])
    assert "unroll" in {step.primitive for step in planned.steps}


@pytest.mark.slow
def test_a_search_for_a_target_uses_its_tactics(installed: Path, tmp_path: Path) -> None:
    A, B = plus_one()
    found = sl.autotune(B, target="stripped", trials=6, database=tmp_path / "tuning.jsonl")
    assert {"points", "strips"} == {t.decisions["B.how"] for t in found.trials if t.decisions}
    a = np.random.default_rng(0).random(A.shape, "float32")
    np.testing.assert_array_equal(found.kernel(a), a + 1)


@pytest.mark.parametrize(
    ("point", "target", "message"),
    [("other = nowhere:STRIPS", OnlyStripped(), "the entry point strips in schedlang.tactics"),
     ("strips = nowhere:STRIPS", OnlyStripped(), "cannot be loaded: ModuleNotFoundError"),
     ("strips = tests.test_tuning_new_tactic:TACTIC", OnlyStripped(), "tactics are a registry"),
     ("", Mistaken(), "tactics are a registry")],
)  # fmt: skip
def test_what_is_no_registry_is_refused(
    installed: Path, point: str, target: CpuBackend, message: str, tmp_path: Path
) -> None:
    installed.write_text(f"[schedlang.tactics]\n{point}\n")
    *_, B = plus_one()
    with pytest.raises(BuildError, match=message):
        sl.autotune(B, target=target, trials=1, database=tmp_path / "tuning.jsonl")
    with pytest.raises(BuildError, match=message):
        sl.autoschedule(B, target=target)
    with pytest.raises(BuildError, match=message):
        sl.next_steps(sl.schedule(B), target=target)


def test_a_stage_to_which_no_tactic_applies_is_named() -> None:
    *_, C = product(64, 64, 64)
    with pytest.raises(Rejected, match="^no tactic for cpu applies to C$"):
        drawn(C, replace(CPU, tactics=(TACTIC,)), 1)


def test_decisions_name_the_tactic_and_make_the_same_schedule() -> None:
    *_, B = plus_one()
    (found,) = drawn(B, WITH_STRIPS, 1)
    again = sl.schedule(B)
    schedule_stages(WITH_STRIPS, again, Problem((B,), AVX2, 2), Knobs(found.decisions))
    assert again.as_python() == found.schedule.as_python()


def test_a_tactic_may_ask_for_others_but_not_for_itself() -> None:
    *_, C = product(64, 64, 64)
    stage = Dataflow(Problem((C,), AVX2, 2), sl.schedule(C).state).stage(C)
    asked = []

    def alone(stage: StageFacts, others: Applicable) -> bool:
        asked.append(others.before("alone"))
        return "no such tactic" not in others and "tile" in others

    tactics = (*CPU.tactics, replace(TACTIC, name="alone", applies=alone))
    assert [t.name for t in Registry("cpu", tactics).options(stage)] == ["tile", "alone"]
    assert asked == [["tile"]]
    circular = replace(TACTIC, applies=lambda stage, others: "strips" in others)
    with pytest.raises(TuningError, match="strips depends on itself"):
        Registry("cpu", (circular,)).options(stage)


def test_facts_do_not_change_with_the_schedule() -> None:
    *_, C = product(64, 64, 64)
    s = sl.schedule(C)
    stage = Dataflow(Problem((C,), AVX2, 2), s.state).stage(C)
    before = [read.tensor.name for read in stage.reads]
    made = registry_for(AVX2).tactics[0].apply(s, stage, Knobs())
    assert C in made.stages and C not in stage.flow.decided.stages
    assert [read.tensor.name for read in stage.reads] == before == ["A", "B"]
    assert [read.tensor.name for read in stage.after(s).reads] == ["C.local"]
    with pytest.raises(FrozenInstanceError):
        stage.flow.decided.recomputed = 1  # type: ignore[misc]


def test_names_of_tactics_are_unique() -> None:
    with pytest.raises(TuningError, match="not unique"):
        Registry("cuda", (*CUDA.tactics, *CUDA.tactics))
