"""The machine on which candidates run: this one, or the machine of an executor's workers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from concurrent.futures import Executor, TimeoutError
from dataclasses import asdict, dataclass
from typing import Any

from schedlang.autotune.record import NO_GPU, machine_for
from schedlang.autotune.runner.sandbox import PATIENCE
from schedlang.autotune.runner.task import target_data, target_from
from schedlang.autotune.text import one_line
from schedlang.errors import TuningError, first_line
from schedlang.runtime.environment import cores, threads, versions
from schedlang.target import Target

# the errors of a worker without schedlang, or with another version of it
OTHER_VERSION = (ImportError, AttributeError, KeyError, TypeError)
# how many times a worker is future to describe its machine, until one does
ASKED = 4


@dataclass(frozen=True)
class Machine:
    """A machine that measures candidates.

    * ``machine``: its name in the database.
    * ``cores``, ``threads``: its cores, and the threads of a parallel kernel.
    * ``memory``: its memory in bytes, 0 if unknown.
    * ``timed``: kernels for the target can be timed there.
    * ``versions``: the versions of the packages that kernels are made with there.
    """

    machine: str
    cores: int
    memory: int
    threads: int
    timed: bool
    versions: tuple[tuple[str, str], ...] = ()


def this_machine(target: Target) -> Machine:
    """Return this machine."""
    machine = machine_for(target)
    # the emulator's times say nothing of a GPU
    timed = machine != NO_GPU and target.facts.timing != "none"
    return Machine(machine, cores(), _memory(), threads(), timed, versions())


def machine_of_workers(executor: Executor, target: Target, patience: float = PATIENCE) -> Machine:
    """Return the machine of the workers; all are assumed to be like the first that answers."""
    first = None
    for left in reversed(range(ASKED)):
        try:
            future = executor.submit(_describe, target_data(target))
        except Exception as error:
            if left:
                continue
            raise TuningError(
                f"autotune: the executor accepts no jobs: {first_line(error)}"
            ) from None
        try:
            first = _machine_of(future.result(patience))
        except TimeoutError:
            future.cancel()
            raise TuningError(
                f"autotune: no worker of the executor has answered within {patience:g} s"
            ) from None
        except Exception as error:
            # another worker may answer
            if left:
                continue
            raise TuningError(
                "autotune: no worker of the executor describes its machine: "
                f"{first_line(error)}{needs(error)}"
            ) from None
        break
    assert first is not None
    mine, theirs = dict(versions())["schedlang"], dict(first.versions).get("schedlang")
    if mine != theirs:
        raise TuningError(
            f"autotune: the workers of the executor have schedlang {theirs}, but here it is "
            f"{mine}. Install the same version"
        )
    return first


def _machine_of(answer: Any) -> Machine:
    """Return the machine that a worker describes; raise an exception for an invalid answer."""
    machine = Machine(**{**answer, "versions": tuple((n, v) for n, v in answer["versions"])})
    counts = (machine.cores, machine.memory, machine.threads)
    if not isinstance(machine.machine, str) or not all(type(n) is int and n >= 0 for n in counts):
        raise TypeError(f"it answered {one_line(repr(answer))}")
    return machine


def needs(error: Exception) -> str:
    """Return the remedy for workers that fail with ``error``, or an empty text if unknown."""
    return ". Install this version of schedlang there" if isinstance(error, OTHER_VERSION) else ""


def _describe(target: Mapping[str, Any]) -> dict[str, Any]:
    """Return this machine as data; runs in a worker of an executor."""
    return asdict(this_machine(target_from(target)))


def _memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 0
