"""Tables of the results of a class: as text, one line a student, and as CSV, one line a result."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from io import StringIO

from schedlang.course.grading.collect import Result
from schedlang.markup.text import printable
from schedlang.runtime.timing import number

COLUMNS = ("student", "task", "exercise", "state", "message")
LAB_COLUMNS = ("points", "most_points", "speedup", "seconds", "reference_seconds", "machine")


def as_csv(results: Sequence[Result]) -> str:
    """Return results as CSV with a header; counts of labs have columns at the end.

    >>> print(as_csv([Result("ada", "1_say_what", "2", "right", "Correct.")]).splitlines()[1])
    ada,1_say_what,2,right,Correct.,,,,,,
    """
    counts = list(dict.fromkeys(name for r in results if r.lab for name in r.lab.counts))
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*COLUMNS, *LAB_COLUMNS, *map(_plain, counts)])
    for result in results:
        row = [_plain(str(getattr(result, name))) for name in COLUMNS]
        lab = result.lab
        row += ["" if lab is None else _plain(str(getattr(lab, name))) for name in LAB_COLUMNS]
        row += ["" if lab is None else str(lab.counts.get(name, "")) for name in counts]
        writer.writerow([printable(cell) for cell in row])
    return text.getvalue()


def _plain(text: str) -> str:
    """Return a text that no program for tables takes for a formula.

    >>> _plain("=1+1"), _plain("ada")
    ("'=1+1", 'ada')
    """
    return f"'{text}" if text.lstrip()[:1] in ("=", "+", "-", "@") else text


def as_table(results: Sequence[Result]) -> str:
    """Return a table with a line for each student: solved exercises, points and speedups.

    The students with the most points come first, then those with more solved exercises.
    """
    students = list(dict.fromkeys(result.student for result in results))
    tasks = sorted({r.task for r in results}, key=_order)
    rows = []
    for student in students:
        own = [r for r in results if r.student == student]
        points = sum(r.lab.points for r in own if r.lab)
        solved = sum(r.state == "right" for r in own if r.lab is None)
        cells = [_cell([r for r in own if r.task == task]) for task in tasks]
        rows.append((-points, -solved, [student, *cells]))
    table = [["student", *tasks], *(cells for *_, cells in sorted(rows))]
    widths = [max(len(row[k]) for row in table) for k in range(len(table[0]))]
    lines = ["  ".join(c.ljust(w) for c, w in zip(row, widths)).rstrip() for row in table]
    return "\n".join(lines)


def _cell(results: Sequence[Result]) -> str:
    """Return the results of a student in a task: ``3 of 4`` exercises, or points and a speedup."""
    labs = [r.lab for r in results if r.lab is not None]
    if labs:
        best = max(labs, key=lambda one: (one.points, one.speedup))
        if not best.correct:
            return "wrong"
        points = f"{number(best.points)} of {number(best.most_points)}"
        return f"{points} ({number(best.speedup, 2)} times as fast)"
    if not results:
        return "-"
    return f"{sum(r.state == 'right' for r in results)} of {len(results)}"


def _order(task: str) -> tuple[float, str]:
    """Return the place of a task: lessons by their numbers, then labs."""
    first = task.partition("_")[0]
    return (float(first) if first.isdecimal() else float("inf"), task)
