"""The live page without a browser: history, edited code, definitions, sessions, measurements."""

from __future__ import annotations

import base64
import json
import re
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from threading import Thread
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import schedlang as sl
from schedlang.__main__ import main
from schedlang.autotune.runner.task import Limits
from schedlang.errors import LiveError, SchedlangError
from schedlang.hints.candidates import candidates
from schedlang.hints.meanings import MEANINGS
from schedlang.hints.refusals import refusals
from schedlang.live.definition import definition
from schedlang.live.edits import edit
from schedlang.live.history import History
from schedlang.live.measure import FAILED, OK, RUNNING, WAITING, Measurer, Timing, better
from schedlang.live.session import Session
from schedlang.schedule.trace import variables_of
from tests import graphs, shown_schedules
from tests.fuzz.graphs import build, random_graph

TARGET = sl.Target("cpu", vector_bytes=32)


def product(n: int = 64) -> sl.Schedule:
    return sl.schedule(graphs.product(n, n, n)[2])


def defined(s: sl.Schedule) -> str:
    return definition(s.outputs, variables_of(s.at(0).state))


# history


# a product, and the next steps of the schedules that examples came to
SMALL = product(32)
STEPS: dict[str, list[Any]] = {}


@settings(max_examples=12, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["take", "undo", "redo", "go"]), st.integers(0, 99)),
                max_size=12))  # fmt: skip
def test_random_moves_keep_every_state(moves: list[tuple[str, int]]) -> None:
    history, known = History.of(SMALL), STEPS
    # the same tree, by hand: the steps and the parent of each state
    model: list[tuple[str, int | None]] = [(history.state.key, None)]
    at, undone = 0, list[int]()
    for what, number in moves:
        if what == "take":
            here = history.state
            steps = known.setdefault(here.key, []) or sl.next_steps(here.schedule, TARGET)
            known[here.key] = steps
            step = steps[number % len(steps)]
            key = step.schedule.to_json()
            same = [k for k, one in enumerate(model) if one == (key, at)]
            if not same:
                model.append((key, at))
            at, undone = (same or [len(model) - 1])[0], []
            history = history.take(step.schedule, step.primitive)
        elif what == "undo":
            parent = model[at][1]
            if parent is None:
                with pytest.raises(LiveError, match="nothing to undo"):
                    history.undo()
                continue
            undone, at = [at, *undone], parent
            history = history.undo()
        elif what == "redo":
            if not undone:
                with pytest.raises(LiveError, match="nothing to redo"):
                    history.redo()
                continue
            at, undone = undone[0], undone[1:]
            history = history.redo()
        else:
            chosen = number % len(model)
            undone = undone if chosen == at else []
            at, history = chosen, history.go(chosen)
        assert history.current == at
        assert [(s.key, s.parent) for s in history.states] == model
        # a path leads from the start to the state, along parents
        path = history.path(at)
        assert path[0] == 0 and path[-1] == at
        assert all(model[b][1] == a for a, b in zip(path, path[1:]))


def test_a_state_is_not_changed_from_outside() -> None:
    s = product()
    history = History.of(s)
    s[s.outputs[0]].unroll(s.outputs[0].op.axis[0])
    assert not history.state.schedule.steps


# edited code


@pytest.mark.parametrize("name", shown_schedules.TEN)
def test_printed_code_is_read_again(name: str) -> None:
    s = shown_schedules.TEN[name]()
    assert edit(s.as_python(), s).schedule.to_json() == s.to_json()


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 99), max_size=3))
def test_random_steps_round_trip_through_code(choices: list[int]) -> None:
    start = s = product(32)
    for choice in choices:
        found = list(candidates(s, TARGET))
        s = s.copy()
        with suppress(SchedlangError), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found[choice % len(found)].take(s)
    made = edit(s.as_python(), start).schedule
    assert made.to_json() == s.to_json() and str(made) == str(s)


def test_the_code_of_a_long_predicate_is_read_again() -> None:
    text = "i, j = s[C].op.axis\ne = i + 3 * j\n" + "e = e * e\n" * 12
    made = edit(f"{text}s[C].set_store_predicate(e < 3)", product(8)).schedule
    # as text it would have 2**12 factors
    assert len(made.as_python()) < 2000
    assert edit(made.as_python(), product(8)).schedule.to_json() == made.to_json()


