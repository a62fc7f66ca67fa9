"""A trace: the values of arrays while a function runs once on arrays that stand for any values."""

from __future__ import annotations

import linecache
import os
import sys
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any, NoReturn, Union

import numpy as np

from schedlang.compute.read import Read, reads
from schedlang.compute.tensor import Tensor, placeholder
from schedlang.errors import ComputeError, explain
from schedlang.expr.nodes import Expr, Var
from schedlang.index.linear import Lin
from schedlang.tracing.code import Uses
from schedlang.tracing.constants import formula_stage, same_bits
from schedlang.tracing.rewriting import PREFIX
from schedlang.tracing.statements import Statement, Statements, instead_of_copies
from schedlang.tracing.storage import Storage
from schedlang.tracing.tables import Tables

Value = Union[Tensor, Expr]

# what to write where NumPy needs an integer of a traced function
KNOWN = (
    "A shape, an axis, a range or a step must be known when the function is traced: pass it as a "
    "Python int, or name it in static_argnames."
)
# the most stages that one statement makes, before a loop around it is refused
MOST_COPIES = 200
# packages of which each function computes with arrays of a trace
_COMPUTING = ("schedlang", "numpy")
# the folders of Python's own modules and of installed packages
_PATHS = ("stdlib", "platstdlib", "purelib", "platlib")
_INSTALLED = tuple(os.path.join(path, "") for path in map(sysconfig.get_path, _PATHS))

_CURRENT: ContextVar[Trace | None] = ContextVar("trace", default=None)


@dataclass(frozen=True, eq=False)
class Carry:
    """An array that each iteration of a loop replaces.

    ``start`` is its value before the loop, ``entering`` stands for the value before an iteration,
    ``leaving`` is the value after it, and ``result`` stands for the value after the loop.
    """

    start: Value
    entering: Tensor
    leaving: Value
    result: Tensor


@dataclass(frozen=True, eq=False)
class HostLoop:
    """A loop whose body is a program of its own: ``index`` runs over ``lo..hi``.

    ``hi`` may depend on the indices of loops around. ``read`` pairs values around the loop with the
    placeholders that stand for them in the body. The last carries are the values of ``storages``
    around it. A ``tested`` loop, or one that ``stops``, runs while its first carry is true.
    ``user_index`` is the user's index and its value at 0, and ``form`` the line of ``f.loops``.
    """

    lo: int
    hi: Union[int, Expr]
    index: Var
    body: Trace
    carries: tuple[Carry, ...]
    read: tuple[tuple[Value, Tensor], ...]
    storages: tuple[Storage, ...] = ()
    tested: bool = False
    stops: bool = False
    user_index: tuple[str, int] = ("i", 0)
    form: str = ""


@dataclass(frozen=True, eq=False)
class Region:
    """An assignment ``base[item] = value`` where the conditions ``under`` hold."""

    base: Tensor
    item: Any
    value: Any
    under: tuple[Expr, ...] = ()


@dataclass(frozen=True)
class LoopRule:
    """The loops that become scans: all of the form or, if ``limited``, only loops of little work.

    Others run on the ``host``, or are refused. ``np.empty`` has extreme numbers if ``checked``.
    """

    host: bool = True
    limited: bool = True
    checked: bool = False


