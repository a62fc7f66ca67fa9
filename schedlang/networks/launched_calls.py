"""The calls of a network as launches of kernels, by a function that the host runs."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from schedlang.codegen.listing import Line, spans
from schedlang.codegen.network_cuda_file import (
    HELPERS,
    CallSource,
    NetworkSource,
    ViewSource,
    kernel_functions,
    render_device_network,
)
from schedlang.codegen.network_file import printable
from schedlang.codegen.network_storage import ParamPlace
from schedlang.codegen.numba_cuda import GpuSource, emit_program
from schedlang.compute.tensor import Tensor
from schedlang.errors import BuildError, explain
from schedlang.expr.dtypes import is_complex, itemsize, part_of
from schedlang.expr.nodes import Var
from schedlang.gpu_lowering.program import Program
from schedlang.intrinsics.dialect import GPU_NAMES
from schedlang.ir.nest import Nest
from schedlang.ir.nodes import Buffer
from schedlang.machine.file_names import short_name
from schedlang.machine.identifiers import Names
from schedlang.machine.nest import MachineNest
from schedlang.machine.scratch import Scratch, align_up
from schedlang.networks.assembly import Assembled, Assembly, Layout, comment_of
from schedlang.networks.data import CallData, DeviceData
from schedlang.networks.memory import MemoryPlan
from schedlang.networks.roles import KernelCall, Roles, bytes_of
from schedlang.networks.sized_memory import SizedMemory
from schedlang.target import Target


@dataclass(frozen=True)
class _Emitted:
    """The kernels of some calls, the function that launches them, and its comment."""

    source: GpuSource
    entry: str
    functions: tuple[tuple[Line, ...], ...]


class LaunchedCalls(Assembly):
    """Calls of GPU kernels, each with a ``program``."""

    TAKEN = (*HELPERS, *GPU_NAMES)

    def __init__(self, roles: Roles, fastmath: bool, target: Target) -> None:
        super().__init__(roles, fastmath)
        for call in roles.calls:
            if call.program is None:
                raise BuildError(
                    explain(
                        f"module of network {roles.name} for target={target.kind!r}",
                        f"part {call.name} is a kernel for a CPU",
                        'Build its kernel for target="cuda", and give its program.',
                    )
                )
        self.emitted = _emitted(self.public, roles, target)
        self._kernels = [_scratch(call, self.emitted) for call in roles.calls]

    @property
    def kernels(self) -> list[Scratch]:
        return self._kernels

    def assembled(self, layout: Layout) -> Assembled:
        emitted, public = self.emitted, self.public
        views = _Views(self.roles, self.nest, emitted, public, layout.params, layout.memory)
        sources = tuple(e.source for e in emitted.values())
        kernels = [kernel for source in sources for kernel in source.kernels]
        file = self.file(layout, len(kernels))
        source = NetworkSource(
            public, sources, views.parameters, tuple(views.sources), tuple(views.calls)
        )
        functions = [f for e in emitted.values() for f in e.functions]
        listing = render_device_network(file, source, functions)
        lines = dict(zip((id(f) for f in functions), spans(listing, functions)))
        return Assembled(
            listing,
            "launch",
            MachineNest(tuple(f for s in sources for f in s.machine.functions)),
            tuple(_call_data(call, emitted, lines) for call in self.roles.calls),
            device=DeviceData(tuple(k.form for k in kernels), views.alignment),
        )


def _program(call: KernelCall) -> Program:
    assert call.program is not None
    return call.program


def _emitted(public: str, roles: Roles, target: Target) -> dict[Program, _Emitted]:
    """Return the kernels of each program, in the order of its first call."""
    emitted: dict[Program, _Emitted] = {}
    used = {public}
    for call in roles.calls:
        program = _program(call)
        if program in emitted:
            continue
        entry = Names(used).fresh(short_name(f"launch_{call.name}"))
        source = emit_program(program, target, public, entry, used, scratch_given=True)
        used |= {entry, *(kernel.name for kernel in source.kernels), *source.machine.definitions}
        runs = [c for c in roles.calls if c.program is program]
        emitted[program] = _Emitted(source, entry, kernel_functions(source, comment_of(runs)))
    return emitted


def _scratch(call: KernelCall, emitted: Mapping[Program, _Emitted]) -> Scratch:
    """Return a kernel with the bytes of the arrays between its launches."""
    source = emitted[_program(call)].source
    return Scratch(call.nest, sum(align_up(_bytes(b)) for b in source.scratch), 0)


def _bytes(buffer: Buffer) -> int:
    assert buffer.bytes is not None
    return max(1, buffer.bytes)


def _call_data(
    call: KernelCall, emitted: Mapping[Program, _Emitted], lines: Mapping[int, tuple[int, int]]
) -> CallData:
    own = emitted[_program(call)]
    first, last = (lines[id(own.functions[k])] for k in (0, -1))
    return CallData(call.name, own.entry, (first[0], last[1]), call.stages, call.layers)


class _Views:
    """The arrays of a network as parts of two arrays of bytes, and the calls that take them.

    ``alignment`` has the bytes to which kernels need each argument to be aligned.
    """

    def __init__(
        self,
        roles: Roles,
        nest: Nest,
        emitted: Mapping[Program, _Emitted],
        public: str,
        places: Mapping[Tensor, ParamPlace],
        memory: MemoryPlan | SizedMemory,
    ) -> None:
        self.roles, self.places, self.memory = roles, places, memory
        functions = [
            name
            for e in emitted.values()
            for name in (e.entry, *(k.name for k in e.source.kernels))
        ]
        names = Names([*HELPERS, *GPU_NAMES, public, *functions])
        given: tuple[Hashable, ...] = (*roles.inputs, *roles.outputs, *roles.sizes)
        printed = [*(a.name for a in nest.args), *(v.name for v in roles.sizes)]
        self.parameters = tuple(map(names.give, given, printed))
        self.arguments = dict(zip(given, self.parameters))
        # attributes of one object hide no other names
        self.names = Names(())
        self.known: dict[Hashable, str] = {}
        self.sources: list[ViewSource] = []
        self.calls: list[CallSource] = []
        widest = {a: itemsize(b.dtype) for a, b in zip(given, nest.args) if isinstance(b, Buffer)}
        for position, call in enumerate(roles.calls):
            source = emitted[_program(call)].source
            self.calls.append(self.call(position, call, source, emitted[_program(call)].entry))
            for a, unit in zip(call.args, source.alignment):
                if a in widest:
                    widest[a] = max(unit, widest[a])
        self.alignment = tuple(widest.get(a, 0) for a in given[: len(nest.args)])

    def call(self, position: int, call: KernelCall, source: GpuSource, entry: str) -> CallSource:
        sizes: dict[str, str] = {
            key.name: text for key, text in self.arguments.items() if isinstance(key, Var)
        }
        args = [sizes[a.name] if isinstance(a, Var) else self.array(a) for a in call.args]
        args += [sizes[name] for name in call.signature.sizes]
        start = 0
        for buffer in source.scratch:
            args.append(self.scratch(position, buffer, start))
            start += align_up(_bytes(buffer))
        return CallSource(entry, tuple(args), printable(", ".join(call.layers)))

    def array(self, tensor: Tensor) -> str:
        """Return the text of a tensor as an argument."""
        if tensor in self.arguments:
            return self.arguments[tensor]
        if tensor not in self.known:
            name = self.roles.named(tensor)
            place = self.places.get(tensor)
            if place is not None:
                start, count = str(place.start), _elements(tensor)
                self.add(tensor, name, "params", start, count, tensor.dtype, tensor.shape)
            elif isinstance(self.memory, MemoryPlan):
                start, count = str(self.memory.offset(name)), _elements(tensor)
                self.add(tensor, name, "arena", start, count, tensor.dtype, tensor.shape)
            else:
                first = 2 * self.memory.names.index(name)
                start, count = f"places[{first}]", f"places[{first + 1}]"
                self.add(tensor, name, "arena", start, count, tensor.dtype, tensor.shape)
        return self.known[tensor]

    def scratch(self, position: int, buffer: Buffer, inside: int) -> str:
        """Return the text of an array between the kernels of a call."""
        region = self.roles.scratch_name(position)
        if isinstance(self.memory, MemoryPlan):
            start = str(self.memory.offset(region) + inside)
        else:
            start = f"places[{2 * self.memory.names.index(region)}]"
            start += f" + {inside}" if inside else ""
        name = f"{self.roles.calls[position].name}_{buffer.name}"
        count = str(buffer.bytes // itemsize(buffer.dtype) if buffer.bytes else 0)
        self.add((position, buffer), name, "arena", start, count, buffer.dtype, buffer.shape)
        return self.known[position, buffer]

    def add(
        self,
        key: Hashable,
        name: str,
        whole: str,
        start: str,
        count: str,
        dtype: str,
        shape: Sequence[object],
    ) -> None:
        attribute = self.names.fresh(name)
        self.known[key] = f"v.{attribute}"
        kind = part_of(dtype) if is_complex(dtype) else dtype
        about = printable(f"{name}[{', '.join(map(str, shape))}]")
        self.sources.append(ViewSource(attribute, whole, start, count, kind, about))


def _elements(tensor: Tensor) -> str:
    dtype = part_of(tensor.dtype) if is_complex(tensor.dtype) else tensor.dtype
    return str(bytes_of(tensor) // itemsize(dtype))
