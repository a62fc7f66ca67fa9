"""The exceptions and warnings of schedlang.

Each exception derives from :class:`SchedlangError`, and from the built-in exception that a NumPy
user would expect. Messages state what was asked, why it is impossible, and what to do instead;
:func:`explain` gives them a common form.
"""

from __future__ import annotations

import difflib
import linecache
import os
import sys
import warnings
from collections.abc import Iterable, Mapping
from traceback import walk_tb
from types import FrameType, TracebackType
from typing import Any

# the most characters of a line that a message quotes
LONGEST_LINE = 300


class SchedlangError(Exception):
    """The base class of all exceptions of schedlang.

    IPython and notebooks show the message and the user's own lines, without schedlang's. The
    environment variable ``SCHEDLANG_TRACEBACK=full`` brings the whole traceback back.
    """

    def _render_traceback_(self) -> list[str]:
        if _whole_traceback():
            # IPython then shows the traceback in full, as for any other error
            raise NotImplementedError
        return _shown(self)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return {"text/plain": "\n".join(_shown(self))}

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        # IPython prefers its own text of exceptions to the text of the bundle
        printer.text("\n".join(_shown(self)))


class ComputeError(SchedlangError, ValueError):
    """An invalid computation: wrong shapes, axes, reductions or graphs."""


class MultipleError(ComputeError):
    """Shapes that fit only where sizes are multiples of numbers, and sizes may be any number.

    ``multiples`` has the number of each size: with ``2 * sl.var("n")`` for ``{n: 2}``, they fit.
    """

    def __init__(self, message: str, multiples: Mapping[Any, int]) -> None:
        super().__init__(message)
        self.multiples = multiples

    def __reduce__(self) -> tuple[object, ...]:
        return MultipleError, (str(self), self.multiples)


class ComputeTypeError(SchedlangError, TypeError):
    """An operand of the wrong kind or dtype in a computation."""


class MissingNameError(SchedlangError, AttributeError):
    """A name that a tensor, a schedule, a stage or a kernel does not have."""


class MissingModuleError(SchedlangError, ModuleNotFoundError):
    """An import of a part of TVM that schedlang leaves out; the message says what to write."""


class UnknownNameError(SchedlangError, KeyError):
    """A name that indexes a collection which has nothing, or several things, of that name."""

    # KeyError shows the quoted text
    __str__ = Exception.__str__


class BoundsError(SchedlangError, IndexError):
    """A read outside its tensor, or the wrong number of indices."""


class ScheduleError(SchedlangError, ValueError, RuntimeError):
    """A schedule step that is not legal; the schedule is unchanged.

    TVM's errors of the compiler are a :class:`RuntimeError`, and some a :class:`ValueError`.
    """


class ScheduleTypeError(ScheduleError, TypeError):
    """A schedule step that lacks an argument, or is given one that it does not take."""


class InstructionError(SchedlangError, ValueError):
    """Raised for an instruction that does not compute what it declares."""


class LoweringError(SchedlangError, ValueError, RuntimeError):
    """A schedule that cannot be lowered to a loop nest."""


class VerifyError(SchedlangError, RuntimeError):
    """A loop nest that breaks a rule of the verifier: a defect of schedlang, not of its user."""


class RaceError(VerifyError):
    """Two threads access one element without a barrier in between, and one of them writes it.

    ``buffer`` and ``element`` say which one. ``threads`` are the two, each as its number in its
    block and the number of the block; the first is ``None`` if there are several. ``race`` has the
    accesses to the elements around, which ``sl.plot.race(error)`` draws and a notebook shows.
    """

    def __init__(
        self,
        message: str,
        buffer: str,
        element: tuple[int, ...],
        other: tuple[int, int] | None,
        thread: tuple[int, int],
        race: Any = None,
    ) -> None:
        super().__init__(message)
        self.buffer = buffer
        self.element = element
        self.threads = (other, thread)
        self.race = race

    def __reduce__(self) -> tuple[object, ...]:
        return RaceError, (str(self), self.buffer, self.element, *self.threads, self.race)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        shown = super()._repr_mimebundle_(include, exclude)
        return shown if self.race is None else {**shown, "text/html": self.race._repr_html_()}