def test_code_as_a_person_writes_it() -> None:
    s = product()
    text = """
# half of the rows, by 4
io, jo, ii, ji = s[C].tile(*C.op.axis, 4, 2 * 8)
s["C"].reorder(io, jo, *s[C].op.reduce_axis, ii, ji)
s[C].vectorize(s[C].leaf_axes[-1]); s[C].unroll(ii)
BB = s.cache_read(B, "global", [C])
s[BB].transform_layout(lambda k, j: (j // 16, k, j % 16))
s.transform_argument(A, lambda i, k: (k, i))
"""
    made = edit(text, s).schedule
    assert [x.primitive for x in made.steps] == [
        "tile", "reorder", "vectorize", "unroll", "cache_read", "transform_layout",
        "transform_argument",
    ]  # fmt: skip
    assert "vectorize j.inner in 0..16" in str(made) and "B.global: float32[4, 64, 16]" in str(made)


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("s[C].unroll(C.op.axis[0])\nimport os", 2, "does not run imports"),
        ("x = ().__class__", 1, "has no attribute __class__"),
        ("s.__class__", 1, "the schedule has no step __class__"),
        ("s[C]._apply('unroll')", 1, "has no step _apply"),
        ("s[C]._schedule", 1, "has no step _schedule"),
        ("s.save('x')", 1, "has no step save"),
        ("s.to_json()", 1, "has no step to_json"),
        ("C.op.body", 1, "the operation C has no attribute body"),
        ("C.name.format", 1, "the tensor C has no attribute name"),
        ("sl.build(s)", 1, "sl.build is not a step"),
        ("sl.errors", 1, "sl.errors is not a step"),
        ("sl = s", 1, "sl is schedlang"),
        ("open('x')", 1, "there is no variable open"),
        ("exec('1')", 1, "there is no variable exec"),
        ("[x for x in s]", 1, "does not run comprehensions"),
        ("f'{s}'", 1, "does not run formatted text"),
        ("for x in s[C].leaf_axes:\n    s[C].unroll(x)", 1, "does not run loops"),
        ("def f(): pass", 1, "does not run functions"),
        ("s[C].vectorize(**{})", 1, "without \\*\\*"),
        ("x = 'a' * 10", 1, "arithmetic takes numbers"),
        ("x = [1] * 10", 1, "arithmetic takes numbers"),
        ("x = 2**64", 1, "arithmetic takes numbers"),
        ("x = 99999999999 * 99999999999", 1, "more than 64 bits"),
        ("x = 1 // 0", 1, "ZeroDivisionError"),
        ("s[C].split(C.op.axis[0], factr=2)", 1, "did you mean 'factor'"),
        ("s[C].splt(C.op.axis[0], 2)", 1, "did you mean 'split'"),
        ("s[C].vectorize(C.op.reduce_axis[0])", 1, "k is a reduction axis, so all its lanes"),
        ("s[C].op.axis[7]", 1, "there are 2 elements"),
        ("i, j, k = s[C].op.axis", 1, "3 variables are given 2 values"),
        ("i = j = 1", 1, "does not run chained assignments"),
        ("s[C].split(", 1, "was never closed"),
        ("x = " + "-" * 60 + "1", 1, "nested more than 40 deep"),
        ("s[D].unroll(1)", 1, "there is no variable D"),
        ("s = sl.schedule(A)", 1, "the schedule of this page computes C"),
        ("s[C].unroll(C.op.axis[0])\ns = sl.schedule(C)", 2, "the schedule has steps already"),
        ("s[C].pragma(C.op.axis[0], b'x')", 1, "b'x' cannot be an argument"),
        ("s[C].transform_layout(lambda i, j=1: (j, i))", 1, "one parameter for each dimension"),
        # an error message with this list would have 2**40 items
        ("a = [1]\n" + "a = [a, a]\n" * 40 + "s[C].split(a)", 12, "more than 5,000 items"),
        ("a = (1,)\n" + "a = (*a, *a)\n" * 40 + "s[a]", 14, "more than 5,000 items"),
        ("BB = s.cache_read(B, 'global', [C])\n"
         "s[BB].transform_layout(lambda i, j: s[BB].compute_inline())", 2, "it takes no step"),
    ],
)  # fmt: skip
def test_what_is_no_step_is_refused_at_its_line(text: str, line: int, what: str) -> None:
    with pytest.raises(LiveError, match=what) as caught:
        edit(text, product())
    assert caught.value.line == line and str(caught.value).startswith(f"line {line}: ")


def test_long_and_deep_texts_are_refused() -> None:
    for text in ("#" * 60_000, "(" * 5000 + ")" * 5000, "x\0"):
        with pytest.raises(LiveError):
            edit(text, product())


def test_warnings_of_an_edit_are_notes() -> None:
    A = sl.placeholder((8, 8), name="A")
    k = sl.reduce_axis(8, name="k")
    # 2 and -2 tie, so that the order decides
    pick = sl.comm_reducer(lambda x, y: sl.select(abs(x) >= abs(y), x, y), lambda t: sl.const(0, t))
    C = sl.compute((8,), lambda i: pick(A[i, k], axis=k), name="C")
    s = sl.schedule(C)
    text = "ko, ki = s[C].split(s[C].op.reduce_axis[0], factor=4)\ns[C].reorder(ki, ko)"
    (note,) = edit(text, s).notes
    assert "where values tie the result depends on that order" in note
    page = Heard(s)
    page.ask(do="edit", base=0, text=text)
    assert page.view(1)["notes"] == [note]


# definitions


def test_definitions_define_what_they_were_made_of() -> None:
    plain = 0
    for seed in range(40):
        graph = random_graph(Random(seed))
        space = build(graph)
        s = sl.schedule([space[name] for name in graph.outputs])
        text = defined(s)
        plain += "loads(" not in text
        made: dict[str, Any] = {}
        exec(f"{text}\n{s.as_python()}", made)
        assert str(made["s"]) == str(s), text
    # the others have reducers of their own, which are written as data
    assert plain > 30