@dataclass(eq=False)
class Trace:
    """The computation of a function, or of the body of a loop in it, so far.

    * ``title`` names the function in messages, and ``code`` is its code.
    * ``values`` has the present value of each storage.
    * ``outer`` has the storages of enclosing traces that this one reads, with the placeholders
      for their values; ``written`` are the ones among them that it changes.
    * ``constants`` are the arrays with known elements that it reads, each with its placeholder.
    * ``made`` has what each statement of the function made, ``targets`` the names that they assign,
      and ``counts`` how many stages each line made, also in functions that it calls.
    * ``computed`` has the results of calls so far, which equal calls share.
    * ``rule`` says which loops become scans, and ``forms`` what each became, for users.
    * ``assumed`` is the call that would copy arguments that do not lie row by row, if any.
    * ``given`` are the arguments with the values that they enter with. ``exponents`` are the
      arguments that are powers of integers, with the lines where they are.
    * ``sizes`` are the extents that a call on the host tells, each with a result that has it.
    * ``arguments`` are the lists and dicts among the arguments; ``lengths`` are symbolic lengths,
      and ``needs`` are numbers over them that are above 0 in each call of the trace.
      A ``closed`` trace has no constants as inputs: they become stages or are refused.
    * ``converted`` are the functions that run from source, and ``unrolled`` says why lines with
      loops are unrolled. ``conditions`` are the unknown tests of ``if`` around. A call raises a
      text of ``missed`` where its flag holds. ``uses`` are what the function's code names.
    * ``regions`` has assignments to parts of arrays by results, ``empty`` the arrays of np.empty.
    * ``unsure`` are arrays around a loop, read through what may be a copy: a function for each
      raises if the body changes it. ``tables`` are arrays with known elements that are written.
    """

    title: str
    code: CodeType | None
    around: Trace | None = None
    values: dict[Storage, Value] = field(default_factory=dict)
    outer: dict[Storage, Tensor] = field(default_factory=dict)
    written: set[Storage] = field(default_factory=set)
    constants: list[tuple[Tensor, np.ndarray]] = field(default_factory=list)
    loops: list[HostLoop] = field(default_factory=list)
    made: dict[tuple[str, int], list[Tensor]] = field(default_factory=dict)
    targets: dict[tuple[str, int], str] = field(default_factory=dict)
    counts: dict[tuple[str, int], int] = field(default_factory=dict)
    statements: Statements = field(default_factory=Statements)
    computed: dict[Any, Any] = field(default_factory=dict)
    rule: LoopRule = LoopRule()
    closed: bool = False
    forms: list[str] = field(default_factory=list)
    assumed: str = ""
    given: dict[Storage, Value] = field(default_factory=dict)
    exponents: dict[Storage, str] = field(default_factory=dict)
    index: dict[Var, tuple[int, int]] = field(default_factory=dict)
    sizes: dict[Var, Tensor] = field(default_factory=dict)
    spans: dict[Var, tuple[Lin, Lin]] = field(default_factory=dict)
    lengths: dict[Var, Any] = field(default_factory=dict)
    needs: list[Expr] = field(default_factory=list)
    converted: dict[Any, Any] = field(default_factory=dict)
    parts: set[CodeType] = field(default_factory=set)
    unrolled: dict[int, str] = field(default_factory=dict)
    conditions: list[Any] = field(default_factory=list)
    missed: list[tuple[Any, str]] = field(default_factory=list)
    uses: Uses = field(default_factory=Uses)
    regions: dict[Tensor, Region] = field(default_factory=dict)
    empty: dict[Tensor, str] = field(default_factory=dict)
    unsure: dict[Storage, Callable[[], NoReturn]] = field(default_factory=dict)
    arguments: Any = None
    tables: Tables = field(default_factory=Tables)

    @property
    def containers(self) -> Any:
        """The lists and dicts among the arguments of the function."""
        return self.outermost.arguments

    @property
    def most_kernels(self) -> int:
        """The most kernels of the program: one after all loops, and one before each of them."""
        return 1 + sum(1 + loop.body.most_kernels for loop in self.loops)

    def new(self, value: Value, rows: bool = False) -> Storage:
        """Return a storage with ``value``, which lies row by row in memory if ``rows``."""
        place = self.place()
        # a new vector does in any case
        rows = rows or not isinstance(value, Tensor) or value.ndim < 2
        storage = Storage(self, "" if place is None else f"line {place.line}", rows)
        self.values[storage] = value
        self._note(value, place)
        return storage

    def read(self, storage: Storage) -> Value:
        """Return the present value of ``storage``.

        In the body of a loop, a placeholder stands for the value from around. Raises
        ``ComputeError`` for an array of a trace that has ended.
        """
        present = self.values.get(storage)
        if present is not None:
            return present
        if self.around is None or not self._encloses(storage):
            raise ComputeError(
                explain(
                    f"reading an array made at {storage.line} of {storage.home.title} in "
                    f"{self.title}",
                    f"the trace of {storage.home.title} has ended, so its arrays have no value "
                    "here",
                    "Return it from the body of the loop as part of the carry, or write it into an "
                    "array made before the loop: x[...] = value.",
                )
            )
        value = self.around.read(storage)
        if is_known_everywhere(value):
            return value
        return self.captured(storage, value)

    def captured(self, storage: Storage, value: Value) -> Value:
        """Return what stands for the ``value`` of a storage of a trace around this one."""
        self.outer[storage], inner = stand_in(value, f"x{len(self.outer)}")
        self.values[storage] = inner
        return inner

    def write(self, storage: Storage, value: Value) -> None:
        """Replace the value of ``storage``."""
        if storage.home is not self:
            before = self.read(storage)
            if storage not in self.outer:
                self.captured(storage, before)
            self.written.add(storage)
        self.values[storage] = value
        self._note(value, self.place())

    @contextmanager
    def only_where(self, condition: Any) -> Iterator[None]:
        """Let assignments change elements of arrays only where ``condition`` holds."""
        self.conditions.append(condition)
        try:
            yield
        finally:
            self.conditions.pop()

    def all_conditions(self) -> list[Any]:
        """Return the conditions of this trace and of those around it, the outermost first."""
        traces = (*reversed([*self.around_all()]), self)
        return [test for trace in traces for test in trace.conditions]

    @property
    def outermost(self) -> Trace:
        """The trace of the function itself."""
        return [self, *self.around_all()][-1]

    def point(self) -> Any:
        """Return what :meth:`go_back` needs."""
        fields = ("values", "outer", "written", "constants", "loops", "made", "targets", "counts",
                  "forms", "exponents", "conditions", "missed")  # fmt: skip
        kept = {name: getattr(self, name).copy() for name in fields}
        kept["made"] = {key: list(tensors) for key, tensors in self.made.items()}
        return kept, None if self.around is None else self.around.point()

    def go_back(self, point: Any) -> None:
        """Forget what was traced since ``point``."""
        kept, around = point
        for name, value in kept.items():
            setattr(self, name, value)
        if self.around is not None:
            self.around.go_back(around)

    def check_sure(self) -> None:
        """Raise if a body changes an array that it reads through what may be a copy."""
        for storage, refuse in self.unsure.items():
            if storage in self.written:
                refuse()

    def changes(self, storage: Storage, outer: Trace) -> bool:
        """Return whether this trace or one around it, within ``outer``, changed ``storage``."""
        trace: Trace | None = self
        while trace is not None and trace is not outer:
            if storage in trace.written:
                return True
            trace = trace.around
        return False

    def constant(self, array: np.ndarray) -> Tensor:
        """Return a tensor of an array with known elements: a placeholder, which becomes an input.

        In a ``closed`` trace it is a stage; raises ``ComputeError`` for elements without a formula.
        """
        for tensor, elements in self.constants:
            if same_bits(elements, array):
                return tensor
        # the function may change its array later
        array = np.array(array, array.dtype.newbyteorder("="))
        if self.closed and self.around is None:
            stage = formula_stage(array)
            if stage is None:
                self._refuse_constant(array)
            self.constants.append((stage, array))
            return stage
        if self.around is not None:
            # the outermost trace holds it, so that a loop does not pass it in each iteration
            outer = self.around.constant(array)
            storage = Storage(self.around, "a constant")
            self.around.values[storage] = outer
            value = self.read(storage)
            assert isinstance(value, Tensor)
            self.constants.append((value, array))
            return value
        entry = placeholder(array.shape, str(array.dtype), name=f"constant{len(self.constants)}")
        self.constants.append((entry, array))
        return entry

    def assume_rows(self, asked: str) -> None:
        """Note that the trace holds for arguments that lie row by row in memory.

        ``asked`` is the call of NumPy's function that would copy others.
        """
        self.outermost.assumed = self.outermost.assumed or asked

    def is_argument(self, storage: Storage) -> bool:
        """Return whether ``storage`` is the memory of an argument of a call."""
        return storage in self.outermost.given

    def note_exponent(self, storage: Storage) -> bool:
        """Return whether ``storage`` is an unchanged argument, and note it as an exponent if so."""
        traces = [self, *self.around_all()]
        outermost = traces.pop()
        unchanged = outermost.given.get(storage) is outermost.values.get(storage) is not None
        if not unchanged or any(t.values.get(storage) is not t.outer.get(storage) for t in traces):
            return False
        place = self.place()
        line = "" if place is None else f"line {place.line}, `{place.text}`"
        for trace in (*traces, outermost):
            trace.exponents[storage] = line
        return True

    def indices(self) -> dict[Var, tuple[int, int]]:
        """Return the indices of the loops around, each with its least and greatest value."""
        return {k: v for t in (self, *self.around_all()) for k, v in t.index.items()}

    def new_size(self) -> Var:
        """Return an extent that a call on the host will tell, with a name of its own."""
        return Var(f"size{sum(len(t.sizes) for t in (self, *self.around_all()))}")

    def around_all(self) -> Iterator[Trace]:
        """Yield the traces around this one, the outermost last."""
        trace = self.around
        while trace is not None:
            yield trace
            trace = trace.around

    def _refuse_constant(self, array: np.ndarray) -> NoReturn:
        place = self.place()
        where = "" if place is None else f" at line {place.line}, `{place.text}`"
        raise ComputeError(
            explain(
                f"sl.trace({self.title}, ...): an array of shape {array.shape} and {array.dtype}"
                f"{where}",
                "its elements are data, which the tensors of a trace take as an input",
                f"Pass it as an argument of {self.title}. np.zeros, np.ones, np.full, np.arange "
                "and np.eye make stages in place of data, with like=x for an argument x.",
            )
        )

    def place(self) -> Statement | None:
        """Return the user's statement that runs, innermost; ``None`` outside of the function."""
        frames = list(self._frames())
        if self.code is not None and frames[-1].f_code is not self.code:
            return None
        own = next((f for f in frames if not self._is_library(f)), None)
        return None if own is None else self.statements.at(own.f_code, own.f_lineno)

    def library(self) -> str:
        """Return the library, apart from NumPy, whose function runs, called by the user's line."""
        for frame in self._frames():
            package = _package(frame)
            if package not in _COMPUTING:
                return package if self._is_library(frame) else ""
        return ""

    def _is_library(self, frame: FrameType) -> bool:
        """Return whether a frame is neither the user's nor the traced function's."""
        if self._is_part(frame.f_code):
            return False
        return _package(frame) in _COMPUTING or frame.f_code.co_filename.startswith(_INSTALLED)

    def _own_place(self) -> Statement | None:
        """Return the statement of the traced function itself that runs."""
        own = (f for f in self._frames() if self._is_part(f.f_code))
        frame = next(own, None)
        if frame is None:
            return None
        return self.statements.at(frame.f_code, frame.f_lineno)

    def _is_part(self, code: CodeType) -> bool:
        """Return whether code is a loop's body or a side of an ``if`` of the traced function."""
        known = self.parts
        if self.code is not None and not known:
            waiting = [self.code]
            while waiting:
                part = waiting.pop()
                known.add(part)
                waiting += [
                    c
                    for c in part.co_consts
                    if isinstance(c, CodeType) and c.co_name.startswith(PREFIX)
                ]
        return code in known

    def _frames(self) -> Iterator[FrameType]:
        frame: FrameType | None = sys._getframe(2)
        while frame is not None:
            yield frame
            if frame.f_code is self.code:
                return
            frame = frame.f_back

    def _encloses(self, storage: Storage) -> bool:
        return any(trace is storage.home for trace in self.around_all())

    def _note(self, value: Value, place: Statement | None) -> None:
        """Note which statement made ``value``; refuse a loop that is unrolled too often."""
        if not isinstance(value, Tensor) or place is None:
            return
        own = self._own_place()
        if own is not None:
            self.made.setdefault(own.key, []).append(value)
            self.targets[own.key] = own.target
        count = self.counts[place.key] = self.counts.get(place.key, 0) + 1
        if count > MOST_COPIES and place.loops:
            loop = place.loops[0]
            head = linecache.getline(place.path, loop).strip()
            reason = self.outermost.unrolled.get(loop, "")
            raise ComputeError(
                explain(
                    f"tracing {self.title}",
                    f"the loop at line {loop}, `{head}`, is unrolled, and its line {place.line} "
                    f"has made more than {MOST_COPIES} stages"
                    + (f". It is not kept as a loop: {reason}" if reason else ""),
                    instead_of_copies(head, reason),
                )
            )


