"""Targets and their limits: vector widths, registers, threads, memory."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Optional, Union, cast

import numpy as np

from schedlang.errors import BuildError, missing_name, nearest, warn_of_old_name
from schedlang.host import (
    KIB,
    LINE,
    USUAL_CACHES,
    Cache,
    checked_caches,
    host_caches,
    host_datapath,
    host_vectors,
    vector_features,
    vectors,
)
from schedlang.signatures import public
from schedlang.target_kinds import KINDS, Facts, HasFacts, check_target, placed_at
from schedlang.target_options import (
    ARCHITECTURE,
    architecture_of,
    check_host,
    checked_cpu,
    checked_features,
    checked_number,
    checked_triple,
    names_kind,
    parse_target,
)


class Kind(str):
    """The kind of a target: a string that also has te's ``name``."""

    __slots__ = ()

    @property
    def name(self) -> str:
        return str(self)


@dataclass(frozen=True)
class Device:
    """The limits of one GPU architecture: threads, memory in bytes, registers of 32 bits.

    Source: CUDA C++ Programming Guide 13.0, "Technical Specifications per Compute Capability".
    ``shared_static`` is the default limit of shared memory for a block, and ``shared_opt_in`` the
    limit that a kernel may request. ``local`` is the local memory of a thread.
    """

    arch: str
    shared_opt_in: int
    shared_per_sm: int
    threads_per_sm: int
    blocks_per_sm: int
    threads: int = 1024
    shared_static: int = 48 * 1024
    local: int = 512 * 1024
    registers_per_sm: int = 64 * 1024
    registers: int = 255
    warp: int = 32

    @property
    def block(self) -> dict[str, int]:
        return {"x": 1024, "y": 1024, "z": 64}

    @property
    def grid(self) -> dict[str, int]:
        return {"x": 2**31 - 1, "y": 65535, "z": 65535}

    @property
    def specific(self) -> bool:
        """True if machine code for it runs on no later architecture: code for sm_90a is such."""
        return is_specific(self.arch)

    @property
    def capability(self) -> tuple[int, int]:
        return capability(self.arch)


def first_lacking(needs: Iterable[str], device: Device) -> str:
    """Return the first architecture among ``needs`` whose code the GPU does not run, or "".

    The others are features of CPUs.

    >>> first_lacking(["avx512vnni", "sm_89"], DEVICES["sm_80"])
    'sm_89'
    >>> first_lacking(["sm_90a"], DEVICES["sm_90"]), first_lacking(["sm_90a"], DEVICES["sm_90a"])
    ('sm_90a', '')
    """
    wanted = (name for name in needs if name.startswith(ARCHITECTURE))
    return next((name for name in wanted if not _runs(name, device)), "")


def _runs(arch: str, device: Device) -> bool:
    """Return whether a GPU runs code that needs an architecture: its own, or an earlier one."""
    return arch == device.arch if is_specific(arch) else capability(arch) <= device.capability


def is_specific(arch: str) -> bool:
    """Return whether code for an architecture runs on no later one."""
    return not arch[-1].isdigit()


def mistyped_architecture(need: str) -> str:
    """Return why ``need``, which reads like an architecture, is not one, or "".

    >>> mistyped_architecture("sm_9O")
    "'sm_9O' is not an architecture of NVIDIA's GPUs; did you mean 'sm_90'?"
    >>> mistyped_architecture("sm_61"), mistyped_architecture("avx512vnni")
    ('', '')
    """
    known = [*EARLIER, *DEVICES]
    if need in known or not _LIKE_ARCHITECTURE.match(need):
        return ""
    return f"{need!r} is not an architecture of NVIDIA's GPUs{nearest(need.lower(), known)}"


def capability(arch: str) -> tuple[int, int]:
    """Return the compute capability of an architecture.

    >>> capability("sm_90a")
    (9, 0)
    """
    number = int(arch.removeprefix(ARCHITECTURE).rstrip("af"))
    return number // 10, number % 10


# the targets of the enclosing ``with`` statements, the innermost last
_AROUND: ContextVar[tuple[Target, ...]] = ContextVar("targets", default=())

