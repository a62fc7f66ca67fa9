"""From a loop nest to the machine nest of a target: passes over loops, selection, then passes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from schedlang.compute.extern_op import LOOPS, ExternFunction
from schedlang.expr.nodes import Axis, Var
from schedlang.gpu_lowering.fragment_registers import in_registers
from schedlang.gpu_lowering.program import Launch, Program
from schedlang.index.linear import ZERO, Lin
from schedlang.index.ranges import Ranges
from schedlang.index.simplify import to_lin
from schedlang.ir.extern_call import Extern
from schedlang.ir.nest import Nest
from schedlang.ir.nodes import Block
from schedlang.ir.trimmed import running
from schedlang.lowering.complex_storage import split_complex
from schedlang.machine.identifiers import Names, name_all
from schedlang.machine.loops.blocks import block_unrolls
from schedlang.machine.loops.conditions import settle_conditions
from schedlang.machine.loops.functions import mark_functions
from schedlang.machine.loops.instructions import use_instructions
from schedlang.machine.loops.job import LoopJob, LoopPass
from schedlang.machine.loops.plain_loops import mark_plain_loops
from schedlang.machine.loops.rounding import round_products
from schedlang.machine.loops.serpentine import find_turns
from schedlang.machine.loops.shared_loads import share_loads
from schedlang.machine.loops.short_sums import keep_short_sums_rolled
from schedlang.machine.loops.statement_count import refuse_many_statements
from schedlang.machine.loops.streams import stream_stores
from schedlang.machine.loops.strips import strip_mine
from schedlang.machine.loops.sums import keep_sums
from schedlang.machine.loops.tails import peel_tails
from schedlang.machine.loops.transposes import transpose_loads
from schedlang.machine.loops.unroll import unroll
from schedlang.machine.nest import MachineNest
from schedlang.machine.passes.elements import keep_elements
from schedlang.machine.passes.job import Job
from schedlang.machine.passes.long_values import name_long_values
from schedlang.machine.passes.numbering import number_registers
from schedlang.machine.passes.offsets import name_offsets
from schedlang.machine.passes.outline import outline
from schedlang.machine.passes.rows import name_rows
from schedlang.machine.passes.stack_storage import place_storage
from schedlang.machine.rewrite import with_number
from schedlang.machine.select.cpu import select_cpu
from schedlang.machine.select.gpu import MachineKernel, select_gpu
from schedlang.machine.verify import verify_machine
from schedlang.target import Target

Pass = Callable[[MachineNest, Job], MachineNest]
CPU_LOOP_PASSES: tuple[LoopPass, ...] = (
    use_instructions, find_turns, block_unrolls, mark_functions, mark_plain_loops,
    keep_short_sums_rolled, stream_stores, peel_tails, keep_sums, round_products, strip_mine,
    unroll, refuse_many_statements, settle_conditions, transpose_loads, share_loads,
)  # fmt: skip
GPU_LOOP_PASSES: tuple[LoopPass, ...] = (
    use_instructions, keep_sums, strip_mine, unroll, refuse_many_statements, settle_conditions,
)  # fmt: skip
CPU_PASSES: tuple[Pass, ...] = (
    name_offsets, name_long_values, number_registers, outline, name_rows, place_storage,
    keep_elements,
)  # fmt: skip
GPU_PASSES: tuple[Pass, ...] = (name_offsets, name_long_values, number_registers)


def machine_nest(
    nest: Nest, target: Target, public: str, reserved: Sequence[str], fastmath: bool = False
) -> MachineNest:
    """Return the machine nest of a CPU kernel, verified.

    Loops that users wrote by hand, for ``te.extern``, are functions of it.

    ``public`` is the name of the file's public function, and no name is one of ``reserved``.
    ``fastmath`` allows the compiler to reorder sums. Raises
    :class:`~schedlang.errors.BuildError` for what a CPU cannot run, such as thread loops.
    """
    nest = split_complex(nest)
    programs = written_by_hand(nest, target, reserved, fastmath)
    functions = [function for own in programs.values() for function in own.functions]
    reserved = [*reserved, *(function.name for function in functions)]
    arranged = arranged_nest(nest, target, fastmath)
    # the passes lengthen the life of storage, and no two buffers that live together share a name
    names = name_all(arranged, reserved)
    called = {function: own.entry.name for function, own in programs.items()}
    entry, function_name = select_cpu(nest, arranged.body, names, target, public, called)
    selected, job = MachineNest((entry,), names.known()), Job(public, names.fresh, function_name)
    for run in CPU_PASSES:
        selected = run(selected, job)
    if functions:
        texts = {key: text for own in programs.values() for key, text in own.texts.items()}
        whole = (*functions, *selected.functions)
        selected = MachineNest(whole, selected.names, {**texts, **selected.texts})
    verify_machine(selected)
    return selected


def written_by_hand(
    nest: Nest, target: Target, reserved: Sequence[str], fastmath: bool
) -> dict[ExternFunction, MachineNest]:
    """Return the machine nests of the functions in ``nest`` that users wrote as loops.

    Their statements have the number of the call, and no name is one of ``reserved``.
    """
    programs: dict[ExternFunction, MachineNest] = {}
    names = [*reserved]
    for stmt in running(nest.body):
        if isinstance(stmt, Extern) and stmt.function.kind == LOOPS:
            function = stmt.function
            own = machine_nest(function.call, target, function.name, names, fastmath)
            programs[function] = own.with_functions(
                with_number(part, stmt.number) for part in own.functions
            )
            names += [part.name for part in own.functions]
    return programs


def arranged_nest(nest: Nest, target: Target, fastmath: bool = False) -> Nest:
    """Return ``nest`` after the passes over loops for a CPU, with vectors, copies and kept sums.

    It is for printing and for the interpreter: the passes of lowering and the verifier of nests
    know other statements only.

    >>> import schedlang as sl
    >>> A = sl.placeholder((20,), name="A")
    >>> B = sl.compute((20,), lambda i: A[i] * 2, name="B")
    >>> s = sl.schedule(B)
    >>> s[B].vectorize(B.op.axis[0])
    >>> print(arranged_nest(sl.lower(s), sl.Target("cpu", vector_bytes=32)))
    B(A: float32[20]) -> B: float32[20]
    <BLANKLINE>
    lanes i in 0..16:
      B[i] = A[i] * 2
    lanes i in 16..20:
      B[i] = A[i] * 2
    """
    body, job = nest.body, LoopJob(nest, target, fastmath)
    for run in CPU_LOOP_PASSES:
        body = run(body, job)
    return replace(nest, body=body)


def machine_kernels(
    program: Program, target: Target, public: str, names: Names
) -> tuple[MachineKernel, ...]:
    """Return the machine nests of the kernels of a GPU, each with its launch, verified."""
    nest, selected = program.nest, []
    for launch in program.launches:
        constant = _constant(launch)
        own = replace(launch, body=in_registers(launch))
        body = _kernel_loops(nest, own, constant, target)
        kernel = select_gpu(nest, own, body, constant, names, target, public)
        selected.append(replace(kernel, launch=launch))
    kernels = MachineNest(tuple(kernel.function for kernel in selected))
    job = Job(public, names.fresh, names.fresh)
    for run in GPU_PASSES:
        kernels = run(kernels, job)
    verify_machine(kernels)
    return tuple(replace(k, function=f) for k, f in zip(selected, kernels.functions))


def _constant(launch: Launch) -> Mapping[Axis | Var, Lin]:
    """Return the thread and block indices that are 0: a variable keeps local storage in memory."""
    return {i.axis: ZERO for i in launch.indices if to_lin(i.extent).const == 1}


def _kernel_loops(
    nest: Nest, launch: Launch, constant: Mapping[Axis | Var, Lin], target: Target
) -> Block:
    running: dict[Axis | Var, tuple[Lin, Lin]] = {
        i.axis: (ZERO, to_lin(i.extent) - 1) for i in launch.indices
    }
    body, ranges = launch.body, Ranges(running)
    job = LoopJob(nest, target, values=constant, known=ranges, kernel=True)
    for run in GPU_LOOP_PASSES:
        body = run(body, job)
    return body


__all__ = [
    "CPU_LOOP_PASSES",
    "CPU_PASSES",
    "GPU_LOOP_PASSES",
    "GPU_PASSES",
    "arranged_nest",
    "machine_kernels",
    "machine_nest",
]
