"""The runner of a target's files on a CPU."""

from __future__ import annotations

from collections.abc import Callable

from schedlang.runtime.llvm_runner import ByLlvm
from schedlang.runtime.runners import AsC, AsPython, ByNumba, Runner
from schedlang.target_kinds import Facts

# by the values of ``compiler=``
COMPILERS: dict[str, Callable[[], Runner]] = {"llvm": ByLlvm, "numba": ByNumba}


def runner_of(facts: Facts, compiler: str = "") -> Runner:
    """Return how the files of a target run on a CPU, with one of its compilers."""
    if facts.language == "C":
        return AsC()
    if facts.interpreted:
        return AsPython()
    # what a package brings has the compiler of its files
    return COMPILERS[facts.compiler_named(compiler) or "numba"]()
