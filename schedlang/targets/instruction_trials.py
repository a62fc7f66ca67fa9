"""Trials of an instruction: the compiler of each language, and its words."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from schedlang.instructions.declaration import MEMORY, Instruction
from schedlang.runtime.c_trial import c_trial, memory_trial
from schedlang.runtime.kept_trials import Trial
from schedlang.runtime.llvm.instruction_trial import trial


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
    """Return why the compiler cannot write an instruction, and its words; ``None`` if it can.

    Also return what to do about one that needs more of the processor than it says.
    """
    compiler = COMPILERS[language]
    trial = compiler.trial(declared)
    if trial.is_illegal:
        named = f", which {', '.join(declared.needs)} does not mean" if declared.needs else ""
        return (
            f"{declared.emit[language]} has an instruction that this processor lacks{named}",
            'Name the feature by LLVM\'s name, as in needs="avxvnni": a build for a processor '
            "without it is then refused, and check() only compiles.",
        )
    if trial.timeout:
        return (
            f"{compiler.name} took more than {trial.timeout:.0f} s to write "
            f"{declared.emit[language]}",
            "Try again when other programs leave it a core, or emit fewer instructions.",
        )
    if not trial.error:
        return None
    return f"{compiler.name} cannot write {declared.emit[language]}", f"It says:\n{trial.error}"


# a comment of C, or a text in quotes, in which no comment begins
_COMMENT = re.compile(
    r"""//(?:\\\n|[^\n])*|/\*.*?\*/|("(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')""", re.DOTALL
)
# ``asm``, and the attribute or pragma ``target``, in any spelling
_UNCHECKED = re.compile(r"\b_*(?:asm|target|target_clones)_*\b")


def has_assembly(declared: Instruction) -> bool:
    """Return whether the C source of a function in memory has what no C compiler checks."""
    source = getattr(declared.emit.get(MEMORY), "call", None)
    return isinstance(source, str) and is_unchecked(source)


def is_unchecked(source: str) -> bool:
    """Return whether C source has assembly, or code for another processor, outside of comments."""
    return _UNCHECKED.search(_COMMENT.sub(lambda m: m[1] or " ", source)) is not None
