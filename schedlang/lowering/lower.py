"""Compute and schedule to loop nest: the passes in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Union

from schedlang.compute.graph import placeholders, variables
from schedlang.compute.tensor import ComputeOp, ScanOp, Tensor
from schedlang.errors import ComputeTypeError, LoweringError
from schedlang.expr.interval import Ranges
from schedlang.expr.linear import ZERO, Lin, to_expr
from schedlang.expr.nodes import Var
from schedlang.expr.simplify import to_lin
from schedlang.ir.nodes import Block, Buffer, For, Nest, Note
from schedlang.lowering.build import Job, Loop, Scope, _attached, nest_stage, place_child, store_child, take
from schedlang.lowering.build import Nesting as _Nesting
from schedlang.lowering.hoist import hoist
from schedlang.lowering.names import loop_names
from schedlang.lowering.placement import Problem, place
from schedlang.lowering.plan import Peel, Plan
from schedlang.lowering.region import Dim, Pending, merge, relax_all
from schedlang.lowering.resolve import resolve
from schedlang.lowering.storage import allocate
from schedlang.lowering.trampoline import Task, run
from schedlang.stage.relations import extent_of
from schedlang.stage.state import Root, Stage, State

Arg = Union[Tensor, Var]


def default_args(state: State) -> list[Arg]:
    """Placeholders in order of first appearance, then scalars, then outputs."""
    given: list[Arg] = list(placeholders(state.outputs))
    known = sizes_of(given)
    given += [v for v in variables(state.outputs) if v not in known]
    return [*given, *state.outputs]


def sizes_of(args: Sequence[Arg]) -> set[Var]:
    """The sizes that the shapes of ``args`` determine: those that stand alone as an extent."""
    return {e for a in args if isinstance(a, Tensor) for e in a.shape if isinstance(e, Var)}


def lower_state(
    state: State, args: Sequence[Any] | None = None, strict: bool = True, name: str | None = None
) -> Nest:
    """The loop nest of ``state`` for ``args`` (by default those of :func:`default_args`).

    With ``strict`` false, what does not fit together yet is said in notes instead of raised.
    """
    checked = default_args(state) if args is None else check_args(state, args)
    tensors = [a for a in checked if isinstance(a, Tensor)]
    placement = place(state)
    alias = _aliases(state)
    job = Job(state, placement, frozenset(tensors), alias, list(placement.problems))
    drafts = run(_roots(job))
    if strict and job.problems:
        raise LoweringError(job.problems[0].message)
    buffers = _buffers(checked)
    body = resolve(drafts, dict(buffers), alias)
    body = hoist(body)
    notes = tuple(Note(p.message) for p in _distinct(job.problems))
    body = Block((*notes, *body.stmts))
    listed = tuple(buffers[a] if isinstance(a, Tensor) else a for a in checked)
    outputs = tuple(buffers[t] for t in tensors if t in state.defined)
    found = sizes_of(checked) - {a for a in checked if isinstance(a, Var)}
    sizes = tuple(v for v in variables(state.outputs) if v in found)
    title = name or state.outputs[-1].name
    return Nest(title, listed, outputs, body, sizes, loop_names(body))


def _distinct(problems: Sequence[Problem]) -> list[Problem]:
    return list({p.message: p for p in problems}.values())


def check_args(state: State, args: Sequence[Any]) -> list[Arg]:
    """``args`` as tensors and variables of this computation, complete and without doubles."""
    needed = set(placeholders(state.outputs))
    known = needed | set(state.defined)
    scalars = variables(state.outputs)
    checked: list[Arg] = []
    for position, arg in enumerate(args):
        if isinstance(arg, Var):
            checked.append(arg)
            continue
        if not isinstance(arg, Tensor):
            raise ComputeTypeError(f"argument {position} is {arg!r}: arguments are tensors and sizes")
        if arg not in known:
            raise LoweringError(
                f"argument {position}, {arg.name}, is no tensor of this computation; its tensors are "
                f"{', '.join(t.name for t in [*placeholders(state.outputs), *state.defined])}"
            )
        if arg in checked:
            raise LoweringError(f"{arg.name} stands twice among the arguments")
        checked.append(arg)
    for tensor in [*placeholders(state.outputs), *state.outputs]:
        if tensor not in checked:
            raise LoweringError(
                f"{tensor.name} is missing from the arguments: inputs and outputs must all be there"
            )
    have = sizes_of(checked) | {a for a in checked if isinstance(a, Var)}
    for v in scalars:
        if v not in have:
            raise LoweringError(
                f"no argument determines {v.name}: pass it, or a tensor whose shape is {v.name}"
            )
    return checked


def _aliases(state: State) -> dict[Any, Any]:
    """The tensors that are parts of a scan's output."""
    alias: dict[Tensor, Tensor] = {}
    for stage in state.stages.values():
        if isinstance(stage.op, ScanOp):
            for k, output in enumerate(stage.op.outputs):
                for part in (stage.op.state[k], stage.op.init[k], stage.op.update[k]):
                    alias[part] = output
    return alias


