"""Tiles of sums that fit vector registers: one data axis in lanes, others unrolled as rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations
from math import inf, log2, prod

from schedlang.autotune.knobs import Decision, Knobs
from schedlang.autotune.tactics.access import Access
from schedlang.autotune.tactics.facts import StageFacts, is_long
from schedlang.autotune.tactics.knob import UNLIKE, Knob, Moves
from schedlang.compute.tensor import ComputeOp
from schedlang.diagnostics.tiles import registers
from schedlang.expr.dtypes import itemsize
from schedlang.expr.nodes import Axis
from schedlang.host import LINE
from schedlang.index.simplify import to_lin

# the most vectors along the lanes: of a tile with rows, and of one without
# nobody has measured these values
MOST_VECTORS, MOST_ALONE = 4, 8
# the fewest tiles along an axis whose last tile may be smaller: that one needs a copy of the code
# nobody has measured this value
LEAST_TILES = 16
# of a tile that is stored transposed: the most vectors, as each lane is compiled, and the fewest
# rows, which are the contiguous elements of a store
# nobody has measured these values
MOST_TRANSPOSED, LEAST_TRANSPOSED = 2, 4
# the fewest sums that keep a core's multiply-adds busy: their latency times their rate
# by definition: 4 cycles times 2 a cycle
LEAST_SUMS = 8
# of tiles that are larger than whole ones: how many are tried, and the most that the last one may
# lack of a whole one, as a part of all points
# nobody has measured these values
MOST_LARGER, MOST_WASTE = 2, 0.15
# the cost of loading a vector that no step reads again, in loads of an element
# nobody has measured this value
VECTOR_LOAD = 3
# the most tiles that a descent tries
# nobody has measured this value
MOST_TILES = 8


def largest_tiles(options: Sequence[Decision]) -> list[Decision]:
    """Return the first tile of each number of vectors and each set of axes: the largest of them.

    >>> largest_tiles([[2, [0, 6]], [2, [0, 4]], [2, [1, 4]], [1, [0, 4]]])
    [[2, [0, 6]], [2, [1, 4]], [1, [0, 4]]]
    """
    largest: dict[object, Decision] = {}
    for option in options:
        vectors, *rows = option if isinstance(option, list) and option else (option,)
        axes = tuple(str(row[0]) if isinstance(row, list) else str(row) for row in rows)
        largest.setdefault((str(vectors), axes), option)
    return list(largest.values())


def tiles_apart(a: Decision, b: Decision) -> float:
    """Return the distance of two register tiles: of their vectors, and of the rows of each axis."""
    try:
        mine, theirs = ({"vectors": t[0], **{str(at): n for at, n in t[1:]}} for t in (a, b))
        return sum(
            abs(log2(mine.get(at, 1) / theirs.get(at, 1)))
            * (UNLIKE if (at in mine) != (at in theirs) else 1)
            for at in {*mine, *theirs}
        )
    except (TypeError, ValueError, IndexError, ZeroDivisionError):
        # a recorded decision is data, of any form
        return UNLIKE


TILE = Knob(
    "C.tile",
    "tiles that fit the registers",
    "the tile: the number of vectors along the vectorized axis, then each other axis with its "
    "extent. `[2, [0, 5]]` is 2 vectors by 5 rows of axis 0",
    Moves(rank=6, tried=largest_tiles, most=MOST_TILES, apart=tiles_apart),
)


@dataclass(frozen=True)
class Lane:
    """A data axis, by position, that can be vectorized.

    * ``packed``: the reads whose operands must be packed for that.
    * ``packable``: the reads whose operands may be packed.
    * ``transposed``: the axis is not the contiguous one of the result, so that a tile is stored
      transposed.
    """

    at: int
    packed: tuple[Access, ...]
    packable: tuple[Access, ...]
    transposed: bool


@dataclass(frozen=True)
class Registers:
    """The registers of one operand that a tile reads again, and of a use beside them."""

    operand: int = 1
    use: int = 0


# a multiply-add takes its operands as they are
ONE_EACH = Registers()


@dataclass(frozen=True)
class Tile:
    """A tile of sums: vectors along the lanes, and rows along other data axes."""

    vectors: int
    rows: tuple[tuple[int, int], ...]


def lane_axes(stage: StageFacts, last: int) -> list[Lane]:
    """Return the data axes of a reduction that can be lanes; ``last`` is the contiguous one."""
    key = ("lane_axes", last)
    if key not in stage.derived:
        stage.derived[key] = _lane_axes(stage, last)
    return list(stage.derived[key])


def _lane_axes(stage: StageFacts, last: int) -> list[Lane]:
    op, reads, width = stage.op, stage.reads, stage.width
    possible: list[Lane] = []
    for at, (axis, extent) in enumerate(zip(op.axis, stage.lengths)):
        if extent == 1:
            continue
        others = [a for a in op.axis if a is not axis and is_long(a)]
        lanes = min(width, extent)
        packed, packable, fits = [], [], True
        for read in reads:
            if read.fixed(axis, lanes) or is_side_by_side(op, read, axis):
                continue
            # packing pays only for elements that are read again
            reused = any(read.fixed(a) for a in others)
            direct = read.tensor in op.input_tensors and _panels_serve(op, read, reads, axis, lanes)
            if read.contiguous(axis, lanes):
                # rows of one vector are as a copy would have them
                packable += [read] if reused and direct and extent > stage.width else []
            elif reused and direct:
                packed.append(read)
            else:
                fits = False
        transposed = at != last
        if transposed and not any(r == last for r in row_axes(stage, at)):
            fits = False
        lane = Lane(at, tuple(packed), tuple(packable), transposed)
        if fits and tiles(stage, lane, last):
            possible.append(lane)
    # steps that stand side by side serve dot products along one axis alone
    dots = [x for x in possible if any(is_side_by_side(op, r, op.axis[x.at]) for r in reads)]
    # in a layout of blocks, no other axis is as good as the vector of a block
    blocks = [x for x in possible if x.at == last and not x.packed and stage.lengths[last] == width]
    return dots or blocks or possible


def is_side_by_side(op: ComputeOp, read: Access, axis: Axis) -> bool:
    """Return whether a few steps of a reduction stand side by side for each lane along ``axis``.

    They have the bytes of a sum, so that a dot product of the processor takes them.
    """
    last, dtype = len(read.indices) - 1, op.outputs[0].dtype
    count = itemsize(dtype) // itemsize(read.tensor.dtype)
    if count < 2 or to_lin(read.tensor.shape[last]).const != count:
        return False
    steps = [a for a in op.reduce_axis if read.own_dimension(a) == last]
    whole = any(to_lin(a.extent).const == count for a in steps)
    return whole and read.own_dimension(axis) == last - 1


def _panels_serve(
    op: ComputeOp, read: Access, reads: Sequence[Access], axis: Axis, lanes: int
) -> bool:
    """Return whether a copy in panels along ``axis`` serves all reads of a tensor.

    Any other read must be of one element for all lanes, in a panel that no reduction step changes.
    """
    dimension = read.own_dimension(axis)
    others = [r for r in reads if r.tensor is read.tensor and r is not read]
    return dimension is not None and all(
        r.fixed(axis, lanes) and not r.depends(dimension, op.reduce_axis) for r in others
    )


def row_axes(stage: StageFacts, lane: int) -> list[int]:
    """Return the data axes, other than the lanes, that read some element again."""
    reads, held = stage.reads, stage.time_axes
    return [
        at
        for at, axis in enumerate(stage.op.axis)
        if at >= held and at != lane and is_long(axis) and any(r.fixed(axis) for r in reads)
    ]


def tiles(
    stage: StageFacts, lane: Lane, last: int, sizes: Sequence[int] = (), room: Registers = ONE_EACH
) -> list[Tile]:
    """Return the tiles whose sums and operands fit the target's vector registers, largest first.

    ``sizes`` are the points along each data axis, by default all points of the stage. Operands take
    the registers that ``room`` says.
    """
    key = ("tiles", lane, last, tuple(sizes), room)
    if key not in stage.derived:
        stage.derived[key] = _tiles(stage, lane, last, sizes, room)
    return list(stage.derived[key])


def _tiles(
    stage: StageFacts, lane: Lane, last: int, sizes: Sequence[int], room: Registers
) -> list[Tile]:
    own = stage.lengths
    best = _best(_fitting(stage, lane, last, sizes or own, room))
    valid = [t for t in best if _rest_fits(stage, lane, t)]
    if best and not sizes and (not valid or 2 * sums(best[0]) <= LEAST_SUMS):
        # on short axes, or axes of prime extent, allow a smaller last tile
        short = _fitting(stage, lane, last, own, room, short=True)
        more = _best([t for t in short if _rest_fits(stage, lane, t)])
        if more and (not valid or sums(more[0]) >= LEAST_SUMS):
            return more
    if valid and not sizes:
        valid += _whole_lines(stage, lane, last, valid, room)
        larger = _larger(stage, lane, last, valid, room)
        # where a last tile is smaller anyway, the others had better be large
        valid = [*larger, *(t for t in valid if not larger or not _waste(t, own))]
    return sorted(valid, key=_largest) or best


def _whole_lines(
    stage: StageFacts, lane: Lane, last: int, known: Sequence[Tile], room: Registers
) -> list[Tile]:
    """Return tiles that read whole cache lines, if no ``known`` one with enough sums does.

    Their last tiles may be smaller, if they use the core at least as well as the known ones.
    """
    width, most = stage.problem.target.vector_bytes, max(map(sums, known))

    def better(tile: Tile) -> bool:
        return tile.vectors * width >= LINE and sums(tile) > min(most, LEAST_SUMS)

    if width >= LINE or any(map(better, known)):
        return []
    sizes = stage.lengths
    best_use = max(_utilization(t, sizes) for t in known)
    return [
        t
        for t in _fitting(stage, lane, last, sizes, room, short=True)
        if better(t) and _utilization(t, sizes) >= best_use and _rest_fits(stage, lane, t)
    ]


def _larger(
    stage: StageFacts, lane: Lane, last: int, known: Sequence[Tile], room: Registers
) -> list[Tile]:
    """Return tiles whose last one is smaller, if the ``known`` ones leave registers unused.

    They read their operands less often for each sum, or have more sums. For 7 by 7 pixels with
    channels in blocks, whole tiles are one row of 7 high, and tiles of 2 rows read the weights half
    as often. Where these do not fit, tiles of 4 pixels and 2 blocks read the pixels half as often.
    """
    sizes = stage.lengths
    most = max((sums(t) for t in known if not _waste(t, sizes)), default=0)
    blocks = sizes[lane.at] == stage.width and len(row_axes(stage, lane.at)) > 2
    if not blocks or 2 * most > stage.problem.target.vector_registers:
        return []
    reads = _movements(stage, lane)

    def each(tile: Tile) -> float:
        return _loads(reads, tile) / sums(tile)

    least = min(map(each, known), default=inf)
    shorter = _fitting(stage, lane, last, sizes, room, short=True)
    better = [t for t in shorter if sums(t) > most or (sums(t) >= LEAST_SUMS and each(t) < least)]
    fitting = [t for t in better if _waste(t, sizes) <= MOST_WASTE and _rest_fits(stage, lane, t)]
    return sorted(fitting, key=lambda t: (each(t), _largest(t)))[:MOST_LARGER]


def _loads(reads: Sequence[_Movement], tile: Tile) -> int:
    """Return the vectors and elements that a tile reads in a step, in loads of an element.

    The line of an element serves many steps, in the first cache; each vector is a line of its own.
    """
    return sum(
        (VECTOR_LOAD * tile.vectors if read.lanes else 1)
        * prod(n for at, n in tile.rows if read.along[at])
        for read in reads
    )


def _waste(tile: Tile, sizes: Sequence[int]) -> float:
    """Return the part of the points of whole tiles along the rows that are past the last point."""
    kept = prod(sizes[at] / (-(-sizes[at] // rows) * rows) for at, rows in tile.rows)
    return 1 - kept


def _utilization(tile: Tile, sizes: Sequence[int]) -> float:
    """Return the part of a core's multiply-adds that tiles use, smaller last tiles included."""
    # pairs of a number of tiles and the sums of each
    tiles = [(1, tile.vectors)]
    for at, rows in tile.rows:
        whole, rest = divmod(sizes[at], rows)
        tiles = [(n * m, s * r) for n, s in tiles for m, r in ((whole, rows), (1, rest)) if r]
    return sum(n * s for n, s in tiles) / sum(n * max(s, LEAST_SUMS) for n, s in tiles)


