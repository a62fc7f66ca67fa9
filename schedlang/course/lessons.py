"""The notebooks of the course: where they are, and their names."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from schedlang.errors import BuildError, explain, nearest

Notebook = dict[str, Any]

# package data; in a clone, a link to examples/notebooks, which not every system follows
_HERE = Path(__file__).parent
_FOLDERS = (_HERE / "notebooks", _HERE.parent.parent / "examples" / "notebooks")


def lessons() -> dict[str, Path]:
    """Return the files of the lessons by name, such as ``1_say_what``, in order.

    Raise :class:`~schedlang.errors.BuildError` if they are not installed.

    >>> list(lessons())[0]
    '1_say_what'
    """
    for folder in _FOLDERS:
        paths = [path for path in folder.glob("*.ipynb") if re.match(r"\d+_", path.name)]
        if paths:
            paths.sort(key=lambda path: (int(path.name.partition("_")[0]), path.name))
            return {path.stem: path for path in paths}
    raise BuildError(
        explain(
            "course",
            f"its notebooks are not in {_FOLDERS[0]}",
            "Install schedlang again: pip install --force-reinstall schedlang.",
        )
    )


def choose(names: list[str]) -> dict[str, Path]:
    """Return the lessons of these names or numbers; all of them if there are none.

    Raise :class:`~schedlang.errors.BuildError` for an unknown one.

    >>> list(choose(["1"]))
    ['1_say_what']
    """
    all_lessons = lessons()
    picked = {}
    for name in names:
        fits = [n for n in all_lessons if name in (n, n.partition("_")[0])]
        if not fits:
            raise BuildError(
                f"course --lesson {name}: no such lesson{nearest(name, all_lessons)}; the lessons "
                "are "
                f"{', '.join(all_lessons)}"
            )
        picked[fits[0]] = all_lessons[fits[0]]
    return picked or all_lessons


def read(path: Path) -> Notebook:
    """Return the notebook in a file."""
    return json.loads(path.read_text("utf-8"))


def text_of(notebook: Notebook) -> str:
    """Return a notebook as the text of its file, as Jupyter writes it."""
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def source_of(cell: dict[str, Any]) -> str:
    """Return the text of a cell."""
    return "".join(cell["source"])


def tags_of(cell: dict[str, Any]) -> list[str]:
    """Return the tags of a cell."""
    return list(cell.get("metadata", {}).get("tags", []))


def slide_type(cell: dict[str, Any]) -> str:
    """Return what a cell is to slides: ``slide``, ``subslide``, ``fragment``, ``notes``, ...

    >>> slide_type({"metadata": {}})
    '-'
    """
    return str(cell.get("metadata", {}).get("slideshow", {}).get("slide_type", "-"))