def test_a_pasted_program_computes_the_product() -> None:
    s = sl.next_steps(product(16), TARGET)[0].schedule
    space: dict[str, Any] = {}
    exec(f"{defined(s)}\n{s.as_python()}\nf = sl.build(s, target='python')", space)
    a, b = np.random.default_rng(0).integers(0, 9, (2, 16, 16)).astype("float32")
    np.testing.assert_array_equal(space["f"](a, b), a @ b)


def test_a_reducer_of_ones_own_is_written_as_data() -> None:
    A = sl.placeholder((4, 8), name="A")
    k = sl.reduce_axis(8, name="k")
    add = sl.comm_reducer(lambda x, y: x + y, lambda t: sl.const(0, t), name="add")
    s = sl.schedule(sl.compute((4,), lambda i: add(A[i, k], axis=k), name="B"))
    text = defined(s)
    assert "loads(" in text
    space: dict[str, Any] = {}
    exec(f"{text}\n{s.as_python()}", space)
    assert str(space["s"]) == str(s) and space["A"].shape == (4, 8)


# hints


def test_every_step_has_a_meaning() -> None:
    seen: set[str] = set()
    few = sl.schedule(graphs.product(2, 32, 64)[-1])
    for make in (product, lambda: few, shown_schedules.attached, shown_schedules.packed):
        seen |= {step.primitive for step in sl.next_steps(make(), TARGET)}
    assert seen <= set(MEANINGS)
    assert {"vectorize", "parallel", "tile", "cache_read", "cache_write", "rfactor", "prefetch",
            "fuse", "split", "compute_root", "compute_inline"} <= seen  # fmt: skip


def test_new_stages_keep_the_result() -> None:
    A, B, C = graphs.product(2, 32, 64)
    s = sl.schedule(C)
    a, b = (np.random.default_rng(0).integers(0, 9, t.shape).astype("float32") for t in (A, B))
    packed = next(x for x in sl.next_steps(s, TARGET) if x.primitive == "vectorize").schedule
    wanted = {"cache_read", "cache_write", "rfactor", "prefetch", "pack"}
    steps = [x for start in (s, packed) for x in sl.next_steps(start, TARGET)
             if x.primitive in wanted]  # fmt: skip
    assert {x.primitive for x in steps} == wanted
    for step in steps:
        f = sl.build(step.schedule, [A, B, C], target="python")
        np.testing.assert_array_equal(f(a, b), a @ b, step.code)


def first_choices(s: sl.Schedule) -> list[Any]:
    """Return the steps of a person who always takes the first one, while it promises anything."""
    taken: list[Any] = []
    while (step := sl.next_steps(s, TARGET)[0]).speedup >= 1.03:
        taken.append(step)
        s = step.schedule
    return taken


def test_first_choices_lead_to_a_fast_product() -> None:
    taken = first_choices(product(512))
    assert [s.primitive for s in taken][:2] == ["register tile", "parallel"]
    assert len(taken) <= 6
    promised = np.prod([s.speedup for s in taken])
    assert promised > 30
    # one core alone is promised more than 15 times as fast
    assert promised / next(s.speedup for s in taken if s.primitive == "parallel") > 15


def test_refusals_are_in_their_own_words() -> None:
    found = {r.text for r in refusals(product())}
    assert found == {
        "vectorize(k) on stage C: k is a reduction axis, so all its lanes would add into the same "
        "element.",
        "parallel(k) on stage C: k is a reduction axis, so all its iterations would add into the "
        "same element.",
        "compute_inline() on stage C: C is an output and must be stored",
    }


# sessions


