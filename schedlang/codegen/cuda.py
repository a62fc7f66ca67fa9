"""Code generation for GPUs: a program becomes the source of numba.cuda kernels and a launcher."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass

from schedlang.codegen.context import Context
from schedlang.codegen.dialect import GPU_NAMES
from schedlang.codegen.names import Names
from schedlang.codegen.statements import MOST_COPIES, Frame, Statements
from schedlang.codegen.sums import kept_by_thread
from schedlang.errors import BuildError
from schedlang.expr.dtypes import itemsize
from schedlang.expr.interval import Ranges
from schedlang.expr.linear import ZERO, Lin
from schedlang.expr.nodes import Axis, Expr, Var
from schedlang.expr.simplify import to_lin
from schedlang.gpu_lowering.lanes import lanes_differ, strip_lanes
from schedlang.gpu_lowering.program import Index, Launch, Program, Repeat, Scratch, Step
from schedlang.ir.nest import Nest
from schedlang.ir.nodes import Barrier, Block, Buffer, Exchange, For
from schedlang.ir.offsets import one_access
from schedlang.ir.printer import expr_text
from schedlang.target import Target

INDENT = "    "
ALIGNMENT = 16


@dataclass(frozen=True)
class KernelSource:
    """One emitted kernel: its function, its parameters in order, and its launch."""

    name: str
    text: str
    parameters: tuple[Buffer | Var | Axis, ...]
    launch: Launch
    dynamic_bytes: int = 0


@dataclass(frozen=True)
class GpuSource:
    """The emitted source: kernels, the launcher, and the intrinsics that they use.

    ``alignment`` holds the bytes to which each parameter's array must be aligned.
    """

    public: str
    kernels: tuple[KernelSource, ...]
    launcher: str
    intrinsics: tuple[str, ...]
    math: tuple[str, ...]
    parameters: tuple[str, ...]
    alignment: tuple[int, ...]


def memory_dtype(dtype: str) -> str:
    """Return NumPy's name for the dtype of an array in memory: float16 is stored as uint16."""
    return {"float16": "uint16", "bool": "bool_"}.get(dtype, dtype)


def emit_program(program: Program, target: Target, public: str) -> GpuSource:
    """Return the kernels of ``program`` and the function ``launch`` that runs them in order."""
    nest = program.nest
    taken = [*GPU_NAMES, "_array", "_apart", "result", "cuda", "stream", "launch", "grid"]
    names = _names(program, taken)
    kernels: list[KernelSource] = []
    used: set[str] = set()
    widest: dict[Buffer, int] = {}
    for launch in program.launches:
        writer = _KernelWriter(nest, names, target, public, launch)
        kernels.append(writer.kernel())
        used |= writer.used
        widest |= {b: max(n, widest.get(b, 0)) for b, n in writer.access_bytes.items()}
    host = _Host(nest, names, target, public, kernels)
    parameters = tuple([names[a] for a in nest.args] + [names[v] for v in nest.sizes])
    launcher = host.launcher(program, parameters)
    return GpuSource(
        public, tuple(kernels), launcher, tuple(sorted(used - {"inf", "nan"})),
        tuple(sorted(used & {"inf", "nan"})), parameters,
        tuple(widest.get(a, itemsize(a.dtype)) if isinstance(a, Buffer) else 0 for a in nest.args),
    )  # fmt: skip


def _names(program: Program, taken: Sequence[str]) -> Names:
    """Return names for the arguments, sizes, loops and scratch buffers of ``program``.

    Loops of one printed name share an identifier.
    """
    nest = program.nest
    names = Names(taken)
    for key in (*nest.args, *nest.sizes):
        names.give(key, key.name)
    loops: dict[str, str] = {}
    for axis, printed in nest.names.items():
        if printed not in loops:
            loops[printed] = names.fresh(printed)
        names.share(axis, loops[printed])
    for buffer in program.scratch:
        names.give(buffer, buffer.name)
    return names