class OutOfBoundsError(VerifyError, BoundsError):
    """A loop nest that reads outside a tensor, mostly because the computation does."""


class BuildError(SchedlangError, ValueError):
    """A loop nest that the target cannot run."""


class CallError(SchedlangError, ValueError):
    """Arrays whose shape, layout or overlap does not fit the kernel."""


class CallTypeError(SchedlangError, TypeError):
    """Arguments whose number, kind or dtype does not fit the kernel."""


class TuningError(SchedlangError, ValueError):
    """A search that cannot start or continue: a wrong template, database or option."""


class NetworkError(SchedlangError, ValueError):
    """A network that cannot be prepared or partitioned as was asked: weights, cuts, fusions."""


class FrontendError(SchedlangError, ValueError):
    """A model of another library that cannot become a computation, or not as it was given."""


class PlotError(SchedlangError, ValueError):
    """A picture that cannot be drawn: sizes without numbers, order that data decide, no GPU."""


class LiveError(SchedlangError, ValueError):
    """A live page that cannot start, or a request to it that it cannot follow.

    ``line`` is the line of the edited code that is wrong, from 1, or 0.
    """

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__(message)
        self.line = line

    def __reduce__(self) -> tuple[object, ...]:
        return LiveError, (str(self), self.line)


class CheckError(SchedlangError, AssertionError):
    """An answer to an exercise that is not right yet; the message has hints."""


class SpillWarning(UserWarning):
    """A register tile of sums spills to memory: the result is correct, but the kernel is slow.

    The sums of an innermost reduction loop stay in registers if every data loop inside it is
    unrolled or vectorized, no guard on a data axis stands inside it, and the tile fits the
    registers.
    """


class OrderWarning(UserWarning):
    """A step changes the result of a reduction.

    The combiner or its identity prefers one of equal values, or the identity is not neutral.
    """


class PrecisionWarning(UserWarning):
    """A dtype costs speed or digits that its user hardly wants to pay.

    A computation is in float64 only because it mixes integers with Python floats, or products of
    small integers may wrap before a sum of a wider dtype adds them.
    """


class StrideWarning(UserWarning):
    """Lanes of a vector are far apart in memory: the result is correct, but the kernel is slow.

    There is no warning for

    * sums that stay in registers, since they are stored only once: the ``factor_axis`` of a
      vectorized ``rfactor`` does not matter then,
    * an index that is read from a tensor,
    * a copy that is small compared with its use,
    * a tile whose rows ``storage_align`` padded for this access.
    """


class CopyWarning(UserWarning):
    """A call copies a large strided argument, since kernels take rows.

    Traced functions do so, and kernels of ``f.accepting_copies()``.
    """


class UnprovenWarning(UserWarning):
    """A loop nest is neither proven to write its outputs once and without races, nor refuted.

    The nest runs as printed.
    """


class DatabaseWarning(UserWarning):
    """A tuning database has unusable lines, or only a schedule for another case."""


class CacheWarning(UserWarning):
    """A file of the cache folder is damaged and made again, or cannot be kept.

    Results do not depend on it.
    """


class CompilerWarning(UserWarning):
    """A compiler costs time: numba instead of LLVM, one process alone, or zig, without threads.

    Results do not depend on it.
    """


class PlainScheduleWarning(UserWarning):
    """The tactics made no schedule of a computation, so that it has a plain one, which is slow."""


class LoopWarning(UserWarning):
    """A loop of a traced function runs on the host, though an iteration is little work.

    The result is correct, but NumPy alone may be faster.
    """


class SavedScheduleWarning(UserWarning):
    """A network that another version saved has no schedule of a kernel, so that it has a new one.

    Save it again.
    """


