"""Random ranges of reduction axes that depend on other axes and on elements."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from tests.fuzz.values import Ax, Graph, placeholder


def ragged_range(
    g: Graph, rng: Random, data: Sequence[Ax], before: Sequence[Ax], text: str, size: int
) -> str:
    """Return the ends of a range inside of ``0..text``, or an empty text if there is none.

    ``rng`` draws it, ``data`` are the data axes, and ``before`` the reduction axes before this one.
    """
    others = [a for a in (*data, *before) if a.text != "0"]
    if not others or text == "0":
        return ""
    axis = rng.choice(others).name
    kind = rng.random()
    if kind < 0.35:
        g.kinds.add("triangular range")
        return f"0, sl.min({axis} + {rng.choice((1, 1, 2))}, {text})"
    if kind < 0.5:
        g.kinds.add("triangular range")
        return f"sl.max({axis} - {rng.choice((0, 1, 2))}, 0), {text}"
    if kind < 0.6:
        g.kinds.add("triangular range")
        return f"{axis}, sl.min({axis} + {rng.choice((1, 2, 3))}, {text})"
    rows = [a for a in data if a.text != "0"]
    if not rows or not text.isdigit():
        return ""
    row = rng.choice(rows)
    kind = rng.random()
    if kind < 0.5:
        g.kinds.add("range of lengths")
        return f"0, {_ends(g, rng, row, size)}"
    g.kinds.add("range of starts and stops")
    return f"{_ends(g, rng, row, size)}, {_ends(g, rng, row, size)}"


def _ends(g: Graph, rng: Random, row: Ax, size: int) -> str:
    """Return an element of a new input that is an end of a range, sometimes outside of the box."""
    dtype = rng.choice(("int32", "int32", "int64", "int8"))
    least = rng.choice((0, -1))
    made = placeholder(g, 1, dtype, [(row.text, row.size)], (least, size + 1))
    g.lines.append(f"sl.assume({made.name}, within=({least}, {size}))")
    if least < 0:
        return f"sl.max({made.name}[{row.name}], 0)"
    return f"{made.name}[{row.name}]"


__all__ = ["ragged_range"]
