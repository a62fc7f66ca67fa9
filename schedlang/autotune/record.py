"""One candidate and where it was measured, as plain data, kept and shown."""

from __future__ import annotations

import json
import os
import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from schedlang.autotune.knobs import Decision
from schedlang.compute.data import structure
from schedlang.compute.tensor import Tensor
from schedlang.errors import SchedlangError
from schedlang.runtime import nvidia
from schedlang.target import Target
from schedlang.version import __version__

NO_GPU = "no GPU"
# of a time, where nothing better was to be had
DISTURBED = "other work on the machine took a core during every sample"
# of a kernel for a GPU that was too slow for the emulator; what follows says why
UNCHECKED = "not checked on the emulator"
# of a search whose race gave no times
UNRACED = "the fastest could not be measured again: their first times are kept"
# what "proposes" the schedule without steps
UNTUNED = "untuned"
# how a trial may end; AutoTVM's MeasureErrorNo has the like
OUTCOMES = (
    "ok", "invalid", "build failed", "build timed out", "run failed", "run timed out",
    "wrong answer", "crashed", "out of memory",
)  # fmt: skip


@dataclass(frozen=True)
class Trial:
    """One candidate and how it ended.

    * ``outcome``: ``"ok"`` if the result is right and was timed (for a GPU that is not there, if it
      was compiled); ``"wrong answer"`` if an element is off or was not written, or something else
      was written; ``"build failed"`` and ``"run failed"`` for an exception; ``"build timed out"``,
      ``"run timed out"`` and ``"out of memory"`` beyond the
      :class:`~schedlang.autotune.runner.task.Limits`; ``"crashed"`` if the process ended, once more
      in a process of its own if others had used the first.
    * ``detail``: the first line of what went wrong.
    * ``steps``: the schedule as JSON (:meth:`schedlang.Schedule.to_json`).
    * ``decisions``: the answers to the template's knobs, by name.
    * ``seconds``: the median time of a call, if it was timed, over samples of at least 40 ms
      together; a call of half a second is timed once. ``raced`` tells whether it is from a race,
      and ``first`` is the time before that.
    * ``disturbed``, ``first_disturbed``: whether other processes took a core during every sample of
      these, of which the shortest then counts.
    * ``estimate``: the cost that was expected; less is better, and it has no unit.
    * ``took``: the seconds that building, checking and timing took.
    * ``strategy``: the name of the strategy that proposed it; ``template``: that of the user's
      template that made it, empty for the rules; ``source``: a hash of the loop nest.
    * ``resumed``: whether the database had it; ``checked``: its tolerance and inputs; ``limits``:
      its seconds and memory.
    """

    number: int
    outcome: str
    steps: str = field(repr=False)
    decisions: Mapping[str, Decision] = field(default_factory=dict)
    seconds: float | None = None
    estimate: float | None = None
    detail: str = ""
    source: str = ""
    strategy: str = ""
    took: float = 0.0
    resumed: bool = False
    template: str = ""
    raced: bool = False
    first: float | None = None
    disturbed: bool = False
    first_disturbed: bool = False
    checked: str = ""
    limits: str = ""


@dataclass(frozen=True)
class Where:
    """The case that a time holds for: the computation, the target, the machine, the versions.

    ``op`` and ``extents`` are the computation's structure, whatever its names (see
    :func:`~schedlang.compute.data.structure`), ``sizes`` the values of its symbolic sizes.
    """

    op: str
    sizes: tuple[tuple[str, int], ...]
    target: str
    machine: str
    versions: tuple[tuple[str, str], ...]
    extents: tuple[int, ...] = ()

    @staticmethod
    def here(
        outputs: Sequence[Tensor], target: Target, sizes: Mapping[str, int], machine: str = "",
        using: tuple[tuple[str, str], ...] = (),
    ) -> Where:  # fmt: skip
        """Return this machine and these versions, or the machine that is named and those it is
        using."""
        form = structure(outputs)
        return Where(
            form.key, tuple(sorted(sizes.items())), target_text(target),
            machine or machine_for(target), using or versions(), form.extents,
        )  # fmt: skip


def checked_text(tolerance: float, given: str) -> str:
    """Return what counts as right, as a text to compare: the tolerance, and a hash of data
    given."""
    said = f"tolerance {tolerance:g}"
    return f"{said}, inputs {given}" if given else said


def tolerance_of(checked: str) -> float | None:
    """Return the tolerance of a :func:`checked_text`; ``None`` for another text.

    >>> tolerance_of(checked_text(0.001, "1f"))
    0.001
    """
    found = re.match(r"tolerance ([-+.e\d]+)(,|$)", checked)
    try:
        return float(found[1]) if found else None
    except ValueError:
        return None


def target_text(target: Target) -> str:
    """Return the text that stands for a target in a record.

    >>> target_text(Target("cuda", arch="sm_80"))
    'cuda sm_80'
    >>> target_text(Target("cpu", vector_bytes=32))
    'cpu, 16 vectors of 32 bytes'
    """
    if target.is_gpu:
        return f"{target.kind} {target.arch}"
    return f"{target.kind}, {target.vector_registers} vectors of {target.vector_bytes} bytes"


def machine_for(target: Target) -> str:
    """Return what runs kernels for ``target``: for ``"cuda"`` the GPU, or that there is none."""
    if target.kind != "cuda":
        return machine()
    try:
        cuda = nvidia.driver()
        if not cuda.is_available() or not len(cuda.gpus):
            return NO_GPU
        # not of the current one: a context would keep others out where one process may have it
        name: Any = cuda.gpus[0].name
        return name.decode() if isinstance(name, bytes) else str(name)
    except SchedlangError:
        return NO_GPU


def machine() -> str:
    """Return the processor, how many cores this process may use, and its threads if these are
    others."""
    named = f"{_processor()}, {cores()} cores"
    return named if threads() == cores() else f"{named}, {threads()} threads"


@lru_cache(maxsize=1)
def _processor() -> str:
    name = platform.processor() or platform.machine()
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            lines = (line for line in file if line.startswith("model name"))
            name = next(lines, f": {name}").partition(":")[2].strip()
    return name


def cores() -> int:
    """Return how many cores this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def threads() -> int:
    """Return how many threads a parallel kernel has: one a core, if numba is not told otherwise."""
    told = os.environ.get("NUMBA_NUM_THREADS", "")
    return int(told) if told.isascii() and told.isdigit() and int(told) else cores()


@lru_cache(maxsize=1)
def versions() -> tuple[tuple[str, str], ...]:
    """Return what the speed of a kernel depends on."""
    from importlib.metadata import version

    found: dict[str, Any] = {"schedlang": __version__}
    found |= {name: version(name) for name in ("llvmlite", "numba")}
    return tuple(sorted(found.items()))


def canonical(data: Any) -> str:
    """Return JSON text that is the same for the same data."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False)
