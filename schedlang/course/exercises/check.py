"""``sl.testing.check``: an exercise that checks itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from numbers import Real
from typing import Any

import numpy as np

from schedlang.course.exercises.answer import Answer, answer_of
from schedlang.course.exercises.compare import compare
from schedlang.course.exercises.differences import Shortfall, raise_shortfall
from schedlang.course.exercises.requirements import (
    lacks_steps,
    other_nest,
    other_stages,
    other_steps,
    primitives,
    too_slow,
    wrong_counts,
)
from schedlang.course.exercises.values import check_value, is_open
from schedlang.errors import (
    CallError,
    CallTypeError,
    CheckError,
    VerifyError,
    explain,
    shorten_traceback,
)
from schedlang.schedule.schedule import Schedule
from schedlang.signatures import public

UNSOLVED = "Not solved yet: write your code in place of the ... in this cell."
NO_STEP = "Not solved yet: {} has no step of yours; write some in place of the ... in this cell."


@public
def check(
    answer: Any,
    expected: Any = None,
    *arrays: Any,
    has: str | Sequence[str] = (),
    only: str | Sequence[str] = (),
    stages: int | None = None,
    nest: str | Schedule | None = None,
    counts: Mapping[str, int] | None = None,
    most: Mapping[str, int] | None = None,
    faster_than: Any = None,
    times: float = 1.0,
    caches: Any = True,
    mistakes: Mapping[Any, str] | None = None,
    start: Schedule | None = None,
    target: Any = None,
    rtol: float | None = None,
    hint: str = "",
) -> None:
    """Print that an answer to an exercise is correct, or raise an error that says what is not.

    ``answer`` is a tensor or a list of the tensors of one computation, a schedule, a kernel, a
    number, an array, or a tuple of these last two. ``...`` stands for an answer that is still to be
    written, and so does a schedule without steps, or with no steps besides the steps of ``start``,
    the schedule that an exercise begins with: then ``check`` only says so.

    ``expected`` is the result: a function of NumPy arrays, a tensor, an array or a number. A
    schedule and a kernel may leave it out: their results are compared with ``sl.reference``.
    ``arrays`` are the inputs, random if left out. They are in the order in which the expected
    tensor reads them. If ``expected`` is a function whose parameters have the names of the inputs,
    such as ``a`` for ``A``, its parameters give the order; else ``sl.reference(answer)`` does.
    ``rtol`` is the accepted error, relative to the largest element; by default it covers rounding.

    ``stages`` is the number of stages that compute the result, without its inputs.

    A schedule or kernel may have to do more:

    ``has``
        names of primitives that it uses, as ``"vectorize"``; one that is named twice, twice
    ``only``
        names of the primitives that it may use, besides what ``start`` uses
    ``nest``
        the loop nest, as text or as a schedule; the first line of the text may be left out
    ``counts``, ``most``
        exact numbers, and the largest allowed ones, of ``f.counters``: its fields, functions such
        as ``sin``, or ``L1`` for cache lines. ``caches`` are as in ``f.counters``.
    ``faster_than``, ``times``
        a schedule, kernel or function of the arrays, timed in turns, and the least speedup

    A schedule is built for ``target``. For ``"cuda-emulator"`` it runs in lockstep, so that races
    are errors; keep it small.

    ``hint`` is shown if the answer is wrong. ``mistakes`` has words for wrong numbers that many
    give, by the number of the answer, or by a count. For an answer of several numbers the key is a
    tuple, in which ``...`` stands for any. The words stand instead of the hint. Where speed is
    missing, the message also has the first advice of :func:`~schedlang.explain` about the
    primitives of ``only`` or ``has``, without the code.

    Functions of :func:`~schedlang.extern` are checked by ``T.op.check`` first, for random boxes.

    Raises :class:`~schedlang.errors.CheckError`, an ``AssertionError``, for a wrong answer,
    :class:`~schedlang.errors.VerifyError` for a function that leaves its boxes, and the errors of
    :func:`~schedlang.build` and of ``f.check``.

    >>> import schedlang as sl
    >>> A = sl.placeholder((4, 5), name="A")
    >>> B = sl.compute((5, 4), lambda i, j: A[j, i], name="B")
    >>> sl.testing.check(B, lambda a: a.T)
    Correct: all 20 elements of B are right.
    >>> sl.testing.check(...)
    Not solved yet: write your code in place of the ... in this cell.
    >>> sl.testing.check(B, lambda a: 2 * a.T, hint="Every element counts twice.")
    Traceback (most recent call last):
    ...
    schedlang.errors.CheckError: B[0, 0] is 0.273923 and should be 0.547847; all 20 elements differ
      Every element counts twice.
      Every element is 0.5 times the expected one.
    """
    try:
        _check(
            answer,
            expected,
            arrays,
            _Demands(
                primitives(has, "has"),
                primitives(only, "only"),
                stages,
                nest,
                counts or {},
                most or {},
                faster_than,
                times,
                caches,
                mistakes or {},
                start,
            ),
            target,
            rtol,
            hint,
        )
    except (CheckError, CallError, CallTypeError, VerifyError) as error:
        raise shorten_traceback(error) from None


@dataclass(frozen=True)
class _Demands:
    """The demands on a schedule besides the right result."""

    has: Sequence[str]
    only: Sequence[str]
    stages: int | None
    nest: str | Schedule | None
    counts: Mapping[str, int]
    most: Mapping[str, int]
    faster_than: Any
    times: float
    caches: Any
    mistakes: Mapping[Any, str]
    start: Schedule | None

    def __bool__(self) -> bool:
        """Return whether a schedule is asked for."""
        return bool(
            self.has
            or self.only
            or self.nest is not None
            or self.counts
            or self.most
            or self.faster_than is not None
        )

    def unmet(self, answer: Answer, arrays: Sequence[Any]) -> tuple[Shortfall | None, list[str]]:
        """Return what the answer lacks, or sentences about what it does."""
        notes: list[str] = []
        shortfall: Shortfall | None = lacks_steps(answer, self.has) if self.has else None
        if shortfall is None and self.only:
            shortfall = other_steps(answer, self.only, self.start)
        if shortfall is None and self.nest is not None:
            shortfall = other_nest(answer, self.nest)
        if shortfall is None and (self.counts or self.most):
            shortfall, notes = wrong_counts(
                answer, arrays, self.counts, self.most, self.caches, self.mistakes
            )
        if shortfall is None and self.faster_than is not None:
            topic = self.only or self.has
            shortfall, more = too_slow(answer, arrays, self.faster_than, self.times, topic)
            notes += more
        return shortfall, notes


def _check(
    solution: Any,
    expected: Any,
    arrays: Sequence[Any],
    demands: _Demands,
    target: Any,
    rtol: float | None,
    hint: str,
) -> None:
    if not isinstance(demands.times, Real) or not 0 < demands.times or not isfinite(demands.times):
        raise CallError(f"check(times={demands.times!r}): give a number above 0")
    if rtol is not None and (not isinstance(rtol, Real) or not 0 <= rtol or not isfinite(rtol)):
        raise CallError(f"check(rtol={rtol!r}): give a number of 0 or more")
    if is_open(solution):
        print(UNSOLVED)
        return
    if isinstance(solution, Schedule):
        begun = "" if demands.start is None else demands.start.as_python()
        if not solution.steps or solution.as_python() == begun:
            print(NO_STEP.format(f"the schedule of {solution.outputs[0].op.name}"))
            return
    answer = answer_of(solution, target)
    if answer is None:
        if demands or demands.stages is not None:
            raise CallTypeError(
                explain(
                    f"check({type(solution).__name__})",
                    "only a schedule or a kernel has steps, counts and a speed",
                    "Give the schedule: check(s, ...).",
                )
            )
        check_value(solution, expected, demands.mistakes, rtol, hint)
        return
    if answer.kernel is None and (demands or expected is None):
        why = "a tensor has no schedule" if demands else "a tensor alone has nothing to compare"
        todo = "Give the schedule: check(s, ...)." if demands else "Give the expected result."
        raise CallTypeError(explain(f"check({answer.name})", why, todo))
    values, results, shortfall = compare(answer, expected, arrays, rtol)
    raise_shortfall(shortfall, hint)
    if demands.stages is not None:
        raise_shortfall(other_stages(answer.outputs, demands.stages), hint)
    unmet, notes = demands.unmet(answer, values) if demands else (None, [])
    raise_shortfall(unmet, hint)
    total = sum(np.asarray(a).size for a in results)
    names = ", ".join(t.name for t in answer.outputs)
    elements = f"all {total:,} elements of {names} are right" if total > 1 else f"{names} is right"
    print(f"Correct: {'; '.join([elements, *notes])}.")


__all__ = ["check"]