class Heard:
    """A client of a session without measurements: it asks, and knows the last of each message."""

    def __init__(self, s: sl.Schedule, until: str = "", **options: Any) -> None:
        self.told: list[dict[str, Any]] = []
        self.session = Session(s, target=TARGET, tell=self.told.append,
                               **{"measure": False, **options})  # fmt: skip
        self.work(until)

    def work(self, until: str = "") -> None:
        """Let the session find out everything, or the parts up to the one called ``until``."""
        while not any(until in message for message in self.told if until) and self.session.work():
            pass

    def ask(self, **message: Any) -> list[dict[str, Any]]:
        found = self.session.receive(message)
        self.work()
        # every message is JSON
        json.dumps([found, self.told], allow_nan=False)
        return found

    def view(self, number: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for message in self.session.hello():
            if message["type"] == "view" and message["number"] == number:
                found = message
        return found

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [m for m in self.told if m["type"] == kind]


def test_a_session_takes_edits_undoes_branches_and_compares() -> None:
    page = Heard(product())
    first = page.view(0)
    assert first["steps"][0]["primitive"] == "register tile" and first["steps"][0]["speedup"] > 3
    assert first["code"] == "s = sl.schedule(C)\n" and "C[i, j] += A[i, k]" in first["text"][-1]
    # 64 * 64 * 64 multiplications and additions on single elements, each with two loads
    assert first["counters"]["rows"] == [["C", 2 * 64**3, 64**2, 2 * 64**3, 0, 0]]
    panels = first["picture"]["panels"]
    assert [(p["name"], p["rows"], p["columns"]) for p in panels][0] == ("C", 64, 64)
    assert not page.ask(do="take", number=0, step=0)
    assert not page.ask(do="take", number=1, step=1)
    assert page.ask(do="undo") == [] and page.session.history.current == 1
    made = page.ask(do="edit", base=1, text=page.view(1)["code"] + "s[C].parallel(i_outer)\n")
    assert made == [{"type": "edited", "number": 3}]
    tree = page.of("tree")[-1]
    assert [s["parent"] for s in tree["states"]] == [None, 0, 1, 1] and tree["current"] == 3
    assert tree["states"][3]["label"] == "edit · parallel"
    (rows,) = page.ask(do="compare", a=0, b=3)
    old, new = page.view(0)["text"], page.view(3)["text"]
    assert [old[a] for a, _, _ in rows["rows"] if a is not None] == old
    assert [new[b] for _, b, _ in rows["rows"] if b is not None] == new
    assert all((old[a] == new[b]) != changed for a, b, changed in rows["rows"]
               if a is not None and b is not None)  # fmt: skip
    assert str(page.session.schedule) == "\n".join(new)


@pytest.mark.parametrize(
    ("message", "what"),
    [
        (None, "unknown here"),
        ({"do": "eval"}, "unknown here"),
        ({"do": ["take"]}, "unknown here"),
        ({"do": "take", "number": 0, "step": 999}, "not known yet"),
        ({"do": "preview", "number": 0, "step": 999}, "not known yet"),
        ({"do": "take", "number": "0", "step": 0}, "there is no state '0'"),
        ({"do": "go", "to": True}, "there is no state True"),
        ({"do": "go", "to": 7}, "the last one is 0"),
        ({"do": "undo"}, "nothing to undo"),
        ({"do": "edit", "base": 0, "text": 3}, "an edit is a text"),
        ({"do": "edit", "base": 0, "text": "s[C].unroll(1)"}, "line 1: unroll"),
        ({"do": "compare", "a": 0}, "there is no state None"),
        ({"do": "measure", "number": 0, "steps": "x"}, "not known yet"),
        ({"do": "restore", "states": 1}, "not a list"),
        ({"do": "restore", "states": [7], "current": []}, "1 of 1 states do not fit"),
    ],
)
def test_a_wrong_request_is_a_message_and_changes_nothing(message: Any, what: str) -> None:
    session = Session(product(8), measure=False)
    (found,) = session.receive(message)
    assert found["type"] == "problem" and what in found["text"]
    assert len(session.history.states) == 1


def test_code_that_a_person_wrote_comes_back_as_written() -> None:
    page = Heard(product())
    text = "# rows first\nio, jo, ii, ji = s[C].tile(*C.op.axis, 4, 16)\ns[C].unroll( ii )"
    page.ask(do="edit", base=0, text=text)
    assert page.view(1)["code"] == text and page.session.history.at(1).code == text
    # a step follows it, and the whole still leads to the schedule
    page.ask(do="take", number=1, step=0)
    code = page.view(2)["code"]
    assert code.startswith(text + "\n") and len(code) > len(text) + 5
    s = edit(code, product()).schedule
    assert s.to_json() == page.session.schedule.to_json()
    # a comment more is no other state
    page.ask(do="edit", base=1, text=f"{text}  # four of them")
    assert len(page.session.history.states) == 3
    assert page.view(1)["code"] == f"{text}  # four of them"
    # a variable of one's own, where the code of a step has another name
    page.ask(do="edit", base=0, text='mine = s.cache_read(B, "global", [C])')
    steps = page.view(3)["steps"]
    number = next(n for n, one in enumerate(steps) if one["stage"] == "B.global")
    page.ask(do="take", number=3, step=number)
    code = page.view(4)["code"]
    assert edit(code, product()).schedule.to_json() == page.session.schedule.to_json()


def test_pictures_of_operands_have_a_scale_of_their_own() -> None:
    n = 16
    (view,) = (m for m in Heard(product(n)).session.hello() if m["type"] == "view")
    a, b = (next(p for p in view["picture"]["panels"] if p["name"] == name) for name in "AB")
    first = np.frombuffer(base64.b64decode(b["first"]), np.uint8).reshape(n, n)
    # B is walked down its columns, all in the first row of C: its picture has all of the scale
    assert (first[0] < first[-1]).all() and (np.diff(first.astype(int), axis=0) >= 0).all()
    assert first.min() == 1 and first.max() == 255 and (first[-1, :-1] <= first[0, 1:]).all()
    assert b["part"] == pytest.approx(1 / n, rel=0.1) and b["begin"] < 0.01
    # the last row of A comes with the last row of C
    assert a["part"] > 1 - 2 / n


@pytest.mark.slow
def test_a_client_restores_what_another_session_knew() -> None:
    old = Heard(product())
    old.ask(do="take", number=0, step=0)
    old.ask(do="take", number=0, step=1)
    old.ask(do="take", number=1, step=0)
    states = [{"parent": s.parent, "label": s.label, "code": s.code}
              for s in old.session.history.states]  # fmt: skip
    new = Heard(product())
    assert new.ask(do="restore", states=states, current=2) == []
    assert [(s.key, s.parent) for s in new.session.history.states] == [
        (s.key, s.parent) for s in old.session.history.states
    ]
    assert new.session.history.current == 2
    lost = [*states, {"parent": 0, "label": "x", "code": "import os"}, 7]
    (found,) = new.ask(do="restore", states=lost, current=0)
    assert "2 of 6 states do not fit" in found["text"]
    assert len(new.session.history.states) == 4


def test_sizes_and_guards() -> None:
    page = Heard(shown_schedules.by_size())
    assert "sizes={'n': 1024}" in page.session.hello()[0]["impossible"]
    assert "its size n has no number" in page.view(0)["picture"]["caption"]
    assert "need numbers" in page.view(0)["counters"]["text"]
    assert "sizes={'n': 1024}" in page.ask(do="measure", number=0)[0]["text"]
    counted = Heard(shown_schedules.attached()).view(0)["counters"]
    # each of the 64 * 64 elements reads three of X and three of H, 8 strips of 10 rows
    assert counted["rows"][0][:2] == ["X", 3 * 8 * 10 * 64]


def transpose(n: int) -> sl.Schedule:
    A = sl.placeholder((n, n), name="A")
    B = sl.compute((n, n), lambda i, j: A[j, i], name="B")
    s = sl.schedule(B)
    copy = s.cache_read(A, "shared", [B])
    rows, columns, row, column = s[B].tile(*B.op.axis, 32, 32)  # type: ignore[call-arg]
    for axis, tag in zip((rows, columns, row, column),
                         ("blockIdx.y", "blockIdx.x", "threadIdx.y", "threadIdx.x")):  # fmt: skip
        s[B].bind(axis, tag)
    s[copy].compute_at(s[B], columns)
    for axis, tag in zip(s[copy].op.axis, ("threadIdx.y", "threadIdx.x")):
        s[copy].bind(axis, tag)
    return s


def test_a_kernel_that_takes_long_to_follow_is_not_counted() -> None:
    session = Session(transpose(1 << 13), target="cuda-emulator")
    while session.work():
        pass
    view = next(m for m in session.hello() if m["type"] == "view")
    assert view["counters"]["rows"] == []
    assert "134,217,728 runs of statements take too long" in view["counters"]["text"]


def test_a_schedule_of_a_gpu_is_counted_on_the_emulator() -> None:
    told: list[dict[str, Any]] = []
    session = Session(transpose(64), target="cuda-emulator", measure=True, tell=told.append)
    while session.work():
        pass
    hello, view = (next(m for m in session.hello() if m["type"] == kind) for kind in
                   ("hello", "view"))  # fmt: skip
    # 64 * 64 elements in warps of 32 are 128 loads and 128 stores of 4 sectors each; a warp reads
    # a column of 32 * 32 elements, all of one bank; 4 blocks of 1024 of 2048 threads
    assert view["counters"]["rows"] == [["B", 256, 1024, 4.0, 256, 31 * 128, 4, "100%"]]
    assert view["estimate"] > 0 and view["steps"] == view["places"] == []
    assert "next steps for CPUs" in hello["unguided"]
    assert hello["build"] == 'f = sl.build(s, target=sl.Target("cuda-emulator", arch="sm_90"))'
    (refused,) = session.receive({"do": "measure", "number": 0})
    assert "counted here, not timed" in refused["text"]
    # a row of 33 elements puts the elements of a column in different banks
    code = view["code"] + "s[A_shared].storage_align(s[A_shared].op.axis[0], 32, 1)\n"
    assert session.receive({"do": "edit", "base": 0, "text": code})[0]["type"] == "edited"
    while session.work():
        pass
    view = next(m for m in session.hello() if m["type"] == "view" and m["number"] == 1)
    assert view["counters"]["rows"] == [["B", 256, 1024, 4.0, 256, 0, 4, "100%"]]
    # what is pasted runs on the emulator
    space: dict[str, Any] = {}
    exec("\n".join([hello["definition"], view["code"], hello["build"]]), space)
    a = np.random.default_rng(0).integers(0, 9, (64, 64)).astype("float32")
    np.testing.assert_array_equal(space["f"](a), a.T)
    session.close()


@pytest.mark.parametrize("target", ["cuda-emulator", "cpu"])
def test_counts_are_at_the_sizes_that_are_given(target: str) -> None:
    """The counts and the estimate are those of a computation with numbers for its sizes."""

    def shown(size: Any, sizes: Any) -> dict[str, Any]:
        A = sl.placeholder((size, 64), name="A")
        B = sl.compute((size, 64), lambda i, j: A[i, j] + 1, name="B")
        s = sl.schedule(B)
        if target != "cpu":
            for axis, tag in zip(B.op.axis, ("blockIdx.x", "threadIdx.x")):
                s[B].bind(axis, tag)
        session = Session(s, target=target, sizes=sizes, measure=False)
        while session.work():
            pass
        view = next(m for m in session.hello() if m["type"] == "view")
        session.close()
        return view

    n = sl.var("n")
    sized, plain, unsized = shown(n, {"n": 300}), shown(300, None), shown(n, None)
    assert sized["counters"]["rows"] == plain["counters"]["rows"] != []
    assert sized["estimate"] == pytest.approx(plain["estimate"])
    assert unsized["counters"]["rows"] == [] and unsized["estimate"] > 0
    assert "sizes={'n': 1024}, or --size NAME=N" in unsized["counters"]["text"]


def test_a_schedule_without_threads_says_so_for_a_gpu() -> None:
    session = Session(product(8), target="cuda", measure=False)
    while session.work():
        pass
    (view,) = (m for m in session.hello() if m["type"] == "view")
    assert view["estimate"] is None and "bound to blocks" in " ".join(view["notes"])
    assert view["counters"]["rows"] == [] and "bound to blocks" in view["counters"]["text"]


def test_a_schedule_for_a_gpu_shows_and_says_what_is_wrong() -> None:
    page = Heard(shown_schedules.on_a_gpu(), until="counters")
    assert "blockIdx" in "".join(page.view(0)["text"]) and page.view(0)["counters"]["text"]


def test_a_mistake_of_ours_is_named_and_the_page_lives_on(monkeypatch: Any) -> None:
    def broken(*_: object) -> Any:
        raise KeyError("no such thing")

    for part in ("picture_part", "counters_part", "steps_tried", "refused_part"):
        with monkeypatch.context() as patch:
            patch.setattr(f"schedlang.live.page.{part}", broken)
            view = Heard(product(8)).view(0)
            assert "KeyError: 'no such thing'" in json.dumps(view)
            assert {"picture", "counters", "steps", "refused"} <= set(view)
    page = Heard(product(8))
    monkeypatch.setattr("schedlang.live.session.edit", broken)
    (found,) = page.ask(do="edit", base=0, text="")
    assert "a mistake of schedlang itself: KeyError" in found["text"]


def test_a_large_input_that_the_drawn_part_does_not_read_is_left_out() -> None:
    X = sl.placeholder((1 << 31,), name="X")
    C = sl.compute((1 << 31,), lambda i: sl.if_then_else(i > 1 << 30, X[i], 0.0), name="C")
    picture = Heard(sl.schedule(C)).view(0)["picture"]
    assert [panel["name"] for panel in picture["panels"]] == ["C"]
    assert "X): the iterations that are drawn access none of its elements" in picture["caption"]


def test_a_total_is_a_picture_of_one_element() -> None:
    A = sl.placeholder((1 << 20,), name="A")
    k = sl.reduce_axis(1 << 20, name="k")
    page = Heard(sl.schedule(sl.compute((), lambda: sl.sum(A[k], axis=k), name="T")))
    (first, *_) = page.view(0)["picture"]["panels"]
    assert (first["name"], first["rows"], first["columns"]) == ("T", 1, 1)
    assert "rfactor" in {s["primitive"] for s in page.view(0)["steps"]}


@pytest.mark.parametrize(
    ("sizes", "what"),
    [({"m": 4}, "its sizes are n"), ({"n": 0}, "an integer of 1 or more"),
     ({"n": "4"}, "an integer of 1 or more"), ({"n": True}, "an integer of 1 or more")],
)  # fmt: skip
def test_sizes_that_the_computation_does_not_have_are_refused(sizes: Any, what: str) -> None:
    with pytest.raises(LiveError, match=what):
        Session(shown_schedules.by_size(), sizes=sizes, measure=False)
    with pytest.raises(LiveError, match="it has no symbolic size"):
        Session(product(8), sizes=sizes, measure=False)


def test_a_title_does_not_stand_for_the_messages() -> None:
    html = Heard(product(8), title="MESSAGES <messages>").session.html()
    assert "<title>MESSAGES &lt;messages&gt;</title>" in html
    (text,) = re.findall('id="messages">(.*)</script><script type="module">', html)
    assert json.loads(text)[0]["title"] == "MESSAGES <messages>"


def test_hostile_names_stay_text() -> None:
    page = Heard(product(8), title='</script><img src=x onerror="alert(1)">\x1b[31m')
    html = page.session.html()
    assert "<img" not in html and html.count("</script>") == 2
    assert "\x1b" not in html and "&lt;/script&gt;&lt;img src=x" in html


# measurements


def wait(check: Callable[[], Any], seconds: float = 30.0) -> Any:
    end = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.02)
    return check()


