"""Lowering: the passes from a schedule to a loop nest, in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from functools import partial
from typing import Any

from schedlang.compute.graph import placeholders, variables
from schedlang.compute.tensor import PlaceholderOp, ScanOp, Tensor
from schedlang.errors import ComputeTypeError, LoweringError
from schedlang.expr.nodes import Var
from schedlang.index.linear import number_or_expr
from schedlang.index.ranges import Ranges
from schedlang.index.simplify import to_lin
from schedlang.ir.arguments import Arg, sizes_of
from schedlang.ir.findings import Findings
from schedlang.ir.nest import Nest
from schedlang.ir.nodes import Alloc, Block, Buffer, For, If, Note
from schedlang.ir.verify import Report, report
from schedlang.lowering.allocation import scope_of
from schedlang.lowering.build import nest_stage, place_child, store_child, take
from schedlang.lowering.hoist import hoist
from schedlang.lowering.instructions import instruction_problems
from schedlang.lowering.intermediate_arguments import not_whole, scan_rows
from schedlang.lowering.loop_names import loop_names, stage_remarks
from schedlang.lowering.loop_partitioning import split_edges
from schedlang.lowering.nesting import Job, Scope
from schedlang.lowering.region import Pending, merge
from schedlang.lowering.resolve import resolve
from schedlang.lowering.scan import with_rolling_rows
from schedlang.lowering.thread_checks import no_thread
from schedlang.lowering.trampoline import Task, run
from schedlang.lowering.trim import trim
from schedlang.state.layout import ArrayLayout
from schedlang.state.placement import Problem, place
from schedlang.state.plan import whole
from schedlang.state.state import Inline, Root, Stage, State

# mark the drafts that wait for buffers, and the reports on nests, among the nests of a state
DRAFTED, REPORTED = "drafted", "reported"


def default_args(state: State) -> list[Arg]:
    """Return placeholders in order of first appearance, then scalars, then outputs."""
    inputs: list[Arg] = list(placeholders(state.outputs))
    implied = sizes_of(inputs)
    inputs += [v for v in variables(state.outputs) if v not in implied]
    return [*inputs, *state.outputs]


def lower_state(
    state: State,
    args: Sequence[Any] | None = None,
    strict: bool = True,
    name: str | None = None,
    folds: bool = True,
    findings: Findings | None = None,
) -> Nest:
    """Return the loop nest of ``state`` for ``args``, by default for :func:`default_args`.

    If ``strict`` is false, inconsistencies of the schedule become notes instead of errors. Without
    ``folds``, the storage of sliding windows keeps all rows, in the same order of statements. A
    state keeps its nests, so that another call with the same arguments does no work. ``findings``
    are about schedules of the same computation, whose nests get statements in common.
    """
    checked = default_args(state) if args is None else check_args(state, args)
    tensors = {a for a in checked if isinstance(a, Tensor)}
    for stage in state.stages.values():
        argument = next((t for t in stage.outputs if t in tensors), None)
        if strict and stage.layout and argument is not None:
            raise LoweringError(
                f"{argument.name} is an argument, whose layout the caller chooses, but stage "
                f"{stage.name} has a transform_layout: leave {argument.name} out of the arguments, "
                "or "
                "leave out transform_layout"
            )
    key = (*checked, folds)
    known = state.nests.get(key)
    if known is None or (strict and any(isinstance(s, Note) for s in known.body.stmts)):
        known = state.nests[key] = _lowered(
            state, checked, strict, folds, Findings() if findings is None else findings
        )
    return known if name is None else replace(known, name=name)


def verify_state(state: State) -> Report:
    """Return the verifier's report on the nest of ``state``, which keeps it.

    Raises what :func:`~schedlang.ir.verify.report` and :func:`lower_state` raise.
    """
    args = default_args(state)
    key = (REPORTED, *args)
    checked = state.nests[key] = report(lower_state(state, args))
    return checked


def known_report(state: State, args: Sequence[Any] | None) -> Report | None:
    """Return the report on the nest for ``args``, if :func:`verify_state` made it."""
    known: Report | None = state.nests.get((REPORTED, *(args or default_args(state))))
    return known


def draft_problems(state: State, findings: Findings) -> list[str]:
    """Return the problems of ``state`` that its statements show before they have buffers.

    ``findings`` are about other schedules of the same computation.
    """
    job, _, _ = _drafted(state, default_args(state), True, findings)
    return [problem.message for problem in job.problems]


def drafted_buffers(state: State, findings: Findings) -> list[Buffer]:
    """Return the buffers of the nest of ``state``: arguments first, then allocations.

    Raise :class:`~schedlang.errors.LoweringError` for a problem that shows before statements have
    buffers. The next call of :func:`lower_state` goes on from here. ``findings`` are as there.
    """
    args = default_args(state)
    key, known = (DRAFTED, *args), state.nests.get((*args, True))
    if known is not None:
        return list(known.buffers)
    job, drafts, buffers = state.nests[key] = _drafted(state, args, True, findings)
    if job.problems:
        raise LoweringError(job.problems[0].message)
    drafted = list(buffers.values())
    stack = drafts[::-1]
    while stack:
        draft = stack.pop()
        if isinstance(draft, Alloc):
            drafted.append(draft.buffer)
        elif isinstance(draft, (For, If)):
            stack += draft.body.stmts[::-1]
    return drafted


def _lowered(
    state: State, args: Sequence[Arg], strict: bool, folds: bool, findings: Findings
) -> Nest:
    waiting = state.nests.pop((DRAFTED, *args), None) if folds else None
    job, drafts, buffers = waiting or _drafted(state, args, folds, findings)
    if strict and job.problems:
        raise LoweringError(job.problems[0].message)
    body = resolve(drafts, dict(buffers), state.arrays, job.alias, findings)
    body = hoist(body, findings)
    job.problems.extend(not_whole(state, job.placement, buffers, body))
    job.problems.extend(no_thread(state, body))
    if strict and job.problems:
        raise LoweringError(job.problems[0].message)
    body = trim(split_edges(body, findings), findings)
    job.problems.extend(instruction_problems(state, job.placement, body))
    if strict and job.problems:
        raise LoweringError(job.problems[0].message)
    notes = tuple(Note(p.message) for p in _distinct(job.problems))
    body = Block((*notes, *body.stmts))
    listed = tuple(buffers[a] if isinstance(a, Tensor) else a for a in args)
    outputs = tuple(buffers[t] for t in buffers if t in state.defined)
    scalars, implied = variables(state.outputs), sizes_of(args)
    sizes = tuple(v for v in scalars if v in implied)
    title = state.outputs[-1].op.name
    names_taken = {b.name for b in buffers.values()} | {v.name for v in scalars}
    remarks = stage_remarks(state, job.placement.inline)
    return Nest(title, listed, outputs, body, sizes, loop_names(body, names_taken), remarks=remarks)


def _drafted(
    state: State, args: Sequence[Arg], folds: bool, findings: Findings
) -> tuple[Job, list[Any], dict[Tensor, Buffer]]:
    """Return statements of ``state`` that have no buffers yet, and the buffers of ``args``."""
    tensors = [a for a in args if isinstance(a, Tensor)]
    placement = place(state, tensors)
    variable = {v.name for v in variables(state.outputs)}
    laid_out = tuple(state.arrays.items())
    buffers = findings.once(
        ("buffers", *args, frozenset(variable), laid_out),
        partial(_buffers, args, variable, state.arrays),
    )
    names = _stage_names(state, {b.name for b in buffers.values()} | variable)
    ahead = frozenset(hint.tensor for s in state.stages.values() for hint in s.prefetches)
    clipped: set[Tensor] = set()
    while True:
        problems = [*placement.problems, *scan_rows(state, placement, tensors)]
        job = Job(
            state,
            placement,
            frozenset(tensors),
            _aliases(state),
            names,
            ahead,
            problems,
            clipped=set(clipped),
            folds=folds,
            findings=findings,
        )
        drafts = run(_roots(job))
        if job.clipped <= clipped:
            return job, drafts, buffers
        # some tensors cannot be stored past their ends after all: lower again, with these clipped
        clipped = job.clipped


def _stage_names(state: State, taken: set[str]) -> dict[str, str]:
    """Return the printed names for the storage of stages; they are distinct and not ``taken``."""
    names: dict[str, str] = {}
    used = set(taken)
    for name in state.stages:
        title, count = name, 0
        while title in used:
            count += 1
            title = f"{name}_{count}"
        used.add(title)
        names[name] = title
    return names


def _distinct(problems: Sequence[Problem]) -> list[Problem]:
    return list({p.message: p for p in problems}.values())


def check_args(state: State, args: Sequence[Any]) -> list[Arg]:
    """Return ``args``, checked: tensors and sizes of this computation, complete and distinct."""
    needed = set(placeholders(state.outputs))
    tensors_known = needed | set(state.defined)
    scans = (s.op for s in state.stages.values() if isinstance(s.op, ScanOp))
    rows = {t for op in scans for t in op.state}
    scalars = variables(state.outputs)
    checked: list[Arg] = []
    tensors: set[Tensor] = set()
    for position, arg in enumerate(args):
        if isinstance(arg, Var):
            checked.append(arg)
            continue
        if not isinstance(arg, Tensor):
            raise ComputeTypeError(
                f"argument {position} is {arg!r}, but arguments must be tensors or sizes (sl.var)"
            )
        # an input that no stage reads is an argument like others, as in te
        is_input = isinstance(arg.op, PlaceholderOp) and arg not in rows
        if arg not in tensors_known and not is_input:
            raise LoweringError(
                f"argument {position}, {arg.name}, is not a tensor of this computation, whose "
                "tensors are "
                f"{', '.join(t.name for t in [*placeholders(state.outputs), *state.defined])}"
            )
        if arg in tensors:
            raise LoweringError(f"{arg.name} is given twice as an argument; give each tensor once")
        tensors.add(arg)
        checked.append(arg)
    for tensor in [*placeholders(state.outputs), *state.outputs]:
        if tensor not in tensors:
            listed = ", ".join(t.name for t in [*placeholders(state.outputs), *state.outputs])
            raise LoweringError(
                f"{tensor.name} is missing from the arguments; give all inputs and outputs: "
                f"[{listed}]"
            )
    have = sizes_of(checked) | {a for a in checked if isinstance(a, Var)}
    for v in scalars:
        if v not in have:
            raise LoweringError(
                f"no argument determines the size {v.name}; give {v.name} itself, as in "
                f"[{', '.join([v.name, *(a.name for a in checked)])}], or a tensor of which "
                f"{v.name} is a dimension"
            )
    return checked


def _aliases(state: State) -> dict[Any, Any]:
    """Return a map from the parts of a scan (init, state, update) to its output."""
    alias: dict[Tensor, Tensor] = {}
    for stage in state.stages.values():
        if isinstance(stage.op, ScanOp):
            for k, output in enumerate(stage.op.outputs):
                for part in (stage.op.state[k], stage.op.init[k], stage.op.update[k]):
                    alias[part] = output
    return alias


def _buffers(
    args: Sequence[Arg], taken: Set[str], arrays: Mapping[Tensor, ArrayLayout]
) -> dict[Tensor, Buffer]:
    """Return the buffers of the tensors of ``args``; their names are distinct and not ``taken``."""
    buffers: dict[Tensor, Buffer] = {}
    names = {a.name for a in args if isinstance(a, Var)} | taken
    for arg in args:
        if isinstance(arg, Tensor):
            name, count = arg.name, 0
            while name in names:
                count += 1
                name = f"{arg.name}_{count}"
            names.add(name)
            extents = arrays[arg].shape if arg in arrays else arg.shape
            shape = tuple(number_or_expr(to_lin(e)) for e in extents)
            buffers[arg] = Buffer(name, arg.dtype, shape, "global", arg)
    return buffers


def _roots(job: Job) -> Task:
    """Build the nests of the stages at root, last stage first.

    Each is as large as its readers need.
    """
    drafts: list[Any] = []
    pending: Pending = {}
    placement = job.placement
    parts = _scan_parts(job.state)
    for name in reversed(list(job.state.stages)):
        stage = job.state.stages[name]
        scope = Scope(Ranges(), at_root=True)
        if isinstance(placement.store.get(name), Root):
            drafts = store_child(job, stage, drafts, pending, scope)
        is_argument = any(t in job.given for t in stage.outputs)
        location = placement.attach[name]
        # an inlined stage that is an argument is also computed at root
        at_root = isinstance(location, Root) or (isinstance(location, Inline) and is_argument)
        if name in parts or not at_root:
            continue
        if stage.is_scan:
            box = take(stage, pending, scope.ranges)
            if not is_argument and box is None:
                continue
            stage_drafts, more = yield nest_stage(job, stage, whole(stage.outputs[0].shape), scope)
            merge(pending, more, scope.ranges)
            stored = with_rolling_rows(job, stage, box)
            drafts = [*_storage_of(job, stored), *stage_drafts, *drafts]
        elif is_argument:
            take(stage, pending, scope.ranges)
            stage_drafts, more = yield nest_stage(job, stage, whole(stage.outputs[0].shape), scope)
            merge(pending, more, scope.ranges)
            drafts = [*_storage_of(job, stage), *stage_drafts, *drafts]
        else:
            drafts, pending = yield place_child(job, stage, drafts, pending, scope)
    return drafts


def _storage_of(job: Job, stage: Stage) -> list[Any]:
    """Return storage for the outputs of ``stage`` that are not arguments."""
    return [*job.storage_at_root(stage, whole(stage.outputs[0].shape), scope_of(stage, ()))]


def _scan_parts(state: State) -> set[str]:
    return {
        state.defined[t]
        for s in state.stages.values()
        if isinstance(s.op, ScanOp)
        for t in (*s.op.init, *s.op.update)
    }
