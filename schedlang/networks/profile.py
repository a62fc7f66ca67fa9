"""The profile of a network: the time of each of its kernels in a call, beside what bounds it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any

from schedlang.errors import BuildError, CallError, MissingNameError, explain, names_text, nearest
from schedlang.ir.nest import Nest
from schedlang.markup.bundle import InNotebooks
from schedlang.markup.columns import align_columns
from schedlang.markup.elements import folded_code, table
from schedlang.markup.flame import bars
from schedlang.markup.fragment import fragment
from schedlang.markup.text import escape, printable
from schedlang.networks.kernels import PartKernel
from schedlang.networks.module import NetworkModule
from schedlang.networks.partition import Partition
from schedlang.runtime.ceilings import ceilings
from schedlang.runtime.gpu_clock import gpu_ceilings
from schedlang.runtime.timing import duration

EMULATED = "the CPU emulates a GPU: its times say nothing about one"
# the nests that a notebook shows
NESTS = 8
_HEAD = ("time", "share", "GFLOP/s", "GB/s", "of the bound", "lines")


@dataclass(frozen=True)
class KernelTime:
    """The time of one part in a call.

    ``gflops`` counts its operations; ``gbps`` the bytes that it reads and writes, each tensor once.
    ``bound`` is the part of its time in which this machine could do the operations or move the
    bytes, whichever takes longer (the roofline of Williams et al., "Roofline: an insightful visual
    performance model", CACM 2009). It may be above 1 where tensors stay in the caches. Both are
    ``None`` for a function of the user's, whose operations are unknown. ``lines``
    are the first and the last line of its kernel in the source of the module. ``nest`` is the loop
    nest of its kernel; equal parts share it, with the names of the first of them.
    """

    name: str
    seconds: float
    share: float
    gflops: float | None
    gbps: float
    bound: float | None
    lines: tuple[int, int]
    stages: tuple[str, ...]
    layers: tuple[str, ...]
    nest: Nest = field(repr=False)


@dataclass(frozen=True)
class NetworkProfile(InNotebooks):
    """The result of :meth:`Network.profile <schedlang.networks.network.Network.profile>`.

    ``seconds`` is the time of one call, the fastest of ``runs``. ``kernels`` are the times of the
    parts in it, in the order in which they run, and ``profile["conv1"]`` is the time of one part.
    ``print`` shows a table, the longest first; a notebook adds a chart, and the loop nests of the
    longest. ``note`` is a sentence about the times.
    """

    name: str
    seconds: float
    kernels: tuple[KernelTime, ...]
    runs: int
    note: str = ""

    def __getitem__(self, name: str) -> KernelTime:
        for kernel in self.kernels:
            if kernel.name == name:
                return kernel
        names = [kernel.name for kernel in self.kernels]
        hint = nearest(str(name), names) or f"; its parts are {names_text(names)}"
        raise MissingNameError(f"the profile of {self.name} has no part {name!r}{hint}")

    def __str__(self) -> str:
        rows: list[tuple[Sequence[str], str]] = [(_HEAD, "part")]
        rows += [(_cells(kernel), _label(kernel)) for kernel in self._longest_first()]
        head = f"{printable(self.name)}: {duration(self.seconds)} a call"
        note = [self.note] if self.note else []
        return "\n".join([head, *note, *align_columns(rows)])

    __repr__ = __str__

    def _longest_first(self) -> list[KernelTime]:
        return sorted(self.kernels, key=lambda kernel: kernel.seconds, reverse=True)

    def _repr_html_(self) -> str:
        rows = [
            [escape(kernel.name), *map(escape, _cells(kernel)), escape(", ".join(kernel.layers))]
            for kernel in self._longest_first()
        ]
        shown = table(("part", *_HEAD, "layers"), rows, ("", *["number"] * len(_HEAD), ""))
        chart = bars(
            [(k.name, f"{k.name}: {duration(k.seconds)}", k.seconds) for k in self.kernels],
            f"the times of the kernels of {self.name}, in the order in which they run",
        )
        head = (
            f'<div class="head">profile of {escape(self.name)}: {duration(self.seconds)} a '
            f"call{f'; {escape(self.note)}' if self.note else ''}</div>"
        )
        nests = "".join(
            folded_code(f"the loop nest of {kernel.name}", str(kernel.nest))
            for kernel in self._longest_first()[:NESTS]
        )
        return fragment(head + chart + shown + nests)


def profile(
    module: NetworkModule,
    partition: Partition,
    kernels: Mapping[str, PartKernel],
    args: Sequence[Any],
    repeat: int,
) -> NetworkProfile:
    """Return the profile of a module that runs a partition, with the arguments of a call.

    ``kernels`` has the kernel of each part.
    """
    if isinstance(repeat, bool) or not isinstance(repeat, Integral) or repeat < 1:
        raise CallError(f"profile(..., repeat={repeat!r}): repeat must be an integer, 1 or more")
    facts = module.target.facts
    if facts.language == "C":
        raise BuildError(
            explain(
                f"profile of network {module.name}",
                'kernels are timed for target="cpu" and "python", and it is built for "c"',
                'Build the network with target="cpu".',
            )
        )
    seconds, runs, sizes = module.timed(int(repeat), *args)
    total = sum(seconds) or 1e-9
    calls = {call.name: call for call in module.calls}
    times = []
    # a call also takes sizes of inputs that no part reads
    known = {name: size for name, size in sizes.items() if name in partition.sizes}
    for part, spent in zip(partition.at(known), seconds):
        spent = max(spent, 1e-9)
        moved = part.read_bytes + part.written_bytes
        rates = part.flops / spent / 1e9, moved / spent / 1e9
        dtype = part.writes[0].dtype
        most = gpu_ceilings(dtype) if facts.timing == "events" else ceilings(dtype, *rates)
        times.append(
            KernelTime(
                part.name,
                spent,
                spent / total,
                None if part.unknown else rates[0],
                rates[1],
                None if part.unknown else most.seconds(part.flops, moved) / spent,
                calls[part.name].lines,
                part.stages,
                part.layers,
                kernels[part.name].kernel.loop_nest,
            )
        )
    note = EMULATED if facts.timing == "none" else ""
    return NetworkProfile(module.name, sum(seconds), tuple(times), runs, note)


def _cells(kernel: KernelTime) -> tuple[str, ...]:
    first, last = kernel.lines
    return (
        duration(kernel.seconds),
        f"{kernel.share:.1%}",
        "?" if kernel.gflops is None else f"{kernel.gflops:.1f}",
        f"{kernel.gbps:.1f}",
        "?" if kernel.bound is None else _of_the_bound(kernel.bound),
        f"{first}-{last}",
    )


def _of_the_bound(part: float) -> str:
    # the bound counts bytes from memory, and the caches are faster
    return f"{part:.0%}" if part <= 1.0 else "100%+"


def _label(kernel: KernelTime) -> str:
    layers = f" ({', '.join(kernel.layers)})" if kernel.layers else ""
    return printable(f"{kernel.name}{layers}")
