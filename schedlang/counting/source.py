"""The text of an instrumented kernel's file: its imports, and the functions of the nest."""

from __future__ import annotations

import hashlib
from pathlib import Path

from schedlang.codegen.numba_cpu import source_of
from schedlang.codegen.numba_file import imports
from schedlang.counting import probes
from schedlang.counting.instrument import Instrumented
from schedlang.machine.nest import MachineNest

OPTIONS = 'cache=True, nogil=True, error_model="numpy", fastmath={"contract"}'
PROBES = Path(probes.__file__).parent


def counting_source(made: Instrumented, probe: str = "") -> str:
    """Return the file of a nest that counts; ``probe`` is the module whose ``report`` it calls.

    That is ``"caches"`` or ``"log"``. The entry takes flat arrays as the kernel's does, then the
    tally, then the model of the probe.
    """
    functions = [f for f in made.nest.functions if f.name != made.probe]
    source = source_of(MachineNest(tuple(functions)), "")
    parts = [f"{imports(source, True)}\n"]
    if made.probe:
        module = f"{probes.__name__}.{probe}"
        # numba compiles the probe into the kernel, whose name must change with the probe's text
        parts.append(f"from {module} import report as {made.probe}  # {_key(probe)}\n")
    parts.append(f"OPTIONS = dict({OPTIONS})\n")
    return "\n".join(parts) + "\n\n" + "\n\n\n".join(source.functions) + "\n"


def _key(probe: str) -> str:
    """Return a hash of the text of a probe."""
    texts = ((PROBES / f"{name}.py").read_bytes() for name in (probe, "layout"))
    return hashlib.sha256(b"".join(texts)).hexdigest()[:12]


__all__ = ["counting_source"]