def measurer(command: list[str], **limits: float) -> Measurer:
    _, _, C = graphs.product(4, 4, 4)
    return Measurer((C,), TARGET, {}, lambda steps: None, Limits(**limits), command)


def done(found: Measurer, key: str) -> Timing | None:
    timing = found.known.get(key)
    return timing if timing is not None and timing.status in (OK, FAILED) else None


# a process in place of the one that measures: it answers as ANSWER says
FAKE = """
import json, sys, time, os
for line in sys.stdin:
    asked = json.loads(line)
    reply = {"re": asked["id"], "resources": {}}
    if asked["do"] == "build": ANSWER
    if asked["do"] == "time": reply.update(seconds=0.25, quiet=True)
    print(json.dumps(reply), flush=True)
"""


def fake(tmp_path: Path, answer: str) -> list[str]:
    path = tmp_path / "fake.py"
    path.write_text(FAKE.replace("ANSWER", answer))
    return [sys.executable, str(path)]


def test_a_crashed_child_is_a_message_and_the_next_one_measures(tmp_path: Path) -> None:
    flag = tmp_path / "crashed"
    once = f"if not os.path.exists({str(flag)!r}): open({str(flag)!r}, 'w'); os._exit(3)"
    found = measurer(fake(tmp_path, f"\n        {once}"))
    steps = product(4).to_json()
    found.ask(steps)
    timing = wait(lambda: done(found, steps))
    assert timing.status == FAILED and "crashed: ended with status 3" in timing.text
    found.ask(steps)
    assert done(found, steps) is timing
    found.ask(steps, again=True)
    timing = wait(lambda: (t := done(found, steps)) is not None and t.status == OK and t)
    assert timing.seconds == 0.25
    found.close()


