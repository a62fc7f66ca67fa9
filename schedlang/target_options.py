"""Options of a target: te's target strings, numbers, features, and the machine that it names."""

from __future__ import annotations

import platform
import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Optional

from schedlang.errors import BuildError, explain, nearest
from schedlang.host import is_whole
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
# options that name a machine, which its triple names as well
_OF_MACHINES = frozenset(("mtriple", "device", "keys"))
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
# what the names of the architectures of GPUs begin with
ARCHITECTURE = "sm_"
# the triples for which zig compiles C: the processor, the system, its C library
TRIPLES = (
    "aarch64-linux-musl", "aarch64-linux-gnu", "x86_64-linux-musl", "x86_64-linux-gnu",
    "wasm32-wasi", "aarch64-macos", "x86_64-macos", "x86_64-windows-gnu",
)  # fmt: skip
# other names of systems, without their versions
_SYSTEMS = {"darwin": "macos", "macosx": "macos", "wasip1": "wasi"}
# the processors of x86 that have no code of 64 bits
_OF_32_BITS = re.compile(
    r"i[3-6]86|athlon|athlon-(4|mp|tbird|xp)|c3(-2)?|geode|k6(-[23])?|lakemont|pentium.*|prescott|"
    r"winchip.*|yonah"
)


@dataclass(frozen=True)
class Parsed:
    """The content of a target string: the facts of its kind, and its options that have an effect.

    ``arch`` is the architecture of a GPU, and ``backend`` the target of an installed package.
    """

    facts: Facts
    arch: Optional[str] = None
    backend: Optional[HasFacts] = None
    triple: str = ""
    cpu: str = ""
    features: tuple[str, ...] = ()


