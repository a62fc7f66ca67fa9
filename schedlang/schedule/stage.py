"""One stage of a schedule: what the user holds as ``s[C]``, with a method a primitive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from schedlang.compute.tensor import ComputeOp, ScanOp, Tensor
from schedlang.expr.nodes import Axis, Expr
from schedlang.stage.state import Stage

if TYPE_CHECKING:
    from schedlang.schedule.schedule import Schedule


class StageView:
    """The stage of one computation within a schedule.

    Every primitive raises :class:`~schedlang.errors.ScheduleError` when it is not legal, and then
    changes nothing. Axes in arguments are loops of this stage: see ``leaf_axes``.
    """

    def __init__(self, schedule: Schedule, name: str) -> None:
        self._schedule = schedule
        self.name = name

    @property
    def _stage(self) -> Stage:
        return self._schedule.state.stages[self.name]

    @property
    def op(self) -> ComputeOp | ScanOp:
        """The operation, with ``axis`` and ``reduce_axis``, as caches and rfactor rewrote it."""
        return self._stage.op

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        return self._stage.outputs

    @property
    def leaf_axes(self) -> list[Axis]:
        """The loops as they stand, outer to inner: the very axes that split and fuse returned."""
        return list(self._stage.leaf)

    leaf_iter_vars = leaf_axes

    @property
    def scope(self) -> str:
        return self._stage.scope

    def __repr__(self) -> str:
        return f"<Stage {self.name}: {', '.join(a.name for a in self._stage.leaf)}>"

    def _do(self, primitive: str, **args: Any) -> Any:
        return self._schedule.apply(primitive, self.name, **args)

    def split(
        self, parent: Axis, factor: int | None = None, nparts: int | None = None, tail: str = "auto"
    ) -> tuple[Axis, Axis]:
        """Two loops in place of one: ``parent = outer*factor + inner``; returns ``(outer, inner)``.

        Give ``factor`` (the inner extent) or ``nparts`` (the outer one). ``tail`` says what happens
        where it does not divide: ``"guard"`` tests, ``"cut"`` peels the rest off, ``"auto"`` chooses.

        rewrite::

            for i in 0..8:   ->   for i.outer in 0..2:
                                    for i.inner in 0..4:

        >>> import schedlang as sl
        >>> A = sl.placeholder((8,), name="A")
        >>> B = sl.compute((8,), lambda i: A[i] + 1, name="B")
        >>> s = sl.schedule(B)
        >>> s[B].split(s[B].op.axis[0], factor=4)
        (i.outer, i.inner)
        """
        return self._do("split", axis=parent, factor=factor, nparts=nparts, tail=tail)

    def fuse(self, *axes: Axis) -> Axis:
        """One loop over all combinations of neighbouring loops, given outer to inner.

        ``fuse()`` of nothing makes a loop of extent 1.

        rewrite::

            for i in 0..4:     ->   for i.j.fused in 0..32:
              for j in 0..8:
        """
        listed = axes[0] if len(axes) == 1 and isinstance(axes[0], (list, tuple)) else axes
        return self._do("fuse", axes=tuple(listed))

    def reorder(self, *axes: Axis) -> None:
        """Put loops in the given order, outer to inner, in the places they hold together.

        Halide's ``reorder`` lists them the other way round.

        rewrite::

            for i in 0..4:     ->   for j in 0..8:
              for j in 0..8:          for i in 0..4:
        """
        listed = axes[0] if len(axes) == 1 and isinstance(axes[0], (list, tuple)) else axes
        self._do("reorder", axes=tuple(listed))

    def tile(
        self, x_parent: Axis, y_parent: Axis, x_factor: int, y_factor: int, tail: str = "auto"
    ) -> tuple[Axis, Axis, Axis, Axis]:
        """Split two loops and put the inner parts inside: ``(x.outer, y.outer, x.inner, y.inner)``.

        rewrite::

            for i in 0..8:     ->   for i.outer in 0..2:
              for j in 0..8:          for j.outer in 0..2:
                                        for i.inner in 0..4:
                                          for j.inner in 0..4:
        """
        return self._do("tile", x=x_parent, y=y_parent, x_factor=x_factor, y_factor=y_factor, tail=tail)

    def vectorize(self, axis: Axis) -> None:
        """Compute all iterations of ``axis`` at once, as lanes of a vector.

        Requires a data axis of fixed extent that no stage is attached to.
        """
        self._do("vectorize", axis=axis)

    def unroll(self, axis: Axis) -> None:
        """Write the body out once an iteration. Requires a fixed extent."""
        self._do("unroll", axis=axis)

    def parallel(self, axis: Axis) -> None:
        """Share the iterations of ``axis`` among CPU threads. Requires a data axis."""
        self._do("parallel", axis=axis)

    def bind(self, axis: Axis, thread: Any) -> None:
        """Run the iterations of ``axis`` on the GPU's ``thread``: ``"blockIdx.x"``, ..., ``"vthread"``.

        A reduction axis may be bound to ``threadIdx`` only.
        """
        self._do("bind", axis=axis, thread=thread)

    def pragma(self, axis: Axis, name: str, value: Any = None) -> None:
        """Attach a named hint to a loop; it shows in the nest."""
        self._do("pragma", axis=axis, name=name, value=getattr(value, "value", value))

    def prefetch(self, tensor: Tensor, axis: Axis, offset: int) -> None:
        """Ask for the element of ``tensor`` that is read ``offset`` iterations of ``axis`` later."""
        self._do("prefetch", tensor=tensor, axis=axis, offset=offset)

    def compute_at(self, parent: Any, axis: Axis) -> None:
        """Compute this stage inside loop ``axis`` of ``parent``, as much as each iteration needs.

        ``parent`` is a stage (or its tensor) that reads this one, directly or through others. Where
        other readers would be left without it, the refusal of ``sl.build`` lists the legal places.
        """
        asked = f"compute_at(...) on stage {self.name}"
        stage = self._schedule._stage(parent, asked)
        self._do("compute_at", parent=stage, axis=axis)

    def compute_inline(self) -> None:
        """Put this stage's expression where it is read. Requires no reduction and no output."""
        self._do("compute_inline")

    def compute_root(self) -> None:
        """Compute this stage whole, ahead of its readers (where every stage starts)."""
        self._do("compute_root")

    def store_at(self, parent: Any, axis: Axis) -> None:
        """Keep this stage's storage from one iteration to the next, outside the loop it is computed at.

        Halide's sliding window: points that earlier iterations computed are not computed again.
        """
        stage = self._schedule._stage(parent, f"store_at(...) on stage {self.name}")
        self._do("store_at", parent=stage, axis=axis)

    def store_root(self) -> None:
        """Keep this stage's storage for the whole computation; see :meth:`store_at`."""
        self._do("store_root")

    def set_scope(self, scope: str) -> None:
        """Where this stage is stored: ``"global"``, ``"shared"`` (a block's) or ``"local"`` (a thread's)."""
        self._do("set_scope", scope=scope)

    def storage_align(self, axis: Axis, factor: int, offset: int = 0) -> None:
        """Pad storage so that the stride of dimension ``axis`` is ``offset`` modulo ``factor`` elements."""
        self._do("storage_align", axis=axis, factor=factor, offset=offset)

    def double_buffer(self) -> None:
        """Keep two copies of this stage's storage, so that filling one can overlap using the other."""
        self._do("double_buffer")

    def set_store_predicate(self, predicate: Expr) -> None:
        """Store only where ``predicate`` holds, an expression over axes and thread axes."""
        self._do("set_store_predicate", predicate=predicate)
