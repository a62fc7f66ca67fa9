"""The nests of ``scalar_nests.c``: gcc compiles them at run time and says what it vectorizes."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).parent / "scalar_nests.c"
OPTIONS = ("-O3", "-march=native", "-ffp-contract=fast")
LOOP = re.compile(r"(\s*)for \(")
FUNCTION = re.compile(r"void (\w+)\(")
VECTORIZED = re.compile(r":(\d+):\d+: optimized: loop vectorized using (\d+) byte vectors")


@dataclass(frozen=True)
class Loops:
    """The compiled nests. ``vectorized`` says for each name which loops gcc vectorized.

    The value is ``"innermost"``, ``"outer"`` (at least one of them is not innermost) or ``"none"``.
    """

    library: ctypes.CDLL
    vectorized: Mapping[str, str]

    def call(self, name: str, arrays: list[Any]) -> Callable[[], object]:
        """Return a call of one nest on C-contiguous ``arrays``, which it keeps alive."""
        function = self.library[name]
        function.restype = None
        pointers = [ctypes.c_void_p(a.ctypes.data) for a in arrays]
        return lambda: function(*pointers)


def missing() -> str:
    """Return why gcc cannot be used, or an empty string."""
    return "" if shutil.which("gcc") else "gcc is not installed"


def compiled(sizes: Mapping[str, Mapping[str, int]], folder: Path) -> Loops:
    """Compile the nests at ``sizes``, by name, to a library in ``folder``.

    Raise ``subprocess.CalledProcessError`` if gcc does not compile them.
    """
    path = folder / "scalar_nests.so"
    defines = [f"-D{name}_{k}={v}" for name, own in sizes.items() for k, v in own.items()]
    done = subprocess.run(
        ["gcc", *OPTIONS, "-fopt-info-vec", "-shared", "-fPIC", *defines, str(SOURCE), "-o",
         str(path), "-lm"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    return Loops(ctypes.CDLL(str(path)), vectorized(SOURCE.read_text("utf-8"), done.stderr))


def vectorized(source: str, said: str) -> dict[str, str]:
    """Return which loops of each function in ``source`` gcc vectorized, from its messages."""
    lines = source.splitlines()
    inner = {k for k in range(len(lines)) if LOOP.match(lines[k]) and _is_innermost(lines, k)}
    places = {int(found[1]) - 1 for found in VECTORIZED.finditer(said)}
    result: dict[str, str] = {}
    name = ""
    for k, line in enumerate(lines):
        if opened := FUNCTION.match(line):
            name = opened[1]
            result[name] = "none"
        if k in places and result[name] != "outer":
            result[name] = "innermost" if k in inner else "outer"
    return result


def _is_innermost(lines: list[str], at: int) -> bool:
    """Return whether the loop at line ``at`` contains no other loop, judged by indentation."""
    own = _depth(lines[at])
    for line in lines[at + 1 :]:
        if _depth(line) <= own:
            return True
        if LOOP.match(line):
            return False
    return True


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())


__all__ = ["Loops", "compiled", "missing", "vectorized"]
