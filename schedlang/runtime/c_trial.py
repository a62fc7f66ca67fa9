"""A trial of the system's C compiler on an instruction: its assembly, or the compiler's words."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from schedlang.codegen.c_compiler import user_head
from schedlang.codegen.c_instruction import instruction_file
from schedlang.errors import BuildError
from schedlang.instructions.declaration import MEMORY, Instruction
from schedlang.instructions.needs import alternatives
from schedlang.runtime import files
from schedlang.runtime.c_library import OPTIONS, assembly
from schedlang.runtime.llvm.trial import Trial
from schedlang.runtime.processor import missing_features


def c_trial(declared: Instruction) -> Trial:
    """Return the assembly of an instruction's form in C, or why the compiler refuses it.

    It is compiled for this processor, and as if it had the features that the instruction needs.
    """
    return _compiled(instruction_file(declared), declared)


def memory_trial(declared: Instruction) -> Trial:
    """Return the assembly of an instruction's function in memory, if it is the text of C source."""
    source = getattr(declared.emit[MEMORY], "call", None)
    return _compiled(f"{user_head()}{source}\n", declared) if isinstance(source, str) else Trial("")


def _compiled(text: str, declared: Instruction) -> Trial:
    lacking = tuple(alternatives(name)[0] for name in missing_features(declared.needs))
    return compiled_by_c(text, declared.name, lacking)


@lru_cache(maxsize=64)
def compiled_by_c(text: str, name: str, features: Sequence[str]) -> Trial:
    """Return the assembly of a C file, as if the processor had some features more."""
    path = files.write(text, f"instruction_{name}", ".c")
    try:
        options = (*OPTIONS, *(f"-m{feature}" for feature in features))
        return Trial(assembly(path, options, BuildError))
    except BuildError as error:
        return Trial("", str(error))
