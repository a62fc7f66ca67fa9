"""A program without its barriers, to show the races that they prevent."""

from __future__ import annotations

from dataclasses import replace

from schedlang.gpu_lowering.program import Launch, Program, Repeat, Step, When
from schedlang.ir.nodes import Barrier, Block, Stmt
from schedlang.ir.rewrite import deep


def without_barriers(program: Program) -> Program:
    """Return ``program`` with the barriers of its kernels left out."""
    return replace(program, steps=tuple(map(_step, program.steps)))


def _step(step: Step) -> Step:
    if isinstance(step, Launch):
        body = deep(step.body, _without)
        assert isinstance(body, Block)
        return replace(step, body=body)
    if isinstance(step, (Repeat, When)):
        return replace(step, body=tuple(map(_step, step.body)))
    return step


def _without(stmt: Stmt) -> Stmt:
    return Block() if isinstance(stmt, Barrier) else stmt
