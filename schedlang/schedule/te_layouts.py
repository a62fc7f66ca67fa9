"""te's ``transform_layout``, in schedules of ``te.create_schedule``: loops and arguments follow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

from schedlang.compute.graph import placeholders
from schedlang.compute.tensor import Tensor
from schedlang.errors import ScheduleError
from schedlang.expr.nodes import Axis, Expr
from schedlang.schedule.misfits import of_stage
from schedlang.schedule.refuse import refuse
from schedlang.schedule.stage_methods.index_map import indices_at, parts_of_array
from schedlang.state.layout import Part, incomplete, parts_of, with_whole_ends
from schedlang.state.primitives.argument_layout import dimensions
from schedlang.state.state import Stage

if TYPE_CHECKING:
    from schedlang.schedule.schedule import Schedule

# what te writes between dimensions that some memory keeps apart; memory is flat here
AXIS_SEPARATOR = "axis_separator"


class InputView:
    """The stage of an input in a schedule of te, which has no loops, and an array alone."""

    leaf_axes: Sequence[Axis] = ()
    leaf_iter_vars = leaf_axes

    def __init__(self, schedule: Schedule, tensor: Tensor) -> None:
        self._schedule, self._tensor, self.name = schedule, tensor, tensor.name

    @property
    def op(self) -> Any:
        return self._tensor.op

    def __repr__(self) -> str:
        return f"<Input {self.name}>"

    @of_stage
    def transform_layout(self, index_map: Any) -> list[Axis]:
        """Let the caller pass the array in the layout of ``index_map``; return no loops."""
        axes = dimensions(self._tensor)
        asked = f"transform_layout(index_map) on input {self.name}"
        indices = _without_separators(indices_at(index_map, axes, asked, self.name))
        with _asked(asked):
            self._schedule.lay_out(self._tensor, parts_of_array(indices, axes, asked))
        return []

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            if name.startswith("_"):
                # what copy, pickle and notebooks look for
                raise AttributeError(name)
            _refuse_input(self.name)


def input_view(s: Schedule, key: Any) -> Any:
    """Return the stage of an input, a tensor or its operation; only te's schedules have one."""
    tensor = next((t for t in placeholders(s.outputs) if key in (t, t.op)), None)
    if not s.of_te or tensor is None:
        _refuse_input(key.name)
    return InputView(s, tensor)


def _refuse_input(name: str) -> NoReturn:
    refuse(
        f"s[{name}]",
        f"{name} is an input and has no loops",
        f"s.cache_read({name}, scope, readers) gives it a stage.",
    )


def transform_layout(s: Schedule, stage: Stage, index_map: Any) -> list[Axis] | None:
    """Store ``stage`` in the layout of ``index_map``, with loops in this order; return the loops.

    An output's array has this layout, too. Loops that had a step stay as they are, and so do the
    loops of an intermediate in a layout that te does not have, such as a swizzle; the result is
    then ``None``.
    """
    asked = f"transform_layout(index_map) on stage {stage.name}"
    axes, is_output = stage.op.axis, s.state.is_output(stage)
    indices = _without_separators(indices_at(index_map, axes, asked, stage.name))
    dims = _dims(indices, axes)
    trial, loops = s.copy(), None
    with _asked(asked):
        if is_output:
            trial.lay_out(stage.outputs[0], dims or parts_of_array(indices, axes, asked))
        if dims and _plain(stage):
            loops = _loops_of(trial, stage, dims)
    if not is_output:
        places = [_index(p, axes) for parts in dims for p in parts] if dims else indices
        trial.apply("transform_layout", stage.name, indices=tuple(places))
    s.adopt(trial)
    return loops


@contextmanager
def _asked(call: str) -> Iterator[None]:
    """Let a refusal name the user's call instead of the step that it takes."""
    try:
        yield
    except ScheduleError as error:
        _, _, why = str(error).partition(": ")
        raise ScheduleError(f"{call}: {why}") from None


def _without_separators(indices: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(i for i in indices if not (isinstance(i, str) and i == AXIS_SEPARATOR))


def _plain(stage: Stage) -> bool:
    """True if the data axes are loops without a step, in order."""
    count, axes = len(stage.op.axis), stage.op.axis
    return stage.leaf[:count] == axes and not any(a in stage.kinds for a in axes)


def _dims(indices: Sequence[Any], axes: Sequence[Axis]) -> list[list[Part]]:
    """Return the parts that the indices count if these are te's: whole, and of known extents."""
    if any(not isinstance(axis.extent, int) for axis in axes):
        return []
    dims = [parts_of(i, axes) if isinstance(i, Expr) else [] for i in indices]
    flat = [part for parts in dims for part in parts]
    whole = iter(with_whole_ends(tuple(flat), axes))
    dims = [[next(whole) for _ in parts] for parts in dims]
    divides = all(axes[p.dim].extent % (p.divisor * (p.modulus or 1)) == 0 for p in flat)
    complete = incomplete(tuple(p for parts in dims for p in parts), len(axes)) is None
    return dims if all(dims) and divides and complete else []


def _loops_of(s: Schedule, stage: Stage, dims: Sequence[Sequence[Part]]) -> list[Axis]:
    """Split, reorder and fuse the loops of ``stage`` to run over ``dims``; return them."""
    view, loop_of = s[stage.name], dict[Part, Axis]()
    parts = [part for counted in dims for part in counted]
    for dim, axis in enumerate(stage.op.axis):
        own = sorted((p for p in parts if p.dim == dim), key=lambda p: -p.divisor)
        for part in own[:-1]:
            loop_of[part], axis = view.split(axis, factor=part.divisor)
        loop_of[own[-1]] = axis
    ordered = [loop_of[part] for part in parts]
    if ordered != [a for a in view.leaf_axes if not a.is_reduce]:
        view.reorder(*ordered)
    loops = []
    for counted in dims:
        own_loops = [loop_of[part] for part in counted]
        loops.append(view.fuse(*own_loops) if len(own_loops) > 1 else own_loops[0])
    return loops


def _index(part: Part, axes: Sequence[Axis]) -> Expr:
    index: Expr = axes[part.dim]
    if part.divisor > 1:
        index = index // part.divisor
    return index % part.modulus if part.modulus else index
