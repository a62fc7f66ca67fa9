"""Messages for attributes that a kernel does not have, with what to write instead."""

from __future__ import annotations

from collections.abc import Iterable

from schedlang.errors import explain, nearest
from schedlang.state.primitives.table import PRIMITIVES

_ASSEMBLY = 'Read .asm of a kernel for target="cpu".'
# attributes of kernels for GPUs alone, and what to use of a kernel for the CPU
OF_GPU = {
    "check": "The loops of a CPU kernel are proven free of races when it is built; .unproven lists "
    "the rules that could not be proven. To check the result, compare it with the result of "
    "sl.reference.",
    "simulate": 'Build the schedule for target="python": its source runs uncompiled.',
    "program": "Print .loop_nest or .machine_nest.",
    "launches": "Print .loop_nest or .machine_nest.",
    "machine_code": _ASSEMBLY,
    "ptx": _ASSEMBLY,
    "sass": _ASSEMBLY,
    "resources": "Read .asm for the registers, .loop_nest.buffers for the storage.",
}
# names that other libraries use, or that belong to functions of schedlang
REPLACEMENTS = {
    **dict.fromkeys(("run", "launch", "call", "execute"), "call it with arrays: f(*arrays)"),
    **dict.fromkeys(
        ("time", "timeit", "benchmark", "evaluate"), "write sl.evaluate(f, *arrays)"
    ),
    **dict.fromkeys(
        ("shape", "dtype", "args", "inputs", "outputs", "parameters"),
        "its arguments are f.signature.parameters, each with its shape and dtype",
    ),
    **dict.fromkeys(("nest", "ir", "lowered"), "write f.loop_nest"),
    **dict.fromkeys(
        ("as_python", "to_json", "steps"), "its schedule has: f.schedule.{name}"
    ),
    "cost": "write sl.cost(f.schedule)",
    "explain": "write sl.explain(f, *arrays)",
    "next_steps": "write sl.next_steps(f.schedule)",
    "reference": "write sl.reference(f.schedule.outputs)",
    "code": "write f.source, or f.asm for machine code",
}  # fmt: skip


def no_attribute(kernel: str, target: str, name: str, known: Iterable[str]) -> str:
    """Return a message that a kernel for ``target`` has no attribute ``name``.

    ``known`` are its attributes.

    >>> print(no_attribute("B", "cpu", "ptx", []))
    ptx of kernel B: only kernels for GPUs have it, and this one is built for target="cpu"
      Read .asm of a kernel for target="cpu".
    """
    if name in OF_GPU:
        return explain(
            f"{name} of kernel {kernel}",
            f'only kernels for GPUs have it, and this one is built for target="{target}"',
            OF_GPU[name],
        )
    asked = f"kernel {kernel} has no attribute {name!r}"
    if name in REPLACEMENTS:
        return f"{asked}: {REPLACEMENTS[name].format(name=name)}"
    if name in PRIMITIVES:
        return explain(
            asked, f"{name} is a step of a schedule, which a kernel no longer changes",
            "Take the step on the schedule, then build it again.",
        )  # fmt: skip
    return f"{asked}{nearest(name, (n for n in known if not n.startswith('_')))}"
