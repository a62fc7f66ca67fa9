"""The printer of device programs: the steps of the host, and the statements of each thread."""

from __future__ import annotations

from collections.abc import Sequence

from schedlang.gpu_lowering.program import Launch, Program, Repeat, Scratch, Step
from schedlang.ir.nest import Nest
from schedlang.ir.nodes import Stmt
from schedlang.ir.printer import (
    INDENT,
    expr_text,
    header,
    printed_names,
    statement_lines,
    storage_text,
)
from schedlang.ir.trimmed import printed_statements


def program_text(program: Program) -> str:
    """Return the header of the nest, then the steps of the host."""
    return "\n".join([header(program.nest), "", *_steps(program.nest, program.steps, 0)])


def _steps(nest: Nest, steps: Sequence[Step], depth: int) -> list[str]:
    lines: list[str] = []
    pad = INDENT * depth
    for step in steps:
        if isinstance(step, Launch):
            lines += [pad + line for line, _ in launch_lines(nest, step)]
        elif isinstance(step, Scratch):
            lines.append(pad + storage_text(step.buffer))
        elif isinstance(step, Repeat):
            name = nest.names.get(step.axis, step.axis.name)
            lines.append(f"{pad}host for {name} in 0..{expr_text(step.extent, nest.names)}:")
            lines += _steps(nest, step.body, depth + 1)
        else:
            lines.append(f"{pad}host if {expr_text(step.cond, nest.names)}:")
            lines += _steps(nest, step.body, depth + 1)
    return lines


def launch_lines(nest: Nest, launch: Launch) -> list[tuple[str, Stmt | None]]:
    """Return the lines of one kernel: its indices, then its statements.

    With each line comes the statement that it begins, or ``None``.
    """
    lines: list[tuple[str, Stmt | None]] = [(f"kernel {launch.name}:", None)]
    names_printed = printed_names(nest)
    for index in launch.indices:
        name = nest.names.get(index.axis, index.axis.name)
        extent = expr_text(index.extent, nest.names)
        lines.append((f"{INDENT}{name} = {index.tag} in 0..{extent}", None))
    for stmt, depth in printed_statements(launch.body):
        for k, line in enumerate(statement_lines(stmt, nest.names, names_printed)):
            lines.append((INDENT * (depth + 1) + line, None if k else stmt))
    return lines