def test_the_files_of_the_child_are_removed(tmp_path: Path, monkeypatch: Any) -> None:
    folder = tmp_path / "schedlang-tune-of-this-test"
    monkeypatch.setattr("schedlang.live.measure.new_folder", lambda: folder)
    found = measurer(fake(tmp_path, "pass"))
    found.close()
    assert not folder.exists()
    found = measurer(fake(tmp_path, "pass"))
    found.ask("{}")
    assert wait(lambda: done(found, "{}")).seconds == 0.25 and folder.exists()
    found.close()
    assert not folder.exists()


def test_a_child_that_hangs_is_ended(tmp_path: Path) -> None:
    found = measurer(fake(tmp_path, "time.sleep(60)"), build=0.3, run=0.3)
    found.ask("{}")
    timing = wait(lambda: done(found, "{}"))
    assert timing.status == FAILED and timing.text == "Building the kernel took more than 0.3 s."
    found.close()


def test_a_child_that_does_not_start_is_a_message(tmp_path: Path) -> None:
    found = measurer([sys.executable, "-c", "raise SystemExit('no such module')"])
    found.ask("{}")
    assert "did not start" in wait(lambda: done(found, "{}")).text
    found.close()


def test_the_newest_time_is_told_last() -> None:
    """Two threads tell times: the one that waited longer must not have the last word."""
    session = Session(product(4), measure=False)
    key, told, others = session.history.state.key, list[str](), list[Thread]()

    def tell(message: dict[str, Any]) -> None:
        if not others:
            # a time arrives while an older one is being told
            session._measurer.known[key] = Timing(OK, 0.5)
            others.append(Thread(target=session._timed, args=(key,)))
            others[0].start()
            others[0].join(0.2)
        told.append(message["status"])

    session.tell = tell
    session._measurer.known[key] = Timing(RUNNING)
    session._places[key] = [{"state": 0}]
    session._timed(key)
    others[0].join()
    assert told == [RUNNING, OK]


