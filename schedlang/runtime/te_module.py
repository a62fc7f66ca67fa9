"""The methods of a built module in te: its timer, its name, its source."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from schedlang.errors import BuildError, explain
from schedlang.runtime.devices import device_or
from schedlang.runtime.paths import path_of


@dataclass(frozen=True)
class TimingResult:
    """Seconds of a call: ``results`` has the mean of each repeat."""

    results: tuple[float, ...]

    @property
    def mean(self) -> float:
        return float(np.mean(self.results))

    @property
    def median(self) -> float:
        return float(np.median(self.results))

    @property
    def min(self) -> float:
        return min(self.results)

    @property
    def max(self) -> float:
        return max(self.results)

    @property
    def std(self) -> float:
        return float(np.std(self.results))


class TeModule(ABC):
    """The attributes of te's built modules, for a class with ``name``, ``source`` and a call."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name of the kernel."""

    @property
    @abstractmethod
    def source(self) -> str:
        """The emitted Python source."""

    @abstractmethod
    def __call__(self, /, *args: Any, **named: Any) -> Any:
        """Run the kernel."""

    def timed_on(self, given: list[Any]) -> tuple[list[Any], Callable[[], object]]:
        """Return the arguments on the kernel's device, and a function that waits for the device.

        On a CPU the arguments are returned unchanged, and there is nothing to wait for.
        """
        return given, _no_wait

    @property
    def entry_name(self) -> str:
        """The name of the kernel's only function, for :meth:`time_evaluator`."""
        return self.name

    @property
    def imported_modules(self) -> list[Any]:
        """The device modules in te's sense: only the kernel itself."""
        return [self]

    def get_source(self, fmt: str = "") -> str:
        """Return the emitted Python source, or the PTX of a GPU kernel for ``fmt="ptx"``."""
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
        """Return the kernel itself, like te's ``module["function"]``."""
        if name not in (*self._names, "default_function", "main"):
            raise BuildError(
                f"kernel {self.name} has no function {name!r}; its only function is {self.name!r}"
            )
        return self

    @property
    def _names(self) -> tuple[str, ...]:
        return (self.name,)

    get_function = __getitem__

    def time_evaluator(
        self,
        func_name: str,
        dev: Any = None,
        number: int = 10,
        repeat: int = 1,
        min_repeat_ms: int = 0,
        ctx: Any = None,
        **te_options: Any,
    ) -> Callable[..., TimingResult]:
        """Return a function that times ``repeat`` rounds of ``number`` calls of the kernel.

        A first call warms up and is not timed. ``number`` grows until a round takes
        ``min_repeat_ms``. :func:`schedlang.evaluate` also gives rates, and fractions of the
        machine's ceilings.
        """
        function = self[func_name]
        device_or(dev, ctx, "time_evaluator")

        def evaluate(*args: Any) -> TimingResult:
            # te's arrays are wrappers: unwrap them here, outside the timing
            operands = [np.asarray(a) if hasattr(a, "__array_interface__") else a for a in args]
            operands, wait = function.timed_on(operands)
            function(*operands)
            wait()
            seconds = [
                _repeat(function, operands, number, min_repeat_ms, wait) for _ in range(repeat)
            ]
            return TimingResult(tuple(seconds))

        return evaluate

    def export_library(self, path: Any, **te_options: Any) -> None:
        """Write the kernel as a shared library, which ``tvm.runtime.load_module`` loads.

        ``path`` ends in ``.so``. This is ``save(path)``; te's options for its compiler are refused.
        """
        asked = f"export_library({str(path_of(path, 'export_library'))!r})"
        if unknown := {name: v for name, v in te_options.items() if v is not None}:
            raise BuildError(
                f"{asked}: it takes no {', '.join(unknown)}; set CC to the command of the compiler"
            )
        if not str(path).endswith(".so"):
            raise BuildError(
                f"{asked}: a library ends in .so; f.save writes .c, .o, .a and .py files"
            )
        self.save(path)

    def save(self, path: str | Path) -> Path:
        """Raise ``BuildError``: only kernels are saved."""
        raise BuildError(
            f"save({str(path)!r}): {self.name} was loaded from a file; copy that file"
        )


def _no_wait() -> None:
    """Do nothing: a kernel on a CPU has finished when the call returns."""


def _repeat(
    function: Callable[..., Any],
    args: list[Any],
    number: int,
    min_ms: int,
    wait: Callable[[], object],
) -> float:
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
