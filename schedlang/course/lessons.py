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
        found = [path for path in folder.glob("*.ipynb") if re.match(r"\d+_", path.name)]
        if found:
            found.sort(key=lambda path: (int(path.name.partition("_")[0]), path.name))
            return {path.stem: path for path in found}
    raise BuildError(
        explain(
            "course", f"its notebooks are not in {_FOLDERS[0]}",
            "Install schedlang again: pip install --force-reinstall schedlang.",
        )
    )  # fmt: skip


def chosen(names: list[str]) -> dict[str, Path]:
    """Return the lessons of these names or numbers; all of them if there are none.

    Raise :class:`~schedlang.errors.BuildError` for an unknown one.

    >>> list(chosen(["1"]))
    ['1_say_what']
    """
    known = lessons()
    found = {}
    for name in names:
        fits = [n for n in known if name in (n, n.partition("_")[0])]
        if not fits:
            raise BuildError(
                f"course --lesson {name}: no such lesson{nearest(name, known)}; the lessons are "
                f"{', '.join(known)}"
            )
        found[fits[0]] = known[fits[0]]
    return found or known


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