class ForkWarning(UserWarning):
    """Parallel kernels run on one thread, since the process was forked after a parallel call.

    On Linux, numba uses the threads of GNU OpenMP unless TBB is installed, and these threads do not
    survive a fork. The first call in the child warns, and compiles the kernel again unless the
    cache has it. Two kinds of calls end the child: a parallel ``f.unchecked`` taken before the
    fork, and a parallel kernel in a file written by ``f.save``.

    ``multiprocessing`` forks by default up to Python 3.13, and so do PyTorch's data loaders. To
    keep all threads, start processes with ``"spawn"`` or ``"forkserver"``
    (``multiprocessing.get_context("spawn")``, ``DataLoader(...,
    multiprocessing_context="spawn")``), or set ``NUMBA_THREADING_LAYER`` to ``tbb`` or
    ``workqueue`` before the first parallel kernel.
    """


class MissingExtraError(SchedlangError, ImportError):
    """An optional library is not installed; the message names the extra that installs it."""


def explain(asked: str, why: str, hint: str = "", nest: str = "") -> str:
    """Return a message: what was asked and why it is impossible, then the hint, then the nest.

    >>> print(explain("split(i, factor=0) on stage C", "a factor is at least 1", "Try factor=8."))
    split(i, factor=0) on stage C: a factor is at least 1
      Try factor=8.
    """
    lines = [f"{asked}: {why}"]
    lines += [f"  {line}" for line in hint.splitlines()]
    lines += [f"    {line}" for line in nest.splitlines()]
    return "\n".join(lines)


def nearest(name: str, known: Iterable[str], most: int = 1) -> str:
    """Return the end of a message about ``name``, which suggests the closest of ``known``.

    >>> nearest("splt", ["split", "fuse"])
    "; did you mean 'split'?"
    >>> nearest("conv", ["conv1", "pool", "conv2"], most=3)
    "; did you mean 'conv2' or 'conv1'?"
    """
    close = [repr(word) for word in difflib.get_close_matches(name, list(known), most)]
    listed = " or ".join(filter(None, (", ".join(close[:-1]), *close[-1:])))
    return f"; did you mean {listed}?" if close else ""


def docs_page(title: str) -> str:
    """Return how a message names a page of the documents, which a wheel has as a site.

    >>> docs_page("NumPy code")
    'the page "NumPy code" of python -m schedlang docs'
    """
    return f'the page "{title}" of python -m schedlang docs'


