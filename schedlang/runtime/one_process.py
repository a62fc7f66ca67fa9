"""One process at a time compiles a file of the cache folder; the others load what it made."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from schedlang.runtime.locks import FIRST_PAUSE, lock, unlock

# the largest kernels compile in half a minute; a process that is suspended may take for ever
PATIENCE = 60.0
# seconds for whoever does something else if another process is at the file
NO_PATIENCE = FIRST_PAUSE


@contextmanager
def one_process(source: Path, patience: float = PATIENCE) -> Iterator[bool]:
    """Hold the lock of a source file while it is compiled, or its machine code is loaded.

    Whoever cannot open the file, or waits for ``patience`` seconds, goes on without the lock: to
    compile twice is slow, but right. The value is false for whoever waited in vain.
    """
    try:
        handle = os.open(source, os.O_RDONLY)
    except OSError:
        yield True
        return
    try:
        yield lock(handle, alone=True, patience=patience)
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
