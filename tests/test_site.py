"""The pages of the documents, and the command ``docs``, which opens them."""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import subprocess
import sys
import urllib.request
from pathlib import Path
from types import ModuleType

import pytest

from schedlang import docs_command
from schedlang.__main__ import main
from schedlang.errors import BuildError
from tests.browser import needs_browser
from tests.chromium import chromium

ROOT = Path(__file__).parent.parent
needs_mkdocs = pytest.mark.skipif(
    importlib.util.find_spec("mkdocs") is None, reason="needs the extra docs"
)


def builder(name: str) -> ModuleType:
    """Return a module of docs/builder/, which is not a package."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / "builder" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_navigation_has_every_page() -> None:
    navigation = (
        (ROOT / "mkdocs.yml").read_text("utf-8").partition("nav:")[2].partition("theme:")[0]
    )
    listed = set(re.findall(r"[\w/-]+\.md", navigation))
    docs = ROOT / "docs"
    pages = {str(path.relative_to(docs).as_posix()) for path in docs.rglob("*.md")}
    # builder/pages.py writes the page of all names
    assert listed - {"reference/names.md"} == pages


def test_messages_name_pages_by_their_titles() -> None:
    """Users of a wheel have no docs/, but a command that opens the pages."""
    headings = {path.read_text("utf-8").partition("\n")[0] for path in ROOT.glob("docs/*/*.md")}
    named: set[str] = set()
    for path in (ROOT / "schedlang").rglob("*.py"):
        text = path.read_text("utf-8")
        if "docs" not in text:
            # most files need not be parsed
            continue
        tree = ast.parse(text)
        statements = (node for node in ast.walk(tree) if isinstance(node, ast.Expr))
        docstrings = {id(node.value) for node in statements}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                is_path = re.search(r"docs/[\w/-]+\.md", node.value)
                assert id(node) in docstrings or not is_path, f"{path}:{node.lineno}"
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "docs_page":
                named.add(ast.literal_eval(node.args[0]))
    assert {"NumPy code", "Gradients"} <= named
    assert {f"# {title}" for title in named} <= headings


@needs_mkdocs
def test_a_docstring_as_markdown() -> None:
    text = """Split a loop of :class:`~schedlang.ir.nest.Nest` in ``n`` parts.

    rewrite::

        for i in 0..8:   ->   for o in 0..2:

    >>> 1 + 1
    2

    >>> print("4\\n\\n5")
    4
    <BLANKLINE>
    5

    The end."""
    expected = """Split a loop of `Nest` in `n` parts.

    rewrite:

```text
for i in 0..8:   ->   for o in 0..2:
```

