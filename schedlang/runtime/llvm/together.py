"""Several processes compile the parts of one kernel, or the kernels that one call needs."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from threading import Lock
from types import TracebackType

from schedlang.machine.nest import MachineNest
from schedlang.runtime.cache_files import COMPILED, store
from schedlang.runtime.llvm.failures import explained
from schedlang.runtime.llvm.library import packed
from schedlang.runtime.llvm.parts import Whole
from schedlang.runtime.llvm.place import Compiled, Place
from schedlang.runtime.llvm.pool import Pool, Task
from schedlang.runtime.llvm.printed import submit_parts
from schedlang.runtime.llvm.unprintable import Unprintable
from schedlang.runtime.numba_internals import compiler_lock, machine_options
from schedlang.runtime.one_process import NO_PATIENCE, one_process


@dataclass(eq=False)
class _Kernel:
    """A kernel whose parts a pool compiles; ``held`` is its lock in the cache folder."""

    pool: Pool
    place: Place
    nest: MachineNest
    tasks: list[Task]
    held: ExitStack

    def code(self) -> bytes:
        """Wait for the machine code of the kernel."""
        with explained(self.place.subject, self.nest):
            return packed([self.pool.object_of(task) for task in self.tasks])

    def is_compiled(self) -> bool:
        return all(t.result.done() and t.result.exception() is None for t in self.tasks)


def _begin(pool: Pool, place: Place, whole: Whole, held: ExitStack) -> _Kernel:
    """Let a pool compile a kernel."""
    with explained(place.subject, whole.nest):
        tasks = submit_parts(pool, place.subject, whole, place.prefix, place.called)
    return _Kernel(pool, place, whole.nest, tasks, held)


def compile_alone(place: Place, nest: MachineNest) -> Compiled:
    """Return a kernel whose parts are compiled at once."""
    whole = Whole(nest)
    with Pool(len(whole.parts), machine_options(), len(whole.parts)) as pool:
        kernel = _begin(pool, place, whole, ExitStack())
        pool.take_part()
        code = kernel.code()
    store(COMPILED, place.path, code)
    return place.load(code)


class Together:
    """Kernels that one call needs, compiled while the ``with`` block prepares what else it needs.

    The cache folder has each of them as soon as it is compiled. The end of the block waits for the
    last one. ``most`` is the largest number of kernels; the module of a network is one kernel,
    which may have more parts.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._pool: Pool | None = None
        self._begun: dict[str, _Kernel] = {}
        # held by whoever stores a kernel
        self._storing = Lock()

    def __enter__(self) -> Together:
        return self

    def _started(self, whole: Whole) -> Pool:
        """Return the pool, which starts when the first kernel begins; that is ``whole``."""
        if self._pool is None:
            self._pool = Pool(max(self._most, len(whole.parts)), machine_options()).__enter__()
        return self._pool

    def add(self, place: Place) -> None:
        """Begin with a kernel, unless it is compiled or begun, or another process is at it.

        A kernel without a form in LLVM's code is left to numba.
        """
        if place.key in self._begun:
            return
        try:
            whole = Whole(place.subject.nest())
        except Unprintable:
            return
        with ExitStack() as held, compiler_lock():
            if not held.enter_context(one_process(place.subject.path, NO_PATIENCE)):
                return
            if place.known is not None or place.path.exists():
                # another thread or process has compiled it meanwhile
                return
            try:
                kernel = _begin(self._started(whole), place, whole, held)
            except Unprintable:
                return
            self._begun[place.key] = replace(kernel, held=held.pop_all())
        kernel = self._begun[place.key]
        for task in kernel.tasks:
            task.result.add_done_callback(lambda _: self._store(kernel))

    def _store(self, kernel: _Kernel) -> None:
        """Store a kernel whose last part is compiled, and let others load it."""
        with self._storing:
            if kernel.is_compiled():
                if not kernel.place.path.exists():
                    store(COMPILED, kernel.place.path, kernel.code())
                kernel.held.close()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if error is None and self._pool is not None:
                with compiler_lock():
                    self._pool.take_part()
                for kernel in self._begun.values():
                    code = kernel.code()
                    if not kernel.place.path.exists():
                        # this process has compiled what the end of another one left
                        store(COMPILED, kernel.place.path, code)
                    with compiler_lock():
                        if kernel.place.known is None:
                            kernel.place.load(code)
        finally:
            if self._pool is not None:
                self._pool.__exit__(None, None, None)
            for kernel in self._begun.values():
                kernel.held.close()
