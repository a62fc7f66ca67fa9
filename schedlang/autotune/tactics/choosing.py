"""Axes that choose between values, such as the rows of a small matrix that is written out."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from schedlang.autotune.tactics.facts import StageFacts
from schedlang.compute.read import reads
from schedlang.compute.tensor import Tensor
from schedlang.expr.nodes import Axis, Binary, Const
from schedlang.expr.visit import postorder
from schedlang.index.linear import Lin, Mod
from schedlang.index.simplify import to_lin

# the longest axis that may choose between values, one for each index
# nobody has measured this value
LONGEST = 8


def choosing_axes(stage: StageFacts) -> tuple[int, ...]:
    """Return the positions of the data axes that the body compares with each index but one.

    For example, ``select(u == 0, a, select(u == 1, b, c))`` does so for an axis ``u`` of 3.
    Unrolled, no choice is left, and the values share what they read. The contiguous axis stays for
    the lanes.
    """
    key = ("choosing axes", stage.op, stage.time_axes)
    return stage.flow.once(key, lambda: _choosing_axes(stage))


def _choosing_axes(stage: StageFacts) -> tuple[int, ...]:
    axes = stage.op.axis
    short = {
        axis: at
        for at, axis in enumerate(axes)
        if stage.time_axes <= at < stage.last
        and isinstance(axis.extent, int)
        and 1 < axis.extent <= LONGEST
    }
    if not short:
        return ()
    seen: dict[Axis, set[int]] = {}
    roots = stage.op.roots
    for node in postorder(roots, {id(read) for read in reads(roots)}):
        if isinstance(node, Binary) and node.op == "==" and isinstance(node.b, Const):
            axis, value = node.a, node.b.value
            # any number may stand there, also one that is not an index
            if isinstance(axis, Axis) and axis in short and value in range(int(axis.extent)):
                seen.setdefault(axis, set()).add(int(value))
    return tuple(
        at for axis, at in short.items() if len(seen.get(axis, ())) >= int(axis.extent) - 1
    )


def chosen_axes(stage: StageFacts) -> dict[int, int]:
    """Return data axes, by position, that index an axis along which a producer chooses.

    Each axis comes with the number of elements to compute together, so that the producer chooses
    once for all of them: every element of the axis, or 4 for an index such as ``y % 4``.
    """
    return stage.flow.once(_key(stage), lambda: _of_stages_until(stage))


def _key(stage: StageFacts) -> tuple[object, ...]:
    """Return what :func:`chosen_axes` depends on."""
    flow = stage.flow
    ops = flow.ops_until(stage.tensor)
    return ("chosen axes", flow.decided.inlined, flow.scan_stages, *ops)


def _of_stages_until(stage: StageFacts) -> dict[int, int]:
    """Return :func:`chosen_axes` of a stage, after the answers for the stages before it.

    A butterfly has many paths between two stages, and no stage is asked for each of them again.
    """
    flow, known = stage.flow, dict[Tensor, dict[int, int]]()
    for tensor in flow.stages:
        if tensor is stage.tensor:
            break
        earlier = flow.stage(tensor)
        known[tensor] = flow.once(_key(earlier), partial(_chosen_axes, earlier, known))
    return _chosen_axes(stage, known)


def _chosen_axes(stage: StageFacts, known: Mapping[Tensor, dict[int, int]]) -> dict[int, int]:
    """Return what :func:`chosen_axes` does; ``known`` has the answers for the stages before."""
    chosen: dict[int, int] = {}
    places: dict[int, dict[Lin, int]] = {}
    for read in stage.reads:
        if read.tensor not in known:
            continue
        producer = stage.flow.stage(read.tensor)
        dimensions = choosing_axes(producer)
        if dimensions:
            # what its own producers choose, such as the other transform of a matrix
            dimensions = (*dimensions, *known[read.tensor])
        for dimension in dimensions:
            length = producer.op.axis[dimension].extent
            if isinstance(length, int):
                if length not in places:
                    places[length] = _places(stage, length)
                at = places[length].get(to_lin(read.indices[dimension]))
                if at is not None:
                    chosen[at] = length
    return chosen


def _places(stage: StageFacts, length: int) -> dict[Lin, int]:
    """Return the positions of the axes by the indices of them all, also modulo ``length``."""
    forms = {at: Lin.of(stage.op.axis[at]) for at in range(stage.time_axes, stage.last)}
    rests = {Lin.of(Mod(form, to_lin(length))): at for at, form in forms.items()}
    return rests | {form: at for at, form in forms.items()}
