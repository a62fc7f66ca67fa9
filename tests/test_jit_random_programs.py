"""Random NumPy programs under ``sl.jit`` beside NumPy, and programs that were wrong once.

``python -m tests.fuzz.programs`` runs more.
"""

from __future__ import annotations

import pytest

from tests.fuzz.program_text import random_program
from tests.fuzz.programs import described, difference, outcome_of

VECTOR, MATRIX = "float64[6]", "float64[6,6]"
# sources of functions, with their arguments
RIGHT = {
    "an array changed in place beside a name that only the loop assigns": (
        """
def program(x):
    for i in range(6):
        j = 2
        x *= j * 2
    return j, x
""",
        {"x": "complex128[6]"},
    ),
    "a name of the whole array, which is written after the loop": (
        """
def program(a):
    for i in range(len(a)):
        v = a
    a[0, -1] -= 2
    return v
""",
        {"a": MATRIX},
    ),
    "a view, which is written after the loop": (
        """
def program(x, y):
    for r in reversed(y):
        v = x[-2::-1]
    x[0] += 1
    v[1] = 5
    return v, x
""",
        {"x": VECTOR, "y": VECTOR},
    ),
    "a view of the view of the iteration before": (
        """
def program(x):
    v = x
    for i in range(1, 6):
        v = v[::-1]
        v[0] += i
    return v, x
""",
        {"x": VECTOR},
    ),
    "the last index of a loop that may be empty": (
        """
def program(x):
    j = 9
    for i in range(5):
        for j in range(2, i):
            x[j] += 1
        x[i] += j
    return j, x
""",
        {"x": "int64[5]"},
    ),
    "the last index of a loop, which no name has before": (
        """
def program(x):
    for i in range(5):
        for j in range(4 - i):
            x[j] += 1
    return j, x
""",
        {"x": "int64[5]"},
    ),
    "an item that the body assigns to, read after the loop": (
        """
def program(x):
    for r in x:
        r *= 0.5
    return r
""",
        {"x": VECTOR},
    ),
    "numbers of Python take the dtype of what they meet": (
        """
def program(x):
    q = x[-1]
    q += float(x[0])
    return q, int(x[2]) + x, float(x[1]) * x, np.int32(2) + int(x[3]), int(x[1])
""",
        {"x": "float32[6]"},
    ),
    "one element that fills a slice in each iteration": (
        """
def program(x, y):
    for r in x:
        y[1::2] = y[2]
""",
        {"x": VECTOR, "y": "bool[6]"},
    ),
}
REFUSED = {
    "a name that only a while on elements assigns": (
        """
def program(x):
    k = x[0] * 0
    while k < 3:
        v = x + 1
        k += 1
    return v
""",
        {"x": VECTOR},
        "Assign to v before the loop or the if",
    ),
    "a view that a while on elements leaves": (
        """
def program(x):
    v = x
    while v[0] < 4:
        v = x[::-1]
        v += 1
    x[3] = 7
    return v
""",
        {"x": VECTOR},
        "v shares memory with another array",
    ),
}


@pytest.mark.parametrize("case", RIGHT)
def test_programs_that_were_wrong(case: str) -> None:
    source, kinds = RIGHT[case]
    outcome = outcome_of(source, kinds)
    assert outcome.kind == "right", outcome.text


@pytest.mark.parametrize("case", REFUSED)
def test_programs_that_are_refused(case: str) -> None:
    source, kinds, words = REFUSED[case]
    outcome = outcome_of(source, kinds)
    assert outcome.kind == "refused" and words in outcome.text, outcome.text


def compared(seed: str, index: int, **options: bool) -> bool:
    """Return whether a random program ran; raise if it is wrong."""
    program = random_program(seed, index)
    outcome = outcome_of(program.source, program.kinds, **options)
    assert outcome.kind != "failed", described(program, outcome)
    return outcome.kind == "right"


def test_random_programs() -> None:
    ran = sum(compared("tests", index) for index in range(60))
    assert ran > 40


@pytest.mark.slow
@pytest.mark.parametrize("part", range(6))
def test_many_random_programs(part: int) -> None:
    ran = sum(compared("slow tests", index) for index in range(100 * part, 100 * part + 100))
    assert ran > 65


@pytest.mark.slow
def test_random_programs_as_they_are_scheduled() -> None:
    for index in range(30):
        compared("scheduled", index, scheduled=True)


@pytest.mark.parametrize(
    ("found", "wanted", "words"),
    [(1.0, 2.0, "is 1.0, not 2.0"), ((1.0,), (1.0, 2.0), "not"), ([1.0], [1], "")],
)
def test_differences(found: object, wanted: object, words: str) -> None:
    """Results of another value or form differ; a number of Python may be an int or a float."""
    problem = difference(found, wanted, coarse=False)
    assert words in problem and bool(words) == bool(problem)
