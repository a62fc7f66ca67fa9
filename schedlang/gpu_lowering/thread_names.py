"""Names of thread and block indices, distinct from the names of the loops in a kernel."""

from __future__ import annotations

from schedlang.expr.nodes import Axis
from schedlang.gpu_lowering.program import Launch, Program
from schedlang.ir.nodes import For, walk


def program_names(program: Program) -> dict[Axis, str]:
    """Return the names of a nest's loops, with unique names for thread and block indices.

    A thread loop may be inside other loops of the nest, but in the kernel its index is outside all
    loops.
    """
    names = dict(program.nest.names)
    names_taken = set(names.values())
    own: dict[str, str] = {}
    for launch in program.launches:
        for axis in (*_loops(launch), *(i.axis for i in launch.indices)):
            if axis not in names:
                # a pass made it
                if axis.name not in own:
                    own[axis.name] = _fresh(axis.name, names_taken)
                names[axis] = own[axis.name]
    names_taken.update(own.values())
    for launch in program.launches:
        inside = {names.get(axis, axis.name) for axis in _loops(launch)}
        for index in launch.indices:
            name = names.get(index.axis, index.axis.name)
            if name in inside:
                name = names[index.axis] = _fresh(f"{launch.stage}.{index.axis.name}", names_taken)
                names_taken.add(name)
            inside.add(name)
    return names


def _loops(launch: Launch) -> list[Axis]:
    return [stmt.axis for stmt, _ in walk(launch.body) if isinstance(stmt, For)]


def _fresh(name: str, taken: set[str]) -> str:
    candidate, count = name, 0
    while candidate in taken:
        count += 1
        candidate = f"{name}_{count}"
    return candidate