def stand_in(value: Value, name: str) -> tuple[Tensor, Value]:
    """Return a placeholder of the shape and dtype of ``value``, and the value it has in a trace."""
    if isinstance(value, Tensor):
        tensor = placeholder(value.shape, value.dtype, name=name)
        return tensor, tensor
    tensor = placeholder((), value.dtype, name=name)
    return tensor, Read(tensor, (), value.dtype, value.weak)


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__")).partition(".")[0]


def is_known_everywhere(value: Value) -> bool:
    """Return whether a value consists of scalar arguments and constants alone."""
    return isinstance(value, Expr) and not any(True for _ in reads([value]))


def current() -> Trace:
    """Return the trace that runs; raise if an array of a trace is used outside of any."""
    trace = _CURRENT.get()
    if trace is None:
        raise ComputeError(
            "an array of a traced function is used after the function returned: return it from the "
            "function, or pass it on as an argument"
        )
    return trace


def running_trace() -> Trace | None:
    """Return the trace that runs, or ``None``."""
    return _CURRENT.get()


@contextmanager
def run_as_current(trace: Trace) -> Iterator[None]:
    """Make ``trace`` the current one.

    Raises ``ComputeError`` if the body of a loop changes a list or dict of the caller.
    """
    containers = trace.containers if trace.around is not None else None
    before = None if containers is None else containers.snapshot()
    token = _CURRENT.set(trace)
    try:
        yield
    finally:
        _CURRENT.reset(token)
    changed = "" if containers is None else containers.changed_since(before)
    if changed:
        raise ComputeError(
            explain(
                f"a change of {changed} in {trace.title}",
                "the body is traced once, so the change would happen once and not in each "
                "iteration",
                "Assign to an array from before the loop, rows[i] = value, and store it after the "
                "loop.",
            )
        )
