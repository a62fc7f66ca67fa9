"""Every Python block of README.md and docs/ runs and prints the text block below it.

The blocks of a file run in order in one namespace. The ``text`` or ``diff`` block that follows
is compared with the printed text; a line ``...`` stands for any lines. A block opened with
``python refused`` must raise a SchedlangError, whose message is compared likewise. A block opened
with ``python slow`` runs only in a slow test, and one opened with ``python torch``, ``python slow
qemu`` or ``python refused torch`` only where what it names last is installed, and ``pyopencl`` also
where there is a device. ``pytest tests/test_docs.py --update-golden`` refreshes the text blocks.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import io
import pydoc
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from schedlang.course.lessons import lessons
from schedlang.errors import SchedlangError
from tests.marks import no_opencl, slow_but

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "schedlang"
FILES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# documents without blocks of Python
OTHERS = [ROOT / "CONTRIBUTING.md", ROOT / "tests" / "README.md"]
# what a block needs, by the last word of its info string: libraries, and a program
OPTIONAL = {
    "torch": ("torch",), "torchao": ("torchao",), "onnx": ("onnx",), "qemu": ("ziglang",),
    "wasmtime": ("ziglang", "wasmtime"),
}  # fmt: skip
PROGRAMS = {"qemu": "qemu-aarch64"}
# pages that docs/builder/pages.py derives from the package
GENERATED = {
    ROOT / "docs" / "reference" / "names.md",
    *(ROOT / "docs" / "course" / f"{name}.md" for name in lessons()),
}
FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.M | re.S)


@dataclass(frozen=True)
class Fenced:
    """A fenced block: its info string, its text, and its place in the file."""

    info: str
    text: str
    start: int
    end: int
    line: int


def blocks(markdown: str) -> list[Fenced]:
    return [
        Fenced(m[1].strip(), m[2], m.start(2), m.end(2), markdown.count("\n", 0, m.start(2)))
        for m in FENCE.finditer(markdown)
    ]


def run(block: Fenced, path: Path, namespace: dict[str, object]) -> str:
    """Run a block and return what it prints, or the message of its refusal."""
    printed = io.StringIO()
    # the padding makes tracebacks show the line of the document
    code = compile("\n" * block.line + block.text, str(path), "exec")
    with contextlib.redirect_stdout(printed):
        if block.info.startswith("python refused"):
            with pytest.raises(SchedlangError) as refusal:
                exec(code, namespace)
            return str(refusal.value)
        exec(code, namespace)
    return printed.getvalue()


def is_missing(block: Fenced) -> bool:
    """Return whether a block needs a library that is not installed."""
    need = block.info.split(" ")[-1]
    if need == "pyopencl":
        return bool(no_opencl())
    missing = any(importlib.util.find_spec(name) is None for name in OPTIONAL.get(need, ()))
    return missing or (need in PROGRAMS and shutil.which(PROGRAMS[need]) is None)


def tidy(text: str) -> list[str]:
    return "\n".join(line.rstrip() for line in text.splitlines()).strip("\n").splitlines()


def agrees(expected: str, printed: str) -> bool:
    pattern = "\n".join(
        r"(?:.*\n)*?.*" if line == "..." else re.escape(line) for line in tidy(expected)
    )
    return re.fullmatch(pattern, "\n".join(tidy(printed))) is not None


LONG = (
    "networks.md", "searching.md", "extending.md", "performance.md", "importers.md", "numpy.md",
    "cpu.md", "network-steps.md", "gradients.md", "deploying.md",
)  # fmt: skip
QUICK = [path.name for path in FILES if path.name not in LONG]


# the test below runs all blocks of the long pages that have slow ones
ONCE = [p for p in FILES if p.name in QUICK or "```python slow" not in p.read_text("utf-8")]


@pytest.mark.parametrize("path", slow_but(QUICK, ONCE, lambda p: p.name))
def test_document(
    path: Path, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # what a document saves without a folder is of the test
    monkeypatch.chdir(tmp_path)
    if path.name == "searching.md":
        request.getfixturevalue("own_cache")
    run_document(path, request, "python slow")


@pytest.mark.slow
@pytest.mark.parametrize(
    "path", [p for p in FILES if "```python slow" in p.read_text("utf-8")], ids=lambda p: p.name
)
def test_document_with_its_searches(
    path: Path, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run_document(path, request)


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the test a cache folder of its own, so that a search finds no earlier trials."""
    monkeypatch.setenv("SCHEDLANG_CACHE", str(tmp_path))


def run_document(path: Path, request: pytest.FixtureRequest, left_out: str = "") -> None:
    """Run the blocks of a document, except those with the info string ``left_out``."""
    markdown = path.read_text(encoding="utf-8")
    found = blocks(markdown)
    namespace: dict[str, object] = {"__name__": "document"}
    changes: list[tuple[int, int, str]] = []
    for block, after in zip(found, [*found[1:], None]):
        is_left_out = bool(left_out) and block.info.startswith(left_out)
        if block.info.split(" ")[0] != "python" or is_left_out or is_missing(block):
            continue
        printed = run(block, path, namespace)
        if after is None or after.info not in ("text", "diff") or not printed:
            continue
        if agrees(after.text, printed):
            continue
        if request.config.getoption("--update-golden") and "..." not in after.text.splitlines():
            changes.append((after.start, after.end, "\n".join(tidy(printed)) + "\n"))
            continue
        pytest.fail(
            f"{path.name}, line {after.line}: the text differs from what is printed:\n{printed}",
            pytrace=False,
        )
    for start, end, text in reversed(changes):
        markdown = markdown[:start] + text + markdown[end:]
    if changes:
        path.write_text(markdown, encoding="utf-8", newline="\n")


