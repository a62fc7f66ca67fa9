"""A long reduction with few results: threads reduce parts of it, which are then combined."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod

from schedlang.autotune.knobs import Knobs
from schedlang.autotune.tactics.cpu.lanes import (
    LANES,
    PARTIAL_VECTORS,
    choose_lanes,
    in_lanes,
    partial_in_lanes,
    partial_sums,
    vector_counts,
)
from schedlang.autotune.tactics.cpu.nest import LEAST_STEPS
from schedlang.autotune.tactics.cpu.runs import LEAST_RUN, run_of, whole_vectors
from schedlang.autotune.tactics.facts import StageFacts, is_long
from schedlang.autotune.tactics.knob import Knob, Moves
from schedlang.autotune.tactics.loops import first, fuse_loops
from schedlang.autotune.tactics.scheduled import Level, OuterLoops, Scheduled
from schedlang.autotune.tactics.tactic import Applicable, Tactic
from schedlang.compute.tensor import Tensor
from schedlang.expr.nodes import Axis
from schedlang.schedule.schedule import Schedule

# parts per thread: several balance the load if other processes interrupt a thread
# a search decides among them
PARTS = (1, 4)
# results are few if each thread has at most this many vectors of them
# nobody has measured this value
FEW_VECTORS = 4
# if the steps do not divide evenly, parts take their steps in about this many rounds
# nobody has measured this value
ROUNDS = 128
# the most vectors of partial results side by side
# nobody has measured this value
MOST_VECTORS = 8
PARTS_PER_THREAD = Knob("C.parts", PARTS, "the number of partial sums per thread", Moves(rank=20))


def applies(stage: StageFacts, others: Applicable) -> bool:
    """Return whether there are so few results that threads may better share their steps.

    With fewer results than threads, a reduction along contiguous memory is split in any case.
    """
    few = stage.results <= FEW_VECTORS * stage.width * stage.problem.threads
    return few and splits(stage) and not ("rows" in others and too_few(stage))


def splits(stage: StageFacts) -> bool:
    """Return whether threads can share the steps of a reduction: only one at root has threads."""
    here = stage.is_reduction and stage.attached is None and not stage.is_scan_step
    return here and bool(part_counts(stage))


def too_few(stage: StageFacts) -> bool:
    """Return whether there are fewer results than threads."""
    return stage.results < stage.problem.threads


def part_counts(stage: StageFacts) -> list[int]:
    """Return the possible numbers of parts per thread into which a reduction can be split.

    The list is empty if there are few steps.
    """

    def fits(count: int) -> bool:
        run = run_of(stage)
        shared = _axes_to_split(stage, run)
        steps, length = (prod(stage.extents(axes)) for axes in (stage.op.reduce_axis, shared))
        least = LEAST_RUN * stage.width
        return steps >= count * least and length >= count * (least if shared == run else 1)

    return parts_that_fit(stage, fits)


def parts_that_fit(stage: StageFacts, fits: Callable[[int], bool]) -> list[int]:
    """Return the numbers of parts per thread for which ``fits`` accepts the parts of all threads.

    Return nothing for little work, and in a scan, where threads would have to start in each time
    step.
    """
    threads = stage.problem.threads
    if threads == 1 or stage.time_axes or stage.evaluations < LEAST_STEPS:
        return []
    return [n for n in PARTS if fits(n * threads)]


def apply(s: Schedule, stage: StageFacts, knobs: Knobs) -> Scheduled:
    """Split a reduction among threads with rfactor, and vectorize each part.

    The lanes go along a contiguous run of reduction axes, or else along the last data axis.
    """
    tensor, name, width = stage.tensor, stage.name, stage.width
    run = run_of(stage)
    length = prod(stage.extents(run))
    short = length < LEAST_RUN * width
    lanes = 0
    if not short:
        counts = vector_counts(length, width)
        if len(run) == 1:
            counts = whole_vectors(stage, run[0], counts)
        lanes = width * knobs.choice(f"{name}.vectors", counts)
    count = stage.problem.threads * knobs.choice(f"{name}.parts", part_counts(stage))
    shared = _axes_to_split(stage, run)
    whole = _rounds(stage, shared, count, lanes if shared == run else 1)
    part = _split_parts(s, tensor, shared, count, whole)
    outside = len(stage.op.reduce_axis) - len(run) if shared == run else 0
    partial = stage.after(s, first(s.rfactor(tensor, part)))
    nest = OuterLoops(partial.tensor, (Level(partial.op.axis[0], (0,), count),))
    scheduled = partial.placed(nest).join(Scheduled(frozenset({tensor})))
    rounds = {outside: whole[0]} if whole else {}
    if lanes:
        # splitting a run into parts fuses it into one loop
        left = 1 if shared == run else len(run)
        scheduled = scheduled.join(_run_in_lanes(s, partial, left, lanes, nest, rounds))
        lanes = 0
    else:
        lanes = _results_in_lanes(s, stage, partial, rounds, knobs)
    combine(s, stage.after(s), count, lanes)
    s[partial.tensor].parallel(nest.levels[0].loop)
    return scheduled


def _rounds(
    stage: StageFacts, shared: list[Axis], count: int, lanes: int
) -> tuple[int, int] | None:
    """Return the number of full rounds, and the steps that each part takes in one.

    Return ``None`` if the steps divide into equal parts of whole vectors.
    """
    length = prod(stage.extents(shared))
    fixed = all(isinstance(axis.extent, int) for axis in shared)
    if not fixed or length % (count * max(1, lanes)) == 0:
        return None
    unit = max(1, lanes)
    block = max(1, length // (count * ROUNDS * unit)) * unit
    rounds = length // (count * block)
    return (rounds, block) if rounds > 1 else None


def _split_parts(
    s: Schedule, tensor: Tensor, shared: list[Axis], count: int, whole: tuple[int, int] | None
) -> Axis:
    """Split the ``shared`` axes into parts, and return the loop over parts.

    A part is contiguous, or takes one block in each round. With rounds, only the last round needs a
    test for missing steps. With contiguous parts of unequal length, every step of every part would
    need one, and sums would stay in memory.
    """
    view = s[tensor]
    steps = fuse_loops(s, tensor, shared)
    if whole is None:
        return view.split(steps, nparts=count)[0]
    blocks, _ = view.split(steps, factor=whole[1])
    return view.split(blocks, factor=count)[1]


def _axes_to_split(stage: StageFacts, run: list[Axis]) -> list[Axis]:
    """Return the adjacent reduction axes to split among threads: the outermost that suffice."""
    axes = list(stage.op.reduce_axis)
    outside = axes[: len(axes) - len(run)]
    groups = [outside[:n] for n in range(1, len(outside) + 1)] + ([run] if run else [])
    lengths = [prod(stage.extents(group)) for group in groups]
    enough = stage.problem.threads * max(PARTS)
    return next(
        (g for g, n in zip(groups, lengths) if n >= enough), groups[lengths.index(max(lengths))]
    )


def _run_in_lanes(
    s: Schedule, partial: StageFacts, left: int, lanes: int, nest: OuterLoops,
    rounds: Mapping[int, int],
) -> Scheduled:  # fmt: skip
    """Vectorize the last ``left`` reduction axes, with partial results of each result in lanes."""
    parts = partial.tensor
    run = fuse_loops(s, parts, partial.op.reduce_axis[-left:])
    length, fixed = partial.extents([run])[0], isinstance(run.extent, int)
    sums = partial_sums(s, partial, run, lanes)
    part, *data = s[parts].op.axis
    s[sums.tensor].compute_at(s[parts], next((a for a in reversed(data) if is_long(a)), part))
    last = len(sums.op.reduce_axis) - 1
    whole = {last: length // lanes} if fixed else {}
    partial_in_lanes(s, sums, whole={**whole, **rounds})
    return sums.placed(nest, sums.op.axis[:-1])


def _results_in_lanes(
    s: Schedule, stage: StageFacts, partial: StageFacts, rounds: Mapping[int, int], knobs: Knobs
) -> int:
    """Vectorize the last data axis of the partial results; return its lanes, 0 for none."""
    last = partial.last
    axis = partial.op.axis[last]
    if last == 0 or not any(read.contiguous(axis) for read in partial.reads):
        return 0
    lanes = choose_lanes(partial, [axis], MOST_VECTORS, knobs, stage.name)
    if lanes:
        in_lanes(s, partial, lanes, rounds)
    return lanes if isinstance(axis.extent, int) else 0


def combine(s: Schedule, stage: StageFacts, count: int, lanes: int) -> None:
    """Schedule the sum of ``count`` parts: in lanes, and in threads if it is much work."""
    much = stage.results * count >= LEAST_STEPS
    axes = stage.op.axis
    if much and not lanes:
        length = stage.extents(axes[stage.last :])[:1]
        lanes = min(stage.width, *length) if length else 0
    outer = in_lanes(s, stage, lanes) if lanes > 1 else list(axes)
    if much and outer:
        s[stage.tensor].parallel(fuse_loops(s, stage.tensor, outer))


TACTIC = Tactic(
    "parts", "let each thread compute partial sums, then combine them", applies, apply,
    knobs=(PARTIAL_VECTORS, PARTS_PER_THREAD, LANES),
)  # fmt: skip
