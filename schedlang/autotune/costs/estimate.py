"""The estimated cost of a nest on a CPU, from its loops alone.

The model compares the cycles of arithmetic and loads, on a core with two vector units, with the
bytes that each cache level has to fetch. These follow from the footprint of the loops whose data
fit the cache (Wolf and Lam, "A data locality optimizing algorithm", PLDI 1991). The estimate only
ranks candidates. A search reports how well its order agrees with measured times.

The records that come with the package decide none of its numbers: see
``python -m benchmarks.constants``. They hold the fastest schedule of each work, so that they say
little about the order of the others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod

from schedlang.analysis.past_caches import streams
from schedlang.autotune.costs.arithmetic import instructions, operations
from schedlang.autotune.costs.footprint import line_traffic, one_of_each_group
from schedlang.autotune.costs.fused import separate_fused
from schedlang.diagnostics.sites import extent_of
from schedlang.diagnostics.tiles import registers
from schedlang.expr.nodes import Axis, Expr
from schedlang.expr.visit import postorder
from schedlang.index.enumeration import count, leaves_of, spans_of
from schedlang.ir.accesses import Access, accesses, contexts
from schedlang.ir.extern_call import Extern
from schedlang.ir.findings import Findings
from schedlang.ir.nest import Nest
from schedlang.ir.nodes import Block, Buffer, For, If, Kept, Stmt, Store
from schedlang.ir.offsets import flat, lane_step
from schedlang.ir.trimmed import running
from schedlang.machine.loops.instructions import use_instructions
from schedlang.machine.loops.job import LoopJob
from schedlang.machine.loops.sums import keep_sums
from schedlang.target import Target

# latency of a multiply-add in cycles
# nobody has measured this value
LATENCY = 4
# cycles to load and store a vector of sums in memory: with it, products of 1000 and 1040 rows that
# add blocks of 8 steps in memory were measured to be as much slower than tiles as estimated (AVX2)
MOVED = 1.5
# bytes per cycle that a miss in the first, the second and the last level of caches brings
# nobody has measured this value
RATES = (32.0, 16.0, 8.0)
# the part of the shorter of instructions and traffic that does not overlap with the other
# nobody has measured this value
OVERLAP = 0.3
# cycles of the fence that ends an iteration of a parallel loop whose stores bypass the caches,
# measured with 128 bytes an iteration (AVX2)
FENCE = 400.0
# cycles to start a parallel loop, and to start it again soon, when threads still wait for work (see
# runtime/numba_team.py); the seconds of a cycle
# the second was measured, in a run that is not kept; nobody has measured the others
LAUNCH, AGAIN, CYCLE = 6000.0, 3500.0, 3e-10


@dataclass(frozen=True)
class Estimate:
    """The estimate of a candidate.

    ``seconds`` ranks candidates: less should be faster. ``flops`` is the arithmetic of a call, with
    repeated work counted each time; :func:`schedlang.compute.work.flops` is the least necessary.
    """

    seconds: float
    flops: float


@dataclass(frozen=True)
class _Around:
    """The loops, tests and kept sums around a statement.

    ``guards`` is how many tests are inside unrolled or vectorized loops. ``share`` is the part of
    the lanes and rows that pass the tests of bounds, and ``new`` is the part of the iterations in
    which sliding windows compute new rows. ``kept`` are the buffers whose sums stay in registers,
    and ``entered`` the loops around the statements during which they do. ``call`` has the loops
    around a call of known cycles, and these cycles.
    """

    loops: tuple[For, ...] = ()
    guards: int = 0
    share: float = 1.0
    new: float = 1.0
    kept: frozenset[Buffer] = frozenset()
    entered: tuple[For, ...] = ()
    call: tuple[tuple[For, ...], float] | None = None


@dataclass(frozen=True)
class Cost:
    """The cycles that one core takes for the instructions of a statement and the bytes it moves.

    ``traffic`` has the cycles in which each level of caches, the first one first, is filled.
    ``loops`` are the loops around the statement, and ``flops`` counts its arithmetic operations.
    """

    loops: tuple[For, ...]
    compute: float
    traffic: tuple[float, ...]
    flops: float


def overlap(compute: float, traffic: float) -> float:
    """Return the cycles of instructions and traffic that overlap for the most part."""
    return max(compute, traffic) + OVERLAP * min(compute, traffic)


def costs(
    nest: Nest, target: Target, grouped: bool = False, jumps: float = 1.0,
    cold: Collection[str] = (), findings: Findings | None = None,
) -> Iterator[Cost]:  # fmt: skip
    """Yield the costs of the statements of ``nest`` on one core of ``target``, a CPU.

    With ``grouped``, the reads of a stencil, whose indices differ by constants, fetch lines once,
    and a fused loop fetches what the loops that it was made of fetch.
    ``jumps`` is the factor on the bytes of accesses that jump from line to line. ``cold`` are the
    names of buffers that no cache has before the call. It has all others if they fit together.
    ``findings`` are about other nests for the target with the same statements.
    """
    sizes = [b.bytes for b in nest.buffers]
    fits = None not in sizes and sum(n or 0 for n in sizes) <= target.caches[-1].size
    resident = frozenset(b for b in nest.buffers if b.name not in cold) if fits else frozenset()
    job, given = LoopJob(nest, target), (fits, grouped, jumps, frozenset(cold))
    known = Findings() if findings is None else findings
    for root in reversed(nest.body.stmts):
        key = ("costs", root, job.steps_in(root, known), *given)
        yield from known.once(key, partial(_costs, root, job, resident, grouped, jumps))


def _costs(
    root: Stmt, job: LoopJob, resident: Collection[Buffer], grouped: bool, jumps: float
) -> list[Cost]:
    """Return the costs of a statement at root, or of those in it."""
    return [
        _cost(store, around, job.target, resident, grouped, jumps)
        for store, around in _stores(keep_sums(use_instructions(Block((root,)), job), job))
    ]


def estimate(
    nest: Nest, target: Target, threads: int = 2, jumps: float = 1.0,
    cold: Collection[str] = (), findings: Findings | None = None, margin: float | None = None,
) -> Estimate:  # fmt: skip
    """Return the estimated cost of ``nest`` on ``threads`` cores of ``target``, a CPU.

    ``jumps``, ``cold`` and ``findings`` are as for :func:`costs`. With a ``margin``, the first
    start of threads counts that many times, and loops of :func:`useless_threads` run on one core.

    >>> import schedlang as sl
    >>> A = sl.placeholder((1024, 1024), name="A")
    >>> B = sl.compute((1024, 1024), lambda i, j: A[i, j] + 1, name="B")
    >>> plain, fast = sl.schedule(B), sl.schedule(B)
    >>> fast[B].vectorize(fast[B].split(B.op.axis[1], factor=16)[1])
    >>> costs = [estimate(sl.lower(s), sl.Target("cpu")) for s in (plain, fast)]
    >>> costs[0].seconds > costs[1].seconds, costs[0].flops
    (True, 1048576.0)
    """
    cycles, work, launches = 0.0, 0.0, set()
    known = list(costs(nest, target, jumps=jumps, cold=cold, findings=findings))
    alone = set() if margin is None else useless_threads(nest, known, threads, margin)
    for cost in known:
        own = overlap(cost.compute, sum(cost.traffic))
        outer = parallel_loop(cost.loops) if threads > 1 else None
        if outer is not None and outer[0].stage not in alone:
            own *= slowest_share(outer[0], threads)
            launches.add(outer)
        cycles += own
        work += cost.flops
    first = (1.0 if margin is None else margin) * LAUNCH
    total = cycles + sum(first - LAUNCH + launching(times) for _, times in launches)
    return Estimate(total * CYCLE, work)


def useless_threads(nest: Nest, known: Iterable[Cost], threads: int, margin: float) -> set[str]:
    """Return the stages whose parallel loops save less than ``margin`` times their first start.

    ``known`` are the costs of the statements of ``nest``. Nobody knows the time of a user's
    function: the parallel loops in which one runs are not among them.
    """
    saved: dict[str, float] = defaultdict(float)
    starts: dict[str, dict[object, int]] = defaultdict(dict)
    for cost in known:
        outer = parallel_loop(cost.loops)
        if outer is None:
            continue
        loop, times = outer
        alone = overlap(cost.compute, sum(cost.traffic))
        saved[loop.stage] += alone * (1 - slowest_share(loop, threads))
        starts[loop.stage][loop.axis] = times
    least = {
        stage: sum((margin - 1) * LAUNCH + launching(n) for n in times.values())
        for stage, times in starts.items()
    }
    useless = {stage for stage, gain in saved.items() if gain <= least[stage]}
    return useless - _with_calls(nest) if useless else useless


def _with_calls(nest: Nest) -> set[str]:
    """Return the stages in whose parallel loops a user's function runs."""
    return {
        loop.stage
        for loop in nest.loops
        if loop.kind == "parallel" and any(isinstance(stmt, Extern) for stmt in running(loop.body))
    }


