"""The memory requests of a warp, and the threads that store each element: numbers of GPU kernels.

A request is one instruction of one warp. Global memory answers in sectors of 32 bytes; shared
memory has 32 banks of 4 bytes. ``gpu_lowering/counters.py`` has the sources.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from schedlang.errors import BuildError, PlotError, explain
from schedlang.expr.dtypes import itemsize
from schedlang.gpu_lowering.counters import BANKS, SECTOR, WARP, WORD, Counters
from schedlang.gpu_lowering.lower import device_program
from schedlang.gpu_lowering.memory_requests import Request, depends_on_data, requests_of_block
from schedlang.gpu_lowering.program import Launch, Program
from schedlang.ir.nodes import Buffer
from schedlang.ir.printer import expr_text
from schedlang.plot.boxes import drawn_box
from schedlang.plot.subject import Subject, buffer_of, shape_of
from schedlang.target import Target

# the most requests of a block that are followed, and the most elements whose threads are found
MOST_REQUESTS = 50_000
MOST_ELEMENTS = 128 * 128


@dataclass(frozen=True, eq=False)
class WarpRequest:
    """The costliest request that one warp makes for an access of a kernel's program.

    ``lanes`` are the threads of the warp that take part, ``bytes`` the offset in the buffer at
    which each accesses ``width`` bytes. ``cost`` is the number of sectors of global memory, or of
    passes of shared memory. ``requests`` counts the requests of the access that were followed:
    all, or if not ``complete`` only the first requests of the block.
    """

    title: str
    buffer: str
    text: str
    stores: bool
    scope: str
    itemsize: int
    lanes: np.ndarray
    bytes: np.ndarray
    width: int
    cost: int
    requests: int
    complete: bool = True

    @property
    def used(self) -> int:
        """The different bytes that the lanes access."""
        return int(np.unique(self.elements).size) * self.itemsize

    @property
    def elements(self) -> np.ndarray:
        """The elements of each lane, a row for each."""
        each = np.arange(self.width // self.itemsize)
        return self.bytes[:, None] // self.itemsize + each

    @property
    def least(self) -> int:
        """The sectors, or passes, that the same bytes need at least."""
        return -(-self.used // SECTOR) if self.scope == "global" else self._groups

    @property
    def _groups(self) -> int:
        """The groups of lanes that shared memory serves one after the other."""
        return len(self.groups())

    def groups(self) -> list[np.ndarray]:
        """Return the positions in ``lanes`` that shared memory serves together.

        Accesses of 8 and 16 bytes are served by half and quarter warps.
        """
        count = WARP // max(1, self.width // WORD)
        number = self.lanes // count
        return [np.flatnonzero(number == k) for k in np.unique(number)]

    def ways(self, group: np.ndarray) -> np.ndarray:
        """Return how many different words a group of lanes needs from each bank."""
        words = np.unique(self.words(group))
        return np.bincount(words % BANKS, minlength=BANKS)

    def words(self, group: np.ndarray) -> np.ndarray:
        """Return the words of 4 bytes of each lane of a group, a row for each."""
        first = self.bytes[group] // WORD
        return np.asarray(first[:, None] + np.arange(max(1, self.width // WORD)))


def program_of(subject: Subject, call: str) -> Program:
    """Return the kernels of a subject.

    Raise :class:`~schedlang.errors.PlotError` if it has none, or if data decide its addresses.
    """
    try:
        program = device_program(subject.nest, Target("cuda"))
    except BuildError as error:
        raise PlotError(f"{call}({subject.title}): {error}") from None
    if not program.launches:
        raise PlotError(f"{call}({subject.title}): it launches no kernel, since it has no element")
    if depends_on_data(program):
        raise PlotError(
            f"{call}({subject.title}): data decide its addresses, as in a gather, and "
            "a picture has none"
        )
    return program


def launch_of(program: Program, kernel: str | None, call: str) -> Launch:
    """Return the kernel of that name, by default the last one."""
    names = [launch.name for launch in program.launches]
    if kernel is not None and kernel not in names:
        raise PlotError(f"{call}(..., kernel={kernel!r}): the kernels are {', '.join(names)}")
    return program.launches[-1 if kernel is None else names.index(kernel)]


def warp_requests(
    subject: Subject, scope: str, which: Any, kernel: str | None, warp: int, call: str
) -> list[WarpRequest]:
    """Return a request for each access to ``scope`` memory, the costliest one of warp ``warp``.

    They are the requests of block 0, in program order. ``which`` limits them to one buffer.
    """
    program = program_of(subject, call)
    launch = launch_of(program, kernel, call)
    warps = -(-launch.threads // WARP)
    if isinstance(warp, bool) or not isinstance(warp, int) or not 0 <= warp < warps:
        raise PlotError(
            f"{call}(..., warp={warp!r}): a block of {launch.name} has {launch.threads} threads, "
            f"so its warps are 0 to {warps - 1}"
        )
    name = None if which is None else buffer_of(subject.nest, which, call).name
    worst_by_access: dict[tuple[int, int, bool], tuple[int, Request, int]] = {}

    def see(request: Request) -> None:
        place = "shared" if request.buffer.scope == "shared" else "global"
        mine = slice(warp * WARP, (warp + 1) * WARP)
        if place != scope or name not in (None, request.buffer.name):
            return
        if not request.active[mine].any():
            return
        cost = _cost(request, mine, scope)
        key = (id(request.buffer), id(request.indices), request.stores)
        worst, kept, times = worst_by_access.get(key, (-1, request, 0))
        worst_by_access[key] = (
            (cost, request, times + 1) if cost > worst else (worst, kept, times + 1)
        )

    complete = requests_of_block(launch, [0] * len(launch.grid), {}, see, most=MOST_REQUESTS)
    if not worst_by_access:
        raise PlotError(
            explain(
                f"{call}({subject.title})",
                f"warp {warp} of {launch.name} accesses no {scope} memory"
                + (f" of {name}" if name else ""),
                "Choose another kernel, warp or buffer.",
            )
        )
    return [
        _request(subject.title, program, request, cost, times, scope, warp, complete)
        for cost, request, times in worst_by_access.values()
    ]


def _cost(request: Request, mine: slice, scope: str) -> int:
    counters = Counters()
    at = np.where(request.active, request.bytes, 0)[mine]
    counters.access(scope, request.stores, at[None], request.active[mine][None], request.width)
    if scope == "global":
        return counters.global_load_sectors + counters.global_store_sectors
    groups = max(1, request.width // WORD)
    lanes = np.flatnonzero(request.active[mine]) // (WARP // groups)
    return len(set(lanes.tolist())) + counters.bank_conflicts


def _request(
    title: str,
    program: Program,
    request: Request,
    cost: int,
    times: int,
    scope: str,
    warp: int,
    complete: bool,
) -> WarpRequest:
    active = np.flatnonzero(request.active[warp * WARP : (warp + 1) * WARP])
    inside = ", ".join(expr_text(i, program.nest.names) for i in request.indices)
    return WarpRequest(
        title,
        request.buffer.name,
        f"{request.buffer.name}[{inside}]",
        request.stores,
        scope,
        itemsize(request.buffer.dtype),
        active,
        request.bytes[warp * WARP + active],
        request.width,
        cost,
        times,
        complete,
    )


@dataclass(frozen=True, eq=False)
class Threads:
    """The block and the thread that store each element of a buffer; -1 if it is not drawn.

    If some blocks are left out, the arrays cover the smallest box around the elements that the
    others store. The box begins at ``origin`` in the buffer. ``blocks`` number the blocks,
    ``threads`` the threads of a block, x fastest. ``grid`` and ``block`` are the extents in x, y
    and z; ``drawn`` are the blocks that were followed.
    """

    title: str
    kernel: str
    buffer: str
    blocks: np.ndarray
    threads: np.ndarray
    grid: tuple[int, ...]
    block: tuple[int, ...]
    drawn: int
    origin: tuple[int, ...] = ()


def threads_of(subject: Subject, which: Any, kernel: str | None, call: str) -> Threads:
    """Return which block and thread stores each element of a buffer, by default the output.

    For a large buffer, return only the first blocks in each direction.
    """
    program = program_of(subject, call)
    buffer = buffer_of(subject.nest, which, call)
    launch = _storing(program, buffer, kernel, call)
    shape = shape_of(buffer.shape)
    size = int(np.prod(shape))
    extents = [int(n) for n in map(_number, (i.extent for i in launch.grid))]
    letters = [i.letter for i in launch.grid]
    grid = tuple(dict(zip(letters, extents)).get(letter, 1) for letter in "xyz")
    block = tuple(int(_number(n)) for n in launch.dims("block"))
    each = max(1, size // max(1, int(np.prod(extents))))
    drawn_grid = _first_blocks(extents, max(1, MOST_ELEMENTS // each))
    strides = dict(zip("xyz", (1, grid[0], grid[0] * grid[1])))
    # elements with their block and thread, in the order of the stores
    stored: list[tuple[np.ndarray, int, np.ndarray]] = []
    for place in np.ndindex(*drawn_grid):
        number = sum(strides[letter] * at for letter, at in zip(letters, place))

        def see(request: Request, number: int = number) -> None:
            active = np.flatnonzero(request.active)
            count = request.width // itemsize(buffer.dtype)
            first = request.bytes[active] // itemsize(buffer.dtype)
            stored.extend((first + k, number, active) for k in range(count))

        if not requests_of_block(launch, place, {}, see, buffer, MOST_REQUESTS):
            raise PlotError(
                f"{call}({subject.title}): a block of {launch.name} stores more than "
                f"{MOST_REQUESTS:,} times to {buffer.name}; draw a smaller computation"
            )
    every = np.concatenate([elements for elements, _, _ in stored])
    asked = f"{call}(..., buffer={buffer.name})"
    places, origin, box = drawn_box(every, shape, drawn_grid != extents, asked)
    blocks, threads = np.full(box, -1, np.int64), np.full(box, -1, np.int64)
    blocks.ravel()[places] = np.repeat([n for _, n, _ in stored], [e.size for e, _, _ in stored])
    threads.ravel()[places] = np.concatenate([active for _, _, active in stored])
    return Threads(
        subject.title,
        launch.name,
        buffer.name,
        blocks,
        threads,
        grid,
        block,
        int(np.prod(drawn_grid)),
        origin,
    )


def _storing(program: Program, buffer: Buffer, kernel: str | None, call: str) -> Launch:
    """Return the last kernel that stores to ``buffer``."""
    if kernel is not None:
        return launch_of(program, kernel, call)
    for launch in reversed(program.launches):
        stores: list[Request] = []
        requests_of_block(launch, [0] * len(launch.grid), {}, stores.append, buffer, 1)
        if stores:
            return launch
    raise PlotError(
        f"{call}(..., buffer={buffer.name}): no kernel stores to {buffer.name} in global memory"
    )


def _first_blocks(extents: list[int], most: int) -> list[int]:
    """Return how many blocks of each direction to follow, at most ``most`` in all."""
    extents_drawn = list(extents)
    while np.prod(extents_drawn) > most and max(extents_drawn, default=1) > 1:
        longest = int(np.argmax(extents_drawn))
        extents_drawn[longest] = -(-extents_drawn[longest] // 2)
    return extents_drawn


def _number(extent: Any) -> int:
    assert isinstance(extent, int), "the nest has numbers for its sizes"
    return extent
