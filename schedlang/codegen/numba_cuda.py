"""The machine nests of GPU kernels as numba.cuda source, with the function that launches them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from schedlang.codegen.listing import Line
from schedlang.codegen.numba_file import HELPERS
from schedlang.codegen.numba_source import INDENT, StatementPrinter
from schedlang.expr.dtypes import itemsize, stored
from schedlang.expr.nodes import Axis, Expr, Var
from schedlang.gpu_lowering.complex_storage import split_program
from schedlang.gpu_lowering.program import Launch, Program, Repeat, Scratch, Step
from schedlang.index.linear import Lin
from schedlang.index.simplify import to_lin
from schedlang.intrinsics.dialect import GPU_NAMES
from schedlang.ir.nodes import Buffer
from schedlang.machine.lower import machine_kernels
from schedlang.machine.names import Names
from schedlang.machine.nest import MachineNest
from schedlang.machine.nodes import Alloc
from schedlang.machine.select.context import Context
from schedlang.machine.select.evaluator import Evaluator
from schedlang.machine.select.gpu import ALIGNMENT, MachineKernel, kernel_names
from schedlang.target import Target


@dataclass(frozen=True)
class KernelSource:
    """One emitted kernel: its function, its parameters in order, and its launch."""

    name: str
    lines: tuple[Line, ...]
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
    launcher: tuple[Line, ...]
    intrinsics: tuple[str, ...]
    math: tuple[str, ...]
    parameters: tuple[str, ...]
    alignment: tuple[int, ...]
    machine: MachineNest


def memory_dtype(dtype: str) -> str:
    """Return NumPy's name for the dtype of an array in memory: short floats are uint16."""
    return "bool_" if dtype == "bool" else stored(dtype)


def emit_program(program: Program, target: Target, public: str) -> GpuSource:
    """Return the kernels of ``program`` and the function ``launch`` that runs them in order."""
    program = split_program(program)
    nest = program.nest
    taken = [*GPU_NAMES, *HELPERS, "cuda", "stream", "launch", "grid"]
    names = kernel_names(program, taken)
    kernels: list[KernelSource] = []
    used: set[str] = set()
    widest: dict[Buffer, int] = {}
    made_kernels = machine_kernels(program, target, public, names)
    machine = MachineNest(tuple(k.function for k in made_kernels), names.known())
    for made in made_kernels:
        lines, intrinsics = kernel_lines(made)
        kernels.append(
            KernelSource(
                made.function.name, lines, made.parameters, made.launch, made.dynamic_bytes
            )
        )
        used |= intrinsics
        widest |= {b: max(n, widest.get(b, 0)) for b, n in made.access_bytes.items()}
    host = _Host(names, kernels)
    parameters = tuple([names[a] for a in nest.args] + [names[v] for v in nest.sizes])
    launcher = host.launcher(program, parameters)
    return GpuSource(
        public, tuple(kernels), launcher, tuple(sorted(used - {"inf", "nan"})),
        tuple(sorted(used & {"inf", "nan"})), parameters,
        tuple(widest.get(a, itemsize(a.dtype)) if isinstance(a, Buffer) else 0 for a in nest.args),
        machine,
    )  # fmt: skip


def kernel_lines(made: MachineKernel) -> tuple[tuple[Line, ...], set[str]]:
    """Return the lines of a kernel, and the names of the dialect that it uses."""
    printer = _Printer()
    options = f"launch_bounds={made.launch.threads}, **OPTIONS"
    return printer.function(made.function, f"@cuda.jit({options})"), printer.used


class _Printer(StatementPrinter):
    """Printer of statements for numba.cuda."""

    def allocation(self, stmt: Alloc) -> str:
        kind, size = memory_dtype(stmt.array.dtype), self(stmt.count)
        if stmt.start is not None:
            whole = f"cuda.shared.array(0, np.{kind}, alignment={ALIGNMENT})"
            return f"{whole}[{stmt.start}:{stmt.start + int(size)}]"
        return f"cuda.{stmt.place}.array({size}, np.{kind}, alignment={ALIGNMENT})"


class _Host:
    """Printer of the function that launches the kernels."""

    def __init__(self, names: Names, kernels: Sequence[KernelSource]) -> None:
        self.names = names
        self.kernels = {k.launch: k for k in kernels}
        self.evaluator = Evaluator(names)
        self.printer = _Printer()
        self.lines: list[Line] = []
        self.depth = 1
        # the number of the statement of the nest that the step comes from
        self.number: int | None = None

    def launcher(self, program: Program, parameters: Sequence[str]) -> tuple[Line, ...]:
        self.steps(program.steps)
        signature = ", ".join([*parameters, "stream=0"])
        head = f"def launch({signature}):", f'{INDENT}"""The kernels in order."""'
        return (*map(Line, head), *(self.lines or [Line(f"{INDENT}pass")]))

    def steps(self, steps: Sequence[Step]) -> None:
        for step in steps:
            self.number = step.number
            if isinstance(step, Launch):
                self.start(self.kernels[step])
            elif isinstance(step, Scratch):
                self.scratch(step.buffer)
            elif isinstance(step, Repeat):
                extent = self.value(step.extent)
                self.line(f"for {self.names[step.axis]} in range({extent}):")
                with self.indented():
                    self.steps(step.body)
            else:
                self.line(f"if {self.value(step.cond)}:")
                with self.indented():
                    self.steps(step.body)

    def line(self, text: str) -> None:
        self.lines.append(Line(INDENT * self.depth + text, self.number))

    @contextmanager
    def indented(self) -> Iterator[None]:
        self.depth += 1
        start = len(self.lines)
        yield
        if len(self.lines) == start:
            self.line("pass")
        self.depth -= 1

    def value(self, value: int | Expr | Lin) -> str:
        """Return the text of a value, after lines for its long parts."""
        if isinstance(value, int):
            return str(value)
        e = self.evaluator
        e.number = self.number
        place = Context.start({})
        with e.collected() as before:
            if isinstance(value, Expr) and value.dtype == "bool":
                found = e.value(value, place)
            else:
                found = e.index(to_lin(value) if isinstance(value, Expr) else value, place)
        for stmt in before:
            self.lines += self.printer.statement(stmt, self.depth)
        return self.printer(found)

    def scratch(self, buffer: Buffer) -> None:
        kind = memory_dtype(buffer.dtype)
        total = Lin.of(1)
        for extent in buffer.shape:
            total = total * to_lin(extent)
        count = self.value(buffer.size if buffer.size is not None else total)
        shape = ", ".join(str(e) for e in buffer.shape)
        made = f"cuda.device_array({count}, np.{kind}, stream=stream)"
        self.line(f"{self.names[buffer]} = {made}  # {buffer.name}[{shape}]")

    def start(self, kernel: KernelSource) -> None:
        launch = kernel.launch
        grid = [self.value(e) for e in launch.dims("grid")]
        block = [self.value(e) for e in launch.dims("block")]
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
