"""The machine nests of GPU kernels as a file of OpenCL C 1.2."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Union

from schedlang.codegen.c_definitions import plain_types, used_definitions
from schedlang.codegen.c_source import INDENT, Printer
from schedlang.codegen.c_source import reserved_names as reserved_in_c
from schedlang.codegen.listing import Line, Listing, join_parts, plain
from schedlang.codegen.numba_file import header_lines
from schedlang.codegen.opencl_values import (
    BUILTIN,
    GLOBAL,
    LANES,
    LOCAL,
    MEMORY,
    OpenClValues,
    is_moved,
    lane,
    lane_place,
    vector_types,
)
from schedlang.expr.dtypes import itemsize, register_dtype
from schedlang.expr.nodes import Axis, Var
from schedlang.gpu_lowering.complex_storage import split_program
from schedlang.gpu_lowering.printer import program_text
from schedlang.gpu_lowering.program import Launch, Program
from schedlang.ir.nodes import Buffer
from schedlang.ir.printer import expr_text
from schedlang.machine import nodes as m
from schedlang.machine.alignment import GPU_ALIGNMENT
from schedlang.machine.identifiers import identifier
from schedlang.machine.lower import machine_kernels
from schedlang.machine.nest import MachineNest
from schedlang.machine.nodes import Array, Fn, Reg, Stmt
from schedlang.machine.rewrite import swap_values
from schedlang.machine.select.gpu import MachineKernel, kernel_names
from schedlang.machine.walks import operations, values, walk
from schedlang.target import Target

HEADERS = ("opencl_helpers.h",)
Key = Union[Buffer, Var, Axis]
_DIMENSION = {"x": 0, "y": 1, "z": 2}
_NUMBERED = ("char", "uchar", "short", "ushort", "int", "uint", "long", "ulong", "float", "double")
_MOVES = (("vload", ""), ("vstore", ""), ("vload_half", ""), ("vstore_half", "_rte"))
# names that a file of OpenCL C cannot give to its variables, beside the names that C reserves
RESERVED = tuple(
    "kernel global local constant private half bool uchar ushort uint ulong quad complex imaginary "
    "true false event_t sampler_t image1d_t image1d_array_t image1d_buffer_t image2d_t "
    "image2d_array_t image3d_t ptrdiff_t intptr_t read_only write_only read_write vec_step barrier "
    "prefetch get_group_id get_local_id min max clamp fabs rint pow fmod ldexp clz popcount "
    "atomic_add atomic_min atomic_max atomic_cmpxchg atom_add atom_min atom_max atom_cmpxchg "
    "vload_half vstore_half_rte select shuffle step mix sign dot cross length distance normalize "
    "radians degrees any all pipe generic".split()
) + (
    *BUILTIN.values(),
    *(name for kind in _NUMBERED for name in vector_types(kind)),
    *(name for kind in _NUMBERED for name in (f"as_{kind}", f"convert_{kind}_sat")),
    *(f"{name}{n}{end}" for n in LANES for name, end in _MOVES),
)


@dataclass(frozen=True)
class KernelForm:
    """The data with which a kernel is launched: its parameters in order, and its memory.

    ``alignment`` has, for each parameter, the bytes of the widest access; ``local_bytes`` are the
    bytes of local memory of a work-group.
    """

    name: str
    parameters: tuple[Key, ...]
    launch: Launch
    alignment: tuple[int, ...]
    local_bytes: int


@dataclass(frozen=True)
class OpenClSource:
    """The file of a program: its text, and how its kernels are launched."""

    program: Program
    kernels: tuple[KernelForm, ...]
    listing: Listing
    machine: MachineNest


def opencl_source(program: Program, target: Target, public: str, steps: str) -> OpenClSource:
    """Return the kernels of ``program`` as a file; ``steps`` is the schedule, for its header."""
    whole, program = program, split_program(program)
    names = kernel_names(program, _taken(program))
    kernels = machine_kernels(program, target, public, names)
    machine = MachineNest(tuple(k.function for k in kernels), names.known())
    forms: list[KernelForm] = []
    functions: list[list[Line]] = []
    helpers: dict[str, None] = {}
    for kernel in kernels:
        printer = KernelPrinter(kernel)
        functions.append([*_comment(program, kernel.launch), *printer.kernel()])
        helpers |= printer.definitions
        widths = (
            max(itemsize(p.dtype), kernel.access_bytes.get(p, 0)) if isinstance(p, Buffer) else 0
            for p in kernel.parameters
        )
        forms.append(
            KernelForm(
                kernel.function.name, kernel.parameters, kernel.launch, tuple(widths),
                printer.local_bytes,
            )
        )  # fmt: skip
    texts = [line.text for lines in functions for line in lines]
    defined = used_definitions(helpers, texts, HEADERS)
    shown = [[Line(plain_types(t, HEADERS[0]), n) for t, n in lines] for lines in functions]
    head = header_lines(whole.nest, steps, program_text(whole), mark="//").rstrip("\n") + "\n"
    texts = [defined, *(line.text for lines in shown for line in lines)]
    top = [text for text in ("\n".join(_extensions(texts)), defined) if text]
    parts = join_parts([*map(plain, top), *shown], 1)
    return OpenClSource(program, tuple(forms), Listing((*plain(head), *parts)), machine)


def _taken(program: Program) -> list[str]:
    nest = program.nest
    keys = (*nest.args, *nest.sizes, *nest.buffers, *program.scratch)
    names = (*nest.names.values(), *(key.name for key in keys))
    return [*reserved_names(identifier(name) for name in names)]


def reserved_names(wanted: Iterable[str]) -> Sequence[str]:
    """Return the names that a file cannot give, including the unsafe ones of ``wanted``."""
    return [*reserved_in_c(wanted), *RESERVED]


def _extensions(texts: Sequence[str]) -> Iterator[str]:
    """Yield the lines that enable what ``texts`` use beyond OpenCL C 1.2's core."""
    for name, words in (
        ("cl_khr_fp64", r"\bdouble"),
        ("cl_khr_int64_base_atomics", r"\batom_(?:add|cmpxchg)\b"),
        ("cl_khr_int64_extended_atomics", r"\batom_(?:min|max)\b"),
    ):
        if any(re.search(words, text) for text in texts):
            yield f"#pragma OPENCL EXTENSION {name} : enable"


