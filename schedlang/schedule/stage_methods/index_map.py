"""The index map of ``transform_layout``, evaluated at the dimensions of a stage."""

from __future__ import annotations

import inspect
from typing import Any

from schedlang.schedule.refuse import refuse
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
    if not callable(index_map):
        hint = "Write e.g. lambda i, j: (j // 16, i, j % 16)."
        refuse(asked, f"the index map must be a function, not {text_of(index_map)}", hint)
    try:
        inspect.signature(index_map).bind(*axes)
    except TypeError:
        refuse(
            asked,
            f"the index map must take the {len(axes)} dimensions of {stage.name}: "
            f"{names(axes) or 'none'}",
            f"Write lambda {names(axes)}: (...).",
        )
    indices = index_map(*axes)
    return tuple(indices) if isinstance(indices, (tuple, list)) else (indices,)
