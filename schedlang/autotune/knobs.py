"""Knobs: a template asks for decisions by name, and the search makes them."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from inspect import Parameter, signature
from random import Random
from types import FrameType
from typing import Any, TypeVar

import numpy as np

from schedlang.autotune.text import whole as whole_number
from schedlang.errors import TuningError, first_line, user_location
from schedlang.expr.nodes import Axis

T = TypeVar("T")
# the most options of one split: all are listed
MOST_WAYS = 100_000
# any JSON value, so that it can be stored and sent
Decision = Any
Decisions = Mapping[str, Decision]
# the position of an option, from the name of a knob and its options as plain data
Pick = Callable[[str, Sequence[Decision]], int]


class Rejected(Exception):
    """Raised for a candidate that breaks a constraint. It is not an error: nothing was built."""


class Refused(Rejected):
    """Raised for a candidate whose steps are illegal or whose schedule cannot be lowered."""


class Knobs:
    """The decisions of one candidate, which a template asks for by name.

    ``decisions`` holds every decision so far, and ``options`` what each was chosen from: a list of
    plain data, or ``None`` for the order of a permutation. A decision in ``given`` is used if it is
    still one of the options. Any other is drawn from ``rng``. Without ``rng``, ``pick`` returns the
    position of an option from the name and the options; without ``pick`` it is the first, which the
    tactics make the safest one.

    >>> knobs = Knobs({"rows": [8, 4]})
    >>> knobs.split("rows", 32), knobs.choice("lanes", [16, 32]), knobs.permutation("order", "ij")
    ((8, 4), 16, ('i', 'j'))
    >>> knobs.decisions
    {'rows': [8, 4], 'lanes': 16, 'order': [0, 1]}
    """

    def __init__(
        self, given: Decisions | None = None, rng: Random | None = None, pick: Pick | None = None
    ) -> None:
        self._given = dict(given or {})
        self._rng = rng
        self._pick = pick
        self.decisions: dict[str, Decision] = {}
        self.options: dict[str, list[Decision] | None] = {}

    def choice(self, name: str, options: Sequence[T]) -> T:
        """Return one of ``options``: numbers, text, booleans, None, and lists or tuples of these.

        Raise :class:`~schedlang.errors.TuningError` for no options, or a name used twice. It never
        rejects the candidate.

        >>> Knobs(rng=Random(0)).choice("lanes", [8, 16, 32])
        16
        """
        known = list(options)
        if not known:
            raise TuningError(f"knobs.choice({name!r}, []): give at least one option")
        plain = [_plain(option, name) for option in known]
        at = self._position(name, plain)
        if at is None:
            assert self._rng is not None
            at = self._rng.randrange(len(known))
        self.keep(name, plain[at], plain)
        return known[at]

    def _position(self, name: str, plain: list[Decision]) -> int | None:
        """Return the position of the option to take, ``None`` if it is drawn."""
        wanted = self._given.get(name, NOTHING)
        if wanted is not NOTHING and wanted in plain:
            return plain.index(wanted)
        if self._rng is not None:
            return None
        return 0 if self._pick is None else self._pick(name, plain)

    def foresee(self, name: str, options: list[Decision] | None, size: int) -> Decision:
        """Return the decision that will be made, or ``NOTHING`` if it will be drawn.

        ``options`` are plain data, or ``None`` for the order of ``size`` items.

        >>> Knobs({"rows": 8}).foresee("rows", [4, 8], 2), Knobs().foresee("order", None, 3)
        (8, [0, 1, 2])
        """
        if options is None:
            order = self._order(name, size)
            return NOTHING if order is None else order
        at = self._position(name, options)
        return NOTHING if at is None else options[at]

    def split(
        self, name: str, extent: int | Axis, parts: int = 2, most: int | None = None
    ) -> tuple[int, ...]:
        """Return ``parts`` extents, outermost first, whose product is ``extent``.

        ``extent`` is a number or an axis; ``most`` bounds the innermost extent. All such tuples are
        equally likely.

        >>> knobs = Knobs(rng=Random(0))
        >>> outer, inner = knobs.split("rows", 64, most=16)
        >>> outer * inner, inner <= 16
        (64, True)
        """
        whole = whole_number(extent.extent if isinstance(extent, Axis) else extent)
        if whole is None or whole < 1:
            raise TuningError(
                f"knobs.split({name!r}, {extent}): give an extent of 1 or more, or an axis of "
                "constant extent"
            )
        count = whole_number(parts)
        if count is None or count < 2:
            raise TuningError(f"knobs.split({name!r}, parts={parts!r}): give 2 parts or more")
        if most is not None and (whole_number(most) or 0) < 1:
            raise TuningError(f"knobs.split({name!r}, most={most!r}): give an integer, 1 or more")
        options = ways(whole, count)
        if options > MOST_WAYS:
            raise TuningError(
                f"knobs.split({name!r}, {whole}, parts={parts}): there are {options} ways to "
                f"split, and at most {MOST_WAYS} are allowed; split in several steps of fewer parts"
            )
        fitting = [f for f in factorizations(whole, count) if most is None or f[-1] <= most]
        return tuple(self.choice(name, fitting))

    def permutation(self, name: str, items: Sequence[T]) -> tuple[T, ...]:
        """Return ``items`` in some order, as ``reorder`` takes them.

        >>> Knobs({"order": [1, 0]}).permutation("order", ["i", "j"])
        ('j', 'i')
        """
        known = list(items)
        order = self._order(name, len(known))
        if order is None:
            assert self._rng is not None
            order = list(range(len(known)))
            self._rng.shuffle(order)
        self.keep(name, order, None)
        return tuple(known[n] for n in order)

    def _order(self, name: str, size: int) -> list[int] | None:
        """Return the order to take, ``None`` if it is drawn."""
        wanted = self._given.get(name)
        if isinstance(wanted, (list, tuple)) and _sorted_ints(wanted) == list(range(size)):
            return list(wanted)
        return list(range(size)) if self._rng is None else None

    def require(self, holds: bool | Callable[..., bool], why: str = "") -> None:
        """Reject the candidate unless ``holds``.

        A function is called with the earlier decisions that its parameters name:
        ``knobs.require(lambda rows, lanes: rows * lanes <= 256)``. A decision of ``split`` is its
        list of extents. ``why`` is the reason in the error message of a search that finds no
        candidate.
        """
        constraint = holds
        if callable(holds):
            holds = _call_predicate(holds, self.decisions)
        if not holds:
            raise Rejected(why or _default_reason(constraint, self.decisions, sys._getframe(1)))

    def keep(self, name: str, value: Decision, options: list[Decision] | None) -> None:
        """Record the decision of a knob, and the options that it was chosen from."""
        if not isinstance(name, str) or not name:
            raise TuningError(f"the name of a knob must be a non-empty string, not {name!r}")
        if name in self.decisions:
            raise TuningError(f"knob {name!r} is asked for twice: give each knob its own name")
        self.decisions[name] = value
        self.options[name] = options


# no decision
NOTHING = object()


def _sorted_ints(items: Sequence[Any]) -> list[int] | None:
    """Return ``items`` sorted, or ``None`` unless all are integers."""
    return sorted(items) if all(type(n) is int for n in items) else None


def _plain(value: Any, name: str) -> Decision:
    """Return ``value`` as plain JSON data."""
    if isinstance(value, (list, tuple)):
        return [_plain(v, name) for v in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        raise TuningError(
            f"knobs.choice({name!r}, ...): {value} cannot be stored in a database; give finite "
            "numbers"
        )
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TuningError(
        f"knobs.choice({name!r}, ...): an option must be a number, a string, a boolean, None or a "
        f"list of these, not {type(value).__name__}; choose a name and look up the object"
    )


def _call_predicate(predicate: Callable[..., bool], decisions: Decisions) -> bool:
    """Call ``predicate`` with the decisions that its parameters name.

    A parameter that names no decision must have a default.
    """
    named = {}
    for name, parameter in signature(predicate).parameters.items():
        if name in decisions:
            named[name] = decisions[name]
        elif parameter.default is Parameter.empty:
            raise TuningError(
                f"knobs.require: the predicate has a parameter {name!r}, which is not a knob so "
                f"far; the knobs are {', '.join(decisions) or 'none yet'}"
            )
    return bool(predicate(**named))


def _default_reason(constraint: Any, decisions: Decisions, caller: FrameType) -> str:
    """Return the reason of a failed constraint that has no ``why``: its knobs and its line."""
    names = (
        [name for name in signature(constraint).parameters if name in decisions]
        if callable(constraint)
        else []
    )
    code = getattr(constraint, "__code__", None)
    file = caller.f_code.co_filename if code is None else code.co_filename
    line = caller.f_lineno if code is None else code.co_firstlineno
    on = f" on {', '.join(names)}" if names else ""
    return f"the constraint{on} ({os.path.basename(file)}:{line}) does not hold"


def refusal(error: Exception) -> Refused:
    """Return why a step of a template is illegal, with the line of the user's code that took it."""
    place = user_location(error)
    step, colon, why = first_line(error).partition(": ")
    # the place goes before the reason, as long messages are cut at the end
    return Refused(f"{step} ({place}){colon}{why}" if place else first_line(error))


