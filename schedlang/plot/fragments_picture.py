"""``fragments``: the thread of a warp, and its register, that hold each element of a tile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from schedlang.errors import PlotError, explain, text_of
from schedlang.instructions.declaration import Instruction
from schedlang.instructions.fragments import WARP, WARP_FORMS, Fragment
from schedlang.plot.palette import BLACK, TIMES
from schedlang.plot.picture import Picture
from schedlang.plot.sheet import frame, sheet
from schedlang.signatures import public

# inches of a cell, and above a panel; the size of letters in a cell
CELL, HEAD, LETTERS = 0.22, 0.6, 4.5


@dataclass(frozen=True, eq=False)
class Holders:
    """The operand ``of`` an instruction: the lane and the register of each element of its tile.

    ``lanes`` and ``registers`` are arrays of the shape of the tile, as rows.
    """

    title: str
    of: str
    lanes: np.ndarray
    registers: np.ndarray


@public
def fragments(what: Any, operand: str | None = None) -> Picture:
    """Return a picture of who holds which element of the operands of an instruction of a warp.

    ``what`` is an :class:`~schedlang.instructions.Instruction` such as ``sl.instructions.mma_f16``
    or ``ldmatrix_x4_f16``; a dict by title, or a list, compares several. ``operand`` is the name
    of one operand or of the result, by default each. A cell has the colour and the number of the
    lane, then the number of the register in it. ``data`` is a list of :class:`Holders`.

    Raise :class:`~schedlang.errors.PlotError` for an instruction that no warp executes on
    fragments, and for an ``operand`` that it does not hold so.

    >>> import schedlang as sl
    >>> result = sl.plot.fragments(sl.instructions.mma_f16, "c").data[0]
    >>> result.lanes[0].tolist(), result.registers[8, :2].tolist()
    ([0, 0, 1, 1, 2, 2, 3, 3], [2, 3])
    """
    every = [h for title, one in _listed(what) for h in _holders(title, one, operand)]
    title = f"Threads that hold {'an operand' if operand is None else operand}"
    caption = (
        "A cell is an element of the tile: the lane of the warp that holds it, whose colour it "
        "has, and after the dot the number of the element in its registers."
    )
    return Picture(title, caption, every, lambda: _drawn(every, title, caption))


def _listed(what: Any) -> list[tuple[str, Instruction]]:
    items = what.items() if isinstance(what, Mapping) else enumerate(
        what if isinstance(what, (list, tuple)) else [what]
    )  # fmt: skip
    chosen = []
    for title, one in items:
        if not isinstance(one, Instruction) or not _forms(one):
            raise PlotError(
                explain(
                    "sl.plot.fragments",
                    f"{text_of(one)} is not an instruction of a warp, whose threads hold tiles",
                    "Give one such as sl.instructions.mma_f16 or sl.instructions.ldmatrix_x4_f16.",
                )
            )
        chosen.append((title if isinstance(title, str) else one.name, one))
    return chosen


def _forms(one: Instruction) -> list[Any]:
    """Return the forms of an instruction that say who holds what."""
    forms = one.emit.values()
    return [f for f in forms if isinstance(f, WARP_FORMS) and hasattr(f, "fragments")]


def _holders(title: str, one: Instruction, operand: str | None) -> list[Holders]:
    (form,) = _forms(one)
    own = [f for f in form.fragments if operand in (None, f.of)]
    if not own:
        raise PlotError(
            f"sl.plot.fragments: {one} holds {', '.join(f.of for f in form.fragments)} as "
            f"fragments, not {text_of(operand)}; give one of these"
        )
    return [Holders(title, f.of, *_numbers(f)) for f in own]


def _numbers(fragment: Fragment) -> tuple[np.ndarray, np.ndarray]:
    lanes, registers = fragment.holder([*np.indices(fragment.shape)])
    rows = fragment.shape[0] if len(fragment.shape) > 1 else 1
    # a part that a fragment lacks is the number 0, not an array
    whole = np.zeros(fragment.shape, int)
    return (lanes + whole).reshape(rows, -1), (registers + whole).reshape(rows, -1)


def _drawn(every: list[Holders], title: str, caption: str) -> Any:
    lines = [
        [h for h in every if h.title == title] for title in dict.fromkeys(h.title for h in every)
    ]
    heights = [max(len(one.lanes) for one in line) * CELL + HEAD for line in lines]
    figure = sheet(sum(heights), title, caption)
    for line, part in zip(lines, np.ravel(figure.subfigures(len(lines), 1, height_ratios=heights))):
        wide = [one.lanes.shape[1] for one in line]
        places = part.subplots(1, len(line), squeeze=False, width_ratios=wide)[0]
        for one, axes in zip(line, places):
            _panel(axes, one)
    return figure


def _panel(axes: Any, one: Holders) -> None:
    from matplotlib import colormaps

    axes.imshow(
        one.lanes, cmap=colormaps[TIMES], vmin=0, vmax=WARP - 1, interpolation="nearest",
        aspect="equal",
    )  # fmt: skip
    for (row, column), lane in np.ndenumerate(one.lanes):
        axes.text(
            column, row, f"{lane}.{one.registers[row, column]}", ha="center", va="center",
            fontsize=LETTERS, color="white" if lane < WARP / 2 else BLACK,
        )  # fmt: skip
    rows, columns = one.lanes.shape
    frame(axes, rows, columns)
    axes.set_title(f"{one.title}: {one.of}, {rows} x {columns}", fontweight="bold")


__all__ = ["Holders", "fragments"]
