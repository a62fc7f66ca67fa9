"""The checks that this machine runs a program of C, which is for a processor."""

from __future__ import annotations

from schedlang.errors import CallError, explain
from schedlang.runtime.c_library import host_name
from schedlang.target_options import TRIPLES, architecture_of, own_triples

# the features that code for the levels of x86-64 needs
_LEVELS = {
    "": (),
    "x86_64": (),
    "x86_64_v2": ("sse4.2", "popcnt"),
    "x86_64_v3": ("avx2", "bmi2", "fma", "f16c", "lzcnt"),
    "x86_64_v4": ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"),
}


def refuse_call(what: str, name: str, triple: str, save: str) -> None:
    """Raise :class:`~schedlang.errors.CallError` if a kernel or network is for a ``triple``.

    ``what`` it is and its ``name`` stand in the message, and ``save`` is the call that saves it.
    """
    if not triple:
        return
    raise CallError(
        explain(
            f"{what} {name} for {triple}",
            "its machine code does not run in this process",
            f"Save it ({save}), {'build' if what == 'network' else 'link it into'} a program, and "
            f"run that {_where(triple)}; to call the {what} here, build it without a triple.",
        )
    )


def _where(triple: str) -> str:
    """Return where a program for a triple runs, for a sentence."""
    architecture, system, *_ = triple.split("-")
    if system == "wasi":
        return "by wasmtime"
    return f"on such a machine or by qemu-{architecture}" if system == "linux" else "there"


def foreign(made_for: str) -> str:
    """Return which processor or system a library was made for, if this machine may not run it.

    ``made_for`` is what its file says: a processor of this machine's kind, or a triple and the
    processor, by zig's name. The result is an end of a sentence, empty if this machine runs it.
    """
    own = host_name()
    triple, _, rest = made_for.partition(" ")
    if triple not in TRIPLES:
        if made_for == own:
            return ""
        return (
            f"another processor ({made_for}), whose instructions this one ({own}) may lack; save "
            "the kernel again here"
        )
    if triple not in own_triples():
        return (
            f"{triple}, and this machine is {own_triples()[0]}: copy it to such a machine, or "
            "build the kernel without a triple to call it here"
        )
    cpu, _, listed = rest.partition("+")
    needs = [*_LEVELS.get(cpu, ()), *(name for name in listed.split("+") if name)]
    # it asks LLVM for the features
    from schedlang.runtime.processor import processor_features

    if cpu not in _LEVELS and cpu != own.replace("-", "_"):
        return (
            f"another processor ({cpu}), whose instructions this one ({own}) may lack; save the "
            f"kernel again, for a level such as {architecture_of(triple)}_v3 or without a triple"
        )
    if lacking := sorted(set(needs) - processor_features()):
        return f"processors with {' and '.join(lacking)}, which this one ({own}) lacks"
    return ""
