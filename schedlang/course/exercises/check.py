"""``sl.testing.check``: an exercise that checks itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from numbers import Real
from typing import Any

import numpy as np

from schedlang.autotune.runner.task import tolerance_for
from schedlang.compute.reference import reference
from schedlang.compute.tensor import Tensor
from schedlang.course.exercises.answer import Answer, answer_of, arrays_for
from schedlang.course.exercises.differences import Shortfall, difference
from schedlang.course.exercises.inputs import in_order, input_names, parameter_names
from schedlang.course.exercises.requirements import lacks_steps, other_nest, too_slow, wrong_counts
from schedlang.errors import CallError, CallTypeError, CheckError, explain, shorten_traceback
from schedlang.schedule.schedule import Schedule

UNSOLVED = "Not solved yet: write your code in place of the ... in this cell."
NO_STEP = "Not solved yet: {} has no step of yours; write some in place of the ... in this cell."
# the accepted error of plain numbers and arrays
PLAIN = 1e-6


def check(
    answer: Any,
    expected: Any = None,
    *arrays: Any,
    has: str | Sequence[str] = (),
    nest: str | Schedule | None = None,
    counts: Mapping[str, int] | None = None,
    most: Mapping[str, int] | None = None,
    faster_than: Any = None,
    times: float = 1.0,
    caches: Any = True,
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

    A schedule or kernel may have to do more:

    ``has``
        names of primitives that it uses, as ``"vectorize"``
    ``nest``
        the loop nest, as text or as a schedule; the first line of the text may be left out
    ``counts``, ``most``
        exact numbers, and the largest allowed ones, of ``f.counters``: its fields, functions such
        as ``sin``, or ``L1`` for cache lines. ``caches`` are as in ``f.counters``.
    ``faster_than``, ``times``
        a schedule, kernel or function of the arrays, timed in turns, and the least speedup

    A schedule is built for ``target``. For ``"cuda-emulator"`` it runs in lockstep, so that races
    are errors; keep it small.

    ``hint`` is shown if the answer is wrong. Where speed is missing, the message also has the first
    advice of :func:`~schedlang.explain`, without the code.

    Raises :class:`~schedlang.errors.CheckError`, an ``AssertionError``, for a wrong answer, and the
    errors of :func:`~schedlang.build` and of ``f.check``.

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
            _Demands(has, nest, counts or {}, most or {}, faster_than, times, caches),
            start,
            target,
            rtol,
            hint,
        )
    except (CheckError, CallError, CallTypeError) as error:
        raise shorten_traceback(error) from None


@dataclass(frozen=True)
class _Demands:
    """The demands on a schedule besides the right result."""

    has: str | Sequence[str]
    nest: str | Schedule | None
    counts: Mapping[str, int]
    most: Mapping[str, int]
    faster_than: Any
    times: float
    caches: Any

    def __bool__(self) -> bool:
        return bool(
            self.has
            or self.nest is not None
            or self.counts
            or self.most
            or self.faster_than is not None
        )

    def unmet(self, answer: Answer, arrays: Sequence[Any]) -> tuple[Shortfall | None, list[str]]:
        """Return what the answer lacks, or sentences about what it does."""
        notes: list[str] = []
        shortfall: Shortfall | None = lacks_steps(answer, self.has) if self.has else None
        if shortfall is None and self.nest is not None:
            shortfall = other_nest(answer, self.nest)
        if shortfall is None and (self.counts or self.most):
            shortfall, notes = wrong_counts(answer, arrays, self.counts, self.most, self.caches)
        if shortfall is None and self.faster_than is not None:
            shortfall, more = too_slow(answer, arrays, self.faster_than, self.times)
            notes += more
        return shortfall, notes


def _check(
    solution: Any,
    expected: Any,
    arrays: Sequence[Any],
    demands: _Demands,
    start: Schedule | None,
    target: Any,
    rtol: float | None,
    hint: str,
) -> None:
    if not isinstance(demands.times, Real) or not 0 < demands.times or not isfinite(demands.times):
        raise CallError(f"check(times={demands.times!r}): give a number above 0")
    if rtol is not None and (not isinstance(rtol, Real) or not 0 <= rtol or not isfinite(rtol)):
        raise CallError(f"check(rtol={rtol!r}): give a number of 0 or more")
    if _is_open(solution):
        print(UNSOLVED)
        return
    if isinstance(solution, Schedule):
        begun = "" if start is None else start.as_python()
        if not solution.steps or solution.as_python() == begun:
            print(NO_STEP.format(f"the schedule of {solution.outputs[0].op.name}"))
            return
    answer = answer_of(solution, target)
    if answer is None:
        _check_value(solution, expected, demands, rtol, hint)
        return
    if answer.kernel is None and (demands or expected is None):
        why = "a tensor has no schedule" if demands else "a tensor alone has nothing to compare"
        todo = "Give the schedule: check(s, ...)." if demands else "Give the expected result."
        raise CallTypeError(explain(f"check({answer.name})", why, todo))
    values = list(arrays) or arrays_for(answer.outputs)
    if arrays:
        values = in_order(values, _order(expected), answer.inputs)
    results = answer.results(values)
    expected_results = _expected_results(expected, answer, values)
    if len(results) != len(expected_results):
        _raise(
            Shortfall(f"{answer.name} has {len(results)} outputs, not {len(expected_results)}"),
            hint,
        )
    tolerance = 2 * tolerance_for(answer.outputs) if rtol is None else rtol
    for tensor, ours, theirs in zip(answer.outputs, results, expected_results):
        _raise(difference(tensor.name, ours, theirs, max(tolerance, 1e-12)), hint)
    unmet, notes = demands.unmet(answer, values)
    _raise(unmet, hint)
    total = sum(np.asarray(a).size for a in results)
    names = ", ".join(t.name for t in answer.outputs)
    elements = f"all {total:,} elements of {names} are right" if total > 1 else f"{names} is right"
    print(f"Correct: {'; '.join([elements, *notes])}.")


def _is_open(given: Any) -> bool:
    """Return whether an answer is still to be written."""
    if isinstance(given, (tuple, list)):
        return any(_is_open(one) for one in given)
    return given is ... or given is None


def _check_value(
    solution: Any, expected: Any, demands: _Demands, rtol: float | None, hint: str
) -> None:
    """Compare numbers, texts or arrays."""
    what = f"check({type(solution).__name__})"
    if demands:
        raise CallTypeError(
            explain(
                what,
                "only a schedule or a kernel has steps, counts and a speed",
                "Give the schedule: check(s, ...).",
            )
        )
    if expected is None or callable(solution):
        raise CallTypeError(
            explain(
                what,
                "it compares tensors, schedules, kernels, numbers and arrays",
                "Give one of these, and the expected result.",
            )
        )
    ours, theirs = (
        one if isinstance(one, (tuple, list)) else (one,) for one in (solution, expected)
    )
    if len(ours) != len(theirs):
        _raise(Shortfall(f"there are {len(ours)} answers, and {len(theirs)} are asked for"), hint)
    for n, (one, right) in enumerate(zip(ours, theirs)):
        name = "the answer" if len(ours) == 1 else f"answer {n + 1}"
        shortfall = difference(name, one, right, PLAIN if rtol is None else rtol)
        if shortfall is not None and np.asarray(one).ndim == 0:
            # the right number would be the solution
            shortfall = Shortfall(f"{name}, {one}, is not right")
        _raise(shortfall, hint)
    print("Correct.")


def _expected_results(expected: Any, answer: Answer, arrays: Sequence[Any]) -> tuple[Any, ...]:
    if expected is None:
        results = reference(answer.outputs)(*arrays)
    elif isinstance(expected, Tensor):
        results = reference(expected)(*in_order(arrays, answer.inputs, _order(expected)))
    elif callable(expected):
        results = _called(expected, in_order(arrays, answer.inputs, _order(expected)))
    else:
        results = expected
    return tuple(results) if isinstance(results, (tuple, list)) else (results,)


def _order(expected: Any) -> list[str]:
    """Return the names of inputs in the order of the expected result; none if it has no order."""
    if isinstance(expected, Tensor):
        return input_names((expected,))
    return parameter_names(expected) if callable(expected) else []


def _called(expected: Callable[..., Any], arrays: Sequence[Any]) -> Any:
    # what the function does to its arguments must not reach the answer's
    return expected(*(a.copy() if isinstance(a, np.ndarray) else a for a in arrays))


def _raise(found: Shortfall | None, hint: str) -> None:
    """Raise the error for what an answer lacks, if anything."""
    if found is not None:
        raise CheckError("\n".join([found.why, *_indented(hint), *_indented(found.hint)]))


def _indented(text: str) -> list[str]:
    return [f"  {line}" for line in text.splitlines()]


__all__ = ["check"]
