"""One process at a time compiles a file of the cache folder; the others load what it made."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from schedlang.runtime.locks import lock, unlock

# the largest kernels compile in half a minute; a process that is suspended may take for ever
PATIENCE = 60.0


@contextmanager
def one_process(source: Path) -> Iterator[None]:
    """Hold the lock of a source file while it is compiled, or its machine code is loaded.

    Whoever cannot open the file, or waits for a minute, goes on without the lock: to compile twice
    is slow, but right.
    """
    try:
        handle = os.open(source, os.O_RDONLY)
    except OSError:
        yield
        return
    try:
        lock(handle, alone=True, patience=PATIENCE)
        yield
    finally:
        # closing is not enough: a process that forked meanwhile has the handle, too
        unlock(handle)
        os.close(handle)


def compile_in_one_process(module: ModuleType, entry: str) -> None:
    """Let one process at a time compile the function ``entry`` of an emitted file, for numba."""
    dispatcher = getattr(module, entry)
    compile_now = dispatcher.compile

    def compile(kinds: Any) -> Any:  # noqa: A001
        with one_process(Path(str(module.__file__))):
            return compile_now(kinds)

    # numba's dispatcher calls the attribute of this name for types that it sees for the first time
    dispatcher.compile = compile
