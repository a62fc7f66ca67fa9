"""Where candidates run: this machine, or what a worker of an executor says of its own."""

from __future__ import annotations

import os
from collections.abc import Mapping
from concurrent.futures import Executor, TimeoutError
from dataclasses import asdict, dataclass
from typing import Any

from schedlang.autotune.record import NO_GPU, cores, machine_for, threads, versions
from schedlang.autotune.runner.sandbox import PATIENCE
from schedlang.autotune.runner.task import target_data, target_from
from schedlang.autotune.text import one_line
from schedlang.errors import TuningError, first_line
from schedlang.target import Target

# what a worker without schedlang fails by, or what the answer of another version does
OTHER_VERSION = (ImportError, AttributeError, KeyError, TypeError)
# workers that are asked what they run on, one after the other, while none says it
ASKED = 4


@dataclass(frozen=True)
class Site:
    """A machine that measures: its name in the database, its cores, its memory in bytes, and how
    many threads a parallel kernel has.

    ``timed`` tells whether kernels for the target can be timed there; ``memory`` is 0 where the
    system does not say; ``versions`` are those that kernels are made with there.
    """

    machine: str
    cores: int
    memory: int
    threads: int
    timed: bool
    versions: tuple[tuple[str, str], ...] = ()


def here(target: Target) -> Site:
    """Return this machine."""
    machine = machine_for(target)
    # the emulator's time is no GPU's
    timed = machine != NO_GPU if target.kind == "cuda" else not target.is_gpu
    return Site(machine, cores(), _memory(), threads(), timed, versions())


def of_workers(executor: Executor, target: Target, patience: float = PATIENCE) -> Site:
    """Return the machine of the workers; all are taken to be like the first one that answers."""
    found = None
    for left in reversed(range(ASKED)):
        try:
            asked = executor.submit(_there, target_data(target))
        except Exception as error:
            if left:
                continue
            raise TuningError(
                f"autotune: the executor accepts no jobs: {first_line(error)}"
            ) from None
        try:
            found = _site_of(asked.result(patience))
        except TimeoutError:
            asked.cancel()
            raise TuningError(
                f"autotune: no worker of the executor has answered within {patience:g} s"
            ) from None
        except Exception as error:
            # another one may
            if left:
                continue
            raise TuningError(
                "autotune: no worker of the executor describes its machine: "
                f"{first_line(error)}{needs(error)}"
            ) from None
        break
    assert found is not None
    mine, theirs = dict(versions())["schedlang"], dict(found.versions).get("schedlang")
    if mine != theirs:
        raise TuningError(
            f"autotune: the workers of the executor have schedlang {theirs}, but here it is "
            f"{mine}. Install the same version"
        )
    return found


def _site_of(answer: Any) -> Site:
    """Return what a worker says of its machine; an exception where it says anything else."""
    found = Site(**{**answer, "versions": tuple((n, v) for n, v in answer["versions"])})
    counts = (found.cores, found.memory, found.threads)
    if not isinstance(found.machine, str) or not all(type(n) is int and n >= 0 for n in counts):
        raise TypeError(f"it answered {one_line(repr(answer))}")
    return found


def needs(error: Exception) -> str:
    """Return what workers need that fail by ``error``, as the end of a message; nothing if
    unknown."""
    return ". Install this version of schedlang there" if isinstance(error, OTHER_VERSION) else ""


def _there(target: Mapping[str, Any]) -> dict[str, Any]:
    """Run :func:`here` in a worker of an executor."""
    return asdict(here(target_from(target)))


def _memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 0


__all__ = ["Site", "here", "of_workers"]
