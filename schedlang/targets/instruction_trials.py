"""Trials of an instruction: the compiler of each language, and its words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from schedlang.instructions.declaration import MEMORY, Instruction
from schedlang.runtime.c_trial import c_trial, memory_trial
from schedlang.runtime.llvm.instruction_trial import trial
from schedlang.runtime.llvm.trial import Trial


class Compiler(NamedTuple):
    """A compiler by its name in messages, and what compiles one instruction alone."""

    name: str
    trial: Callable[[Instruction], Trial]


COMPILERS: Mapping[str, Compiler] = {
    "llvm": Compiler("LLVM", trial),
    "c": Compiler("the C compiler", c_trial),
    MEMORY: Compiler("the C compiler", memory_trial),
}


def refusal(declared: Instruction, language: str) -> tuple[str, str] | None:
    """Return why the compiler cannot write an instruction, and its words; ``None`` if it can."""
    compiler = COMPILERS[language]
    error = compiler.trial(declared).error
    if not error:
        return None
    return f"{compiler.name} cannot write {declared.emit[language]}", f"It says:\n{error}"
