"""The kinds of targets, each with the facts that other parts of schedlang ask for.

Nothing else compares the name of a kind: a question about a target is a field here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, Literal, Protocol

from schedlang.errors import BuildError, explain

# DLPack's number of the device whose memory holds the arrays of a call
CPU, CUDA, OPENCL = 1, 2, 4
# numba compiles an emitted file, and LLVM the machine nest that the file is printed from
COMPILERS = ("llvm", "numba")


@dataclass(frozen=True)
class Facts:
    """The facts about every target of one kind.

    ``name`` is what ``target=`` takes, with te's ``spellings`` of it. ``backend`` is where the
    class stands that builds its kernels, as ``"module:name"``. A target that is given as an object
    builds its kernels itself, so nobody reads its ``backend``.

    Loops:

    * ``binds_threads``: loops are bound to blocks and threads, whose nest becomes a program of
      kernels. Elsewhere loops run as they stand, parallel ones on the threads of a CPU.
    * ``vectors``: a vectorized loop becomes vectors; otherwise it is a loop, and a vector register
      of the target is taken to have one element.
    * ``threads``: a parallel loop runs on several threads; otherwise it is a loop.
    * ``vector_arithmetic``: vectors compute, also under a condition for each lane; otherwise they
      only move aligned pieces of memory, and sums are kept in scalar registers.
    * ``vector_bytes`` and ``vector_registers``: the defaults of :class:`~schedlang.Target`, 0 for
      this machine's.
    * ``longest_vector``: the registers that one vector fills at most, which its compiler splits.
    * ``instructions``: the language in which an instruction of the user's is written, a key of
      ``emit=``; "" if the loops that it would replace run as they stand. An emulator runs them so,
      and has the language of what it emulates.
    * ``unrolls``: unrolled loops are written out; otherwise the compiler unrolls them.
    * ``ordered``: a call accesses memory in a fixed order, in which caches can be simulated.

    Files and kernels:

    * ``language`` of the file, and ``interpreted`` if it runs without compilation.
    * ``compilers``: the values of ``compiler=``, the default one first.
    * ``openmp``: the threads of parallel loops are OpenMP's, not numba's.
    * ``saved``: a saved kernel or network runs without schedlang.
    * ``emulates``: the kind whose kernels a saved network has; "" if it has its own.
    * ``symbols``: the functions of a kernel can be named in a profiler's map of this process.
    * ``network_backend`` is where the class stands that runs the modules of its networks, a
      :class:`~schedlang.networks.backend.ModuleBackend`, as ``"module:name"``; "" if none does.
    * ``starts``: the cache folder keeps how a network starts, for other processes.

    Machines and times:

    * ``device``: DLPack's number of the device whose memory holds the arrays.
    * ``takes_arch``: it has an architecture.
    * ``takes_triple``: its files are compiled for other processors and systems, too.
    * ``limits``: where the :class:`~schedlang.target.Device` stands that holds the limits of a
      block, as ``"module:name"``; "" if the architecture has them.
    * ``needs_driver``: it runs only where there is such a device, and its driver.
    * ``emulated``: the kind whose kernels do the same on a CPU; "" if there is none.
    * ``compiles_at_launch``: the first launch compiles again.
    * ``timing``: by the clock of the ``"host"``, by ``"events"`` of the device, or by ``"none"``,
      since times say nothing.

    Schedules:

    * ``tactics``: the :class:`~schedlang.autotune.tactics.Registry` of tactics that search for its
      schedules, or its name: one of schedlang's, or an entry point in ``schedlang.tactics``.
    * ``tuned``: searches can time candidates, whose records name the device.
    * ``measured_as``: the kind whose measured schedules are also good ones here.
    * ``compared_estimates``: the estimates of its cost model were compared with times on several
      machines.
    * ``rewrites_networks``: a network's layouts are chosen for it, and its integers kept.
    * ``winograd``: the forms of its convolutions of 3 by 3 are chosen by a measured ``"rule"`` and
      by times, or by ``"times"`` alone; "" if all are direct.
    """

    name: str
    backend: str = ""
    spellings: tuple[str, ...] = ()
    binds_threads: bool = False
    vectors: bool = True
    threads: bool = True
    vector_arithmetic: bool = True
    vector_bytes: int = 0
    vector_registers: int = 0
    longest_vector: int = 4
    instructions: str = ""
    unrolls: bool = True
    ordered: bool = True
    language: Literal["Python", "C"] = "Python"
    interpreted: bool = False
    compilers: tuple[str, ...] = ()
    openmp: bool = False
    saved: bool = False
    emulates: str = ""
    symbols: bool = False
    network_backend: str = "schedlang.networks.host_backend:HostBackend"
    starts: bool = True
    device: int = CPU
    takes_arch: bool = False
    takes_triple: bool = False
    limits: str = ""
    needs_driver: bool = False
    emulated: str = ""
    compiles_at_launch: bool = False
    timing: Literal["host", "events", "none"] = "host"
    tactics: Any = "cpu"
    tuned: bool = True
    measured_as: str = "cpu"
    compared_estimates: bool = True
    rewrites_networks: bool = True
    winograd: Literal["rule", "times", ""] = "rule"

    @property
    def host_arrays(self) -> bool:
        """True if the arrays of a call are in the memory of the host, behind a CPU's caches."""
        return self.device == CPU

    def compiler_named(self, compiler: str) -> str:
        """Return ``compiler``, or the target's default compiler if that is empty.

        Raise :class:`~schedlang.errors.BuildError` for a compiler that the target lacks.
        """
        if not compiler:
            return next(iter(self.compilers), "")
        if compiler in self.compilers:
            return compiler
        known = " or ".join(f'compiler="{name}"' for name in self.compilers)
        raise BuildError(
            explain(
                f"compiler={compiler!r} for target={self.name!r}",
                "this target has no such compiler",
                f"Give {known}." if known else "Leave out compiler=.",
            )
        )


