"""From a schedule to a kernel: lower, verify, emit, compile."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from schedlang.codegen.c_source import c_source, reserved
from schedlang.codegen.listing import Listing
from schedlang.codegen.numba_cpu import source_of
from schedlang.codegen.numba_file import HELPERS, header_lines, render
from schedlang.compute.tensor import Tensor, check_name
from schedlang.diagnostics.order_hint import order_hints
from schedlang.diagnostics.spills import gpu_spills, guarded, spills
from schedlang.diagnostics.strides import strided
from schedlang.errors import (
    BuildError,
    ComputeTypeError,
    SpillWarning,
    StrideWarning,
    UnprovenWarning,
    explain,
)
from schedlang.expr.nodes import Var
from schedlang.gpu_lowering.emulation import as_loops
from schedlang.gpu_lowering.lower import device_program
from schedlang.gpu_lowering.printer import program_text
from schedlang.gpu_lowering.program import Program
from schedlang.gpu_lowering.without_barriers import without_barriers
from schedlang.intrinsics.dialect import NAMES
from schedlang.ir.aliasing import in_place_pairs
from schedlang.ir.nest import Nest
from schedlang.ir.numbers import numbered
from schedlang.ir.verify import report
from schedlang.lowering.lower import lower_state
from schedlang.machine.lower import machine_nest
from schedlang.machine.names import RESERVED, SAVED, identifier
from schedlang.machine.nest import MachineNest
from schedlang.machine.passes.serial import serial
from schedlang.runtime.c_kernel import CKernel
from schedlang.runtime.device_file import DeviceFile
from schedlang.runtime.emulated import GpuKernel
from schedlang.runtime.gpu import CudaKernel
from schedlang.runtime.kernel import Built, Kernel
from schedlang.runtime.parameters import signature_of
from schedlang.schedule.schedule import Schedule
from schedlang.state.state import NONTEMPORAL
from schedlang.target import Target, or_emulator
from schedlang.target_options import check_host


def lower(
    schedule: Any, args: Sequence[Any] | None = None, name: str | None = None, **te_options: Any
) -> Nest:
    """Return the loop nest of a schedule for ``args``, as ``print(schedule)`` shows it.

    ``args``: tensors and scalars in calling order; by default the placeholders in order of first
    appearance, then scalars, then outputs. If they hold no output, the outputs follow.

    Raises :class:`~schedlang.errors.LoweringError` if the schedule does not fit together.

    >>> import schedlang as sl
    >>> A = sl.placeholder((4,), name="A")
    >>> B = sl.compute((4,), lambda i: A[i] * 2, name="B")
    >>> sl.lower(sl.schedule(B), [A, B]).loops[0].extent
    4
    """
    checked = _checked(schedule, "lower", te_options)
    _check_list("lower", args, name)
    outputs = checked.outputs
    if args is not None and not any(a is t for a in args for t in outputs):
        args = [*args, *outputs]
    return lower_state(checked.state, args, name=name)


def _spilled(nest: Nest, program: Program | None, target: Target) -> list[str]:
    """Return a warning for each tile of accumulators that does not stay in registers."""
    if program is not None:
        return gpu_spills(program, target) if target.kind == "cuda" else []
    on_cpu = target.kind in ("cpu", "c")
    return [*spills(nest, target), *guarded(nest, target)] if on_cpu else []


_TE_OPTIONS = frozenset({"simple_mode", "binds", "target_host", "runtime"})


def _checked(schedule: Any, what: str, options: Mapping[str, Any]) -> Schedule:
    unknown = sorted(set(options) - _TE_OPTIONS)
    if unknown:
        raise ComputeTypeError(f"sl.{what} has no option {unknown[0]!r}")
    check_host(options.get("target_host"))
    if not isinstance(schedule, Schedule):
        raise ComputeTypeError(
            f"sl.{what}({type(schedule).__name__}): the argument must be a schedule, e.g. "
            "sl.schedule(C)"
        )
    return schedule


def _check_list(what: str, args: Any, *behind: Any) -> None:
    """Refuse tensors that are not in a list, and a target given in the place of args."""
    if isinstance(args, (Tensor, Var)):
        given = ", ".join(a.name for a in (args, *behind) if isinstance(a, (Tensor, Var)))
        raise ComputeTypeError(
            f"sl.{what}(s, {given}): args must be one list; write sl.{what}(s, [{given}])"
        )
    if isinstance(args, (str, Target)):
        shown = f'"{args}"' if isinstance(args, str) else "Target(...)"
        hint = f"; write sl.build(s, target={shown})" if what == "build" else ""
        raise ComputeTypeError(f"sl.{what}(s, {shown}): args must be a list of tensors{hint}")


def build(
    schedule: Any, args: Sequence[Any] | None = None, target: Any = None, name: str | None = None,
    fastmath: bool = False, barriers: bool = True, lineinfo: bool = False, **te_options: Any,
) -> Kernel:  # fmt: skip
    """Return a :class:`Kernel` from a schedule.

    ``args``: the tensors (and scalars) in calling order; by default the placeholders in order of
    first appearance, then scalars, then outputs. ``target``: ``"cpu"``, ``"python"`` (the same
    source, not compiled), ``"c"`` (C, compiled by the system's ``cc``), ``"cuda"``,
    ``"cuda-emulator"`` (the CUDA kernels on the CPU), or a :class:`~schedlang.target.Target`; by
    default that of the enclosing ``with Target(...)``, else the CPU. ``fastmath`` lets the compiler
    reassociate floating-point operations and assume that there are no NaNs and infinities. With
    ``lineinfo`` the machine code of a GPU kernel names the lines of the file, for ncu and other
    tools; it changes no instruction. With ``SCHEDLANG_CUDA=emulator`` in the environment,
    ``"cuda"`` means the emulator.

    ``barriers=False``, for ``"cuda-emulator"`` only, leaves out the barriers between the threads of
    a block. ``f.check(...)`` then shows which threads race, and for what.

    Raises :class:`~schedlang.errors.LoweringError` if the schedule does not fit together. Raises
    :class:`~schedlang.errors.BuildError` if the target cannot run it, or if the source cannot be
    written to the cache folder.

    Warns with :class:`~schedlang.errors.SpillWarning` if a tile of accumulators needs more (vector)
    registers than the target has, or if a guard keeps it out of registers. Warns with
    :class:`~schedlang.errors.StrideWarning` if the lanes of a CPU's vector are far apart in memory,
    and with :class:`~schedlang.errors.UnprovenWarning` for each sentence of ``Kernel.unproven``.

    >>> import numpy as np, schedlang as sl
    >>> A = sl.placeholder((4,), name="A")
    >>> B = sl.compute((4,), lambda i: A[i] * 2, name="B")
    >>> sl.build(sl.schedule(B), [A, B], target="python")(np.ones(4, "float32"))
    array([2., 2., 2., 2.], dtype=float32)
    """
    _checked(schedule, "build", te_options)
    _check_list("build", args, target, name, fastmath)
    if name in ("llvm", "cuda"):
        raise ComputeTypeError(
            f'sl.build(..., name="{name}"): the fourth argument is the name of the kernel; te\'s '
            "target_host has no meaning here: leave it out"
        )
    where = or_emulator(Target.of(target))
    made = unwritten(schedule, args, where, name, fastmath, barriers, lineinfo)
    made.write()
    return made


def unwritten(
    schedule: Schedule, args: Sequence[Any] | None, where: Target, name: str | None = None,
    fastmath: bool = False, barriers: bool = True, lineinfo: bool = False,
) -> Kernel:  # fmt: skip
    """Return the kernel of :func:`build`; its source is written when a file is first needed."""
    if not isinstance(fastmath, bool):
        raise BuildError(
            f"fastmath={fastmath!r} is neither True nor False: True lets the compiler reassociate "
            "operations and assume that there are no NaNs and infinities"
        )
    if lineinfo and not where.is_gpu:
        raise BuildError(
            explain(
                f'lineinfo={lineinfo!r} for target="{where.kind}"',
                "this option is for the machine code of GPU kernels",
                "Leave it out: .llvm and .asm of a CPU kernel show the lines without it. "
                "docs/profiling.md says how profilers and debuggers see them.",
            )
        )
    if barriers is not True and where.kind != "cuda-emulator":
        raise BuildError(
            explain(
                f"sl.build(..., target={where.kind!r}, barriers={barriers!r})",
                "only the emulator runs a kernel without its barriers, to show its races",
                'Leave out barriers=, or build for target="cuda-emulator".',
            )
        )  # fmt: skip
    nest = numbered(lower_state(schedule.state, args, name=name))
    if where.kind == "c" and any(n == NONTEMPORAL for loop in nest.loops for n, _ in loop.pragmas):
        raise BuildError(
            f"building {nest.name} for C: a loop has the pragma {NONTEMPORAL!r}, and C has no "
            'store that bypasses the cache; leave it out, or build for target="cpu"'
        )
    public = identifier(check_name(name, "a kernel") if name is not None else nest.name)
    if public in RESERVED or public in NAMES or public in SAVED:
        # the file imports something under that name
        public = f"{public}_"
    # before the verifier: its messages name the bound axes, the verifier's only loops
    program = device_program(nest, where) if where.is_gpu else None
    if program is not None and not barriers:
        program = without_barriers(program)
    found = report(nest)
    for access in found.accesses:
        if access.exact and not access.needs_sizes:
            raise BuildError(access.refusal(f"sl.build of {nest.name},"))
    checked = any(u.needs_sizes for u in found.accesses)
    signature = signature_of(nest, in_place_pairs(nest))
    steps = schedule.as_python()
    for warning in _spilled(nest, program, where):
        warnings.warn(warning, SpillWarning, stacklevel=3)
    if where.kind in ("cpu", "c"):
        for warning in strided(nest, where):
            warnings.warn(warning, StrideWarning, stacklevel=3)
    loops, open_ = nest, found.open
    if program is not None:
        loops = as_loops(program)
        open_ = tuple(dict.fromkeys((*open_, *report(loops).open)))
    for sentence in open_:
        text = f"sl.build of {nest.name}: {sentence}; compare its result with sl.reference"
        warnings.warn(text, UnprovenWarning, stacklevel=3)
    file = None
    if program is not None:
        file = DeviceFile(program, where.arch, public, steps, fastmath, bool(lineinfo))
    if file is not None and where.kind == "cuda":
        kernels = file.source.machine
        built = Built(
            signature, where, "launch", public, file.text, kernels, "", checked, open_,
            file.listing.numbers, fastmath,
        )  # fmt: skip
        return CudaKernel(built, schedule.copy(), nest, file)
    host = Target("cpu") if where.is_gpu else where
    taken = [*NAMES, *HELPERS]
    if where.kind == "c":
        things = (*loops.args, *loops.sizes, *loops.buffers)
        taken += reserved(identifier(n) for n in (*loops.names.values(), *(t.name for t in things)))
    machine = machine_nest(loops, host, public, taken, fastmath)
    shown = str(nest) if program is None else program_text(program)

    def printed(made: MachineNest) -> Listing:
        if where.kind == "c":
            return c_source(made, header_lines(nest, steps, str(nest), order_hints(nest), "//"))
        source = source_of(made, public)
        return render(loops, source, steps, fastmath, where.kind != "python", shown)

    parallel = any(f.parallel for f in machine.functions)
    serial_text = printed(serial(machine)).text if parallel else ""
    listing = printed(machine)
    built = Built(
        signature, where, machine.entry.name, public, listing.text, machine, serial_text,
        checked, open_, listing.numbers, fastmath,
    )  # fmt: skip
    if where.kind == "c":
        return CKernel(built, schedule.copy(), nest, fastmath)
    if file is not None:
        return GpuKernel(built, schedule.copy(), nest, file)
    return Kernel(built, schedule.copy(), nest)