def _buffers(args: Sequence[Arg]) -> dict[Tensor, Buffer]:
    made: dict[Tensor, Buffer] = {}
    names: set[str] = {a.name for a in args if isinstance(a, Var)}
    for arg in args:
        if isinstance(arg, Tensor):
            name, count = arg.name, 0
            while name in names:
                count += 1
                name = f"{arg.name}_{count}"
            names.add(name)
            shape = tuple(extent_of(to_lin(e)) for e in arg.shape)
            made[arg] = Buffer(name, arg.dtype, shape, "global", arg)
    return made


def _whole(stage: Stage) -> tuple[Dim, ...]:
    sizes = [to_lin(e) for e in stage.outputs[0].shape]
    return tuple(Dim(ZERO, size, size=size) for size in sizes)


def _roots(job: Job) -> Task:
    """The nests of the stages at root, last first, each as large as its readers need."""
    drafts: list[Any] = []
    pending: Pending = {}
    placement = job.placement
    parts = _scan_parts(job.state)
    for name in reversed(list(job.state.stages)):
        stage = job.state.stages[name]
        scope = Scope(Ranges())
        if isinstance(placement.store.get(name), Root):
            drafts = store_child(job, stage, drafts, pending, scope)
        if name in parts or not isinstance(placement.attach[name], Root):
            continue
        wanted = any(t in job.given for t in stage.outputs)
        if stage.is_scan:
            if not wanted and take(stage, pending, scope.ranges) is None:
                continue
            made, more = yield _scan(job, stage, scope)
            merge(pending, more, scope.ranges)
            drafts = [*_hidden(job, stage), *made, *drafts]
        elif wanted:
            take(stage, pending, scope.ranges)
            made, more = yield nest_stage(job, stage, _whole(stage), scope)
            merge(pending, more, scope.ranges)
            drafts = [*_hidden(job, stage), *made, *drafts]
        else:
            drafts, pending = yield place_child(job, stage, drafts, pending, scope)
    return drafts


def _hidden(job: Job, stage: Stage) -> list[Any]:
    """Storage for the outputs of ``stage`` that are no arguments."""
    whole = allocate(stage, _whole(stage), "global")
    return [a for a in whole if a.buffer.tensor not in job.given]


def _scan_parts(state: State) -> set[str]:
    return {
        state.defined[t]
        for s in state.stages.values() if isinstance(s.op, ScanOp)
        for t in (*s.op.init, *s.op.update)
    }  # fmt: skip


def _scan(job: Job, stage: Stage, scope: Scope) -> Task:
    """First rows, then a loop over time whose body is each state's update."""
    op = stage.op
    assert isinstance(op, ScanOp)
    time, rows = op.scan_axis, to_lin(op.scan_axis.lo)
    drafts: list[Any] = []
    pending: Pending = {}
    extent = to_lin(time.extent)
    inner = Scope(
        scope.ranges.extended(time, ZERO, extent - 1), (*scope.loops, Loop(time, extent, ""))
    )
    for tensor in reversed(op.update):
        child = job.state.of(tensor)
        assert child is not None and isinstance(child.op, ComputeOp)
        row = Dim(rows + Lin.of(time), Lin.of(1), size=to_lin(child.op.axis[0].extent))
        made, more = yield nest_stage(job, child, (row, *_whole(child)[1:]), inner)
        merge(pending, more, inner.ranges)
        drafts = [*made, *drafts]
    plan = Plan({time: extent}, {time: Lin.of(time)}, {}, {time: time}, (), inner.ranges)
    nesting = _Nesting(job, stage, (), scope, Peel(), plan, (time,))
    drafts, pending = yield _attached(nesting, time, drafts, pending, inner)
    size: Any = extent.const if extent.const is not None else to_expr(extent)
    kind = stage.kinds.get(time, "") or "serial"
    loop = For(time, size, kind, Block(tuple(drafts)), stage.name)
    pending = relax_all(pending, time, extent, inner.ranges)
    first: list[Any] = []
    for tensor in reversed(op.init):
        child = job.state.of(tensor)
        assert child is not None
        made, more = yield nest_stage(job, child, _whole(child), scope)
        merge(pending, more, scope.ranges)
        first = [*made, *first]
    return [*first, *([] if extent.const == 0 else [loop])], pending


__all__ = ["check_args", "default_args", "lower_state"]

