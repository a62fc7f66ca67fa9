"""Random numbers in a traced function, which a trace would draw once and keep.

A generator that the function can reach has another state after the trace if numbers were drawn. One
that the function makes without a seed asks the system for one.
"""

from __future__ import annotations

import builtins
import dis
import random
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from inspect import getattr_static
from types import CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any, NoReturn

import numpy as np

from schedlang.errors import ComputeTypeError, explain
from schedlang.tracing.statements import Statement
from schedlang.tracing.trace import Trace

_GENERATORS = (np.random.Generator, np.random.RandomState, np.random.BitGenerator, random.Random)
# what makes a generator, with a seed of the system unless one is given
_MAKERS = (
    np.random.default_rng, np.random.RandomState, np.random.SeedSequence, np.random.PCG64,
    np.random.PCG64DXSM, np.random.MT19937, np.random.Philox, np.random.SFC64, random.Random,
    random.SystemRandom,
)  # fmt: skip
# the functions of Python that run where a seed comes from the system
_SEEDING = (random.SystemRandom.getrandbits.__code__, random.SystemRandom.random.__code__)
_SEEDED = random.Random.seed.__code__
# the generators of the functions of a module
_OF_MODULES = {"random": random.random.__self__, "numpy.random": np.random.rand.__self__}
_LIBRARIES = ("schedlang", "numpy", "random", "secrets")
# the most functions whose code is read
_MOST_FUNCTIONS = 200


@dataclass(frozen=True)
class Use:
    """A line of a function that names ``value``; ``bare`` if it calls that without arguments."""

    code: CodeType
    line: int
    value: Any
    bare: bool


@contextmanager
def draws_refused(trace: Trace, function: Any, values: Iterable[Any]) -> Iterator[None]:
    """Raise ``ComputeTypeError`` if ``function`` draws random numbers while it is traced.

    ``values`` are the arguments that a trace keeps, with generators perhaps among them.
    """
    uses = _uses([function, *values])
    before = [(g, _state(g), use) for g, use in _reached(uses, values)]
    made = [use for use in uses if any(use.value is maker for maker in _MAKERS)]
    with _seeds_noted(trace, made) as seeded:
        yield
    if seeded:
        _refuse(
            trace, seeded[0], "a generator of random numbers without a seed",
            "Draw outside, and pass the numbers as an argument; or give a seed, "
            "np.random.default_rng(0): then each call draws the same numbers, as in NumPy.",
        )  # fmt: skip
    for generator, state, use in before:
        if _state(generator) != state:
            place = None if use is None else trace.statements.at(use.code, use.line)
            _refuse(
                trace, place, "random numbers",
                "Draw outside, and pass the numbers as an argument: "
                f"{trace.title if trace.title.isidentifier() else 'f'}(x, rng.random(n)).",
            )  # fmt: skip


def _refuse(trace: Trace, place: Statement | None, what: str, hint: str) -> NoReturn:
    where = "" if place is None else f" at line {place.line}, `{place.text}`"
    raise ComputeTypeError(
        explain(
            f"{what} in {trace.title}{where}",
            "the function is traced once, and all its calls would get the numbers drawn then",
            hint,
        )
    )


def _reached(uses: list[Use], values: Iterable[Any]) -> list[tuple[Any, Use | None]]:
    """Return the generators among what code names and the values given, each with its first use."""
    found: dict[int, tuple[Any, Use | None]] = {}
    for use in uses:
        for generator in _generators(use.value):
            found.setdefault(id(generator), (generator, use))
    for value in values:
        for generator in _generators(value):
            found.setdefault(id(generator), (generator, None))
    return list(found.values())