def parse_target(text: Any) -> Parsed:
    """Return what a target string says.

    Raise :class:`~schedlang.errors.BuildError` for an unknown kind or option, and for options that
    name a machine for which nothing can be built.

    >>> parse_target("cuda -arch=sm_80").arch, parse_target("llvm -libs mkl").facts.name
    ('sm_80', 'cpu')
    >>> parse_target("llvm -mtriple=wasm32-unknown-wasi -mattr=+simd128").triple
    'wasm32-wasi'
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
    options = [(word, word.lstrip("-"), value) for word, value in _options(words[1:])]
    triple = next((value for _, option, value in options if option == "mtriple"), "")
    if _is_for_a_triple(facts, triple):
        return _for_triple(text, own, options, triple)
    arch = None
    for word, option, value in options:
        if option == "arch" or (option == "mcpu" and facts.takes_arch):
            arch = value
        elif not word.startswith("-") or not _is_honoured(text, facts, option, value):
            raise _unknown_option(text, word)
    return Parsed(facts, arch, own)


def _is_for_a_triple(facts: Facts, triple: str) -> bool:
    """Return whether ``triple`` names another machine, for which C can be compiled."""
    listed = _usual_triple(triple) in TRIPLES
    return _names_triples(facts) and listed and _is_other_triple(facts, triple)


def _names_triples(facts: Facts) -> bool:
    """Return whether a target string of a kind may name the triple of another machine."""
    # the kind "c" has the same loops as te's "llvm"
    return facts.takes_triple or facts.name == SPELLINGS["llvm"]


def _for_triple(
    text: str, own: HasFacts | None, options: Sequence[tuple[str, str, str]], triple: str
) -> Parsed:
    """Return what a target string says that names another machine."""
    cpu, features = "", list[str]()
    for word, option, value in options:
        if option == "mcpu":
            cpu = value
        elif option == "mattr":
            for name in filter(None, value.split(",")):
                if not name.startswith("+"):
                    why, fix = f"{name!r} has no sign", f"Write -mattr=+{name}."
                    if name.startswith("-"):
                        why = f"{name!r} takes a feature from a processor"
                        fix = "Name one without it by -mcpu."
                    raise BuildError(explain(f"target {text!r}", why, fix))
                features.append(name[1:])
        elif not word.startswith("-") or (option not in IGNORED and option not in _OF_MACHINES):
            raise _unknown_option(text, word)
    facts, asked = KINDS["c"] if own is None else own.facts, f"target {text!r}"
    triple = _usual_triple(triple)
    cpu = checked_cpu(facts, triple, cpu, asked)
    return Parsed(facts, None, own, triple, cpu, checked_features(facts, features, triple, asked))


def _unknown_option(text: str, word: str) -> BuildError:
    return BuildError(
        f"target {text!r}: unknown option {word!r}; leave it out. schedlang "
        'takes -arch from te, as in "cuda -arch=sm_80", -mtriple, -mcpu and -mattr for C that is '
        "compiled for another machine, and ignores the options of te that change no result, such "
        "as -mcpu and -libs for a CPU"
    )


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
    foreign = host.triple if hasattr(host, "triple") else ""
    if not hasattr(host, "facts"):
        host = parse_target(host)
        foreign = host.triple
    if foreign:
        raise _elsewhere(f"host={foreign}", "-mtriple", "kernels are called on this machine")
    if host.facts.device != CPU:
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
        if option == "mtriple" and _names_triples(facts):
            choices = _no_triple(value)
            raise BuildError(f"target {text!r}: {choices}. Leave -mtriple out for this machine")
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


def checked_number(facts: Facts, name: str, value: Any) -> int:
    """Return a size or a number of registers; 0 is a value that is left out."""
    is_size = name != "vector_registers"
    valid = is_whole(value) and value >= 0
    if not valid or (is_size and int(value).bit_count() > 1):
        kinds = ("a whole number, at least 1", "a power of two, such as 16, 32 or 64")
        raise BuildError(
            f"Target({facts.name!r}, {name}={value!r}): {name} must be {kinds[is_size]}; leave "
            "it out for the value of this machine"
        )
    moves = not facts.vector_arithmetic
    if name == "vector_bytes" and moves and value not in (0, facts.vector_bytes):
        raise BuildError(
            f"Target({facts.name!r}, vector_bytes={value!r}): a GPU thread accesses at most 16 "
            "bytes at once; leave out vector_bytes"
        )
    return int(value)


def _usual_triple(triple: str) -> str:
    """Return a triple without its vendor and versions, in zig's words.

    >>> _usual_triple("arm64-apple-darwin22.1"), _usual_triple("aarch64-none-linux-gnu")
    ('aarch64-macos', 'aarch64-linux-gnu')
    """
    first, *rest = triple.lower().replace("x86-64", "x86_64").split("-")
    # a dot before a version, as in gnu.2.17, asks zig for that version
    pairs = [(part, re.sub(r"\d[\d.]*$", "", part)) for part in rest]
    named = [
        _SYSTEMS.get(part) or _SYSTEMS.get(bare, bare)
        for part, bare in pairs
        if part not in _VENDORS and bare not in _VENDORS
    ]
    return "-".join([_ARCHITECTURES.get(first, first), *named])


def checked_triple(facts: Facts, triple: Any) -> str:
    """Return a triple in zig's words; raise unless files can be compiled for it."""
    if triple == "" and isinstance(triple, str):
        return ""
    asked = f"Target({facts.name!r}, triple={triple!r})"
    if not facts.takes_triple:
        raise BuildError(
            f'{asked}: kernels for another machine are C; write Target("c", triple={triple!r})'
        )
    usual = _usual_triple(triple) if isinstance(triple, str) else ""
    if usual not in TRIPLES:
        raise BuildError(f"{asked}: {_no_triple(usual)}")
    return usual


def _no_triple(triple: str) -> str:
    """Return which triples there are in place of one that is none of them, for a sentence.

    >>> _no_triple("riscv64-linux-gnu")[:50]
    'no C is compiled for riscv64; choose one of aarch6'
    >>> _no_triple("aarch64")
    'aarch64 names no system; choose one of aarch64-linux-musl, aarch64-linux-gnu, aarch64-macos'
    """
    usual = _usual_triple(triple)
    architecture = architecture_of(usual)
    own = [t for t in TRIPLES if architecture_of(t) == architecture]
    if own and usual == architecture:
        return f"{architecture} names no system; choose one of {', '.join(own)}"
    choose = f"choose one of {', '.join(TRIPLES)}"
    # a triple that is close in its system alone is for another processor
    if not own and not nearest(architecture, {architecture_of(t) for t in TRIPLES}):
        return f"no C is compiled for {architecture}; {choose}" if architecture else choose
    return f"{choose}{nearest(usual, own or TRIPLES)}"


