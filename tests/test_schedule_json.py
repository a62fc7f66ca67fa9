"""Untrusted JSON is replayed as a schedule or refused, and runs no code."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

import schedlang as sl
from schedlang.errors import ScheduleError
from schedlang.schedule.schedule import Schedule
from tests.graphs import matmul


def recorded() -> tuple[SimpleNamespace, dict[str, Any]]:
    """Return a computation, and a schedule recorded on an equal one."""
    g = SimpleNamespace(**matmul())
    g.s[g.C].split(g.i, factor=4)
    g.s[g.D].compute_at(g.s[g.C], g.s[g.C].leaf_axes[0])
    g.s.cache_read(g.B, "shared", [g.C])
    g.s[g.C].set_store_predicate(g.j < 40)
    return SimpleNamespace(**matmul()), json.loads(g.s.to_json())


def edited(path: str, value: Any) -> str:
    """Return the recorded schedule with one place changed."""
    _, data = recorded()
    place: Any = data
    *parents, last = [int(p) if p.isdigit() else p for p in path.split(".")]
    for part in parents:
        place = place[part]
    place[last] = value
    return json.dumps(data)


DEEP: Any = []
for _ in range(400):
    DEEP = [DEEP]

HOSTILE: list[tuple[str, Any, str]] = [
    ("schedlang", 2, r"the schedule has format 2, but this version of schedlang reads format 1"),
    ("schedlang", True, r"the schedule has format True"),
    ("author", "x", r"the text is not a schedule: it must be an object of"),
    ("steps", {}, r'"steps" of a schedule must be a list, not \{\}'),
    ("steps.0", "__import__('os')", r'step 1 must be an object of "primitive", "stage" and "args"'),
    ("steps.0.why", "x", r"step 1 must be an object of"),
    ("steps.0.primitive", "explode", r"step 1: 'explode' is not a primitive; choose one of split"),
    ("steps.0.primitive", "__class__", r"step 1: '__class__' is not a primitive"),
    ("steps.0.primitive", ["split"], r"step 1: \['split'\] is not a primitive"),
    ("steps.0.stage", 3, r'step 1, split: "stage" must be a name and "args" an object'),
    ("steps.0.stage", "Q", r"step 1, split, cannot be replayed: there is no stage 'Q'"),
    ("steps.2.stage", "C", r"step 3, cache_read, cannot be replayed: there is no stage 'C'"),
    ("steps.0.args", [], r'step 1, split: "stage" must be a name and "args" an object'),
    ("steps.0.args.by", 4, r"step 1, split, has no argument 'by'"),
    ("steps.0.args.state", 4, r"step 1, split, has no argument 'state'"),
    ("steps.0.args.__class__", 4, r"has no argument '__class__'"),
    ("steps.1.args", {}, r"step 2, compute_at, is missing its argument 'parent'"),
    ("steps.0.args.factor", 0, r"step 1, split, cannot be replayed: split\(i, factor=0\)"),
    ("steps.0.args.factor", 10**300, r"offsets would overflow 64-bit integers"),
    ("steps.0.args.factor", 1e300, r"but must be an integer"),
    ("steps.0.args.factor", "__import__('os').system('true')", r"but must be an integer"),
    ("steps.0.args.factor", DEEP, r"nested list, which no primitive takes"),
    ("steps.0.args.factor", {"__reduce__": 1}, r"is not an argument of a primitive"),
    ("steps.0.args.tail", None, r"tail=None is not a known tail strategy"),
    ("steps.0.args.axis", "i", r"'i' is not an axis"),
    ("steps.0.args.axis.axis", "j", r"axis 0 of C is i, not 'j'"),
    ("steps.0.args.axis.loop", 9, r"there is no axis 9 of C, whose axes are i, j, k"),
    ("steps.0.args.axis.loop", -1, r"there is no axis -1 of C"),
    ("steps.0.args.axis.loop", True, r"there is no axis True of C"),
    ("steps.0.args.axis.stage", "D", r"axis 0 of D is x, not 'i'"),
    ("steps.0.args.axis.stage", ["C"], r"there is no stage \['C'\]; the stages are D, C"),
    ("steps.1.args.parent", {"stage": "Q"}, r"there is no stage 'Q'; the stages are D, C"),
    ("steps.1.args.parent", 5, r"step 2, compute_at, cannot be replayed"),
    ("steps.2.args.tensor.tensor", "A", r"the tensor at position 1 is B, not 'A'"),
    ("steps.2.args.tensor.input", 77, r"there is no tensor 'B' at position 77"),
    ("steps.2.args.tensor", "B", r"step 3, cache_read, cannot be replayed"),
    ("steps.2.args.readers", 5, r"step 3, cache_read, cannot be replayed"),
    ("steps.2.args.readers", [5, None], r"step 3, cache_read, cannot be replayed"),
    ("steps.3.args.predicate.expr", [["call", "system", [], "bool", False]], r"cannot be replayed"),
    ("steps.3.args.predicate.expr", [["leaf", "Q/0"]], r"cannot be replayed"),
    ("steps.3.args.predicate.expr", "i < 3", r"step 4, set_store_predicate, cannot be replayed"),
    ("steps.3.args.predicate", "__import__('os')", r"is not an expression"),
]


@pytest.mark.parametrize("case", range(len(HOSTILE)))
def test_json_that_does_not_fit_is_refused(case: int) -> None:
    path, value, match = HOSTILE[case]
    g, _ = recorded()
    with pytest.raises(ScheduleError, match=match):
        Schedule.from_json(edited(path, value), g.C)


@pytest.mark.parametrize(
    "text",
    ["", "{", "null", "[]", "3", '"s"', "[" * 100_000, "1" * 5000, "import os", "NaN", None, 3],
    ids=range(12),
)
def test_text_that_is_not_a_schedule_is_refused(text: Any) -> None:
    with pytest.raises(ScheduleError, match="the text is not a schedule"):
        Schedule.from_json(text, matmul()["C"])


def test_json_for_another_computation() -> None:
    _, data = recorded()
    E = sl.compute((64, 48), lambda i, j: i * j, name="C")
    with pytest.raises(ScheduleError, match="compute_at, cannot be replayed: there is no stage "
                                            "'D'"):
        Schedule.from_json(json.dumps(data), E)


@pytest.mark.slow
def test_json_with_any_value_changed_is_replayed_or_refused() -> None:
    """Each scalar of the recorded schedule is replaced by each of a few strange values."""
    strange = [None, True, -1, 2**63, 1.5, "", "C", [], {}, [[]], {"axis": "i"}, {"stage": "C"}]
    g, data = recorded()
    places: list[list[Any]] = []
    stack: list[tuple[list[Any], Any]] = [([], data)]
    while stack:
        path, value = stack.pop()
        items: Any = value.items() if isinstance(value, dict) else enumerate(value)
        for key, inner in items:
            places.append([*path, key])
            if isinstance(inner, (dict, list)):
                stack.append(([*path, key], inner))
    for path in places:
        for value in strange:
            _, data = recorded()
            place: Any = data
            for part in path[:-1]:
                place = place[part]
            place[path[-1]] = value
            try:
                Schedule.from_json(json.dumps(data), g.C)
            except ScheduleError:
                continue
