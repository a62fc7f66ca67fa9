"""Text in columns: numbers that stand under each other, and a text beside them."""

from __future__ import annotations

from collections.abc import Sequence


def align_columns(rows: Sequence[tuple[Sequence[str], str]], left: bool = False) -> list[str]:
    """Return lines of right-aligned cells and a text, at the ``left`` or at the right of them.

    >>> rows = [(["a", "b"], ""), (["1", "200"], "x"), (["", "3"], "  y")]
    >>> print(*align_columns(rows), sep="\\n")
    a    b
    1  200   x
         3     y
    """
    widths = [max(map(len, column)) for column in zip(*(cells for cells, _ in rows))]
    named = max(len(text) for _, text in rows)
    lines = []
    for cells, text in rows:
        numbers = "  ".join(cell.rjust(width) for cell, width in zip(cells, widths))
        line = f"{text.ljust(named)}  {numbers}" if left else f"{numbers}   {text}"
        lines.append(line.rstrip())
    return lines
