"""Kernels whose loops run on the CPU: what all targets of this kind do in the same way."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from schedlang.codegen.listing import Line, Listing
from schedlang.codegen.network_file import NetworkFile, render_network, with_comments
from schedlang.codegen.numba_cpu import source_of
from schedlang.codegen.numba_file import HELPERS, render
from schedlang.diagnostics.spills import guarded_tiles, spills
from schedlang.diagnostics.strides import strided_accesses
from schedlang.errors import SpillWarning, StrideWarning, explain
from schedlang.instructions.declaration import MEMORY
from schedlang.intrinsics.dialect import NAMES
from schedlang.ir.nest import Nest, functions_of
from schedlang.ir.nodes import Block, For, Stmt, with_fields
from schedlang.ir.rewrite import deep
from schedlang.machine.lower import machine_nest
from schedlang.machine.nest import MachineNest
from schedlang.machine.passes.serial import serial
from schedlang.runtime.built import Built, Printed
from schedlang.runtime.kernel import Kernel
from schedlang.target import Target
from schedlang.targets.backend import Backend, L, Lowered, Options, Request
from schedlang.targets.imported_code import unused_code


class PrintedBackend(Backend[L]):
    """A target that makes one machine nest of loops, and prints it as a file."""

    def host(self, target: Target) -> Target:
        """Return the CPU whose vectors and registers the machine nest has."""
        return target

    def taken(self, loops: Nest) -> list[str]:
        """Return names that the file needs itself."""
        return [*NAMES, *HELPERS, *functions_of(loops)]

    def machine(self, request: Request[L]) -> MachineNest:
        """Return the machine nest, which passes of the target's own may change."""
        loops, host = request.lowered.loops, self.host(request.target)
        names_taken, fastmath = self.taken(loops), request.options.fastmath
        nest = machine_nest(loops, host, request.public, names_taken, fastmath)
        return nest if self.facts.threads else serial(nest)

    def reserved(self, names: Iterable[str]) -> Sequence[str]:
        """Return the names that no function of the file may have: the unsafe ones of ``names``."""
        return ()

    @abstractmethod
    def network_file(
        self, file: NetworkFile, machine: MachineNest, comments: Mapping[str, Sequence[str]]
    ) -> tuple[Listing, list[list[Line]]]:
        """Return the file of a network whose kernels are linked to ``machine``.

        Also return the lines of each function. ``comments`` stand above functions, by name.
        """

    @abstractmethod
    def printed(self, request: Request[L], machine: MachineNest) -> Listing:
        """Return the file of a machine nest."""

    @abstractmethod
    def wrapped(self, request: Request[L], built: Built) -> Kernel:
        """Return the kernel of what was built."""

    def kernel(self, request: Request[L]) -> Kernel:
        built = Built(
            request.signature,
            request.target,
            request.public,
            partial(self.machine, request),
            partial(self._printed, request),
            request.checked_by_size,
            request.unproven,
            request.options.fastmath,
            request.options.compiler,
            request.in_c,
        )
        return self.wrapped(request, built)

    def _printed(self, request: Request[L], machine: MachineNest) -> Printed:
        parallel = any(f.parallel for f in machine.functions)
        serial_text = self.printed(request, serial(machine)).text if parallel else ""
        listing = self.printed(request, machine)
        return Printed(listing.text, serial_text, listing.numbers, listing.launches)


class LoopBackend(PrintedBackend[Lowered]):
    """A target that runs the loops of the nest as they stand, without vectors if it has none."""

    def refusal(self, nest: Nest) -> str:
        """Return which instruction of a nest the processor lacks; it would end the process."""
        # a target without vectors runs the loops of an instruction as they stand
        if not self.facts.vectors:
            return ""
        loops = [loop for loop in nest.loops if loop.instruction is not None]
        if self.facts.instructions and (unused := unused_code(nest, loops)):
            return unused
        return self._lacking(loops) or self._unwritten(loops) if loops else ""

    def _lacking(self, loops: Sequence[For]) -> str:
        """Return which of the instructions in ``loops`` the processor lacks."""
        if not self.facts.instructions:
            return ""
        # it asks numba, which most builds do not load
        from schedlang.runtime.processor import missing_features, why_missing

        for loop in loops:
            assert loop.instruction is not None
            if missing := missing_features(loop.instruction.needs):
                return explain(
                    f"tensorize({loop.axis.name}, {loop.instruction}) on stage {loop.stage}",
                    f"the instruction needs {why_missing(missing)}",
                    'Leave out tensorize here, or build for target="python", which runs what the '
                    "instruction declares.",
                )
        return ""

    def _unwritten(self, loops: Sequence[For]) -> str:
        """Return which instruction in ``loops`` the compiler refuses, in its words.

        One of the user's is compiled alone: LLVM would end this process, and a C compiler would
        name a line of the whole file.
        """
        # they load numba, which most builds do not need
        from schedlang.instructions.box import IN_THE_BOX
        from schedlang.targets.instruction_trials import has_assembly, refusal

        language = self.facts.instructions
        for declared, loop in {loop.instruction: loop for loop in loops}.items():
            assert declared is not None
            written = language if language in declared.emit else MEMORY
            if declared in IN_THE_BOX or (written == MEMORY and not has_assembly(declared)):
                continue
            if why := refusal(declared, written):
                asked = f"tensorize({loop.axis.name}, {declared}) on stage {loop.stage}"
                return explain(asked, *why)
        return ""

    def lowered(self, nest: Nest, target: Target, options: Options) -> Lowered:
        if target.facts.vectors:
            return Lowered(nest)
        body = deep(nest.body, _plain)
        assert isinstance(body, Block)
        return Lowered(replace(nest, body=body))

    def warnings(
        self, nest: Nest, lowered: Lowered, target: Target
    ) -> Iterator[tuple[str, type[Warning]]]:
        """Yield tiles that leave the registers, and lanes that are far apart in memory."""
        for text in (*spills(lowered.loops, target), *guarded_tiles(lowered.loops, target)):
            yield text, SpillWarning
        for text in strided_accesses(lowered.loops, target):
            yield text, StrideWarning


def _plain(stmt: Stmt) -> Stmt:
    """Return a vectorized loop as a serial one."""
    vectorized = isinstance(stmt, For) and stmt.kind == "vectorize"
    return with_fields(stmt, kind="serial") if vectorized else stmt


class NumbaBackend(PrintedBackend[L]):
    """A target whose file is Python: compiled, by LLVM or by numba, or as it stands."""

    def shown(self, request: Request[L]) -> str:
        """Return what the header of the file shows."""
        return str(request.nest)

    def printed(self, request: Request[L], machine: MachineNest) -> Listing:
        source, compiled = source_of(machine, request.public), not self.facts.interpreted
        return render(
            request.lowered.loops,
            source,
            request.steps,
            request.options.fastmath,
            compiled,
            self.shown(request),
            request.refused,
        )

    def network_file(
        self, file: NetworkFile, machine: MachineNest, comments: Mapping[str, Sequence[str]]
    ) -> tuple[Listing, list[list[Line]]]:
        source = source_of(machine, file.nest.name)
        functions = with_comments(source.functions, machine, comments)
        return render_network(file, source, functions, not self.facts.interpreted), functions

    def wrapped(self, request: Request[L], built: Built) -> Kernel:
        return Kernel(built, request.schedule.copy(), request.nest)
