"""The text of an instrumented kernel's file: its imports, and the functions of the nest."""

from __future__ import annotations

import hashlib
from pathlib import Path

from schedlang.codegen.listing import Listing, join_parts, plain
from schedlang.codegen.numba_cpu import source_of
from schedlang.codegen.numba_file import imports
from schedlang.counting import probes
from schedlang.counting.rows import Instrumented
from schedlang.machine.nest import MachineNest

OPTIONS = 'cache=True, nogil=True, error_model="numpy", fastmath={"contract"}'
PROBES = Path(probes.__file__).parent


def counting_source(instrumented: Instrumented, module: str = "") -> str:
    """Return the file of a nest that counts; ``module`` has the ``report`` that it calls.

    The entry takes the same flat arrays as the kernel's entry, then the tally, then the probe's
    model.
    """
    functions = [f for f in instrumented.nest.functions if f.name != instrumented.probe]
    source = source_of(MachineNest(tuple(functions)), "")
    parts = [f"{imports(source, True)}\n"]
    if instrumented.probe:
        parts.append(f"from {module} import report as {instrumented.probe}\n")
    parts.append(f"OPTIONS = dict({OPTIONS})")
    head = [line for part in parts for line in plain(part)]
    return Listing(tuple(join_parts([head, *source.definitions, *source.functions], 2))).text


def probe_source(probe: str) -> str:
    """Return the text of the probe ``"caches"`` or ``"log"``, and a hash of what it imports.

    A copy of it is compiled once. Its name changes with its text, and so does the name of the
    kernels that numba compiles it into.
    """
    texts = [(PROBES / f"{name}.py").read_bytes() for name in (probe, "layout", "apart")]
    key = hashlib.sha256(b"".join(texts)).hexdigest()[:12]
    return f"{texts[0].decode('utf-8')}# {key}\n"
