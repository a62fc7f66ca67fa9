"""The course: the form of its notebooks, their two copies, the command, and the slides."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from schedlang.__main__ import main
from schedlang.course.copies import write
from schedlang.course.execute import execute
from schedlang.course.forms import open_form, solutions_of, solve, solved_form
from schedlang.course.lessons import choose, lessons, read, source_of, tags_of, text_of
from schedlang.course.slides import slides
from schedlang.errors import BuildError, MissingExtraError, SchedlangError
from tests.browser import needs_browser, opened
from tests.chromium import chromium
from tests.marks import NARROW, WIDE, slow_but
from tests.test_notebook import checked
from tests.wrong_answers import wrong_answers

ROOT = Path(__file__).parent.parent
KINDS = ("slide", "subslide", "fragment", "skip", "notes", "-")
UNSOLVED, RIGHT = "Not solved yet", "Correct"
# their tiles and answers are those of vectors of 64 bytes
WIDE_LESSONS = ("3_vectors_and_threads", "10_a_network")


def cell(source: str, kind: str = "code", *tags: str, slide: str = "-") -> dict[str, Any]:
    meta = {"slideshow": {"slide_type": slide}, "tags": list(tags)}
    return {"cell_type": kind, "metadata": meta, "source": source.splitlines(keepends=True)}


def notebook(*cells: dict[str, Any]) -> dict[str, Any]:
    return {"cells": list(cells), "metadata": {}, "nbformat": 4, "nbformat_minor": 5}


CODE = "```python\nx = 1\ny = 2\n```"
SOLUTION = f"<details><summary>Solution</summary>\n\n{CODE}\n\nWhy.\n\n</details>"
SMALL = notebook(
    cell("# A lesson", "markdown", slide="slide"),
    cell("Ask first.", "markdown", slide="notes"),
    cell("x = ...  # your number\nprint(x)", "code", "exercise"),
    cell("<details>Hint</details>", "markdown", "hint", slide="skip"),
    cell(SOLUTION, "markdown", "solution", slide="skip"),
)


def test_an_open_lesson_has_no_solution() -> None:
    assert [source_of(c) for c in open_form(SMALL)["cells"]] == [
        "# A lesson", "x = ...  # your number\nprint(x)", "<details>Hint</details>",
    ]  # fmt: skip
    assert source_of(open_form(SMALL, notes=True)["cells"][1]) == "Ask first."


def test_a_solved_lesson_has_the_solution_in_its_place() -> None:
    assert [source_of(c) for c in solved_form(SMALL)["cells"]] == [
        "# A lesson", "Ask first.", "x = 1\ny = 2\nprint(x)", "<details>Hint</details>", "Why.",
    ]  # fmt: skip
    # the lesson itself is as it was
    assert solutions_of(SMALL) == ["x = 1\ny = 2\n"]


def test_exercises_of_another_form_are_refused() -> None:
    title, _, exercise, _, solution = SMALL["cells"]
    for cells, text in (
        ([title, exercise], "exercise 1 has no solution"),
        ([title, exercise, solution, solution], "exercise 1: its solution must follow it"),
        ([title, solution], "exercise 0: its solution must follow it"),
        ([exercise, cell("no code", "markdown", "solution")], "with one block of code"),
    ):
        with pytest.raises(BuildError, match=text):
            solved_form(notebook(*cells))
    with pytest.raises(BuildError, match="one line with ..., not 2"):
        solve("x = ...\ny = ...", "1")
    # a call that takes an ellipsis is no line to be written
    with pytest.raises(BuildError, match="not 0"):
        solve("f(x, ...)", "1")


@pytest.mark.parametrize("name", lessons())
def test_a_lesson_has_the_form(name: str) -> None:
    made = read(lessons()[name])
    assert lessons()[name].read_text("utf-8") == text_of(made)
    assert made["metadata"]["kernelspec"]["name"] == "python3"
    assert (made["nbformat"], made["nbformat_minor"]) == (4, 5)
    assert source_of(made["cells"][0]).startswith("# ")
    assert [c["id"] for c in made["cells"]] == [f"cell-{n}" for n in range(len(made["cells"]))]
    count = 0
    for n, found in enumerate(made["cells"]):
        kind = found["metadata"]["slideshow"]["slide_type"]
        assert kind in KINDS and not found.get("outputs") and not found.get("execution_count")
        tags, source = tags_of(found), source_of(found)
        assert ("hint" in tags or "solution" in tags) == source.startswith("<details>")
        if "hint" in tags or "solution" in tags:
            assert kind == "skip" and source.endswith("\n\n</details>")
        if "exercise" in tags:
            count += 1
            asked = "\n".join(source_of(c) for c in made["cells"][max(n - 3, 0) : n])
            assert f"### Exercise {count}: " in asked
            assert "sl.testing.check(" in source or "sl.testing.lab(" in source
            after = [t for c in made["cells"][n + 1 : n + 4] for t in tags_of(c)]
            assert after[0] == "hint" and "solution" in after
    assert 2 <= count <= 12
    solved_form(made)


def test_lessons_are_numbered_and_listed() -> None:
    names = list(lessons())
    assert [int(n.partition("_")[0]) for n in names] == list(range(1, len(names) + 1))
    for page in ("examples/notebooks/README.md", "docs/guides/teaching.md"):
        text = (ROOT / page).read_text("utf-8")
        assert all(f"`{name}.ipynb`" in text for name in names), page


def test_the_page_of_exercises_has_those_of_all_lessons() -> None:
    page = (ROOT / "docs" / "reference" / "exercises.md").read_text("utf-8")
    listed = re.findall(r"^(?:## (\d+\. .*)|\| (\d+)\. ([^|]*) \| \d+ \|.*)$", page, re.M)
    asked = []
    for path in lessons().values():
        texts = [source_of(c) for c in read(path)["cells"] if c["cell_type"] == "markdown"]
        asked.append((texts[0].partition("\n")[0].removeprefix("# "), "", ""))
        titles = re.findall(r"^### Exercise (\d+): (.*)$", "\n".join(texts), re.M)
        asked += [("", number, title) for number, title in titles]
    assert listed == asked


def test_the_notebooks_are_part_of_the_package() -> None:
    """The folder of the package data is a link to examples/notebooks."""
    folder = ROOT / "schedlang" / "course" / "notebooks"
    assert folder.resolve() == ROOT / "examples" / "notebooks"
    (pattern,) = re.findall(r"schedlang.course = notebooks/(\S+)", (ROOT / "setup.cfg").read_text())
    assert {p.stem for p in folder.glob(pattern)} == set(lessons())


def run(capsys: pytest.CaptureFixture[str], *args: object) -> tuple[int, str, str]:
    status = main(["course", *map(str, args)])
    found = capsys.readouterr()
    return status, found.out, found.err


def test_the_command_copies_the_lessons(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "mine"
    status, out, _ = run(capsys, folder, "--lesson", 1, "--lesson", "2")
    assert status == 0 and f"2 lessons in {folder} (2 files written)" in out
    copy = folder / "1_say_what.ipynb"
    assert json.loads(copy.read_text("utf-8")) == open_form(read(lessons()["1_say_what"]))
    # a second time, nothing changes; a changed file stays
    assert "(0 files written)" in run(capsys, folder, "--lesson", 1)[1]
    copy.write_text("mine", "utf-8")
    status, _, err = run(capsys, folder, "--solutions")
    assert status == 2 and "1_say_what.ipynb would be overwritten, and may have your" in err
    assert len(list(folder.iterdir())) == 2
    status, out, _ = run(capsys, folder, "--solutions", "--force")
    assert status == 0 and len(list(folder.rglob("*.ipynb"))) == 2 * len(lessons())
    solved_copy = json.loads((folder / "solutions" / "1_say_what.ipynb").read_text("utf-8"))
    assert solved_copy == solved_form(read(lessons()["1_say_what"]))


def test_wrong_folders_and_lessons_are_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, _, err = run(capsys, tmp_path, "--lesson", 77)
    assert status == 2 and "--lesson 77: no such lesson" in err and "1_say_what" in err
    (tmp_path / "file").write_text("")
    status, _, err = run(capsys, tmp_path / "file")
    assert status == 2 and len(err.splitlines()) == 1 and "course" in err
    (tmp_path / "binary.ipynb").write_bytes(b"\xff\xfe")
    with pytest.raises(BuildError, match="course"):
        write(tmp_path, {"binary.ipynb": "text"}, False)


def test_lessons_are_chosen_by_number_or_name() -> None:
    assert list(choose(["2", "1_say_what"])) == ["2_loops_and_locality", "1_say_what"]
    assert list(choose([])) == list(lessons())


EXECUTED = notebook(
    cell("# A & B\n\nCosts $5 or `$6`, or $n^2$, and <b>more</b>.", "markdown", slide="slide"),
    {**cell("1 < 2"), "outputs": [{"output_type": "stream", "text": ["a < b\n"]}]},
    cell("left out", "markdown", slide="skip"),
    cell("## Next", "markdown", slide="subslide"),
    cell("- later", "markdown", slide="fragment"),
    cell("for the teacher", "markdown", slide="notes"),
    {**cell("x = ...", "code", "exercise"),
     "outputs": [{"output_type": "stream", "text": "Not solved yet"}]},
    {**cell("C"), "outputs": [
        {"output_type": "execute_result", "data": {
            "text/html": "<p>C $C_i$</p>",
            "text/latex": r"$\displaystyle C_{i} = \sum_{k=0}^{5} A_{i,k}$", "text/plain": "C"}},
        {"output_type": "error", "traceback": ["\x1b[31mbad <news>\x1b[0m"]},
    ]},
)  # fmt: skip


def test_slides() -> None:
    pytest.importorskip("markdown_it", reason="needs markdown-it-py")
    pytest.importorskip("latex2mathml", reason="needs latex2mathml")
    page = slides(EXECUTED)
    assert "<title>A &amp; B</title>" in page and page.count("<section>") == 2
    assert "Costs $5 or <code>$6</code>, or <math" in page and "<b>more</b>" in page
    assert '<pre class="stream">a &lt; b</pre>' in page
    assert "left out" not in page and "Not solved yet" not in page
    assert '<div class="fragment">' in page and '<aside class="notes">' in page
    assert "<munderover>" in page and '<pre class="error">bad &lt;news&gt;</pre>' in page
    # MathML names its schema; nothing is asked for from elsewhere
    checked(page.replace("http://www.w3.org/1998/Math/MathML", ""))


@pytest.mark.slow
@needs_browser
def test_slides_turn(tmp_path: Path) -> None:
    pytest.importorskip("markdown_it", reason="needs markdown-it-py")
    pytest.importorskip("latex2mathml", reason="needs latex2mathml")
    script = """<script>
      const found = [], press = (key) =>
        document.body.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true}));
      const state = () => [[...document.querySelectorAll("section")].map((p) => p.offsetHeight > 0),
        document.querySelectorAll(".fragment.seen").length,
        document.querySelector(".notes").offsetHeight > 0, location.hash];
      found.push(state());
      for (const key of ["ArrowRight", " ", "n", "ArrowLeft", "ArrowLeft"]) {
        press(key); found.push(state());
      }
      document.title = JSON.stringify(found);
    </script></body>"""
    path = tmp_path / "slides.html"
    path.write_text(slides(EXECUTED).replace("</body>", script), "utf-8")
    result = opened(path)
    assert not result.console
    assert json.loads(result.title) == [
        [[True, False], 0, False, "#1"],
        [[False, True], 0, False, "#2"],
        [[False, True], 1, False, "#2"],
        [[False, True], 1, True, "#2"],
        [[False, True], 0, True, "#2"],
        [[True, False], 0, False, "#1"],
    ]


PARTS = "\n\n".join(f"Part {n}: " + "many words " * 30 for n in range(20))
LONG = notebook(
    cell(f"# Long\n\n{PARTS}", "markdown", slide="slide"),
    cell("\n\n".join(f"def f{n}():\n    return {n}" for n in range(40)), slide="slide"),
    {**cell("wide = " + "1 + " * 22 + "1"), "outputs": [
        {"output_type": "stream", "text": [f"line {n}\n" for n in range(100)]},
        {"output_type": "stream", "name": "stderr", "text": ["long " * 200]}]},
    cell("## A nest", "markdown", slide="subslide"),
    {**cell("s"), "outputs": [{"output_type": "execute_result", "data": {
        "text/html": '<div class="schedlang">' + "<p>for i in 0..4:</p>" * 60 + "</div>"}}]},
    {**cell("picture"), "outputs": [{"output_type": "execute_result", "data": {
        "image/svg+xml": '<svg width="1200" height="1100" viewBox="0 0 12 11"><rect/></svg>'}}]},
)  # fmt: skip
# of each slide: what reaches beyond it, whether it begins or ends oddly, and its size of code
FITS = """[...document.querySelectorAll("section")].map(function (page, k, every) {
  every.forEach((other) => other.classList.toggle("now", other === page));
  const parts = [...page.children].map((part) => part.getBoundingClientRect());
  const code = [...page.querySelectorAll("pre, code")].map((e) => getComputedStyle(e).fontSize);
  const beyond = (e) => e.scrollWidth > e.clientWidth || e.scrollHeight > e.clientHeight;
  return {wide: Math.max(page.scrollWidth, ...parts.map((r) => r.right)),
    high: Math.max(page.scrollHeight, ...parts.map((r) => r.bottom)), code: [...new Set(code)],
    cut: [...page.querySelectorAll("pre.code")].filter(beyond).length,
    empty: !page.innerText.trim() && !page.querySelector("svg, img")};
})"""


def fits(browser: Any, path: Path) -> Any:
    """Check each slide of a page at 1400 by 900 pixels; return the open page."""
    tab = browser.tab()
    tab.send("Emulation.setDeviceMetricsOverride", width=1400, height=900, deviceScaleFactor=1,
             mobile=False)  # fmt: skip
    tab.open(path.as_uri())
    tab.wait("document.querySelector('section.now') && document.readyState === 'complete'")
    for number, page in enumerate(tab.value(FITS), 1):
        assert page["wide"] <= 1400 and page["high"] <= 900 and not page["empty"], (number, page)
        assert page["cut"] == 0 and page["code"] in ([], ["22px"]), (number, page)
    assert not tab.errors
    return tab


@pytest.mark.slow
@needs_browser
def test_slides_fit_the_screen(tmp_path: Path) -> None:
    """What is too long for a slide goes on to the next one, and nothing of it is lost."""
    for library in ("markdown_it", "latex2mathml", "aiohttp"):
        pytest.importorskip(library)
    path = tmp_path / "slides.html"
    path.write_text(slides(LONG), "utf-8")
    with chromium() as browser:
        tab = fits(browser, path)
        text = "document.querySelector('body').textContent"
        for n in range(20):
            assert tab.value(f"{text}.includes('Part {n}: many')")
        lines = [f"line {n}\n" for n in range(99)]
        assert tab.value(f"{json.dumps(lines)}.filter((l) => !{text}.includes(l.trim()))") == []
        assert tab.value(f"{text}.split('def f').length") == 41
        assert tab.value("document.querySelectorAll('section').length") > 8
        # the nest scrolls in its box
        assert tab.value("document.querySelectorAll('section .schedlang p').length") == 60
        assert tab.value("document.querySelectorAll('section svg').length") == 1
        # a heading never stands alone at the end of a slide
        last = "[...document.querySelectorAll('section')].map((s) => s.lastElementChild)"
        assert tab.value(f"{last}.filter((e) => e.querySelector(':scope > h2')).length") == 0


@needs_browser
@pytest.mark.slow
@pytest.mark.parametrize("name", ["1_say_what", "4_placements"])
def test_the_slides_of_a_lesson_fit_the_screen(name: str, tmp_path: Path) -> None:
    for library in ("nbclient", "markdown_it", "latex2mathml", "matplotlib", "aiohttp"):
        pytest.importorskip(library)
    path = tmp_path / "slides.html"
    (tmp_path / "run").mkdir()
    page = slides(execute(open_form(read(lessons()[name]), notes=True), tmp_path / "run"))
    path.write_text(page, "utf-8")
    with chromium() as browser:
        fits(browser, path)


def test_a_missing_library_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nbclient", None)
    with pytest.raises(MissingExtraError, match=r'pip install "schedlang\[course\]"'):
        execute(SMALL, Path())


def test_a_notebook_that_does_not_end_well_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    client = pytest.importorskip("nbclient").NotebookClient
    pytest.importorskip("ipykernel")
    errors = pytest.importorskip("nbclient.exceptions")
    for error, text in (
        (errors.CellTimeoutError("late"), "a cell took more than 300 s"),
        (errors.DeadKernelError("dead"), "a cell ended the process"),
        (errors.CellExecutionError("", "ValueError", "no"), "a cell failed: ValueError: no"),
    ):
        def fail(self: Any, raised: Exception = error) -> None:
            raise raised

        monkeypatch.setattr(client, "execute", fail)
        with pytest.raises(BuildError, match=text):
            execute(read(lessons()["1_say_what"]), Path())


def cells_of(name: str, form: Any) -> list[dict[str, Any]]:
    """Return the code cells of a form of a lesson."""
    return [c for c in form(read(lessons()[name]))["cells"] if c["cell_type"] == "code"]


@pytest.mark.parametrize("form, starts", [(open_form, UNSOLVED), (solved_form, RIGHT)])
def test_the_cells_of_a_lesson(
    form: Any, starts: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first lesson, without a notebook: it compiles next to nothing."""
    pytest.importorskip("matplotlib", reason="needs matplotlib")
    namespace: dict[str, Any] = {}
    exercises = 0
    for found in cells_of("1_say_what", form):
        code = compile(source_of(found), "cell", "exec")
        with nullcontext() if "raises-exception" not in tags_of(found) else pytest.raises(
            SchedlangError
        ):
            exec(code, namespace)
        said = capsys.readouterr().out
        if "exercise" in tags_of(found):
            exercises += 1
            assert said.startswith(starts)
    assert exercises == 4