def test_a_file_does_not_wait_for_times() -> None:
    session = Session(product(4), measure=False)
    key = session.history.state.key
    session._places[key] = [{"state": 0}]
    for status in (WAITING, RUNNING, FAILED):
        session._measurer.known[key] = Timing(status)
        assert ('"type":"time"' in session.html()) == (status == FAILED)


@pytest.mark.slow
def test_a_state_is_measured_in_another_process() -> None:
    told: list[dict[str, Any]] = []
    session = Session(product(16), tell=told.append)
    try:
        timing = wait(lambda: [m for m in told if m["type"] == "time" and m["status"] == "ok"])
        assert timing[0]["state"] == 0 and 0 < timing[0]["seconds"] < 1
        assert any(m["type"] == "time" and m["status"] == "ok" for m in session.hello())
    finally:
        session.close()


def test_steps_are_measured_without_being_taken(tmp_path: Path) -> None:
    told: list[dict[str, Any]] = []
    session = Session(product(4), target=TARGET, measure=False, tell=told.append,
                      command=fake(tmp_path, "pass"))  # fmt: skip
    while session.work():
        pass
    assert session.receive({"do": "measure", "number": 0, "steps": [1, 0]}) == []

    def measured() -> set[tuple[int, int]]:
        times = [m for m in told if m["type"] == "time" and m["status"] == "ok"]
        return {(m["of"], m["step"]) for m in times if m["seconds"] == 0.25}

    wait(lambda: measured() == {(0, 0), (0, 1)})
    # taken, the step has its time already
    session.receive({"do": "take", "number": 0, "step": 1})
    session.receive({"do": "measure", "number": 1, "steps": None})
    assert len(session.history.states) == 2
    wait(lambda: any(m["type"] == "time" and m.get("state") == 1 and m["status"] == "ok"
                     for m in session.hello()))  # fmt: skip
    session.close()


