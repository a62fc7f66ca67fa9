"""The requests of warps and the occupancy that a schedule would have, counted without a GPU."""

from __future__ import annotations

from math import prod
from typing import Any

from schedlang.autotune.costs.estimate_gpu import estimate_gpu, occupancy
from schedlang.diagnostics.sites import extent_of
from schedlang.errors import SchedlangError, first_line
from schedlang.gpu_lowering.lower import device_program
from schedlang.gpu_lowering.memory_requests import count_requests, depends_on_data
from schedlang.ir.accesses import stores
from schedlang.ir.nest import Nest
from schedlang.live.measure import without_sizes
from schedlang.target import Target

COLUMNS = (
    "requests", "sectors", "per request", "shared", "bank conflicts", "barriers", "occupancy",
)  # fmt: skip
# why the page measures nothing, and why it lists no steps
UNTIMED = "Kernels for a GPU are counted here, not timed."
# runs of statements that are followed; a product of 1024**3 takes 110 s, in which the page waits
MOST_RUNS = 1 << 25
UNGUIDED = (
    "The page knows next steps for CPUs. For a GPU, edit the schedule: the counts say what it "
    "does. sl.autotune(..., target=...) searches for one."
)


def gpu_estimate(nest: Nest, target: Target) -> float:
    """Return the estimated seconds of a nest on a GPU."""
    return estimate_gpu(device_program(nest, target), target).seconds


def gpu_counters(nest: Nest, target: Target) -> dict[str, Any]:
    """Return the requests of the kernels of a nest by kernel, as rows of a table."""
    try:
        program = device_program(nest, target)
    except SchedlangError as error:
        return _uncounted(first_line(error))
    if nest.sizes:
        return _uncounted(f"Counts {without_sizes([size.name for size in nest.sizes])}.")
    runs = sum(prod(extent_of(loop) for loop in site.loops) for site in stores(nest.body))
    if runs > MOST_RUNS:
        return _uncounted(
            f"{runs:,} runs of statements take too long to follow here: try a smaller size."
        )
    if depends_on_data(program):
        return _uncounted("The requests depend on data: call f.counters(...) of a built kernel.")
    ledgers = count_requests(program, {})
    rows = []
    for launch in program.launches:
        counts = ledgers[launch.name].total
        rows.append([
            launch.name, counts.global_loads + counts.global_stores,
            counts.global_load_sectors + counts.global_store_sectors,
            round(counts.sectors_per_request, 2), counts.shared_loads + counts.shared_stores,
            counts.bank_conflicts, counts.barriers, f"{occupancy(launch, target):.0%}",
        ])  # fmt: skip
    text = (
        "Requests of warps to global and shared memory, exact, and the sectors of 32 bytes that "
        "those to global memory move. Occupancy by threads, shared memory and estimated registers "
        f"of {target.device.arch}."
    )
    return {"counters": {"columns": list(COLUMNS), "rows": rows, "what": "kernel", "text": text}}


def _uncounted(text: str) -> dict[str, Any]:
    return {"counters": {"columns": [], "rows": [], "what": "", "text": text}}
