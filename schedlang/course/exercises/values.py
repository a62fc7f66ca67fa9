"""Answers that are numbers, texts or arrays, and the words for numbers that are often wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from schedlang.course.exercises.differences import Shortfall, difference, raise_shortfall
from schedlang.errors import CallTypeError, amount, explain

# the accepted error of plain numbers and arrays
PLAIN = 1e-6


def is_open(given: Any) -> bool:
    """Return whether an answer is still to be written."""
    if isinstance(given, (tuple, list)):
        return any(is_open(one) for one in given)
    return given is ... or given is None


def check_value(
    solution: Any, expected: Any, mistakes: Mapping[Any, str], rtol: float | None, hint: str
) -> None:
    """Compare numbers, texts or arrays."""
    if expected is None or callable(solution):
        raise CallTypeError(
            explain(
                f"check({type(solution).__name__})",
                "it compares tensors, schedules, kernels, numbers and arrays",
                "Give one of these, and the expected result.",
            )
        )
    ours, theirs = (
        tuple(one) if isinstance(one, (tuple, list)) else (one,) for one in (solution, expected)
    )
    if len(ours) != len(theirs):
        there = f"there {'is' if len(ours) == 1 else 'are'} {amount(len(ours), 'answer')}"
        raise_shortfall(Shortfall(f"{there}, and {asked_for(len(theirs))}"), hint)
    for n, (one, right) in enumerate(zip(ours, theirs)):
        name = "the answer" if len(ours) == 1 else f"answer {n + 1}"
        shortfall = difference(name, one, right, PLAIN if rtol is None else rtol)
        if shortfall is not None and np.asarray(one).ndim == 0:
            # the right number would be the solution
            shortfall = Shortfall(f"{name}, {one}, is not right", word=word_for(ours, mistakes))
        raise_shortfall(shortfall, hint)
    print("Correct.")


def asked_for(count: int) -> str:
    """Return a demand of a number as text.

    >>> asked_for(1), asked_for(4000)
    ('1 is asked for', '4,000 are asked for')
    """
    return f"{count:,} {'is' if count == 1 else 'are'} asked for"


def word_for(numbers: Sequence[Any], mistakes: Mapping[Any, str]) -> str:
    """Return the words for wrong numbers; "" if there are none.

    >>> word_for((8,), {8: "twice"}), word_for((8, 3), {(8, ...): "twice"}), word_for((2,), {})
    ('twice', 'twice', '')
    """
    for key, word in mistakes.items():
        parts = key if isinstance(key, tuple) else (key,)
        if len(parts) == len(numbers) and all(
            part is ... or np.array_equal(part, one) for part, one in zip(parts, numbers)
        ):
            return word
    return ""
