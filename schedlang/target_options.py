"""te's target strings: their kind, their options, and the machine that they name."""

from __future__ import annotations

import platform
import shlex
import sys
from collections.abc import Iterator
from typing import Any

from schedlang.errors import BuildError
from schedlang.target_kinds import (
    CPU,
    KINDS,
    SPELLINGS,
    Facts,
    HasFacts,
    installed_names,
    installed_target,
)

# options that only tune, name or package a kernel: each has the same results without them
IGNORED = frozenset(
    "num-cores vector-width libs model tag system-lib runtime max_num_threads thread_warp_size "
    "max_threads_per_block max_shared_memory_per_block registers_per_block".split()
)
# options that name a calling convention
_CONVENTIONS = ("mfloat-abi", "mabi")
# the names of one architecture in target triples and in ``platform.machine()``
_ARCHITECTURES = {"amd64": "x86_64", "x64": "x86_64", "arm64": "aarch64",
                  **dict.fromkeys(("i486", "i586", "i686", "x86"), "i386")}  # fmt: skip
# how the names of a family's processors and their features begin, in LLVM's -mcpu and -mattr
_PROCESSORS = {
    "x86": "x86-64 i386 i486 i586 i686 pentium prescott nocona core2 core-avx corei7 atom bonnell "
    "silvermont goldmont tremont nehalem westmere sandybridge ivybridge haswell broadwell "
    "skylake skx cascadelake cooperlake cannonlake icelake tigerlake rocketlake alderlake "
    "raptorlake meteorlake sapphirerapids emeraldrapids graniterapids sierraforest k8 "
    "opteron athlon amdfam10 barcelona btver bdver znver",
    "arm": "cortex neoverse apple cyclone ampere a64fx thunderx exynos kryo krait carmel falkor "
    "saphira tsv110 grace oryon fujitsu arm7 arm9 arm10 arm11",
    "riscv": "sifive rocket generic-rv spacemit syntacore veyron",
    "power": "pwr ppc power",
}
_FEATURES = {
    "x86": "sse ssse avx fma f16c bmi amx xop popcnt lzcnt",
    "arm": "neon sve sme dotprod fp-armv8 fullfp16 i8mm armv v7 v8 v9 vfp thumb",
    "power": "altivec vsx",
}
_MACHINES = {
    "x86": ("x86", "i386", "amd64"),
    "arm": ("arm", "aarch64"),
    "riscv": ("riscv",),
    "power": ("ppc", "power"),
}
# devices and keys of te that are neither a CPU of any family nor an NVIDIA GPU
_OTHER_DEVICES = frozenset(
    "mali bifrost adreno opencl vulkan metal rocm intel_graphics hexagon vta ethos-u micro_dev "
    "sdaccel aocl webgpu".split()
)
_VENDORS = frozenset("unknown pc none apple redhat suse alpine conda nvidia w64".split())


def parse_target(text: Any) -> tuple[Facts, str | None, HasFacts | None]:
    """Return the facts of a target string's kind, its GPU architecture if it names one.

    The last value is the target of an installed package, if the string names that.

    Raise :class:`~schedlang.errors.BuildError` for an unknown kind or option, and for options that
    name another machine than this one.

    >>> facts, arch, _ = parse_target("cuda -arch=sm_80")
    >>> facts.name, arch, parse_target("llvm -libs mkl -num-cores=4")[0].name
    ('cuda', 'sm_80', 'cpu')
    """
    if not isinstance(text, str):
        raise BuildError(f"Target({text!r}): a target is given by its name; choose {choices()}")
    words = _words(text)
    first = words[0] if words else ""
    own = None if first in SPELLINGS else installed_target(first)
    facts = KINDS.get(SPELLINGS.get(first, "")) if own is None else own.facts
    if facts is None:
        raise BuildError(
            f"unknown target {text!r}: choose {choices()}. A package brings a target by an entry "
            "point in the group schedlang.targets, once it is installed"
        )
    arch = None
    for word, value in _options(words[1:]):
        option = word.lstrip("-")
        if option == "arch" or (option == "mcpu" and facts.takes_arch):
            arch = value
        elif not word.startswith("-") or not _is_honoured(text, facts, option, value):
            raise BuildError(
                f"target {text!r}: unknown option {word!r}; leave it out. schedlang "
                'takes -arch from te, as in "cuda -arch=sm_80", and ignores the options of te that '
                "change no result, such as -mcpu and -libs for a CPU"
            )
    return facts, arch, own


def names_kind(text: Any) -> bool:
    """Return whether a text begins like a target string.

    >>> names_kind("llvm -mcpu=native"), names_kind("llvmm"), names_kind(16)
    (True, False, False)
    """
    return isinstance(text, str) and text.split(" ")[0] in (*KINDS, *SPELLINGS)


