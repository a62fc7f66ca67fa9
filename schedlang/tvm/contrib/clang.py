"""te's ``tvm.contrib.clang``: LLVM's code of C source, by the system's Clang."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from schedlang.errors import BuildError, explain

SECONDS = 120


def find_clang(required: bool = True) -> list[str]:
    """Return the commands of Clang on the path, the plain name first.

    Raise :class:`~schedlang.errors.BuildError` if there is none and one is ``required``.
    """
    names = ["clang", *(f"clang-{version}" for version in range(25, 12, -1))]
    commands = [path for name in names if (path := shutil.which(name))]
    if not commands and required:
        raise BuildError(
            explain(
                "tvm.contrib.clang",
                "there is no clang on the path",
                'Install Clang, or give the C source itself: s[C].pragma(axis, "import_c", '
                "source), which GCC compiles, too.",
            )
        )
    return commands


def create_llvm(inputs: Any, output: Any = None, options: Any = None, cc: Any = None) -> str:
    """Return LLVM's code of C++ source, for the pragma ``import_llvm``.

    ``inputs`` is a source, or a list of them. ``output`` is a path that the code is written to as
    well, ``options`` are more options of the command, and ``cc`` is the command of Clang. Raise
    :class:`~schedlang.errors.BuildError` if there is no Clang, or if it refuses the source.
    """
    command = cc or find_clang()[0]
    sources: Sequence[str] = [inputs] if isinstance(inputs, str) else [*inputs]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        paths = []
        for k, source in enumerate(sources):
            paths.append(Path(folder) / f"input{k}.cc")
            paths[-1].write_text(source, encoding="utf-8")
        written = Path(folder) / "output.ll"
        line = [command, "-O3", "-emit-llvm", "-S", *(options or ()), "-o", str(written)]
        try:
            done = subprocess.run(
                [*line, *map(str, paths)], capture_output=True, text=True, timeout=SECONDS
            )
        except OSError as error:
            raise BuildError(
                f"tvm.contrib.clang: {command} does not run ({error.strerror}); give cc= a command"
            ) from None
        if done.returncode:
            said = done.stderr.strip()
            first = next((text for text in said.splitlines() if "error:" in text), said)
            raise BuildError(explain("tvm.contrib.clang.create_llvm", f"{command} fails", first))
        code = written.read_text(encoding="utf-8")
    if output is not None:
        Path(output).write_text(code, encoding="utf-8")
    return code


__all__ = ["create_llvm", "find_clang"]
