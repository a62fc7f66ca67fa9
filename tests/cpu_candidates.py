"""Helpers for tests of the tactics for CPUs: draw candidates and inspect their loop nests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

import schedlang as sl
from schedlang.autotune.knobs import Decisions, Rejected
from schedlang.autotune.space import Candidate, Space
from schedlang.autotune.tactics.facts import Problem
from schedlang.expr.nodes import Axis
from schedlang.expr.visit import postorder
from schedlang.host import USUAL_CACHES
from schedlang.machine.loops.sums import kept_buffers, steps_of

AVX2 = sl.Target("cpu", vector_bytes=32, vector_registers=16, caches=USUAL_CACHES)
AVX512 = sl.Target("cpu", vector_bytes=64, vector_registers=32, caches=USUAL_CACHES)
# the smallest share of draws that must be valid
LEAST = 0.3


def drawn(
    output: sl.Tensor, count: int = 8, target: sl.Target = AVX2, threads: int = 2,
    sizes: Mapping[sl.Var, int] | None = None, given: Decisions | None = None,
) -> list[Candidate]:  # fmt: skip
    """Return the valid ones of ``count`` draws; fail if too few of them are valid."""
    space = Space(Problem((output,), target, threads, sizes or {}))
    rng, found = Random(0), []
    for _ in range(count):
        try:
            found.append(space.draw(rng, given))
        except Rejected:
            continue
    assert len(found) >= max(1, LEAST * count), space.reasons
    return found


def reduced(op: Callable[..., object], *extents: object) -> Callable[..., object]:
    """Return a function that reduces ``body(k0, k1, ...)`` by ``op`` over axes of these extents."""
    axes = tuple(sl.reduce_axis(e, name=f"k{at}") for at, e in enumerate(extents))
    return lambda body: op(body(*axes), axis=axes)


def shared(candidate: Candidate, stage: str = "") -> float:
    """Return the extent of the longest parallel loop of ``stage`` or of all stages; 1 for none."""
    extents = [
        f.extent if isinstance(f.extent, int) else float("inf")
        for f in candidate.nest.loops if f.kind == "parallel" and stage in ("", f.stage)
    ]  # fmt: skip
    return max(extents, default=1)


def inner_guards(candidate: Candidate) -> list[str]:
    """Return the guards, except those on a parallel loop alone.

    Those are for its last iteration, which runs the tail of its split.
    """
    several = {f.axis for f in candidate.nest.loops if f.kind == "parallel"}
    guards = [g.cond for g in candidate.nest.guards]
    axes = [{n for n in postorder([cond]) if isinstance(n, Axis)} for cond in guards]
    return [str(c) for c, own in zip(guards, axes) if not (len(own) == 1 and own <= several)]


def in_lanes(candidate: Candidate, stage: str = "") -> bool:
    """Return whether ``stage``, or any stage, has a vectorized loop."""
    loops = (f for f in candidate.nest.loops if stage in ("", f.stage))
    return any(f.kind == "vectorize" for f in loops)


def in_registers(candidate: Candidate, target: sl.Target) -> set[str]:
    """Return the stages whose sums stay in registers over some loop."""
    nest = candidate.nest
    return {
        f.stage for f in nest.loops
        if kept_buffers(f, target.vector_width, target.vector_registers, steps_of(f, nest))
    }  # fmt: skip