def _best(known: Sequence[Tile]) -> list[Tile]:
    """Return the tiles with enough sums, or else those with the most sums, largest first."""
    enough = [t for t in known if sums(t) >= LEAST_SUMS]
    if known and not enough:
        most = max(map(sums, known))
        enough = [t for t in known if sums(t) == most]
    return sorted(enough, key=_largest)


def _largest(tile: Tile) -> tuple[int, int, tuple[tuple[int, int], ...]]:
    """Return a key that sorts tiles, the ones with the most sums first.

    If tiles have several kinds of rows, long rows along the last axes come first: they are near in
    memory.
    """
    rows = tile.rows
    if len(rows) > 1:
        rows = tuple((-at, -count) for at, count in reversed(rows))
    return -sums(tile), tile.vectors, rows


def _rest_fits(stage: StageFacts, lane: Lane, tile: Tile) -> bool:
    """Return whether registers also hold the sums and an operand of a last tile of fewer lanes."""
    extent, width = stage.op.axis[lane.at].extent, stage.width
    rest = extent % (tile.vectors * width) if isinstance(extent, int) else 0
    copies = sums(tile) // tile.vectors
    return registers(rest, width) * (copies + 1) < stage.problem.target.vector_registers


def _fitting(
    stage: StageFacts, lane: Lane, last: int, sizes: Sequence[int], room: Registers,
    short: bool = False,
) -> list[Tile]:  # fmt: skip
    """Return the tiles that fit; if ``short``, the last tile of any axis may be smaller."""
    width = stage.width
    rows = row_axes(stage, lane.at)
    length, extent = sizes[lane.at], stage.op.axis[lane.at].extent
    if not isinstance(extent, int) and not stage.little_padding(length, width):
        return []
    least = 1 if short else LEAST_TILES

    known = _movements(stage, lane)
    available = stage.problem.target.vector_registers - room.use

    def fits(lanes: int, counts: Mapping[int, int]) -> bool:
        """Return whether registers hold the sums of several kinds of rows, and their operands."""
        operands = min(_held(known, lanes, order) for order in permutations(counts.items()))
        return lanes * prod(counts.values()) + operands * room.operand <= available

    most = max(1, min(MOST_VECTORS if rows else MOST_ALONE, -(-length // width)))
    some = [v for v in range(1, most + 1) if _in_panels(stage, lane, v)]
    whole = [v for v in some if length % (v * width) == 0]
    wider = [v for v in some if length >= LEAST_TILES * v * width]
    if whole == [1] and wider:
        # vectors one by one, as 1000 elements divide into, would use parts of cache lines
        whole = wider
    fitting = []
    for vectors in whole or some:
        # cutting rows as well as lanes makes four copies of the code: only for long axes
        cut = short or bool(whole) or length >= LEAST_TILES * vectors * width
        used = registers(min(vectors * width, length), width)
        most_rows = (available - (used + 1) * room.operand) // used
        for chosen in _subsets(rows):
            if lane.transposed and (last not in chosen or vectors > MOST_TRANSPOSED):
                continue
            # a transposed store unrolls the lanes, so that their number must be constant
            if lane.transposed and to_lin(extent % (vectors * width)).const is None:
                continue
            for counts in _row_counts([sizes[r] for r in chosen], most_rows, cut, least):
                rows_ = dict(zip(chosen, counts))
                if lane.transposed and rows_[last] < min(LEAST_TRANSPOSED, sizes[last]):
                    continue
                if len(counts) > 1 and not fits(used, rows_):
                    continue
                fitting.append(Tile(vectors, tuple(rows_.items())))
    return fitting


def _in_panels(stage: StageFacts, lane: Lane, vectors: int) -> bool:
    """Return whether this many vectors have contiguous operands wherever a single vector has.

    They are not if the vectors are of two panels of an operand that is packed.
    """
    axis, width = stage.op.axis[lane.at], stage.width
    return vectors == 1 or all(
        read.contiguous(axis, vectors * width)
        for read in stage.reads
        if read.contiguous(axis, min(width, stage.lengths[lane.at]))
    )


def choose_tile(stage: StageFacts, shapes: Sequence[Tile], knobs: Knobs) -> Tile:
    """Choose one of ``shapes`` with a knob."""
    # readable in a recorded decision: the vectors, then the axis and count of each kind of rows
    labels = [[t.vectors, *(list(r) for r in t.rows)] for t in shapes]
    chosen = knobs.choice(f"{stage.name}.tile", labels)
    return shapes[labels.index(list(chosen))]


def sums(tile: Tile) -> int:
    """Return the number of vectors of a tile's sums, partly filled ones included."""
    vectors = tile.vectors
    for _, count in tile.rows:
        vectors *= count
    return vectors


def row_order(stage: StageFacts, lane: Lane, tile: Tile) -> tuple[int, ...]:
    """Return the axes of a tile's rows, outermost first, in the order that holds fewest operands.

    An operand that an inner axis moves, and an outer one reads again, is held for all steps of the
    inner one. With 2 blocks of channels inside of 14 pixels, the two vectors of weights are held;
    the other way round it would be 14 pixels.
    """
    known = _movements(stage, lane)
    # the first of equals, as the rows are listed
    best = min(permutations(tile.rows), key=lambda order: _held(known, tile.vectors, order))
    return tuple(at for at, _ in best)


@dataclass(frozen=True)
class _Movement:
    """The axes along which a read moves: the lanes or not, and data axes by position."""

    lanes: bool
    along: tuple[bool, ...]


def _movements(stage: StageFacts, lane: Lane) -> list[_Movement]:
    axes = stage.op.axis
    return [
        _Movement(
            not read.fixed(axes[lane.at], stage.width),
            tuple(not read.fixed(axis) for axis in axes),
        )
        for read in stage.reads
    ]


def _held(reads: Sequence[_Movement], vectors: int, order: Sequence[tuple[int, int]]) -> int:
    """Return the registers of a tile's operands, if ``order`` are its rows, outermost first.

    ``vectors`` are the registers of its lanes.
    """
    total, passing = 0, 0
    for read in reads:
        moves = [read.along[at] for at, _ in order]
        if all(moves):
            # each element is of one row, so that the next one takes its register
            passing = 1
            continue
        again = moves.index(False)
        kept = zip(order[again:], moves[again:])
        total += (vectors if read.lanes else 1) * prod(n for (_, n), moving in kept if moving)
    return total + passing


def _subsets(rows: Sequence[int]) -> Iterator[tuple[int, ...]]:
    yield ()
    for count in (1, 2, 3):
        yield from combinations(rows, count)


def _row_counts(
    sizes: Sequence[int], room: int, cut: bool, least: int
) -> Iterator[tuple[int, ...]]:
    """Yield numbers of rows along each axis, at least 2 each, with a product of at most ``room``.

    They divide the extents of their axes. With ``cut``, one of them need not, if its axis has
    ``least`` tiles: its last tile is compiled separately.
    """
    if not sizes:
        yield ()
        return
    for count in range(2, min(room, sizes[0]) + 1):
        whole = sizes[0] % count == 0
        if whole or (cut and sizes[0] >= least * count):
            for rest in _row_counts(sizes[1:], room // count, cut and whole, least):
                yield (count, *rest)
