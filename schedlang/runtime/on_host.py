"""A function of a file that a CPU runs, for kernels and for the modules of networks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from schedlang.markup.progress import Setting, tell, working
from schedlang.runtime import files, thread_safety
from schedlang.runtime.runner_of import runner_of
from schedlang.runtime.runners import Emitted
from schedlang.target_kinds import Facts

if TYPE_CHECKING:
    from schedlang.machine.nest import MachineNest
    from schedlang.runtime.llvm.library import Subject


class OnHost(ABC):
    """A kernel or a module, whose function a CPU runs.

    The function of its file is loaded when it is first needed, and again after a fork that leaves
    the threads of its parallel loops behind. ``what`` it is stands in messages. ``called`` and
    ``behind`` mean the same as in :meth:`~schedlang.runtime.runners.Runner.function_of`.
    ``compiler`` is one of the target's, empty for the default one. ``progress`` is false if no line
    says that it is being compiled.
    """

    progress: Setting = None

    def __init__(
        self,
        emitted: Emitted,
        facts: Facts,
        what: str = "kernel",
        called: Collection[str] = (),
        behind: Sequence[str] = (),
        compiler: str = "",
    ) -> None:
        self._emitted, self._what, self._called, self._behind = emitted, what, called, behind
        self._runner = runner_of(facts, compiler)
        self._loaded: Any = None
        self._lock: Lock | None = None
        self._start: Callable[..., None] | None = None

    @property
    def path(self) -> str:
        """The path of the file with the source: open it, set a breakpoint, profile it.

        The file is in the cache folder, named after the output and a hash of its content. To edit
        it, make a copy with ``save``: a file whose text differs is written again, with a
        :class:`~schedlang.errors.CacheWarning`.
        """
        return str(self._path)

    @cached_property
    def _path(self) -> Path:
        return self._written(self._emitted.text)

    def _written(self, text: str) -> Path:
        return files.write(text, self._emitted.public, self._runner.suffix)

    @property
    def _has_threads(self) -> bool:
        """True if loops run on threads."""
        return bool(self._emitted.serial_text) and self._runner.has_threads

    def _function(self) -> Any:
        """Return the function of the file."""
        if self._loaded is None:
            if self._has_threads:
                self._lock = thread_safety.guard()
                thread_safety.note_loaded(self)
                if thread_safety.left_behind():
                    thread_safety.warn_forked()
            self._loaded = self._runner.function_of(
                self._emitted, self._path_run, self._called, self._behind, self._machine
            )
        return self._loaded

    @property
    def _path_run(self) -> Path:
        """The path of the file that runs, which may have no threads."""
        if self._has_threads and thread_safety.left_behind():
            return self._written(self._emitted.serial_text)
        return self._path

    @property
    def subject(self) -> Subject | None:
        """The machine nest that LLVM is yet to compile, if it is the compiler."""
        if self._loaded is not None:
            return None
        return self._runner.subject(self._emitted, self._path_run, self._machine)

    @property
    @abstractmethod
    def machine_nest(self) -> MachineNest:
        """The machine nest, which the file is printed from."""

    def _machine(self) -> MachineNest:
        """Return the machine nest of the file that runs, which may have no threads."""
        if not (self._has_threads and thread_safety.left_behind()):
            return self.machine_nest
        from schedlang.machine.passes.serial import serial

        return serial(self.machine_nest)

    def _compile(self) -> None:
        with self._working("compiling") as phase:
            function = self._function()
            with self._runner.counting(phase, self._called):
                self._runner.compile(function, self._emitted.signature, self._behind)

    @contextmanager
    def _working(self, phase: str) -> Iterator[str]:
        with working(f"{self._what} {self._emitted.public}", self.progress):
            tell(phase)
            yield phase

    def _threads(self) -> Callable[[], int]:
        """Return a function that returns the greatest number of threads of a parallel loop."""
        if not self._has_threads or thread_safety.left_behind():
            return lambda: 1
        return self._runner.threads(self._emitted, self._path)

    def _starter(self) -> Callable[..., None]:
        """Return the callable that the first call starts; :meth:`_callable` is for later ones."""
        start = self._callable()
        if not self._runner.compiles_in_call():
            return start

        def first(*flat: Any) -> None:
            with self._working("first call, which compiles") as phase:
                with self._runner.counting(phase, self._called):
                    start(*flat)

        return first

    def _callable(self) -> Callable[..., None]:
        """Return the callable that calls start, which may not be compiled yet."""
        start = self._start
        if start is None:
            with self._working("compiling"):
                start = self._start = self._starting(self._function(), self._path)
        return start

    def _starting(self, function: Callable[..., None], path: Path) -> Callable[..., None]:
        """Return ``function``, of the file at ``path``, in a lock or in error handling."""
        name = self._emitted.public
        return self._runner.starting(function, self._what, name, path, self._lock)

    def forget_function(self) -> None:
        """Make the next call load the function again: after a fork it may be another one."""
        self._loaded = self._start = None
