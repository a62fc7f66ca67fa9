"""Fragments: tiles that the threads of a warp hold together, and the loops that fill and read them.

A nest indexes a fragment like any tile. The instructions that use it say which lane holds which
element, so here it gets dimensions for lanes and registers in place of the rows and columns within
a tile. Loops over a fragment's elements become loops over the registers of each thread. The loops
of an instruction stay: all threads of the warp run them together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NoReturn

from schedlang.errors import BuildError, explain
from schedlang.expr.nodes import Axis, Expr, Var
from schedlang.expr.visit import postorder
from schedlang.gpu_lowering.matrix_loads import load_of, loads_matrices, over_registers
from schedlang.gpu_lowering.placed_fragments import Placed, refuse, whole_tiles
from schedlang.gpu_lowering.warp_parts import with_parts
from schedlang.index.linear import ZERO, Lin, to_expr
from schedlang.index.simplify import to_lin
from schedlang.instructions.declaration import Instruction
from schedlang.instructions.fragments import FRAGMENT, WARP, Fragment, WarpAssembly
from schedlang.ir.instruction_match import Mismatch, Operand, match
from schedlang.ir.nodes import (
    Alloc,
    Block,
    Buffer,
    For,
    If,
    Load,
    Note,
    Stmt,
    Store,
    expressions,
    walk,
    with_fields,
    with_held,
)
from schedlang.ir.rewrite import relocate, storage, substitute

WARP_INDEX = "threadIdx.x"


def is_of_warp(stmt: Stmt) -> bool:
    """Return whether ``stmt`` is loops that the threads of a warp compute by one instruction."""
    return isinstance(stmt, For) and stmt.instruction is not None and stmt.instruction.of_warp


def multiplies(stmt: Stmt) -> bool:
    """Return whether ``stmt`` is loops over what all threads of a warp hold, not over registers."""
    return is_of_warp(stmt) and not loads_matrices(stmt)


def with_fragments(region: Stmt, title: str) -> Stmt:
    """Return the region of a kernel with its fragments in lanes and registers.

    Raise :class:`~schedlang.errors.BuildError` for a fragment that no warp can hold or use.
    """
    region = with_parts(region)
    buffers = [b for b in storage(region) if b.scope == FRAGMENT]
    if not buffers and not any(is_of_warp(s) for s, _ in walk(region)):
        return region
    _check_lanes(region, buffers, title)
    lane = Axis("lane", WARP, "thread", tag=WARP_INDEX)
    placed = _Placement(*_placed(region, buffers, title), lane, title)
    return For(lane, WARP, "thread", Block((placed.stmt(region),)), "", WARP_INDEX)


def _check_lanes(region: Stmt, buffers: Sequence[Buffer], title: str) -> None:
    """Raise unless ``threadIdx.x`` counts the threads of one warp, which share fragments."""
    for stmt, _ in walk(region):
        if not isinstance(stmt, For) or stmt.tag != WARP_INDEX:
            continue
        inside = next((s for s in storage(stmt) if s.scope == FRAGMENT), None)
        uses = next((b for b in _used(stmt) if b.scope == FRAGMENT), inside)
        if uses is not None:
            refuse(
                title,
                f"{uses.name} is a fragment, which the {WARP} threads of {WARP_INDEX} hold "
                f"together, and {stmt.axis.name} of stage {stmt.stage} around it is bound to "
                f"{WARP_INDEX}",
                f"Leave {stmt.axis.name} unbound, or bind it to threadIdx.y: each value of that is "
                "a warp of its own.",
            )
        if stmt.extent != WARP:
            refuse(
                title,
                f"{buffers[0].name if buffers else 'an instruction'} is held by the {WARP} threads "
                f"of a warp, and {stmt.axis.name} of stage {stmt.stage} has {stmt.extent} "
                f"iterations on {WARP_INDEX}",
                f"Bind a loop of {WARP} iterations to {WARP_INDEX}, such as the inner one of a "
                "split, and other loops to threadIdx.y.",
            )


def _used(stmt: Stmt) -> list[Buffer]:
    """Return the buffers that the statements in ``stmt`` load and store."""
    used: list[Buffer] = []
    for inner, _ in walk(stmt):
        used += inner.buffers if isinstance(inner, Store) else ()
        used += [n.buffer for n in postorder(expressions(inner)) if isinstance(n, Load)]
    return used


def _placed(
    region: Stmt, buffers: Sequence[Buffer], title: str
) -> tuple[dict[Buffer, Placed], dict[Stmt, tuple[int, ...]]]:
    """Return the place of each fragment by the instructions that use it.

    Also return, for each load of matrices, the dimensions of the fragment along its own. Where a
    product uses the fragment, the product decides who holds what.
    """
    placed: dict[Buffer, Placed] = {}
    loaded: dict[Stmt, Placed] = {}
    for loop, _ in walk(region):
        if not is_of_warp(loop):
            continue
        assert isinstance(loop, For) and loop.instruction is not None
        asked = f"tensorize({loop.axis.name}, {loop.instruction}) on stage {loop.stage}"
        matched = match(loop, loop.instruction)
        if isinstance(matched, Mismatch):
            raise BuildError(explain(asked, matched.why, matched.hint))
        if loads_matrices(loop):
            loaded[loop] = _place(matched.result, load_of(loop).fragment, title)
            continue
        for tensor, operand in matched.tiles(loop.instruction):
            fragment = emission_of(loop.instruction).fragment(tensor.name)
            own = _place(operand, fragment, title)
            known = placed.setdefault(operand.buffer, own)
            if (known.fragment, known.dims) != (own.fragment, own.dims):
                refuse(
                    title,
                    f"{operand.buffer.name} is both {known.fragment.of} and {own.fragment.of} of "
                    "instructions, whose threads hold other elements",
                    "Give each of them a copy, by cache_read.",
                )
    for loop, own in loaded.items():
        (buffer,) = next(s for s, _ in walk(loop) if isinstance(s, Store)).buffers
        placed.setdefault(buffer, own)
    for buffer in buffers:
        if buffer not in placed:
            refuse(
                title,
                f"{buffer.name} is a fragment, and no instruction says which thread holds which of "
                "its elements",
                "Tensorize the loops that use it, or give it another scope, such as shared.",
            )
    return placed, {loop: own.dims for loop, own in loaded.items()}


def emission_of(declared: Instruction) -> WarpAssembly:
    """Return the form of an instruction of a warp."""
    return next(e for e in declared.emit.values() if isinstance(e, WarpAssembly))


def _place(operand: Operand, fragment: Fragment, title: str) -> Placed:
    buffer = operand.buffer
    extents = [int(n) for n in buffer.shape if isinstance(n, int)]
    if len(extents) < len(buffer.shape):
        shape_text = ", ".join(map(str, buffer.shape))
        refuse(
            title,
            f"{buffer.name} is a fragment of [{shape_text}] elements, and registers are counted "
            "when the kernel is built",
            "Compute it at a loop further in, where the tile has a constant size.",
        )
    if buffer.strides is not None:
        refuse(
            title,
            f"{buffer.name} is a fragment, and storage_align pads rows in memory",
            "Leave it out, or align a copy in shared memory that the fragment reads.",
        )
    steps = [1] * len(extents)
    for k in range(len(extents) - 1, 0, -1):
        steps[k - 1] = steps[k] * extents[k]
    # the longest of dimensions with one stride; the others have one element
    dims = tuple(
        max((k for k, s in enumerate(steps) if stride.const == s), key=extents.__getitem__)
        for stride in operand.strides
    )
    shape = [
        -(-n // fragment.shape[dims.index(k)]) if k in dims else n for k, n in enumerate(extents)
    ]
    own = replace(buffer, shape=(*shape, WARP, fragment.registers), fragment=fragment, strides=None)
    return Placed(fragment, own, dims)


class _Placement:
    """A pass that moves accesses of fragments to lanes and registers."""

    def __init__(
        self,
        placed: Mapping[Buffer, Placed],
        loads: Mapping[Stmt, tuple[int, ...]],
        lane: Axis,
        title: str,
    ) -> None:
        self.placed, self.loads, self.lane, self.title = placed, loads, lane, title

    def stmt(self, stmt: Stmt) -> Stmt:
        if isinstance(stmt, Alloc) and stmt.buffer in self.placed:
            return Alloc(self.placed[stmt.buffer].buffer, number=stmt.number)
        if is_of_warp(stmt):
            assert isinstance(stmt, For)
            return self.load(stmt) if stmt in self.loads else self.product(stmt)
        if isinstance(stmt, (For, If, Store)) and _is_one_update(stmt):
            return self.elements(stmt) if self.uses(stmt) else stmt
        return with_held(stmt, self.stmt)

    def uses(self, stmt: Stmt) -> bool:
        """Return whether the statements in ``stmt`` access fragments."""
        return any(b in self.placed for b in _used(stmt))

    def load(self, loop: For) -> Stmt:
        """Return the loop over the registers that a load of matrices fills."""
        (buffer,) = next(s for s, _ in walk(loop) if isinstance(s, Store)).buffers
        return over_registers(loop, self.loads[loop], self.placed[buffer], self.lane, self.title)

    def product(self, loop: For) -> Stmt:
        """Return the loops of an instruction over the lanes and registers that hold its tiles."""
        inside = {s.axis for s, _ in walk(loop) if isinstance(s, For)}
        origin: dict[Axis | Var, Lin] = {axis: ZERO for axis in inside}

        def moved_to(buffer: Buffer, at: tuple[Expr, ...]) -> tuple[Buffer, tuple[Expr, ...]]:
            own = self.placed[buffer]
            tiles, within = {}, []
            for dim, size in zip(own.dims, own.fragment.shape):
                index = to_lin(at[dim])
                first = index.substitute(origin)
                tiles[dim] = whole_tiles(buffer, first, size, loop, self.title)
                within.append(to_expr(index - first))
            holder = (to_expr(to_lin(number)) for number in own.fragment.holder(within))
            return own.buffer, (*own.tile(at, tiles), *holder)

        return relocate(loop, moved_to)

    def elements(self, stmt: Stmt) -> Stmt:
        """Return loops that access elements of fragments for the elements of each thread."""
        loops, guards, store = _parts(stmt)
        accessed = [(b, store.indices) for b in store.buffers if b in self.placed]
        roots = [*expressions(store), *(g.cond for g in guards)]
        accessed += [
            (n.buffer, n.indices)
            for n in postorder(roots) if isinstance(n, Load) and n.buffer in self.placed
        ]  # fmt: skip
        buffer, at = accessed[0]
        own = self.placed[buffer]
        registers, adjacent = own.fragment.registers, own.fragment.adjacent
        group, within = Axis("register", registers // adjacent), Axis("register.inner", adjacent)
        register = to_expr(Lin.of(group) * adjacent + (Lin.of(within) if adjacent > 1 else ZERO))
        for other, indices in accessed[1:]:
            place = self.placed[other]
            same = (place.fragment, place.dims) == (own.fragment, own.dims)
            if not same or _lins(indices) != _lins(at):
                refuse(
                    self.title,
                    f"stage {store.stage} computes from {buffer.name} and {other.name} element "
                    "by element, and threads hold different elements of them",
                    "Tensorize its loops by an instruction that uses both, of whole tiles: sizes "
                    "are multiples of the instruction's.",
                )
        self.check_target(store, buffer)
        element = own.fragment.element(self.lane, register)
        swap: dict[Expr, Expr] = {}
        tiles: dict[int, Lin] = {}
        counts: dict[Axis, tuple[Axis, int]] = {}
        for dim, size, place in zip(own.dims, own.fragment.shape, element):
            loop, first = self.loop_along(loops, buffer, to_lin(at[dim]), dim, size, store)
            if loop.axis in counts:
                refuse(
                    self.title,
                    f"stage {store.stage} accesses {buffer.name} along a diagonal, over "
                    f"{loop.axis.name} in two dimensions, and a thread holds elements of a tile",
                    _in_shared_memory(buffer, store),
                )
            count = int(str(loop.extent)) // size
            tile = Axis(f"{loop.axis.name}.tile", count)
            counts[loop.axis] = tile, count
            number = Lin.of(tile) if count > 1 else ZERO
            tiles[dim] = whole_tiles(buffer, first, size, loop, self.title) + number
            swap[loop.axis] = to_expr(number * size + to_lin(place))

        def moved_to(
            buffer: Buffer, at: tuple[Expr, ...]
        ) -> tuple[Buffer, tuple[Expr, ...]] | None:
            if buffer not in self.placed:
                return None
            place = self.placed[buffer]
            return place.buffer, (*place.tile(at, tiles), self.lane, register)

        body = relocate(store, moved_to)
        for guard in reversed(guards):
            moved = relocate(replace(guard, body=Block()), moved_to)
            body = with_fields(moved, body=Block((body,)))
        body = substitute(body, swap)
        if adjacent > 1:
            # one access where they are adjacent in memory, too
            body = For(within, adjacent, "vectorize", Block((body,)), store.stage)
        body = For(group, group.extent, "unroll", Block((body,)), store.stage)
        for loop in reversed(loops):
            axis, extent = counts.get(loop.axis, (loop.axis, loop.extent))
            kind = "unroll" if loop.kind == "vectorize" else loop.kind
            if loop.axis in counts and extent == 1:
                continue
            body = with_fields(loop, axis=axis, extent=extent, kind=kind, body=Block((body,)))
        return body

    def check_target(self, store: Store, buffer: Buffer) -> None:
        """Raise if a thread would store its elements where another one needs them, too."""
        if target := next((b for b in store.buffers if b.scope == "local"), None):
            refuse(
                self.title,
                f"stage {store.stage} computes {target.name} in local memory from {buffer.name}, "
                "and each thread of a warp has only the elements that it holds",
                f'Keep {target.name} in shared memory, set_scope("shared"), or compute it inline.',
            )

    def loop_along(
        self, loops: Sequence[For], buffer: Buffer, index: Lin, dim: int, size: int, store: Store
    ) -> tuple[For, Lin]:
        """Return the loop over whole tiles of a fragment along a dimension, and its first index."""
        for loop in loops:
            step = index.substitute({loop.axis: Lin.of(loop.axis) + 1}) - index
            if step.const != 1:
                continue
            if loop.axis.is_reduce:
                self.refuse_reduction(store, buffer)
            if not isinstance(loop.extent, int) or loop.extent % size:
                refuse(
                    self.title,
                    f"{loop.axis.name} of stage {store.stage} has {loop.extent} iterations along "
                    f"dimension {dim} of {buffer.name}, and its threads hold tiles of {size}",
                    f"Let the sizes be multiples of {size}, or pad them: s.pad_einsum fills "
                    "operands up.",
                )
            return loop, index.substitute({loop.axis: ZERO})
        if store.reducer is not None and buffer not in store.buffers:
            self.refuse_reduction(store, buffer)
        refuse(
            self.title,
            f"stage {store.stage} accesses {buffer.name} at {to_expr(index)} along dimension "
            f"{dim}, and its threads hold tiles of {size}, each element in one of them",
            f"Loop over {size} elements or a multiple there, inside of all other loops, or read a "
            f"copy: {_copy(buffer, store)}.",
        )

    def refuse_reduction(self, store: Store, buffer: Buffer) -> NoReturn:
        """Raise for a reduction whose terms are with several threads."""
        refuse(
            self.title,
            f"stage {store.stage} reduces over {buffer.name}, whose elements several threads hold",
            _in_shared_memory(buffer, store),
        )


def _copy(buffer: Buffer, store: Store) -> str:
    return f's.cache_read({buffer.name}, "shared", [{store.stage}])'


def _in_shared_memory(buffer: Buffer, store: Store) -> str:
    return f"Read a copy in shared memory: {_copy(buffer, store)}."


def _is_one_update(stmt: Stmt) -> bool:
    """Return whether ``stmt`` holds loops and guards around one store, and nothing else."""
    while not isinstance(stmt, Store):
        if isinstance(stmt, Block):
            inner = [s for s in stmt.stmts if not isinstance(s, Note)]
            if len(inner) != 1:
                return False
            (stmt,) = inner
        elif isinstance(stmt, (For, If)) and not is_of_warp(stmt):
            stmt = stmt.body
        else:
            return False
    return True


def _parts(stmt: Stmt) -> tuple[list[For], list[If], Store]:
    """Return the loops, the guards and the store of one update."""
    loops: list[For] = []
    guards: list[If] = []
    while not isinstance(stmt, Store):
        if isinstance(stmt, Block):
            stmt = next(s for s in stmt.stmts if not isinstance(s, Note))
            continue
        if isinstance(stmt, For):
            loops.append(stmt)
        else:
            assert isinstance(stmt, If)
            guards.append(stmt)
        stmt = stmt.body
    return loops, guards, stmt


def _lins(indices: Sequence[Expr]) -> tuple[Lin, ...]:
    return tuple(map(to_lin, indices))
