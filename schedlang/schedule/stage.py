"""The stage of a schedule, ``s[C]``, which has a method for each primitive."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from schedlang.compute.tensor import ComputeOp, ScanOp, Tensor
from schedlang.errors import MissingNameError
from schedlang.expr.nodes import Axis
from schedlang.schedule.misfits import of_stage
from schedlang.schedule.missing_attributes import no_attribute
from schedlang.schedule.stage_methods import annotate, loops, placement, storage
from schedlang.state.state import Stage

if TYPE_CHECKING:
    from schedlang.schedule.schedule import Schedule


class StageView:
    """The stage of one computation within a schedule.

    Each method is a primitive, whose docstring states under *Requires* when it is legal. An
    illegal primitive raises :class:`~schedlang.errors.ScheduleError` and changes nothing. Axes in
    arguments are loops of this stage; see ``leaf_axes``.
    """

    def __init__(self, schedule: Schedule, name: str) -> None:
        self._schedule = schedule
        self.name = name

    @property
    def _stage(self) -> Stage:
        return self._schedule.state.stages[self.name]

    @property
    def op(self) -> ComputeOp | ScanOp:
        """The operation, with ``axis`` and ``reduce_axis``, as cache stages and rfactor left it."""
        return self._stage.op

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        return self._stage.outputs

    @property
    def leaf_axes(self) -> list[Axis]:
        """The current loops, outer to inner: the same axis objects that split and fuse returned."""
        return list(self._stage.leaf)

    leaf_iter_vars = leaf_axes

    @property
    def scope(self) -> str:
        return self._stage.scope

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            if "_schedule" not in self.__dict__:
                raise AttributeError(name)
            of_operation = not name.startswith("_") and hasattr(self._stage.op, name)
            raise MissingNameError(no_attribute(self.name, name, dir(StageView), of_operation))

    def __repr__(self) -> str:
        return f"<Stage {self.name}: {', '.join(a.name for a in self._stage.leaf)}>"

    @property
    def _apply(self) -> Callable[..., Any]:
        """The method ``apply`` of the schedule for this stage, without a frame in tracebacks."""
        return partial(self._schedule.apply, stage=self.name)

    # loops
    split = of_stage(loops.split)
    fuse = of_stage(loops.fuse)
    reorder = of_stage(loops.reorder)
    tile = of_stage(loops.tile)

    # annotations of loops
    vectorize = of_stage(annotate.vectorize)
    unroll = of_stage(annotate.unroll)
    parallel = of_stage(annotate.parallel)
    bind = of_stage(annotate.bind)
    pragma = of_stage(annotate.pragma)
    prefetch = of_stage(annotate.prefetch)

    # placement
    compute_at = of_stage(placement.compute_at)
    compute_inline = of_stage(placement.compute_inline)
    compute_root = of_stage(placement.compute_root)
    store_at = of_stage(placement.store_at)
    store_root = of_stage(placement.store_root)

    # storage
    set_scope = of_stage(storage.set_scope)
    storage_align = of_stage(storage.storage_align)
    tensorize = of_stage(storage.tensorize)
    transform_layout = of_stage(storage.transform_layout)
    double_buffer = of_stage(storage.double_buffer)
    set_store_predicate = of_stage(storage.set_store_predicate)