class HasFacts(Protocol):
    """A target that is given as an object: a :class:`~schedlang.targets.Backend`."""

    @property
    def facts(self) -> Facts: ...


def _gpu(
    name: str,
    backend: str,
    spellings: tuple[str, ...] = (),
    timing: Literal["events", "none"] = "none",
    needs_driver: bool = False,
    emulates: str = "",
    compilers: tuple[str, ...] = (),
    network_backend: str = Facts.network_backend,
) -> Facts:
    return Facts(
        name,
        backend,
        spellings,
        binds_threads=True,
        vector_arithmetic=False,
        vector_bytes=16,
        vector_registers=64,
        instructions="cuda",
        unrolls=False,
        ordered=False,
        compilers=compilers,
        saved=True,
        emulates=emulates,
        network_backend=network_backend,
        starts=False,
        device=CUDA,
        takes_arch=True,
        needs_driver=needs_driver,
        emulated="cuda-emulator",
        compiles_at_launch=True,
        timing=timing,
        tactics="cuda",
        measured_as="cuda",
        compared_estimates=False,
        rewrites_networks=False,
        winograd="times",
    )


KINDS = {
    facts.name: facts
    for facts in (
        Facts(
            "cpu",
            "schedlang.targets.cpu.backend:CpuBackend",
            ("llvm",),
            instructions="llvm",
            compilers=COMPILERS,
            saved=True,
            symbols=True,
        ),
        Facts("python", "schedlang.targets.python.backend:PythonBackend", interpreted=True),
        Facts("c", "schedlang.targets.c.backend:CBackend", language="C", openmp=True,
              # GCC keeps a vector of several registers in memory
              instructions="c", takes_triple=True, longest_vector=1),
        _gpu(
            "cuda",
            "schedlang.targets.cuda.backend:CudaBackend",
            ("nvptx",),
            "events",
            needs_driver=True,
            network_backend="schedlang.networks.device_backend:DeviceBackend",
        ),
        _gpu(
            "cuda-emulator",
            "schedlang.targets.cuda_emulator.backend:EmulatorBackend",
            emulates="cuda",
            compilers=COMPILERS,
        ),
        replace(
            _gpu("opencl", "schedlang.targets.opencl.backend:OpenClBackend", (), "events"),
            language="C",
            instructions="",
            saved=False,
            network_backend="",
            device=OPENCL,
            takes_arch=False,
            limits="schedlang.targets.opencl.limits:LIMITS",
        ),
    )
}
SPELLINGS = {word: name for name, facts in KINDS.items() for word in (name, *facts.spellings)}