def launching(times: int) -> float:
    """Return the cycles of starting a parallel loop ``times`` times, one soon after the other."""
    return LAUNCH + AGAIN * (times - 1)


def parallel_loop(loops: Sequence[For]) -> tuple[For, int] | None:
    """Return the outermost parallel loop and how often it starts, if there is one."""
    outer = next((n for n, f in enumerate(loops) if f.kind == "parallel"), None)
    return None if outer is None else (loops[outer], prod(extent_of(f) for f in loops[:outer]))


def slowest_share(loop: For, threads: int) -> float:
    """Return the share of the iterations of a parallel loop that the busiest thread runs."""
    count = extent_of(loop)
    return -(-count // threads) / count


def work_of(nest: Nest) -> float:
    """Return the arithmetic operations of a call, with repeated work counted each time."""
    total = 0.0
    for store, around in _stores(nest.body):
        total += operations(store) * prod(extent_of(f) for f in around.loops) * around.share
    return total


def _stores(body: Stmt) -> list[tuple[Store, _Around]]:
    """Return each store with the loops and tests around it, the last one first."""
    statements = contexts(body, _Around(), _inside)
    return [(stmt, around) for stmt, around in statements if isinstance(stmt, Store)][::-1]


def _inside(stmt: Stmt, around: _Around) -> _Around:
    """Return what is around the body of ``stmt``."""
    loops = around.loops
    if isinstance(stmt, For):
        return replace(around, loops=(*loops, stmt))
    if isinstance(stmt, Kept):
        return replace(around, kept=stmt.buffers, entered=loops)
    if isinstance(stmt, Extern):
        return replace(around, call=(loops, stmt.cycles)) if stmt.cycles else around
    if not isinstance(stmt, If):
        return around
    part = _part(stmt, loops)
    if part is not None:
        return replace(around, loops=part)
    if stmt.slides:
        return replace(around, new=around.new * _new(stmt, loops))
    guards = around.guards + any(f.kind in ("unroll", "vectorize") for f in loops)
    return replace(around, guards=guards, share=around.share * _share(stmt, loops))


def _part(test: If, loops: Sequence[For]) -> tuple[For, ...] | None:
    """Return ``loops`` with a parallel loop shortened to the iterations that pass ``test``.

    Return ``None`` unless the test depends on the axis of a parallel loop alone.
    """
    leaves = set(leaves_of([test.cond]))
    own = [f for f in loops if f.kind == "parallel" and leaves == {f.axis}]
    if not own or not isinstance(own[0].extent, int):
        return None
    left = count([(test.cond, True)], {own[0].axis: (0, own[0].extent)})
    if left is None:
        return None
    return tuple(replace(f, extent=left) if f is own[0] else f for f in loops)


def _share(test: If, loops: Sequence[For]) -> float:
    """Return the part of lanes and rows that passes a test of bounds; 1 for any other test."""
    spans = {f.axis: (0, extent_of(f)) for f in loops if f.kind in ("unroll", "vectorize")}
    leaves = leaves_of([test.cond])
    if not test.note or len(leaves) > 1 or not leaves.keys() <= spans.keys():
        return 1.0
    return _passing(test, {axis: span for axis, span in spans.items() if axis in leaves})


def _new(test: If, loops: Sequence[For]) -> float:
    """Return the part of the iterations that passes the test of a sliding window.

    It is 1 if that depends on a size.
    """
    spans = spans_of([test.cond], {f.axis: (0, extent_of(f)) for f in loops})
    return 1.0 if spans is None else _passing(test, spans)


def _passing(test: If, spans: Mapping[Axis, tuple[int, int]]) -> float:
    """Return the part of the points of ``spans`` that passes a test; 1 if it is not known."""
    passed = count([(test.cond, True)], spans)
    return 1.0 if passed is None else passed / prod(length for _, length in spans.values())


def _cost(
    store: Store, around: _Around, target: Target, resident: Collection[Buffer], grouped: bool,
    jumps: float,
) -> Cost:  # fmt: skip
    """Return the costs of a statement on one core."""
    loops = around.loops
    if around.call is not None:
        # a function goes along the steps, and needs the rest of its tile in each of them
        outer = around.call[0]
        inner = sorted(loops[len(outer) :], key=lambda f: not f.axis.is_reduce)
        loops = (*outer, *inner)
    lane = next((f for f in reversed(loops) if f.kind == "vectorize"), None)
    lanes = extent_of(lane) if lane else 1
    written = [f for f in loops if f.kind == "unroll"]
    outside = [f for f in loops if f.kind not in ("unroll", "vectorize")]
    copies = prod(extent_of(f) for f in written)
    times = around.new * prod(extent_of(f) for f in outside)
    width = target.vector_width(store.buffers[0].dtype)
    pieces = registers(lanes, width) if lane else 1
    nodes = postorder(store.values)
    units = instructions(store, nodes, _times(nodes, lane, written, pieces), copies * pieces)
    flops = operations(store)
    kept = store.reducer is not None and around.kept.issuperset(store.buffers)
    counted = [a for a in accesses(store) if a.stores or not (kept and a.updates)]
    loads = sum(_load(a, lane, written, pieces, copies) for a in counted if not a.stores)
    stores = 0.0 if kept else sum(_load(a, lane, [], pieces, copies) for a in counted if a.stores)
    # little overlap of units and loads agrees best with measured times; a vector wider than the
    # datapath takes several passes
    each = max((units + loads) / 2, stores) * (target.passes if lane else 1)
    if store.reducer is not None:
        # each sum waits for its previous value; in memory, also for the store
        each = max(each, LATENCY if kept else 3 * LATENCY)
    if around.guards:
        each *= 2.0
    loop_overhead = 1.0 if outside else 0.0
    around_loops: Sequence[For] = loops
    if grouped:
        counted, around_loops = separate_fused(one_of_each_group(counted), loops)
    streamed = any(streams(f, store) for f in loops)
    if streamed:
        # such stores fill no lines
        counted = [access for access in counted if not access.stores]
    moved = line_traffic(counted, around_loops, extent_of, target.caches, resident, jumps)
    traffic = tuple(bytes_ / rate for bytes_, rate in zip(moved, RATES[-len(moved) :]))
    compute = times * (each + loop_overhead)
    if kept and any(f.axis.is_reduce for f in around.entered):
        # each block of steps loads the registers before it, and stores them after it
        vectors = copies * pieces * (target.passes if lane else 1)
        runs = around.new * prod(extent_of(f) for f in around.entered)
        compute += runs * (MOVED * vectors + 3 * LATENCY)
    if streamed and (outer_loop := parallel_loop(loops)) is not None:
        loop, starts = outer_loop
        compute += FENCE * extent_of(loop) * starts
    if around.call is not None:
        outer, cycles = around.call
        compute = around.new * prod(extent_of(f) for f in outer) * cycles
    return Cost(loops, compute, traffic, times * copies * lanes * around.share * flops)


def _times(
    nodes: Sequence[Expr], lane: For | None, written: Sequence[For], pieces: int
) -> Callable[[Expr], float]:
    """Return a function that counts the instructions of one of ``nodes``, over all copies.

    Copies include all vectors. A value that copies or lanes share is computed once.
    """
    many = {f.axis: extent_of(f) for f in written} | ({lane.axis: pieces} if lane else {})
    # the axes among them that each node depends on; most have the axes of one operand
    none: frozenset[Expr] = frozenset()
    axes: dict[int, frozenset[Expr]] = {}
    for node in nodes:
        own = frozenset([node]) if node in many else none
        for child in node.children:
            own = own | axes[id(child)] if own else axes[id(child)]
        axes[id(node)] = own

    def times(node: Expr) -> float:
        return prod([count for axis, count in many.items() if axis in axes[id(node)]])

    return times


def _load(
    access: Access, lane: For | None, written: Sequence[For], pieces: int, copies: int
) -> float:
    """Return the load or store instructions of all copies; equal ones count once."""
    offset = flat(access.buffer, access.indices)
    equal = prod(extent_of(f) for f in written if lane_step(offset, f.axis) == 0)
    count = copies / max(1, equal)
    if lane is None:
        return count
    step = lane_step(offset, lane.axis)
    if step == 0:
        return count
    if step == 1:
        return count * pieces
    # strided lanes load one element at a time, unless unrolled copies form a square to transpose
    square = any(extent_of(f) >= 8 and lane_step(offset, f.axis) == 1 for f in written)
    return count * (2.0 * pieces if square else 1.5 * extent_of(lane))
