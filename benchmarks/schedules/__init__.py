"""schedlang's schedules for the work of ``benchmarks/cpu.py``: a module a family.

A schedule is a function of the work and the target that returns the schedule and its tensors,
inputs in the work's order, then outputs::

    @scheduled("sgemm")
    def sgemm(work: Work, target: sl.Target) -> Made: ...

The names are kinds of work, or the names of single rows, which come before kinds.
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


@dataclass(frozen=True)
class Scheduled:
    """A registered function. ``ahead`` makes the kernel's inputs of the work's, untimed."""

    make: Callable[[Work, sl.Target], Made]
    label: str = MAIN
    ahead: Callable[[Arrays], Sequence[Any]] | None = None


_FOUND: dict[str, dict[str, Scheduled]] = {}


def scheduled(
    *names: str, label: str = MAIN, ahead: Callable[[Arrays], Sequence[Any]] | None = None
) -> Callable[[Callable[[Work, sl.Target], Made]], Callable[[Work, sl.Target], Made]]:
    """Registers a function for these kinds or rows; another ``label`` is a row of its own."""

    def register(make: Callable[[Work, sl.Target], Made]) -> Callable[[Work, sl.Target], Made]:
        for name in names:
            _FOUND.setdefault(name, {})[label] = Scheduled(make, label, ahead)
        return make

    return register


def of(work: Work) -> dict[str, Scheduled]:
    """The schedules of a work, by label."""
    _load()
    return {**_FOUND.get(work.kind, {}), **_FOUND.get(work.name, {})}


@lru_cache(maxsize=1)
def _load() -> None:
    for module in iter_modules(__path__):
        import_module(f"{__name__}.{module.name}")


__all__ = ["MAIN", "Made", "Scheduled", "of", "scheduled"]
