"""Candidates for the next step of a schedule, with sensible arguments.

Each candidate is a function that takes a step, or a few that belong together. It may be refused:
the primitives themselves know what is legal.
"""

from __future__ import annotations

from collections.abc import Iterator

from schedlang.compute.tensor import ComputeOp
from schedlang.expr.nodes import Axis
from schedlang.hints.dot_products import dot_product_steps
from schedlang.hints.factors import dividing, near, rows_of
from schedlang.hints.gpu_dot_products import gpu_dot_product_steps
from schedlang.hints.new_stages import new_stages
from schedlang.hints.steps import Steps, Take, step
from schedlang.hints.storage_candidates import storage
from schedlang.schedule.schedule import Schedule
from schedlang.schedule.stage import StageView
from schedlang.state.placement import effective_readers, legal_loops, place
from schedlang.state.state import At, Root
from schedlang.target import Target

# the largest loop to unroll, and the edges of tiles to try
MOST_UNROLLED, TILES = 16, (16, 32, 64)
# kinds of loops that are written out
WRITTEN = ("vectorize", "unroll")
# iterations of a reduction that stay together in a tile
CHUNKS = (4, 16)
# iterations of a data loop that stay together in a block
BLOCKS = (8, 32)
# rows of a strip along which a window slides: each strip computes its first rows again
STRIP = 64


def candidates(s: Schedule, target: Target) -> Iterator[Steps]:
    """Yield candidates for the next step of ``s``, stage by stage; on a GPU, only instructions."""
    for view in s.stages:
        if target.facts.binds_threads:
            yield from gpu_dot_product_steps(s, view, target)
        elif isinstance(view.op, ComputeOp):
            yield from _placements(s, view)
            yield from _loops(s, view, target)
            yield from new_stages(s, view, target)
            yield from storage(s, view, target)
            yield from dot_product_steps(s, view, target)


def _loops(s: Schedule, view: StageView, target: Target) -> Iterator[Steps]:
    name, lanes = view.name, target.vector_width(view.outputs[0].dtype)
    kinds = s.state.stages[name].kinds
    plain = [a for a in view.leaf_axes if a not in kinds]
    data = [a for a in plain if not a.is_reduce]
    in_use = set(kinds.values())
    if "vectorize" not in in_use:
        for axis in data:
            for width in dividing(axis, (lanes, 2 * lanes)):
                yield Steps("vectorize", name, _vectors(name, axis, width), (name, axis))
    if "parallel" not in in_use and data:
        yield step("parallel", name, data[0])
        if len(data) > 1:
            yield Steps("parallel", name, _fused_parallel(name, data[0], data[1]))
    # around other loops, copies would only make the kernel long
    inner = next((a for a in reversed(view.leaf_axes) if kinds.get(a) not in WRITTEN), None)
    length = inner.extent if inner in plain and inner is not None else 0
    if inner is not None and type(length) is int and 1 < length <= MOST_UNROLLED:
        yield step("unroll", name, inner)
    lanes_at = next((a for a in view.leaf_axes if kinds.get(a) == "vectorize"), None)
    if any(a.is_reduce for a in plain):
        for axis, rows in [(a, rows) for a in data for rows in rows_of(a)]:
            if lanes_at is not None:
                yield Steps("register tile", name, _register_tile(name, axis, lanes_at, rows))
            elif axis is not data[-1] and not in_use:
                for width in dividing(data[-1], (lanes, 2 * lanes)):
                    take = _vector_tile(name, axis, data[-1], rows, width)
                    yield Steps("register tile", name, take, (name, axis, "tile"))
    for axis in plain[:-1]:
        yield Steps("reorder", name, _innermost(name, axis))
    if len(data) > 1:
        for edge in TILES:
            edges = (near(data[-2], edge), near(data[-1], edge))
            yield Steps("tile", name, _tile(name, data[-2], data[-1], edges))
    for axis in plain:
        for chunk in CHUNKS if axis.is_reduce else BLOCKS:
            if type(axis.extent) is not int or axis.extent > chunk:
                yield step("split", name, axis, factor=near(axis, chunk))
    loops = view.leaf_axes
    for outer, inner in zip(loops, loops[1:]):
        if outer in plain and inner in plain and outer.is_reduce == inner.is_reduce:
            yield step("fuse", name, outer, inner)


