"""Conversion of bound loops to the body of one thread, with indices for thread loops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from schedlang.errors import BuildError, explain, subscript
from schedlang.expr.nodes import Axis, Binary, Const, Expr
from schedlang.expr.visit import postorder
from schedlang.gpu_lowering.cross_thread import combine, crosses, is_start, parts_of, team_of
from schedlang.gpu_lowering.fragments import is_of_warp
from schedlang.gpu_lowering.program import Index
from schedlang.index.simplify import to_lin
from schedlang.ir.accesses import stores
from schedlang.ir.nodes import (
    Alloc,
    Block,
    Buffer,
    Fetch,
    For,
    If,
    Load,
    Stmt,
    Store,
    walk,
    with_held,
)
from schedlang.ir.predicate_threads import free_threads
from schedlang.ir.rewrite import (
    deep,
    replace_statements,
    storage,
    with_buffers,
    with_each,
    with_expressions,
    with_leaves,
)
from schedlang.state.state import PRIVATE, THREADS


def thread_loops(region: Stmt, stage: str, title: str) -> dict[str, For]:
    """Return a loop for each thread index, preferably of ``stage``; raise if extents differ."""
    loops: dict[str, For] = {}
    for stmt, _ in walk(region):
        if not isinstance(stmt, For) or stmt.kind != "thread":
            continue
        first = loops.setdefault(stmt.tag, stmt)
        if to_lin(first.extent) != to_lin(stmt.extent):
            raise BuildError(
                explain(
                    f"building {title} for a GPU",
                    f"{stmt.axis.name} of stage {stmt.stage} has {stmt.extent} iterations and "
                    f"{first.axis.name} of stage {first.stage} has {first.extent}, but both are "
                    f"bound to {stmt.tag} of one kernel",
                    f"Split both by the same factor (or nparts) before bind(..., {stmt.tag!r}).",
                )
            )
        if stmt.tag.startswith("threadIdx") and not isinstance(stmt.extent, int):
            raise BuildError(
                explain(
                    f"building {title} for a GPU",
                    f"{stmt.axis.name} of stage {stmt.stage} is bound to {stmt.tag} and has "
                    f"{stmt.extent} iterations, but the size of a block is fixed",
                    "Split it by a constant and bind the inner loop.",
                )
            )
    own = [s for s, _ in walk(region) if isinstance(s, For) and s.kind == "thread"]
    for loop in reversed([x for x in own if x.stage == stage]):
        loops[loop.tag] = loop
    return {tag: loops[tag] for tag in THREADS if tag in loops}


def indices_of(loops: dict[str, For]) -> tuple[Index, ...]:
    """Return the thread and block indices that replace ``loops``."""
    return tuple(Index(tag, loop.axis, loop.extent, loop.number) for tag, loop in loops.items())


def one_thread(region: Stmt, loops: dict[str, For], title: str) -> Block:
    """Return the body that each thread runs, without thread loops."""
    # wrapped in a block, since the region itself may be a cross-thread reduction
    flat = _ThreadBody(loops, title)
    for stmt, _ in walk(region):
        if isinstance(stmt, If) and stmt.predicate:
            # a thread axis that the user's predicate names outside of its loops
            for axis in free_threads(stmt.cond, set()):
                if axis.tag in loops:
                    flat.swap.setdefault(axis, loops[axis.tag].axis)
    return Block(tuple(flat.stmts(Block((region,)), ())))


def shared_first(block: Block) -> Block:
    """Return ``block`` with its shared storage in front."""
    shared = tuple(s for s, _ in walk(block) if isinstance(s, Alloc) and s.buffer.scope == "shared")

    def without(stmt: Stmt) -> Stmt:
        return Block() if any(stmt is s for s in shared) else stmt

    def flat(stmt: Stmt) -> list[Stmt]:
        return [with_each(stmt, flat)]

    rest = replace_statements(deep(block, without), flat)
    return _named_apart(Block((*shared, *rest.stmts)))


def _named_apart(block: Block) -> Block:
    """Return ``block`` with a unique name for each shared buffer, since all share one scope."""
    new: dict[Buffer, Buffer] = {}
    counts: dict[str, int] = {}
    for buffer in storage(block):
        if buffer.scope == "shared":
            count = counts[buffer.name] = counts.get(buffer.name, -1) + 1
            if count:
                new[buffer] = replace(buffer, name=f"{buffer.name}_{count}")
    return with_buffers(block, new) if new else block


class _ThreadBody:
    """A pass that removes thread loops.

    It adds conditions that select one thread where all threads would store one element.
    """

    def __init__(self, loops: dict[str, For], title: str) -> None:
        self.loops = loops
        self.title = title
        self.swap: dict[Expr, Expr] = {}
        # the thread loops around, by the stage that they are of
        self.running: list[tuple[str, str]] = []
        self.made_at: dict[Buffer, int] = {}
        self.depth = 0
        # stages whose updates already go to partial results
        self.partial_stages: set[str] = set()
        # guards already placed around a condition on data
        self.around: tuple[If, ...] = ()

    def stmts(self, stmt: Stmt, guards: tuple[If, ...]) -> list[Stmt]:
        """Return ``stmt`` as statements of one thread; ``guards`` are placed at its stores."""
        if isinstance(stmt, Block):
            own: list[Stmt] = []
            for part in stmt.stmts:
                if crosses(part) and getattr(part, "stage", "") not in self.partial_stages:
                    assert isinstance(part, For)
                    self.across(part, guards, own)
                else:
                    own += self.stmts(part, guards)
            return own
        if isinstance(stmt, For) and stmt.kind == "thread":
            self.swap[stmt.axis] = self.loops[stmt.tag].axis
            self.depth += stmt.tag.startswith("threadIdx")
            self.running.append((stmt.stage, stmt.tag))
            own = self.stmts(stmt.body, guards)
            self.running.pop()
            self.depth -= stmt.tag.startswith("threadIdx")
            return own
        if isinstance(stmt, Alloc):
            return self.storage(stmt)
        if is_of_warp(stmt):
            # its threads compute it together, so that they test conditions before
            inside = with_held(stmt, lambda inner: Block(tuple(self.stmts(inner, ()))))
            return [_under(guards, inside)]
        stmt = with_expressions(stmt, self.value)
        if isinstance(stmt, For) and stmt.kind == "vectorize":
            self.check_lanes(stmt)
        if isinstance(stmt, If):
            if self.varies(stmt.cond):
                return self.stmts(stmt.body, (*guards, stmt))
            if any(isinstance(n, Load) for n in postorder([stmt.cond])):
                # the condition may read elements that the guards exclude
                self.around += guards
                inside = replace(stmt, body=Block(tuple(self.stmts(stmt.body, ()))))
                self.around = self.around[: len(self.around) - len(guards)]
                return [_under(guards, inside)]
        if isinstance(stmt, Store):
            return [_under((*guards, *self.selecting_one(stmt, guards)), stmt)]
        if isinstance(stmt, Fetch):
            return [_under(guards, stmt)]
        return [with_held(stmt, lambda inner: Block(tuple(self.stmts(inner, guards))))]

    def across(self, region: For, guards: tuple[If, ...], before: list[Stmt]) -> None:
        """Add a cross-thread reduction to ``made``: partial results, combination, one store."""
        tags = {
            s.tag
            for s, _ in walk(region)
            if isinstance(s, For)
            and s.kind == "thread"
            and s.axis.is_reduce
            and s.stage == region.stage
        }
        parts = parts_of(region)
        if not parts.whole:
            raise BuildError(
                explain(
                    f"building {self.title} for a GPU",
                    f"the threads of {', '.join(sorted(tags))} reduce stage {region.stage} "
                    "together, but the split of a data axis inside the reduction has a cut tail",
                    f'Split the data axes of {region.stage} with tail="guard", or reorder them '
                    "outside the reduction.",
                )
            )
        if any(b.scope == "local" for b in parts.store.buffers):
            raise BuildError(
                explain(
                    f"building {self.title} for a GPU",
                    f"the threads of {', '.join(sorted(tags))} reduce stage {region.stage} "
                    "together, but its storage is local, which is private to a thread",
                    f'Share it: {subscript(region.stage)}.set_scope("shared"). Then attach it at a '
                    "loop outside the thread loops and bind its data axes to the other threads: at "
                    "a thread loop, each thread would store the elements of the whole block.",
                )
            )

        def to_part(stmt: Stmt) -> Stmt:
            own = isinstance(stmt, Store) and stmt.stage == region.stage
            return parts.update(stmt) if own and isinstance(stmt, Store) else stmt

        inner = self.inside(region, guards, deep(region, to_part))
        store = with_expressions(parts.store, self.value)
        assert isinstance(store, Store)
        summed = {s.axis for s, _ in walk(region) if isinstance(s, For) and s.axis.is_reduce}
        summed |= {self.loops[tag].axis for tag in tags}
        own = tuple(
            g
            for g in map(self.guard, _guards_around(region, parts.store))
            if not any(n in summed for n in postorder([g.cond]))
        )
        allocs, steps, result = combine(parts, team_of(tags, self.loops))
        store = replace(store, values=result)
        if before and is_start(before[-1], store, own):
            before.pop()
            store = replace(store, reducer=None)
        around = (*guards, *own)
        last = _under((*around, *self.selecting_one(store, around)), store)
        for own_storage in (s for s in (*allocs, *parts.starting()) if isinstance(s, Alloc)):
            self.check_size(own_storage)
        before += [*allocs, *parts.starting(), *inner, *steps, parts.each([last])]

    def inside(self, region: For, guards: tuple[If, ...], changed: Stmt) -> list[Stmt]:
        """Return ``changed``, the region that reduces into partial results, for one thread."""
        self.partial_stages.add(region.stage)
        own = self.stmts(changed, guards)
        self.partial_stages.discard(region.stage)
        return own

    def check_lanes(self, loop: For) -> None:
        """Raise if a cross-thread reduction is inside the vectorized ``loop``."""
        if any(crosses(s) for s, _ in walk(loop.body)):
            raise BuildError(
                explain(
                    f"vectorize({loop.axis.name}) on stage {loop.stage}",
                    "its elements are reduced across threads, which vector lanes cannot "
                    "synchronize with",
                    f"Use {subscript(loop.stage)}.unroll({loop.axis.name}).",
                )
            )

    def guard(self, guard: If) -> If:
        return replace(guard, cond=self.value(guard.cond))

    def value(self, root: Expr) -> Expr:
        return with_leaves(root, self.swap)

    def varies(self, cond: Expr) -> bool:
        """Return whether ``cond`` may differ between threads by their indices alone."""
        nodes = postorder([cond])
        threads = {x.axis for tag, x in self.loops.items() if tag.startswith("threadIdx")}
        return not any(isinstance(n, Load) for n in nodes) and any(n in threads for n in nodes)

    def storage(self, alloc: Alloc) -> list[Stmt]:
        buffer = alloc.buffer
        if buffer.scope == "global":
            raise BuildError(
                explain(
                    f"building {self.title} for a GPU",
                    f"{buffer.name} is global storage allocated inside a kernel",
                    'Give the stage set_scope("shared") or set_scope("local"), or compute it at '
                    "root.",
                )
            )
        self.check_size(alloc)
        if buffer.scope in PRIVATE:
            self.made_at[buffer] = self.depth
        return [alloc]

    def check_size(self, alloc: Alloc) -> None:
        """Raise if storage in a kernel has no constant size."""
        buffer = alloc.buffer
        if buffer.bytes is None:
            raise BuildError(
                explain(
                    f"building {self.title} for a GPU",
                    f"{buffer.name} is {buffer.scope} storage whose size is known only at run time",
                    "Split the loops around it by constants, so that its size is fixed.",
                )
            )

    def selecting_one(self, store: Store, guards: Sequence[If]) -> tuple[If, ...]:
        """Return conditions that select one thread, if several would store the same element."""
        local = [b for b in store.buffers if b.scope in PRIVATE]
        if local:
            self.check_private(store, local[0])
            return ()
        shared = all(b.scope == "shared" for b in store.buffers)
        selected = {n for g in (*self.around, *guards) for n in postorder([g.cond])}
        selected |= {n for i in store.indices for n in postorder([i])}
        tests = []
        for tag, loop in self.loops.items():
            single = isinstance(loop.extent, int) and loop.extent == 1
            if single or loop.axis in selected or (shared and tag.startswith("block")):
                continue
            if store.scatters and store.reducer is not None and (store.stage, tag) in self.running:
                # each thread has updates of its own
                continue
            zero = Const(0, "int64", True)
            cond = Binary("==", loop.axis, zero, "bool")
            tests.append(If(cond, Block(), f"one of {tag} writes", number=store.number))
        return tuple(tests)

    def check_private(self, store: Store, buffer: Buffer) -> None:
        depth_of_storage = self.made_at.get(buffer)
        if depth_of_storage is not None and depth_of_storage < self.depth:
            raise BuildError(
                explain(
                    f"building {self.title} for a GPU",
                    f"{buffer.name} is {buffer.scope} storage allocated outside the thread loops "
                    f"that fill it (stage {store.stage}), but such storage is private to a "
                    f"{'thread' if buffer.scope == 'local' else 'warp'}",
                    'Share it between threads, set_scope("shared"), or compute it inside the '
                    "thread loops of its consumer.",
                )
            )


def _under(guards: Sequence[If], stmt: Stmt) -> Stmt:
    for guard in reversed(guards):
        stmt = replace(guard, body=Block((stmt,)))
    return stmt


def _guards_around(region: Stmt, store: Store) -> tuple[If, ...]:
    """Return the guards inside ``region`` around ``store``, outermost first."""
    return next(site.guards for site in stores(region) if site.stmt is store)


def uniform(root: Expr, varying: set[Axis]) -> bool:
    """Return whether all threads of a block have the same value of ``root``."""
    return not any(n in varying or isinstance(n, Load) for n in postorder([root]))
