"""Groups of stages that are scheduled on their own, so that large graphs cost no more per stage.

Stages of a group may share loops; between groups, results are whole tensors in memory. The grouping
follows Mullapudi et al., "Automatically scheduling Halide image processing pipelines" (SIGGRAPH
2016), with rules instead of a search for merges: a pad or an elementwise stage goes with its
readers, a reduction goes with its elementwise readers, and a product does not go with another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from schedlang.autotune.knobs import Knobs
from schedlang.autotune.tactics.facts import Dataflow, Problem, StageFacts
from schedlang.autotune.tactics.inline import inline
from schedlang.compute.extraction import extract
from schedlang.compute.tensor import ComputeOp, ScanOp, Tensor
from schedlang.schedule.schedule import empty_schedule

# the most stages with loops of their own in a group, and the most of a graph that is one group
# nobody has measured this value
MOST_STAGES = 5
# a reduction with more operations for each element that it reads reuses them, like a product
# nobody has measured this value
REUSED = 8


@dataclass(frozen=True)
class Group:
    """Stages that are scheduled together, as a computation of its own.

    ``outputs`` compute what other groups read, or results of the whole computation. A tensor that
    the group reads from another group is a placeholder. Stages are named as in the whole
    computation, so that the decisions for both have the same names. ``heads`` are the names of the
    stages with loops of their own; in a scan, only products count. ``cut`` are the names of the
    heads that other groups read.
    """

    outputs: tuple[Tensor, ...]
    heads: tuple[str, ...]
    cut: tuple[str, ...] = ()


def groups(problem: Problem) -> list[Group]:
    """Return the groups of a computation, producers first.

    A small computation, or one with a scan, is one group: the computation itself. Several products
    are several groups all the same, as each needs evaluations of its own.
    """
    s = empty_schedule(list(problem.outputs))
    flow = Dataflow(problem, s.state)
    scans = any(isinstance(stage.op, ScanOp) for stage in s.state.stages.values())
    names = {t: flow.stage(t).name for t in flow.stages}
    if scans:
        # beside the products of its steps, the other stages of a scan are little work
        sums = tuple(names[t] for t in flow.stages if flow.stage(t).is_reduction)
        return [Group(problem.outputs, sums or tuple(names.values()))]
    if len(flow.stages) <= MOST_STAGES and _products(flow.stages, flow) < 2:
        return [Group(problem.outputs, tuple(names.values()))]
    # inlined in any case: knobs that only have first options inline nothing else
    flow = flow.then(s, inline(s, flow, Knobs()))
    heads = [t for t in flow.stages if t not in flow.decided.inlined]
    if len(heads) <= MOST_STAGES and _products(heads, flow) < 2:
        return [Group(problem.outputs, tuple(names[t] for t in heads))]
    return [_extract(members, flow, names) for members in _merge(heads, flow)]


def _merge(heads: Sequence[Tensor], flow: Dataflow) -> list[list[Tensor]]:
    """Return the heads of each group. Consumers come first, and a producer joins their group."""
    group_of: dict[Tensor, list[Tensor]] = {}
    for tensor in reversed(heads):
        stage = flow.stage(tensor)
        readers = stage.consumers
        known = {id(group_of[r]) for r in readers if r in group_of}
        joined = group_of[readers[0]] if len(known) == 1 and readers[0] in group_of else None
        alone = stage.is_output or stage.feeds_call
        if joined is None or alone or len(joined) >= MOST_STAGES or not all(
            _together(stage, flow.stage(reader)) for reader in readers
        ):  # fmt: skip
            joined = []
        joined.insert(0, tensor)
        group_of[tensor] = joined
    distinct = {id(members): members for members in group_of.values()}
    order = {t: n for n, t in enumerate(heads)}
    return sorted(distinct.values(), key=lambda members: order[members[-1]])


def _together(producer: StageFacts, reader: StageFacts) -> bool:
    """Return whether a producer may share loops with a reader of its results."""
    if producer.is_reduction:
        return not (reader.is_reduction and _reuses(producer))
    # the epilogue of a reduction goes with it
    return not (reader.is_reduction and any(
        r.tensor in producer.flow.stages and producer.flow.stage(r.tensor).is_reduction
        for r in producer.reads
    ))  # fmt: skip


def _products(stages: Iterable[Tensor], flow: Dataflow) -> int:
    """Return how many of the stages are reductions that read their operands several times."""
    facts = (flow.stage(t) for t in stages)
    return sum(stage.is_reduction and _reuses(stage) for stage in facts)


def _reuses(stage: StageFacts) -> bool:
    """Return whether a reduction reads its operands several times."""
    read = sum(prod(_lengths(stage, t)) for t in dict.fromkeys(r.tensor for r in stage.reads))
    return stage.evaluations > REUSED * read


def _lengths(stage: StageFacts, tensor: Tensor) -> tuple[int, ...]:
    """Return the shape of a tensor as numbers."""
    if isinstance(tensor.op, ComputeOp):
        return stage.extents(tensor.op.axis)
    return tuple(n if isinstance(n, int) else 1 for n in tensor.shape)


def _extract(members: Sequence[Tensor], flow: Dataflow, names: Mapping[Tensor, str]) -> Group:
    """Return a group as a computation of its own."""
    inside = [flow.stage(t) for t in members]
    within = {id(stage.stage) for stage in inside}
    cut = []
    for stage in inside:
        outside = [r for r in stage.consumers if id(flow.stage(r).stage) not in within]
        if outside or stage.is_output or not stage.consumers:
            cut.append(stage)
    copies = extract(_with_inlined([stage.op for stage in inside], flow), names)
    wanted = {t: None for stage in cut for t in stage.stage.outputs}
    return Group(
        tuple(copies[t] for t in wanted),
        tuple(names[t] for t in members),
        tuple(stage.name for stage in cut),
    )


def _with_inlined(ops: Sequence[ComputeOp], flow: Dataflow) -> list[ComputeOp]:
    """Return ``ops`` with the stages that are inlined into them, producers first."""
    ordered: dict[ComputeOp, None] = {}
    stack: list[tuple[ComputeOp, bool]] = [(op, False) for op in reversed(ops)]
    while stack:
        op, ready = stack.pop()
        if ready:
            ordered.setdefault(op)
        elif op not in ordered:
            stack.append((op, True))
            inner = [t.op for t in op.input_tensors if t in flow.decided.inlined or t.op in ops]
            stack += [(producer, False) for producer in inner if isinstance(producer, ComputeOp)]
    return list(ordered)