DEVICES = {
    "sm_80": Device("sm_80", 163 * KIB, 164 * KIB, 2048, 32),
    "sm_86": Device("sm_86", 99 * KIB, 100 * KIB, 1536, 16),
    "sm_87": Device("sm_87", 163 * KIB, 164 * KIB, 1536, 16),
    "sm_89": Device("sm_89", 99 * KIB, 100 * KIB, 1536, 24),
    "sm_90": Device("sm_90", 227 * KIB, 228 * KIB, 2048, 32),
    "sm_90a": Device("sm_90a", 227 * KIB, 228 * KIB, 2048, 32),
    "sm_100": Device("sm_100", 227 * KIB, 228 * KIB, 2048, 32),
    "sm_103": Device("sm_103", 227 * KIB, 228 * KIB, 2048, 32),
    "sm_120": Device("sm_120", 99 * KIB, 100 * KIB, 1536, 24),
    "sm_121": Device("sm_121", 99 * KIB, 100 * KIB, 1536, 24),
}
DEFAULT_ARCH = "sm_90"
# architectures before them, from which on an instruction may be there
# source: NVIDIA, "PTX ISA", ".target"
EARLIER = tuple(f"sm_{n}" for n in (50, 52, 53, 60, 61, 62, 70, 72, 75))
# what is meant as an architecture; sm3 and sm4 are features of CPUs
_LIKE_ARCHITECTURE = re.compile(r"(sm|compute)(_|-|\d\d)", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True)
class _Fields:
    """The fields of a target, all of them."""

    kind: str
    vector_bytes: int
    vector_registers: int
    arch: str
    datapath_bytes: int
    caches: tuple[Cache, ...]
    # pickles of earlier versions have none
    backend: Optional[HasFacts] = field(default=None, repr=False)
    features: tuple[str, ...] = ()
    triple: str = ""
    cpu: str = ""


