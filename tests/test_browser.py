"""Pages in a real browser: no error on the console, and names and lines light up."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

import schedlang as sl
from schedlang.markup.page import page
from tests.browser import DARK, needs_browser, opened
from tests.shown_schedules import TEN, kernel, tiled

pytestmark = [pytest.mark.slow, needs_browser]

# a script of a test: the title of the page becomes what it found
REPORT = "<script>{}; document.title = JSON.stringify(found)</script></body>"


def with_script(text: str, script: str) -> str:
    return text.replace("</body>", REPORT.format(script))


def reported(path: Path, text: str, *flags: str) -> object:
    path.write_text(text, "utf-8")
    found = opened(path, *flags)
    assert not found.console
    return json.loads(html.unescape(found.title))


def test_ten_schedules_open_without_an_error(tmp_path: Path) -> None:
    frames = []
    for name, make in TEN.items():
        s = make()
        shown = [s, s.steps, s.diff(), kernel(name)] if s.steps else [s, kernel(name)]
        body = "".join(thing._repr_html_() for thing in shown)
        (tmp_path / f"{name}.html").write_text(page(name, body), "utf-8")
        frames.append(f'<iframe src="{name}.html"></iframe>')
    count = 'const found = document.querySelectorAll("iframe").length'
    text = page("ten", "".join(frames))
    assert reported(tmp_path / "ten.html", with_script(text, count)) == 10


def test_tables_of_counts_keep_their_indentation_in_jupyterlab(tmp_path: Path) -> None:
    """JupyterLab aligns the tables of outputs to the right, and wraps their lines."""
    theirs = """<style>:not(.jp-RenderedMarkdown).jp-RenderedHTMLCommon td,
    :not(.jp-RenderedMarkdown).jp-RenderedHTMLCommon th { text-align: right; white-space: normal }
    </style>"""
    A = sl.placeholder((8, 4), name="A")
    B = sl.compute((8, 4), lambda i, j: A[i, j] * 2, name="B")
    counts = sl.build(sl.schedule(B)).counters(np.ones((8, 4), "float32"), caches=False)
    body = f'{theirs}<div class="jp-RenderedHTMLCommon">{counts._repr_html_()}</div>'
    look = """const cell = document.querySelectorAll("td.code")[2], style = getComputedStyle(cell);
    const number = getComputedStyle(document.querySelector("td.number"));
    const found = [cell.textContent, style.textAlign, style.whiteSpace, number.textAlign]"""
    found = reported(tmp_path / "counts.html", with_script(page("counts", body), look))
    assert found == [counts.nest[2][0].text, "left", "pre", "right"]
    assert counts.nest[2][0].text.startswith("  ")


def test_an_error_would_be_seen(tmp_path: Path) -> None:
    (tmp_path / "inner.html").write_text(page("inner", "<script>missing()</script>"), "utf-8")
    outer = tmp_path / "outer.html"
    outer.write_text(page("outer", '<iframe src="inner.html"></iframe>'), "utf-8")
    (line,) = opened(outer).console
    assert "missing is not defined" in line and "inner.html" in line


# the lines of each pane that are lit while the pointer, here a class, is on one of them
LIT = """
const found = {};
const lit = (pane) => [...pane.querySelectorAll(".leaf, summary, .line")]
  .flatMap((e, k) => getComputedStyle(e).backgroundColor === "rgba(0, 0, 0, 0)" ? [] : [k]);
const panes = [...document.querySelectorAll(".pane")];
panes.forEach((pane, number) => pane.querySelectorAll(".leaf, summary, .line").forEach((e, k) => {
  e.classList.add("pointer"); found[["nest ", "source "][number] + k] = panes.map(lit);
  e.classList.remove("pointer");
}))
"""


@pytest.mark.parametrize("name", ["tiled", "on_a_gpu"])
def test_lines_light_each_other(tmp_path: Path, name: str) -> None:
    f = kernel(name)
    text = page("f", f._repr_html_()).replace(":is(:hover, :focus)", ".pointer")
    found = reported(tmp_path / "lines.html", with_script(text, LIT))
    assert isinstance(found, dict)
    # the lines of the functions, which the page shows
    lines, first = f.source.split("\n"), next(k for k, n in enumerate(f.origins) if n is not None)
    while lines[first - 1]:
        first -= 1
    shown = sum(key.startswith("source") for key in found)
    origins = f.origins[first : first + shown]
    own = set(origins) - {None}
    assert own == set(f.origins) - {None}
    for k, number in enumerate(origins):
        same = [j for j, other in enumerate(origins) if other == number and number is not None]
        assert found[f"source {k}"] == [[] if number is None else [number], same]
    for number in own:
        same = [k for k, other in enumerate(origins) if other == number]
        assert found[f"nest {number}"] == [[number], same]
    if name == "tiled":
        # the unrolled loop 6 and the vectorized loop 7 around the update 8 have no lines
        (_, update) = found["nest 8"]
        assert update and not {6, 7} & own
        assert found["nest 6"] == [[6], update] and found["nest 7"] == [[7], update]


# the texts that are lit while the pointer, here a class, is on a name of the nest
NAMES = """
const found = {};
const lit = () => [...document.querySelectorAll("var")]
  .filter((e) => getComputedStyle(e).backgroundColor !== "rgba(0, 0, 0, 0)")
  .map((e) => e.textContent + (e.classList.contains("def") ? " defined" : ""));
document.querySelectorAll(".nest var.def").forEach((name) => {
  name.classList.add("pointer"); found[name.textContent] = lit();
  name.classList.remove("pointer");
})
"""


def test_names_light_their_definition_and_uses(tmp_path: Path) -> None:
    f = kernel("tiled")
    text = page("f", f._repr_html_()).replace(":hover", ".pointer")
    found = reported(tmp_path / "names.html", with_script(text, NAMES))
    assert isinstance(found, dict)
    nest_part, source_part = str(f.loop_nest), re.split("@njit|def _array", f.source)[1:3]

    def uses(texts: Iterable[str], name: str) -> int:
        pattern = rf"(?<![\w.]){re.escape(name)}(?![\w.])"
        return sum(len(re.findall(pattern, re.sub("#.*", "", text))) for text in texts)

    for name in ("i.outer", "k", "j.outer"):
        known = name.replace(".", "_")
        lit = found[name]
        assert lit.count(f"{name} defined") == 1
        in_nest = sum(x.split()[0] == name for x in lit)
        if name != known:
            assert in_nest == uses([nest_part], name)
            assert lit.count(known) == uses(source_part, known)
        else:
            assert len(lit) == uses([nest_part, *source_part], name)


COLOURS = """
const found = [...document.querySelectorAll(".schedlang")]
  .map((e) => getComputedStyle(e).getPropertyValue("background-color"))
"""


def test_colours_follow_the_theme(tmp_path: Path) -> None:
    body = tiled()._repr_html_()
    themes = ('data-jp-theme-light="true"', 'data-jp-theme-light="false"', 'class="vscode-light"')
    text = with_script(
        page("s", body + "".join(f"<div {theme}>{body}</div>" for theme in themes)), COLOURS
    )
    white, dark = "rgb(255, 255, 255)", "rgb(20, 23, 29)"
    assert reported(tmp_path / "a.html", text) == [white, white, dark, white]
    assert reported(tmp_path / "b.html", text, *DARK) == [dark, white, dark, white]
