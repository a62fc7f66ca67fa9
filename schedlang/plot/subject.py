"""The subject of a picture: a loop nest with numbers for its sizes, and the name to show it by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from schedlang.compute.tensor import Tensor
from schedlang.errors import ComputeTypeError, PlotError, explain
from schedlang.expr.nodes import Expr, Var
from schedlang.ir.nest import Nest
from schedlang.ir.nodes import Alloc, Buffer, walk
from schedlang.ir.specialize import at_sizes
from schedlang.lowering.lower import lower_state
from schedlang.markup.text import printable
from schedlang.schedule.schedule import Schedule, schedule


@dataclass(frozen=True, eq=False)
class Subject:
    """A nest to draw, with numbers for its sizes; ``values`` are these numbers.

    ``schedule`` is the schedule that the nest was lowered from, if that is known. ``unfolded`` is
    then the same nest with all rows of sliding windows kept, so that an index names one row.
    """

    title: str
    nest: Nest
    values: dict[Any, int]
    unfolded: Nest
    schedule: Schedule | None = None


def subjects(what: Any, call: str, sizes: Mapping[Any, int] | None = None) -> list[Subject]:
    """Return the nests of ``what``: a schedule, a tensor, a nest, a kernel, or several of them.

    Several are a list, or a mapping from titles. ``call`` names the caller in messages, and
    ``sizes`` has a number for each symbolic size.
    """
    if isinstance(what, Mapping):
        if not what:
            raise ComputeTypeError(f"{call}({{}}): give at least one schedule")
        return [_subject(value, call, sizes, str(title)) for title, value in what.items()]
    items = what if isinstance(what, (list, tuple)) else [what]
    if not items:
        raise ComputeTypeError(f"{call}([]): give at least one schedule")
    alone = len(items) == 1
    return [
        _subject(item, call, sizes, "" if alone else f"schedule {number}")
        for number, item in enumerate(items, 1)
    ]


def _subject(what: Any, call: str, sizes: Mapping[Any, int] | None, title: str) -> Subject:
    thing = schedule(what) if isinstance(what, Tensor) else what
    # a kernel has the nest that it was built from
    own_schedule = thing if isinstance(thing, Schedule) else getattr(thing, "schedule", None)
    nest = getattr(thing, "loop_nest", thing)
    if isinstance(thing, Schedule):
        nest = lower_state(thing.state)
    if not isinstance(nest, Nest):
        raise ComputeTypeError(
            explain(
                f"{call}({type(what).__name__} {what!r})"[:200],
                "it is not a schedule, a tensor, a nest or a kernel",
                "Give what sl.schedule, sl.compute, sl.lower or sl.build returns, or a dict of "
                "them by title.",
            )
        )
    known_schedule = own_schedule if isinstance(own_schedule, Schedule) else None
    values = _numbers(nest, call, sizes)
    whole = nest
    if known_schedule is not None and any(
        isinstance(s, Alloc) and s.layout for s, _ in walk(nest.body)
    ):
        args = [a.tensor if isinstance(a, Buffer) else a for a in nest.args]
        whole = lower_state(known_schedule.state, args, name=nest.name, folds=False)
    names = {v.name: n for v, n in values.items()}
    nests = [at_sizes(one, names) if names else one for one in (nest, whole)]
    return Subject(printable(title) or nest.name, nests[0], values, nests[1], known_schedule)


def _numbers(nest: Nest, call: str, sizes: Mapping[Any, int] | None) -> dict[Any, int]:
    """Return a number for each symbolic size of ``nest``; raise if one has none."""
    if not isinstance(sizes or {}, Mapping):
        raise PlotError(
            explain(
                f"{call}(..., sizes={sizes!r})"[:200],
                "sizes is not a mapping",
                'Give a number for each size by its name: sizes={"n": 32}.',
            )
        )
    values = {str(getattr(size, "name", size)): value for size, value in (sizes or {}).items()}
    # a scalar besides the sizes decides no index
    scalars = [a for a in nest.args if isinstance(a, Var) and a.is_size]
    needed = {v.name: v for v in (*nest.sizes, *scalars)}
    missing = [name for name in needed if name not in values]
    if missing:
        example = ", ".join(f'"{name}": 32' for name in needed)
        raise PlotError(
            explain(
                f"{call}({nest.name})",
                f"its size {missing[0]} has no number",
                f"Give numbers to draw: sizes={{{example}}}.",
            )
        )
    for name, value in values.items():
        if isinstance(value, bool) or not hasattr(value, "__index__") or int(value) < 1:
            raise PlotError(f"{call}(..., sizes={{{name!r}: {value!r}}}): a size is 1 or more")
    return {v: int(values[name]) for name, v in needed.items()}


def buffer_of(nest: Nest, which: Any, call: str) -> Buffer:
    """Return the buffer of ``nest`` for a tensor or a name, or its last output for ``None``."""
    if which is None:
        return nest.outputs[-1]
    name = which if isinstance(which, str) else getattr(which, "name", None)
    for buffer in nest.buffers:
        if buffer.name == name or (isinstance(which, Tensor) and buffer.tensor is which):
            return buffer
    listed = ", ".join(dict.fromkeys(b.name for b in nest.buffers))
    raise PlotError(
        explain(
            f"{call}(..., buffer={which if name is None else name})",
            f"the nest of {nest.name} has no such buffer",
            f"Its buffers are {listed}.",
        )
    )


def shape_of(shape: tuple[int | Expr, ...]) -> tuple[int, ...]:
    """Return a shape of numbers."""
    numbers = []
    for extent in shape:
        assert isinstance(extent, int), "the nest has numbers for its sizes"
        numbers.append(extent)
    return tuple(numbers)
