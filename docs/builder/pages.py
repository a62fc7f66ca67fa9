"""Pages of the site that mkdocs derives from the package: lessons, and the list of all names."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from schedlang.course.forms import open_form
from schedlang.course.lessons import Notebook, lessons, read, source_of

ROOT = Path(__file__).parents[2]
STUB = ROOT / "schedlang" / "__init__.pyi"
SEARCH = 'data-md-component="search" role="dialog" aria-label="Search"'
DIRECTIVE = re.compile(r"^::: ([\w.]+)", re.M)
# a block that needs a library, takes long or is refused
FENCE = re.compile(r"^```python \w[\w ]*$", re.M)
# the lesson that a lesson names at its end
NEXT = re.compile(r"\*\*Next:\*\* `(\w+)\.ipynb`")
# a link of a page to a file of the clone that is not in docs/
OUTSIDE = re.compile(r"\[(`?)([^\]]+?)`?\]\((?:\.\./){2}([^)#]+)[^)]*\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Give each lesson a place in the navigation."""
    course = next(part["Course"] for part in config.nav if "Course" in part)
    course += [f"course/{name}.md" for name in lessons() if f"course/{name}.md" not in course]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of lessons and of names."""
    for name, path in lessons().items():
        page = lesson_page(open_form(read(path)), path.name)
        files.append(File.generated(config, f"course/{name}.md", content=page))
    written = [f.content_string for f in files.documentation_pages()]
    known = {path for text in written for path in DIRECTIVE.findall(text)}
    page = names_page(known)
    files.append(File.generated(config, "reference/names.md", content=page))
    return files


def on_page_markdown(markdown: str, **_: object) -> str:
    """Return a page as the site has it.

    A link to a file of the clone becomes its name, since the site does not have the file. The words
    after the language of a block, which are for the tests, go: they are not Markdown of mkdocs.
    """

    def named(link: re.Match[str]) -> str:
        tick, text, file = link.groups()
        return f"`{file}`" if tick or text == file else f"{text} (`{file}` in the clone)"

    return FENCE.sub("```python", OUTSIDE.sub(named, markdown))


def on_post_page(output: str, **_: object) -> str:
    """Return a page whose search box has a name, which the theme leaves out."""
    return output.replace('data-md-component="search" role="dialog"', SEARCH)


def lesson_page(lesson: Notebook, file: str) -> str:
    """Return a lesson as Markdown: its text, and its code in blocks."""
    parts = []
    for cell in lesson["cells"]:
        source = source_of(cell).strip()
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
    number = file.partition("_")[0]
    run = f"Run this lesson: `python -m schedlang course my-course --lesson {number}`"
    title, _, rest = parts[0].partition("\n")
    where = f"*{run}, then open `my-course/{file}`. Its cells show results, and this page none.*"
    page = "\n\n".join([title, where, rest.strip(), *parts[1:]])
    return NEXT.sub(r"**Next:** [the next lesson](\1.md)", page)


def names_page(known: set[str]) -> str:
    """Return a page with each public name, and the docstrings that no other page has."""
    lines = [
        "# All names",
        "",
        "You look for a name of `schedlang` here, which the examples import as `sl`. Names with a",
        "page of their own are not repeated: the search leads you there.",
        "",
    ]
    for name, path in sorted(public_names(), key=lambda pair: pair[0].lower()):
        if path not in known:
            lines += [f"::: {path}", "    options:", f"      heading: sl.{name}", ""]
    return "\n".join(lines)


def public_names() -> Iterator[tuple[str, str]]:
    """Yield each name of the package with the path of its definition."""
    for node in ast.parse(STUB.read_text("utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.module != "schedlang":
            for alias in node.names:
                if alias.asname is not None and not alias.asname.startswith("_"):
                    yield alias.asname, f"{node.module}.{alias.name}"


__all__ = ["lesson_page", "names_page", "on_config", "on_files", "on_page_markdown", "on_post_page"]
