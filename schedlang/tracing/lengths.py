"""The lengths of a traced function's arguments that are symbolic in a trace, and why.

Calls that differ in lengths alone share an entry. A length of 0 or 1 is part of it: there NumPy
broadcasts, or has nothing to reduce.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Container, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Union

from schedlang.errors import LoopWarning, first_line, user_location, warn_user
from schedlang.markup.progress import note
from schedlang.tracing.arguments import Fixed, Given, Leaf, Length
from schedlang.tracing.specialization import Specialization

# the lengths of a call from 2 on, some of them symbolic
Pattern = tuple[Union[int, Length], ...]
Make = Callable[[Given], Specialization]

# begins the reason for a length that is a number so that a kernel runs a loop
IN_KERNEL = "a kernel runs the loop at this length only; at any length,"
# a length is symbolic when a call has its third value
DISTINCT = 3
# stands for a length from 2 on in the key of calls that differ in lengths alone
ANY = -1


@dataclass
class Seen:
    """The lengths of calls that differ in nothing else, of which there are ``count``.

    Lengths that were equal in all calls have the same label. ``keys`` are the keys of traces by
    their lengths, and ``needed`` says for lengths that are numbers in all traces why.
    """

    count: int
    distinct: list[set[int]] = field(init=False)
    labels: list[int] = field(init=False)
    keys: dict[Pattern, Hashable] = field(default_factory=dict)
    needed: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.distinct = [set() for _ in range(self.count)]
        self.labels = [0] * self.count

    def note(self, lengths: Sequence[int]) -> None:
        """Note the lengths of a call."""
        numbers: dict[tuple[int, int], int] = {}
        self.labels = [numbers.setdefault(p, len(numbers)) for p in zip(self.labels, lengths)]
        for values, length in zip(self.distinct, lengths):
            if len(values) < DISTINCT:
                values.add(length)

    def pattern(self, lengths: Sequence[int], least: int) -> Pattern:
        """Return the pattern of a call, with the lengths symbolic that had ``least`` values."""
        numbers: dict[int, int] = {}
        return tuple(
            Length(numbers.setdefault(label, len(numbers)))
            if len(values) >= least and k not in self.needed
            else length
            for k, (length, label, values) in enumerate(zip(lengths, self.labels, self.distinct))
        )

    def fitting(self, lengths: Sequence[int]) -> Pattern | None:
        """Return the pattern of a trace that takes a call of these lengths."""
        return next((p for p in self.keys if _fits(p, lengths)), None)


class Lengths:
    """The symbolic lengths in the traces of a function.

    All of them are if ``dynamic`` is true; if it is ``None``, those that calls change often; and
    none if it is false. What the last ``size`` kinds of calls have shown is kept.
    """

    def __init__(self, dynamic: bool | None, size: int) -> None:
        self._least = {None: DISTINCT, True: 1, False: 0}[dynamic]
        self._size = size
        self._seen: OrderedDict[Hashable, Seen] = OrderedDict()

    def key_of(self, call: Given) -> Hashable:
        """Return the key of the trace for a call, if it has symbolic lengths that fit; else the
        key of the call."""
        if not self._least:
            return call.key
        lengths = lengths_of(call)
        if not lengths:
            return call.key
        seen = self._seen.get(with_lengths(call.key, [ANY] * len(lengths)))
        pattern = None if seen is None else seen.fitting(lengths)
        return call.key if seen is None or pattern is None else seen.keys[pattern]

    def specialized(self, call: Given, make: Make) -> tuple[Hashable, Specialization]:
        """Return the key of a new trace for a call, and what ``make`` returns for it.

        A length is a number in the trace if ``make`` raises for a symbolic one.
        """
        lengths = lengths_of(call)
        if not self._least or not lengths or any(leaf.strides for leaf in call.leaves):
            # strides depend on lengths
            return call.key, make(call)
        seen = self._seen_by(call, len(lengths))
        seen.note(lengths)
        pattern = seen.fitting(lengths) or seen.pattern(lengths, self._least)
        pattern, specialization, refused = _made(pattern, lengths, call, make)
        seen.needed.update(refused)
        names = _names(call)
        for why in dict.fromkeys(w for w in refused.values() if w.startswith(IN_KERNEL)):
            if self._least == 1:
                given = " and ".join(names[k] for k, w in refused.items() if w == why)
                _warn(specialization, f"dynamic=True has no effect on {given}, since {why}")
        for line in specialization.program.refused if specialization.sizes else ():
            _warn(specialization, f"{line}; each iteration copies the arrays that it changes")
        if specialization.sizes and not specialization.takes(call):
            return call.key, make(call)
        key = call.key
        if specialization.sizes:
            key = seen.keys.setdefault(pattern, with_lengths(key, pattern))
            if self._least > 1:
                free = [name for name, e in zip(names, pattern) if isinstance(e, Length)]
                note(f"{specialization.name} under sl.jit: one trace for any {' and '.join(free)}")
        reasons = tuple(
            f"{names[k]} is {lengths[k]}, since a trace needs the number: {why}"
            for k, why in seen.needed.items()
        )
        return key, replace(specialization, lengths=(*specialization.lengths, *reasons))

    def _seen_by(self, call: Given, count: int) -> Seen:
        """Return what calls of one kind have shown, and forget the kind called least recently."""
        kind = with_lengths(call.key, [ANY] * count)
        seen = self._seen.setdefault(kind, Seen(count))
        self._seen.move_to_end(kind)
        if len(self._seen) > self._size:
            self._seen.popitem(last=False)
        return seen


def _warn(specialization: Specialization, text: str) -> None:
    warn_user(f"{specialization.name}: {text}", LoopWarning)


def _made(
    pattern: Pattern, lengths: Sequence[int], call: Given, make: Make
) -> tuple[Pattern, Specialization, dict[int, str]]:
    """Return what ``make`` returns with the lengths of a pattern, or with numbers where it raises.

    A length is a number, too, where a loop runs on the host that a kernel runs with the number. The
    first result has the lengths of the trace, and the last one says why each length that is a
    number instead is one.
    """
    symbols = _symbols(pattern)
    kept: Pattern = tuple(lengths)
    specialization: Specialization | None = None
    refused: dict[int, str] = {}
    trials = [symbols] if len(symbols) == 1 else [symbols, *({s} for s in sorted(symbols))]
    numbers: Specialization | None = None
    for trial in trials if symbols else ():
        wanted = _with_numbers(pattern, lengths, trial | _symbols(kept))
        try:
            symbolic = make(replace(call, key=with_lengths(call.key, wanted)))
        except Exception as error:
            refused |= dict.fromkeys(trial, _said(error))
            continue
        if symbolic.program.refused:
            # on the host, each iteration copies the arrays that it changes
            numbers = make(call) if numbers is None else numbers
            if len(numbers.program.refused) < len(symbolic.program.refused):
                refused |= dict.fromkeys(trial, f"{IN_KERNEL} {symbolic.program.refused[0]}")
                continue
        specialization = symbolic
        kept = wanted
        refused = {s: why for s, why in refused.items() if s not in trial}
        if trial == symbols:
            break
    if specialization is None:
        # raises if the function is wrong
        specialization = make(call) if numbers is None else numbers
    reasons = {
        k: refused[e.number]
        for k, e in enumerate(pattern)
        if isinstance(e, Length) and e.number in refused
    }
    return kept, specialization, reasons


def _said(error: Exception) -> str:
    """Return the first line of an error, with the user's line if it does not name that."""
    message, where = first_line(error), user_location(error)
    is_named = f"line {where.rpartition(':')[2]}" in message
    return message if is_named or not where else f"{message} ({where})"