@dataclass(frozen=True, init=False)
class Target(_Fields):
    """The processor that a kernel is built for: its vector registers, or its GPU architecture.

    ``kind`` is ``"cpu"``, ``"python"``, ``"c"``, ``"cuda"``, ``"cuda-emulator"``, ``"opencl"``, or
    a target that a package brings, by its name (see ``docs/inside/targets.md``); ``backend`` is
    that target as an object.

    ``vector_bytes`` is the size of a vector register, and ``vector_registers`` the number of
    registers. Both default to this machine's. If the size differs from this machine's, the number
    defaults to 32 for 64 bytes or more (AVX-512), else to 16. ``datapath_bytes`` is the part of a
    register on which a core computes at once. It is half a register if vectors take two passes, as
    on Zen 4; wider vectors then save instructions but no arithmetic. A datapath that is wider than
    a register counts as one register.

    ``caches`` are the data caches that a core uses, first level first. A level that cores share
    counts whole, and its ``cores`` says how many share it. They default to this machine's, or to
    typical ones if the size of a register differs from this machine's.

    ``features`` are the features of the processor, by LLVM's names, such as ``"avx512vnni"`` and
    ``"amx-int8"``. Schedules are chosen for them. They default to this machine's, for which kernels
    are built: a build of an instruction that this machine lacks is refused.

    ``arch`` is the architecture of a GPU, by default sm_90, and ``device`` holds its limits.

    ``triple`` names another processor and system, such as ``"aarch64-linux-musl"``, for
    ``kind="c"`` alone, and ``cpu`` its model by LLVM's or zig's name, such as ``"cortex_a76"``.
    Then the size and number of registers and the features are that processor's. Its kernels are not
    called but saved, and zig compiles them (``pip install "schedlang[ship]"``).

    ``kind`` may be a target string of te: ``"cuda -arch=sm_80"`` sets ``arch``, ``"llvm
    -mtriple=aarch64-linux-gnu -mcpu=cortex-a76"`` is a target of kind ``"c"``, and options that
    change no result are ignored, such as ``-libs``. ``target=`` is te's name for ``kind``. A target
    as ``kind`` is copied, with the other arguments in place of its own. An option that names a
    machine for which no file can be compiled is refused, and so is a ``host=`` other than this CPU.

    Raise :class:`~schedlang.errors.BuildError` for an unknown kind, option, feature, architecture,
    triple or processor, and a number that is out of range.

    >>> Target("cpu", vector_bytes=32).vector_width("float32")
    8
    >>> Target("cpu", caches=(Cache(48 * 1024, 12), Cache(1 << 20, 16))).caches[-1].size
    1048576
    >>> Target("cuda", arch="sm_80").device.shared_opt_in
    166912
    >>> Target("c", triple="aarch64-linux-musl", cpu="cortex_a76").vector_bytes
    16
    """

    @public
    def __init__(
        self,
        kind: str | Target = "cpu",
        vector_bytes: int = 0,
        vector_registers: int = 0,
        arch: str = "",
        target: str | Target | None = None,
        host: Any = None,
        datapath_bytes: int = 0,
        caches: tuple[Cache, ...] = (),
        backend: HasFacts | None = None,
        features: Sequence[str] = (),
        triple: str = "",
        cpu: str = "",
    ) -> None:
        if isinstance(vector_bytes, Target) or names_kind(vector_bytes):
            # te's second argument is the host
            vector_bytes, host = 0, vector_bytes
        name, option = kind if target is None else target, None
        if isinstance(name, Target):
            model, name = name, name.kind
            arch, backend = arch or model.arch, backend or model.backend
            triple, cpu = triple or model.triple, cpu or model.cpu
            # another processor has its own registers and features
            stays = (triple, cpu) == (model.triple, model.cpu) and not (triple and features)
            features = features or (model.features if stays else ())
            if stays and vector_bytes in (0, model.vector_bytes):
                vector_bytes = model.vector_bytes
                vector_registers = vector_registers or model.vector_registers
                datapath_bytes = datapath_bytes or model.datapath_bytes
                caches = caches or model.caches
        if backend is not None and backend.facts.name == name:
            facts = backend.facts
        else:
            parsed = parse_target(name)
            facts, option, backend = parsed.facts, parsed.arch, parsed.backend
            triple, cpu = triple or parsed.triple, cpu or parsed.cpu
            features = features or parsed.features
        check_host(host)
        arch = _checked_arch(facts, arch, option)
        wide = checked_number(facts, "vector_bytes", vector_bytes)
        count = checked_number(facts, "vector_registers", vector_registers)
        at_once = checked_number(facts, "datapath_bytes", datapath_bytes)
        caches = checked_caches(facts.name, caches)
        triple = checked_triple(facts, triple)
        cpu = checked_cpu(facts, triple, cpu)
        features = checked_features(facts, features, triple)
        width, registers = host_vectors()
        if triple:
            features = vector_features(architecture_of(triple), cpu, features)
            width, registers = vectors(architecture_of(triple), features)
        wide = wide or facts.vector_bytes or int(not facts.vectors)
        count = count or facts.vector_registers
        own = wide in (0, width)
        if not own:
            registers = 32 if wide >= 64 else 16
        wide = wide or width
        here = own and not triple
        datapath = host_datapath() if wide == width and not triple else wide
        super().__init__(
            Kind(facts.name), wide, count or registers, arch, min(at_once or datapath, wide),
            caches or (host_caches() if here else USUAL_CACHES), backend, features, triple, cpu,
        )  # fmt: skip

    @property
    def device(self) -> Device:
        """The limits of the GPU; for a CPU target, of the GPU that is emulated."""
        own = self.facts.limits
        return cast(Device, placed_at(own)) if own else DEVICES[self.arch or DEFAULT_ARCH]

    @property
    def facts(self) -> Facts:
        """The facts about all targets of this kind."""
        return KINDS[self.kind] if self.backend is None else self.backend.facts

    @property
    def is_gpu(self) -> bool:
        """True if loops are bound to blocks and threads."""
        return self.facts.binds_threads

    def vector_width(self, dtype: str) -> int:
        """Return the number of elements of ``dtype`` in one vector register.

        Half precision counts as float32, in which it is computed.
        """
        return max(1, self.vector_bytes // _bytes_held(dtype))

    @property
    def passes(self) -> int:
        """The number of passes of a core over a vector register: 2 if its datapath is half as wide.

        >>> Target("cpu", vector_bytes=64, datapath_bytes=32).passes
        2
        """
        return max(1, self.vector_bytes // self.datapath_bytes)

    def last_cache(self, threads: int = 1) -> int:
        """Return the bytes that the last caches of ``threads`` cores hold together.

        >>> Target("cpu", caches=(Cache(32 * 1024, 8), Cache(32 << 20, 16, cores=8))).last_cache(12)
        67108864
        """
        last = self.caches[-1] if self.caches else Cache(LINE, 1)
        return last.size * -(-threads // last.cores)

    @property
    def keys(self) -> tuple[str, ...]:
        """te's names of the kind and its family, by which programs choose a schedule.

        >>> Target("llvm").keys, Target("cuda").keys
        (('cpu',), ('cuda', 'gpu'))
        """
        return ("cuda", "gpu") if self.is_gpu else ("cpu",)

    @property
    def max_num_threads(self) -> int:
        """te's name for the most threads of a block; 1 on a CPU."""
        return self.device.threads if self.is_gpu else 1

    @property
    def thread_warp_size(self) -> int:
        """te's name for the threads of a warp; 1 on a CPU."""
        return self.device.warp if self.is_gpu else 1

    @staticmethod
    def of(value: TargetLike | None) -> Target:
        """Return ``value`` as a target, which may be an object of a user's class.

        ``None`` stands for the target of the innermost ``with`` statement, or else for this CPU.
        """
        if isinstance(value, Target):
            return value
        if value is None:
            return Target.current(allow_none=True) or Target("cpu")
        facts = getattr(value, "facts", None)
        if not isinstance(facts, Facts):
            return Target(value)  # type: ignore[arg-type]
        return Target(facts.name, backend=check_target(value, f"target={value!r}"))

    @staticmethod
    def check_and_update_host_consist(target: TargetLike, host: Any = None) -> tuple[Target, Any]:
        """Return te's pair of a target and its host, as targets; no host stays ``None``."""
        return Target(target, host=host), None if host is None else Target.of(host)  # type: ignore[arg-type]

    @staticmethod
    def current(allow_none: bool = True) -> Target | None:
        """Return the target of the innermost ``with`` statement; te's ``Target.current``."""
        around = _AROUND.get()
        if not around and not allow_none:
            raise BuildError("Target.current(allow_none=False): call it inside `with Target(...):`")
        return around[-1] if around else None

    def __enter__(self) -> Target:
        """Make this the default target of ``build`` and other functions.

        >>> with Target("cuda", arch="sm_80"):
        ...     Target.of(None).arch
        'sm_80'
        """
        _AROUND.set((*_AROUND.get(), self))
        return self

    def __exit__(self, *raised: object) -> None:
        _AROUND.set(_AROUND.get()[:-1])


@cache
def _bytes_held(dtype: str) -> int:
    """Return the bytes of an element in a register."""
    return np.dtype("float32" if dtype in ("float16", "bfloat16") else dtype).itemsize


def cuda(model: str = "unknown", arch: str | None = None, options: Any = None) -> Target:
    """Return the target of a GPU, te's ``tvm.target.cuda()``.

    ``arch`` and the same in ``options`` have an effect; ``model`` does nothing. Raise
    :class:`~schedlang.errors.BuildError` as :class:`Target` does.

    >>> cuda(arch="sm_80").arch, cuda(options="-arch=sm_86").arch
    ('sm_80', 'sm_86')
    """
    del model
    return Target(_with_options("cuda", options), arch=arch or "")


def llvm(options: Any = None) -> Target:
    """Return the target of this machine's CPU, te's ``tvm.target.llvm()``.

    Raise :class:`~schedlang.errors.BuildError` for options that name another machine.

    >>> llvm().kind
    'cpu'
    """
    return Target(_with_options("llvm", options))


def create(target: Any) -> Target:
    """Return ``Target(target)``, with a warning: TVM's name before 0.8."""
    warn_of_old_name("tvm.target.create", "tvm.target.Target")
    return Target(target)


def _with_options(kind: str, options: Any) -> str:
    """Return a target string with te's ``options``, a string or a list of strings."""
    return " ".join([kind, *([options] if isinstance(options, str) else options or ())])


# what target= takes: a target, an object of a user's class, or a name
TargetLike = Union[Target, HasFacts, str]

_TARGETS = (
    "kernels are built for this machine's CPU, for NVIDIA GPUs and in OpenCL C",
    'Use tvm.target.Target("llvm"), "cuda" or "opencl", on the machine that runs the program.',
)
REFUSED = {
    **dict.fromkeys(("rocm", "opencl", "metal", "vulkan", "arm_cpu", "mali", "hexagon"), _TARGETS),
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        raise missing_name(__name__, name, REFUSED, "tvm.target")


def or_emulator(target: Target) -> Target:
    """Return ``target``, or the emulator instead if ``SCHEDLANG_CUDA=emulator`` asks for it."""
    wanted = os.environ.get("SCHEDLANG_CUDA", "")
    if wanted not in ("", "emulator"):
        raise BuildError(f'SCHEDLANG_CUDA={wanted!r}: set it to "emulator", or leave it unset')
    if not (target.facts.needs_driver and wanted):
        return target
    return Target(target.facts.emulated, arch=target.arch)


def run_here(target: Target, what: str) -> Target:
    """Return ``target``, or the emulator as :func:`or_emulator`; raise for one with a triple."""
    if target.triple:
        raise BuildError(
            f"{what} for {target.triple}: it is called on this machine; leave out the triple, or "
            "build a kernel or a network for it by sl.build or sl.network, and save that"
        )
    return or_emulator(target)


def _checked_arch(facts: Facts, arch: str, option: str | None) -> str:
    """Return the architecture, which is ``option`` if the target string has one."""
    kind = facts.name
    if option is not None and arch not in ("", option):
        raise BuildError(
            f"Target({kind!r}, arch={arch!r}): the target string already has -arch={option}; "
            "give the architecture once"
        )
    if arch == "" and option is None:
        arch = DEFAULT_ARCH if facts.takes_arch else ""
    elif option is not None:
        arch = option
    if not facts.takes_arch and arch != "":
        raise BuildError(
            f"Target({kind!r}, arch={arch!r}): arch is the architecture of a GPU; leave it out "
            f"for {kind}"
        )
    if facts.takes_arch and arch not in tuple(DEVICES):
        why = "kernels are built for sm_80 and later GPUs; " if arch in EARLIER else ""
        close = nearest(str(arch), DEVICES) if arch and not why else ""
        raise BuildError(
            f"Target({kind!r}, arch={arch!r}): {why}choose one of {', '.join(DEVICES)}{close}"
        )
    return arch
