"""The stage of a schedule, ``s[C]``, which has a method for each primitive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from schedlang.compute.tensor import ComputeOp, ScanOp, Tensor
from schedlang.errors import MissingNameError
from schedlang.expr.nodes import Axis
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

    def _apply(self, primitive: str, **args: Any) -> Any:
        return self._schedule.apply(primitive, self.name, **args)

    # loops
    split = loops.split
    fuse = loops.fuse
    reorder = loops.reorder
    tile = loops.tile

    # annotations of loops
    vectorize = annotate.vectorize
    unroll = annotate.unroll
    parallel = annotate.parallel
    bind = annotate.bind
    pragma = annotate.pragma
    prefetch = annotate.prefetch

    # placement
    compute_at = placement.compute_at
    compute_inline = placement.compute_inline
    compute_root = placement.compute_root
    store_at = placement.store_at
    store_root = placement.store_root

    # storage
    set_scope = storage.set_scope
    storage_align = storage.storage_align
    tensorize = storage.tensorize
    transform_layout = storage.transform_layout
    double_buffer = storage.double_buffer
    set_store_predicate = storage.set_store_predicate
