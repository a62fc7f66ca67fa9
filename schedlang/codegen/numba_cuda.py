"""The machine nests of GPU kernels as numba.cuda source, with the function that launches them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from schedlang.codegen.listing import Line
from schedlang.codegen.numba_file import HELPERS
from schedlang.codegen.numba_source import (
    INDENT,
    StatementPrinter,
    definitions,
    split_names,
)
from schedlang.expr.dtypes import itemsize, register_dtype, storage_dtype
from schedlang.expr.nodes import Axis, Expr, Var
from schedlang.gpu_lowering.complex_storage import split_program
from schedlang.gpu_lowering.program import Launch, Program, Repeat, Scratch, Step
from schedlang.index.linear import Lin
from schedlang.index.simplify import to_lin
from schedlang.intrinsics.dialect import GPU_NAMES
from schedlang.ir.nest import functions_of
from schedlang.ir.nodes import Buffer
from schedlang.machine.alignment import GPU_ALIGNMENT
from schedlang.machine.identifiers import Names
from schedlang.machine.lower import machine_kernels
from schedlang.machine.nest import MachineNest
from schedlang.machine.nodes import Alloc
from schedlang.machine.select.context import Context
from schedlang.machine.select.evaluator import Evaluator
from schedlang.machine.select.gpu import MachineKernel, kernel_names
from schedlang.target import Target


class Passed(NamedTuple):
    """A parameter of a kernel: passed as a flat array, or as a scalar, of this dtype."""

    dtype: str
    is_array: bool


@dataclass(frozen=True)
class KernelForm:
    """The data with which a kernel is compiled and launched.

    A block has ``threads`` threads and ``shared_bytes`` of shared storage; a launch gives
    ``dynamic_bytes`` of it.
    """

    name: str
    parameters: tuple[Passed, ...]
    threads: int
    shared_bytes: int
    dynamic_bytes: int = 0


@dataclass(frozen=True)
class KernelSource:
    """One emitted kernel: its function, its parameters in order, and its launch."""

    name: str
    lines: tuple[Line, ...]
    parameters: tuple[Buffer | Var | Axis, ...]
    launch: Launch
    dynamic_bytes: int = 0

    @property
    def form(self) -> KernelForm:
        """The kernel without its text."""
        passed = tuple(
            Passed(memory_dtype(p.dtype), True)
            if isinstance(p, Buffer)
            else Passed(passed_dtype(p), False)
            for p in self.parameters
        )
        launch = self.launch
        return KernelForm(
            self.name, passed, launch.threads, launch.shared_bytes, self.dynamic_bytes
        )


@dataclass(frozen=True)
class GpuSource:
    """The emitted source: kernels, the launcher, and the intrinsics that they use.

    ``alignment`` holds the bytes to which each parameter's array must be aligned. ``scratch`` are
    the arrays between kernels that the launcher takes behind ``parameters``, and ``definitions``
    the functions that instructions call.
    """

    public: str
    kernels: tuple[KernelSource, ...]
    launcher: tuple[Line, ...]
    intrinsics: tuple[str, ...]
    math: tuple[str, ...]
    parameters: tuple[str, ...]
    alignment: tuple[int, ...]
    machine: MachineNest
    scratch: tuple[Buffer, ...] = ()
    definitions: tuple[tuple[Line, ...], ...] = ()


def memory_dtype(dtype: str) -> str:
    """Return NumPy's name for the dtype of an array in memory: short floats are uint16."""
    return "bool_" if dtype == "bool" else storage_dtype(dtype)


def passed_dtype(parameter: Var | Axis) -> str:
    """Return the dtype that a scalar is passed in: float32 for short floats, int64 for sizes."""
    if isinstance(parameter, Axis) or parameter.is_size:
        return "int64"
    return register_dtype(parameter.dtype)