def check_host(host: Any) -> None:
    """Raise if ``host``, te's target of the code that starts a kernel, is not this machine's CPU.

    ``None``, a target of te's spelling and a :class:`~schedlang.target.Target` are valid.
    """
    if host is None:
        return
    facts = host.facts if hasattr(host, "facts") else parse_target(host)[0]
    if facts.device != CPU:
        raise BuildError(
            f"host={str(getattr(host, 'kind', host))!r}: Python on this machine's CPU starts the "
            'kernels; leave host out, or give "llvm"'
        )


def choices() -> str:
    """Return the kinds of targets as a list for messages."""
    *others, last = *KINDS, *installed_names()
    return ", ".join(f'"{kind}"' for kind in others) + f' or "{last}"'


def _words(text: str) -> list[str]:
    """Return the words of a target string; quotes hold one together, as in ``-host='llvm ...'``."""
    try:
        return shlex.split(text)
    except ValueError:
        raise BuildError(f"target {text!r}: a quotation mark has no partner; add it") from None


def _options(words: list[str]) -> Iterator[tuple[str, str]]:
    """Yield each option with its value: ``-arch=sm_80`` or ``-arch sm_80``."""
    rest = [*words]
    while rest:
        word, equals, value = rest.pop(0).partition("=")
        if not equals and rest and not rest[0].startswith("-"):
            value = rest.pop(0)
        yield word, value


def _is_honoured(text: str, facts: Facts, option: str, value: str) -> bool:
    """Return whether ``option`` is known; raise if its value names another machine."""
    if option == "host":
        check_host(value)
        return True
    if option in _CONVENTIONS:
        raise _elsewhere(
            text, f"-{option}", "kernels are called by this process, in its calling convention"
        )
    names_other = {
        "mtriple": _is_other_triple, "mcpu": _is_other_processor, "mattr": _has_other_features,
        "device": _is_other_device, "keys": _is_other_device,
    }  # fmt: skip
    if option in names_other and names_other[option](facts, value):
        what = "NVIDIA GPUs" if facts.device != CPU else f"this machine, {_own_architecture()}"
        raise _elsewhere(
            text, f"-{option}", f"kernels are built for {what}, and {value!r} is another one"
        )
    return option in names_other or option in IGNORED


def _elsewhere(text: str, option: str, why: str) -> BuildError:
    return BuildError(
        f"target {text!r}: {why}. Leave {option} out, or run the program on the machine that it "
        "names"
    )


def _own_architecture() -> str:
    machine = platform.machine().lower()
    return _ARCHITECTURES.get(machine, machine)


def _own_family() -> str | None:
    machine = _own_architecture()
    return next((name for name, starts in _MACHINES.items() if machine.startswith(starts)), None)


def _is_other_triple(facts: Facts, triple: str) -> bool:
    """Return whether ``triple`` names another architecture or system than the kernels have."""
    first, *rest = triple.lower().split("-")
    if facts.device != CPU:
        return first != "nvptx64" or not {*rest} <= {"nvidia", "cuda", "unknown"}
    if _ARCHITECTURES.get(first, first) != _own_architecture():
        return True
    # systems carry versions, as in darwin22.1
    return not {part.rstrip("0123456789.") for part in rest} <= _VENDORS | _own_system()


def _own_system() -> set[str]:
    """Return the parts of a triple, without versions, that name this system and its C library."""
    if sys.platform == "darwin":
        return {"darwin", "macos", "macosx"}
    if sys.platform == "win32":
        return {"windows", "win", "msvc", "gnu", "mingw"}
    return {"linux", "gnu" if platform.libc_ver()[0] == "glibc" else "musl"}


def _is_other_processor(facts: Facts, name: str) -> bool:
    return _is_other_family(name, _PROCESSORS)


def _has_other_features(facts: Facts, names: str) -> bool:
    # a GPU's architecture decides its features
    wanted = [name[1:] for name in names.split(",") if name.startswith("+")]
    return facts.device == CPU and any(_is_other_family(name, _FEATURES) for name in wanted)


def _is_other_family(name: str, table: dict[str, str]) -> bool:
    """Return whether ``table`` gives ``name`` to another family of processors than this one."""
    families = {f for f, starts in table.items() if name.lower().startswith((*starts.split(),))}
    return bool(families) and _own_family() not in families


def _is_other_device(facts: Facts, names: str) -> bool:
    for name in names.lower().split(","):
        if name in _OTHER_DEVICES:
            return True
        family = {"arm_cpu": "arm", "x86": "x86", "riscv_cpu": "riscv"}.get(name)
        if family is not None and (facts.device != CPU or family != _own_family()):
            return True
    return False


__all__ = ["check_host", "choices", "names_kind", "parse_target"]