class _KernelWriter(Statements):
    """Writer of one kernel."""

    def __init__(
        self, nest: Nest, names: Names, target: Target, public: str, launch: Launch
    ) -> None:
        super().__init__(nest, names, target, public)
        self.expressions.aligned = self.one_access
        self.expressions.tested = self.expressions.shuffled = False
        self.launch = launch
        self.dynamic = launch.shared_bytes > target.device.shared_static
        self.offset = 0
        self.local_names: dict[tuple[str, str, int | None], str] = {}
        # the bytes of the widest access to each buffer
        self.access_bytes: dict[Buffer, int] = {}

    def kernel(self) -> KernelSource:
        launch = self.launch
        name = self.function_name(f"{launch.name}_kernel")
        for buffer in self.allocated(launch.body):
            self.names.share(buffer, self.storage_name(buffer))
        self.frame = Frame()
        # an index of extent 1 is the constant 0: a variable one keeps local storage in memory
        constant: dict[Axis, Lin] = {
            i.axis: ZERO for i in launch.indices if to_lin(i.extent).const == 1
        }
        for index in launch.indices:
            if index.axis not in constant:
                self.line(self._index_line(index))
        running: dict[Axis | Var, tuple[Lin, Lin]] = {
            i.axis: (ZERO, to_lin(i.extent) - 1) for i in launch.indices
        }
        context = Context(constant, known=Ranges(running))
        self.block(launch.body, context)
        own = {i.axis for i in launch.indices}
        free = [k for k in self.free_keys(launch.body, context) if k not in own]
        order = {k: n for n, k in enumerate((*self.nest.args, *self.nest.sizes))}
        parameters = sorted(free, key=lambda k: order.get(k, len(order)))
        options = f"launch_bounds={launch.threads}, **OPTIONS"
        listed = ", ".join(self.names[p] for p in parameters)
        head = f"@cuda.jit({options})\ndef {name}({listed}):\n"
        return KernelSource(
            name, head + "\n".join(self.frame.lines), tuple(parameters), launch, self.offset
        )

    def one_access(self, buffer: Buffer, first: Lin, count: int) -> bool:
        """Return whether the elements are one access; if so, record its width for alignment."""
        found = one_access(buffer, first, count)
        if found:
            width = count * itemsize(buffer.dtype)
            self.access_bytes[buffer] = max(width, self.access_bytes.get(buffer, 0))
        return found

    def strip_lanes(self, loop: For) -> int:
        return strip_lanes(loop)

    def writes_out(self, strips: int) -> bool:
        """Return whether ``strips`` vectors are unrolled: always, unless that is too many copies.

        In a loop over vectors, the offset would not be known to be aligned.
        """
        return self.frame.copies * strips <= MOST_COPIES

    def storage_name(self, buffer: Buffer) -> str:
        """Return the name of a buffer.

        Local buffers of one name, dtype and size share it.
        """
        key = (buffer.name, buffer.dtype, buffer.size)
        if buffer.scope == "shared" or key not in self.local_names:
            self.local_names[key] = self.names.fresh(buffer.name)
        return self.local_names[key]

    def _index_line(self, index: Index) -> str:
        printed = self.nest.names.get(index.axis, index.axis.name)
        extent = expr_text(index.extent, self.nest.names)
        name = self.names.give(index.axis, printed)
        return f"{name} = cuda.{index.tag}  # {printed} in 0..{extent}"

    def loop(self, loop: For, context: Context) -> None:
        if loop.kind == "vectorize" and not lanes_differ(loop):
            self.vector(loop, context)
            return
        if context.lanes is not None and loop.kind == "unroll":
            self.unrolled(loop, context)
            return
        self.plain(loop, context)
        if loop.kind in ("unroll", "vectorize"):
            self.line(f"{self.use('unrolled')}()")

    def kept(self, loop: For, steps: Container[Axis], around: tuple[For, ...]) -> frozenset[Buffer]:
        return kept_by_thread(loop, self.target, steps, around)

    def outline(self, loop: For, context: Context) -> None:
        raise BuildError(
            f"kernel {self.launch.name} nests more than 16 loops: fuse or unroll some of them"
        )

    def wait(self, stmt: Barrier | Exchange, context: Context) -> None:
        if isinstance(stmt, Barrier):
            self.line("cuda.syncthreads()")
            return
        e = self.expressions
        for into, source in zip(stmt.into, stmt.source):
            at = e.index(e.offset(source, stmt.indices, context), context, source, stmt.indices)
            half = "_half" if source.dtype == "float16" else ""
            load = f"{self.use('load' + half)}({self.names[source]}, {at})"
            value = f"{self.use('exchange')}({load}, {stmt.distance})"
            self.line(f"{self.use('store' + half)}({self.names[into]}, {at}, {value})")

    def allocate(self, buffer: Buffer, context: Context) -> None:
        kind = memory_dtype(buffer.dtype)
        shape = ", ".join(str(e) for e in buffer.shape)
        size = max(buffer.size or 0, 1)
        if buffer.scope == "shared" and self.dynamic:
            bytes_ = itemsize(buffer.dtype)
            start = self.offset // bytes_
            self.offset += -(-size * bytes_ // ALIGNMENT) * ALIGNMENT
            whole = f"cuda.shared.array(0, np.{kind}, alignment={ALIGNMENT})"
            made = f"{whole}[{start}:{start + size}]"
        else:
            made = f"cuda.{buffer.scope}.array({size}, np.{kind}, alignment={ALIGNMENT})"
        self.line(f"{self.names[buffer]} = {made}  # {buffer.name}[{shape}]")


class _Host(Statements):
    """Writer of the function that launches the kernels."""

    def __init__(
        self, nest: Nest, names: Names, target: Target, public: str,
        kernels: Sequence[KernelSource],
    ) -> None:  # fmt: skip
        super().__init__(nest, names, target, public)
        self.kernels = {k.launch: k for k in kernels}

    def launcher(self, program: Program, parameters: Sequence[str]) -> str:
        self.frame = Frame()
        self.steps(program.steps)
        signature = ", ".join([*parameters, "stream=0"])
        lines = "\n".join(self.frame.lines) or f"{INDENT}pass"
        return f'def launch({signature}):\n{INDENT}"""The kernels in order."""\n{lines}'

    def steps(self, steps: Sequence[Step]) -> None:
        context = Context({})
        for step in steps:
            if isinstance(step, Launch):
                self.start(self.kernels[step], context)
            elif isinstance(step, Scratch):
                self.scratch(step.buffer, context)
            elif isinstance(step, Repeat):
                loop = For(step.axis, step.extent, "serial", Block(), "")
                self.line(f"for {self.names[step.axis]} in range({self.extent(loop, context)}):")
                with self.indented():
                    self.steps(step.body)
            else:
                self.line(f"if {self.expressions.value(step.cond, context).text}:")
                with self.indented():
                    self.steps(step.body)

    def size(self, extent: int | Expr, context: Context) -> str:
        if isinstance(extent, int):
            return str(extent)
        return self.expressions.index(to_lin(extent), context)

    def scratch(self, buffer: Buffer, context: Context) -> None:
        kind = memory_dtype(buffer.dtype)
        total = Lin.of(1)
        for extent in buffer.shape:
            total = total * to_lin(extent)
        count = str(buffer.size) if buffer.size is not None else (
            self.expressions.index(total, context))  # fmt: skip
        shape = ", ".join(str(e) for e in buffer.shape)
        made = f"cuda.device_array({count}, np.{kind}, stream=stream)"
        self.line(f"{self.names[buffer]} = {made}  # {buffer.name}[{shape}]")

    def start(self, kernel: KernelSource, context: Context) -> None:
        launch = kernel.launch
        grid = [self.size(e, context) for e in launch.dims("grid")]
        block = [self.size(e, context) for e in launch.dims("block")]
        while len(grid) > 1 and grid[-1] == "1":
            grid.pop()
        while len(block) > 1 and block[-1] == "1":
            block.pop()
        where = f"({', '.join(grid)}{',' if len(grid) == 1 else ''})"
        threads = f"({', '.join(block)}{',' if len(block) == 1 else ''})"
        shared = f", {kernel.dynamic_bytes}" if kernel.dynamic_bytes else ""
        given = ", ".join(self.names[p] for p in kernel.parameters)
        if all(isinstance(e, int) for e in launch.dims("grid")):
            self.line(f"{kernel.name}[{where}, {threads}, stream{shared}]({given})")
            return
        self.line(f"grid = {where}")
        self.line("if all(grid):")
        with self.indented():
            self.line(f"{kernel.name}[grid, {threads}, stream{shared}]({given})")


__all__ = ["GpuSource", "KernelSource", "emit_program"]