@pytest.mark.parametrize("path", [*FILES, *OTHERS], ids=lambda p: str(p.relative_to(ROOT)))
def test_links(path: Path) -> None:
    """Relative links lead to existing files, and to headings in them."""
    prose = FENCE.sub("", path.read_text(encoding="utf-8"))
    for target in re.findall(r"\]\(([^)\s]+)[^)]*\)", prose):
        if target.startswith(("http:", "https:", "mailto:")):
            continue
        name, _, anchor = target.partition("#")
        file = (path.parent / name if name else path).resolve()
        if file in GENERATED:
            continue
        assert file.exists(), f"{path.name} links to {target}"
        if anchor and file.suffix == ".md":
            assert anchor in anchors(file), f"{path.name} links to {target}"


def anchors(path: Path) -> set[str]:
    """Return the anchors that GitHub gives the headings of a document."""
    prose = FENCE.sub("", path.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.*)$", prose, re.M)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


def files_named(markdown: str) -> list[str]:
    """Return the paths of files and folders that a document names outside of its blocks."""
    names = re.findall(r"`([\w.*][\w./*]*)`", FENCE.sub("", markdown))
    return [n for n in names if "/" in n and re.search(r"/$|\.(?:pyi?|h|js|md|txt|svg)$", n)]


@pytest.mark.parametrize("path", [*FILES, *OTHERS], ids=lambda p: str(p.relative_to(ROOT)))
def test_named_files_exist(path: Path) -> None:
    """A file is named by its path in the clone, in schedlang, or beside the document."""
    for name in files_named(path.read_text("utf-8")):
        assert any(any(f.glob(name)) for f in (ROOT, PACKAGE, path.parent)), name


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_named_tests_exist(path: Path) -> None:
    for file, test in re.findall(r"`(tests/\w+\.py)::(\w+)`", path.read_text("utf-8")):
        text = (ROOT / file).read_text("utf-8")
        assert re.search(rf"^def {test}\(", text, re.M), f"{file}::{test}"


def test_the_list_of_tests_has_every_file() -> None:
    tests = Path(__file__).parent
    table = (tests / "README.md").read_text("utf-8").partition("## Golden files")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    patterns = [name for row in rows for name in re.findall("`([^`]+)`", row)]
    listed = set()
    for pattern in patterns:
        files = {*tests.glob(pattern), *tests.glob(f"{pattern}.py")}
        assert files, pattern
        listed |= files
    names = {path for path in tests.glob("*.py") if path.name not in ("__init__.py", "conftest.py")}
    missing = sorted(path.name for path in names - listed)
    assert not missing, f"give these a row in tests/README.md: {missing}"


def test_files_that_docstrings_of_modules_name_exist() -> None:
    """A file is named by its path in the folder of the module, in schedlang, or in the clone."""
    named = re.compile(r"``([\w./*]+\.(?:py|pyi|h|js|md))``")
    missing, count = [], 0
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text("utf-8")
        # most files name none, and need not be parsed
        docstring = ast.get_docstring(ast.parse(text)) if named.search(text) else None
        for name in named.findall(docstring or ""):
            count += 1
            if not any(any(folder.glob(name)) for folder in (path.parent, PACKAGE, ROOT)):
                missing.append(f"{path.relative_to(ROOT)} names {name}")
    assert not missing
    assert count > 300


def test_every_primitive_is_documented() -> None:
    from schedlang.state.primitives.table import PRIMITIVES

    text = (ROOT / "docs" / "reference" / "primitives.md").read_text(encoding="utf-8")
    _, *parts = re.split(r"^### `(\w+)`$", text, flags=re.M)
    entries = dict(zip(parts[::2], parts[1::2]))
    assert sorted(entries) == sorted(PRIMITIVES)
    for name, entry in entries.items():
        # the docstring that the site shows below the heading is the primitive's
        (path,) = re.findall(r"^::: (\S+)$", entry, re.M)
        method = pydoc.locate(path)
        assert method is not None and method.__name__ == name, path


def test_every_name_of_the_language_is_documented() -> None:
    from schedlang.compute import math

    text = (ROOT / "docs" / "reference" / "language.md").read_text(encoding="utf-8")
    others = "sum prod min max argmin argmax comm_reducer reduce_axis scan pad placeholder var"
    names = [*math.__all__, *others.split(), "compute", "reference"]
    assert not [name for name in names if not re.search(rf"`sl\.{name}\b", text)]


def test_three_dots_match_any_lines() -> None:
    assert agrees("a\n...\nd\n", "a\nb\nc\nd\n")
    assert agrees("a\nb\n", " \na\nb  \n\n")
    assert not agrees("a\n...\nd\n", "a\nb\nc\n")
    assert not agrees("a\n", "b\n")
