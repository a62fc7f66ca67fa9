"""Notebooks and terminals show nests, schedules, kernels, results and errors."""

from __future__ import annotations

import pickle
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser
from traceback import walk_tb
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.__main__ import main
from schedlang.errors import ScheduleError
from schedlang.ir.rewrite import with_buffers
from schedlang.runtime.kernel_html import kernel_html
from schedlang.schedule.nest_diff import nest_diff
from tests import shown_schedules

VOID = {"br", "hr", "img", "meta"}


class Checker(HTMLParser):
    """A parser that fails on tags that are not closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []
        self.classes: list[str] = []
        self.titles: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        found = dict(attrs)
        self.tags.add(tag)
        self.classes += (found.get("class") or "").split()
        self.titles.append(found.get("title") or "")
        assert not any(name.startswith("on") or name == "src" for name in found)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("style", "script"):
            self.text.append(data)
            # nbconvert leaves one space of such text elsewhere
            assert data.strip() or len(data) < 2 or "pre" in self.open


def checked(html: str) -> Checker:
    """Return what a page holds; fail if it is malformed or asks for anything from elsewhere."""
    parser = Checker()
    parser.feed(html)
    parser.close()
    assert not parser.open
    assert "http" not in html and "@import" not in html and "url(" not in html
    return parser


def tiled() -> sl.Schedule:
    return shown_schedules.tiled(300, 1000, 400)


def test_a_schedule_shows_its_nest() -> None:
    s = tiled()
    page = checked(s._repr_html_())
    text = "".join(page.text)
    for line in str(s.nest()).splitlines():
        assert line.strip() in text
    assert {"parallel", "unroll", "vectorize", "serial", "leaf"} <= set(page.classes)
    assert "119,040,000×" in text


def test_names_say_what_they_are() -> None:
    html = tiled()._repr_html_()
    title = r'title="A: float32\[300, 400\], an input, 468.8 KiB"'
    assert re.search(rf'<var class="v\d+ def" {title}', html)
    assert 'title="j.inner: vectorize loop of stage C, 32 iterations">j.inner</var>' in html


def test_loops_of_one_name_are_told_apart() -> None:
    A = sl.placeholder((6, 8), name="A")
    B = sl.compute((6, 8), lambda i, j: A[i, j] + 1, name="B")
    C = sl.compute((5, 7), lambda i, j: B[i, j] + B[i + 1, j + 1], name="C")
    html = sl.schedule(C)._repr_html_()
    pattern = r'<var class="(v\d+)[^"]*" title="j: serial loop of stage (.), (\d)'
    uses = re.findall(pattern, html)
    classes = {stage: {c for c, s, _ in uses if s == stage} for stage in "BC"}
    # the loop and two indices of stage B; the loop and three indices of stage C
    assert [(s, e) for _, s, e in uses] == [("B", "8")] * 3 + [("C", "7")] * 4
    assert len(classes["B"]) == len(classes["C"]) == 1 and classes["B"] != classes["C"]
    # the two loops over k of a tiled product, and those of its rest
    loops = re.findall(r'<var class="(v\d+) def" title="k:', tiled()._repr_html_())
    assert len(set(loops)) == len(loops) == 2


def margins(s: sl.Schedule) -> list[tuple[str, str]]:
    """Return the tooltip and the text of each margin of a nest."""
    return re.findall(r'<i title="([^"]*)">([^<]*)</i>', s._repr_html_())


def test_the_margin_counts_with_guards_or_says_that_it_is_a_bound() -> None:
    X = sl.placeholder((26, 32), name="X")
    H = sl.compute((26, 32), lambda i, j: X[i, j] * 2, name="H")
    V = sl.compute((24, 32), lambda i, j: H[i, j] + H[i + 1, j] + H[i + 2, j], name="V")
    s = sl.schedule(V)
    s[H].compute_at(s[V], V.op.axis[0])
    s[H].store_root()
    s[V].split(V.op.axis[1], factor=5)
    shown = [text for _, text in margins(s)]
    # the window computes each row of H once: 26 rows, of 3 * 24 iterations; 7 * 5 is more than 32
    assert f"{26 * 32}×" in shown and f"{3 * 24 * 32:,}×" not in shown
    assert shown[-2:] == [f"{24 * 35}×", f"{24 * 32}×"]
    assert margins(s)[-1][0] == f"The statement runs {24 * 32} times, exactly"
    # which elements pass is in an array
    m = sl.placeholder((32,), "int32", name="m")
    k = sl.reduce_axis(32, name="k")
    C = sl.compute((4,), lambda i: sl.sum(m[k] + i, axis=k, where=m[k] > 0), name="C")
    s = sl.schedule(C)
    title, text = margins(s)[-1]
    assert text == "≤128×"
    assert title == "The statement runs 128 times at most: a guard may skip some"


def test_the_margin_has_counts_and_bytes() -> None:
    A = sl.placeholder((6, 8), name="A")
    B = sl.compute((6, 8), lambda i, j: A[i, j] + 1, name="B")
    C = sl.compute((6, 8), lambda i, j: B[i, j] * 2, name="C")
    html = sl.schedule(C)._repr_html_()
    assert re.findall("<i title[^>]*>(.*?)</i>", html) == [
        "192 B", "6×", "48×", "48×", "6×", "48×", "48×"
    ]  # fmt: skip
    assert "--margin: 5ch" in html
    text = "".join(checked(html).text)
    assert "A 192 B, C 192 B" in text


def test_a_difference_is_side_by_side() -> None:
    s = tiled()
    found = s.diff(1)
    assert isinstance(found, str) and "+for i.outer in 0..75:" in found
    page = checked(found._repr_html_())
    assert "step 1: tile on C" in "".join(page.text)
    assert page.classes.count("added") == 8 and page.classes.count("removed") == 5
    # the lines stand beside each other, with gaps where one side has none
    left, right = found._repr_html_().split('<div class="pane">')[1:]
    assert left.count('class="line') == right.count('class="line')
    assert page.classes.count("gap") == 3


def test_steps_are_a_film_strip() -> None:
    s = tiled()
    assert isinstance(s.steps, tuple) and len(s.steps) == 5
    page = checked(s.steps._repr_html_())
    assert page.classes.count("frame") == 6
    text = "".join(page.text)
    assert "s[C].tile(i, j, 4, 32)" in text and "s[C].parallel(i_outer)" in text


def test_the_code_of_each_step_joins_to_the_whole() -> None:
    s = tiled()
    parts = [s.code(count) for count in range(1, len(s.steps) + 1)]
    assert "\n".join([s.at(0).as_python().strip(), *parts]) == s.as_python().strip()


def test_steps_and_differences_are_plain_data() -> None:
    s = tiled()
    assert pickle.loads(pickle.dumps(s.steps)) == tuple(s.steps)
    assert pickle.loads(pickle.dumps(s.diff())) == str(s.diff())


def test_a_kernel_shows_its_nest_and_its_file() -> None:
    f = sl.build(tiled(), target="python")
    page = checked(f._repr_html_())
    text = "".join(page.text)
    assert "def C_kernel" in text and "parallel i.outer in 0..75:" in text
    # each line of the file is on the page
    for line in f.source.splitlines():
        assert line in text
    assert page.classes.count("n1") == 1 + f.origins.count(1)


def test_a_kernel_without_statements_shows() -> None:
    A = sl.placeholder((0,), name="A")
    f = sl.build(sl.schedule(sl.compute((0,), lambda i: A[i], name="B")), target="python")
    assert "def B_kernel" in "".join(checked(f._repr_html_()).text)


def test_every_object_has_text_beside_its_page() -> None:
    s = tiled()
    f = sl.build(s, target="python")
    C = s.outputs[0]
    texts = {s: str(s), s.nest(): str(s), s.diff(): str(s.diff()), C: repr(C)}
    for thing, text in texts.items():
        bundle = thing._repr_mimebundle_()
        assert bundle["text/plain"] == text and bundle["text/html"] == thing._repr_html_()
    assert f._repr_mimebundle_()["text/plain"] == f"{f!r}\n\n{s}"
    assert s.steps._repr_mimebundle_()["text/plain"].splitlines()[-1] == "s[C].parallel(i_outer)"


EVIL = "</style></script><script>alert(1)</script><img src=x onerror='alert(2)'>\"&"
TAGS = {"b", "br", "code", "details", "div", "em", "i", "pre", "script", "s", "span", "style",
        "summary", "var"}  # fmt: skip


def test_hostile_names_stay_text() -> None:
    nest = tiled().nest()
    evil = {b: replace(b, name=EVIL) for b in nest.buffers}
    body = with_buffers(nest.body, evil)
    outputs = tuple(evil[b] for b in nest.outputs)
    args = tuple(evil[b] for b in nest.buffers)
    names = dict.fromkeys(nest.names, EVIL)
    hostile = replace(nest, name=EVIL, args=args, outputs=outputs, body=body, names=names)
    machine = sl.build(tiled(), target="python").machine_nest
    source = "\n".join([EVIL, f"x = 1  # {EVIL}"])
    pages = [
        hostile._repr_html_(),
        nest_diff(nest, hostile, EVIL)._repr_html_(),
        kernel_html(EVIL, hostile, machine, source, (0, 1), False),
    ]
    for html in pages:
        page = checked(html)
        assert page.tags <= TAGS and EVIL in "".join(page.text)
        # the only script is our own
        assert html.count("<script>") == ("linked" in page.classes)


def test_a_hostile_pragma_stays_text() -> None:
    s = tiled()
    s[s.outputs[0]].pragma(s[s.outputs[0]].leaf_axes[0], "my.note", EVIL)
    for thing in (s, s.steps, s.diff(), sl.build(s, target="python")):
        page = checked(thing._repr_html_())
        assert page.tags <= TAGS | {"p"} and "alert(1)" in "".join(page.text)


def contrast(a: str, b: str) -> float:
    """Return the contrast of two colours, by WCAG 2.1."""

    def luminance(colour: str) -> float:
        digits = colour[1:] if len(colour) == 7 else "".join(c * 2 for c in colour[1:])
        parts = [int(digits[k : k + 2], 16) / 255 for k in (0, 2, 4)]
        linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))

    light, dark = sorted((luminance(a), luminance(b)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_colours_are_readable(theme: int) -> None:
    blocks = re.findall(r"\.schedlang \{ (--page.*?) \}", tiled()._repr_html_(), re.DOTALL)
    colours = dict(re.findall(r"--([a-z]+): (#[0-9a-f]+);", blocks[theme]))
    behind = ("page", "row", "added", "removed")
    words = ("text", "soft", "serial", "parallel", "vectorize", "unroll", "thread", "guard")
    low = {
        (word, back): round(contrast(colours[word], colours[back]), 2)
        for word in words for back in behind if contrast(colours[word], colours[back]) < 4.5
    }  # fmt: skip
    assert not low
    assert contrast(colours["text"], colours["lit"]) >= 4.5


def test_an_evaluation_a_tensor_and_a_result_show() -> None:
    A = sl.placeholder((64,), name="A")
    B = sl.compute((64,), lambda i: A[i] * 2, name="B")
    f = sl.build(sl.schedule(B))
    timed = sl.evaluate(f, np.ones(64, "float32"), min_time=0.01)
    text = "".join(checked(timed._repr_html_()).text)
    assert "fastest" in text and "samples" in text
    assert "B_{i} = A_{i} \\cdot 2" in B._repr_html_()
    assert "Tensor(A: float32[64])" in "".join(checked(A._repr_html_()).text)


def test_a_long_nest_is_small() -> None:
    A = sl.placeholder((64, 64), name="A")
    tensor = A
    for k in range(70):
        source = tensor
        tensor = sl.compute((64, 64), lambda i, j, source=source: source[i, j] + 1, name=f"T{k}")
    s = sl.schedule(tensor)
    html = s._repr_html_()
    assert len(str(s).splitlines()) > 200 and len(html) < 200_000
    # its kernel, with the whole file
    assert len(sl.build(s, target="python")._repr_html_()) < 200_000


def lines_of(error: Any) -> list[str]:
    return error._render_traceback_()


def test_an_error_shows_the_lines_of_the_user() -> None:
    s = tiled()
    with pytest.raises(ScheduleError) as caught:
        s[s.outputs[0]].split(s[s.outputs[0]].leaf_axes[0], factor=0)
    first, *rest = lines_of(caught.value)
    assert first.startswith("ScheduleError: split(i.outer, factor=0) on stage C")
    assert re.fullmatch(r"  test_notebook.py, line \d+:  s\[s.outputs.*factor=0\)", rest[-1])
    assert not any("refuse(" in line for line in rest)


def test_a_refused_step_has_a_short_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    s = tiled()
    lengths = []
    for _ in range(2):
        with pytest.raises(ScheduleError) as caught:
            s[s.outputs[0]].split(s[s.outputs[0]].leaf_axes[0], factor=0)
        lengths.append(len(list(walk_tb(caught.value.__traceback__))))
        monkeypatch.setenv("SCHEDLANG_TRACEBACK", "full")
    short, full = lengths
    assert short <= 4 < full


def test_the_whole_traceback_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCHEDLANG_TRACEBACK", "full")
    with pytest.raises(NotImplementedError):
        lines_of(ScheduleError("no"))


def test_a_nest_in_a_terminal_wraps(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("NO_COLOR", "1")
    s = tiled()
    s.show()
    lines = capsys.readouterr().out.splitlines()
    assert all(len(line) <= 60 for line in lines) and "\x1b" not in "".join(lines)
    whole = " ".join(" ".join(lines).split())
    assert whole == " ".join(str(s).split())


def test_colours_where_they_are_asked_for(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    tiled().show()
    assert "\x1b[" in capsys.readouterr().out


SCRIPT = """
import schedlang as sl
A = sl.placeholder((8,), name="A")
B = sl.compute((8,), lambda i: A[i] * 2, name="B")
s = sl.schedule(B)
s[B].vectorize(B.op.axis[0])
number = 3
"""


def test_the_show_command_without_a_library_of_colours(
    tmp_path: Any, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("rich", "rich.console"):
        monkeypatch.setitem(sys.modules, name, None)
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    assert main(["show", f"{script}:s"]) == 0
    assert "\n\nvectorize i in 0..8:\n  B[i] = " in capsys.readouterr().out


def test_the_show_command(tmp_path: Any, capsys: Any) -> None:
    script, target = tmp_path / "script.py", tmp_path / "page.html"
    script.write_text(SCRIPT)
    assert main(["show", f"{script}:s"]) == 0
    assert "vectorize i in 0..8:" in capsys.readouterr().out
    assert main(["show", f"{script}:B"]) == 0
    assert "for i in 0..8:" in capsys.readouterr().out
    assert main(["show", f"{script}:s", "--html", str(target)]) == 0
    text = "".join(checked(target.read_text()).text)
    assert "s of script.py" in text and "s[B].vectorize(i)" in text
    capsys.readouterr()
    assert main(["show", f"{script}:t"]) == 2
    assert "its schedules are s" in capsys.readouterr().err
    assert main(["show", f"{script}:number"]) == 2
    assert "an object of type int" in capsys.readouterr().err
    assert main(["show", f"{script}:s", "--html", str(tmp_path)]) == 2
    assert "Is a directory" in capsys.readouterr().err
