"""``target="c"``: the machine nest as C, compiled by the system's compiler."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from schedlang.codegen.c_externs import c_externs
from schedlang.codegen.c_source import c_file, c_functions, c_source, reserved_names
from schedlang.codegen.listing import Line, Listing, plain
from schedlang.codegen.network_file import NetworkFile, network_head, with_comments
from schedlang.codegen.numba_file import header_lines
from schedlang.diagnostics.order_hint import order_hints
from schedlang.ir.nest import Nest
from schedlang.machine.identifiers import identifier
from schedlang.machine.nest import MachineNest
from schedlang.runtime.built import Built
from schedlang.runtime.c_kernel import CKernel
from schedlang.target_kinds import KINDS
from schedlang.targets.backend import Lowered, Request
from schedlang.targets.loops import LoopBackend


class CBackend(LoopBackend):
    """C with vector extensions and OpenMP."""

    facts = KINDS["c"]

    def taken(self, loops: Nest) -> list[str]:
        things = (*loops.args, *loops.sizes, *loops.buffers)
        names = (*loops.names.values(), *(t.name for t in things))
        return [*super().taken(loops), *self.reserved(identifier(name) for name in names)]

    def reserved(self, names: Iterable[str]) -> Sequence[str]:
        return reserved_names(names)

    def network_file(
        self, file: NetworkFile, machine: MachineNest, comments: Mapping[str, Sequence[str]]
    ) -> tuple[Listing, list[list[Line]]]:
        externs = c_externs(machine, file.fastmath)
        texts, bare = c_functions(machine, externs)
        functions = with_comments(bare, machine, comments, "//")
        lines = [*functions, *map(plain, externs.defined)]
        return c_file(network_head(file, "//"), texts, lines), functions

    def printed(self, request: Request[Lowered], machine: MachineNest) -> Listing:
        nest = request.nest
        header = header_lines(nest, request.steps, str(nest), order_hints(nest), "//")
        return c_source(machine, header, request.options.fastmath)

    def wrapped(self, request: Request[Lowered], built: Built) -> CKernel:
        return CKernel(built, request.schedule.copy(), request.nest, request.options.fastmath)
