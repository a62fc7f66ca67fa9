"""The tiles of a reduction that a block of a GPU's threads can make."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, product

from schedlang.autotune.rules.access import Access
from schedlang.autotune.rules.scan_steps import data_axes
from schedlang.autotune.rules.sketch import Sketch
from schedlang.codegen.budget import registers_of
from schedlang.compute.tensor import Tensor

# threads of a block
THREADS = (64, 128, 256, 512)
# what one thread computes along an axis; registers for all its sums, and for what is beside them
EACH, MOST_SUMS, OTHERS = (2, 4, 8), 128, 32
# threads of a block along one axis, and along the only one
ALONG, ALONE = (4, 8, 16, 32, 64), (128, 256)
VIRTUAL = (1, 2)
# along axes this short a thread may have one element, or all of them
SHORT, WHOLE = 16, 8
# two axes with no more points together than this leave threads for a third one
FEW_POINTS = 1024
# points of a block's tiles for each that there is: what is beyond the edge is work, too
MOST_PADDED = 1.5


@dataclass(frozen=True)
class Part:
    """Along one data axis: virtual threads, threads, and elements of a thread."""

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


def reused(sketch: Sketch, tensor: Tensor, read: Access) -> bool:
    """Return whether the elements of a read are read again along some data axis."""
    return any(read.fixed(a) for a in data_axes(sketch, tensor) if sketch.long(a))


def shapes(
    sketch: Sketch, tensor: Tensor, head: Tensor, positions: Sequence[int]
) -> tuple[Shape, ...]:
    """Return the tiles of ``tensor`` inside ``head``, along axes on which elements are read again.

    ``positions`` gives for each data axis of ``head`` the axis of ``tensor`` that it goes along, or
    -1.
    """
    axes, own = sketch.op(head).axis, sketch.op(tensor).axis
    sizes, reads = sketch.extents(axes), sketch.reads(tensor)
    moving = data_axes(sketch, head)
    free = [at for at, p in enumerate(positions) if p >= 0 and axes[at] in moving and sizes[at] > 1]
    rows = [at for at in free if any(read.fixed(own[positions[at]]) for read in reads)]
    if not rows:
        return ()
    own_registers = sum(registers_of(t.dtype) for t in sketch.op(tensor).outputs)
    room = sketch.target.device.registers_per_sm
    lengths = (tuple((at, sizes[at]) for at in some) for some in (rows, free))
    return _shapes(*lengths, own_registers, room)


def asked(sketch: Sketch, name: str, head: Tensor, found: Sequence[Shape]) -> Shape:
    """Return one of the tiles, as knobs say one after the other: each has what those before it
    leave."""
    knobs = sketch.knobs
    chosen = knobs.choice(f"{name}.axes", list(dict.fromkeys(_places(s) for s in found)))
    left = [s for s in found if _places(s) == chosen]
    for n, at in enumerate(chosen):
        label = f"{name}.{sketch.axis_name(head, at)}"
        for field, knob in (("each", "each"), ("threads", "threads"), ("virtual", "vthreads")):
            options = sorted({getattr(s[n], field) for s in left})
            value = knobs.choice(f"{label}.{knob}", options)
            left = [s for s in left if getattr(s[n], field) == value]
    return left[0]


def _places(shape: Shape) -> tuple[int, ...]:
    return tuple(part.at for part in shape)


@lru_cache(maxsize=64)
def _shapes(
    rows: tuple[Length, ...], free: tuple[Length, ...], each: int, room: int
) -> tuple[Shape, ...]:
    """Return tiles along two of ``rows``, or along the only one.

    If these are short, threads also go along one of the ``free`` axes, one element each. A sum
    takes ``each`` of the ``room`` registers that the threads of a block share.
    """
    found = []
    for chosen in combinations(rows, 2) if len(rows) > 1 else [rows]:
        along = [list(_parts(at, size, alone=len(rows) == 1)) for at, size in chosen]
        beside: list[Shape] = [()]
        if math.prod(size for _, size in chosen) <= FEW_POINTS:
            others = [x for x in free if x not in chosen]
            beside += [(Part(at, 1, n, 1),) for at, size in others for n in _counts(size, False)]
        sizes = dict(free)
        for parts, more in product(product(*along), beside):
            # neighbours in memory go to neighbouring threads
            shape = tuple(sorted((*parts, *more), key=lambda part: part.at))
            if _fits(shape, sizes, each, room):
                found.append(shape)
    return tuple(found)


def _fits(shape: Shape, sizes: dict[int, int], each: int, room: int) -> bool:
    """Return whether a tile has as many threads as a block, stays in registers and has few points
    more."""
    threads = math.prod(p.threads for p in shape)
    sums = each * math.prod(p.each * p.virtual for p in shape)
    padded = math.prod(-(-sizes[p.at] // p.size) * p.size / sizes[p.at] for p in shape)
    enough = min(THREADS) <= threads <= max(THREADS)
    near = sums <= min(MOST_SUMS, room // threads - OTHERS)
    return enough and near and padded <= MOST_PADDED


def _parts(at: int, size: int, alone: bool) -> Iterator[Part]:
    """Return how an axis can be shared among threads."""
    whole = {size} if size <= WHOLE else set()
    single = {1} if size <= SHORT else set()
    for each in sorted({n for n in EACH if n <= size} | whole | single):
        for threads in _counts(-(-size // each), alone):
            for virtual in VIRTUAL:
                if virtual == 1 or virtual * threads * each <= size:
                    yield Part(at, virtual, threads, each)


def _counts(size: int, alone: bool) -> list[int]:
    """Return the thread counts for ``size`` pieces; few pieces may have a thread each."""
    known = (*ALONG, *ALONE) if alone else ALONG
    return sorted({n for n in known if n <= size} | ({size} if size <= max(known) else set()))


__all__ = ["THREADS", "Part", "Shape", "asked", "reused", "shapes"]
