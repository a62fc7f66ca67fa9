"""Hints about innermost loops that step far through memory where another loop would not.

LLVM vectorizes no such loop, and schedlang keeps the order that the schedule gives. So the header
of the file suggests another order.
"""

from __future__ import annotations

from collections.abc import Sequence

from schedlang.diagnostics.sites import extent_of, in_memory, iterations, name_of
from schedlang.diagnostics.strides import LEAST
from schedlang.index.linear import Lin
from schedlang.ir.accesses import Site, stores
from schedlang.ir.nest import Nest
from schedlang.ir.nodes import For, walk
from schedlang.ir.offsets import CLOSE, flat, lane_step
from schedlang.ir.printer import expr_text


def order_hints(nest: Nest) -> list[str]:
    """Return a sentence for each plain innermost loop that another loop should replace."""
    hints = (_hint(site, nest) for site in stores(nest.body) if _is_plain(site))
    return list(dict.fromkeys(text for text in hints if text))


def _is_plain(site: Site) -> bool:
    """Return whether the loops around a store are plain and run often enough to matter."""
    return (
        len(site.loops) > 1
        and site.loops[-1].kind == "serial"
        and all(f.kind in ("serial", "parallel") for f in site.loops)
        and iterations(site) >= LEAST
    )


def _hint(site: Site, nest: Nest) -> str:
    inner, stage = site.loops[-1], site.stmt.stage
    own = [f for f in site.loops if f.stage == stage]
    accesses = [(a.buffer, a.indices, flat(a.buffer, a.indices)) for a in in_memory(site)]
    far = [
        (b, at, step)
        for b, at, offset in accesses
        if (step := lane_step(offset, inner.axis)) is not None and abs(step) > CLOSE
    ]
    offsets = [offset for _, _, offset in accesses]
    better = next((f for f in reversed(own) if _close(f, offsets)), None)
    if (
        not far
        or better is None
        or any(isinstance(inside, For) and inside.stage != stage for inside, _ in walk(better.body))
    ):
        return ""
    buffer, at, step = far[0]
    names = ", ".join(name_of(f, nest) for f in [*(f for f in own if f is not better), better])
    read = f"{buffer.name}[{', '.join(expr_text(i, nest.names) for i in at)}]"
    return (
        f"Hint for stage {stage}: its innermost loop {name_of(inner, nest)} accesses {read} "
        f"{abs(step)} elements apart. In the order {names} neighbours follow each other, and "
        f"LLVM may vectorize {name_of(better, nest)}."
    )


def _close(loop: For, offsets: Sequence[Lin]) -> bool:
    """Return whether each offset moves by one element or none in an iteration of a serial loop."""
    return (
        loop.kind == "serial"
        and extent_of(loop) > 1
        and all(lane_step(offset, loop.axis) in (0, 1) for offset in offsets)
    )
