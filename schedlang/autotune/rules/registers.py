"""Tiles of sums that fit vector registers: one data axis in lanes, others written out as rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from schedlang.autotune.rules.access import Access
from schedlang.autotune.rules.sketch import Sketch
from schedlang.codegen.tiles import registers
from schedlang.compute.tensor import ComputeOp, Tensor
from schedlang.expr.nodes import Axis
from schedlang.expr.simplify import to_lin

MOST_VECTORS = 4
# tiles along an axis whose last one may be smaller, in a copy of the code for it
LEAST_TILES = 16
# what is transposed on its way out is compiled lane by lane, and stored a few columns at a time
MOST_TRANSPOSED, LEAST_TRANSPOSED = 2, 4
# fewer sums than this cannot keep a core's multiply-adds busy: its latency times its rate
LEAST_SUMS = 8
# bytes of a line of a cache
LINE = 64


@dataclass(frozen=True)
class Lane:
    """A data axis, by position, whose neighbours can be lanes.

    ``packed`` are the reads that need another layout for that; ``transposed``: the result leaves
    in another order than it is kept in.
    """

    at: int
    packed: tuple[Access, ...]
    packable: tuple[Access, ...]
    transposed: bool


@dataclass(frozen=True)
class Tile:
    """Vectors along the lanes, and rows along other data axes."""

    vectors: int
    rows: tuple[tuple[int, int], ...]


def lane_axes(sketch: Sketch, tensor: Tensor, last: int) -> list[Lane]:
    """Return the data axes of a reduction that can be lanes.

    ``last`` is the one stored side by side.
    """
    op, reads = sketch.op(tensor), sketch.reads(tensor)
    width = sketch.width(tensor)
    found = []
    for at, (axis, extent) in enumerate(zip(op.axis, sketch.sizes_of(tensor))):
        if extent == 1:
            continue
        others = [a for a in op.axis if a is not axis and sketch.long(a)]
        lanes = min(width, extent)
        packed, packable, fits = [], [], True
        for read in reads:
            if read.fixed(axis, lanes):
                continue
            # a copy pays where its elements are read again
            reused = any(read.fixed(a) for a in others)
            direct = read.tensor in op.input_tensors and _copied(op, read, reads, axis, lanes)
            if read.contiguous(axis, lanes):
                packable += [read] if reused and direct else []
            elif reused and direct:
                packed.append(read)
            else:
                fits = False
        transposed = at != last
        if transposed and not any(r == last for r in row_axes(sketch, tensor, at)):
            fits = False
        lane = Lane(at, tuple(packed), tuple(packable), transposed)
        if fits and tiles(sketch, tensor, lane, last):
            found.append(lane)
    return found


def _copied(op: ComputeOp, read: Access, reads: Sequence[Access], axis: Axis, lanes: int) -> bool:
    """Return whether a copy in panels along ``axis`` serves all that is read of a tensor.

    What else is read of it is then one element for all lanes, in a panel that no step changes.
    """
    dimension = read.own_dimension(axis)
    others = [r for r in reads if r.tensor is read.tensor and r is not read]
    return dimension is not None and all(
        r.fixed(axis, lanes) and not r.depends(dimension, op.reduce_axis) for r in others
    )


def row_axes(sketch: Sketch, tensor: Tensor, lane: int) -> list[int]:
    """Return the data axes along which some element is read again, apart from the lanes."""
    op, reads, held = sketch.op(tensor), sketch.reads(tensor), sketch.held(tensor)
    return [
        at for at, axis in enumerate(op.axis)
        if at >= held and at != lane and sketch.long(axis) and any(r.fixed(axis) for r in reads)
    ]  # fmt: skip


def tiles(
    sketch: Sketch, tensor: Tensor, lane: Lane, last: int, sizes: Sequence[int] = ()
) -> list[Tile]:
    """Return the tiles whose sums and operands fit the target's vector registers, largest first.

    ``sizes``: how many points there are along each data axis, if not those of ``tensor``.
    """
    own = sketch.sizes_of(tensor)
    found = _best(_fitting(sketch, tensor, lane, last, sizes or own))
    valid = [t for t in found if _rest_fits(sketch, tensor, lane, t)]
    if found and not sizes and (not valid or 2 * sums(found[0]) <= LEAST_SUMS):
        # of short and of prime axes any last tile may be smaller
        short = _fitting(sketch, tensor, lane, last, own, short=True)
        more = _best([t for t in short if _rest_fits(sketch, tensor, lane, t)])
        if more and (not valid or sums(more[0]) >= LEAST_SUMS):
            return more
    if valid and not sizes:
        valid += _whole_lines(sketch, tensor, lane, last, valid)
    return sorted(valid, key=_largest) or found


def _whole_lines(
    sketch: Sketch, tensor: Tensor, lane: Lane, last: int, known: Sequence[Tile]
) -> list[Tile]:
    """Return tiles that read whole cache lines, if no ``known`` one does with enough sums.

    Their last tiles may be smaller than the rest, if that makes no more work.
    """
    width, most = sketch.target.vector_bytes, max(map(sums, known))

    def better(tile: Tile) -> bool:
        return tile.vectors * width >= LINE and sums(tile) > min(most, LEAST_SUMS)

    if width >= LINE or any(map(better, known)):
        return []
    sizes = sketch.sizes_of(tensor)
    busiest = max(_busy(t, sizes) for t in known)
    return [
        t for t in _fitting(sketch, tensor, lane, last, sizes, short=True)
        if better(t) and _busy(t, sizes) >= busiest and _rest_fits(sketch, tensor, lane, t)
    ]  # fmt: skip


def _busy(tile: Tile, sizes: Sequence[int]) -> float:
    """Return the part of a core's multiply-adds that tiles keep busy, the last ones counted in."""
    # how many tiles there are of how many sums
    tiles = [(1, tile.vectors)]
    for at, rows in tile.rows:
        whole, rest = divmod(sizes[at], rows)
        tiles = [(n * m, s * r) for n, s in tiles for m, r in ((whole, rows), (1, rest)) if r]
    return sum(n * s for n, s in tiles) / sum(n * max(s, LEAST_SUMS) for n, s in tiles)


