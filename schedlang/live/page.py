"""The contents of a live page for one state, as JSON data and pieces of HTML."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from schedlang.analysis.cost import ScheduleCost, cost
from schedlang.counting.records import Counts
from schedlang.errors import SchedlangError, first_line
from schedlang.hints.meanings import MEANINGS
from schedlang.hints.next_steps import NextStep, predict_here, try_candidates
from schedlang.hints.refusals import refusals
from schedlang.hints.steps import Steps
from schedlang.ir.accesses import stores
from schedlang.ir.html import nest_html, nest_lines
from schedlang.ir.nest import Nest
from schedlang.ir.nodes import Buffer, For
from schedlang.ir.specialize import at_sizes
from schedlang.live.gpu import gpu_counters, gpu_estimate
from schedlang.live.history import State
from schedlang.live.measure import without_sizes
from schedlang.machine.lower import machine_nest
from schedlang.markup.name_table import NameTable
from schedlang.plot.borders import LINES, lines_of, runs
from schedlang.plot.limits import cut_text
from schedlang.plot.sheet import as_rows
from schedlang.plot.subject import Subject, subjects
from schedlang.plot.touches import Touches, touches
from schedlang.runtime.counted import counts_without_run
from schedlang.runtime.counted_call import Call
from schedlang.runtime.environment import cores_of
from schedlang.schedule.nest_diff import pair_lines
from schedlang.target import Target

# pictures: the runs of statements that are followed, the elements of a panel, and the panels
POINTS, ELEMENTS, PANELS = 2**18, 64 * 64, 3
# copies of unrolled loops up to which the nest that runs is counted
MOST_COPIES = 1 << 12
# the parts of a view after the nest, in their order
PARTS = ("picture", "counters", "steps", "places", "refused")
COLUMNS = ("loads", "stores", "scalar", "vector", "storage")


def failed_part(key: str, text: str) -> dict[str, Any]:
    """Return a part of a view that could not be made, with the reason."""
    empty: dict[str, Any] = {
        "picture": {"panels": [], "caption": text},
        "steps": [],
        "places": [],
        "refused": [],
    }
    return {key: empty[key], "why": text} if key in empty else _uncounted(text)


def nest_part(
    state: State,
    target: Target,
    sizes: Mapping[str, int],
    names: NameTable,
    notes: Sequence[str] = (),
) -> tuple[dict[str, Any], int]:
    """Return the code and the nest of a state, and how many names light up.

    The estimate is for ``sizes``, and guesses those that have no number.
    ``lines`` are the lines of the nest, for comparisons; ``names`` has the names of all of them.
    """
    nest = state.schedule.nest()
    own = NameTable()
    html = nest_html(nest, own)
    lines = nest_lines(nest, names)
    data: dict[str, Any] = {
        "code": state.code, "nest": html, "text": [text for text, _ in lines],
        "lines": [line for _, line in lines], "notes": list(notes),
    }  # fmt: skip
    try:
        guided = is_guided(target)
        sized = at_given(nest, sizes)
        seconds = predict_here(sized, target).seconds if guided else gpu_estimate(sized, target)
        data["estimate"] = seconds
    except SchedlangError as error:
        data["estimate"] = None
        data["notes"].append(first_line(error))
    return data, max(len(own), len(names))


def preview_lines(
    before: Sequence[str], nest: Nest, names: NameTable
) -> tuple[list[tuple[str, bool]], int]:
    """Return the lines of the nest after a step, each with whether it is new, and how many names.

    ``before`` are the lines of the nest before the step.
    """
    lines = nest_lines(nest, names)
    after = [text for text, _ in lines]
    new = {b for _, b, changed in pair_lines(before, after) if b is not None and changed}
    return [(html, k in new) for k, (_, html) in enumerate(lines)], len(names)


def picture_part(state: State, sizes: Mapping[str, int]) -> dict[str, Any]:
    """Return when each element of the output and of its operands is touched, as pictures."""
    call, left_out = "the picture", ""
    try:
        (subject,) = subjects(state.schedule, call, sizes)
        buffers = _shown(subject.nest)
        try:
            touched = _touched(subject, buffers, call)
        except SchedlangError as error:
            # the output alone, and why not its inputs
            touched, left_out = (
                _touched(subject, buffers[:1], call),
                f" Inputs: {first_line(error)}.",
            )
    except SchedlangError as error:
        return {"picture": {"panels": [], "caption": first_line(error)}}
    caption = (
        "The order in which elements are touched first, from dark to light. Each picture has a "
        "scale of its own, from its first element to its last."
    )
    if touched[0].parallel:
        caption += " Parallel loops are drawn as one thread runs them."
    cut = cut_text(touched[0].cut)
    return {
        "picture": {
            "panels": [_panel(one) for one in touched],
            "caption": f"{caption} {cut}".rstrip() + left_out,
        }
    }


def _touched(subject: Subject, buffers: list[str], call: str) -> list[Touches]:
    return touches(subject, buffers, "touch", call, POINTS, ELEMENTS, elements_first=True)


def _shown(nest: Nest) -> list[str]:
    """Return the buffers to draw: the output, then inputs."""
    inputs = [a.name for a in nest.args if isinstance(a, Buffer) and a not in nest.outputs]
    return [nest.outputs[-1].name, *inputs][:PANELS]


def _panel(one: Touches) -> dict[str, Any]:
    first = as_rows(one.first)
    rows, columns = first.shape
    # the time from the first touch to the last one of this buffer; 0 for elements without a touch
    touched = first[first >= 0]
    begin, length = (int(touched.min()), int(np.ptp(touched))) if touched.size else (0, 0)
    frames = np.where(first < 0, 0, 1 + (first - begin) * 254 // max(length, 1)).astype(np.uint8)
    paths = []
    for level, number in lines_of(one):
        grid = as_rows(level.iteration)
        path = "".join(f"M{at + 1} {a}V{b}" for at, a, b in runs(grid))
        path += "".join(f"M{a} {at + 1}H{b}" for at, a, b in runs(grid.T))
        paths.append({"loop": level.loop, "width": LINES[number][0], "path": path})
    return {
        "name": one.buffer, "rows": rows, "columns": columns, "steps": one.steps, "lines": paths,
        "begin": begin / max(one.steps, 1), "part": (length + 1) / max(one.steps, 1),
        "first": base64.b64encode(frames.tobytes()).decode("ascii"),
    }  # fmt: skip


def at_given(nest: Nest, sizes: Mapping[str, int]) -> Nest:
    """Return ``nest`` at ``sizes`` if these have a number for each of its sizes."""
    missing = [size for size in nest.sizes if size.name not in sizes]
    return at_sizes(nest, sizes) if sizes and not missing else nest


def counters_part(state: State, target: Target, sizes: Mapping[str, int]) -> dict[str, Any]:
    """Return the counts of the kernel by stage, as rows of a table, without running it.

    A nest for a GPU has counts by kernel.
    """
    try:
        nest = at_given(state.schedule.nest(), sizes)
        if not is_guided(target):
            return gpu_counters(nest, target)
        copies = sum(
            prod(_extent(loop) for loop in site.loops if loop.kind == "unroll")
            for site in stores(nest.body)
        )
        if copies > MOST_COPIES:
            return _uncounted(f"The unrolled loops make {copies:,} copies: too many to count here.")
        if nest.sizes:
            needed = without_sizes([size.name for size in nest.sizes])
            return _uncounted(f"Counts {needed}. sl.cost(s) has formulas.")
        machine = machine_nest(nest, target, "kernel", ())
        counts_of_kernel = counts_without_run(Call("kernel", nest, machine, (), {}))
        if counts_of_kernel is None:
            return _by_buffer(state)
    except SchedlangError as error:
        return _uncounted(first_line(error))
    rows = [_row(stage, counts) for stage, counts in counts_of_kernel.stages.items()]
    if len(rows) > 1:
        rows.append(_row("all", counts_of_kernel.total))
    return {
        "counters": {
            "columns": list(COLUMNS),
            "rows": rows,
            "what": "stage",
            "text": "Counts of one call, exact; a vector counts once. Storage in bytes.",
        }
    }


def _by_buffer(state: State) -> dict[str, Any]:
    """Return the elements that a nest with guards loads and stores, by buffer."""
    nest_cost = cost(state.schedule)
    assert isinstance(nest_cost, ScheduleCost)
    rows = [[b.name, *(int(n) for n in (b.loads, b.stores, b.bytes))] for b in nest_cost.buffers]
    note = " Some are upper bounds." if nest_cost.notes else ""
    columns = ["elements loaded", "elements stored", "bytes"]
    text = "From the loop nest, by sl.cost."
    return {"counters": {"columns": columns, "rows": rows, "what": "buffer", "text": text + note}}


def _uncounted(text: str) -> dict[str, Any]:
    return {"counters": {"columns": [], "rows": [], "what": "", "text": text}}


def _extent(loop: For) -> int:
    return loop.extent if isinstance(loop.extent, int) else 1


def _row(name: str, counts: Counts) -> list[Any]:
    return [name, counts.load_requests, counts.store_requests, counts.scalar, counts.vector,
            counts.peak_bytes]  # fmt: skip


def steps_tried(state: State, target: Target) -> Iterator[tuple[Steps, NextStep] | None]:
    """Yield each candidate of a state as it was tried, none if the state cannot be lowered."""
    if not is_guided(target):
        return
    try:
        yield from try_candidates(state.schedule, target)
    except SchedlangError:
        return


def steps_part(steps: Sequence[NextStep]) -> dict[str, Any]:
    """Return next steps, the most promising first, as the page lists them."""
    listed = [
        {
            "primitive": s.primitive,
            "stage": s.stage,
            "code": s.code,
            "speedup": s.speedup,
            "meaning": MEANINGS[s.primitive],
        }
        for s in steps
    ]
    return {"steps": listed}


def refused_part(state: State) -> dict[str, Any]:
    """Return the steps that a state refuses, with the reasons."""
    refused = refusals(state.schedule)
    return {
        "refused": [
            {"primitive": r.primitive, "stage": r.stage, "text": r.text, "message": r.message}
            for r in refused
        ]
    }


def is_guided(target: Target) -> bool:
    """Return whether the page knows next steps for a target: it does for CPUs."""
    return not target.facts.binds_threads


def build_text(target: Target) -> str:
    """Return the statement that builds the schedule ``s``."""
    if is_guided(target):
        return "f = sl.build(s)"
    return f'f = sl.build(s, target=sl.Target("{target.kind}", arch="{target.device.arch}"))'


def cores_text(target: Target) -> str:
    """Return the number of cores that estimates count on, in words, or the GPU."""
    if not is_guided(target):
        return target.device.arch
    number = cores_of(target)
    return f"{number} core{'s' * (number > 1)}"
