"""Findings that hold a nest back on a CPU, with the evidence and the steps that may help."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from schedlang.analysis.past_caches import bypasses_caches, streams
from schedlang.analysis.points import Counter
from schedlang.autotune.tactics.cpu.dot_products import of_dtypes
from schedlang.autotune.tactics.known_instructions import TILES, form_of
from schedlang.compute.tensor import Tensor
from schedlang.diagnostics.sites import extent_of, in_memory, iterations, name_of
from schedlang.expr.dtypes import itemsize
from schedlang.hints.predicted import waits_for_nothing
from schedlang.host import LINE
from schedlang.ir.accesses import Site, loads, stores
from schedlang.ir.nest import Nest
from schedlang.ir.offsets import flat, lane_step
from schedlang.ir.printer import expr_text
from schedlang.machine.loops.job import LoopJob
from schedlang.machine.loops.short_sums import rolled_sums
from schedlang.machine.loops.sums import keep_sums
from schedlang.runtime.environment import threads_of
from schedlang.target import Target

# the share of a nest's iterations from which on a statement matters
SHARE = 0.05
# an innermost loop this short is mostly overhead
SHORT = 8
# bytes that bypass the caches in an iteration of a parallel loop, below which the fence at its end
# takes a quarter of its time or more (AVX2, 10 GB/s)
FENCED = 4096
PLACES = frozenset({"compute_at", "compute_inline", "store_at"})
ORDERS = frozenset({"reorder", "tile", "vectorize"})


@dataclass(frozen=True)
class Finding:
    """A sentence with its evidence, and what may help: ``primitives`` on ``stage``.

    An empty ``stage`` stands for any.
    """

    text: str
    primitives: frozenset[str]
    stage: str = ""


def findings(nest: Nest, target: Target) -> Iterator[Finding]:
    """Yield the findings of a nest: on a GPU, its products that lack an instruction."""
    sites = stores(keep_sums(nest.body, LoopJob(nest, target)))
    total = sum(map(iterations, sites))
    large = [s for s in sites if iterations(s) >= SHARE * total and s.loops]
    if target.facts.binds_threads:
        for site in large:
            yield from _products(site, target)
        return
    yield from _idle_threads(large, target)
    yield from _repeated(nest)
    yield from _large_intermediates(nest, target)
    for site in large:
        yield from _products(site, target)
        yield from _strides(site, nest)
        yield from _scalars(site, target)
        yield from _waiting_sums(site, nest)
        yield from _reloaded(site, target)
        yield from _short_loops(site, nest)
        yield from _stores_through_caches(site, nest, target)


def loops_kept(nest: Nest, target: Target) -> Iterator[str]:
    """Yield a sentence for each short sum that stays a loop, since its copies would spill."""
    if target.facts.binds_threads:
        return
    for loop, store, needed in rolled_sums(nest.body, LoopJob(nest, target)):
        yield (
            f"The loop {name_of(loop, nest)} of stage {store.stage} stays a loop: its "
            f"{loop.extent} iterations, written out, would need {needed} vector registers with the "
            f"sums, and there are {target.vector_registers}. With fewer rows in the tile they "
            "would fit."
        )


def fences(nest: Nest, target: Target) -> Iterator[str]:
    """Yield a sentence for each parallel loop whose stores wait for memory after few bytes."""
    if target.facts.binds_threads:
        return
    for site in stores(nest.body):
        store, loops = site.stmt, site.loops
        at = next((n for n, f in enumerate(loops) if f.kind == "parallel"), None)
        if at is None or not any(streams(f, store) for f in loops):
            continue
        elements = prod(extent_of(f) for f in loops[at + 1 :])
        stored = elements * sum(itemsize(buffer.dtype) for buffer in store.buffers)
        if stored < FENCED:
            yield (
                f"Each iteration of the parallel loop {name_of(loops[at], nest)} of stage "
                f"{store.stage} ends with a fence, which waits until its nontemporal stores have "
                f"arrived in memory, after only {stored:,} B. Split the loop before you make its "
                "outer part parallel."
            )


def _idle_threads(large: Sequence[Site], target: Target) -> Iterator[Finding]:
    count = threads_of(target)
    # a stage inside the loops of another runs on their threads
    idle = dict.fromkeys(
        s.stmt.stage
        for s in large
        if all(f.kind != "parallel" and f.stage == s.stmt.stage for f in s.loops)
    )
    for stage in idle if count > 1 else ():
        yield Finding(
            f"stage {stage} runs on one thread, and parallel loops have {count} here",
            frozenset({"parallel"}),
            stage,
        )


def _repeated(nest: Nest) -> Iterator[Finding]:
    """Yield the stages whose elements are computed more than once."""
    written: dict[Tensor, list[Site]] = {}
    for site in stores(nest.body):
        # the updates of a sum do not compute its elements again
        for buffer in site.stmt.buffers if site.stmt.reducer is None else ():
            if buffer.tensor is not None and buffer not in nest.args:
                written.setdefault(buffer.tensor, []).append(site)
    for tensor, sites in written.items():
        if not all(isinstance(extent, int) for extent in tensor.shape):
            continue
        counter = Counter(names=nest.names)
        times = sum(
            counter.count(s.extents, [(guard.cond, True) for guard in s.guards]) for s in sites
        )
        size = prod(int(extent) for extent in tensor.shape)
        if isinstance(times, int) and not counter.bounds and times > 1.05 * size:
            stage = sites[0].stmt.stage
            yield Finding(
                f"stage {stage} stores {times:,} values, {times / size:.2g} times as many as "
                f"{tensor.name} has elements: neighbouring iterations compute the same ones",
                PLACES,
                stage,
            )


def _large_intermediates(nest: Nest, target: Target) -> Iterator[Finding]:
    cache = target.caches[1].size
    for buffer in nest.buffers:
        if buffer in nest.args or buffer.tensor is None or (buffer.bytes or 0) <= cache:
            continue
        yield Finding(
            f"{buffer.name} takes {buffer.bytes:,} B, more than the second-level cache of "
            f"{cache:,} B: its values leave the cache before they are read",
            PLACES,
            buffer.tensor.op.name,
        )


def _strides(site: Site, nest: Nest) -> Iterator[Finding]:
    inner, seen = site.loops[-1], set[str]()
    for access in in_memory(site):
        buffer, indices = access.buffer, access.indices
        step = lane_step(flat(buffer, indices), inner.axis)
        far = 0 if step is None else abs(step) * itemsize(buffer.dtype)
        at = f"{buffer.name}[{', '.join(expr_text(i, nest.names) for i in indices)}]"
        if far >= LINE and at not in seen and extent_of(inner) > 1:
            seen.add(at)
            yield Finding(
                f"the inner loop {name_of(inner, nest)} accesses {at} with a stride of {far:,} B: "
                "each access is in a cache line of its own",
                ORDERS,
                site.stmt.stage,
            )


def _scalars(site: Site, target: Target) -> Iterator[Finding]:
    dtype = site.stmt.buffers[0].dtype
    lanes = target.vector_width(dtype)
    if lanes > 1 and not any(f.kind == "vectorize" for f in site.loops):
        yield Finding(
            f"no loop of stage {site.stmt.stage} is vectorized, and a register holds {lanes} "
            f"{dtype}",
            frozenset({"vectorize"}),
            site.stmt.stage,
        )


def _products(site: Site, target: Target) -> Iterator[Finding]:
    """Yield a finding for a product that the processor has an instruction for, without it."""
    store = site.stmt
    if store.reducer is None or any(f.instruction is not None for f in site.loops):
        return
    for declared, shifted in of_dtypes(store, target)[:1]:
        kinds = " and ".join(dict.fromkeys(x.buffer.dtype for x in loads(store.values)))
        chip = "GPU" if target.facts.binds_threads else "processor"
        what = "tiles" if form_of(declared) == TILES else "dot product"
        text = (
            f"stage {store.stage} multiplies {kinds} without the {what} of this {chip}, "
            f"{declared.name}"
        )
        if shifted:
            text += f", for which shift_operand makes one operand {shifted}"
        yield Finding(text, frozenset({"tensorize"}), store.stage)


def _waiting_sums(site: Site, nest: Nest) -> Iterator[Finding]:
    """Yield a finding for a sum of floats in one element, step after step."""
    inner, store = site.loops[-1], site.stmt
    if store.reducer is None or inner.kind != "serial" or not inner.axis.is_reduce:
        return
    if waits_for_nothing(store) or any(f.kind == "vectorize" for f in site.loops):
        return
    yield Finding(
        f"each iteration of {name_of(inner, nest)} waits for the {store.reducer.name} of the "
        f"previous one in stage {store.stage}, and no compiler may change the order of floats: "
        "partial results in the lanes of a vector do not wait",
        frozenset({"rfactor"}),
        store.stage,
    )


def _reloaded(site: Site, target: Target) -> Iterator[Finding]:
    """Yield a finding for a vectorized sum that loads operands for each multiply-add."""
    loops = [f for f in site.loops if f.kind in ("vectorize", "unroll")]
    steps = [f for f in site.loops if f.axis.is_reduce]
    if site.stmt.reducer is None or not steps or not any(f.kind == "vectorize" for f in loops):
        return
    rows = [f for f in loops if f.kind == "unroll" and not f.axis.is_reduce]
    copies = prod(extent_of(f) for f in rows)
    operands = loads(site.stmt.values)
    if copies <= 2 and len(operands) > 1:
        yield Finding(
            f"each multiply-add of stage {site.stmt.stage} loads {len(operands)} operands: with a "
            "tile of several rows in registers, one load serves them all",
            frozenset({"register tile"}),
            site.stmt.stage,
        )


def _short_loops(site: Site, nest: Nest) -> Iterator[Finding]:
    inner = site.loops[-1]
    if inner.kind == "serial" and 1 < extent_of(inner) <= SHORT and isinstance(inner.extent, int):
        yield Finding(
            f"the inner loop {name_of(inner, nest)} has {inner.extent} iterations: counting and "
            "testing them costs as much as their work",
            frozenset({"unroll"}),
            site.stmt.stage,
        )


def _stores_through_caches(site: Site, nest: Nest, target: Target) -> Iterator[Finding]:
    """Yield a finding for vectors of a result that go through caches that cannot hold it."""
    store, threads = site.stmt, threads_of(target)
    loops = [f for f in site.loops if f.stage == store.stage]
    if store.reducer is not None or not any(f.kind == "vectorize" for f in loops):
        return
    if any(streams(f, store) for f in loops):
        return
    if not any(buffer in nest.outputs for buffer in store.buffers):
        return
    read = [load.buffer for load in loads(store.values)]
    written, others = (
        [b.tensor for b in buffers if b.tensor is not None] for buffers in (store.buffers, read)
    )
    if bypasses_caches(written, others, target, threads):
        held = sum(buffer.bytes or 0 for buffer in {*store.buffers, *read})
        yield Finding(
            f"stage {store.stage} reads and writes {held:,} B, and the last cache holds "
            f"{target.last_cache(threads):,} B: each line that it overwrites is read from memory "
            "first",
            frozenset({"pragma"}),
            store.stage,
        )
