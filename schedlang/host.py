"""Properties of this machine's cores: vector registers, datapath, caches."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from schedlang.errors import BuildError, CallError, text_of

LINE = 64
# the bytes that an instruction may ask the address of an operand to be a multiple of
ALIGNMENTS = (1, 2, 4, 8, 16, 32, LINE)
KIB = 1024
# the most bytes of the last level that count for each core that shares it: a virtual machine
# reports the cache of its whole host
LARGEST_SHARE = 16 * KIB * KIB
CACHES = Path("/sys/devices/system/cpu/cpu0/cache")


@dataclass(frozen=True)
class Cache:
    """A level of data caches: its size in bytes, its associativity, and the cores that share it.

    If cores share it, ``size`` is the size of the whole level.

    >>> Cache(32 * 1024, 8).sets
    64
    """

    size: int
    ways: int
    cores: int = 1

    def __post_init__(self) -> None:
        if not is_whole(self.size) or not is_whole(self.ways) or self.ways < 1 or self.sets < 1:
            raise BuildError(
                f"Cache(size={self.size!r}, ways={self.ways!r}): size is a whole number of bytes, "
                f"at least {LINE} for each of its ways, of which there is at least one; give "
                "Cache(32 * 1024, 8) for 32 KiB with 8 ways"
            )
        if not is_whole(self.cores) or self.cores < 1:
            raise BuildError(
                f"Cache(..., cores={self.cores!r}): cores is the number of cores that share the "
                "level, at least 1; leave it out for a level that one core has to itself"
            )

    @property
    def sets(self) -> int:
        return self.size // (self.ways * LINE)


def is_whole(value: Any) -> bool:
    """Return whether ``value`` is a whole number of Python or NumPy, and no truth value."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def check_whole(call: str, least: int, **given: Any) -> None:
    """Raise :class:`~schedlang.errors.CallError` unless arguments of ``call`` are whole numbers.

    >>> check_whole("k.trace", 1, most=8)
    """
    for name, value in given.items():
        if not is_whole(value) or value < least:
            raise CallError(
                f"{call}(..., {name}={text_of(value)}): {name} is a whole number, at least {least}"
            )


# typical caches of server cores
USUAL_CACHES = (Cache(32 * KIB, 8), Cache(KIB * KIB, 8), Cache(16 * KIB * KIB, 16))


def host_vectors() -> tuple[int, int]:
    """Return the bytes of a vector register of this machine, and the number of registers."""
    return _vectors(platform.machine().lower(), _cpu_facts().get("flags", ""))


# the bytes of a vector register and the number of registers, by architecture and by the feature
# that they need, widest first; code for SVE2 is compiled for registers of this size
VECTORS = {
    "x86_64": (("avx512f", 64, 32), ("avx2", 32, 16), ("", 16, 16)),
    "aarch64": (("sve2", 32, 32), ("", 16, 32)),
    "wasm32": (("", 16, 16),),
}


def vectors(architecture: str, features: Collection[str]) -> tuple[int, int]:
    """Return the bytes of a vector register of an architecture, and the number of registers.

    >>> vectors("aarch64", []), vectors("aarch64", ["sve2"]), vectors("x86_64", ["avx2"])
    ((16, 32), (32, 32), (32, 16))
    """
    rows = VECTORS[architecture]
    return next((size, count) for need, size, count in rows if not need or need in features)


# the features of vectors that each processor of an architecture has; zig leaves SIMD128 out
_ALWAYS = {"aarch64": "neon", "x86_64": "sse2", "wasm32": "simd128"}
# the processors whose vectors are wider than those, by LLVM's names
_WITH = {
    "avx512f": "x86-64-v4 skylake-avx512 skx cascadelake cooperlake cannonlake icelake-client "
    "icelake-server tigerlake rocketlake sapphirerapids emeraldrapids graniterapids "
    "graniterapids-d diamondrapids novalake knl knm znver4 znver5",
    "avx2": "x86-64-v3 haswell core-avx2 broadwell skylake alderlake raptorlake meteorlake "
    "arrowlake arrowlake-s lunarlake pantherlake gracemont sierraforest grandridge "
    "clearwaterforest wildcatlake bdver4 znver1 znver2 znver3",
}
# the features that come with those: the rest of their names are LLVM's
_IMPLYING = {
    "avx512f": re.compile(r"avx512.*|avx10\..*"),
    "avx2": re.compile(r"avxifma|avxneconvert|avxvnni.*|sha512|sm4|vaes"),
    "sve2": re.compile(r"sve2.*"),
}


