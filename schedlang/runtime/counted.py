"""Counts and traces of a CPU kernel, by its machine nest with counters, compiled."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from types import ModuleType
from typing import Any

import numpy as np

from schedlang.counting.caches import (
    MOST_LEFT_OUT,
    Moved,
    addresses,
    cache_model,
    moved_lines,
    share,
)
from schedlang.counting.instrument import instrument
from schedlang.counting.probes.layout import REPORT
from schedlang.counting.records import Counts
from schedlang.counting.regions import Runs
from schedlang.counting.result import KernelCounts, LoopCounts
from schedlang.counting.rows import Instrumented
from schedlang.counting.source import counting_source, probe_source
from schedlang.counting.totals import Lines, Totals
from schedlang.counting.trace import Trace, log_model, trace_of
from schedlang.errors import CallError
from schedlang.expr.dtypes import itemsize
from schedlang.expr.nodes import Var
from schedlang.host import Cache, check_whole
from schedlang.index.linear import Lin
from schedlang.index.simplify import to_lin
from schedlang.ir.nest import Nest
from schedlang.machine.nest import MachineNest
from schedlang.machine.nodes import Array, For
from schedlang.machine.printer import Line, machine_lines
from schedlang.runtime import files
from schedlang.runtime.counted_call import MOST, Call
from schedlang.target import Target


def count_call(call: Call, caches: Sequence[Cache], most: int) -> KernelCounts:
    """Return the counts of ``call``, whose accesses go through ``caches``, if there are any.

    Up to ``most`` accesses the caches are exact; beyond, they simulate a share of the lines. Beyond
    32 times ``most`` they are left out, and the result says so. Raises
    :class:`~schedlang.errors.CallError` if ``most`` is not a positive whole number.
    """
    check_whole("counters", 1, most=most)
    counting = instrument(call.machine, False)
    tally = _tally(counting, call)
    if counting.counts:
        _run(counting, "", call, tally, None)
    lines: Lines = ()
    moved = Moved((), (), 0, 1)
    requests = _requests(counting, tally) if caches else 0
    too_many = requests > most * MOST_LEFT_OUT
    if caches and not too_many:
        reporting = instrument(call.machine, True)
        tally = _tally(reporting, call)
        model = cache_model(caches, len(reporting.sites), share(requests, most))
        _run(reporting, "caches", call, tally, model)
        moved, counting = moved_lines(model, len(reporting.sites)), reporting
        lines = moved.into
    totals = Totals(counting, Runs(counting.calls, tally), lambda a: _bytes(a, call), lines)
    rows = totals.rows()
    loops = tuple(
        LoopCounts(row.stmt.index.name, row.stage, counts)
        for row, counts in zip(counting.rows, rows)
        if isinstance(row.stmt, For)
    )
    return KernelCounts(
        call.name,
        totals.stages(),
        totals.total(),
        loops,
        _beside(call.machine, rows),
        () if too_many else tuple(caches),
        moved.written,
        moved.streamed,
        moved.sampled,
        requests if too_many else 0,
        call.functions,
    )


def counts_without_run(call: Call) -> KernelCounts | None:
    """Return the counts of ``call`` without running it, or ``None`` if they depend on a guard."""
    counting = instrument(call.machine, False)
    if counting.counts:
        return None
    totals = Totals(
        counting, Runs(counting.calls, _tally(counting, call)), lambda a: _bytes(a, call), ()
    )
    rows = totals.rows()
    return KernelCounts(
        call.name,
        totals.stages(),
        totals.total(),
        (),
        _beside(call.machine, rows),
        unknown=call.functions,
    )


def simulated_caches(caches: Any, target: Target, call: str = "counters") -> Sequence[Cache]:
    """Return the caches to simulate, as ``call`` is asked for them."""
    if caches is True or caches is False:
        return target.caches if caches else ()
    if not isinstance(caches, (list, tuple)) or not all(isinstance(c, Cache) for c in caches):
        raise CallError(
            f"{call}(..., caches={caches!r}): caches is True, False, or a list such as "
            "[Cache(32 * 1024, 8)] of schedlang.target.Cache, the first level first"
        )
    return caches


def trace(call: Call, most: int) -> Trace:
    """Return the accesses of ``call`` in order; runs of them are left out if there are too many.

    Raises :class:`~schedlang.errors.CallError` if ``most`` is not a positive whole number, or if
    the call makes so many accesses that a trace would take minutes.
    """
    check_whole("trace", 1, most=most)
    plain = instrument(call.machine, False)
    tally = _tally(plain, call)
    if plain.counts:
        _run(plain, "", call, tally, None)
    total = _events(plain, tally)
    if total > MOST * MOST_LEFT_OUT:
        raise CallError(
            f"trace of kernel {call.name}: a call makes up to {total:,} accesses, and a trace of "
            f"more than {MOST * MOST_LEFT_OUT:,} takes minutes; trace smaller arrays"
        )
    reporting = instrument(call.machine, True)
    tally = _tally(reporting, call)
    every = max(1, -(-total // most))
    model = log_model(total, every)
    _run(reporting, "log", call, tally, model)
    lines = machine_lines(call.machine.functions)
    starts = [k for k, line in enumerate(lines) if line.stmt is not None]
    places = {access: starts[k] for k, row in enumerate(reporting.rows) for access in row.accesses}
    return trace_of(
        model,
        reporting,
        tally,
        [places[a] for a in reporting.sites],
        tuple(line.text for line in lines),
        every,
    )


def _run(
    instrumented: Instrumented, probe: str, call: Call, tally: np.ndarray, model: np.ndarray | None
) -> None:
    """Run the instrumented kernel: it fills ``tally`` and ``model``."""
    module = probe_module(probe).__name__ if probe else ""
    path = files.write(counting_source(instrumented, module), f"{call.name}_counted")
    entry = instrumented.nest.entry.name
    function = call.started(getattr(files.load_kernel(path, entry), entry))
    function(*call.flat, tally, *([] if model is None else [model]))


def probe_module(probe: str) -> ModuleType:
    """Return the module of a probe, whose ``report`` has machine code."""
    module = files.load_kernel(files.write(probe_source(probe), probe), "report")
    from schedlang.runtime.numba_internals import compiler_lock

    with compiler_lock():
        if not module.report.signatures:
            module.report.compile(REPORT)
            # numba would compile it again for each constant that a kernel gives it
            module.report.disable_compile()
    return module


def _tally(instrumented: Instrumented, call: Call) -> np.ndarray:
    """Return a tally without counts, with the address of each array, int64."""
    arguments = instrumented.original.entry.parameters
    sizes = [(_bytes(array, call), array in arguments) for array in instrumented.bases]
    # arguments first, in their order
    order = sorted(range(len(sizes)), key=lambda k: not sizes[k][1])
    tally = np.zeros(instrumented.cells, np.int64)
    cells = list(instrumented.bases.values())
    for k, at in zip(order, addresses([sizes[k] for k in order])):
        tally[cells[k]] = at
    return tally


def _bytes(array: Array, call: Call) -> int:
    buffer = array.buffer
    if buffer.size is not None:
        return max(buffer.size, 1) * itemsize(buffer.dtype)
    numbers = {v: Lin.of(call.sizes[v.name]) for v in _sizes(call.nest) if v.name in call.sizes}
    extents = [to_lin(e, numbers).const for e in buffer.shape]
    return prod(0 if e is None else max(e, 0) for e in extents) * itemsize(buffer.dtype)


def _sizes(nest: Nest) -> list[Var]:
    return [*nest.sizes, *(a for a in nest.args if isinstance(a, Var) and a.is_size)]


def _requests(instrumented: Instrumented, tally: np.ndarray) -> int:
    """Return the number of loads, stores and prefetches of a call, a vector being one."""
    runs = Runs(instrumented.calls, tally)
    return sum(runs(a.region) * (a.elements if a.opaque else 1) for a in instrumented.sites)


def _events(instrumented: Instrumented, tally: np.ndarray) -> int:
    """Return at least as many events as a trace of a call has: one a lane, if lanes are apart."""
    runs = Runs(instrumented.calls, tally)
    return sum(runs(access.region) * access.elements for access in instrumented.sites)


def _beside(machine: MachineNest, rows: Sequence[Counts]) -> tuple[tuple[Line, Counts | None], ...]:
    """Return the lines of a machine nest, each with the counts of its statement."""
    counts = iter(rows)
    return tuple(
        (line, None if line.stmt is None else next(counts))
        for line in machine_lines(machine.functions)
    )
