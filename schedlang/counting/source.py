"""The text of an instrumented kernel's file: probes, then the functions of the nest."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path

from schedlang.codegen.numba_cpu import source_of
from schedlang.codegen.numba_file import imports
from schedlang.counting import probes
from schedlang.counting.instrument import Instrumented
from schedlang.errors import BuildError
from schedlang.machine.nest import MachineNest

FOLDER = Path(probes.__file__).parent


def counting_source(made: Instrumented, probe: str, fastmath: bool = False) -> str:
    """Return the file of a nest that counts; ``probe`` is what ``report`` does.

    It is ``"caches"`` or ``"log"``. The entry takes flat arrays as the kernel's does, then the
    tally, then the model of the probe.
    """
    functions = [f for f in made.nest.functions if f.name not in made.reports.values()]
    texts = [*_texts(probe), *_texts("lanes")] if made.reports else []
    _check_names([f.name for f in functions], texts)
    source = source_of(MachineNest(tuple(functions)), "")
    flags = "True" if fastmath else '{"contract"}'
    options = f'OPTIONS = dict(cache=True, nogil=True, error_model="numpy", fastmath={flags})'
    text = f"{imports(source, True)}\n\n{options}\n"
    parts = [text]
    if made.reports:
        parts += texts
        parts += [f"{new} = {old}" for old, new in made.reports.items() if new != old]
    return "\n\n".join([*parts, *source.functions]) + "\n"


def _texts(module: str) -> Sequence[str]:
    """Return the constants and functions of a module of probes, the functions compiled."""
    text = (FOLDER / f"{module}.py").read_text(encoding="utf-8")
    found = []
    for node in ast.parse(text).body:
        segment = ast.get_source_segment(text, node) or ""
        if isinstance(node, ast.FunctionDef):
            found.append(f"@njit(**OPTIONS)\n{segment}")
        elif isinstance(node, ast.Assign):
            found.append(segment)
    return found


def _check_names(functions: Sequence[str], texts: Sequence[str]) -> None:
    """Raise if a function of the nest has the name of a probe."""
    defined = {text.split("def ")[1].split("(")[0] for text in texts if "def " in text}
    for name in functions:
        if name in defined:
            raise BuildError(
                f"counters: a function of this kernel is called {name}, as one of the probes that "
                "count is; give the stage or its axis another name"
            )


__all__ = ["counting_source"]
