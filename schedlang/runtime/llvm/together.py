"""Several processes compile the parts of one kernel, or the kernels that one call needs."""

from __future__ import annotations

from contextlib import ExitStack
from types import TracebackType
from typing import NamedTuple

from schedlang.machine.nest import MachineNest
from schedlang.runtime.cache_files import COMPILED, store
from schedlang.runtime.llvm.failures import explained
from schedlang.runtime.llvm.library import packed
from schedlang.runtime.llvm.parts import Whole
from schedlang.runtime.llvm.place import Compiled, Place
from schedlang.runtime.llvm.pool import Pool, Task
from schedlang.runtime.llvm.printed import submitted
from schedlang.runtime.llvm.unprintable import Unprintable
from schedlang.runtime.numba_internals import global_compiler_lock, machine_options
from schedlang.runtime.one_process import NO_PATIENCE, one_process


class _Begun(NamedTuple):
    """A kernel whose parts a pool compiles."""

    place: Place
    nest: MachineNest
    tasks: list[Task]


def _begun(pool: Pool, place: Place, whole: Whole) -> _Begun:
    """Let a pool compile a kernel."""
    with explained(place.subject, whole.nest):
        tasks = submitted(pool, place.subject, whole, place.prefix, place.called)
    return _Begun(place, whole.nest, tasks)


def _ended(pool: Pool, begun: _Begun) -> Compiled:
    """Return a kernel that a pool compiled, and keep its machine code."""
    place, nest, tasks = begun
    with explained(place.subject, nest):
        code = packed([pool.object_of(task) for task in tasks])
    store(COMPILED, place.path, code)
    return place.load(code)


def compile_alone(place: Place, nest: MachineNest) -> Compiled:
    """Return a kernel whose parts are compiled at once."""
    whole = Whole(nest)
    with Pool(len(whole.parts), machine_options()) as pool:
        begun = _begun(pool, place, whole)
        pool.take_part()
        return _ended(pool, begun)


class Together:
    """Kernels that one call needs: each is compiled while the next ones are being scheduled.

    The end of the ``with`` block waits for them. ``most`` is the number of kernels at most.
    """

    def __init__(self, most: int) -> None:
        self._pool = Pool(most, machine_options())
        # the pool, and the locks of the kernels that it compiles
        self._held = ExitStack()
        self._begun: dict[str, _Begun] = {}

    def __enter__(self) -> Together:
        self._held.enter_context(self._pool)
        return self

    def add(self, place: Place) -> None:
        """Begin with a kernel, unless an equal one is begun, or another process is at it.

        What has no form in LLVM's code is left to numba.
        """
        if place.key in self._begun:
            return
        with ExitStack() as held, global_compiler_lock:
            if not held.enter_context(one_process(place.subject.path, NO_PATIENCE)):
                return
            try:
                whole = Whole(place.subject.nest())
                self._begun[place.key] = _begun(self._pool, place, whole)
            except Unprintable:
                return
            self._held.push(held.pop_all())

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self._held:
            if error is None:
                with global_compiler_lock:
                    self._pool.take_part()
                    for begun in self._begun.values():
                        _ended(self._pool, begun)
