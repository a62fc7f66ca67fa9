"""Wrong answers to the exercises of the course, with what each is told.

``<lesson>.txt`` has them by exercise: ``# 1``, then the code in place of the line with ``...`` and,
after ``=> ``, pieces of the message, for each answer; an empty line ends it.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class WrongAnswer(NamedTuple):
    """The code of a wrong answer, and pieces of the message about it."""

    code: str
    told: list[str]


def wrong_answers(lesson: str) -> dict[int, list[WrongAnswer]]:
    """Return the wrong answers to the exercises of a lesson, by their numbers."""
    answers: dict[int, list[WrongAnswer]] = {}
    exercise, code, told = 0, list[str](), list[str]()
    text = (Path(__file__).parent / f"{lesson}.txt").read_text("utf-8")
    for line in [*text.splitlines(), ""]:
        if line.startswith("# "):
            exercise = int(line[2:])
        elif line.startswith("=> "):
            told.append(line[3:])
        elif line or not told:
            code.append(line)
        else:
            answers.setdefault(exercise, []).append(WrongAnswer("\n".join(code), told))
            code, told = [], []
    return answers
