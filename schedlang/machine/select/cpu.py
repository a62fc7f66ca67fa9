"""The statements of a CPU kernel, as one function."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from schedlang.compute.extern_op import ExternFunction
from schedlang.errors import BuildError, explain
from schedlang.index.linear import Lin
from schedlang.index.simplify import to_lin
from schedlang.ir.aliasing import unaliased_arrays
from schedlang.ir.extern_call import Extern
from schedlang.ir.nest import Nest
from schedlang.ir.nodes import Block, Buffer, For, Stmt, Store
from schedlang.ir.offsets import strides
from schedlang.ir.rewrite import distinct
from schedlang.ir.trimmed import running
from schedlang.machine import nodes as machine
from schedlang.machine.identifiers import Names
from schedlang.machine.loops.functions import becomes_function
from schedlang.machine.loops.plain_loops import VECTORIZABLE
from schedlang.machine.nodes import Array, Function, Hint, Num, Value
from schedlang.machine.select.context import Context
from schedlang.machine.select.statements import Statements, label_of
from schedlang.state.state import NONTEMPORAL
from schedlang.target import Target


def select_cpu(
    nest: Nest,
    body: Block,
    names: Names,
    target: Target,
    public: str,
    written: Mapping[ExternFunction, str] | None = None,
) -> tuple[Function, Callable[[str], str]]:
    """Return ``body`` as one function, and a function that makes unused names of functions.

    ``body`` are the statements of ``nest`` after the passes over loops, and ``written`` the names
    of the functions of loops that users wrote by hand. Raises
    :class:`~schedlang.errors.BuildError` for what a CPU cannot run, such as thread loops.
    """
    builder = _Entry(nest, names, target, public)
    builder.written = written or {}
    entry = builder.entry(body)
    for loop in nest.loops:
        if any(n == NONTEMPORAL for n, _ in loop.pragmas) and loop.stage not in builder.streamed:
            raise BuildError(
                explain(
                    f"pragma({loop.axis.name}, {NONTEMPORAL!r}) on stage {loop.stage}",
                    "that loop stores no whole vectors of consecutive elements, and only such "
                    "stores can bypass the cache",
                    f"Vectorize a loop over the last dimension of {loop.stage}, and split it with "
                    "tail='cut', since lanes under a test are stored one by one.",
                )
            )
    return entry, builder.function_name


def _gains_without_aliases(stmt: Stmt) -> bool:
    """Return whether LLVM makes better code of a statement if it knows the arrays to be apart.

    That is a loop that it may vectorize, and an update at a computed place: it must not delay the
    loads of the next places.
    """
    if isinstance(stmt, For):
        return VECTORIZABLE in dict(stmt.pragmas)
    return isinstance(stmt, Store) and stmt.scatters


def _has_no_gaps(shape: Sequence[Lin], steps: Sequence[Lin]) -> bool:
    """Return whether the elements of a box follow each other in memory."""
    wanted = Lin.of(1)
    for size, step in zip(reversed(shape), reversed(steps)):
        if size.const != 1 and step != wanted:
            return False
        wanted = wanted * size
    return True


class _Entry(Statements):
    """Builder of a CPU kernel as one function.

    ``table`` has the addresses of users' functions, whose ``positions`` are known by what they
    take. ``written`` has the names of functions that are in the nest.
    """

    table: Array | None = None
    written: Mapping[ExternFunction, str]

    def entry(self, stmts: Block) -> Function:
        """Return the whole kernel."""
        self.positions: dict[object, int] = {}
        e = self.evaluator
        name = self.function_name(f"{self.public}_kernel")
        parameters = [e.array(a) if isinstance(a, Buffer) else e.reg(a) for a in self.nest.args]
        parameters += [e.reg(v) for v in self.nest.sizes]
        functions = [s.function for s in running(stmts) if isinstance(s, Extern)]
        if functions := [f for f in functions if f not in self.written]:
            shape = (1 + len(functions),)
            self.table = Array(self.names.fresh("functions"), Buffer("functions", "int64", shape))
            parameters.append(self.table)
        with e.collected() as body:
            self.task(stmts, Context.start({}))
        return self.finished(name, parameters, body)

    def task(self, body: Block, context: Context) -> None:
        """Build the statements of a function: the whole kernel, or the body of a parallel loop."""
        unfenced, self.stores.unfenced = self.stores.unfenced, False
        if any(map(_gains_without_aliases, distinct(body))):
            alone = unaliased_arrays(self.nest)
            # a pass over loops drops the storage under a condition that never holds
            living = [b for b in self.nest.buffers if b in alone and b in self.names]
            if apart := [self.evaluator.array(b) for b in living]:
                self.emit(Hint("apart", tuple(apart)))
        self.block(body, context)
        if self.stores.unfenced:
            self.emit(Hint("stream_fence"))
        self.stores.unfenced = unfenced

    def loop(self, loop: For, context: Context) -> None:
        if loop.kind in ("thread", "vthread"):
            raise BuildError(
                explain(
                    f"building {self.nest.name} for the CPU",
                    f"{loop.axis.name} of stage {loop.stage} is bound to {loop.tag or 'vthread'}",
                    "Use s[...].parallel(axis) instead of bind, or build for "
                    'target="cuda" or "cuda-emulator", which runs GPU kernels on the CPU.',
                )
            )
        if loop.kind == "parallel" and becomes_function(loop):
            self.parallel(loop, context)
        else:
            self.plain(loop, context)

    def parallel(self, loop: For, context: Context) -> None:
        """Build a parallel loop.

        Its body becomes a function, so it uses no register from outside.
        """
        index = self.evaluator.reg(loop.axis)
        with self.evaluator.collected(alone=True) as body:
            self.task(loop.body, context.on_its_own)
        stop = self.extent(loop, context)
        built_loop = machine.For(
            index,
            stop,
            tuple(body),
            parallel=True,
            label=label_of(loop),
            stage=loop.stage,
            axis=self.printed(loop.axis),
            number=loop.number,
        )
        self.emit(built_loop)

    def invoke(self, stmt: Extern, context: Context) -> None:
        if stmt.function in self.written:
            # such a stage is computed whole, from whole arrays
            buffers = [stmt.boxes[place][0] for place in stmt.function.places]
            arrays = tuple(map(self.evaluator.array, buffers))
            number = self.evaluator.number
            self.emit(machine.Run(self.written[stmt.function], arrays, number))
            return
        e, starts, sizes, packed = self.evaluator, list[Value](), list[Value](), list[bool]()
        ranks = list[int]()
        for k, (buffer, first, extents) in enumerate(stmt.boxes):
            offset = e.offset(buffer, first, context)
            starts.append(e.index(offset, context, buffer, first))
            if stmt.views:
                shape, own = [*map(Lin.of, stmt.views[k].shape)], stmt.views[k].strides
            else:
                shape = [to_lin(extent, context.values) for extent in extents]
                own = strides(buffer)
            steps = [step.substitute(context.values) for step in own]
            ranks.append(len(shape))
            packed.append(_has_no_gaps(shape, steps))
            sizes += [e.index(size, context) for size in (*shape, *steps)]
        assert self.table is not None
        kinds = tuple((box[0].dtype, rank) for box, rank in zip(stmt.boxes, ranks))
        key = (stmt.function, kinds, tuple(packed))
        position = self.positions.setdefault(key, 1 + len(self.positions))
        given = tuple(e.array(buffer) for buffer, _, _ in stmt.boxes)
        self.emit(
            machine.Invoke(
                stmt.function, self.table, position, given, tuple(starts), tuple(sizes),
                tuple(packed), tuple(ranks), len(stmt.inputs), e.number, stmt.stage,
            )  # fmt: skip
        )

    def allocate(self, buffer: Buffer, context: Context) -> None:
        e, size = self.evaluator, buffer.size
        array = e.array(buffer)
        if size is not None:
            self.emit(machine.Alloc(array, Num(max(size, 1)), number=e.number))
            return
        total = Lin.of(1)
        for extent in buffer.shape:
            total = total * to_lin(extent)
        self.emit(machine.Alloc(array, e.index(total, context), number=e.number))
