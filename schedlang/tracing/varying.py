"""Random numbers in a traced function, which a trace would draw once and keep.

A generator that the function can reach has another state after the trace if numbers were drawn. One
that the function makes without a seed asks the system for one.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from types import CodeType, FrameType, MemberDescriptorType, MethodType, ModuleType
from typing import Any, NoReturn

import numpy as np

from schedlang.errors import ComputeTypeError, explain
from schedlang.tracing.code import LIBRARIES, Use, attributes
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
# how far from what code names generators are searched
_MOST_PARTS, _DEEPEST = 5000, 6
_LEAVES = (str, bytes, int, float, complex, np.ndarray, np.generic, CodeType, type(None))
# methods of Python and of C
_METHODS = (MethodType, type(len))
# the generators of the functions of a module
_OF_MODULES = {
    "random": getattr(random.random, "__self__", None),
    "numpy.random": getattr(np.random.rand, "__self__", None),
}


@contextmanager
def refuse_draws(trace: Trace, uses: Sequence[Use], values: Sequence[Any]) -> Iterator[None]:
    """Raise ``ComputeTypeError`` if a function draws random numbers while it is traced.

    ``uses`` are what its code names, and ``values`` its arguments, perhaps with generators.
    """
    before = [(g, _state(g), use) for g, use in _reached(uses, values)]
    makers = [use for use in uses if any(use.value is maker for maker in _MAKERS)]
    with _seeds_noted(trace, makers) as seeded:
        yield
    if seeded:
        _refuse(
            trace,
            seeded[0],
            "a generator of random numbers without a seed",
            "Draw from a generator that is an argument, f(x, rng); or give a seed, "
            "np.random.default_rng(0): then each call draws the same numbers, as in NumPy.",
        )
    for generator, state, use in before:
        if _state(generator) != state:
            place = None if use is None else trace.statements.at(use.code, use.line)
            _refuse(
                trace,
                place,
                "random numbers",
                "Draw from an argument: make the generator outside, rng = np.random.default_rng(), "
                "and pass it to each call, "
                f"{trace.title if trace.title.isidentifier() else 'f'}(x, rng).",
            )


def _refuse(trace: Trace, place: Statement | None, what: str, hint: str) -> NoReturn:
    where = "" if place is None else f" at line {place.line}, `{place.text}`"
    raise ComputeTypeError(
        explain(
            f"{what} in {trace.title}{where}",
            "the function is traced once, and all its calls would get the numbers drawn then",
            hint,
        )
    )


def _reached(uses: Sequence[Use], values: Sequence[Any]) -> list[tuple[Any, Use | None]]:
    """Return the generators among what code names and the values given, each with its first use."""
    visited: dict[int, Any] = {}
    generators = [(g, use) for use in uses for g in _generators(use.value, visited)]
    return [*generators, *((g, None) for value in values for g in _generators(value, visited))]


def _generators(value: Any, visited: dict[int, Any]) -> Iterator[Any]:
    """Return the generators that a value is, holds, or is a method of, unless ``visited``.

    Containers and the attributes of objects are searched, at most some levels and parts of them.
    """
    waiting = [(value, 0)]
    while waiting and len(visited) < _MOST_PARTS:
        part, depth = waiting.pop()
        if id(part) in visited or isinstance(part, _LEAVES):
            continue
        visited[id(part)] = part
        if issubclass(type(part), _GENERATORS):
            # not what stands for a generator among the arguments
            yield part
        elif depth < _DEEPEST:
            waiting += [(inner, depth + 1) for inner in islice(_parts(part), _MOST_PARTS)]


def _parts(value: Any) -> Iterator[Any]:
    """Return what a container or an object holds, and what a method is of."""
    if isinstance(value, (tuple, list)):
        yield from value
    elif isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, ModuleType):
        yield _OF_MODULES.get(value.__name__)
    elif isinstance(value, _METHODS):
        yield getattr(value, "__self__", None)
    elif not isinstance(value, type):
        yield from attributes(value).values()
        for kind in type(value).__mro__:
            if kind.__module__.partition(".")[0] not in (*LIBRARIES, "builtins"):
                for attribute in vars(kind).values():
                    slot = isinstance(attribute, MemberDescriptorType)
                    yield _slot(attribute, value) if slot else attribute


def _slot(slot: Any, value: Any) -> Any:
    """Return what an object holds in one of its ``__slots__``, if anything."""
    try:
        return slot.__get__(value)
    except AttributeError:
        return None


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
def _seeds_noted(trace: Trace, makers: list[Use]) -> Iterator[list[Statement | None]]:
    """Note where a seed comes from the system, if the code names what would ask for one."""
    noted: list[Statement | None] = []
    earlier = sys.getprofile()
    if not makers or (earlier is not None and not callable(earlier)):
        # a profiler in C cannot be put back: any such name counts
        yield noted
        noted += [trace.statements.at(use.code, use.line) for use in makers]
        return

    def seen(frame: FrameType, event: str, _: Any) -> None:
        if event != "call":
            return
        code = frame.f_code
        if code in _SEEDING or (code is _SEEDED and frame.f_locals.get("a") is None):
            user = _users(frame)
            # np.random.RandomState(0) asks for a seed, too, and replaces it
            replaced = user is not None and any(
                (use.code.co_filename, use.line) == (user.f_code.co_filename, user.f_lineno)
                and not use.bare
                for use in makers
                if use.value is np.random.RandomState
            )
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
        if str(frame.f_globals.get("__name__")).partition(".")[0] not in LIBRARIES:
            return frame
        frame = frame.f_back
    return None
