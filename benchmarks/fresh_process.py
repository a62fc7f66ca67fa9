"""The cost of a new process: its first call, its memory, and the allocations of later calls.

    python -m benchmarks.fresh_process build|first IMPLEMENTATION WORK

``build`` compiles a network and writes what ``first`` loads. Both print facts as one line of JSON.
``first`` starts where the process has loaded NumPy and its input. Its facts are

* ``first_seconds``: from there to the first result, of which ``import_seconds`` are for the
  libraries, and ``load_seconds`` for the network;
* ``peak_bytes``: the most memory that the process had during that and further calls (``CALLS``
  or, of slow ones, fewer), above what it had at its start;
* ``calls_bytes``: the most during the further calls, above what it had with the libraries alone;
* ``allocations``, ``allocated_bytes``: of one further call;
* ``kernels``: the kernels that a call runs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.peers import allocations, networks
from benchmarks.works import ALL, Work

CALLS = 5
STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
ROOT = Path(__file__).parent.parent


class Failed(Exception):
    """The reason why the process has no facts, in one line."""


def ask(
    what: str, implementation: str, work: Work, env: Mapping[str, str], log: Path, timeout: float
) -> dict[str, Any]:
    """Return the facts of a new process. Raise :class:`Failed` if it fails or takes too long."""
    command = [sys.executable, "-m", "benchmarks.fresh_process", what, implementation, work.name]
    with log.open("ab") as errors:
        try:
            done = subprocess.run(
                command, env=dict(env), cwd=ROOT, stdout=subprocess.PIPE, stderr=errors,
                timeout=timeout, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise Failed(f"its {what} takes more than {timeout:.0f} s") from None
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        raise Failed(f"its {what} died, see {log}")
    facts: dict[str, Any] = json.loads(lines[-1])
    if "failed" in facts:
        raise Failed(facts["failed"])
    return facts


def first(implementation: str, work: Work) -> dict[str, Any]:
    """Load a network that was built before, call it, and return the facts."""
    x = work.arrays()["x"]
    started, at_start = perf_counter(), resident("VmRSS")
    networks.import_libraries(implementation, work)
    imported, with_libraries = perf_counter(), resident("VmRSS")
    network = networks.load(implementation, work)
    loaded = perf_counter()
    network.call(x)
    ended, peak = perf_counter(), resident("VmHWM")
    cleared = forget_peak()
    network.repeat(x, CALLS)
    of_calls = resident("VmHWM") if cleared else None
    facts: dict[str, Any] = {
        "import_seconds": imported - started, "load_seconds": loaded - imported,
        "first_seconds": ended - started,
    }  # fmt: skip
    if peak is not None and at_start is not None:
        facts["peak_bytes"] = max(peak, of_calls or 0) - at_start
    if of_calls is not None and with_libraries is not None:
        facts["calls_bytes"] = of_calls - with_libraries
    before = allocations.counted()
    calls = network.repeat(x, CALLS)
    after = allocations.counted()
    if before is not None and after is not None:
        made = after.since(before)
        facts["allocations"] = made.count / calls
        facts["allocated_bytes"] = made.bytes / calls
    if network.kernels is not None:
        facts["kernels"] = network.kernels()
    return facts


def build(implementation: str, work: Work) -> dict[str, Any]:
    from benchmarks.peers import network_models

    return network_models.facts(work) | networks.build(implementation, work)


def resident(field: str) -> int | None:
    """Return the bytes of a field of ``/proc/self/status``: ``VmRSS``, or its peak ``VmHWM``."""
    if not STATUS.exists():
        return None
    for line in STATUS.read_text(encoding="ascii").splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    return None


def forget_peak() -> bool:
    """Let ``VmHWM`` start again from ``VmRSS``. Return whether the system can do so."""
    try:
        CLEAR.write_text("5", encoding="ascii")
    except OSError:
        return False
    return True


def run(what: str, implementation: str, work: str) -> None:
    answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
    # what libraries print goes to the log
    os.dup2(2, 1)
    try:
        facts = {"build": build, "first": first}[what](implementation, ALL[work])
    except Exception as error:
        print(f"{implementation}, {work}: {error!r}", file=sys.stderr, flush=True)
        facts = {"failed": f"{type(error).__name__}: {error}".splitlines()[0][:120]}
    answer.write(json.dumps(facts) + "\n")
    answer.flush()


if __name__ == "__main__":
    run(*sys.argv[1:])
