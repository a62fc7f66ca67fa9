"""Primitives that add stages: cache_read, cache_write, rfactor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from schedlang.compute.extern_op import ExternOp
from schedlang.compute.joint import shown_outputs
from schedlang.compute.read import Read
from schedlang.compute.tensor import ComputeOp, Tensor
from schedlang.errors import subscript
from schedlang.expr.lazy import both
from schedlang.expr.nodes import Axis, Binary, Expr
from schedlang.expr.visit import postorder, rewrite
from schedlang.index.linear import ZERO, number_or_expr, to_expr
from schedlang.index.ranges import Ranges
from schedlang.index.simplify import to_lin
from schedlang.language.construct import select
from schedlang.state.plan import Dim, Peel, Threads, make_plan
from schedlang.state.primitives.arguments import leaf_position, names, text_of
from schedlang.state.primitives.conflicts import with_prefetches
from schedlang.state.primitives.primitive import Primitive
from schedlang.state.primitives.refusal import refuse
from schedlang.state.primitives.storage import checked_scope
from schedlang.state.relations import Split, parts, sources
from schedlang.state.scattered import overwrites
from schedlang.state.state import Inline, Result, Stage, State


def new_operation(
    name: str, axes: tuple[Axis, ...], body: tuple[Expr, ...], **more: object
) -> ComputeOp:
    """Return a new operation that computes ``body`` over ``axes``, with its output tensors."""
    op = ComputeOp(name, axes, body, **more)  # type: ignore[arg-type]
    shape = tuple(a.extent for a in axes)
    names = [name] if len(body) == 1 else [f"{name}.v{k}" for k in range(len(body))]
    outputs = tuple(Tensor(n, shape, e.dtype, op, k) for k, (n, e) in enumerate(zip(names, body)))
    op.outputs = outputs
    return op


def substituted(
    op: ComputeOp, change: Mapping[Axis, Expr], tensors: Mapping[Tensor, Tensor]
) -> ComputeOp:
    """Return ``op`` with axes and tensors in its expressions replaced."""

    def swap(node: Expr) -> Expr | None:
        if isinstance(node, Axis):
            return change.get(node)
        if isinstance(node, Read) and node.tensor in tensors:
            return Read(tensors[node.tensor], node.indices, node.dtype)
        return None

    memo: dict[int, Expr] = {}
    return replace(
        op,
        body=tuple(rewrite(e, swap, memo) for e in op.body),
        destination=None
        if op.destination is None
        else tuple(rewrite(e, swap, memo) for e in op.destination),
        where=None if op.where is None else rewrite(op.where, swap, memo),
        init=None if op.init is None else tuple(rewrite(e, swap, memo) for e in op.init),
    )


def cache_read(state: State, tensor: Tensor, scope: str, readers: Sequence[Stage]) -> Result:
    scope = checked_scope(scope)
    reading = [s.name for s in state.stages.values() if _reads(s, tensor)]
    hint = f"Its readers: {', '.join(reading) or 'none'}."
    if not readers:
        refuse("no reader is given", hint)
    for reader in readers:
        if not _reads(reader, tensor):
            refuse(f"{reader.name} does not read {tensor.name}", hint)
    producer = state.of(tensor)
    axis_labels = [] if producer is None or producer.is_scan else [a.name for a in producer.op.axis]
    axis_labels = axis_labels or [f"ax{k}" for k in range(tensor.ndim)]
    axes = tuple(Axis(n, e) for n, e in zip(axis_labels, tensor.shape))
    name = state.unique_name(f"{tensor.name}.{scope}")
    op = new_operation(name, axes, (Read(tensor, axes, tensor.dtype),))
    copy = Stage(name, op, op.outputs, axes, scope=scope)
    first = next(n for n, s in state.stages.items() if s in list(readers))
    before, state = state, state.inserted(copy, first)
    changed = []
    for reader in readers:
        swap = {tensor: op.outputs[0]}
        if isinstance(reader.op, ExternOp):
            changed.append(reader.with_(op=reader.op.reading(swap)))
            continue
        assert isinstance(reader.op, ComputeOp)
        changed.append(reader.with_(op=substituted(reader.op, {}, swap)))
    return with_prefetches(state.updated(*changed), before), op.outputs[0]


def _reads(stage: Stage, tensor: Tensor) -> bool:
    return not stage.is_scan and any(t is tensor for t in stage.op.input_tensors)


def cache_write(state: State, stage: Stage, scope: str) -> Result:
    scope = checked_scope(scope)
    op = stage.op
    if isinstance(op, ExternOp):
        refuse(
            f"{stage.name} is computed by {op.function.name}, which writes its array itself",
            f"Let a stage copy it: sl.compute(shape, lambda *i: {stage.name}[i]).",
        )
    if not isinstance(op, ComputeOp):
        refuse(
            f"{stage.name} is a scan, which reads its earlier rows back from its result",
            "Cache the stages that its update reads with s.cache_read.",
        )
    if _lost_to_cache(stage, op):
        refuse(
            f"{stage.name} is already scheduled, beyond its data axes",
            "Call cache_write before the other steps on the stage, since the cache stage takes "
            "over its computation. s.at(0) returns the schedule before its first step.",
        )
    if isinstance(stage.attach, Inline):
        refuse(
            f"{stage.name} is inlined and stores nothing",
            f"Call {subscript(stage.name)}.compute_root() first.",
        )
    refuse_attached(state, op.reduce_axis, "cache_write")
    name = state.unique_name(f"{stage.name}.{scope}")
    fresh = tuple(Axis(a.name, a.extent) for a in op.axis)
    inner = substituted(op, dict(zip(op.axis, fresh)), {})
    cached = new_operation(
        name,
        fresh,
        inner.body,
        reduce_axis=op.reduce_axis,
        reducer=op.reducer,
        where=inner.where,
        init=inner.init,
        destination=inner.destination,
        limits=inner.limits,
    )
    notes = stage.where_notes
    copy = Stage(name, cached, cached.outputs, cached.loops, scope=scope, where_notes=notes)
    body = tuple(Read(t, op.axis, t.dtype) for t in cached.outputs)
    written = replace(
        op,
        body=body,
        reduce_axis=(),
        reducer=None,
        where=None,
        init=None,
        destination=None,
        limits=(),
    )
    state = state.inserted(copy, stage.name)
    leaf = tuple(a for a in stage.leaf if not a.is_reduce)
    state = state.updated(stage.with_(op=written, leaf=leaf, where_notes=()))
    return state, visible(stage, cached)


def _lost_to_cache(stage: Stage, op: ComputeOp) -> bool:
    """Return whether a cache of the stage would lose some of its steps.

    It keeps its data axes, with their splits and annotations.
    """
    if stage.prefetches or stage.instructions or op.destination is not None:
        return stage.relations != () or stage.leaf != stage.roots or has_annotations(stage)
    touched = [a for r in stage.relations for a in (*parts(r), *sources(r))]
    touched += [*stage.kinds, *(a for a, _, _ in stage.pragmas)]
    if stage.predicate is not None:
        touched += [node for node in postorder([stage.predicate]) if isinstance(node, Axis)]
    reduced = tuple(a for a in stage.leaf if a.is_reduce)
    return any(a.is_reduce for a in touched) or reduced != tuple(op.reduce_axis)


def refuse_attached(state: State, axes: Sequence[Axis], primitive: str) -> None:
    """Refuse to remove loops at which other stages are computed or stored."""
    for other in state.stages.values():
        for loop in (other.attach, other.store):
            loop_axis = getattr(loop, "axis", None)
            lost = next((a for a in axes if a is loop_axis), None)
            if lost is not None:
                refuse(
                    f"stage {other.name} is computed at {lost.name}, which moves to a new stage",
                    f"Call {primitive} first, then {subscript(other.name)}.compute_at(...).",
                )


def has_annotations(stage: Stage) -> bool:
    """Return whether ``stage`` has annotations, prefetches or a store predicate."""
    return bool(stage.kinds or stage.pragmas or stage.prefetches or stage.predicate is not None)


def visible(stage: Stage, op: ComputeOp) -> object:
    """Return the tensor of a single visible output, else a list of all.

    The value output of an argmax is not visible.
    """
    if op.reducer is not None and op.reducer.parts:
        return list(shown_outputs(op))
    hidden = stage.op.name == stage.outputs[0].name
    return op.outputs[0] if len(op.outputs) == 1 or hidden else list(op.outputs)


def rfactor(state: State, stage: Stage, axis: Axis, factor_axis: int = 0) -> Result:
    op = stage.op
    if not isinstance(op, ComputeOp) or op.reducer is None:
        refuse(
            f"{stage.name} is not a reduction",
            "rfactor factors the reduction of a stage; it applies to no other stage.",
        )
    leaf_position(state, stage, axis)
    if overwrites(stage):
        refuse(
            f"{stage.name} keeps the last update of each element, and copies of its parts do not "
            "tell which update was the last",
            "Keep its loop serial, or combine by a reducer, such as argmax of the position.",
        )
    if not axis.is_reduce:
        reduced = names(stage.reduce_leaves)
        refuse(f"{axis.name} is a data axis", f"Factor one of {reduced}.", state, axis)
    if isinstance(factor_axis, (bool, Expr)) or not hasattr(factor_axis, "__index__"):
        refuse(f"factor_axis is {text_of(factor_axis)}, but must be an integer")
    place, last = int(factor_axis), len(op.axis)
    if not -last - 1 <= place <= last:
        refuse(
            f"factor_axis={text_of(place)} is out of range for {stage.name}",
            f"Use a position from 0 to {last}, or -1 for the last one.",
        )
    place = place if place >= 0 else place + last + 1
    beyond = any(not a.is_reduce for r in stage.relations for a in (*parts(r), *sources(r)))
    data = [a for a in stage.leaf if not a.is_reduce]
    moved = data != [a for a in op.loops if not a.is_reduce]
    moved = moved or (op.destination is None and stage.leaf[:last] != op.axis)
    if has_annotations(stage) or beyond or moved:
        if stage.layout or any(t in state.arrays for t in stage.outputs):
            refuse(
                f"{stage.name} has another layout, and its loops are already scheduled",
                "rfactor rebuilds the loops of the stage: call it before transform_layout and the "
                "other steps on it.",
            )
        refuse(
            f"{stage.name} is already scheduled, beyond splits of its reduction axes",
            "rfactor rebuilds the loops of the stage: call it before the other steps on it.",
        )
    refuse_attached(state, stage.reduce_leaves, "rfactor")
    return _factor(state, stage, op, axis, place)


def _factor(state: State, stage: Stage, op: ComputeOp, axis: Axis, place: int) -> Result:
    """Add a stage of partial results over ``axis``; ``stage`` then combines them."""
    whole = [Dim(ZERO, to_lin(a.extent), size=to_lin(a.extent)) for a in op.axis]
    idle = any(isinstance(r, Split) and r.idle for r in stage.relations)
    # the parts are what threads compute later, so an idle split keeps all of them
    planned = stage.with_(kinds={axis: "threadIdx.x"}) if idle else stage
    plan = make_plan(planned, whole, Ranges(), Peel(), Threads())
    extents = {a: number_or_expr(plan.extents[a]) for a in stage.reduce_leaves}
    data = tuple(Axis(a.name, a.extent) for a in op.axis)
    part = Axis(axis.name, extents[axis])
    inner_axes = {a: Axis(a.name, e, "reduce") for a, e in extents.items() if a is not axis}
    renamed = (*inner_axes.items(), (axis, part))
    leaves: dict[Axis, Axis] = {plan.variables.get(a, a): b for a, b in renamed}
    change: dict[Axis, Expr] = dict(zip(op.axis, data))
    swap = {a: to_lin(b) for a, b in leaves.items()}
    for root in op.reduce_axis:
        change[root] = to_expr(to_lin(root.lo) + plan.values[root].substitute(swap))  # type: ignore[arg-type]
    inner = substituted(op, change, {})
    where = inner.where
    for guard in plan.guards:
        cond = guard.cond
        assert isinstance(cond, Binary)
        test = rewrite(cond, lambda node: leaves.get(node) if isinstance(node, Axis) else None)
        # the reduction's own condition may read elements that are in bounds only under the test
        where = test if where is None else both(test, where)
    axes = (*data[:place], part, *data[place:])
    name = state.unique_name(f"{stage.name}.rf")
    partial = new_operation(
        name,
        axes,
        inner.body,
        reduce_axis=tuple(inner_axes.values()),
        reducer=op.combiner,
        where=where,
        destination=(
            None
            if inner.destination is None
            else (*inner.destination[:place], part, *inner.destination[place:])
        ),
        limits=((None,) * len(plan.guards) + op.limits if op.limits else ()),
    )
    if not inner_axes and op.destination is None:
        # no reduction axis is left: each point is a single value, or the identity
        body = inner.body
        if where is not None:
            body = tuple(select(where, b, i, lazy=True) for b, i in zip(body, op.combiner.identity))
        partial = new_operation(name, axes, body)
    # each test was put in front of the earlier ones; without a reduction there are none
    tests = (*(guard.note for guard in reversed(plan.guards)), *stage.where_notes)
    notes = tests if partial.reducer is not None else ()
    leaf = partial.loops
    factored = Stage(name, partial, partial.outputs, leaf, where_notes=notes)
    last = Axis(axis.name, extents[axis], "reduce")
    index = (*op.axis[:place], last, *op.axis[place:])
    body = tuple(Read(t, index, t.dtype) for t in partial.outputs)
    final = replace(op, body=body, reduce_axis=(last,), where=None, destination=None, limits=())
    state = state.inserted(factored, stage.name)
    stage = stage.with_(op=final, leaf=(*op.axis, last), relations=(), where_notes=())
    state = state.updated(stage)
    return state, visible(stage, partial)


PRIMITIVES = {
    "cache_read": Primitive(cache_read, keeps_loops=True, makes_tensors=True, on_schedule=True),
    "cache_write": Primitive(cache_write, keeps_loops=True, makes_tensors=True),
    "rfactor": Primitive(rfactor, ("factor_axis",), keeps_loops=True, makes_tensors=True),
}