def test_a_large_history_compares_with_parents_and_the_start(monkeypatch: Any) -> None:
    monkeypatch.setattr("schedlang.live.session.MOST_COMPARED", 2)
    page = Heard(product(8))
    for number in range(3):
        page.ask(do="take", number=number, step=0)
    pairs = {(m["a"], m["b"]) for m in page.session._pairs()}
    assert pairs == {(0, 1), (0, 2), (1, 2), (0, 3), (2, 3)}


# the widget


def test_the_widget_answers_as_the_page_does(monkeypatch: Any) -> None:
    pytest.importorskip("anywidget", reason='needs anywidget: pip install "schedlang[live]"')
    s = product(16)
    widget = s.live(target=TARGET, measure=False)
    sent: list[dict[str, Any]] = []
    monkeypatch.setattr(type(widget), "send", lambda _, content: sent.extend(content["messages"]))
    widget._handle_custom_msg({"do": "hello"}, [])
    assert [m["type"] for m in sent][:3] == ["hello", "style", "tree"]
    assert any("refused" in m for m in sent)
    widget._handle_custom_msg({"do": "take", "number": 0, "step": 0}, [])
    assert widget.schedule.steps and not s.steps
    assert re.fullmatch("<live page of C: state 1, [a-z_ ]+ · C, of 2>", repr(widget))
    widget._handle_custom_msg("no request", [])
    assert [m["text"] for m in sent if m["type"] == "problem"][0].startswith("the page asks")
    widget.close()


@pytest.mark.slow
def test_the_widget_shows_in_a_notebook(tmp_path: Path) -> None:
    pytest.importorskip("anywidget", reason='needs anywidget: pip install "schedlang[live]"')
    nbformat, client = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    saved = tmp_path / "history.html"
    cells = [
        "import schedlang as sl\nfrom tests.graphs import product",
        "page = sl.schedule(product(16, 16, 16)[2]).live()\npage",
        'page._handle_custom_msg({"do": "edit", "base": 0, "text": "s[C].unroll(1)"}, [])',
        f"page.save({str(saved)!r})\npage.close()",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in cells])
    client.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    shown = notebook.cells[1].outputs[-1].data
    assert "application/vnd.jupyter.widget-view+json" in shown
    assert shown["text/plain"] == "<live page of C: state 0, start, of 1>"
    assert "s = sl.schedule(C)" in saved.read_text("utf-8")


# the command


def test_the_command_names_what_is_wrong(tmp_path: Path, capsys: Any) -> None:
    pytest.importorskip("aiohttp")
    script = tmp_path / "script.py"

    def run(text: str, *more: str, name: str = "s") -> str:
        script.write_text(text)
        assert main(["live", f"{script}:{name}", "--no-open", *more]) == 2
        found: str = capsys.readouterr().err
        assert "Traceback" not in found
        return found

    assert "script.py:2: ZeroDivisionError: division by zero" in run("x = 1\ny = 1 / 0\n")
    assert "the script ended with exit status 3" in run("raise SystemExit(3)")
    assert "it makes no schedule" in run("x = 1")
    assert "an object of type int" in run("s = 1")
    defined = "import schedlang as sl\nC = sl.compute((4,), lambda i: i, name='C')\n"
    offered = "its tensors are C, and " f"{script}:C opens the schedule of C without steps"
    assert offered in run(defined) and offered in run(f"{defined}s = 1\n")
    made = "import schedlang as sl\ns = sl.schedule(sl.compute((4,), lambda i: i, name='B'))\n"
    assert "there is no folder" in run(made, "--save", str(tmp_path / "no" / "x.html"))
    assert "this is a folder" in run(made, "--save", str(tmp_path))
    assert "--size m=4: there is no symbolic size m; B has none" in run(made, "--size", "m=4")
    assert "--size n: give a name and a number" in run(made, "--size", "n")
    assert "a port is a number from 0 to 65535" in run(made, "--port", "99999")


def test_without_the_extra_one_sentence_says_so(monkeypatch: Any, capsys: Any) -> None:
    for library in ("aiohttp", "anywidget"):
        monkeypatch.setitem(sys.modules, library, None)
    assert main(["live", "script.py:s"]) == 2
    found = capsys.readouterr().err
    assert found == (
        'python -m schedlang live: the page needs aiohttp: pip install '
        '"schedlang[live]" installs it.\n'
    )
    with pytest.raises(ImportError, match=r'needs anywidget: pip install "schedlang\[live\]"'):
        product(4).live()


def test_of_several_times_the_best_counts() -> None:
    quiet, disturbed, failed = Timing(OK, 2e-3), Timing(OK, 1e-3, quiet=False), Timing(FAILED)
    assert better(None, disturbed) is disturbed
    assert better(disturbed, quiet) is quiet and better(quiet, disturbed) is quiet
    assert better(quiet, Timing(OK, 1e-3)).seconds == 1e-3
    assert better(Timing(OK, 3e-3, quiet=False), disturbed) is disturbed
    assert better(quiet, failed) is failed and better(failed, quiet) is quiet
