"""The program of a GPU with each complex buffer as real ones, before its kernels are emitted."""

from __future__ import annotations

from dataclasses import replace

from schedlang.expr.dtypes import is_complex
from schedlang.gpu_lowering.program import Launch, Program, Scratch, Step
from schedlang.ir.rewrite import replace_statements, storage
from schedlang.lowering.complex_storage import Splitter, computes_complex, split_with


def split_program(program: Program) -> Program:
    """Return ``program`` with real buffers and values; the same program if none is complex.

    See :func:`schedlang.lowering.complex_storage.split_complex`.
    """
    nest = program.nest
    own = [buffer for launch in program.launches for buffer in storage(launch.body)]
    buffers = (*nest.buffers, *program.scratch, *own)
    if not any(is_complex(b.dtype) for b in buffers) and not computes_complex(nest.body):
        return program
    splitter = Splitter()
    return replace(program, nest=split_with(splitter, nest), steps=_steps(program.steps, splitter))


def _steps(steps: tuple[Step, ...], splitter: Splitter) -> tuple[Step, ...]:
    changed: list[Step] = []
    for step in steps:
        if isinstance(step, Launch):
            changed.append(replace(step, body=replace_statements(step.body, splitter.statement)))
        elif isinstance(step, Scratch):
            changed += [replace(step, buffer=b) for b in splitter.storage(step.buffer)]
        else:
            changed.append(replace(step, body=_steps(step.body, splitter)))
    return tuple(changed)
