"""The text of a file of GPU kernels: header, imports, kernels, and their launcher."""

from __future__ import annotations

from collections.abc import Sequence

from schedlang.codegen.listing import Line, Listing, join_parts, plain
from schedlang.codegen.numba_cuda import GpuSource
from schedlang.codegen.numba_file import header_lines, wrap_items
from schedlang.codegen.refused_sizes import Refusals, refusal_lines
from schedlang.expr.nodes import Var
from schedlang.gpu_lowering.printer import program_text
from schedlang.gpu_lowering.program import Program


def render_program(
    program: Program,
    source: GpuSource,
    steps: str,
    fastmath: bool,
    refused: Sequence[Refusals] = (),
) -> Listing:
    """Return a file for numba.cuda, whose launcher refuses the sizes of ``refused``."""
    nest = program.nest
    parts = [header_lines(nest, steps, program_text(program)), _imports(source), ""]
    parts.append(f"OPTIONS = dict(fastmath={fastmath})")
    listed = zip((*nest.args, *nest.sizes), source.parameters)
    lines = refusal_lines(refused, {v.name: name for v, name in listed if isinstance(v, Var)})
    # behind the signature and the docstring
    launcher = (*source.launcher[:2], *map(Line, lines), *source.launcher[2:])
    functions = [*(k.lines for k in source.kernels), launcher]
    head, last = plain("\n".join(parts)), plain('__all__ = ["launch"]')
    return Listing(tuple(join_parts([head, *source.definitions, *functions, last], 2)))


def _imports(source: GpuSource) -> str:
    lines = [f"from math import {', '.join(source.math)}", ""] if source.math else []
    lines += ["import numpy as np", "from numba import cuda"]
    if source.intrinsics:
        names = list(source.intrinsics)
        lines += ["", *wrap_items("from schedlang.intrinsics.gpu import (", names, ")")]
    return "\n".join(lines)