def emit_program(
    program: Program,
    target: Target,
    public: str,
    entry: str = "launch",
    reserved: Iterable[str] = (),
    scratch_given: bool = False,
) -> GpuSource:
    """Return the kernels of ``program`` and the function ``entry`` that launches them in order.

    No name is one of ``reserved``. With ``scratch_given``, ``entry`` takes the arrays between
    kernels whose sizes are known.
    """
    program = split_program(program)
    nest = program.nest
    names_taken = [*GPU_NAMES, *HELPERS, "cuda", "stream", "grid", entry, *reserved]
    names_taken += functions_of(nest)
    names = kernel_names(program, names_taken)
    kernels: list[KernelSource] = []
    used: set[str] = set()
    widest: dict[Buffer, int] = {}
    made_kernels = machine_kernels(program, target, public, names)
    machine = MachineNest(tuple(k.function for k in made_kernels), names.known())
    for kernel in made_kernels:
        lines, intrinsics = kernel_lines(kernel)
        kernels.append(
            KernelSource(
                kernel.function.name, lines, kernel.parameters, kernel.launch, kernel.dynamic_bytes
            )
        )
        used |= intrinsics
        widest |= {b: max(n, widest.get(b, 0)) for b, n in kernel.access_bytes.items()}
    scratch = tuple(b for b in program.scratch if scratch_given and b.bytes is not None)
    host = _Host(names, kernels, scratch)
    parameters = tuple([names[a] for a in nest.args] + [names[v] for v in nest.sizes])
    launcher = host.launcher(program, entry, [*parameters, *(names[b] for b in scratch)])
    return GpuSource(
        public,
        tuple(kernels),
        launcher,
        *split_names(used),
        parameters,
        tuple(widest.get(a, itemsize(a.dtype)) if isinstance(a, Buffer) else 0 for a in nest.args),
        machine,
        scratch,
        definitions(machine, used, '@cuda.jit(device=True, inline="always", **OPTIONS)'),
    )


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
            whole = f"cuda.shared.array(0, np.{kind}, alignment={GPU_ALIGNMENT})"
            return f"{whole}[{stmt.start}:{stmt.start + int(size)}]"
        return f"cuda.{stmt.place}.array({size}, np.{kind}, alignment={GPU_ALIGNMENT})"


class _Host:
    """Printer of the function that launches the kernels."""

    def __init__(
        self, names: Names, kernels: Sequence[KernelSource], given: Sequence[Buffer] = ()
    ) -> None:
        self.names = names
        # the arrays between kernels that the function takes
        self.given = given
        self.kernels = {k.launch: k for k in kernels}
        self.evaluator = Evaluator(names)
        self.printer = _Printer()
        self.lines: list[Line] = []
        self.depth = 1
        # the number of the statement of the nest that the step comes from
        self.number: int | None = None

    def launcher(self, program: Program, entry: str, parameters: Sequence[str]) -> tuple[Line, ...]:
        self.steps(program.steps)
        signature = ", ".join([*parameters, "stream=0"])
        head = f"def {entry}({signature}):", f'{INDENT}"""The kernels in order."""'
        return (*map(Line, head), *(self.lines or [Line(f"{INDENT}pass")]))

    def steps(self, steps: Sequence[Step]) -> None:
        for step in steps:
            self.number = step.number
            if isinstance(step, Launch):
                self.start(self.kernels[step])
            elif isinstance(step, Scratch):
                if step.buffer not in self.given:
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
                result = e.value(value, place)
            else:
                result = e.index(to_lin(value) if isinstance(value, Expr) else value, place)
        for stmt in before:
            self.lines += self.printer.statement(stmt, self.depth)
        return self.printer(result)

    def scratch(self, buffer: Buffer) -> None:
        kind = memory_dtype(buffer.dtype)
        total = Lin.of(1)
        for extent in buffer.shape:
            total = total * to_lin(extent)
        count = self.value(buffer.size if buffer.size is not None else total)
        shape = ", ".join(str(e) for e in buffer.shape)
        allocation = f"cuda.device_array({count}, np.{kind}, stream=stream)"
        self.line(f"{self.names[buffer]} = {allocation}  # {buffer.name}[{shape}]")

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
        arguments = ", ".join(self.names[p] for p in kernel.parameters)
        if all(isinstance(e, int) for e in launch.dims("grid")):
            self.line(f"{kernel.name}[{where}, {threads}, stream{shared}]({arguments})")
            return
        self.line(f"grid = {where}")
        self.line("if all(grid):")
        with self.indented():
            self.line(f"{kernel.name}[grid, {threads}, stream{shared}]({arguments})")
