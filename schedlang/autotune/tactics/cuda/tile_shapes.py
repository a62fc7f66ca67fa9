"""The tiles of a reduction that a block of GPU threads can compute."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, product

from schedlang.autotune.knobs import Knobs
from schedlang.autotune.tactics.access import Access
from schedlang.autotune.tactics.cuda.occupancy import THREADS, THREADS_MOVE
from schedlang.autotune.tactics.facts import StageFacts, is_long
from schedlang.autotune.tactics.knob import Knob, Moves, at_most
from schedlang.diagnostics.spills import registers_of

# elements of a thread along an axis; the most registers for its sums, and those for everything else
# a search decides among the elements; nobody has measured the registers
EACH, MOST_SUMS, OTHERS = (2, 4, 8), 128, 32
# threads of a block along an axis, and more if there is only one axis
# a search decides among them
ALONG, ALONE = (4, 8, 16, 32, 64), (128, 256)
# virtual threads along an axis: a search decides among them
VIRTUAL = (1, 2)
# the longest axis along which a thread may have one element, and all elements
# nobody has measured these values
SHORT, WHOLE = 16, 8
# two axes that have at most this many points together leave threads for a third axis
# nobody has measured this value
FEW_POINTS = 1024
# the most points of all tiles, those beyond the edge included, for each point of the result
# nobody has measured this value
MOST_PADDED = 1.5
KNOBS = (
    Knob(
        "C.axes", "axes, from 0",
        "the axes of a block's tile: two axes along which some operand is read again, or the only "
        f"axis. If they have at most {FEW_POINTS:,} points together, another axis may add threads, "
        "with one element each",
        Moves(rank=9, structure=True),
    ),
    # elements along an axis of a tile to start from, at most: with these and the threads of
    # THREADS_MOVE, descents for eleven convolutions of ResNet-50 ended at 0.84 of the sum of
    # estimates from the first options
    Knob(
        "C.i.each", "1 to 8", "along `i`: the number of elements per thread",
        Moves(rank=7, start=at_most(2)),
    ),
    Knob("C.i.threads", "1 to 256", "along `i`: the number of threads", THREADS_MOVE),
    Knob("C.i.vthreads", VIRTUAL, "along `i`: the number of virtual threads", Moves(rank=30)),
)  # fmt: skip


@dataclass(frozen=True)
class Part:
    """The split of one data axis: virtual threads, threads, and elements of a thread."""

    at: int
    virtual: int
    threads: int
    each: int

    @property
    def size(self) -> int:
        return self.virtual * self.threads * self.each


Shape = tuple[Part, ...]
# the position and the extent of an axis
Length = tuple[int, int]


def is_reused(stage: StageFacts, read: Access) -> bool:
    """Return whether some data axis reads the same elements again."""
    return any(read.fixed(a) for a in stage.data_axes if is_long(a))


def shapes(stage: StageFacts, head: StageFacts, positions: Sequence[int]) -> tuple[Shape, ...]:
    """Return the tiles of a stage inside ``head``, along axes that read elements again.

    ``positions`` gives for each data axis of ``head`` the corresponding axis of the stage, or -1.
    """
    axes, own = head.op.axis, stage.op.axis
    sizes, reads = stage.extents(axes), stage.reads
    moving = head.data_axes
    free = [at for at, p in enumerate(positions) if p >= 0 and axes[at] in moving and sizes[at] > 1]
    rows = [at for at in free if any(read.fixed(own[positions[at]]) for read in reads)]
    if not rows:
        return ()
    own_registers = sum(registers_of(t.dtype) for t in stage.op.outputs)
    room = stage.problem.target.device.registers_per_sm
    lengths = (tuple((at, sizes[at]) for at in some) for some in (rows, free))
    return _shapes(*lengths, own_registers, room)


def choose_shape(name: str, head: StageFacts, possible: Sequence[Shape], knobs: Knobs) -> Shape:
    """Choose one of the tiles, with one knob for each number; each knob narrows the next."""
    chosen = knobs.choice(f"{name}.axes", list(dict.fromkeys(_positions(s) for s in possible)))
    left = [s for s in possible if _positions(s) == chosen]
    for n, at in enumerate(chosen):
        label = f"{name}.{head.axis_name(at)}"
        for field, knob in (("each", "each"), ("threads", "threads"), ("virtual", "vthreads")):
            options = sorted({getattr(s[n], field) for s in left})
            value = knobs.choice(f"{label}.{knob}", options)
            left = [s for s in left if getattr(s[n], field) == value]
    return left[0]


def _positions(shape: Shape) -> tuple[int, ...]:
    return tuple(part.at for part in shape)


@lru_cache(maxsize=64)
def _shapes(
    rows: tuple[Length, ...], free: tuple[Length, ...], each: int, room: int
) -> tuple[Shape, ...]:
    """Return tiles along two of ``rows``, or along the only one.

    If these are short, a tile may have threads along one of the other ``free`` axes, with one
    element each. A sum takes ``each`` of the ``room`` registers that the threads of a block share.
    """
    tiles = []
    for chosen in combinations(rows, 2) if len(rows) > 1 else [rows]:
        along = [list(_parts(at, size, alone=len(rows) == 1)) for at, size in chosen]
        beside: list[Shape] = [()]
        if math.prod(size for _, size in chosen) <= FEW_POINTS:
            others = [x for x in free if x not in chosen]
            beside += [
                (Part(at, 1, n, 1),) for at, size in others for n in _thread_counts(size, False)
            ]
        sizes = dict(free)
        for parts, more in product(product(*along), beside):
            # in the order of the axes: neighbouring threads get neighbours in memory
            shape = tuple(sorted((*parts, *more), key=lambda part: part.at))
            if _fits(shape, sizes, each, room):
                tiles.append(shape)
    return tuple(tiles)


def _fits(shape: Shape, sizes: dict[int, int], each: int, room: int) -> bool:
    """Return whether a tile has the threads of a block, fits in registers and pads little."""
    threads = math.prod(p.threads for p in shape)
    sums = each * math.prod(p.each * p.virtual for p in shape)
    padded = math.prod(-(-sizes[p.at] // p.size) * p.size / sizes[p.at] for p in shape)
    enough = min(THREADS) <= threads <= max(THREADS)
    in_registers = sums <= min(MOST_SUMS, room // threads - OTHERS)
    return enough and in_registers and padded <= MOST_PADDED


def _parts(at: int, size: int, alone: bool) -> Iterator[Part]:
    """Yield the splits of an axis into virtual threads, threads and elements."""
    whole = {size} if size <= WHOLE else set()
    single = {1} if size <= SHORT else set()
    for each in sorted({n for n in EACH if n <= size} | whole | single):
        for threads in _thread_counts(-(-size // each), alone):
            for virtual in VIRTUAL:
                if virtual == 1 or virtual * threads * each <= size:
                    yield Part(at, virtual, threads, each)


def _thread_counts(size: int, alone: bool) -> list[int]:
    """Return the thread counts for ``size`` pieces; if these are few, each may have a thread."""
    known = (*ALONG, *ALONE) if alone else ALONG
    return sorted({n for n in known if n <= size} | ({size} if size <= max(known) else set()))
