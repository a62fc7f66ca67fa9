"""te's ``tvm.contrib.cc``: shared libraries of C, by the system's compiler."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from schedlang.errors import BuildError, explain
from schedlang.runtime.c_library import compiler, host_name
from schedlang.runtime.c_program import MARK, sealed

SECONDS = 120


def get_cc() -> str:
    """Return the command of the C compiler: ``CC`` of the environment, or the one on the path.

    Raise :class:`~schedlang.errors.BuildError` if there is none.
    """
    return shlex.join(compiler())


def create_shared(output: Any, objects: Any, options: Any = None, cc: Any = None) -> None:
    """Compile C sources and objects to the shared library ``output``.

    ``objects`` is a path, or a list of them, ``options`` are more options of the command, and
    ``cc`` is the command. ``tvm.runtime.load_module`` loads a library of a kernel's object file,
    which ``f.save("k.o")`` wrote. Raise :class:`~schedlang.errors.BuildError` if it fails.
    """
    given: Sequence[Any] = objects if isinstance(objects, (list, tuple)) else [objects]
    command = shlex.split(cc) if cc else compiler()
    more = [options] if isinstance(options, str) else [*(options or ())]
    line = [*command, "-shared", "-fPIC", *more, "-o", str(output), *map(str, given)]
    run("tvm.contrib.cc.create_shared", line)
    library = Path(output)
    content = library.read_bytes()
    if MARK.encode() in content:
        library.write_bytes(sealed(content, host_name()))


def run(asked: str, line: Sequence[str]) -> None:
    """Run a compiler's command; raise :class:`~schedlang.errors.BuildError` if it fails."""
    try:
        done = subprocess.run(line, capture_output=True, text=True, timeout=SECONDS)
    except OSError as error:
        raise BuildError(
            explain(asked, f"{line[0]} does not run ({error.strerror})", "Give another command.")
        ) from None
    except subprocess.TimeoutExpired:
        raise BuildError(f"{asked}: {line[0]} takes longer than {SECONDS} s") from None
    if done.returncode:
        said = done.stderr.strip()
        first = next((text for text in said.splitlines() if "error" in text), said)
        raise BuildError(explain(asked, f"{line[0]} fails", first))


__all__ = ["create_shared", "get_cc"]
