"""A trial of the system's C compiler on an instruction: its assembly, or the compiler's words."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from schedlang.codegen.c_compiler import user_head
from schedlang.codegen.c_instruction import instruction_file
from schedlang.errors import BuildError
from schedlang.expr.dtypes import itemsize
from schedlang.instructions.declaration import MEMORY, WIDEST, Instruction, elements
from schedlang.instructions.needs import alternatives
from schedlang.ir.instruction_match import packed_strides
from schedlang.runtime import files
from schedlang.runtime.c_library import OPTIONS, assembly, library
from schedlang.runtime.first_run import is_illegal
from schedlang.runtime.kept_trials import Trial, kept_trial
from schedlang.runtime.processor import missing_features, of_tiles


def c_trial(declared: Instruction) -> Trial:
    """Return the assembly of an instruction's form in C, or why the compiler refuses it.

    It is compiled for this processor, and as if it had the features that the instruction needs. If
    it has them, it also runs.
    """
    count = 1 + len(declared.operands) + declared.accumulates
    return _compiled(instruction_file(declared), declared, "tile", (WIDEST,) * count)


def memory_trial(declared: Instruction) -> Trial:
    """Return the assembly of an instruction's function in memory, if it is the text of C source."""
    source = getattr(declared.emit[MEMORY], "call", None)
    if not isinstance(source, str):
        return Trial("")
    tensors = (*declared.operands, declared.output)
    bytes_ = tuple(elements(t) * itemsize(t.dtype) for t in tensors)
    sizes: list[int] = []
    for tensor in tensors:
        packed = [int(stride.const or 0) for stride in packed_strides(tensor)]
        sizes += [*map(int, tensor.shape), *packed]
    text = f"{user_head()}{source}\n"
    return _compiled(text, declared, declared.name, bytes_, tuple(sizes))


def _compiled(
    text: str, declared: Instruction, function: str, bytes_: tuple[int, ...],
    sizes: tuple[int, ...] = (),
) -> Trial:  # fmt: skip
    lacking = tuple(alternatives(name)[0] for name in missing_features(declared.needs))
    trial = compiled_by_c(text, declared.name, lacking)
    # the child does not ask for tiles of AMX
    if lacking or of_tiles(declared.needs) or trial.error:
        return trial
    return run_by_c(trial.assembly, text, declared.name, function, bytes_, sizes)


@lru_cache(maxsize=64)
def compiled_by_c(text: str, name: str, features: Sequence[str]) -> Trial:
    """Return the assembly of a C file, as if the processor had some features more."""
    path = files.write(text, f"instruction_{name}", ".c")
    try:
        options = (*OPTIONS, *(f"-m{feature}" for feature in features))
        return Trial(assembly(path, options, BuildError))
    except BuildError as error:
        return Trial("", str(error))


@lru_cache(maxsize=64)
def run_by_c(
    assembly: str, text: str, name: str, function: str, bytes_: Sequence[int], sizes: Sequence[int]
) -> Trial:
    """Return what the assembler says of a C file, and whether a run of its function is illegal."""
    path = files.write(text, f"instruction_{name}", ".c")
    try:
        compiled = library(path, refusal=BuildError)
    except BuildError as error:
        return Trial("", str(error))

    def first_run() -> Trial:
        illegal = is_illegal(compiled._name, function, bytes_, sizes)
        return Trial(assembly, is_illegal=bool(illegal), complete=illegal is not None)

    try:
        machine_code = hashlib.sha256(Path(compiled._name).read_bytes()).hexdigest()
    except OSError:
        # the cache folder took no library, and a child cannot load one
        return Trial(assembly, complete=False)
    return kept_trial(["c", machine_code, function, bytes_, sizes], first_run)