# where packages name their targets
GROUP = "schedlang.targets"


def placed_at(place: str) -> Any:
    """Return what stands at a place that a fact names as ``"module:name"``."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


def check_target(target: Any, asked: str) -> HasFacts:
    """Return ``target``, an object of the user's, if it has facts and a name of its own.

    Raise :class:`~schedlang.errors.BuildError`, with ``asked`` in the message, if it does not.
    """
    facts = getattr(target, "facts", None)
    if isinstance(target, type) or not isinstance(facts, Facts):
        fix = (
            f"Give an object of it: {target.__name__}()."
            if isinstance(target, type)
            else (
                "Derive its class from one of schedlang.targets, and set facts = Facts(name=...)."
            )
        )
        raise BuildError(explain(asked, "a target is an object with facts", fix))
    if facts.name in SPELLINGS or not re.fullmatch(r"[a-z][a-z0-9-]*", facts.name):
        why = (
            "schedlang has a target of that name"
            if facts.name in SPELLINGS
            else ("a name has lower-case letters, digits and hyphens, and begins with a letter")
        )
        fix = 'Set facts of its own, such as replace(CBackend.facts, name="scalar").'
        raise BuildError(explain(f"{asked}: the target {facts.name!r}", why, fix))
    return target


def _entries(group: str, **asked: Any) -> Iterable[Any]:
    """Return the entry points of a group, by name if one is ``asked`` for."""
    # it would take 5 percent of the time of `import schedlang`
    from importlib.metadata import entry_points

    return entry_points(group=group, **asked)


def installed_names() -> Iterator[str]:
    """Yield the names of targets that packages have as entry points."""
    yield from sorted({entry.name for entry in _entries(GROUP)} - {*SPELLINGS})


def installed_object(group: str, kind: str, name: str) -> tuple[Any, str] | None:
    """Return the object that an installed package has under ``name`` in a group of entry points.

    With it comes its description for messages, as ``kind`` with the name and the entry point. The
    result is ``None`` if no package has that name. Raise :class:`~schedlang.errors.BuildError` for
    an entry point that cannot be loaded.
    """
    entry = next(iter(_entries(group, name=name)), None)
    if entry is None:
        return None
    asked = f"{kind} {name!r}, the entry point {entry.value}"
    try:
        loaded = entry.load()
        return loaded() if isinstance(loaded, type) else loaded, asked
    except Exception as error:
        # the package may raise anything when it is imported, or when its class is called
        why = f"it cannot be loaded: {type(error).__name__}: {error}"
        fix = "Install the package that it belongs to again, or remove it."
        raise BuildError(explain(asked, why, fix)) from error


def installed_target(name: str) -> HasFacts | None:
    """Return the target that an installed package has under ``name``, ``None`` if none has.

    Raise :class:`~schedlang.errors.BuildError` if what the entry point names is not a target.
    """
    entry = installed_object(GROUP, "target", name)
    if entry is None:
        return None
    loaded, asked = entry
    target = check_target(loaded, asked)
    if target.facts.name != name:
        why = f"its facts have the name {target.facts.name!r}"
        raise BuildError(explain(asked, why, "Give the entry point and the facts one name."))
    return target


__all__ = [
    "CPU", "CUDA", "KINDS", "OPENCL", "SPELLINGS", "Facts", "HasFacts", "check_target",
    "installed_names", "installed_object", "installed_target", "placed_at",
]  # fmt: skip
