"""Folded storage: a ring of the rows that a sliding window uses, modulo a count.

Source: Halide's storage folding (Ragan-Kelley et al., "Halide", PLDI 2013, section 4.3).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from schedlang.lowering.region import Box, Window
from schedlang.lowering.sliding_windows import Slide
from schedlang.state.layout import Part
from schedlang.state.plan import Dim
from schedlang.state.state import Stage, State


def window_of(slides: Sequence[Slide], box: Box, dims: Sequence[Dim]) -> Window | None:
    """Return the window along the outermost of ``slides``, or ``None`` if there is none.

    Rows behind it are read no more. Along an inner loop they may be: the outer loop comes back to
    them. ``box`` is what one iteration reads, ``dims`` what it computes.
    """
    if not slides:
        return None
    dim, first = slides[0].dim, box.lo[slides[0].dim]
    rows = dims[dim].extent.const
    if rows is None or first is None or (dims[dim].lo - first).const != 0:
        return None
    return Window(dim, rows)


def fold_rows(
    state: State, stage: Stage, dims: Sequence[Dim], windows: Collection[Window | None]
) -> Stage:
    """Return ``stage`` with a layout that keeps row ``r`` at ``r % count``, if that needs less.

    ``dims`` are the dimensions of all rows, ``windows`` the windows of the nests that compute them.
    The count is a power of two, so that the modulus is cheap. The last dimension is not folded if
    loops are vectorized, since the elements of a vector must be neighbours.
    """
    known_windows = [w for w in windows if w is not None]
    if (
        stage.layout
        or stage.copies > 1
        or state.extern_reader(stage) is not None
        or not known_windows
        or len(known_windows) < len(windows)
    ):
        return stage
    places = {w.dim for w in known_windows}
    if len(places) != 1:
        return stage
    (dim,) = places
    count = 1 << (max(w.rows for w in known_windows) - 1).bit_length()
    rows = dims[dim].extent.const
    if rows is not None and rows <= count:
        return stage
    if dim == len(dims) - 1 and _has_vectors(state, stage):
        return stage
    parts = tuple(Part(k, 1, count if k == dim else 0) for k in range(len(dims)))
    return stage.with_(layout=parts)


def _has_vectors(state: State, stage: Stage) -> bool:
    """Return whether ``stage`` or a stage that reads it has vectorized loops."""
    depends = state.dependences.depends
    return any(
        "vectorize" in s.kinds.values() and (name == stage.name or depends(name, stage.name))
        for name, s in state.stages.items()
    )
