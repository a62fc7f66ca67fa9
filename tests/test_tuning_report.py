"""Tests of the summary and the HTML report of a search: contents, and safe, complete pages."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from statistics import median
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import schedlang as sl
from schedlang.autotune.record import OUTCOMES, UNCHECKED, Trial, Where
from schedlang.autotune.report.charts import search_curve
from schedlang.autotune.report.effects import explained_part, knob_effects
from schedlang.autotune.report.facts import Facts, correlation, race_seconds, winner
from schedlang.autotune.report.no_result import CONSTRAINED, no_result_message
from schedlang.autotune.report.page import page, write_report
from schedlang.autotune.report.ranks import spearman
from schedlang.autotune.report.scale import Scale, scale_of
from schedlang.autotune.report.summary import summary
from schedlang.autotune.runner import measure, race
from schedlang.autotune.runner.task import Task
from schedlang.errors import TuningError

VOID = {"meta", "br", "link", "img", "hr", "input"}
WHERE = Where("ab12", (("n", 64),), "cpu, 16 vectors of 32 bytes", "a laptop", (("numba", "0.68"),))
# names that would break out of their text if they were not escaped
HOSTILE = "</pre></title><script>alert(1)</script>\"'&<!--]]>\x1b[31m\x00\u202e"


def facts(trials: list[Trial], **changed: Any) -> Facts:
    """Return the facts of a search that found the best of ``trials``, by their race if any."""
    good = [t for t in trials if t.outcome == "ok"]
    good = [t for t in good if t.raced] or good
    best = min(good, key=lambda t: (t.seconds or 0.0, t.estimate or 0.0))
    made = Facts(
        "C", WHERE, trials, 0.008, 50, 20, 0.714, True, "C(A) -> C\nfor i", "def kernel(): pass",
        "s = sl.schedule(C)", 2e9, 75.0, "random", 7, best.number, "all trials are done",
    )  # fmt: skip
    return replace(made, **changed)


def raced(trials: list[Trial], **seconds: float) -> list[Trial]:
    """Return ``trials`` with race times: ``t5=0.002`` is that of trial 5."""
    times = {int(name[1:]): value for name, value in seconds.items()}
    return [
        replace(t, raced=True, first=t.seconds, seconds=times[t.number]) if t.number in times else t
        for t in trials
    ]


def compiled() -> list[Trial]:
    """Return trials for an absent GPU; three raced, and one was too slow to be checked."""
    trials = [replace(t, seconds=None) for t in searched(8)]
    notes = {2: "", 5: f"when measured again: {UNCHECKED}: no answer within 30 s", 7: ""}
    return [
        replace(t, raced=True, detail=notes[t.number]) if t.number in notes else t for t in trials
    ]


def searched(count: int = 40) -> list[Trial]:
    """Return trials whose time depends on one knob, a little on a second, not on a third."""
    trials = []
    for n in range(count):
        lanes, rows, aside = (8, 16, 32)[n % 3], [[4, 1], [2, 2]][n // 3 % 2], n % 7 % 2 == 0
        seconds = 0.064 / lanes * (1.2 if rows[0] == 4 else 1.0)
        outcome = "crashed" if n % 10 == 9 else "ok"
        trials.append(
            Trial(
                n, outcome, "{}", {"lanes": lanes, "C.rows": rows, "aside": aside, "one": 1},
                seconds if outcome == "ok" else None, seconds * 1e6,
                "signal 11" if outcome != "ok" else "",
                f"hash {n}", "random", 1.0,
            )
        )  # fmt: skip
    return trials


class Reader(HTMLParser):
    """A parser that collects the text, and fails on a wrong tag or on one that loads anything."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.inside: dict[str, list[str]] = {}
        self.text = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(dict(attrs)) == len(attrs), tag
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
            self.inside.setdefault(tag, []).append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag, (tag, self.getpos())

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text += data
        for tag in set(self.open):
            self.inside[tag][-1] += data


def pictures(text: str) -> list[ElementTree.Element]:
    return [ElementTree.fromstring(found) for found in re.findall(r"<svg.*?</svg>", text, re.S)]


def charts(text: str) -> list[ElementTree.Element]:
    return [p for p in pictures(text) if p.get("role") == "img"]


def of_class(picture: ElementTree.Element, kind: str) -> list[ElementTree.Element]:
    return [e for e in picture.iter() if kind in (e.get("class") or "").split()]