def _generators(value: Any) -> Iterator[Any]:
    """Return the generators that a value is, holds, or is a method of."""
    if isinstance(value, (tuple, list, dict)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _generators(part)
        return
    if isinstance(value, ModuleType):
        value = _OF_MODULES.get(value.__name__)
    bound = value.__self__ if isinstance(value, (MethodType, type(len))) else None
    held = () if isinstance(value, type) else _held(value).values()
    yield from (g for g in (value, bound, *held) if isinstance(g, _GENERATORS))


def _held(value: Any) -> dict[str, Any]:
    """Return the attributes of an object itself."""
    try:
        return dict(vars(value))
    except TypeError:
        return {}


def _state(generator: Any) -> Any:
    """Return the state of a generator, to compare."""
    if isinstance(generator, random.SystemRandom):
        return None
    if isinstance(generator, random.Random):
        return generator.getstate()
    if isinstance(generator, np.random.RandomState):
        return _frozen(generator.get_state(legacy=False))
    if isinstance(generator, np.random.Generator):
        return _frozen(generator.bit_generator.state)
    return _frozen(generator.state)


def _frozen(state: Any) -> Any:
    if isinstance(state, dict):
        return tuple((key, _frozen(value)) for key, value in state.items())
    return state.tobytes() if isinstance(state, np.ndarray) else state


@contextmanager
def _seeds_noted(trace: Trace, made: list[Use]) -> Iterator[list[Statement | None]]:
    """Note where a seed comes from the system, if the code names what would ask for one."""
    noted: list[Statement | None] = []
    earlier = sys.getprofile()
    if not made or (earlier is not None and not callable(earlier)):
        # a profiler in C cannot be put back: any such name counts
        yield noted
        noted += [trace.statements.at(use.code, use.line) for use in made]
        return

    def seen(frame: FrameType, event: str, _: Any) -> None:
        if event != "call":
            return
        code = frame.f_code
        if code in _SEEDING or (code is _SEEDED and frame.f_locals.get("a") is None):
            user = _users(frame)
            # np.random.RandomState(0) asks for a seed, too, and replaces it
            replaced = user is not None and any(
                (use.code, use.line) == (user.f_code, user.f_lineno) and not use.bare
                for use in made if use.value is np.random.RandomState
            )  # fmt: skip
            if not replaced:
                noted.append(
                    None if user is None else trace.statements.at(user.f_code, user.f_lineno)
                )

    sys.setprofile(seen)
    try:
        yield noted
    finally:
        sys.setprofile(earlier)


def _users(frame: FrameType | None) -> FrameType | None:
    """Return the innermost frame outside of libraries."""
    while frame is not None:
        if str(frame.f_globals.get("__name__")).partition(".")[0] not in _LIBRARIES:
            return frame
        frame = frame.f_back
    return None


def _uses(values: Iterable[Any]) -> list[Use]:
    """Return what the code of functions names, also of those that it names in turn."""
    found: list[Use] = []
    seen: set[CodeType] = set()
    waiting = [f for value in values for f in _functions(value)]
    while waiting and len(seen) < _MOST_FUNCTIONS:
        function = waiting.pop(0)
        if function.__code__ in seen or _is_library(function):
            continue
        cells = zip(function.__code__.co_freevars, function.__closure__ or ())
        names = {**vars(builtins), **function.__globals__, **_contents(cells)}
        for use in _named(function.__code__, names, seen):
            found.append(use)
            waiting += _functions(use.value)
    return found


def _is_library(function: FunctionType) -> bool:
    return str(function.__module__).partition(".")[0] in _LIBRARIES


def _contents(cells: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    found = {}
    for name, cell in cells:
        try:
            found[name] = cell.cell_contents
        except ValueError:
            # a name that the function around has not assigned yet
            continue
    return found


def _functions(value: Any) -> list[FunctionType]:
    """Return the functions of Python that a call of ``value`` runs."""
    if isinstance(value, partial):
        return [f for v in (value.func, *value.args) for f in _functions(v)]
    if isinstance(value, (staticmethod, classmethod, MethodType)):
        return _functions(value.__func__)
    if isinstance(value, FunctionType):
        return [value]
    inner = _held(value).get("__wrapped__")
    return _functions(inner) if isinstance(inner, FunctionType) else []


def _named(code: CodeType, names: dict[str, Any], seen: set[CodeType]) -> Iterator[Use]:
    """Return what ``code`` reads by name, and attributes of that, as in ``np.random.rand``."""
    seen.add(code)
    value: Any = None
    line = code.co_firstlineno
    steps = [s for s in dis.get_instructions(code) if s.opname not in ("PRECALL", "PUSH_NULL")]
    for step, following in zip(steps, [*steps[1:], None]):
        line = _line_of(step) or line
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF"):
            value = names.get(step.argval)
        elif step.opname in ("LOAD_ATTR", "LOAD_METHOD"):
            value = _attribute(value, step.argval)
        elif step.opname == "IMPORT_NAME":
            value = sys.modules.get(step.argval)
        else:
            value = None
        after = "" if following is None else following.opname
        goes_on = after in ("LOAD_ATTR", "LOAD_METHOD")
        if value is not None and not (goes_on and isinstance(value, ModuleType)):
            bare = after.startswith("CALL") and following is not None and following.argval == 0
            yield Use(code, line, value, bare)
    local = {*code.co_varnames, *code.co_cellvars}
    inner = {name: v for name, v in names.items() if name not in local}
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _named(constant, inner, seen)


def _line_of(step: dis.Instruction) -> int | None:
    positions = getattr(step, "positions", None)
    if positions is not None and positions.lineno is not None:
        return int(positions.lineno)
    starts = step.starts_line
    return starts if isinstance(starts, int) and not isinstance(starts, bool) else None


def _attribute(value: Any, name: str) -> Any:
    """Return an attribute without running code of an object."""
    if isinstance(value, ModuleType):
        return vars(value).get(name)
    return None if value is None else getattr_static(value, name, None)


__all__ = ["draws_refused"]