def _best(found: Sequence[Tile]) -> list[Tile]:
    """Return the tiles with enough sums, largest first; if none has, those with most sums."""
    enough = [t for t in found if sums(t) >= LEAST_SUMS]
    if found and not enough:
        most = max(map(sums, found))
        enough = [t for t in found if sums(t) == most]
    return sorted(enough, key=_largest)


def _largest(tile: Tile) -> tuple[int, int, tuple[tuple[int, int], ...]]:
    return -sums(tile), tile.vectors, tile.rows


def _rest_fits(sketch: Sketch, tensor: Tensor, lane: Lane, tile: Tile) -> bool:
    """Return whether registers hold the sums and an operand of a last tile of fewer lanes, too."""
    extent, width = sketch.op(tensor).axis[lane.at].extent, sketch.width(tensor)
    rest = extent % (tile.vectors * width) if isinstance(extent, int) else 0
    copies = sums(tile) // tile.vectors
    return registers(rest, width) * (copies + 1) < sketch.target.vector_registers


def _fitting(
    sketch: Sketch, tensor: Tensor, lane: Lane, last: int, sizes: Sequence[int],
    short: bool = False,
) -> list[Tile]:  # fmt: skip
    """Return the tiles that fit; with ``short`` the last tile of any axis may be smaller."""
    width = sketch.width(tensor)
    rows = row_axes(sketch, tensor, lane.at)
    length, extent = sizes[lane.at], sketch.op(tensor).axis[lane.at].extent
    if not isinstance(extent, int) and not sketch.fills(tensor, length, width):
        return []
    least = 1 if short else LEAST_TILES
    most = max(1, min(MOST_VECTORS, -(-length // width)))
    whole = [v for v in range(1, most + 1) if length % (v * width) == 0]
    found = []
    for vectors in whole or range(1, most + 1):
        # a row that is cut, too, makes four copies of the code: only for long ones
        cut = short or bool(whole) or length >= LEAST_TILES * vectors * width
        taken = registers(min(vectors * width, length), width)
        room = (sketch.target.vector_registers - taken - 1) // taken
        for chosen in _subsets(rows):
            if lane.transposed and (last not in chosen or vectors > MOST_TRANSPOSED):
                continue
            # what is transposed is written out, which takes a number of lanes
            if lane.transposed and to_lin(extent % (vectors * width)).const is None:
                continue
            for counts in _counts([sizes[r] for r in chosen], room, cut, least):
                rows_ = dict(zip(chosen, counts))
                if lane.transposed and rows_[last] < min(LEAST_TRANSPOSED, sizes[last]):
                    continue
                found.append(Tile(vectors, tuple(rows_.items())))
    return found


def asked(sketch: Sketch, tensor: Tensor, shapes: Sequence[Tile]) -> Tile:
    """Return one of ``shapes``, as a knob says."""
    # the label says what it is, so that a kept decision can be read
    labels = [[t.vectors, *(list(r) for r in t.rows)] for t in shapes]
    chosen = sketch.knobs.choice(f"{sketch.name(tensor)}.tile", labels)
    return shapes[labels.index(list(chosen))]


def sums(tile: Tile) -> int:
    """Return how many vectors a tile's sums are; one that is filled in part counts as another."""
    found = tile.vectors
    for _, count in tile.rows:
        found *= count
    return found


def _subsets(rows: Sequence[int]) -> Iterator[tuple[int, ...]]:
    yield ()
    for count in (1, 2):
        yield from combinations(rows, count)


def _counts(
    sizes: Sequence[int], room: int, cut: bool, least: int
) -> Iterator[tuple[int, ...]]:  # fmt: skip
    """Yield rows along each axis, at least 2, at most ``room`` together, that divide their axis.

    Along one of them the last may be cut off, if there are ``least`` tiles: what is cut is compiled
    a second time.
    """
    if not sizes:
        yield ()
        return
    for count in range(2, min(room, sizes[0]) + 1):
        whole = sizes[0] % count == 0
        if whole or (cut and sizes[0] >= least * count):
            for rest in _counts(sizes[1:], room // count, cut and whole, least):
                yield (count, *rest)
