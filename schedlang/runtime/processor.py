"""The features of the processor for which kernels are compiled."""

from __future__ import annotations

import ctypes
import re
import subprocess
import sys
from collections.abc import Collection
from functools import cache

from schedlang.errors import nearest
from schedlang.instructions.needs import alternatives, unmet
from schedlang.runtime.numba_internals import kernel_features


def processor_features() -> frozenset[str]:
    """Return the features of the processor, by LLVM's names, such as ``"avx512vnni"``.

    They are those that kernels are compiled for: this machine's, unless ``NUMBA_CPU_NAME`` and
    ``NUMBA_CPU_FEATURES`` say otherwise, without those that make code slower.
    """
    listed = kernel_features().split(",")
    return frozenset(word[1:] for word in listed if word.startswith("+"))


# LLVM lists the processors and features of a triple on the standard error of its process
_LISTING = """
import sys
from llvmlite import binding
binding.initialize_all_targets()
triple = sys.argv[1] or binding.get_default_triple()
binding.Target.from_triple(triple).create_target_machine(features="+help")
"""


@cache
def known_names(triple: str = "") -> tuple[frozenset[str], frozenset[str]]:
    """Return the processors and the features that LLVM knows of a triple; none if it lists none.

    Without a triple they are of processors of this machine's kind.
    """
    command = [sys.executable, "-c", _LISTING, triple]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    cpus, _, features = done.stderr.partition("Available features")
    names = re.compile(r"^  (\S+) +- ", re.MULTILINE)
    return frozenset(names.findall(cpus)), frozenset(names.findall(features))


def _known_features() -> frozenset[str]:
    """Return the features that LLVM knows of processors of this kind; none if it lists none."""
    return known_names()[1]


def unknown_features(needed: Collection[str]) -> list[str]:
    """Return the features among ``needed`` that no processor of this kind has, by LLVM's names.

    One known name of ``"a or b"`` is enough. Architectures of GPUs are known.
    """
    rest = unmet(needed, processor_features())
    if not rest or not (known := _known_features()):
        return []
    return unmet(rest, known)


# what the names of the features of AMX begin with
TILES = "amx"


@cache
def _has_tiles() -> bool:
    """Return whether Linux gives the threads of this process tiles of AMX.

    Source: Linux, "Using XSTATE features in user space applications".
    """
    if sys.platform != "linux":
        return False
    # arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA)
    return not ctypes.CDLL(None).syscall(158, 0x1023, 18)


def of_tiles(needed: Collection[str]) -> list[str]:
    """Return the features of AMX among ``needed``, whose tiles Linux gives to those who ask."""
    return [name for name in needed if name.startswith(TILES)]


def missing_features(needed: Collection[str]) -> list[str]:
    """Return the features among ``needed`` that the processor lacks.

    One of ``"a or b"`` is enough. Architectures of GPUs are not among them, and features of AMX are
    if Linux refuses tiles to this process: it is asked for them.
    """
    missing = unmet(needed, processor_features())
    tiled = of_tiles(needed)
    return tiled if tiled and not missing and not _has_tiles() else missing


def why_missing(missing: Collection[str]) -> str:
    """Return which features :func:`missing_features` says are missing, and why, for a sentence."""
    if unknown := unknown_features(missing):
        close = nearest(alternatives(unknown[0])[0], _known_features())
        return f"{unknown[0]}, which LLVM does not know for this kind of processor{close}"
    features, listed = processor_features(), " and ".join(missing)
    if features.issuperset(missing):
        return f"{listed}, and the system gives this process no tiles of AMX"
    return f"{listed}, which this processor lacks"
