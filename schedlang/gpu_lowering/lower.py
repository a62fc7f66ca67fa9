"""Lowering of a loop nest to a program of kernel launches: the passes in order."""

from __future__ import annotations

from dataclasses import replace

from schedlang.expr.nodes import Axis, Expr
from schedlang.expr.visit import postorder
from schedlang.gpu_lowering.barriers import with_barriers
from schedlang.gpu_lowering.filled_ahead import no_next_tile, with_copies
from schedlang.gpu_lowering.fragments import with_fragments
from schedlang.gpu_lowering.kernels import check_host, host_statements, is_region
from schedlang.gpu_lowering.limits import check_limits
from schedlang.gpu_lowering.program import Launch, Program, Repeat, Scratch, Step, When
from schedlang.gpu_lowering.thread_names import program_names
from schedlang.gpu_lowering.threads import indices_of, one_thread, shared_first, thread_loops
from schedlang.gpu_lowering.vthread import without_vthreads
from schedlang.ir.nest import Nest
from schedlang.ir.nodes import Alloc, Block, For, If, Stmt, Store, walk
from schedlang.lowering.hoist import hoist
from schedlang.target import Target


def device_program(nest: Nest, target: Target) -> Program:
    """Return the program of ``nest``: its kernels in the order they run.

    Raise :class:`~schedlang.errors.BuildError` if no GPU, or not ``target``, can run the nest.
    """
    check_host(nest, nest.body)
    program = Program(nest, _steps(nest, nest.body, set()))
    program = replace(program, nest=replace(nest, names=program_names(program)))
    for launch in program.launches:
        check_limits(launch, target)
    return program


def _steps(nest: Nest, block: Block, names: set[str]) -> tuple[Step, ...]:
    steps: list[Step] = []
    for stmt in host_statements(block):
        if is_region(stmt):
            # at a size of 0, nothing may be left of the loops inside
            if any(isinstance(inner, Store) for inner, _ in walk(stmt)):
                steps.append(_launch(nest, stmt, names))
        elif isinstance(stmt, Alloc):
            if stmt.buffer.copies > 1:
                raise no_next_tile(stmt.buffer)
            steps.append(Scratch(stmt.buffer, stmt.number))
        elif isinstance(stmt, For):
            body = _steps(nest, stmt.body, names)
            # storage of constant size is allocated once for all iterations
            fixed = [step for step in body if isinstance(step, Scratch) and _fixed(step, stmt.axis)]
            steps += fixed
            body = tuple(step for step in body if step not in fixed)
            steps.append(Repeat(stmt.axis, stmt.extent, body, stmt.number))
        elif isinstance(stmt, If):
            steps.append(When(stmt.cond, _steps(nest, stmt.body, names), stmt.number))
    return tuple(steps)


def _fixed(step: Scratch, axis: Axis) -> bool:
    """Return whether storage has the same size in each iteration of the loop over ``axis``."""
    extents = [e for e in step.buffer.shape if isinstance(e, Expr)]
    return not any(n is axis for n in postorder(extents))


def _name(stage: str, names: set[str]) -> str:
    """Return an unused name for a kernel of ``stage``."""
    name, count = stage, 1
    while name in names:
        count += 1
        name = f"{stage}_{count}"
    names.add(name)
    return name


def _launch(nest: Nest, region: Stmt, names: set[str]) -> Launch:
    """Return the kernel of ``region``, named after the stage that is stored last."""
    stage = [s.stage for s, _ in walk(region) if isinstance(s, Store)][-1]
    region = with_fragments(region, nest.name)
    loops = thread_loops(region, stage, nest.name)
    indices = indices_of(loops)
    body = one_thread(region, loops, nest.name)
    body = shared_first(without_vthreads(body))
    body = with_copies(body)
    launch = Launch(
        _name(stage, names),
        stage,
        tuple(i for i in indices if i.tag.startswith("block")),
        tuple(i for i in indices if i.tag.startswith("thread")),
        body,
    )
    launch = with_barriers(launch)
    return replace(launch, body=hoist(launch.body))