def own_triples() -> list[str]:
    """Return the triples of this machine: of libraries that its loader loads."""
    systems = _own_system()
    own = [t for t in TRIPLES if architecture_of(t) == _own_architecture()]
    return [t for t in own if {*t.split("-")[1:]} <= systems] or [_own_architecture()]


def architecture_of(triple: str) -> str:
    """Return the first part of a triple, its processor's architecture."""
    return triple.partition("-")[0]


def checked_cpu(facts: Facts, triple: str, cpu: Any, asked: str = "") -> str:
    """Return the name of a processor as zig writes it; raise unless LLVM knows it."""
    if cpu == "" and isinstance(cpu, str):
        return ""
    asked = asked or f"Target({facts.name!r}, triple={triple!r}, cpu={cpu!r})"
    if not triple:
        raise BuildError(
            f"{asked}: kernels are compiled for this machine's processor; leave cpu out, or give "
            "the triple of the machine that has it"
        )
    name = _in_llvm(cpu)
    if name == "native":
        raise BuildError(f"{asked}: native is this machine's processor; name the triple's")
    known = _llvm_names(triple)[0]
    # a name of other letters reaches no compiler
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]*", name) or (known and name not in known):
        raise BuildError(
            f"{asked}: LLVM knows no such processor of {architecture_of(triple)}"
            f"{nearest(name, known)}"
        )
    if architecture_of(triple) == "x86_64" and _OF_32_BITS.fullmatch(name):
        raise BuildError(
            f"{asked}: {name} has no code of 64 bits; leave cpu out for the least processor that "
            "does"
        )
    return name.replace("-", "_")


def _in_llvm(name: Any) -> str:
    """Return the name of a processor or feature as LLVM writes it; "" for what is not a text."""
    return name.lower().replace("_", "-") if isinstance(name, str) else ""


def _llvm_names(triple: str) -> tuple[frozenset[str], frozenset[str]]:
    # it asks LLVM, which stands above targets
    processor = import_module("schedlang.runtime.processor")
    names: tuple[frozenset[str], frozenset[str]] = processor.known_names(architecture_of(triple))
    return names


def checked_features(
    facts: Facts, features: Any, triple: str = "", asked: str = ""
) -> tuple[str, ...]:
    """Return the features of a processor, each once, in order."""
    if isinstance(features, (tuple, list)) and not features:
        return ()
    asked = asked or f"Target({facts.name!r}, features={features!r})"
    listed = isinstance(features, (tuple, list, set, frozenset))
    # needs= of an instruction has names with "or" between them, and a processor has none such
    if not listed or not all(isinstance(n, str) and " " not in n for n in features):
        raise BuildError(
            f"{asked}: features are a list of the processor's, by LLVM's names, such as "
            '["avx512vnni"]; left out, they are the features of this machine'
        )
    of_gpu = facts.device != CPU or facts.takes_arch
    if of_gpu or any(name.startswith(ARCHITECTURE) for name in features):
        raise BuildError(f"{asked}: features are of CPUs; give arch for the features of a GPU")
    if triple:
        known = _llvm_names(triple)[1]
        for name in features:
            if (known and name not in known) or not re.fullmatch(r"[a-z0-9][a-z0-9.-]*", name):
                raise BuildError(
                    f"{asked}: LLVM knows no feature {name!r} of {architecture_of(triple)}"
                    f"{nearest(name, known)}"
                )
        return tuple(sorted(set(features)))
    # it asks LLVM, which stands above targets
    processor = import_module("schedlang.runtime.processor")
    if unknown := processor.unknown_features(features):
        raise BuildError(f"{asked}: it names {processor.why_missing(unknown)}")
    return tuple(sorted(set(features)))


__all__ = [
    "ARCHITECTURE", "TRIPLES", "Parsed", "architecture_of", "check_host",
    "checked_cpu", "checked_features", "checked_number", "checked_triple", "choices", "names_kind",
    "own_triples", "parse_target",
]  # fmt: skip