def amount(count: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless it is 1.

    >>> amount(1, "thread"), amount(0, "file"), amount(4096, "thread")
    ('1 thread', '0 files', '4,096 threads')
    """
    return f"{count:,} {noun}{'s' * (count != 1)}"


def names_text(names: Iterable[str], most: int = 6) -> str:
    """Return names as text for a message: the first ones, and how many others there are.

    >>> names_text(["conv", "pool"]), names_text("abcde", most=3)
    ("'conv', 'pool'", "'a', 'b', 'c' and 2 more")
    """
    every = [repr(name) for name in names]
    more = f" and {len(every) - most} more" if len(every) > most else ""
    return ", ".join(every[:most]) + more


def text_of(value: object) -> str:
    """Return the text of an argument for messages: its name, or a short form."""
    name = getattr(value, "name", None)
    text = name if isinstance(name, str) else " ".join(repr(value).split())
    return text if len(text) <= 60 else f"{text[:57]}..."


def subscript(stage: str) -> str:
    """Return the expression that a script gets a stage of schedule ``s`` with, from its name.

    >>> subscript("C"), subscript("C.local")
    ('s[C]', 's["C.local"]')
    """
    return f"s[{stage}]" if stage.isidentifier() else f's["{stage}"]'


def first_line(error: object) -> str:
    """Return the message of an error as one short line; its type if it has no message.

    >>> first_line(ValueError("no such axis\\n  try i")), first_line(KeyError())
    ('no such axis', 'KeyError')
    """
    lines = str(error).strip().splitlines()
    return lines[0][:LONGEST_LINE] if lines else type(error).__name__


def user_location(error: BaseException) -> str:
    """Return the user's line, as ``script.py:40``, whose call raised ``error``; "" if none."""
    own = [
        (frame.f_code.co_filename, line)
        for frame, line in walk_tb(error.__traceback__)
        if not _is_ours(frame) and not str(frame.f_globals.get("__name__")).startswith("numpy.")
    ]
    return f"{os.path.basename(own[-1][0])}:{own[-1][1]}" if own else ""


def shorten_traceback(error: SchedlangError) -> SchedlangError:
    """Return ``error`` with the frames so far that are the user's.

    These are the lines of a function that schedlang called. The environment variable
    ``SCHEDLANG_TRACEBACK=full`` keeps all frames.
    """
    if _whole_traceback():
        return error
    frames: list[TracebackType] = []
    frame = error.__traceback__
    while frame is not None:
        if not _is_ours(frame.tb_frame):
            frames.append(frame)
        frame = frame.tb_next
    own: TracebackType | None = None
    for frame in reversed(frames):
        own = TracebackType(own, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    shorter: SchedlangError = error.with_traceback(own)
    return shorter


def _is_ours(frame: FrameType) -> bool:
    # a ``with`` block of the package ends in contextlib
    package = str(frame.f_globals.get("__name__")).partition(".")[0]
    return package in ("schedlang", "contextlib")


def _whole_traceback() -> bool:
    return os.environ.get("SCHEDLANG_TRACEBACK") == "full"


# packages whose frames are not the user's
_OURS = ("schedlang", "IPython", "ipykernel", "nbclient", "runpy")


def _shown(error: BaseException) -> list[str]:
    """Return the lines of an error: its message, and the lines of the user that led to it."""
    return [f"{type(error).__name__}: {error}", *_own_lines(error)]


def _own_lines(error: BaseException) -> list[str]:
    """Return the lines of a traceback that are the user's, each with its place."""
    lines: list[str] = []
    for frame, line in walk_tb(error.__traceback__):
        if str(frame.f_globals.get("__name__")).partition(".")[0] in _OURS:
            continue
        path = frame.f_code.co_filename
        in_cell = path.startswith("<ipython") or "ipykernel_" in path
        place = "this cell" if in_cell else os.path.basename(path)
        code = linecache.getline(path, line, frame.f_globals).strip()[:LONGEST_LINE]
        shown = f"  {place}, line {line}:  {code}"
        # a lambda and the call that it is given to are often on one line
        if shown not in lines[-1:]:
            lines.append(shown)
    return lines


def warn_user(message: str, kind: type[Warning]) -> None:
    """Warn at the user's line that called into schedlang."""
    frame, level = sys._getframe(1), 2
    while frame.f_back and _is_ours(frame):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, kind, stacklevel=level)


def warn_of_old_name(old: str, new: str) -> None:
    """Warn at the user's line that a name of an earlier TVM has another one now."""
    warn_user(f"{old} is an old name of TVM: write {new}", DeprecationWarning)


def missing_extra(library: str, extra: str, purpose: str) -> MissingExtraError:
    """Return the exception for an optional library that is not installed."""
    return MissingExtraError(
        f'{purpose} needs {library}: pip install "schedlang[{extra}]" installs it.'
    )


def missing_name(
    module: str, name: str, refused: Mapping[str, tuple[str, str]], spelling: str = ""
) -> Exception:
    """Return the exception for an absent ``name``, with advice if te programs may use it."""
    if name in refused:
        why, hint = refused[name]
        return SchedlangError(explain(f"{spelling or module}.{name}", why, hint))
    names_of_module = (
        [] if name.startswith("_") else list(getattr(sys.modules[module], "__all__", ()))
    )
    return MissingNameError(
        f"module {module!r} has no attribute {name!r}{nearest(name, names_of_module)}"
    )
