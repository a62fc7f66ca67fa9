"""The distance of a tuned computation from the one asked for, as numbers and in words."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from schedlang.autotune.race_times import as_raced, race_ratio
from schedlang.autotune.record import Trial, Where
from schedlang.autotune.records.entry import Entry
from schedlang.autotune.text import one_line

# the distance of a missing size or vector width: more than the log2 of any ratio of two sizes
_UNKNOWN = 64.0


def kind(target: str) -> str:
    """Return the kind of a target from its text.

    >>> kind("cpu, 16 vectors of 32 bytes"), kind("cuda sm_90")
    ('cpu', 'cuda')
    """
    words = target.replace(",", " ").split()
    return words[0] if words else ""


def comparable(wanted: Where, recorded: Where) -> bool:
    """Return whether both are the same computation, up to extents, on the same kind of target."""
    same = wanted.op == recorded.op and len(wanted.extents) == len(recorded.extents)
    return same and kind(wanted.target) == kind(recorded.target)


def distance(wanted: Where, recorded: Where) -> tuple[float, ...]:
    """Return the distances in sizes, target, machine, compiler and versions.

    A smaller tuple is nearer.
    """
    mine, theirs = dict(wanted.sizes), dict(recorded.sizes)
    sizes = sum(ratio(mine.get(n), theirs.get(n)) for n in {*mine, *theirs})
    sizes += sum(ratio(a, b) for a, b in zip(wanted.extents, recorded.extents) if a != b)
    target = 0.0
    if wanted.target != recorded.target:
        pairs = [re.findall(r"\d+", t) for t in (wanted.target, recorded.target)]
        short = all(len(n) < 10 for p in pairs for n in p)
        known = len(pairs[0]) == len(pairs[1]) > 0 and short
        ratios = [ratio(int(a), int(b)) for a, b in zip(*pairs)] if known else [_UNKNOWN]
        target = sum(ratios) or _UNKNOWN
    machine = float(wanted.machine != recorded.machine)
    compiler = float(_other_compiler(wanted, recorded))
    return sizes, target, machine, compiler, float(len(_versions(wanted, recorded)))


def sort_entries(
    wanted: Where, entries: Sequence[Entry]
) -> list[tuple[tuple[float, ...], Entry]]:
    """Return the entries with times, the best first, each with its distance.

    Times of different sizes cannot be compared, so of equally near sizes the larger is preferred.
    The best times from before a race are too short, since each is the least of many noisy times. So
    they are multiplied by the factor by which the race slowed its winner. A schedule that a race
    kept comes before one whose gain may be noise.
    """
    places: dict[Where, list[Trial]] = {}
    for entry in entries:
        places.setdefault(entry.where, []).append(entry.trial)
    factors = {where: race_ratio(trials) for where, trials in places.items()}

    apart = {where: distance(wanted, where) for where in places}
    sizes = {where: _size(where) for where in places}

    def key(item: tuple[tuple[float, ...], Entry]) -> tuple[float, ...]:
        distances, entry = item
        seconds = as_raced(entry.trial, factors[entry.where])
        # of equal times, prefer one from a race
        return *distances, -sizes[entry.where], seconds, not entry.trial.raced

    return sorted([(apart[entry.where], entry) for entry in entries], key=key)


def _size(where: Where) -> float:
    """Return a number that is larger for larger sizes."""
    counts = [*dict(where.sizes).values(), *where.extents]
    return sum(math.log2(max(1, n)) for n in counts)


def differences(wanted: Where, recorded: Where) -> tuple[str, ...]:
    """Return the differences in words, the least important first.

    >>> here = Where("", (("n", 64),), "cpu", "M1", (("numba", "0.62"),))
    >>> differences(here, Where("", (("n", 32),), "cpu", "M2", (("numba", "0.61"),)))
    ('with numba 0.61, not 0.62', 'on M2, not on M1', 'for n = 32, not for n = 64')
    >>> square, wide = (Where("", (), "cpu", "", (), shape) for shape in ((8, 8, 8), (8, 5, 5)))
    >>> differences(square, wide)
    ('for extents 5, not 8',)
    >>> llvm, numba = (Where("", (), "cpu", "", (), (), name) for name in ("llvm", "numba"))
    >>> differences(llvm, numba)
    ('with compiler numba, not llvm',)
    """
    parts = [
        f"with {name} {theirs}, not {mine}" for name, mine, theirs in _versions(wanted, recorded)
    ]
    if _other_compiler(wanted, recorded):
        theirs, mine = one_line(recorded.compiler), one_line(wanted.compiler)
        parts.append(f"with compiler {theirs}, not {mine}")
    if wanted.machine != recorded.machine:
        parts.append(f"on {one_line(recorded.machine)}, not on {one_line(wanted.machine)}")
    if wanted.target != recorded.target:
        parts.append(f"for {one_line(recorded.target)}, not for {one_line(wanted.target)}")
    if dict(wanted.sizes) != dict(recorded.sizes):
        parts.append(f"for {_sizes(recorded)}, not for {_sizes(wanted)}")
    if wanted.extents != recorded.extents:
        # the structure repeats an extent for each tensor and axis that has it
        pairs = dict.fromkeys(p for p in zip(recorded.extents, wanted.extents) if p[0] != p[1])
        theirs, mine = (", ".join(map(str, side)) for side in zip(*pairs))
        parts.append(f"for extents {one_line(theirs)}, not {one_line(mine)}")
    return tuple(parts)


def _other_compiler(wanted: Where, recorded: Where) -> bool:
    """Return whether another compiler timed a record, unless the record is too old to say it."""
    return bool(recorded.compiler) and wanted.compiler != recorded.compiler


def _versions(wanted: Where, recorded: Where) -> list[tuple[str, str, str]]:
    """Return the name, the version wanted and the version found of each package that differs."""
    mine, theirs = dict(wanted.versions), dict(recorded.versions)
    names = sorted(n for n in {*mine, *theirs} if mine.get(n) != theirs.get(n))
    absent = "absent"
    return [
        (one_line(n), one_line(mine.get(n, absent)), one_line(theirs.get(n, absent))) for n in names
    ]


def _sizes(where: Where) -> str:
    listed = ", ".join(f"{one_line(name)} = {value}" for name, value in sorted(where.sizes))
    return listed or "any size"


def ratio(a: int | None, b: int | None) -> float:
    """Return the distance of two sizes: the log2 of their ratio, above 0 unless they are equal."""
    if a is None or b is None:
        return _UNKNOWN
    return abs(math.log2(max(1, a)) - math.log2(max(1, b))) + (a != b) * 1e-9
