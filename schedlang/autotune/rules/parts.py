"""Few results of a long reduction: each thread reduces parts of it, then these are combined."""

from __future__ import annotations

from math import prod

from schedlang.autotune.rules.access import Access
from schedlang.autotune.rules.lanes import in_lanes, partial_in_lanes
from schedlang.autotune.rules.nest import fused
from schedlang.autotune.rules.sketch import Home, Level, OuterLoops, Sketch
from schedlang.compute.tensor import Tensor
from schedlang.expr.nodes import Axis
from schedlang.expr.simplify import to_lin

VECTORS = (1, 2, 4, 8)
# parts a thread: enough to even out threads that others interrupt
PARTS = (1, 4)
# results are few if each thread has no more vectors of them than this
FEW_VECTORS = 4
# steps in all that are worth starting threads for
LEAST_STEPS = 1 << 13
# a run of steps shorter than so many vectors is not worth partial results
LEAST_RUN = 2


def few_results(sketch: Sketch, tensor: Tensor) -> bool:
    """Whether threads can share the steps of a reduction better than its results."""
    width = sketch.width(tensor)
    results = prod(sketch.extents(sketch.op(tensor).axis))
    few = results <= FEW_VECTORS * width * sketch.threads
    return few and sketch.evaluations(tensor) >= LEAST_STEPS


def parts(sketch: Sketch, tensor: Tensor) -> None:
    """Parts of the steps in threads, and lanes along a run of steps or along the last data axis."""
    s, knobs, name = sketch.s, sketch.knobs, sketch.name(tensor)
    width = sketch.width(tensor)
    run = _run(sketch, tensor)
    many = [v for v in VECTORS if v * width <= prod(sketch.extents(run))]
    short = prod(sketch.extents(run)) < LEAST_RUN * width
    lanes = 0 if short else width * knobs.choice(f"{name}.vectors", many)
    count = sketch.threads * knobs.choice(f"{name}.parts", list(PARTS))
    shared = _shared(sketch, tensor, run)
    part, _ = s[tensor].split(fused(s, tensor, shared), nparts=count)
    partial = first(s.rfactor(tensor, part))
    sketch.done |= {tensor, partial}
    nest = sketch.leads(partial, [Level(s[partial].op.axis[0], (0,), count)])
    if lanes:
        # one loop is left of a run that is shared
        _run_in_lanes(sketch, partial, 1 if shared == run else len(run), lanes, nest)
    else:
        _results_in_lanes(sketch, tensor, partial)
    s[partial].parallel(nest.levels[0].loop)


def first(made: Tensor | list[Tensor]) -> Tensor:
    """The first output of what rfactor made of one or of several."""
    return made[0] if isinstance(made, list) else made


def _run(sketch: Sketch, tensor: Tensor) -> list[Axis]:
    """The last reduction axes that as one go through memory element by element; the most."""
    axes, reads = sketch.op(tensor).reduce_axis, sketch.reads(tensor)
    for start in range(len(axes)):
        last = axes[start:]
        moving = [r for r in reads if not all(r.fixed(a) for a in last)]
        if moving and all(_element_by_element(r, last) for r in moving):
            return list(last)
    return []


def _element_by_element(read: Access, axes: tuple[Axis, ...]) -> bool:
    """Whether ``axes`` go through all of the last dimensions of what is read."""
    if len(axes) == 1:
        return read.contiguous(axes[0])
    last = range(len(read.indices) - len(axes), len(read.indices))
    shape = read.tensor.shape
    own = [read.own_dimension(a) for a in axes] == list(last)
    # of the outermost one a part is a run, too
    return own and all(to_lin(a.extent) == to_lin(shape[d]) for a, d in zip(axes[1:], last[1:]))


def _shared(sketch: Sketch, tensor: Tensor, run: list[Axis]) -> list[Axis]:
    """The neighbouring reduction axes that threads share: the outermost, if these are enough."""
    axes = list(sketch.op(tensor).reduce_axis)
    outside = axes[: len(axes) - len(run)]
    groups = [outside[:n] for n in range(1, len(outside) + 1)] + ([run] if run else [])
    lengths = [prod(sketch.extents(group)) for group in groups]
    enough = sketch.threads * max(PARTS)
    return next((g for g, n in zip(groups, lengths) if n >= enough),
                groups[lengths.index(max(lengths))])  # fmt: skip


def _run_in_lanes(sketch: Sketch, partial: Tensor, left: int, lanes: int, nest: OuterLoops) -> None:
    """Partial results of the last ``left`` reduction axes in lanes, for one result at a time."""
    s = sketch.s
    run = fused(s, partial, s[partial].op.reduce_axis[-left:])
    _, lane = s[partial].split(run, factor=lanes)
    near = first(s.rfactor(partial, lane, factor_axis=len(s[partial].op.axis)))
    s[near].set_scope("local")
    part, *data = s[partial].op.axis
    s[near].compute_at(s[partial], next((a for a in reversed(data) if sketch.long(a)), part))
    sketch.done.add(near)
    sketch.home[near] = Home(nest, dict(enumerate(s[near].op.axis[:-1])))
    partial_in_lanes(sketch, near, None)


def _results_in_lanes(sketch: Sketch, tensor: Tensor, partial: Tensor) -> None:
    """The last data axis of the partial results in lanes, and of what combines them."""
    *_, axis = sketch.op(partial).axis
    length = sketch.extents([axis])[0]
    if len(sketch.op(partial).axis) == 1 or length == 1:
        return
    if not any(r.contiguous(axis) for r in sketch.reads(partial)):
        return
    width = sketch.width(tensor)
    many = [v * width for v in VECTORS if v * width < length]
    if length <= max(VECTORS) * width and isinstance(axis.extent, int):
        many.append(length)
    lanes = sketch.knobs.choice(f"{sketch.name(tensor)}.lanes", many or [width])
    in_lanes(sketch, partial, lanes)
    if isinstance(axis.extent, int):
        in_lanes(sketch, tensor, lanes)


__all__ = ["LEAST_RUN", "VECTORS", "few_results", "first", "parts"]
