"""A C file of one instruction alone: operands from memory, the result to memory."""

from __future__ import annotations

from schedlang.codegen.c_definitions import includes, plain_types, used_definitions
from schedlang.codegen.c_headers import instruction_function
from schedlang.codegen.c_values import ValuePrinter
from schedlang.expr.dtypes import storage_dtype
from schedlang.instructions.declaration import Instruction, elements
from schedlang.machine.nodes import Type


def instruction_file(declared: Instruction) -> str:
    """Return a file with a function ``tile``, which computes an instruction on one tile."""
    printer = ValuePrinter()
    given = (declared.output,) * declared.accumulates + declared.operands
    counts = [(storage_dtype(t.dtype), elements(t)) for t in (declared.output, *given)]
    result, *kinds = [printer.type(Type(kind, n if n > 1 else 0)) for kind, n in counts]
    function = instruction_function(declared, result, kinds)
    listed = ", ".join([f"{result} *r", *(f"const {kind} *a{k}" for k, kind in enumerate(kinds))])
    operands = ", ".join(f"*a{k}" for k in range(len(kinds)))
    body = f"  *r = sl_instruction_{declared.identifier}({operands});"
    tile = f"void tile({listed}) {{\n{body}\n}}"
    helpers = used_definitions([*printer.helpers(), function], [tile])
    return "\n\n".join([includes([helpers]), helpers, plain_types(tile)]) + "\n"
