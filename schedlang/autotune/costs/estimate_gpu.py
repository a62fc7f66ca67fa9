"""The estimated cost of a program on a GPU, from the first warp of each kernel.

The model is a roofline with occupancy (Williams, Waterman and Patterson, "Roofline", CACM 2009). It
counts issued instructions, sectors of global memory and passes of shared memory, and divides each
by the rate of the device. Blocks that run one after another add the cycles that each waits
(``waits.py``). The addresses of the first warp stand for the addresses of all warps. The estimate
only ranks candidates.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from schedlang.autotune.costs.devices import speed_of
from schedlang.autotune.costs.estimate import Estimate, work_of
from schedlang.autotune.costs.waits import waiting_cycles
from schedlang.autotune.costs.warp import Work, size_of, work_of_warp
from schedlang.diagnostics.spills import registers_of
from schedlang.gpu_lowering.counters import SECTOR, WARP
from schedlang.gpu_lowering.program import Launch, Program, Repeat, Step, When
from schedlang.ir.accesses import read_buffers, stores, written_buffers
from schedlang.target import Target

# how many times faster caches are than global memory, and the part of global memory's bandwidth
# that a kernel reaches (measured on an H100)
CACHED, REACHED = 2.5, 0.9
# bytes per cycle from the cache to one multiprocessor (A100: 5120 in all, by its whitepaper)
CACHE_RATE = 64
# warp instructions that a multiprocessor issues per cycle, and the warps that it takes to issue so
# many
# the first by definition of the device; the second was fitted on an H100
ISSUE, ISSUING = 4, 5
# cycles per instruction of a loop that the instruction cache does not hold
# fitted on an H100
FETCH = 2.3
# seconds to launch a kernel
# nobody has measured this value
LAUNCH = 3e-6


def estimate_gpu(program: Program, target: Target) -> Estimate:
    """Return the cost of ``program`` on ``target``; ``flops`` counts a whole call.

    >>> import schedlang as sl
    >>> from schedlang.gpu_lowering.lower import device_program
    >>> def made(threads):
    ...     A = sl.placeholder((1 << 20,), name="A")
    ...     B = sl.compute((1 << 20,), lambda i: A[i] + 1, name="B")
    ...     s = sl.schedule(B)
    ...     block, thread = s[B].split(B.op.axis[0], factor=threads)
    ...     s[B].bind(block, "blockIdx.x"); s[B].bind(thread, "threadIdx.x")
    ...     return device_program(sl.lower(s), sl.Target("cuda"))
    >>> few, many = (estimate_gpu(made(n), sl.Target("cuda")) for n in (8, 256))
    >>> few.seconds > many.seconds
    True
    """
    seconds = 0.0
    for launch, times in _launches(program.steps, 1):
        work = work_of_warp(launch, program.nest, target)
        blocks = prod(size_of(i.extent) for i in launch.grid)
        warps = -(-launch.threads // WARP)
        seconds += times * (LAUNCH + _seconds(launch, work, blocks, warps, target))
    return Estimate(seconds, work_of(program.nest))


def _launches(steps: Sequence[Step], times: int) -> Iterator[tuple[Launch, int]]:
    """Yield each kernel with the number of its launches."""
    for step in steps:
        if isinstance(step, Launch):
            yield step, times
        elif isinstance(step, Repeat):
            yield from _launches(step.body, times * size_of(step.extent))
        elif isinstance(step, When):
            yield from _launches(step.body, times)


def _seconds(launch: Launch, work: Work, blocks: int, warps: int, target: Target) -> float:
    """Return the estimated seconds of one launch."""
    device, speed = target.device, speed_of(target)
    units = speed.multiprocessors
    resident = resident_blocks(launch, target)
    # a partial last wave takes as long as a full one
    waves = -(-blocks // (units * resident))
    active = min(resident, -(-blocks // units)) * warps
    stretch = max(1.0, ISSUING / active)
    # blocks per multiprocessor
    share = waves * resident if blocks > units * resident else -(-blocks // units)
    issue = share * warps * work.instructions / ISSUE / speed.clock
    shared = share * warps * work.passes / speed.clock
    each = warps * work.sectors * SECTOR
    # what is read again comes from a cache
    once = min(blocks * each, _bytes(launch))
    moved = max(
        once / (speed.memory * REACHED),
        blocks * each / (speed.memory * CACHED),
        share * each / (CACHE_RATE * speed.clock),
    )
    slow = max(issue, shared, moved)
    fetch = waves * work.fetched * FETCH / speed.clock
    spilled = 2.0 if registers(launch) > device.registers else 1.0
    busy = stretch * (slow + 0.1 * (issue + shared + moved - slow))
    return spilled * (max(busy, fetch) + waves * waiting_cycles(launch.body) / speed.clock)


def resident_blocks(launch: Launch, target: Target) -> int:
    """Return how many blocks of a kernel a multiprocessor runs at the same time."""
    device = target.device
    held = max(1, registers(launch)) * launch.threads
    return max(1, min(
        device.threads_per_sm // launch.threads, device.blocks_per_sm,
        device.shared_per_sm // max(1, launch.shared_bytes), device.registers_per_sm // held,
    ))  # fmt: skip


def occupancy(launch: Launch, target: Target) -> float:
    """Return the part of the warps of a multiprocessor that a kernel's blocks fill."""
    warps = resident_blocks(launch, target) * -(-launch.threads // WARP)
    return min(1.0, warps * WARP / target.device.threads_per_sm)


def _bytes(launch: Launch) -> int:
    """Return the bytes of the global arrays that a kernel accesses; symbolic ones count 0."""
    buffers = written_buffers(launch.body) | read_buffers(launch.body)
    return sum(b.bytes or 0 for b in buffers if b.scope == "global")


def registers(launch: Launch) -> int:
    """Return the number of registers that a thread needs for local storage and addresses.

    Local storage includes the elements on their way into a double buffer. Each element takes at
    least one register, even if its dtype is smaller.
    """
    local = {b for s in stores(launch.body) for b in s.stmt.buffers if b.scope == "local"}
    return 24 + sum((b.size or 0) * registers_of(b.dtype) for b in local)