def ways(whole: int, parts: int) -> int:
    """Return the number of :func:`factorizations`, from the exponents of the prime factors.

    >>> ways(4, 2), len(factorizations(360, 3)) == ways(360, 3)
    (3, True)
    """
    count, prime = 1, 2
    while whole > 1:
        if prime * prime > whole:
            prime = whole
        exponent = 0
        while whole % prime == 0:
            whole, exponent = whole // prime, exponent + 1
        count *= math.comb(exponent + parts - 1, parts - 1)
        prime += 1
    return count


@lru_cache(maxsize=512)
def factorizations(whole: int, parts: int) -> tuple[tuple[int, ...], ...]:
    """Return every ordered way to write ``whole`` as a product of ``parts`` factors.

    >>> factorizations(4, 2)
    ((4, 1), (2, 2), (1, 4))
    """
    if parts == 1:
        return ((whole,),)
    return tuple(
        (*outer, inner)
        for inner in divisors(whole)
        for outer in factorizations(whole // inner, parts - 1)
    )


@lru_cache(maxsize=512)
def divisors(whole: int) -> tuple[int, ...]:
    """Return the divisors of a number in increasing order.

    >>> divisors(12)
    (1, 2, 3, 4, 6, 12)
    """
    small = [n for n in range(1, math.isqrt(whole) + 1) if whole % n == 0]
    return tuple(small + [whole // n for n in reversed(small) if n * n != whole])
