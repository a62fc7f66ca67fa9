"""``sl.testing.lab``: a lab in performance, graded beside a reference on the same machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any

from schedlang.course.exercises.answer import Answer, answer_of
from schedlang.course.exercises.check import NO_STEP
from schedlang.course.exercises.compare import compare
from schedlang.course.exercises.requirements import count_text, counts_of, rival_call
from schedlang.course.exercises.speed import Race, race
from schedlang.course.exercises.values import is_open
from schedlang.course.grading.record import LabResult, write_result
from schedlang.errors import (
    CallError,
    CallTypeError,
    CheckError,
    explain,
    shorten_traceback,
)
from schedlang.runtime.environment import machine
from schedlang.runtime.timing import number
from schedlang.schedule.schedule import Schedule
from schedlang.signatures import public
from schedlang.version import __version__

OPEN = "Not solved yet: give a schedule or a kernel of your own."


@public
def lab(
    name: str,
    answer: Any,
    expected: Any = None,
    *arrays: Any,
    reference: Any,
    goals: Mapping[float, float],
    counts: Sequence[str] = ("loads", "stores"),
    caches: Any = True,
    author: str = "",
    folder: str | Path | None = None,
    target: Any = None,
    rtol: float | None = None,
) -> LabResult | None:
    """Grade a schedule or kernel: its result, its counts, and its speed beside a reference.

    ``answer``, ``expected``, ``arrays``, ``caches``, ``target`` and ``rtol`` are as in
    :func:`~schedlang.testing.check`; give ``arrays`` of the size that counts. ``reference`` is a
    schedule, a kernel or a function of the arrays. Both are timed in turns, on this machine.

    ``goals`` are points by speedups: ``{1: 50, 2: 80, 4: 100}`` gives 80 points to a kernel that is
    3 times as fast as the reference. A wrong result has 0 points, and is not timed. ``counts`` are
    names as in ``check(counts=...)``, which the result reports.

    With a ``folder``, the result is written there as ``<author>.<lab>.lab.json``, the wrong ones,
    too; ``python -m schedlang results`` makes a table of such a folder.

    Return the result, or ``None`` for an ``answer`` that is still ``...`` or a schedule without
    steps. Raise
    :class:`~schedlang.errors.CheckError` for a wrong result, after its file is written, and
    :class:`~schedlang.errors.CallError` for a GPU that is emulated: it has no times.

    >>> import numpy as np
    >>> import schedlang as sl
    >>> A = sl.placeholder((512, 512), name="A")
    >>> T = sl.compute((512, 512), lambda i, j: A[i, j] * 2, name="T")
    >>> column, s = sl.schedule(T), sl.schedule(T)
    >>> column[T].reorder(*reversed(T.op.axis))
    >>> s[T].unroll(s[T].split(T.op.axis[1], factor=8)[1])
    >>> a = np.ones((512, 512), "float32")
    >>> result = sl.testing.lab(
    ...     "twice", s, lambda a: 2 * a, a, reference=column, goals={0.001: 10}
    ... )  # doctest: +ELLIPSIS
    Correct: 262,144 loads; 262,144 stores; ... times as fast (...).
    twice: 10 of 10 points
    """
    try:
        return _lab(
            name, answer, expected, arrays, reference, dict(goals), list(counts), caches,
            author, None if folder is None else Path(folder), target, rtol,
        )  # fmt: skip
    except (CheckError, CallError, CallTypeError) as error:
        raise shorten_traceback(error) from None


def _lab(
    name: str,
    solution: Any,
    expected: Any,
    arrays: Sequence[Any],
    reference: Any,
    goals: dict[float, float],
    names: list[str],
    caches: Any,
    author: str,
    folder: Path | None,
    target: Any,
    rtol: float | None,
) -> LabResult | None:
    if not goals or not all(0 < s and isfinite(s) and 0 <= p for s, p in goals.items()):
        raise CallError(f"lab(goals={goals!r}): give points by speedups above 0")
    if folder is not None and not author:
        raise CallError(
            explain("lab(folder=...)", "the result has no author", "Give author='your name'.")
        )
    if is_open(solution):
        print(OPEN)
        return None
    if isinstance(solution, Schedule) and not solution.steps:
        print(NO_STEP.format(f"the schedule of {solution.outputs[0].op.name}"))
        return None
    answer = answer_of(solution, target)
    if answer is None or answer.kernel is None:
        what = type(solution).__name__
        raise CallTypeError(f"lab({name!r}): give a schedule or a kernel, not a {what}")
    if answer.kernel.target.facts.timing != "host":
        raise CallError(f"lab({name!r}): a CPU emulates the GPU, and its times say nothing")
    shortfall, counted, race_result = _measured(
        answer, expected, arrays, reference, names, caches, rtol, max(goals)
    )
    points = 0.0
    if race_result is not None:
        reached = [goals[goal] for goal in goals if race_result.speedup >= goal]
        points = max(reached, default=0.0)
    assert answer.schedule is not None
    result = LabResult(
        lab=name,
        author=author,
        correct=not shortfall,
        points=points,
        most_points=max(goals.values()),
        message=shortfall,
        seconds=0.0 if race_result is None else race_result.ours,
        reference_seconds=0.0 if race_result is None else race_result.theirs,
        counts=counted,
        machine=machine(),
        version=__version__,
        code=answer.schedule.as_python(),
    )
    if folder is not None:
        write_result(result, folder)
    if shortfall:
        raise CheckError(shortfall)
    notes = [*(count_text(count, value) for count, value in counted.items()), str(race_result)]
    print(f"Correct: {'; '.join(notes)}.")
    print(f"{name}: {number(points)} of {number(result.most_points)} points{_next(points, goals)}")
    return result


def _measured(
    answer: Answer,
    expected: Any,
    arrays: Sequence[Any],
    reference: Any,
    names: list[str],
    caches: Any,
    rtol: float | None,
    best: float,
) -> tuple[str, dict[str, int], Race | None]:
    """Return what is wrong with the result, the counts, and the times; no more if it is wrong.

    The times are taken again if the speedup is below ``best``.
    """
    values, _, shortfall = compare(answer, expected, arrays, rtol)
    if shortfall is not None:
        return "\n".join(filter(None, [shortfall.why, shortfall.hint])), {}, None
    counted = counts_of(answer, values, names, caches) if names else {}
    rival = rival_call(reference, answer, values)
    return "", counted, race(answer.call(values), rival, best)


def _next(points: float, goals: Mapping[float, float]) -> str:
    """Return the next goal as the end of a sentence; "" if the best is reached.

    >>> _next(50, {1: 50, 2: 80, 4: 100}), _next(100, {4: 100})
    ('; 80 from 2 times as fast on', '')
    """
    more = [goal for goal in sorted(goals) if goals[goal] > points]
    return f"; {number(goals[more[0]])} from {more[0]:g} times as fast on" if more else ""


__all__ = ["lab"]