```pycon
>>> 1 + 1
2

>>> print("4\\n\\n5")
4

5
```

    The end."""
    assert builder("docstrings").markdown(text) == expected


@needs_mkdocs
def test_a_page_as_the_site_has_it() -> None:
    links = (
        "[tests](../../tests/README.md), [`a.py`](../../examples/a.py#top), "
        "[here](guides/gpu.md), [there](https://example.org/../../x)\n```python slow\n```"
    )
    assert builder("pages").on_page_markdown(links) == (
        "tests (`tests/README.md` in the clone), `examples/a.py`, "
        "[here](guides/gpu.md), [there](https://example.org/../../x)\n```python\n```"
    )


@needs_mkdocs
def test_a_lesson_as_a_page_is_open() -> None:
    from schedlang.course.forms import open_form
    from schedlang.course.lessons import lessons, read, source_of, tags_of

    path = lessons()["2_loops_and_locality"]
    lesson = read(path)
    page = builder("pages").lesson_page(open_form(lesson), path.name)
    assert page.startswith(
        "# 2. Loops and locality\n\n*Run this lesson: `python -m schedlang course "
    )
    assert "```python\ni, j = C.op.axis\ns[C].reorder(j, i)\n" in page
    solutions = [source_of(c) for c in lesson["cells"] if "solution" in tags_of(c)]
    assert solutions and not any(solution in page for solution in solutions)
    # the file of the next lesson is a page of the site
    following = {
        name: re.findall(r"\*\*Next:\*\* \[the next lesson\]\((\w+)\.md\)",
                         builder("pages").lesson_page(open_form(read(path)), path.name))
        for name, path in lessons().items()
    }  # fmt: skip
    assert following["2_loops_and_locality"] == ["3_vectors_and_threads"]
    assert {name for names in following.values() for name in names} < set(lessons())


@needs_mkdocs
def test_every_public_name_has_a_place() -> None:
    import schedlang as sl

    names = dict(builder("pages").public_names())
    assert all(hasattr(sl, name) for name in names)
    assert names["build"] == "schedlang.targets.build.build"
    lines = builder("pages").names_page({names["build"]})
    assert "heading: sl.autotune" in lines and "heading: sl.build\n" not in lines


def test_pages_are_stale_when_a_document_is_newer(tmp_path: Path) -> None:
    site, clone = tmp_path / "site", tmp_path / "clone"
    assert docs_command.is_stale(site, clone)
    site.mkdir()
    (clone / "docs").mkdir(parents=True)
    for at, path in enumerate((clone / "mkdocs.yml", clone / "docs" / "a.md", site / "index.html")):
        path.write_text("")
        os.utime(path, (at, at))
    assert not docs_command.is_stale(site, clone)
    os.utime(clone / "docs" / "a.md", (9, 9))
    assert docs_command.is_stale(site, clone)
    # an installed wheel has pages and no documents
    assert not docs_command.is_stale(site, tmp_path / "elsewhere")


def test_without_pages_the_command_says_where_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(docs_command, "SITE", tmp_path / "site")
    monkeypatch.setattr(docs_command.importlib.util, "find_spec", lambda name: None)
    assert main(["docs"]) == 2
    assert f"Read {ROOT / 'docs'}, or install the extra docs" in capsys.readouterr().err
    monkeypatch.setattr(docs_command, "CLONE", tmp_path)
    assert main(["docs"]) == 2
    assert "this installation has no pages" in capsys.readouterr().err


def test_a_build_that_fails_shows_what_mkdocs_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mkdocs.py").write_text("import sys; sys.exit('no such page')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(BuildError, match="could not build the pages.*\nno such page"):
        docs_command.build(tmp_path, tmp_path / "site")


def test_the_command_serves_the_pages(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("the start")
    code = (
        "import sys; from pathlib import Path; from schedlang import docs_command as d; "
        "d.SITE, d.CLONE = Path(sys.argv[1]), Path(sys.argv[1]); "
        "from schedlang.__main__ import main; sys.exit(main(['docs', '--no-open']))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        url = process.stdout.readline().split()[-1]
        try:
            with urllib.request.urlopen(url, timeout=20) as page:
                assert page.read() == b"the start"
        finally:
            process.kill()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages") / "site"
    docs_command.build(ROOT, folder)
    return folder


@pytest.mark.slow
@needs_mkdocs
@needs_browser
def test_the_search_works_in_a_page_that_is_opened_as_a_file(site: Path) -> None:
    with chromium() as browser:
        tab = browser.tab()
        tab.open((site / "guides" / "cpu.html").as_uri())
        tab.wait("document.querySelector('iframe')")
        tab.value("""(() => { const box = document.querySelector('#__search');
          const field = document.querySelector('[data-md-component=search-query]');
          box.checked = true; box.dispatchEvent(new Event('change', { bubbles: true }));
          field.focus(); field.value = 'store_at';
          field.dispatchEvent(new KeyboardEvent('keyup', { bubbles: true })); })()""")
        tab.wait("document.querySelector('.md-search-result__link')", 60)
        links = tab.value(
            "[...document.querySelectorAll('.md-search-result__link')].map((a) => a.href)"
        )
        assert any("reference/primitives.html" in link for link in links)
        assert all(link.startswith("file:") for link in links) and tab.errors == []


@pytest.mark.slow
@needs_mkdocs
def test_the_site_builds_without_a_warning(site: Path) -> None:
    pages = {path.relative_to(site).as_posix() for path in site.rglob("*.html")}
    assert {"index.html", "course/1_say_what.html", "reference/names.html"} <= pages
    names = (site / "reference" / "names.html").read_text("utf-8")
    assert "sl.autotune" in names
    # a page asks no other host for anything
    for path in site.rglob("*.html"):
        loads = re.findall(
            r'<(?:script|link|img)[^>]*(?:src|href)="(https?:)', path.read_text("utf-8")
        )
        assert not loads, path
