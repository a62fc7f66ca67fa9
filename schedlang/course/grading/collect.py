"""The results of a class in a folder: exercises in notebooks, and files of labs."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schedlang.course.forms import OPEN
from schedlang.course.grading.record import ENDING, LabResult, read_result
from schedlang.course.lessons import Notebook, lessons, read, source_of, tags_of
from schedlang.errors import BuildError, first_line

_HEADING = re.compile(r"^### Exercise (\d+)", re.M)


@dataclass(frozen=True)
class Result:
    """One line of a table: an exercise of a lesson, or a lab.

    ``state`` is ``right``, ``wrong``, ``open``, ``not run``, ``missing`` for an exercise of a
    lesson that its notebook no longer has, ``changed`` for one whose check is not the lesson's, or
    ``failed`` for a notebook that does not run to its end. ``lab`` is the whole result of a lab.
    """

    student: str
    task: str
    exercise: str
    state: str
    message: str = ""
    lab: LabResult | None = None


def collect(folder: Path, run: Callable[[Notebook, Path], Notebook] | None) -> list[Result]:
    """Return the results of the notebooks and labs below a folder, by student and task.

    The student of a notebook is the first folder on its path below ``folder``; the author of a
    lab is in its file. The states are read from the outputs that a notebook was saved with, or from
    the outputs of ``run``, which runs it in a folder. A notebook with the name of a lesson has a
    result for each exercise of the lesson.

    Raise :class:`~schedlang.errors.BuildError` for a folder without results, and for a file that
    cannot be read.
    """
    if not folder.is_dir():
        raise BuildError(f"results {folder}: there is no such folder")
    results: list[Result] = []
    for path in _files(folder, "*.ipynb"):
        place = path.relative_to(folder)
        student = place.parts[0] if len(place.parts) > 1 else folder.resolve().name
        results += _exercises(student, path, run)
    for path in _files(folder, f"*{ENDING}"):
        lab = read_result(path)
        state = "right" if lab.correct else "wrong"
        results.append(Result(lab.author, lab.lab, "", state, lab.message, lab))
    if not results:
        raise BuildError(
            f"results {folder}: it holds neither notebooks with exercises nor results of labs"
        )
    return sorted(results, key=lambda r: (r.student, r.task))


def _files(folder: Path, pattern: str) -> Iterator[Path]:
    """Yield the files below a folder, without solutions and the files that programs hide."""
    for path in sorted(folder.rglob(pattern)):
        parts = path.relative_to(folder).parts
        if "solutions" not in parts and not any(p.startswith((".", "__MACOSX")) for p in parts):
            yield path


def _exercises(
    student: str, path: Path, run: Callable[[Notebook, Path], Notebook] | None
) -> Iterator[Result]:
    try:
        notebook = read(path)
        cells = notebook["cells"]
        if not any("exercise" in tags_of(cell) for cell in cells):
            return
        if run is not None:
            try:
                with tempfile.TemporaryDirectory() as empty:
                    cells = run(notebook, Path(empty))["cells"]
            except BuildError as error:
                # one notebook that hangs leaves the others of the class
                yield Result(student, path.stem, "", "failed", first_line(error))
                return
        known = lessons().get(path.stem)
        asked = [] if known is None else list(_numbered(read(known)["cells"]))
        for number, state, message in _states(list(_numbered(cells)), asked):
            yield Result(student, path.stem, number, state, message)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise BuildError(f"results: {path} is not a notebook: {error}") from None


def _numbered(cells: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the cells with exercises, each with the number that the heading above it has."""
    number = ""
    for cell in cells:
        if cell["cell_type"] == "markdown":
            headings = _HEADING.findall(source_of(cell))
            number = headings[-1] if headings else number
        elif "exercise" in tags_of(cell):
            yield number, cell


def _states(
    own: list[tuple[str, dict[str, Any]]], asked: list[tuple[str, dict[str, Any]]]
) -> Iterator[tuple[str, str, str]]:
    """Yield number, state and message of each exercise that is ``asked``, or of each own one.

    ``asked`` are the exercises of the lesson; a notebook that is none has only its own.
    """
    for number, cell in [] if asked else own:
        yield number, *state_of(cell.get("outputs", []))
    for number, cell in asked:
        answers = [one for n, one in own if n == number]
        unchanged = [one for one in answers if has_check(source_of(one), source_of(cell))]
        if unchanged:
            yield number, *state_of(unchanged[0].get("outputs", []))
        elif answers:
            yield number, "changed", "its check is not the one of the lesson that is installed"
        else:
            yield number, "missing", "the notebook no longer has this exercise"


def has_check(answer: str, exercise: str) -> bool:
    """Return whether an answer has the lines of its exercise that follow the open one, in order.

    >>> has_check("x = 3\\n\\ncheck(x, 3)  \\n", "x = ...\\ncheck(x, 3)")
    True
    >>> has_check("print('Correct.')", "x = ...\\ncheck(x, 3)")
    False
    """
    place = OPEN.search(exercise)
    check = exercise[place.end() :] if place else exercise
    lines = iter([line.strip() for line in answer.splitlines()])
    return all(line.strip() in lines for line in check.splitlines() if line.strip())


def state_of(outputs: list[dict[str, Any]]) -> tuple[str, str]:
    """Return the state of an exercise by the outputs of its cell, and the message about it.

    >>> def printed(text):
    ...     return {"output_type": "stream", "name": "stdout", "text": [text, "\\n"]}
    >>> state_of([printed("Correct."), printed("Not solved yet: ...")])[0], state_of([])[0]
    ('open', 'not run')
    >>> state_of([{"output_type": "error", "ename": "CheckError", "evalue": "C is wrong\\n  Why."}])
    ('wrong', 'C is wrong')
    """
    errors = [out for out in outputs if out["output_type"] == "error"]
    if errors:
        lines = str(errors[0]["evalue"]).splitlines() or [str(errors[0]["ename"])]
        return "wrong", lines[0]
    text = "".join(
        "".join(out["text"]) for out in outputs if out["output_type"] == "stream"
    ).splitlines()
    for state, start in (("open", "Not solved yet"), ("right", "Correct")):
        for line in text:
            if line.startswith(start):
                return state, line
    return "not run", ""
