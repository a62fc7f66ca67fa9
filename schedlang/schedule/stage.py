"""The stage of a schedule, ``s[C]``, which has a method for each primitive."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from schedlang.compute.extern_op import ExternOp
from schedlang.compute.tensor import ComputeOp, ScanOp, Tensor
from schedlang.errors import MissingNameError
from schedlang.expr.nodes import Axis
from schedlang.schedule.missing_attributes import no_attribute
from schedlang.schedule.stage_methods.annotate import AnnotationMethods
from schedlang.schedule.stage_methods.loops import LoopMethods
from schedlang.schedule.stage_methods.placement import PlacementMethods
from schedlang.schedule.stage_methods.storage import StorageMethods


class StageView(LoopMethods, AnnotationMethods, PlacementMethods, StorageMethods):
    """The stage of one computation within a schedule.

    Each method is a primitive, whose docstring states under *Requires* when it is legal. An
    illegal primitive raises :class:`~schedlang.errors.ScheduleError` and changes nothing. Axes in
    arguments are loops of this stage; see ``leaf_axes``.
    """

    @property
    def op(self) -> ComputeOp | ScanOp | ExternOp:
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
