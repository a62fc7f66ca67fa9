"""Plain data about a trial, and about the machine and the versions that it holds for."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from schedlang.autotune.knobs import Decision
from schedlang.compute.data import structure
from schedlang.compute.tensor import Tensor
from schedlang.errors import SchedlangError
from schedlang.runtime import nvidia
from schedlang.runtime.environment import machine, versions
from schedlang.target import Target
from schedlang.target_kinds import KINDS, OPENCL, Facts

NO_GPU = "no GPU"
# the detail of a time that has no undisturbed sample
DISTURBED = "other work on the machine took a core during every sample"
# the detail of a time by the thread's clock instead
PROCESSOR_TIME = "the thread's processor time, as other work took a core during every sample"
# the start of the detail of a GPU kernel that was too slow for the emulator
UNCHECKED = "not checked on the emulator"
# the note of a search whose race gave no times
UNRACED = (
    "the fastest could not be measured again: their first times are kept, and the first candidate "
    "is the best unless another one is clearly faster"
)
# the strategy name of the schedule without steps
UNTUNED = "untuned"
# the origin of a candidate that was measured at another size
NEAR_SIZE = "near size"
# the origin of a candidate that the caller gave
GIVEN = "given"
# how a trial may end, as AutoTVM's MeasureErrorNo
OUTCOMES = (
    "ok", "invalid", "build failed", "build timed out", "run failed", "run timed out",
    "wrong answer", "crashed", "out of memory",
)  # fmt: skip


@dataclass(frozen=True)
class Trial:
    """One candidate and how it ended.

    * ``outcome``: ``"ok"`` if the result is right and was timed (on a machine without the GPU, if
      it was compiled); ``"wrong answer"`` if an element is off or was not written, or if memory
      outside the outputs was written; ``"build failed"`` and ``"run failed"`` for an exception;
      ``"build timed out"``, ``"run timed out"`` and ``"out of memory"`` beyond the
      :class:`~schedlang.autotune.runner.task.Limits`; ``"crashed"`` if the process ended, again in
      a new process if other candidates had run in the first.
    * ``detail``: the first line of the error.
    * ``steps``: the schedule as JSON (:meth:`schedlang.Schedule.to_json`).
    * ``decisions``: the decisions of the template's knobs, by name.
    * ``seconds``: the median time of a call, if it was timed, over samples of at least 40 ms in
      all, or 10 ms past twice the best time; a call of half a second is timed once. ``raced``:
      the time is from a race. ``first``: the time before the race. ``margin``: the part of its time
      by which another one must be faster to take its place, where the race kept it.
    * ``disturbed``, ``first_disturbed``: other processes took a core during every sample of
      ``seconds`` or ``first``; the shortest sample then gives the time. A kernel of one thread is
      then timed by its thread's processor time, which nothing disturbs, and ``detail`` says so.
    * ``estimate``: the estimated cost, without a unit; less is better.
    * ``took``: the seconds that building, checking and timing took.
    * ``strategy``: the name of the strategy that proposed it. ``template``: the name of the user's
      template, empty for the tactics. ``source``: a hash of the loop nest.
    * ``resumed``: the trial comes from the database. ``checked``: the tolerance and inputs of its
      check. ``limits``: its limits of seconds and memory.
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
    margin: float = 0.0
    first: float | None = None
    disturbed: bool = False
    first_disturbed: bool = False
    checked: str = ""
    limits: str = ""


@dataclass(frozen=True)
class Where:
    """The computation, target, machine, versions and compiler that a time holds for.

    ``op`` and ``extents`` are the structure of the computation, without its names (see
    :func:`~schedlang.compute.data.structure`). ``sizes`` are the values of its symbolic sizes.
    ``compiler`` is one of the target's, empty if it has no choice.
    """

    op: str
    sizes: tuple[tuple[str, int], ...]
    target: str
    machine: str
    versions: tuple[tuple[str, str], ...]
    extents: tuple[int, ...] = ()
    compiler: str = ""

    @staticmethod
    def here(
        outputs: Sequence[Tensor], target: Target, sizes: Mapping[str, int], machine: str = "",
        using: tuple[tuple[str, str], ...] = (), compiler: str = "",
    ) -> Where:  # fmt: skip
        """Return the place for ``outputs`` on ``machine`` with the versions ``using``.

        The defaults are this machine, the versions installed here and the target's compiler.
        """
        form = structure(outputs)
        return Where(
            form.key, tuple(sorted(sizes.items())), target_text(target),
            machine or machine_for(target), using or versions(), form.extents,
            target.facts.compiler_named(compiler),
        )  # fmt: skip


def checked_text(tolerance: float, given: str, cold: Sequence[int] = ()) -> str:
    """Return the text of a check: its tolerance, and ``given``, a hash of the user's inputs.

    ``cold`` are the places of inputs that came from memory in each call.

    >>> checked_text(0.001, "", [1])
    'tolerance 0.001, input 1 from memory'
    """
    parts = [f"tolerance {tolerance:g}", *([f"inputs {given}"] if given else [])]
    return ", ".join([*parts, *(f"input {place} from memory" for place in cold)])


def tolerance_of(checked: str) -> float | None:
    """Return the tolerance of a :func:`checked_text`; ``None`` for another text.

    >>> tolerance_of(checked_text(0.001, "1f"))
    0.001
    """
    match = re.match(r"tolerance ([-+.e\d]+)(,|$)", checked)
    try:
        return float(match[1]) if match else None
    except ValueError:
        return None


def target_text(target: Target) -> str:
    """Return the text of a target in a record.

    >>> target_text(Target("cuda", arch="sm_80"))
    'cuda sm_80'
    >>> target_text(Target("cpu", vector_bytes=32))
    'cpu, 16 vectors of 32 bytes'

    The features of a processor are in it if the user gave them.
    """
    if target.arch:
        return f"{target.kind} {target.arch}"
    vectors = f"{target.vector_registers} vectors of {target.vector_bytes} bytes"
    return ", ".join([target.kind, vectors, *target.features])


def facts_of(text: str) -> Facts:
    """Return the facts of the target of a record, whose text :func:`target_text` made.

    >>> facts_of("cuda sm_80").needs_driver, facts_of("cpu, 16 vectors of 32 bytes").needs_driver
    (True, False)
    """
    name = text.partition(" ")[0].rstrip(",")
    return KINDS.get(name, Facts(name))


def machine_for(target: Target) -> str:
    """Return the name of the machine for ``target``: for ``"cuda"`` the GPU, or ``NO_GPU``.

    For ``"opencl"`` it is the device that pyopencl chooses. Raises
    :class:`~schedlang.errors.MissingExtraError` without pyopencl, and
    :class:`~schedlang.errors.CallError` without a device.
    """
    if target.facts.device == OPENCL:
        # other searches do without pyopencl
        from schedlang.targets.opencl.devices import default_queue

        return str(default_queue("a search").device.name)
    if not target.facts.needs_driver:
        return machine()
    try:
        cuda = nvidia.driver()
        if not cuda.is_available() or not len(cuda.gpus):
            return NO_GPU
        # not the current device: its context would lock out others on a GPU in exclusive mode
        name: Any = cuda.gpus[0].name
        return name.decode() if isinstance(name, bytes) else str(name)
    except SchedlangError:
        return NO_GPU


def canonical(data: Any) -> str:
    """Return JSON text that is equal for equal data."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False)
