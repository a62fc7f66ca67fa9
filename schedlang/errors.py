"""Every exception schedlang raises.

Each derives from :class:`SchedlangError`, and from the built-in exception a NumPy user
would expect in its place. Messages say what was asked, why it cannot be, and what to do
instead; :func:`explain` gives them one shape.
"""

from __future__ import annotations

import os
import sys
import warnings
from traceback import walk_tb

# letters of a line that a message repeats
LONGEST_LINE = 300


class SchedlangError(Exception):
    """Base class of every refusal."""


class ComputeError(SchedlangError, ValueError):
    """A computation that cannot be: shapes, axes, reductions, graphs."""


class ComputeTypeError(SchedlangError, TypeError):
    """An operand of the wrong kind or dtype in a computation."""


class MissingNameError(SchedlangError, AttributeError):
    """A name that a tensor, a schedule or a stage does not have."""


class BoundsError(SchedlangError, IndexError):
    """A read outside its tensor, or the wrong number of indices."""


class ScheduleError(SchedlangError, ValueError):
    """A schedule step that is not legal; the schedule is left as it was."""


class LoweringError(SchedlangError, ValueError):
    """A schedule whose stages do not fit together into a loop nest."""


class VerifyError(SchedlangError, RuntimeError):
    """A loop nest that broke a rule it must keep: a defect of schedlang, not of its user."""


class OutOfBoundsError(VerifyError, BoundsError):
    """A loop nest that reads outside of a tensor, most often because its compute rule does."""


class BuildError(SchedlangError, ValueError):
    """A loop nest that the target cannot run."""


class CallError(SchedlangError, ValueError):
    """Arrays whose shape, layout or overlap does not fit the kernel."""


class CallTypeError(SchedlangError, TypeError):
    """Arguments whose number, kind or dtype does not fit the kernel."""


class TuningError(SchedlangError, ValueError):
    """A search that cannot start or go on: a template, a database, an option."""


class SpillWarning(UserWarning):
    """A tile of sums does not stay in registers: its result is right, but slow to come."""


class OrderWarning(UserWarning):
    """A step reorders a reduction whose result depends on the order where values tie."""


class PrecisionWarning(UserWarning):
    """A computation is in float64 because integers met Python floats, and nothing else is."""


class StrideWarning(UserWarning):
    """Lanes of a vector lie far apart in memory: the result is right, but slow to come."""


class UnprovenWarning(UserWarning):
    """No proof was found that a loop nest is right: that outputs are written once, without races.

    Nothing wrong was found either: the nest, as printed, is what runs.
    """


class DatabaseWarning(UserWarning):
    """A tuning database has lines that cannot be used, or only a schedule of another case."""


class ForkWarning(UserWarning):
    """Parallel kernels run on one thread: this process was forked from one that had run some."""


class MissingExtraError(SchedlangError, ImportError):
    """An optional library is not installed; the message names the extra that brings it."""


def explain(asked: str, why: str, hint: str = "", nest: str = "") -> str:
    """Return one message: what was asked and why it cannot be, then what to do, then the nest.

    >>> print(explain("split(i, factor=0) on stage C", "a factor is at least 1", "Try factor=8."))
    split(i, factor=0) on stage C: a factor is at least 1
      Try factor=8.
    """
    lines = [f"{asked}: {why}"]
    lines += [f"  {line}" for line in hint.splitlines()]
    lines += [f"    {line}" for line in nest.splitlines()]
    return "\n".join(lines)


def first_line(error: object) -> str:
    """Return the message of an error as one short line; its type where it has no message.

    >>> first_line(ValueError("no such axis\\n  try i")), first_line(KeyError())
    ('no such axis', 'KeyError')
    """
    lines = str(error).strip().splitlines()
    return lines[0][:LONGEST_LINE] if lines else type(error).__name__


def own_place(error: BaseException) -> str:
    """Return the line of the user's, as ``script.py:40``, that called what raised ``error``, if
    any."""
    own = [
        (frame.f_code.co_filename, line)
        for frame, line in walk_tb(error.__traceback__)
        if str(frame.f_globals.get("__name__")).partition(".")[0] != "schedlang"
    ]
    return f"{os.path.basename(own[-1][0])}:{own[-1][1]}" if own else ""


def warn_user(message: str, kind: type[Warning]) -> None:
    """Warn at the line of the user's that called into schedlang."""
    frame, level = sys._getframe(1), 2
    while frame.f_back and str(frame.f_globals.get("__name__")).partition(".")[0] == "schedlang":
        frame, level = frame.f_back, level + 1
    warnings.warn(message, kind, stacklevel=level)


def missing_extra(library: str, extra: str, purpose: str) -> MissingExtraError:
    """Return the one sentence for an absent optional library."""
    return MissingExtraError(
        f'{purpose} needs {library}: pip install "schedlang[{extra}]" installs it.'
    )
