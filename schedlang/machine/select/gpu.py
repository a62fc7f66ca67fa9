"""The statements of GPU kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schedlang.expr.dtypes import itemsize
from schedlang.expr.nodes import Axis, Var
from schedlang.gpu_lowering.program import Index, Launch, Program
from schedlang.index.linear import Lin
from schedlang.ir.addresses import addresses_needed
from schedlang.ir.nest import Nest
from schedlang.ir.nodes import Barrier, Block, Buffer, Commit, Exchange, For
from schedlang.ir.offsets import one_access
from schedlang.ir.printer import expr_text
from schedlang.ir.rewrite import storage
from schedlang.machine import nodes as machine
from schedlang.machine.alignment import GPU_ALIGNMENT
from schedlang.machine.identifiers import Names
from schedlang.machine.nodes import Fn, Function, Load, Num, Reg, Store, Thread, Type
from schedlang.machine.select.context import Context
from schedlang.machine.select.parameters import used_keys
from schedlang.machine.select.statements import Statements
from schedlang.target import Target


@dataclass(frozen=True)
class MachineKernel:
    """A kernel, its parameters in order, and its launch.

    ``access_bytes`` holds the bytes of the widest access to each buffer, or the multiple of bytes
    at which an instruction needs it.
    """

    function: Function
    parameters: tuple[Buffer | Var | Axis, ...]
    launch: Launch
    dynamic_bytes: int
    access_bytes: dict[Buffer, int]


def select_gpu(
    nest: Nest,
    launch: Launch,
    body: Block,
    constant: Mapping[Axis | Var, Lin],
    names: Names,
    target: Target,
    public: str,
) -> MachineKernel:
    """Return the kernel of ``launch``.

    ``body`` are its statements after the passes over loops, and ``constant`` the values of the
    indices that have only one.
    """
    return _Kernel(nest, names, target, public, launch).kernel(body, constant)


def kernel_names(program: Program, taken: Sequence[str]) -> Names:
    """Return names for the arguments, sizes, loops and scratch buffers of ``program``.

    Loops of one printed name share an identifier.
    """
    nest = program.nest
    names = Names(taken)
    for key in (*nest.args, *nest.sizes):
        names.give(key, key.name)
    names.give_loops(nest)
    for buffer in program.scratch:
        names.give(buffer, buffer.name)
    return names


class _Kernel(Statements):
    """Builder of one kernel."""

    def __init__(
        self, nest: Nest, names: Names, target: Target, public: str, launch: Launch
    ) -> None:
        super().__init__(nest, names, target, public)
        self.evaluator.aligned = self.one_access
        self.evaluator.tested = self.evaluator.shuffled = False
        self.launch = launch
        self.dynamic = launch.shared_bytes > target.device.shared_static
        self.offset = 0
        # the first buffer of each name, whose storage the others have
        self.first: dict[str, Buffer] = {}
        self.local_names: dict[tuple[str, str, int | None], str] = {}
        # the bytes to which each buffer must be aligned: as many as its widest access has, or more
        self.access_bytes = {**addresses_needed(launch.body, nest.args)}

    def kernel(self, stmts: Block, constant: Mapping[Axis | Var, Lin]) -> MachineKernel:
        launch = self.launch
        name = self.function_name(f"{launch.name}_kernel")
        for buffer in storage(launch.body):
            stored = self.storage_name(buffer)
            self.names.share(buffer, stored)
            self.evaluator.storage[buffer] = self.first.setdefault(stored, buffer)
        context = Context.start(constant)
        with self.evaluator.collected() as body:
            for index in launch.indices:
                if index.axis not in constant:
                    self.emit(self._thread(index))
            self.block(stmts, context)
        own = {i.axis for i in launch.indices}
        free = [k for k in used_keys(launch.body, constant, self.names) if k not in own]
        order: dict[Any, int] = {k: n for n, k in enumerate((*self.nest.args, *self.nest.sizes))}
        keys = sorted(free, key=lambda k: order.get(k, len(order)))
        e = self.evaluator
        parameters = [e.array(k) if isinstance(k, Buffer) else e.reg(k) for k in keys]
        function = self.finished(name, parameters, body, launch.number)
        return MachineKernel(function, tuple(keys), launch, self.offset, self.access_bytes)

    def one_access(self, buffer: Buffer, first: Lin, count: int) -> bool:
        """Return whether the elements are one access; if so, record its width for alignment."""
        is_one = one_access(buffer, first, count)
        if is_one:
            width = count * itemsize(buffer.dtype)
            self.access_bytes[buffer] = max(width, self.access_bytes.get(buffer, 0))
        return is_one

    def storage_name(self, buffer: Buffer) -> str:
        """Return the name of a buffer.

        Local buffers of one name, dtype and size share it.
        """
        key = (buffer.name, buffer.dtype, buffer.size)
        if buffer.scope == "shared" or key not in self.local_names:
            self.local_names[key] = self.names.fresh(buffer.name)
        return self.local_names[key]

    def _thread(self, index: Index) -> Thread:
        printed = self.nest.names.get(index.axis, index.axis.name)
        extent = expr_text(index.extent, self.nest.names)
        name = self.names.give(index.axis, printed)
        return Thread(Reg(name), index.tag, f"{printed} in 0..{extent}", index.number)

    def loop(self, loop: For, context: Context) -> None:
        self.plain(loop, context, unrolled=loop.kind in ("unroll", "vectorize"))

    def wait(self, stmt: Barrier | Commit | Exchange, context: Context) -> None:
        if isinstance(stmt, Barrier):
            self.emit(machine.Barrier(stmt.pending))
            return
        if isinstance(stmt, Commit):
            self.emit(machine.Hint("commit_copies"))
            return
        e = self.evaluator
        for into, source in zip(stmt.into, stmt.source):
            at = e.index(e.offset(source, stmt.indices, context), context, source, stmt.indices)
            kind = Type(source.dtype)
            read = Load("load", e.array(source), at, kind)
            value = Fn("exchange", (read, Num(stmt.distance)), kind)
            self.emit(Store("store", e.array(into), at, value, number=stmt.number))

    def allocate(self, buffer: Buffer, context: Context) -> None:
        size = max(buffer.size or 0, 1)
        start = None
        if buffer.scope == "shared" and self.dynamic:
            bytes_ = itemsize(buffer.dtype)
            start = self.offset // bytes_
            self.offset += -(-size * bytes_ // GPU_ALIGNMENT) * GPU_ALIGNMENT
        array = self.evaluator.array(buffer)
        allocations = (stmt for stmt in self.evaluator.stmts if isinstance(stmt, machine.Alloc))
        if all(stmt.array != array for stmt in allocations):
            self.emit(machine.Alloc(array, Num(size), buffer.scope, start, self.evaluator.number))