def _symbols(pattern: Pattern) -> set[int]:
    return {e.number for e in pattern if isinstance(e, Length)}


def _with_numbers(pattern: Pattern, lengths: Sequence[int], symbols: Container[int]) -> Pattern:
    """Return a pattern in which only ``symbols`` are symbolic."""
    return tuple(
        e if isinstance(e, Length) and e.number in symbols else n for e, n in zip(pattern, lengths)
    )


def _fits(pattern: Pattern, lengths: Sequence[int]) -> bool:
    values: dict[int, int] = {}
    return all(
        length == (values.setdefault(e.number, length) if isinstance(e, Length) else e)
        for e, length in zip(pattern, lengths)
    )


def _names(call: Given) -> list[str]:
    """Return the lengths of a call from 2 on as text, such as ``x.shape[0]``."""
    return [
        f"{leaf.name}.shape[{k}]"
        for leaf in call.leaves
        for k, extent in enumerate(leaf.shape or ())
        if isinstance(extent, int) and extent > 1
    ]


def lengths_of(call: Given) -> tuple[int, ...]:
    """Return the lengths of the arrays of a call from 2 on."""
    extents = (e for leaf in call.leaves for e in leaf.shape or ())
    return tuple(e for e in extents if isinstance(e, int) and e > 1)


def with_lengths(key: Hashable, lengths: Iterable[int | Length]) -> Hashable:
    """Return the key of a call with other lengths in place of those from 2 on."""
    rest = iter(lengths)

    def other(part: Any) -> Any:
        if not isinstance(part, Leaf) or not part.shape:
            return part
        shape = (next(rest) if isinstance(e, int) and e > 1 else e for e in part.shape)
        return replace(part, shape=tuple(shape))

    return tuple(
        part if isinstance(part, Fixed) else (part[0], *map(other, part[1:]))
        for part in key  # type: ignore[attr-defined]
    )


__all__ = ["Lengths"]
