"""From a schedule to a kernel: lower, verify, emit, compile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from inspect import signature
from typing import Any, cast

from schedlang.codegen.refused_sizes import Refusals
from schedlang.compute.tensor import Tensor
from schedlang.errors import (
    BuildError,
    ComputeTypeError,
    UnprovenWarning,
    nearest,
    warn_user,
)
from schedlang.expr.names import check_name
from schedlang.expr.nodes import Var
from schedlang.ir.aliasing import in_place_pairs
from schedlang.ir.nest import Nest, functions_of
from schedlang.ir.numbers import number_statements
from schedlang.ir.verify import report
from schedlang.lowering.lower import known_report, lower_state
from schedlang.machine.identifiers import public_name
from schedlang.machine.nest import MachineNest
from schedlang.markup.progress import Setting, check_setting, tell, working
from schedlang.runtime.access_checks import refused_sizes, sized_storage
from schedlang.runtime.background import check_moment, compile_at
from schedlang.runtime.kernel import Kernel
from schedlang.runtime.signature import signature_of
from schedlang.schedule.schedule import Schedule
from schedlang.signatures import public
from schedlang.target import Target, or_emulator
from schedlang.target_options import check_host
from schedlang.targets import backend_of
from schedlang.targets.backend import Backend, Options, Request
from schedlang.targets.loops import LoopBackend
from schedlang.targets.source_loops import LoopsOfSource, check_first_values


@public
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
    checked = _check_schedule(schedule, "lower", te_options)
    _check_list("lower", args, name)
    outputs = checked.outputs
    if args is not None and not any(a is t for a in args for t in outputs):
        args = [*args, *outputs]
    nest = lower_state(checked.state, args, name=name)
    return replace(nest, origin=(checked.copy(), args, name))


_TE_OPTIONS = frozenset({"simple_mode", "binds", "target_host", "runtime"})


def _check_schedule(schedule: Any, what: str, options: Mapping[str, Any]) -> Schedule:
    unknown = sorted(set(options) - _TE_OPTIONS)
    if unknown:
        parameters = signature(build if what == "build" else lower).parameters
        close = nearest(unknown[0], {*parameters, *_TE_OPTIONS} - {"te_options"})
        raise ComputeTypeError(f"sl.{what} has no argument {unknown[0]!r}{close}")
    _check_host(options.get("target_host"))
    if not isinstance(schedule, Schedule):
        has_schedule = isinstance(getattr(schedule, "schedule", None), Schedule)
        example = "its .schedule" if has_schedule else "e.g. sl.schedule(C)"
        raise ComputeTypeError(
            f"sl.{what}({type(schedule).__name__}): the argument must be a schedule, {example}"
        )
    return schedule


def _lowered_from(nest: Nest, args: Any, name: str | None) -> tuple[Any, Any, str | None]:
    """Return the schedule, the arguments and the name of a nest that :func:`lower` returned."""
    if nest.origin is None or args is not None:
        why = "lower it with these arguments" if nest.origin else "give the schedule"
        raise ComputeTypeError(
            f"sl.build(nest, ...): a loop nest has its arguments already; {why}: "
            "sl.build(sl.lower(s, [A, C]))"
        )
    schedule, given, given_name = nest.origin
    return schedule, given, name or given_name


def _check_host(host: Any) -> None:
    """Raise if ``host`` is neither te's target of this machine's CPU nor ``None``."""
    try:
        check_host(host)
    except BuildError as error:
        if not isinstance(host, str):
            raise
        raise BuildError(
            f"{error}; to name the kernel, write sl.build(s, args, name={host!r})"
        ) from None


def _check_list(what: str, args: Any, *behind: Any) -> None:
    """Refuse tensors that are not in a list, and a target given in the place of args."""
    if isinstance(args, (Tensor, Var)):
        names = ", ".join(a.name for a in (args, *behind) if isinstance(a, (Tensor, Var)))
        raise ComputeTypeError(
            f"sl.{what}(s, {names}): args must be one list; write sl.{what}(s, [{names}])"
        )
    if isinstance(args, (str, Target, Backend)):
        spelling = f'"{args}"' if isinstance(args, str) else f"{type(args).__name__}(...)"
        hint = f"; write sl.build(s, target={spelling})" if what == "build" else ""
        raise ComputeTypeError(f"sl.{what}(s, {spelling}): args must be a list of tensors{hint}")


@public
def build(
    schedule: Any,
    args: Sequence[Any] | None = None,
    target: Any = None,
    target_host: Any = None,
    name: str | None = None,
    fastmath: bool = False,
    barriers: bool = True,
    lineinfo: bool = False,
    compiler: str = "",
    compile: str = "lazy",  # noqa: A002
    progress: Setting = None,
    **te_options: Any,
) -> Kernel:
    """Return a :class:`Kernel` from a schedule, or from the loop nest that :func:`lower` returned.

    ``args``: the tensors (and scalars) in calling order; by default the placeholders in order of
    first appearance, then scalars, then outputs. ``target``: ``"cpu"``, ``"python"`` (the same
    source, not compiled), ``"c"`` (C, compiled by the system's ``cc``), ``"cuda"``,
    ``"cuda-emulator"`` (the CUDA kernels on the CPU), ``"opencl"`` (OpenCL C, run by pyopencl), a
    :class:`~schedlang.target.Target`, or the object or name of a target that a package brings (see
    ``docs/inside/targets.md``); by default
    the target of the enclosing ``with Target(...)``, else the CPU. ``fastmath`` lets the compiler
    reassociate floating-point operations and assume that there are no NaNs and infinities. With
    ``lineinfo`` the machine code of a GPU kernel names the lines of the file, for ncu and other
    tools; it changes no instruction. With ``SCHEDLANG_CUDA=emulator`` in the environment,
    ``"cuda"`` means the emulator.

    For ``"cpu"`` and ``"cuda-emulator"``, ``compiler="llvm"`` is the default: LLVM compiles the
    machine nest, whose statements are the lines of the file. With ``"numba"`` numba compiles the
    file, which takes three to five times as long. The last bits of a result may differ where a
    product fuses with a sum.

    ``target_host`` is te's target of the code that starts the kernel, which must be this machine's
    CPU. ``name`` is the kernel's name, by default the name of its first output.

    ``compile`` says when that is done: at the first call (``"lazy"``), before ``build`` returns
    (``"now"``), or in a thread that starts at once (``"background"``). A call waits for the thread
    if it must, and compiles the kernel itself if the thread did not begin with it: there is one
    thread, which compiles one kernel after the other. An error in the thread is raised by the call
    that needs the kernel. A process that ends or forks waits for the kernel that is being compiled.
    Compiling that takes more than two seconds shows a line on a terminal and in a notebook, unless
    ``progress=False``; ``progress=True`` leaves the time that it took, also elsewhere.

    ``barriers=False``, for ``"cuda-emulator"`` only, leaves out the barriers between the threads of
    a block. ``f.check(...)`` then shows which threads race, and for what.

    Raises :class:`~schedlang.errors.LoweringError` if the schedule does not fit together. Raises
    :class:`~schedlang.errors.BuildError` if the target cannot run it, for an option that it does
    not have, or if the source cannot be written to the cache folder.

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
    if isinstance(schedule, Nest):
        schedule, args, name = _lowered_from(schedule, args, name)
    _check_schedule(schedule, "build", te_options)
    _check_list("build", args, target, target_host)
    _check_host(target_host)
    check_moment("sl.build", compile)
    check_setting("sl.build", progress)
    where = or_emulator(Target.of(target))
    outputs = ", ".join(t.name for t in schedule.outputs)
    with working(f"sl.build of {outputs}", progress):
        tell("lowering")
        request = _request(schedule, args, where, name, fastmath, barriers, lineinfo, compiler)
        for text, category in backend_of(where).warnings(request.nest, request.lowered, where):
            warn_user(text, category)
        kernel = backend_of(where).kernel(request)
        kernel.write()
    kernel.progress = progress
    compile_at(compile, [kernel.compile])
    return kernel


def unwritten_kernel(
    schedule: Schedule,
    args: Sequence[Any] | None,
    where: Target,
    name: str | None = None,
    compiler: str = "",
) -> Kernel:
    """Return the kernel of :func:`build`; its source is printed and written when it is needed.

    It gives no hints about spills and strides, which are for people who write a schedule.
    """
    request = _request(schedule, args, where, name, compiler=compiler)
    return backend_of(where).kernel(request)


def kernel_of_nest(nest: Nest, where: Target, compiler: str = "") -> Kernel:
    """Return the kernel of a nest that no schedule made; its source is written when it is needed.

    Its outputs may be written more than once, but their elements are all written before the first
    loop that reads one. Raises :class:`~schedlang.errors.BuildError` for an index that is not
    proven in bounds, and what the verifier raises.
    """
    backend = backend_of(where)
    options = Options(compiler=compiler)
    backend.check_options(where, options)
    nest = number_statements(nest)
    if refusal := backend.refusal(nest):
        raise BuildError(refusal)
    lowered = backend.lowered(nest, where, options)
    check_first_values(nest)
    for checked in dict.fromkeys((nest, lowered.loops)):
        proofs = report(replace(checked, outputs=()))
        for access in proofs.accesses:
            raise BuildError(access.refusal(f"sl.build of {nest.name},"))
        for sentence in proofs.open:
            raise BuildError(f"sl.build of {nest.name}: {sentence}")
    public = public_name(nest.name, functions_of(nest))
    pairs = in_place_pairs(nest, rewrites=True)
    signature = signature_of(nest, pairs, where.facts.binds_threads)
    stand_in = cast(Schedule, LoopsOfSource(public, nest))
    request = Request(stand_in, nest, lowered, where, public, options, signature, steps="")
    if isinstance(backend, LoopBackend):
        request = replace(request, in_c=partial(_loops_in_c, request))
    return backend.kernel(request)


def _loops_in_c(request: Request[Any]) -> MachineNest:
    """Return the machine nest of the loops of a function's source for a C program."""
    target = _in_c(request.target)
    backend = backend_of(target)
    assert isinstance(backend, LoopBackend)
    lowered = backend.lowered(request.nest, target, Options())
    return backend.machine(replace(request, target=target, lowered=lowered, options=Options()))


def _request(
    schedule: Schedule,
    args: Sequence[Any] | None,
    where: Target,
    name: str | None = None,
    fastmath: bool = False,
    barriers: bool = True,
    lineinfo: bool = False,
    compiler: str = "",
) -> Request[Any]:
    if not isinstance(fastmath, bool):
        raise BuildError(
            f"fastmath={fastmath!r} is neither True nor False: True lets the compiler reassociate "
            "operations and assume that there are no NaNs and infinities"
        )
    backend = backend_of(where)
    options = Options(fastmath, barriers, bool(lineinfo), compiler)
    backend.check_options(where, options)
    nest = number_statements(lower_state(schedule.state, args, name=name))
    if refusal := backend.refusal(nest):
        raise BuildError(refusal)
    wanted = check_name(name, "a kernel") if name is not None else nest.name
    public = public_name(wanted, functions_of(nest))
    # before the verifier: its messages name the bound axes, the verifier's only loops
    lowered = backend.lowered(nest, where, options)
    # a schedule of a database was verified when it was replayed
    proofs = known_report(schedule.state, args) or report(nest)
    for access in proofs.accesses:
        if access.exact and not access.needs_sizes:
            raise BuildError(access.refusal(f"sl.build of {nest.name},"))
    checked = any(u.needs_sizes for u in proofs.accesses)
    signature = signature_of(nest, in_place_pairs(nest), where.facts.binds_threads)
    conditions = sized_storage(nest).conditions
    if checked:
        conditions = (*conditions, *(refused_sizes(nest, schedule.outputs) or ()))
    refused = (Refusals(f"kernel {public}", signature.given_sizes, conditions),) * bool(conditions)
    steps = schedule.as_python()
    unproven = proofs.open
    if lowered.loops is not nest:
        unproven = tuple(dict.fromkeys((*unproven, *report(lowered.loops).open)))
    in_c = None
    if isinstance(backend, LoopBackend):
        in_c = partial(_nest_in_c, schedule.copy(), args, _in_c(where), name, fastmath)
    for sentence in unproven:
        text = f"sl.build of {nest.name}: {sentence}; compare its result with sl.reference"
        warn_user(text, UnprovenWarning)
    return Request(
        schedule,
        nest,
        lowered,
        where,
        public,
        options,
        signature,
        steps,
        checked,
        unproven,
        refused,
        in_c,
    )


def _in_c(target: Target) -> Target:
    """Return the target of the C program of a kernel: the same processor."""
    return target if target.triple else Target("c", vector_bytes=target.vector_bytes)


def _nest_in_c(
    schedule: Schedule,
    args: Sequence[Any] | None,
    target: Target,
    name: str | None,
    fastmath: bool,
) -> MachineNest:
    """Return the machine nest of a kernel for a C program, whose names C can have."""
    backend = backend_of(target)
    assert isinstance(backend, LoopBackend)
    return backend.machine(_request(schedule, args, target, name, fastmath))


__all__ = ["build", "lower", "unwritten_kernel"]
