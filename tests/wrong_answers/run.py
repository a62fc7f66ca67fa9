"""Run a lesson, and each wrong answer to its exercises in a copy of the names that are there.

``python -m tests.wrong_answers.run 1_say_what`` prints, as JSON, the message about each wrong
answer by exercise. It has a process of its own, since lessons set what libraries read at their
start.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from contextlib import redirect_stdout
from io import StringIO
from typing import Any

from schedlang.course.forms import open_form, solve
from schedlang.course.lessons import lessons, read, source_of, tags_of
from tests.wrong_answers import wrong_answers


def messages(lesson: str) -> dict[int, list[str]]:
    """Return what each wrong answer to the exercises of a lesson is told."""
    answers, names = wrong_answers(lesson), dict[str, Any]()
    told: dict[int, list[str]] = {}
    for cell in open_form(read(lessons()[lesson]))["cells"]:
        if cell["cell_type"] != "code":
            continue
        source = source_of(cell)
        if "exercise" in tags_of(cell):
            number = len(told) + 1
            told[number] = [run(solve(source, one.code), dict(names)) for one in answers[number]]
        said = run(source, names)
        if said.startswith("error: ") and "raises-exception" not in tags_of(cell):
            raise AssertionError(f"{source}\n{said}")
    return told


def run(source: str, names: dict[str, Any]) -> str:
    """Run the source of a cell; return its error, or what it prints."""
    printed = StringIO()
    try:
        with redirect_stdout(printed):
            exec(compile(source, "cell", "exec"), names)
    except Exception as error:  # noqa: BLE001 - an answer may raise anything
        return f"error: {error}"
    return printed.getvalue()


if __name__ == "__main__":
    os.environ["MPLBACKEND"] = "Agg"
    warnings.simplefilter("ignore")
    told = messages(sys.argv[1])
    print(json.dumps(told))
