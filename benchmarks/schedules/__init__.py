"""schedlang's schedules for the works of ``benchmarks/cpu.py``, in one module per family.

A function takes a work and a target. It returns the schedule and its tensors: the inputs in the
work's order, then the outputs::

    @scheduled("sgemm")
    def sgemm(work: Work, target: sl.Target) -> Made: ...

It is registered for kinds of work, or for single rows, which take precedence over kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import schedlang as sl
from benchmarks.works import Arrays, Work

Made = tuple[sl.Schedule, Sequence[sl.Tensor]]
MAIN = "schedlang"
# the main schedule, built for target="c"
IN_C = "schedlang in C"


@dataclass(frozen=True)
class Scheduled:
    """A registered function. ``ahead`` converts the work's inputs to the kernel's, untimed."""

    make: Callable[[Work, sl.Target], Made]
    label: str = MAIN
    ahead: Callable[[Arrays], Sequence[Any]] | None = None


_FOUND: dict[str, dict[str, Scheduled]] = {}


def scheduled(
    *names: str, label: str = MAIN, ahead: Callable[[Arrays], Sequence[Any]] | None = None
) -> Callable[[Callable[[Work, sl.Target], Made]], Callable[[Work, sl.Target], Made]]:
    """Register a function for these kinds or rows. Each ``label`` makes a row of the table."""

    def register(make: Callable[[Work, sl.Target], Made]) -> Callable[[Work, sl.Target], Made]:
        for name in names:
            _FOUND.setdefault(name, {})[label] = Scheduled(make, label, ahead)
        return make

    return register


def of(work: Work) -> dict[str, Scheduled]:
    """Return the schedules of a work, by label."""
    _load()
    return {**_FOUND.get(work.kind, {}), **_FOUND.get(work.name, {})}


@lru_cache(maxsize=1)
def _load() -> None:
    for module in iter_modules(__path__):
        import_module(f"{__name__}.{module.name}")


__all__ = ["IN_C", "MAIN", "Made", "Scheduled", "of", "scheduled"]
