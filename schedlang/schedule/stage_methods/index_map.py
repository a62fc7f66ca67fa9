"""Index maps, evaluated at the dimensions of a stage or of an argument."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from schedlang.expr.nodes import Axis, Expr
from schedlang.schedule.refuse import refuse
from schedlang.state.layout import Part, parts_of
from schedlang.state.primitives.arguments import names, text_of
from schedlang.state.primitives.storage import ROWS, TRANSFORM
from schedlang.state.state import Stage


def map_indices(index_map: Any, stage: Stage) -> tuple[Any, ...]:
    """Return the indices that ``index_map`` returns for the dimensions of ``stage``."""
    asked, axes = f"transform_layout(index_map) on stage {stage.name}", stage.op.axis
    if stage.is_scan:
        refuse(asked, f"{stage.name} is a scan, {ROWS}", TRANSFORM)
    if stage.is_extern:
        # it has no axes to map, and the step refuses it
        return ()
    return indices_at(index_map, axes, asked, stage.name)


def indices_at(index_map: Any, axes: Sequence[Axis], asked: str, name: str) -> tuple[Any, ...]:
    """Return the indices that ``index_map`` returns for ``axes``, the dimensions of ``name``.

    Parameters that only a keyword gives take the last dimensions, as in te, but those with a
    default keep it.
    """
    if not callable(index_map):
        hint = "Write e.g. lambda i, j: (j // 16, i, j % 16)."
        refuse(asked, f"the index map must be a function, not {text_of(index_map)}", hint)
    first, named = len(axes), dict[str, Axis]()
    try:
        signature = inspect.signature(index_map)
        last = [
            p.name
            for p in signature.parameters.values()
            if p.kind is p.KEYWORD_ONLY and p.default is p.empty
        ]
        first = max(len(axes) - len(last), 0)
        named = dict(zip(last, axes[first:]))
        signature.bind(*axes[:first], **named)
    except (TypeError, ValueError):
        # some functions of Python itself have no signature
        refuse(
            asked,
            f"the index map must take the {len(axes)} dimensions of {name}: "
            f"{names(axes) or 'none'}",
            f"Write lambda {names(axes)}: (...).",
        )
    indices = index_map(*axes[:first], **named)
    return tuple(indices) if isinstance(indices, (tuple, list)) else (indices,)


def parts_of_array(indices: Sequence[Any], axes: Sequence[Axis], asked: str) -> list[list[Part]]:
    """Return the parts of ``axes`` that each index of an array counts; refuse other indices."""
    dims = []
    for index in indices:
        parts = parts_of(index, axes) if isinstance(index, Expr) else []
        if not parts:
            refuse(
                asked,
                f"{text_of(index)} does not count parts of {names(axes) or 'dimensions'}",
                "Use a dimension d, d//n or d%n, where n is a constant, or several of these that "
                "follow each other, as in i*32 + j where j has 32 values.",
            )
        dims.append(parts)
    return dims
