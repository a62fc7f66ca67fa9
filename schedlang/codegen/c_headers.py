"""The texts of helpers that a C file begins with, and the functions that one of them has."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.resources import files

from schedlang.instructions.c_forms import CFunction, CSnippet
from schedlang.instructions.declaration import Instruction


@cache
def header(name: str) -> str:
    """Return the text of helpers that a file begins with."""
    return files("schedlang.codegen").joinpath(name).read_text().rstrip()


@cache
def has_function(name: str) -> bool:
    """Return whether every file has the function ``name`` of floats."""
    text = header("c_helpers.h")
    return f"SL_LIBM(T, F, {name})" in text or f" sl_{name}_##T(" in text


def instruction_function(declared: Instruction, result: str, operands: Sequence[str]) -> str:
    """Return the definition of a function that computes an instruction.

    ``result`` and ``operands`` are types of C. The operands are cast to the types that the
    instruction's form has, and repeated in all of one that is larger.
    """
    emission = declared.emit["c"]
    assert isinstance(emission, (CFunction, CSnippet))
    variables = emission.variables(declared)
    listed = ", ".join(f"{kind} {v.parameter}" for kind, v in zip(operands, variables))
    lines = [f"#include <{emission.header}>"] if emission.header else []
    lines.append(f"SL {result} sl_instruction_{declared.identifier}({listed}) {{")
    for given, name, kind in variables:
        lines += [
            f"  {kind} {name};",
            f"  for (size_t n = 0; n < sizeof {name} / sizeof {given}; n++)",
            f"    memcpy((char *)&{name} + n * sizeof {given}, &{given}, sizeof {given});",
        ]
    last = emission.statements(declared, result)
    return "\n".join([*lines, *(f"  {line}" for line in last), "}"])


def library_function(name: str, library: str, operands: int, tag: str) -> str:
    """Return the definition of a function of floats that calls C's math library.

    >>> library_function("erfc", "erfc", 1, "f32")
    'SL sl_f32 sl_erfc_f32(sl_f32 a) { return erfcf(a); }'
    """
    names = "ab"[:operands]
    declared = ", ".join(f"sl_{tag} {name}" for name in names)
    call = f"{library}{'f' if tag == 'f32' else ''}({', '.join(names)})"
    return f"SL sl_{tag} sl_{name}_{tag}({declared}) {{ return {call}; }}"