def vector_features(architecture: str, cpu: str, features: Collection[str]) -> tuple[str, ...]:
    """Return the ``features``, and the features of vectors that a processor has besides.

    ``cpu`` is LLVM's name, or zig's.

    >>> vector_features("x86_64", "znver3", ["avx512vnni"])
    ('avx2', 'avx512f', 'avx512vnni', 'sse2')
    """
    own = {_ALWAYS[architecture], *features}
    for feature, implying in _IMPLYING.items():
        if any(implying.fullmatch(name) for name in features):
            own.add(feature)
    for feature, processors in _WITH.items():
        if cpu.replace("_", "-") in processors.split() and architecture == "x86_64":
            own.add(feature)
    return tuple(sorted(own))


@lru_cache(maxsize=4)
def _vectors(machine: str, listed: str) -> tuple[int, int]:
    if machine in ("arm64", "aarch64"):
        return vectors("aarch64", ())
    # where the system lists no features, most processors have AVX2
    return vectors("x86_64", frozenset(listed.split() or ["avx2"]))


@lru_cache(maxsize=1)
def host_caches() -> tuple[Cache, Cache, Cache]:
    """Return the data caches that this machine's first core uses.

    An unknown level has a typical size. The last level counts at most ``LARGEST_SHARE`` for each
    core that shares it.
    """
    by_level = dict(zip((1, 2, 3), USUAL_CACHES))
    facts = dict(_cache_facts(CACHES))
    # the threads of one core share its first level
    threads = facts[1][1] if 1 in facts else 1
    for level, (cache, sharing) in facts.items():
        cores = max(1, sharing // threads)
        most = cores * LARGEST_SHARE if level == 3 else cache.size
        by_level[level] = Cache(min(cache.size, most), cache.ways, cores)
    return by_level[1], by_level[2], by_level[3]


def _cache_facts(folder: Path) -> Iterator[tuple[int, tuple[Cache, int]]]:
    """Yield the data caches that Linux describes in ``folder``, by level.

    With each comes the number of threads of the machine that share it.
    """
    for at in sorted(folder.glob("index*")):
        try:
            kind = (at / "type").read_text(encoding="ascii").strip()
            level = int((at / "level").read_text(encoding="ascii"))
            size = int((at / "size").read_text(encoding="ascii").strip().removesuffix("K")) * KIB
            ways = int((at / "ways_of_associativity").read_text(encoding="ascii"))
            sharing = _listed((at / "shared_cpu_list").read_text(encoding="ascii"))
        except (OSError, ValueError):
            continue
        if kind in ("Data", "Unified") and level <= 3 and ways > 0 and size >= ways * LINE:
            yield level, (Cache(size, ways), sharing)


def _listed(text: str) -> int:
    """Return how many numbers are in a list such as the Linux kernel prints.

    >>> _listed("0-3,8"), _listed("0")
    (5, 1)
    """
    spans = [part.split("-") for part in text.strip().split(",")]
    return sum(int(span[-1]) - int(span[0]) + 1 for span in spans)


def checked_caches(kind: str, caches: Any) -> tuple[Cache, ...]:
    """Return the caches of a target of this kind; raise unless they are up to three levels."""
    valid = isinstance(caches, (tuple, list)) and len(caches) <= 3
    if not valid or not all(isinstance(cache, Cache) for cache in caches):
        raise BuildError(
            f"Target({kind!r}, caches={caches!r}): caches are a tuple of up to three levels, each "
            "a schedlang.target.Cache(size, ways) with its size in bytes; left out, they are this "
            "machine's"
        )
    return tuple(caches)


def host_datapath() -> int:
    """Return the datapath width of this machine's cores, in bytes.

    That is the part of a vector register on which a core computes at once.
    """
    width, facts = host_vectors()[0], _cpu_facts()
    numbers = (facts.get("cpu family", ""), facts.get("model", ""))
    if facts.get("vendor_id") != "AuthenticAMD" or not all(n.isdigit() for n in numbers):
        return width
    family, model = map(int, numbers)
    return min(width, _amd_datapath(family, model))


def _amd_datapath(family: int, model: int) -> int:
    """Return the datapath width of AMD's cores, in bytes.

    Source: AMD's Software Optimization Guides for families 17h, 19h and 1Ah. Laptop cores of family
    1Ah have half the width.
    """
    if family == 0x17:
        return 16 if model < 0x30 else 32
    if family == 0x1A:
        return 32 if model >> 4 in (0x2, 0x6) else 64
    return 32 if family == 0x19 else 64


@lru_cache(maxsize=1)
def _cpu_facts() -> dict[str, str]:
    """Return the entries of the first core in ``/proc/cpuinfo``, if that exists."""
    facts: dict[str, str] = {}
    if not os.path.exists("/proc/cpuinfo"):
        return facts
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        for line in file:
            name, _, value = line.partition(":")
            if not line.strip():
                break
            facts[name.strip()] = value.strip()
    return facts
