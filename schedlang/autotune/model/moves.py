"""Moves of the descent: the order in which knobs change, and the values to try.

The order and the starting values are those that lowered the estimate most in searches for the
operator families of ``benchmarks/works/families.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf

from schedlang.autotune.knobs import Decision

# kinds of knobs, the most promising first; a kind is the part of a knob's name after its stage
ORDER = (
    "inline", "fuse", "how", "lane", "shares", "shared", "tile", "each", "at", "axes", "vectors",
    "pack", "depth", "local", "count", "threads", "groups", "past", "steps", "step_block", "parts",
    "double_buffer", "reduce_order", "order", "tested", "lanes", "rows", "parallel", "block",
    "inner_order", "vthreads", "serpentine", "prefetch", "transposed", "unroll",
)  # fmt: skip
# kinds of knobs that decide which other knobs there are, or what these mean
STRUCTURE = ("inline", "fuse", "how", "lane", "shares", "axes")
# elements and threads along an axis of a GPU's tile to start from, at most: with these, descents
# for eleven convolutions of ResNet-50 ended at 0.84 of the sum of estimates from the first options
TILES = {"each": 2, "threads": 16}
_RANK = {kind: rank for rank, kind in enumerate(ORDER)}
# of these, the last part of a name is an operand
_OF_OPERANDS = ("pack", "shared")
# the most values of a knob that are tried: of a list of tiles, and of any other
MOST_TILES, MOST_VALUES = 8, 4


def kind_of(name: str) -> str:
    """Return the kind of a knob from its name.

    >>> kind_of("C.tile"), kind_of("C.i.block"), kind_of("C.pack.B"), kind_of("A.shared.lanes")
    ('tile', 'block', 'pack', 'lanes')
    """
    *_, before, last = ("", *name.split("."))
    return before if before in _OF_OPERANDS and last not in _RANK else last


def in_order(decisions: Mapping[str, Decision]) -> list[str]:
    """Return the names of knobs, the most promising first.

    >>> in_order({"C.order": [0, 1], "C.tile": [1, [0, 4]], "C.how": "tile"})
    ['C.how', 'C.tile', 'C.order']
    """
    return sorted(decisions, key=lambda name: _RANK.get(kind_of(name), len(ORDER)))


def start(name: str, options: Sequence[Decision]) -> int:
    """Return the position of the option to start from.

    It is the first, which is the safest, but for these knobs: short loops are unrolled, operands
    are packed, blocks of a time step go back and forth, which the estimate does not see, partial
    sums and lanes are several vectors wide, so that one need not wait for the other, and several
    rows are summed at once, as one row is too few bytes in flight. A block on a GPU has up to 16
    threads along an axis of a tile, with up to two elements each.

    >>> start("C.unroll", [False, True]), start("C.vectors", [1, 2, 4, 8]), start("C.how", ["tile"])
    (1, 2, 0)
    >>> start("C.i.each", [1, 2, 4]), start("C.i.threads", [4, 8, 16, 32])
    (1, 2)
    """
    kind, last = kind_of(name), len(options) - 1
    if kind in ("unroll", "pack", "serpentine") and True in options:
        return options.index(True)
    if kind == "vectors":
        return min(2, last)
    if kind == "rows":
        return last
    if kind in TILES:
        return max((at for at, o in enumerate(options) if _number(o) <= TILES[kind]), default=0)
    return min(1, last) if kind == "lanes" else 0


def _number(option: Decision) -> float:
    return option if isinstance(option, int) else inf


def is_place(name: str) -> bool:
    """Return whether a knob is the loop at which a stage is computed, not a packed copy.

    >>> is_place("S.at"), is_place("A.global.at"), is_place("S.how")
    (True, False, False)
    """
    return kind_of(name) == "at" and not name.endswith(".global.at")


def start_inside(name: str, options: Sequence[Decision]) -> int:
    """Return the position of :func:`start`, but compute stages in the outermost loop that fits.

    So a block of rows goes through all stages while it is in a cache. The lanes go along the last
    axis, which keeps the rows whole. Partial sums are one vector wide: the rows of a block need not
    wait for each other.

    >>> start_inside("S.at", [-1, 0, 1]), start_inside("S.at", [-1]), start_inside("C.lane", [0, 1])
    (1, 0, 1)
    """
    kind, last = kind_of(name), len(options) - 1
    if is_place(name):
        return min(1, last)
    if kind == "vectors":
        return 0
    return last if kind == "lane" else start(name, options)


def others(name: str, decision: Decision, options: Sequence[Decision] | None) -> list[Decision]:
    """Return the values of a knob to try instead of ``decision``, the most promising first.

    ``options`` is ``None`` for the order of a permutation. Then each item goes first, the last one
    before others, as it is the contiguous one. Reduction loops also go last.

    >>> others("C.order", [0, 1, 2], None), others("C.reduce_order", [0, 1], None)
    ([[2, 0, 1], [1, 0, 2]], [[1, 0]])
    >>> others("C.i.block", 1, [1, 2, 3, 4, 6, 8, 12, 16, 24, 48])
    [48, 3, 6, 12]
    """
    if options is None:
        return _moved(list(decision), back=kind_of(name) == "reduce_order")
    distinct = [o for n, o in enumerate(options) if o not in options[:n]]
    if kind_of(name) == "tile":
        found = _tiles(distinct)
    elif len(distinct) <= MOST_VALUES + 1:
        found = distinct
    else:
        last = len(distinct) - 1
        places = (last, last // 4, last // 2, 3 * last // 4, 0)
        found = [distinct[at] for at in dict.fromkeys(places)]
    most = MOST_TILES if kind_of(name) == "tile" else MOST_VALUES
    return [o for o in found if o != decision][:most]


def _tiles(options: Sequence[Decision]) -> list[Decision]:
    """Return the first tile of each number of vectors and each set of axes: the largest of them."""
    found: dict[object, Decision] = {}
    for option in options:
        vectors, *rows = option if isinstance(option, list) and option else (option,)
        axes = tuple(str(row[0]) if isinstance(row, list) else str(row) for row in rows)
        found.setdefault((str(vectors), axes), option)
    return list(found.values())


def _moved(order: list[int], back: bool) -> list[Decision]:
    """Return an order with each item moved to the front, and then to the back if asked."""
    found: list[Decision] = []
    for front in (True, False) if back else (True,):
        for item in reversed(order) if front else order:
            rest = [n for n in order if n != item]
            moved = [item, *rest] if front else [*rest, item]
            if moved != order and moved not in found:
                found.append(moved)
    return found


__all__ = ["STRUCTURE", "in_order", "is_place", "kind_of", "others", "start", "start_inside"]