def _vectors(name: str, axis: Axis, width: int) -> Take:
    def take(s: Schedule) -> None:
        inner = axis
        if type(axis.extent) is not int or axis.extent > width:
            _, inner = s[name].split(axis, factor=width)
        if s[name].leaf_axes[-1] is not inner:
            s[name].reorder(*(a for a in s[name].leaf_axes if a is not inner), inner)
        s[name].vectorize(inner)

    return take


def _fused_parallel(name: str, outer: Axis, inner: Axis) -> Take:
    return lambda s: s[name].parallel(s[name].fuse(outer, inner))


def _innermost(name: str, axis: Axis) -> Take:
    """Return the step that makes ``axis`` the innermost loop, around those that are written out."""

    def take(s: Schedule) -> None:
        written = _written_out(s, name)
        others = [a for a in s[name].leaf_axes if a is not axis and a not in written]
        s[name].reorder(*others, axis, *written)

    return take


def _written_out(s: Schedule, name: str) -> list[Axis]:
    kinds = s.state.stages[name].kinds
    return [a for a in s[name].leaf_axes if kinds.get(a) in WRITTEN]


def _tile(name: str, y: Axis, x: Axis, edges: tuple[int, int]) -> Take:
    """Return the steps that tile two axes, with whole reductions inside each tile's rows."""

    def take(s: Schedule) -> None:
        yo, xo, yi, xi = s[name].tile(y, x, *edges)
        written = _written_out(s, name)
        steps = [a for a in s[name].leaf_axes if a.is_reduce and a not in written]
        tiled = (yo, xo, yi, xi, *steps, *written)
        outside = [a for a in s[name].leaf_axes if a not in tiled]
        if steps or written:
            s[name].reorder(*outside, yo, xo, *steps, yi, xi, *written)

    return take


def _register_tile(name: str, axis: Axis, lanes: Axis, rows: int) -> Take:
    """Return the steps that keep the sums of several rows in registers."""

    def take(s: Schedule) -> None:
        inner = axis
        if type(axis.extent) is not int or axis.extent > rows:
            _, inner = s[name].split(axis, factor=rows)
        # what is written out stays inside; lanes are the innermost
        written = [a for a in _written_out(s, name) if a is not lanes]
        others = [a for a in s[name].leaf_axes if a not in (inner, lanes, *written)]
        outside = [a for a in others if not a.is_reduce]
        # a data loop inside a reduction would keep the sums in memory
        s[name].reorder(*outside, *(a for a in others if a.is_reduce), inner, *written, lanes)
        s[name].unroll(inner)

    return take


def _vector_tile(name: str, axis: Axis, across: Axis, rows: int, width: int) -> Take:
    """Return the steps that keep the sums of several rows of vectors in registers."""

    def take(s: Schedule) -> None:
        _vectors(name, across, width)(s)
        _register_tile(name, axis, s[name].leaf_axes[-1], rows)(s)

    return take


def _placements(s: Schedule, view: StageView) -> Iterator[Steps]:
    """Yield the places at which a stage that is not an output may be computed."""
    name, state = view.name, s.state
    if state.is_output(state.stages[name]):
        return
    yield step("compute_inline", name)
    stage = state.stages[name]
    if not isinstance(stage.attach, Root):
        yield step("compute_root", name)
    attach = place(state.updated(stage.with_(attach=Root()))).attach
    for reader, axis in legal_loops(state, attach, effective_readers(state)[name], stage):
        yield Steps("compute_at", name, _attach_at(name, reader, axis))
        yield Steps("store_at", name, _in_strips(name, reader, axis))


def _attach_at(name: str, reader: str, axis: Axis) -> Take:
    return lambda s: s[name].compute_at(s[reader], axis)


def _in_strips(name: str, reader: str, axis: Axis) -> Take:
    """Return the steps that slide a window along strips of a loop, which may run in parallel."""

    def take(s: Schedule) -> None:
        if isinstance(s.state.stages[name].attach, At):
            # the loop that it is attached to may be the one to split
            s[name].compute_root()
        strip, inner = s[reader].split(axis, factor=near(axis, STRIP))
        s[name].compute_at(s[reader], inner)
        s[name].store_at(s[reader], strip)

    return take