def _comment(program: Program, launch: Launch) -> list[Line]:
    """Return the comment above a kernel, which says how it is launched."""
    grid, block = (_sides(program, launch, kind) for kind in ("grid", "block"))
    plurals = ("" if grid == "1" else "s"), ("" if block == "1" else "s")
    return [Line(f"// {grid} work-group{plurals[0]} of {block} work-item{plurals[1]}")]


def _sides(program: Program, launch: Launch, kind: str) -> str:
    """Return the extents of a grid or a block as text, without extents of 1 at the end."""
    sides = [*launch.dims(kind)]
    while len(sides) > 1 and isinstance(sides[-1], int) and sides[-1] == 1:
        sides.pop()
    texts = [expr_text(side, program.nest.names) for side in sides]
    return " x ".join(t if t.isidentifier() or t.isdigit() else f"({t})" for t in texts)


class KernelPrinter(OpenClValues, Printer):
    """Printer of one kernel.

    Work-items exchange values through local memory: OpenCL C 1.2 has no subgroups.
    """

    def __init__(self, kernel: MachineKernel) -> None:
        super().__init__()
        self.externs, self.names = {}, {}
        self.made_of = kernel
        self.exchanged: dict[str, str] = {}
        # the half of its local memory that the next exchange uses; the loops and branches around it
        self.half, self.nested = 0, 0
        self.spaces = {p.name: GLOBAL for p in kernel.function.parameters if isinstance(p, Array)}
        self.written = {
            stmt.array.name for stmt, _ in walk(kernel.function.body) if isinstance(stmt, m.Store)
        }
        for stmt, _ in walk(kernel.function.body):
            for value in _exchanges(stmt):
                dtype = register_dtype(value.type.dtype)
                self.exchanged[dtype] = f"sl_exchange_{MEMORY[dtype]}"

    @property
    def local_bytes(self) -> int:
        """The bytes of local memory of a work-group, with each array aligned."""
        launch = self.made_of.launch
        # a half is kept as a float
        own = ((b, "float32" if b.dtype == "float16" else b.dtype) for b in launch.shared)
        counts = [(max(b.size or 0, 1), dtype) for b, dtype in own]
        counts += [(2 * launch.threads, dtype) for dtype in self.exchanged]
        return sum(-(-n * itemsize(dtype) // GPU_ALIGNMENT) * GPU_ALIGNMENT for n, dtype in counts)

    def kernel(self) -> list[Line]:
        """Return the lines of the kernel."""
        function = self.made_of.function
        lines = self.function(function, True)
        x, y, z = (str(side) for side in self.made_of.launch.dims("block"))
        attribute = f"__kernel __attribute__((reqd_work_group_size({x}, {y}, {z})))"
        return [Line(attribute, function.number), lines[0], *self._start(), *lines[1:]]

    def _start(self) -> list[Line]:
        """Return the declarations of what exchanges between work-items need."""
        if not self.exchanged:
            return []
        threads = self.made_of.launch.threads
        number = "get_local_id(0)"
        x, y, _ = self.made_of.launch.dims("block")
        if (threads, 1) != (x, y):
            number += f" + {x} * (get_local_id(1) + {y} * get_local_id(2))"
        lines = [f"uint sl_number = {number};"]
        lines += [
            f"__local {MEMORY[dtype]} {name}[2][{threads}];"
            for dtype, name in self.exchanged.items()
        ]
        return [Line(INDENT + line) for line in lines]

    def declared(self, parameter: Array | Reg, apart: bool = False) -> str:
        if isinstance(parameter, Reg):
            return f"{self.type(parameter.type)} {parameter.name}"
        const = "" if parameter.name in self.written else "const "
        # a device without arithmetic on halves has pointers to them
        kind = "half" if parameter.dtype == "float16" else MEMORY[parameter.dtype]
        return f"__global {const}{kind} *{'restrict ' * apart}{parameter.name}"

    # OpenCL has no barriers of registers, and its masked loads and stores test each lane
    def register_text(self, reg: Reg, value: m.Value) -> str:
        return self.text(value)

    def is_unread(self, name: str) -> bool:
        return False

    def has_many_sums(self, loop: m.For) -> bool:
        return False

    def pragmas(self, loop: m.For) -> list[str]:
        return ["#pragma unroll"] if loop.unrolled else []

    def statement(self, stmt: Stmt, depth: int, known: set[str]) -> list[Line]:
        margin, number = INDENT * depth, stmt.number
        if isinstance(stmt, (m.For, m.If)):
            self.nested += 1
            lines = super().statement(stmt, depth, known)
            self.nested -= 1
            return lines
        if isinstance(stmt, m.Store) and stmt.value.type.lanes and not is_moved(stmt):
            return self._store_lanes(stmt, depth, known)
        exchanges = [*_exchanges(stmt)]
        if not exchanges:
            return super().statement(stmt, depth, known)
        (value,) = exchanges
        name = f"{self.exchanged[register_dtype(value.type.dtype)]}[{self.half}]"
        given, distance = value.args
        partner = f"{name}[sl_number ^ {self.text(distance)}]"
        changed = swap_values(stmt, {value: Reg(partner, value.type)})
        lines = [
            Line(f"{margin}{name}[sl_number] = {self.text(given)};", number),
            Line(margin + BARRIER, number),
            *super().statement(changed, depth, known),
        ]
        if self.nested:
            # what runs next may be this statement again
            return [*lines, Line(margin + BARRIER, number)]
        # the barrier of the exchange in between comes before this half is written again
        self.half = 1 - self.half
        return lines

    def _store_lanes(self, stmt: m.Store, depth: int, known: set[str]) -> list[Line]:
        """Return a block that stores each lane; all lanes are computed before the first store."""
        vector = Reg("sl_lanes", stmt.value.type)
        inside: list[Stmt] = [m.Let(vector, stmt.value, number=stmt.number)]
        for number in range(vector.type.lanes):
            at = lane_place(stmt.at, stmt.step, number)
            one: Stmt = m.Store("store", stmt.array, at, lane(vector, number), number=stmt.number)
            if stmt.mask is not None:
                one = m.If(lane(stmt.mask, number), (one,), number=stmt.number)
            inside.append(one)
        margin = INDENT * depth
        lines = self.body(tuple(inside), depth + 1, known)
        return [Line(margin + "{", stmt.number), *lines, Line(margin + "}", stmt.number)]

    def _line(self, stmt: Stmt, known: set[str]) -> str:
        if isinstance(stmt, m.Thread):
            where = "group" if stmt.tag.startswith("block") else "local"
            known.add(stmt.reg.name)
            index = f"get_{where}_id({_DIMENSION[stmt.tag[-1]]})"
            return f"{self.type(stmt.reg.type)} {stmt.reg.name} = {index}"
        if isinstance(stmt, m.Barrier):
            return BARRIER.rstrip(";")
        if isinstance(stmt, m.Alloc):
            return self._allocation(stmt)
        if isinstance(stmt, m.Prefetch):
            return f"prefetch({stmt.array.name} + {self.at(stmt.at, 9)}, 1)"
        return super()._line(stmt, known)

    def _allocation(self, stmt: m.Alloc) -> str:
        array = stmt.array
        shared = stmt.place == "shared"
        if shared:
            self.spaces[array.name] = LOCAL
        declared = f"{'__local ' * shared}{self.kept(array.dtype)} {array.name}"
        return f"{declared}[{self.text(stmt.count)}] __attribute__((aligned({GPU_ALIGNMENT})))"

    def _store(self, stmt: m.Store) -> str:
        return self.updated(stmt) if stmt.how.startswith("atomic_") else self.stored(stmt)


BARRIER = "barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);"


def _exchanges(stmt: Stmt) -> Iterator[Fn]:
    """Yield the exchanges between work-items in the values of a statement."""
    for root in values(stmt):
        for value in operations(root):
            if isinstance(value, Fn) and value.name == "exchange":
                yield value


__all__ = ["KernelForm", "OpenClSource", "opencl_source"]
