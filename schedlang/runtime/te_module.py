"""The parts of a built module that te programs use: its timer, its name, its source."""

from __future__ import annotations

import statistics
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from schedlang.errors import BuildError, explain


@dataclass(frozen=True)
class TimingResult:
    """Seconds a call: ``results`` holds one mean for each repeat."""

    results: tuple[float, ...]

    @property
    def mean(self) -> float:
        return statistics.fmean(self.results)

    @property
    def median(self) -> float:
        return statistics.median(self.results)

    @property
    def min(self) -> float:
        return min(self.results)

    @property
    def max(self) -> float:
        return max(self.results)

    @property
    def std(self) -> float:
        return statistics.pstdev(self.results)


class TeModule(ABC):
    """The attributes of te's built modules, for a class with ``name``, ``source`` and a call."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name of the kernel."""

    @property
    @abstractmethod
    def source(self) -> str:
        """The Python that was emitted for it."""

    @abstractmethod
    def __call__(self, *args: Any, **named: Any) -> Any:
        """Run it."""

    def timed_on(self, given: list[Any]) -> tuple[list[Any], Callable[[], object]]:
        """Return the arguments where the kernel runs, and the function that waits for it.

        A kernel on a CPU needs no waiting.
        """
        return given, _nothing

    @property
    def entry_name(self) -> str:
        """The name for :meth:`time_evaluator`: a kernel has one function."""
        return self.name

    @property
    def imported_modules(self) -> list[Any]:
        """te's device modules: here the kernel itself, whose ``get_source`` is what runs."""
        return [self]

    def get_source(self, fmt: str = "") -> str:
        """Return the emitted Python source, or another form that the kernel's target has
        (``"ptx"``)."""
        if fmt in ("", "py", "python"):
            return self.source
        if fmt == "ptx" and hasattr(self, "ptx"):
            return str(self.ptx)
        raise BuildError(
            explain(
                f"get_source({fmt!r})",
                "this kernel has no source in that format",
                "get_source() returns its Python source.",
            )
        )

    def __getitem__(self, name: str) -> Any:
        """Return the kernel itself, as te's ``module["function"]`` does."""
        if name not in (self.name, "default_function", "main"):
            raise BuildError(
                f"kernel {self.name} has no function {name!r}; its only function is {self.name!r}"
            )
        return self

    get_function = __getitem__

    def time_evaluator(
        self, func_name: str, dev: Any = None, number: int = 10, repeat: int = 1,
        min_repeat_ms: int = 0, **te_options: Any,
    ) -> Callable[..., TimingResult]:  # fmt: skip
        """Return a function that times ``repeat`` rounds of ``number`` calls of the kernel.

        One call before is not timed. ``number`` grows until a round takes ``min_repeat_ms``.
        :func:`schedlang.evaluate` says more: rates, and fractions of the machine's ceilings.
        """
        function = self[func_name]

        def evaluate(*args: Any) -> TimingResult:
            # te's arrays are wrappers: unwrapped once, so that the wrapping is not timed
            given = [np.asarray(a) if hasattr(a, "__array_interface__") else a for a in args]
            given, wait = function.timed_on(given)
            function(*given)
            wait()
            seconds = [_repeat(function, given, number, min_repeat_ms, wait) for _ in range(repeat)]
            return TimingResult(tuple(seconds))

        return evaluate

    def export_library(self, path: Any, **te_options: Any) -> None:
        """Raise ``BuildError``: a kernel is saved as Python."""
        raise BuildError(
            explain(
                f"export_library({str(path)!r})", "a kernel is Python, not a shared library",
                "Call f.save('k.py'): it writes a Python file that needs only numba and NumPy.",
            )
        )  # fmt: skip


def _nothing() -> None:
    """Do nothing: a kernel on a CPU is done when the call returns."""


def _repeat(
    function: Callable[..., Any], args: list[Any], number: int, min_ms: int,
    wait: Callable[[], object],
) -> float:  # fmt: skip
    count = max(1, number)
    while True:
        start = time.perf_counter()
        for _ in range(count):
            function(*args)
        wait()
        seconds = time.perf_counter() - start
        if seconds * 1e3 >= min_ms:
            return seconds / count
        count = max(2 * count, int(count * min_ms / max(seconds * 1e3, 1e-3)) + 1)
