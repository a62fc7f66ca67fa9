"""Wrong answers to the exercises of the course, with what each is told.

``<lesson>.txt`` has them by exercise: ``# 1``, then for each answer the code in place of the line
with ``...``, after ``=> `` pieces of the message, and after ``=! `` words of later lessons, which
the message does not have; an empty line ends the answer.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class WrongAnswer(NamedTuple):
    """The code of a wrong answer, pieces of its message, and words that are not in it."""

    code: str
    told: list[str]
    untold: list[str]


def wrong_answers(lesson: str) -> dict[int, list[WrongAnswer]]:
    """Return the wrong answers to the exercises of a lesson, by their numbers."""
    answers: dict[int, list[WrongAnswer]] = {}
    exercise, code = 0, list[str]()
    told, untold = list[str](), list[str]()
    text = (Path(__file__).parent / f"{lesson}.txt").read_text("utf-8")
    for line in [*text.splitlines(), ""]:
        if line.startswith("# "):
            exercise = int(line[2:])
        elif line.startswith("=> "):
            told.append(line[3:])
        elif line.startswith("=! "):
            untold.append(line[3:])
        elif line or not told:
            code.append(line)
        else:
            answers.setdefault(exercise, []).append(WrongAnswer("\n".join(code), told, untold))
            code, told, untold = [], [], []
    return answers
