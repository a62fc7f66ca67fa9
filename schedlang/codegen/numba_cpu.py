"""The machine nest of a CPU kernel as numba source."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass

from schedlang.codegen.listing import Line
from schedlang.codegen.numba_printer import NumbaPrinter
from schedlang.codegen.numba_source import definitions, split_names
from schedlang.machine.nest import MachineNest
from schedlang.machine.passes.equal import shape_of
from schedlang.machine.walks import walk


@dataclass(frozen=True)
class Source:
    """The emitted source: functions (callees first), and the intrinsics that they use.

    They are the functions of ``nest``, in its order; ``definitions`` are the functions that
    instructions call.
    """

    nest: MachineNest
    entry: str
    functions: tuple[tuple[Line, ...], ...]
    intrinsics: tuple[str, ...]
    math: tuple[str, ...]
    parallel: bool
    public: str
    parameters: tuple[str, ...]
    definitions: tuple[tuple[Line, ...], ...] = ()


def source_of(nest: MachineNest, public: str) -> Source:
    """Return ``nest`` as the functions of a file whose public function is ``public``."""
    printer = NumbaPrinter(nest.texts)
    functions: list[tuple[Line, ...]] = []
    equal = equal_functions(nest)
    for function in nest.functions:
        if function.name in equal:
            text = f"{function.name} = {equal[function.name]}"
            functions.append((Line(text, function.number),))
            continue
        options = "parallel=True, **OPTIONS" if function.parallel else "**OPTIONS"
        functions.append(printer.function(function, f"@njit({options})"))
    intrinsics, math = split_names(printer.used)
    return Source(
        nest,
        nest.entry.name,
        tuple(functions),
        intrinsics,
        math,
        any(f.parallel for f in nest.functions),
        public,
        tuple(p.name for p in nest.entry.parameters),
        definitions(nest, printer.used, "@njit(**OPTIONS)"),
    )


def equal_functions(nest: MachineNest) -> dict[str, str]:
    """Return the first function that differs in names alone, for those that have one before them.

    numba compiles it for all of them.
    """
    first: dict[Hashable, str] = {}
    parts = nest.functions[:-1] if len(nest.functions) > 2 else ()
    # the shape of a function takes long, and few others have as many statements
    sizes = {part.name: sum(1 for _ in walk(part.body)) for part in parts}
    times = Counter(sizes.values())
    alike = [part for part in parts if times[sizes[part.name]] > 1]
    first_of = {part.name: first.setdefault(shape_of(part), part.name) for part in alike}
    return {name: other for name, other in first_of.items() if other != name}
