"""Two forms of a lesson: with its exercises open, and with them solved.

A lesson is stored once. A code cell with the tag ``exercise`` has one line with ``...``. A later
Markdown cell with the tag ``solution``, before the next exercise, has the code that stands for that
line, in a block. So the two forms are derived, and cannot disagree.
"""

from __future__ import annotations

import re
from textwrap import indent
from typing import Any

from schedlang.course.lessons import Notebook, slide_type, source_of, tags_of
from schedlang.errors import BuildError

# the line to be written: alone, or the value of a name
OPEN = re.compile(r"^(?P<indent> *)(?:[\w, ]+ = )?\.\.\.(?: *#.*)?$", re.M)
BLOCK = re.compile(r"^```python\n(?P<code>.*?)^```$", re.M | re.S)
# what folds a solution in a notebook
_FOLD = re.compile(r"</?details>|<summary>.*?</summary>")


def open_form(notebook: Notebook, notes: bool = False) -> Notebook:
    """Return a lesson without its solutions, and without the ``notes`` for the teacher."""
    cells = [
        cell
        for cell in notebook["cells"]
        if "solution" not in tags_of(cell) and (notes or slide_type(cell) != "notes")
    ]
    return {**notebook, "cells": cells}


def solved_form(notebook: Notebook) -> Notebook:
    """Return a lesson with its exercises solved, and what its solutions say besides code.

    Raise :class:`~schedlang.errors.BuildError` for an exercise without a solution, and for one
    whose cell does not have exactly one line with ``...``.
    """
    solutions = solutions_of(notebook)
    cells: list[dict[str, Any]] = []
    count = 0
    for cell in notebook["cells"]:
        tags = tags_of(cell)
        if "exercise" in tags:
            source = solve(source_of(cell), solutions[count])
            cell = {**cell, "source": source.splitlines(keepends=True)}
            count += 1
        elif "solution" in tags:
            rest = _FOLD.sub("", BLOCK.sub("", source_of(cell))).strip()
            if not rest:
                continue
            cell = {**cell, "source": rest.splitlines(keepends=True)}
        cells.append(cell)
    return {**notebook, "cells": cells}


def solutions_of(notebook: Notebook) -> list[str]:
    """Return the code of the solution of each exercise, in order."""
    solutions: list[str] = []
    exercises = 0
    for cell in notebook["cells"]:
        exercises += "exercise" in tags_of(cell)
        if "solution" in tags_of(cell):
            blocks = BLOCK.findall(source_of(cell))
            if len(blocks) != 1 or len(solutions) + 1 != exercises:
                raise BuildError(
                    f"exercise {exercises}: its solution must follow it, with one block of code"
                )
            solutions.append(blocks[0])
    if len(solutions) != exercises:
        raise BuildError(f"exercise {exercises} has no solution")
    return solutions


def solve(source: str, solution: str) -> str:
    """Return the source of an exercise with the solution in place of its line with ``...``.

    >>> print(solve("def f(x):\\n    ...  # your code\\nf(1)", "return x\\n"))
    def f(x):
        return x
    f(1)
    """
    open_lines = list(OPEN.finditer(source))
    if len(open_lines) != 1:
        raise BuildError(f"an exercise has one line with ..., not {len(open_lines)}:\n{source}")
    place = open_lines[0]
    code = indent(solution.rstrip("\n"), place["indent"])
    return source[: place.start()] + code + source[place.end() :]
