"""The features of the processor for which kernels are compiled."""

from __future__ import annotations

from collections.abc import Iterable

from schedlang.runtime.numba_internals import cpu_context


def processor_features() -> frozenset[str]:
    """Return the features of the processor, by LLVM's names, such as ``"avx512vnni"``.

    They are those that numba compiles for: this machine's, unless ``NUMBA_CPU_NAME`` and
    ``NUMBA_CPU_FEATURES`` say otherwise.
    """
    listed: str = cpu_context().codegen().magic_tuple()[2]
    return frozenset(word[1:] for word in listed.split(",") if word.startswith("+"))


def missing_features(needed: Iterable[str]) -> list[str]:
    """Return the features among ``needed`` that the processor lacks.

    One of ``"a or b"`` is enough.
    """
    features = processor_features()
    return [name for name in needed if features.isdisjoint(name.split(" or "))]