def printed(found: dict[str, Any], stream: str) -> str:
    return "".join(
        "".join(out["text"]) for out in found["outputs"]
        if out["output_type"] == "stream" and out["name"] == stream
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("form, starts", [(open_form, UNSOLVED), (solved_form, RIGHT)])
@pytest.mark.parametrize("name", lessons())
def test_a_lesson_runs(name: str, form: Any, starts: str, tmp_path: Path) -> None:
    """Every exercise says what it should, and no cell warns or fails but those that shall."""
    for library in ("nbclient", "ipykernel", "matplotlib"):
        pytest.importorskip(library)
    if name in WIDE_LESSONS and not WIDE:
        pytest.skip(NARROW)
    made = execute(form(read(lessons()[name])), tmp_path)
    for found in (c for c in made["cells"] if c["cell_type"] == "code"):
        assert not printed(found, "stderr"), printed(found, "stderr")
        failed = [out for out in found["outputs"] if out["output_type"] == "error"]
        assert bool(failed) == ("raises-exception" in tags_of(found)), source_of(found)
        if "exercise" in tags_of(found):
            assert printed(found, "stdout").startswith(starts), source_of(found)
    assert not list(tmp_path.iterdir())


# one thing in the plural, as "1 threads"
ONE_OF_MANY = re.compile(
    r"\b1 (threads|blocks|lines|loads|stores|reads|writes|iterations|elements|stages|answers|steps"
    r"|barriers|exchanges|divergences|calls|outputs|L1 lines|global loads|global stores)\b"
)
# these lessons time kernels or count large nests
QUICK = "9_debugging"


@pytest.mark.parametrize(
    "name",
    slow_but([QUICK], lessons()),
)
def test_wrong_answers_are_told_what_is_wrong(name: str) -> None:
    """Each exercise has three wrong answers, none of which passes."""
    pytest.importorskip("matplotlib", reason="needs matplotlib")
    command = [sys.executable, "-m", "tests.wrong_answers.run", name]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True,
        text=True, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    messages, answers = json.loads(done.stdout), wrong_answers(name)
    exercises = sum("exercise" in tags_of(c) for c in read(lessons()[name])["cells"])
    assert [len(answers.get(n, [])) for n in range(1, exercises + 1)] == [3] * exercises
    for number, of_exercise in answers.items():
        for answer, message in zip(of_exercise, messages[str(number)]):
            assert RIGHT not in message or UNSOLVED in message, (number, answer.code, message)
            for told in answer.told:
                assert told in message, (number, answer.code, message)
            for word in answer.untold:
                assert word not in message, (number, answer.code, message)
            assert not ONE_OF_MANY.search(message), message


@pytest.mark.slow
def test_the_command_works_from_a_wheel(tmp_path: Path) -> None:
    """The wheel has the notebooks, and not the link."""
    pytest.importorskip("setuptools", reason="builds in this environment")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    source = shutil.copytree(
        ROOT, tmp_path / "source", symlinks=True,
        ignore=shutil.ignore_patterns(".*", "build", "*.egg-info", "__pycache__", "results"),
    )  # fmt: skip
    build = [*pip, "wheel", "--no-deps", "--no-build-isolation", str(source), "-w", str(tmp_path)]
    subprocess.run(build, check=True, capture_output=True, stdin=subprocess.DEVNULL)
    (wheel,) = tmp_path.glob("*.whl")
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    command = [sys.executable, "-m", "schedlang", "course", "mine"]
    done = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(site)}, capture_output=True,
        text=True, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert {p.stem for p in (tmp_path / "mine").iterdir()} == set(lessons())


@pytest.mark.slow
def test_the_slides_of_a_lesson(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for library in ("nbclient", "markdown_it", "latex2mathml", "matplotlib"):
        pytest.importorskip(library)
    status, out, _ = run(capsys, tmp_path, "--lesson", 1, "--slides")
    page = (tmp_path / "slides" / "1_say_what.html").read_text("utf-8")
    assert status == 0 and "open them in a browser" in out
    assert page.count("<section>") > 10 and "<math" in page and "Not solved yet" not in page