CASES = {
    "usual": facts(searched()),
    "one trial": facts(searched(1), rank_correlation=None),
    "all but one failed": facts(
        [*(Trial(n, o, "{}", {"a": n}) for n, o in enumerate(OUTCOMES[1:])), Trial(9, "ok", "{}")]
    ),
    "a race": facts(raced(searched(), t5=0.0025, t2=0.003)),
    "broken off": facts(searched(), ended="autotune: no space left on the device", broken=True),
    "compiled": facts(compiled(), timed=False, ran=False, baseline=None, best=5),
    "not timed": facts([replace(t, seconds=None) for t in searched()], timed=False, baseline=None),
    "ok without a time": facts([Trial(0, "ok", "")]),
    "equal times": facts([Trial(n, "ok", "", {"a": n}, 0.002, 1.0) for n in range(9)]),
    "estimates of 0": facts([Trial(n, "ok", "", {"a": n}, 1 + n, -n) for n in range(9)]),
    "odd numbers": facts(
        [Trial(0, "ok", "", {"a": None}, float("nan")), Trial(1, "ok", "", {"a": 0.5}, 0.0),
         Trial(2, "ok", "", {"a": "x"}, 1e-9, float("inf")), Trial(3, "ok", "", {"a": [[]]}, 1e5)],
        best=2,
    ),
    "of a later version": facts([Trial(0, "caught fire", ""), Trial(1, "ok", "", seconds=0.1)]),
    "hostile": facts(
        [replace(t, decisions={HOSTILE: HOSTILE + str(t.number % 3)}, detail=HOSTILE,
                 strategy=HOSTILE) for t in searched()],
        refused=((HOSTILE, 3),), ended=HOSTILE, valid=1,
        name=HOSTILE, best_nest=HOSTILE, best_source="\n" + HOSTILE, best_python=HOSTILE,
        strategy=HOSTILE,
        where=Where(HOSTILE, ((HOSTILE, 1),), HOSTILE, HOSTILE, ((HOSTILE, HOSTILE),)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_page_is_well_formed_self_contained_and_reproducible(case: str) -> None:
    text = page(CASES[case])
    read = Reader(text)
    assert text == page(replace(CASES[case]))
    assert "http" not in text and "url(" not in text and "@import" not in text
    ids = {attrs["id"] for _, attrs in read.tags if "id" in attrs}
    for tag, attrs in read.tags:
        assert tag not in ("script", "link", "img", "iframe", "object", "base", "form")
        assert not {"src", "srcset", "data", "action", "xlink:href"} & set(attrs)
        assert not [name for name in attrs if name.startswith("on")]
        assert "href" not in attrs or (attrs["href"] or "")[1:] in ids
    for picture in pictures(text):
        assert picture.get("viewBox") and (picture.get("aria-label") or picture.get("aria-hidden"))
        assert "nan" not in ElementTree.tostring(picture, "unicode")
    text.encode("utf-8")


def test_the_reader_finds_faults() -> None:
    for text in ("<p>", "<p></b>", "<b><i></b></i>"):
        with pytest.raises(AssertionError):
            Reader(text)


def test_hostile_text_is_escaped() -> None:
    text = page(CASES["hostile"])
    shown = HOSTILE.replace("\x1b", "\\x1b").replace("\x00", "\\x00").replace("\u202e", "\\u202e")
    read = Reader(text)
    assert read.inside["pre"] == [shown, shown, "\n\n" + shown]
    assert read.inside["title"][0] == f"Tuning of {shown}"
    assert shown in read.inside["h1"][0] and read.text.count(shown) > 40
    labels = [picture.get("aria-label") or "" for picture in charts(text)]
    assert any(label.startswith(shown) for label in labels)


# all characters of UTF-8, which st.text() looks for in seconds
CHARACTERS = st.characters(exclude_categories=["Cs"])


@settings(max_examples=40, deadline=None)
@given(st.text(CHARACTERS, max_size=20), st.text(CHARACTERS, max_size=20))
def test_no_name_breaks_a_page(name: str, value: str) -> None:
    trials = [Trial(n, "ok", "", {name: value + "+" * (n % 2)}, 1.0 + n) for n in range(4)]
    text = page(facts(trials, name=value, best_source=name))
    Reader(text)
    pictures(text)
    text.encode("utf-8")


def test_the_numbers_are_those_given() -> None:
    known = facts(raced(searched(), t5=0.0025), duplicates=3)
    read = Reader(page(known))
    cells = dict(zip(read.inside["dt"], read.inside["dd"]))
    assert cells == {
        "best time": "2.5 ms800 GFLOP/s",
        "speedup over no tuning": "3.2×as fast as the untuned schedule (8 ms)",
        "trials": "403 duplicates not measured", "worked": "36",
        "spent": "1 min 15 srandom, seed 7",
    }  # fmt: skip
    assert "20 of 50 drawn sets of decisions make a candidate (40%)" in read.text
    meaning = "The estimate: its order of the candidates is close to the order of their times"
    assert f"{meaning} (rank correlation 0.71;" in read.text
    assert "Trial 5: 2 ms in the search, 2.5 ms when measured again." in read.text
    assert "2.5 ms (first 2 ms)" in read.text and "The search ended: all trials are" in read.text
    assert "cpu, 16 vectors of 32 bytes" in read.text and "numba" in read.text
    assert read.inside["pre"] == ["s = sl.schedule(C)", "C(A) -> C\nfor i", "def kernel(): pass"]


def test_the_curve_shows_times_failures_and_the_best_so_far() -> None:
    trials = searched()
    trials[3] = replace(trials[3], resumed=True)
    curve = charts(page(facts(trials)))[0]
    assert len(of_class(curve, "dot")) == 35 and len(of_class(curve, "kept")) == 1
    said = [e.text for e in curve.iter("title")]
    assert "trial 0: 9.6 ms" in said and "trial 9: 9.6 ms" not in said
    (marks,) = of_class(curve, "failed")
    assert (marks.get("d") or "").count("M") == 4
    texts = [e.text for e in curve.iter("text")]
    assert "crashed" in texts and "untuned 8 ms" in texts and "wrong answer" not in texts
    (steps,) = (e for e in of_class(curve, "step") if e.tag == "path")
    heights = [float(y) for y in re.findall(r"[V ]([\d.]+)", steps.get("d") or "")]
    # trials 0, 1, 2 and 5 were the best so far; y grows downwards on a page
    assert len(heights) == 4 and heights == sorted(heights)
    (ring,) = of_class(curve, "ring")
    assert float(ring.get("cy") or 0) == heights[-1]


def test_the_curve_shows_first_times_and_race_times_separately() -> None:
    before, after = facts(searched()), facts(raced(searched(), t5=0.0045, t2=0.005))
    curves = [charts(page(known))[0] for known in (before, after)]
    said = [[e.text for e in curve.iter("title")] for curve in curves]
    assert said[1] == [*said[0], "4.5 ms in the race"]
    assert not of_class(curves[0], "again") and len(of_class(curves[1], "again")) == 1
    texts = [Reader(page(known)).text for known in (before, after)]
    assert "when measured again" not in texts[0] and "Trial 5: 2 ms." in texts[0]
    assert "diamond" in texts[1] and "diamond" not in texts[0]
    # a trial resumed from a race has no earlier time
    kept = [replace(t, first=None, resumed=True) for t in after.trials]
    assert "when measured again" not in page(facts(kept)) and correlation(kept) is not None
    assert correlation(after.trials) == correlation(before.trials)


def test_a_disturbed_first_time_is_not_shown_as_a_race_time() -> None:
    trials = raced(searched(), t5=0.0025)
    trials[5] = replace(trials[5], first_disturbed=True)
    text = Reader(page(facts(trials))).text
    what = "Trial 5: 2.5 ms when measured again; other work took a core during its first time."
    assert what in text


def test_dots_stand_where_their_times_are() -> None:
    trials = [Trial(n, "ok", "", {}, 10.0**-n) for n in range(3)]
    curve = charts(page(facts(trials, baseline=None)))[0]
    y = [float(dot.get("cy") or 0) for dot in of_class(curve, "dot")]
    assert y[0] < y[1] < y[2] and y[1] - y[0] == pytest.approx(y[2] - y[1], abs=0.11)


def test_the_knob_that_explains_most_comes_first() -> None:
    effects, same = knob_effects(facts(searched()))
    assert [e.name for e in effects] == ["lanes", "C.rows", "aside"] and same == ["one"]
    assert effects[0].explained > 0.9 > 0.1 > effects[2].explained
    lanes = effects[0].columns
    assert [c.label for c in lanes] == ["8", "16", "32"] and [c.best for c in lanes] == [0, 0, 1]
    assert sum(len(c.values) for c in lanes) == 36 and sum(c.failed for c in lanes) == 4
    assert effects[1].columns[0].label == "2, 2"
    texts = Reader(page(facts(searched()))).inside["figcaption"]
    medians = [
        median(t.seconds for t in searched() if t.seconds and t.decisions["lanes"] == lanes)
        for lanes in (32, 8)
    ]
    assert medians == pytest.approx([0.0024, 0.0096])
    assert texts[0] == "lanesexplains 97% of the variation, medians 2.4 ms to 9.6 ms"


def test_knobs_are_named_in_words() -> None:
    trials = searched()
    name = next(iter(trials[-1].decisions))
    shown = page(facts(trials, meanings={name: "rows < 3"}))
    assert f">{name}</strong>rows &lt; 3; explains" in shown


def test_one_candidate_says_nothing_about_knobs_and_estimates() -> None:
    (one,) = searched(1)
    assert one.decisions and one.outcome == "ok"
    shown = page(facts([one]))
    for title in ("What each knob did", "The estimate against the clock", "The search<"):
        assert title not in shown
    assert "The best schedule" in shown


def test_values_of_types_have_columns_and_many_values_are_grouped() -> None:
    kinds = [1, True, 1.0, "1", [1], None]
    trials = [Trial(n, "ok", "", {"k": kinds[n % 6]}, 1.0 + n % 6) for n in range(12)]
    assert len(knob_effects(facts(trials))[0][0].columns) == 6
    trials = [Trial(n, "ok", "", {"k": f"v{n % 30}"}, 1.0 + n % 30) for n in range(60)]
    columns = knob_effects(facts(trials))[0][0].columns
    assert [c.label for c in columns[:2]] == ["v0", "v1"] and columns[-1].label == "19 others"
    assert len(columns) == 12 and len(columns[-1].values) == 38


def test_the_number_of_charts_is_limited_and_the_page_says_so() -> None:
    trials = [
        Trial(n, "ok", "", {f"k{i}": n >> i & 1 for i in range(30)}, 1.0 + n % 5) for n in range(64)
    ]
    trials += [Trial(64, "ok", "", {f"k{i}": 1 for i in range(30)}, 1.0)]
    read = Reader(page(facts(trials)))
    assert len(read.inside["figcaption"]) == 24
    assert "The 24 that explain most are shown; 6 are left out." in read.text
    assert "are left out" not in Reader(page(CASES["usual"])).text


def test_a_page_of_a_search_without_times() -> None:
    read = Reader(page(CASES["not timed"]))
    assert "Nothing was timed." in read.text and "estimate has no unit" in read.text
    assert "best time" not in read.text and "best estimate2000" in read.text
    assert "against the clock" not in read.text
    assert "Nothing was timed." not in Reader(page(CASES["usual"])).text


def test_the_report_distinguishes_run_and_compiled_candidates() -> None:
    known = CASES["compiled"]
    why = "the winner was NOT checked on the emulator (it was only compiled): no answer within 30 s"
    for text in (summary(known), Reader(page(known)).text):
        assert "6 only compiled, 2 correct on the emulator" in text and why[1:] in text
    assert summary(known).splitlines()[3] == f"  {why}"
    checked = replace(known, best=2)
    for text in (summary(checked), page(checked)):
        assert "2 correct on the emulator" in text and "NOT" not in text
    # the end came before the race
    alone = replace(known, best=0)
    assert "(it was only compiled): the search ended before that" in summary(alone)
    # where all that is ok ran there, as with the emulator as a target, there is nothing to say
    assert "emulator" not in summary(replace(known, ran=True, best=2))


def test_a_winner_on_a_gpu_that_the_emulator_did_not_check() -> None:
    trials = raced(searched(), t5=0.002)
    trials[5] = replace(trials[5], detail=f"when measured again: {UNCHECKED}: no answer")
    said = (
        "the winner was NOT checked on the emulator (its result on the GPU was correct): no answer"
    )
    assert said in summary(facts(trials)) and "compiled only" not in summary(facts(trials))
    # the end came before the race, of which the emulator is a part
    known = facts(searched())
    where = replace(known.where, target="cuda sm_90")
    said = "(its result on the GPU was correct): the search ended before that"
    assert said in summary(replace(known, where=where))


def test_the_note_of_a_measurer_is_the_one_that_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = measure.Measured(0, "run timed out", detail="no answer within 30 s")
    monkeypatch.setattr(race, "send", lambda *args, **kwargs: slow)
    monkeypatch.setattr(race, "build", lambda *args: measure.Measured(0, "ok"))
    monkeypatch.setattr(race, "forget", lambda *args: None)
    a = sl.placeholder((4,), name="A")
    outputs = (sl.compute((4,), lambda i: a[i], name="B"),)
    task = Task(outputs, sl.Target("cuda", arch="sm_90"), {}, timed=False)
    (found,) = race.race(None, [measure.Job(0, "")], task)  # type: ignore[arg-type]
    trial = Trial(0, "ok", "", estimate=1.0, detail=found.detail, raced=True)
    text = summary(facts([trial], timed=False, ran=False))
    assert text.splitlines()[3].endswith("(it was only compiled): no answer within 30 s")


def test_the_report_says_why_a_search_ended() -> None:
    usual, broken = CASES["usual"], CASES["broken off"]
    assert "  ended:    all trials are done" in summary(usual).splitlines()
    said = "by an error, and the best so far is kept: no space left on the device"
    assert f"  ended:    {said}" in summary(broken).splitlines()
    assert "The search was interrupted." in page(broken) and said in page(broken)
    assert "broken off" not in page(usual)


def test_the_report_says_why_most_decisions_are_refused() -> None:
    refused = (("the tile is too large", 900), ("8 does not divide 6", 60))
    few = facts(searched(), drawn=1000, valid=40, refused=refused)
    line = "  refused:  900 of the others, because: the tile is too large"
    assert line in summary(few).splitlines()
    assert "refused:" not in summary(replace(few, valid=100))
    text = page(replace(few, valid=100))
    assert text.index("the tile is too large") < text.index("8 does not divide 6")
    assert "made no candidate" in text and "made no candidate" not in page(CASES["usual"])


def test_numbers_are_readable() -> None:
    fast = facts(
        [Trial(0, "ok", "", seconds=0.001)], baseline=1.234, flops=5e10, drawn=1500, valid=3
    )
    lines = summary(fast).splitlines()
    assert lines[0].endswith("1 ms, 50000 GFLOP/s") and lines[1].startswith("  1234 times as fast")
    assert "make a candidate (<1%)" in lines[5]
    assert "(>99%)" in summary(replace(fast, valid=1499))
    read = Reader(page(fast))
    assert "1234×" in read.inside["dd"][1] and "e+" not in read.text
    trials = [Trial(n, "ok" if n else "crashed", "", {}, 1.0 if n else None) for n in range(1000)]
    text = Reader(page(facts(trials))).text
    assert ">99%" in text and "<1%" in text


def test_why_a_search_found_nothing() -> None:
    trials = [Trial(n, "wrong answer", "", detail=f"C[0] is {n // 2}\nmore") for n in range(3)]
    trials += [Trial(3, "crashed", "", detail="\x1b[2J" + "x" * 500)]
    lines = no_result_message(trials, 4, [], "all trials are done", CONSTRAINED).splitlines()
    assert lines[:3] == [
        "none of 4 candidates worked", "  2 times wrong answer: C[0] is 0",
        "  1 time wrong answer: C[0] is 1",
    ]  # fmt: skip
    assert len(lines[3]) < 200 and "\x1b" not in lines[3] and "tolerance=" in lines[4]
    refused = [("the tile is too large", 9)]
    none = no_result_message([], 0, refused, "no other candidates were found", CONSTRAINED)
    assert none.splitlines() == [
        "none of the drawn decisions make a candidate", "  9 times the tile is too large",
        "  Loosen the constraints of the template.",
    ]  # fmt: skip
    early = "the time is up before a candidate was measured: give more trials or more time"
    assert no_result_message([], 1, refused, "the time is up", CONSTRAINED) == early


def test_a_report_is_in_the_order_of_trial_numbers() -> None:
    """The order holds for all outcomes, and if some of a batch are left out."""
    trials = [t for t in searched(12) if t.number not in (3, 4)]
    found, mixed = (page(facts(order, best=5)) for order in (trials, trials[5:] + trials[:5][::-1]))
    assert found == mixed
    rows = re.findall(r'<tr><td class="number">([0-9]+)</td>', found.partition('id="trials"')[2])
    assert [int(n) for n in rows] == [t.number for t in trials]
    dots = re.findall(r'cx="([0-9.]+)" [^>]*><title>trial ([0-9]+):', search_curve(facts(trials)))
    steps = np.polyfit([int(n) for _, n in dots], [float(x) for x, _ in dots], 1, full=True)
    # each number has a place, also those left out
    assert len(dots) == 9 and steps[1][0] < 0.1
    assert {"0", "10"} <= set(
        re.findall(r'text-anchor="middle">([0-9]+)<', search_curve(facts(trials)))
    )


def test_a_report_is_written_or_refused_with_advice(tmp_path: Path) -> None:
    written = write_report(str(tmp_path / "tuning.html"), CASES["usual"])
    assert written == tmp_path / "tuning.html"
    assert written.read_bytes() == page(CASES["usual"]).encode()
    for bad, said in (
        (tmp_path / "none" / "x.html", "there is no folder"), (tmp_path, "this is a folder"),
        (written / "x.html", "there is no folder"), ("x" * 5000, "give another path"),
        ("a\0b", "give another path"), (3, "give the path of the file"),
    ):  # fmt: skip
        with pytest.raises(TuningError, match=said):
            write_report(bad, CASES["usual"])  # type: ignore[arg-type]
    assert [f.name for f in tmp_path.iterdir()] == ["tuning.html"]


def test_the_summary_of_a_search() -> None:
    trials = searched()
    trials[1] = replace(trials[1], resumed=True, source="hash 0")
    lines = summary(facts(raced(trials, t5=0.0025), duplicates=1)).splitlines()
    assert lines == [
        "C on cpu, 16 vectors of 32 bytes: 2.5 ms, 800 GFLOP/s",
        "  3.2 times as fast as the untuned schedule (8 ms)",
        "  trials:   36 ok, 4 crashed",
        "  measured: 35, 1 more from the database, 1 duplicate not measured, in 1 min 15 s"
        " (random, seed 7)",
        "  race:     the winner took 2 ms in the search and 2.5 ms when measured again: the"
        " shortest of many noisy times is too short",
        "  ended:    all trials are done",
        "  space:    20 of 50 drawn sets of decisions make a candidate (40%)",
        "  estimate: its order of the candidates is close to the order of their times (rank "
        "correlation 0.71; 1: same order, 0: no relation)",
        "  best:     trial 5; its schedule as code: result.schedule.as_python()",
        '  report:   result.report("tuning.html") writes a page',
    ]  # fmt: skip


def test_the_summary_says_what_helps_against_frequent_failures() -> None:
    ok = [Trial(n, "ok", "", seconds=1.0 + n) for n in range(3)]
    late = [Trial(3 + n, "build timed out", "") for n in range(3)]
    assert "remedy:   Smaller unrolled tiles compile faster; limits= gives builds more time." in (
        summary(facts([*ok, *late]))
    )
    assert "remedy" not in summary(facts([*ok, *late[:2]]))


def test_the_summary_leaves_out_what_is_not_known() -> None:
    few = searched(2)
    text = summary(facts(few, baseline=None, flops=None, drawn=0, rank_correlation=None))
    assert "GFLOP" not in text and "space" not in text
    assert "too few times" in text and "the untuned schedule has no time" in text


def test_the_summary_where_there_is_no_order_to_compare() -> None:
    """There are enough times, but the estimate is the same for all."""
    trials = [replace(t, estimate=1.0) for t in searched()]
    assert correlation(trials) is None
    text = summary(facts(trials, rank_correlation=None))
    assert "too few times" not in text and "it cannot be compared" in text


def test_the_summary_where_the_untuned_schedule_is_faster() -> None:
    assert "0.5 times as fast as the untuned schedule (1 ms): keep the untuned one" in summary(
        facts(searched(), baseline=0.001)
    )


def test_the_summary_where_nothing_was_timed() -> None:
    text = summary(CASES["not timed"])
    assert "nothing was timed; the best estimate is 2000" in text and " ms" not in text


@pytest.mark.parametrize("case", CASES)
def test_a_summary_is_short_and_has_no_control_characters(case: str) -> None:
    text = summary(CASES[case])
    assert 4 <= len(text.splitlines()) <= 14
    assert all(c == "\n" or c.isprintable() for c in text)


def test_the_winner_is_that_of_the_race() -> None:
    trials = raced([Trial(n, "ok", "", seconds=s) for n, s in enumerate((3.0, 1.0, 2.0))], t1=2.5)
    trials = [
        replace(t, raced=True, first=2.0, seconds=1.5) if t.number == 2 else t for t in trials
    ]
    known = facts(trials, best=2)
    assert winner(known) is trials[2] and race_seconds(known) == 1.5
    assert race_seconds(facts(trials, best=0)) is None
    (column,) = [t.text for t in charts(page(known))[0].iter("title") if "race" in str(t.text)]
    assert column == "1.5 s in the race"


def test_a_correlation_of_ranks() -> None:
    stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(0)
    for _ in range(20):
        x, y = rng.integers(0, 6, (2, 15))
        assert spearman(list(x), list(y)) == pytest.approx(stats.spearmanr(x, y).statistic)
    assert spearman([1, 2, 3], [5, 50, 500]) == 1.0 and spearman([1, 2, 3], [3, 2, 1]) == -1.0
    nan = float("nan")
    assert (
        spearman([1, 2, nan, 3], [1, 2, 0, 3]) == 1.0 and spearman([1, 2, nan], [1, 2, 3]) is None
    )
    assert correlation(searched()) == pytest.approx(1.0)
    assert correlation([Trial(n, "crashed", "", {}, n, n) for n in range(5)]) is None


def test_a_knob_that_explains_no_more_than_chance_explains_nothing() -> None:
    assert explained_part([[1.0], [2.0], [3.0]]) == 0.0 and explained_part([[1.0, 2.0]]) == 0.0
    assert explained_part([[1.0, 1.1], [5.0, 5.1]]) > 0.99
    rng = np.random.default_rng(1)
    assert explained_part([list(rng.normal(size=3)) for _ in range(30)]) < 0.3


@given(st.lists(st.floats(1e-9, 1e6) | st.floats(-1e6, 1e6), min_size=1, max_size=9), st.booleans())
@example([1.0, 2.2250738585e-313], True)
def test_a_scale_holds_its_values_and_some_round_numbers(values: list[float], log: bool) -> None:
    scale = scale_of(values, 0.0, 100.0, log)
    assert all(-1e-6 <= scale(v) <= 100 + 1e-6 for v in values)
    ticks = scale.ticks()
    assert len(ticks) <= 12 and ticks == sorted(set(ticks))


def test_axes_are_labelled_with_round_numbers() -> None:
    for high in np.geomspace(1.05, 1e12, 60):
        assert 2 <= len(Scale(1.0, float(high), 0.0, 1.0, True).ticks()) <= 12, high


@pytest.mark.parametrize(
    ("value", "meaning"),
    [
        (0.9, "its order of the candidates is close to the order of their times"),
        (0.31, "of two candidates, it mostly ranked the faster one first"),
        (-0.1, 'says little about the times, and search="evolve" relies on it'),
        (-0.8, "its order contradicts the times"),
        (-1.0, "its order contradicts the times"),
    ],
)
def test_a_rank_correlation_is_explained(value: float, meaning: str) -> None:
    text = summary(facts(searched(), rank_correlation=value))
    assert meaning in text and f"(rank correlation {value:.2f};" in text


def test_equal_times_have_no_order() -> None:
    """Near the optimum all times are alike, and a correlation would be chance."""
    trials = [
        Trial(n, "ok", "", seconds=0.001 * (1 + 0.001 * n), estimate=-float(n)) for n in range(9)
    ]
    text = summary(facts(trials))
    assert "rank correlation" not in text and "all times are within 1% of the shortest" in text


def test_a_best_time_that_rose_in_the_race_is_explained() -> None:
    trials = searched()
    for seconds, said in ((0.0021, True), (0.00201, False), (0.0019, False)):
        text = summary(facts(raced(trials, t5=seconds)))
        rose = "when measured again: the shortest of many noisy times is too short"
        assert (f"the winner took 2 ms in the search and 2.1 ms {rose}" in text) == said
    # other work is reported elsewhere
    busy = [replace(t, disturbed=t.raced) for t in raced(trials, t5=0.0025)]
    assert "noisy" not in summary(facts(busy))
