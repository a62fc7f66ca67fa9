"""The stage of a schedule, ``s[C]``, which has a method for each primitive."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from schedlang.compute.tensor import ComputeOp, ScanOp, Tensor
from schedlang.errors import MissingNameError
from schedlang.expr.nodes import Axis, Expr
from schedlang.schedule.hints import no_attribute
from schedlang.schedule.refuse import refuse
from schedlang.schedule.storage import mapped
from schedlang.stage.state import Stage

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

    def _do(self, primitive: str, **args: Any) -> Any:
        return self._schedule.apply(primitive, self.name, **args)

    def split(
        self, parent: Axis, factor: int | None = None, nparts: int | None = None, tail: str = "auto"
    ) -> tuple[Axis, Axis]:
        """Split a loop in two, ``parent = outer*factor + inner``, and return both.

        Give ``factor`` (the inner extent) or ``nparts`` (the outer extent). ``tail`` is the
        strategy if the factor does not divide the extent: ``"guard"`` adds a condition, ``"cut"``
        peels the remaining iterations into a loop of their own, ``"auto"`` chooses. Requires a
        loop without annotation at which no stage is computed, other than the time axis of a scan.

        rewrite::

            for i in 0..8:          ->   for i.outer in 0..2:
              B[i] = A[i] + 1              for i.inner in 0..4:
                                             B[i.outer*4 + i.inner] = ...

        >>> import schedlang as sl
        >>> A = sl.placeholder((8,), name="A")
        >>> B = sl.compute((8,), lambda i: A[i] + 1, name="B")
        >>> s = sl.schedule(B)
        >>> s[B].split(s[B].op.axis[0], factor=4)
        (i.outer, i.inner)
        """
        return self._do("split", axis=parent, factor=factor, nparts=nparts, tail=tail)

    def fuse(self, *axes: Axis) -> Axis:
        """Fuse loops into one over all their combinations; ``fuse()`` makes a loop of extent 1.

        Requires adjacent loops, given outer to inner, without annotation. All must be data axes,
        or all reduction axes.

        rewrite::

            for i in 0..4:          ->   for i.j.fused in 0..32:
              for j in 0..8:               B[i.j.fused//8, i.j.fused%8] = ...
                B[i, j] = ...

        >>> import schedlang as sl
        >>> B = sl.compute((4, 8), lambda i, j: i + j, name="B")
        >>> s = sl.schedule(B)
        >>> s[B].fuse(*s[B].op.axis)
        i.j.fused
        """
        listed = axes[0] if len(axes) == 1 and isinstance(axes[0], (list, tuple)) else axes
        return self._do("fuse", axes=tuple(listed))

    def reorder(self, *axes: Axis) -> None:
        """Put loops in the given order, outer to inner; loops not given keep their places.

        Halide's ``reorder`` lists them inner to outer. Requires that each loop is given once.

        rewrite::

            for i in 0..4:          ->   for j in 0..8:
              for j in 0..8:               for i in 0..4:
                B[i, j] = ...                B[i, j] = ...

        >>> import schedlang as sl
        >>> B = sl.compute((4, 8), lambda i, j: i + j, name="B")
        >>> s = sl.schedule(B)
        >>> i, j = s[B].op.axis
        >>> s[B].reorder(j, i)
        >>> s[B].leaf_axes
        [j, i]
        """
        listed = axes[0] if len(axes) == 1 and isinstance(axes[0], (list, tuple)) else axes
        self._do("reorder", axes=tuple(listed))

    def tile(
        self, x_parent: Axis, y_parent: Axis, x_factor: int, y_factor: int, tail: str = "auto"
    ) -> tuple[Axis, Axis, Axis, Axis]:
        """Split two loops and reorder them to ``(x.outer, y.outer, x.inner, y.inner)``.

        Requires two different loops, each as for :meth:`split`.

        rewrite::

            for i in 0..8:          ->   for i.outer in 0..2:
              for j in 0..8:               for j.outer in 0..2:
                B[i, j] = ...                for i.inner in 0..4:
                                               for j.inner in 0..4:

        >>> import schedlang as sl
        >>> B = sl.compute((8, 8), lambda i, j: i + j, name="B")
        >>> s = sl.schedule(B)
        >>> s[B].tile(*s[B].op.axis, 4, 4)
        (i.outer, j.outer, i.inner, j.inner)
        """
        return self._do(
            "tile", x=x_parent, y=y_parent, x_factor=x_factor, y_factor=y_factor, tail=tail
        )

    def vectorize(self, axis: Axis) -> None:
        """Compute all iterations of ``axis`` at once, as lanes of a vector.

        Requires a data axis of constant extent without annotation, at which no stage is computed.

        rewrite::

            for i in 0..8:          ->   vectorize i in 0..8:
              B[i] = A[i] + 1              B[i] = A[i] + 1

        >>> import schedlang as sl
        >>> B = sl.compute((8,), lambda i: i + 1, name="B")
        >>> s = sl.schedule(B)
        >>> s[B].vectorize(s[B].op.axis[0])
        >>> s.nest().loops[0].kind
        'vectorize'
        """
        self._do("vectorize", axis=axis)

    def unroll(self, axis: Axis) -> None:
        """Unroll the loop: repeat its body once for each iteration.

        Requires a loop without annotation, of constant extent 1024 or less, other than the time
        axis of a scan.

        rewrite::

            for i in 0..2:          ->   unroll i in 0..2:
              B[i] = A[i] + 1              B[i] = A[i] + 1

        >>> import schedlang as sl
        >>> B = sl.compute((2,), lambda i: i + 1, name="B")
        >>> s = sl.schedule(B)
        >>> s[B].unroll(s[B].op.axis[0])
        >>> s.nest().loops[0].kind
        'unroll'
        """
        self._do("unroll", axis=axis)

    def parallel(self, axis: Axis) -> None:
        """Distribute the iterations of ``axis`` over CPU threads.

        Requires a data axis without annotation.

        rewrite::

            for i in 0..64:         ->   parallel i in 0..64:
              B[i] = A[i] + 1              B[i] = A[i] + 1

        >>> import schedlang as sl
        >>> B = sl.compute((64,), lambda i: i + 1, name="B")
        >>> s = sl.schedule(B)
        >>> s[B].parallel(s[B].op.axis[0])
        >>> s.nest().loops[0].kind
        'parallel'
        """
        self._do("parallel", axis=axis)

    def bind(self, axis: Axis, thread: Any) -> None:
        """Bind ``axis`` to a GPU thread axis: ``"blockIdx.x"``, ..., ``"vthread"``.

        Requires a loop without annotation, and a thread axis to which no other loop of the stage
        is bound. A reduction axis may be bound to ``threadIdx`` only; its threads then reduce
        together.

        rewrite::

            for i in 0..64:         ->   threadIdx.x i in 0..64:
              B[i] = A[i] + 1              B[i] = A[i] + 1

        >>> import schedlang as sl
        >>> B = sl.compute((64,), lambda i: i + 1, name="B")
        >>> s = sl.schedule(B)
        >>> s[B].bind(s[B].op.axis[0], "threadIdx.x")
        >>> s.nest().loops[0].tag
        'threadIdx.x'
        """
        self._do("bind", axis=axis, thread=thread)

    def pragma(self, axis: Axis, name: str, value: Any = None) -> None:
        """Attach a named hint to a loop, which the printed nest shows.

        ``"nontemporal"`` has an effect on the CPU: aligned vectors that the stage stores inside
        the loop bypass the cache. The names of te (``"auto_unroll_max_step"``) and your own names
        with a dot (``"my.note"``) have no effect. Other names are refused.

        rewrite::

            for i in 0..8:          ->   for i in 0..8:   # pragma unroll_hint = 4

        >>> import schedlang as sl
        >>> B = sl.compute((8,), lambda i: i + 1, name="B")
        >>> s = sl.schedule(B)
        >>> s[B].pragma(s[B].op.axis[0], "unroll_hint", 4)
        >>> s.nest().loops[0].pragmas
        (('unroll_hint', 4),)
        """
        self._do("pragma", axis=axis, name=name, value=getattr(value, "value", value))

    def prefetch(self, tensor: Tensor, axis: Axis, offset: int) -> None:
        """Prefetch the part of ``tensor`` that is accessed ``offset`` iterations of ``axis`` later.

        One element in each 64 bytes is prefetched. If their number is unknown or above 1024,
        ``sl.lower`` and ``sl.build`` refuse it. Requires an offset of 0 or more, and a tensor that
        this stage writes, or that this stage or one computed inside ``axis`` reads.

        rewrite::

            for i in 0..8:          ->   for i in 0..8:
              B[i] = A[i] + 1              prefetch A[min(i + 2, 7)]
                                           B[i] = A[i] + 1

        >>> import schedlang as sl
        >>> A = sl.placeholder((8,), name="A")
        >>> B = sl.compute((8,), lambda i: A[i] + 1, name="B")
        >>> s = sl.schedule(B)
        >>> s[B].prefetch(A, s[B].op.axis[0], 2)
        >>> "prefetch A[min(i + 2, 7)]" in str(s)
        True
        """
        self._do("prefetch", tensor=tensor, axis=axis, offset=offset)

    def compute_at(self, parent: Any, axis: Axis) -> None:
        """Compute this stage inside loop ``axis`` of ``parent``, as much as an iteration needs.

        Requires that ``parent`` (a stage or its tensor) reads this stage, directly or through
        others, that neither ``axis`` nor a loop around it is vectorized, and that this stage is
        neither an output nor part of a scan. If a reader is outside the loop, the printed nest
        says so, and ``sl.lower`` and ``sl.build`` raise
        :class:`~schedlang.errors.LoweringError` with the legal places.

        rewrite::

            for i in 0..10:         ->   for i in 0..8:
              B[i] = A[i] * 2              B: float32[3]
            for i in 0..8:                 for B.i in 0..3:
              C[i] = B[i] + B[i + 2]         B[B.i] = A[i + B.i] * 2
                                           C[i] = B[0] + B[2]

        >>> import schedlang as sl
        >>> B = sl.compute((10,), lambda i: i * 2, name="B")
        >>> C = sl.compute((8,), lambda i: B[i] + B[i + 2], name="C")
        >>> s = sl.schedule(C)
        >>> s[B].compute_at(s[C], s[C].op.axis[0])
        >>> s.nest().buffers[-1].shape
        (3,)
        """
        asked = f"compute_at(...) on stage {self.name}"
        stage = self._schedule._stage(parent, asked)
        self._do("compute_at", parent=stage, axis=axis)

    def compute_inline(self) -> None:
        """Replace each read of this stage by its expression.

        Requires a stage that is no reduction, no output and no part of a scan, with no stage
        attached to its loops.

        rewrite::

            for i in 0..8:          ->   for i in 0..8:
              B[i] = A[i] * 2              C[i] = A[i] * 2 + 1
            for i in 0..8:
              C[i] = B[i] + 1

        >>> import schedlang as sl
        >>> B = sl.compute((8,), lambda i: i * 2, name="B")
        >>> C = sl.compute((8,), lambda i: B[i] + 1, name="C")
        >>> s = sl.schedule(C)
        >>> s[B].compute_inline()
        >>> len(s.nest().loops)
        1
        """
        self._do("compute_inline")

    def compute_root(self) -> None:
        """Compute this stage whole, before its readers, as initially.

        This undoes :meth:`compute_at`, :meth:`compute_inline` and :meth:`store_at`.

        rewrite::

            for i in 0..8:               ->   for i in 0..8:
              C[i] = A[i] * 2 + 1               B[i] = A[i] * 2
                                              for i in 0..8:
                                                C[i] = B[i] + 1

        >>> import schedlang as sl
        >>> B = sl.compute((8,), lambda i: i * 2, name="B")
        >>> C = sl.compute((8,), lambda i: B[i] + 1, name="C")
        >>> s = sl.schedule(C)
        >>> s[B].compute_inline(); s[B].compute_root()
        >>> len(s.nest().loops)
        2
        """
        self._do("compute_root")

    def store_at(self, parent: Any, axis: Axis) -> None:
        """Allocate this stage's storage inside loop ``axis`` of ``parent``, for several iterations.

        As with Halide's sliding window, points that earlier iterations computed are not computed
        again. Requires :meth:`compute_at` first, and the loop of ``compute_at`` or one around it.

        rewrite::

            for i in 0..8:          ->   B: float32[10]
              B: float32[3]              for i in 0..8:
              for B.i in 0..3:             ... only the B that is new
                B[B.i] = ...               C[i] = B[i] + B[i + 2]
              C[i] = B[0] + B[2]

        >>> import schedlang as sl
        >>> B = sl.compute((10,), lambda i: i * 2, name="B")
        >>> C = sl.compute((8,), lambda i: B[i] + B[i + 2], name="C")
        >>> s = sl.schedule(C)
        >>> outer, inner = s[C].split(s[C].op.axis[0], factor=4)
        >>> s[B].compute_at(s[C], inner)
        >>> s[B].store_at(s[C], outer)
        >>> s.nest().buffers[-1].shape
        (6,)
        """
        stage = self._schedule._stage(parent, f"store_at(...) on stage {self.name}")
        self._do("store_at", parent=stage, axis=axis)

    def store_root(self) -> None:
        """Allocate this stage's storage outside all loops, as :meth:`store_at` does inside one.

        Requires :meth:`compute_at` first.

        rewrite::

            for i in 0..8:          ->   B: float32[10]
              B: float32[3]              for i in 0..8:
              ...                          ...

        >>> import schedlang as sl
        >>> B = sl.compute((10,), lambda i: i * 2, name="B")
        >>> C = sl.compute((8,), lambda i: B[i] + B[i + 2], name="C")
        >>> s = sl.schedule(C)
        >>> s[B].compute_at(s[C], s[C].op.axis[0])
        >>> s[B].store_root()
        >>> s.nest().buffers[-1].shape
        (10,)
        """
        self._do("store_root")

    def set_scope(self, scope: str) -> None:
        """Set the memory of this stage: ``"global"``, ``"shared"`` (by a block) or ``"local"``.

        Local memory is private to a thread. Requires an intermediate stage; an output is global.

        rewrite::

            B: float32[8]   global  ->   B: float32[8]   shared

        >>> import schedlang as sl
        >>> B = sl.compute((8,), lambda i: i * 2, name="B")
        >>> s = sl.schedule(sl.compute((8,), lambda i: B[i] + 1, name="C"))
        >>> s[B].set_scope("shared")
        >>> s.nest().buffers[-1].scope
        'shared'
        """
        self._do("set_scope", scope=scope)

    def storage_align(self, axis: Axis, factor: int, offset: int = 0) -> None:
        """Pad storage so that the stride of dimension ``axis`` is ``offset`` modulo ``factor``.

        After ``transform_layout``, this is the stride in the new order, of a dimension that was
        not divided. Requires a dimension of an intermediate stage (one of ``op.axis``), and an
        offset below ``factor``.

        rewrite::

            B: float32[32, 32]      ->   B: float32[32, 32]   rows padded to 33

        >>> import schedlang as sl
        >>> B = sl.compute((32, 32), lambda i, j: i + j, name="B")
        >>> s = sl.schedule(sl.compute((32, 32), lambda i, j: B[j, i] + 1, name="C"))
        >>> s[B].storage_align(s[B].op.axis[0], factor=32, offset=1)
        >>> s.nest().buffers[-1].strides
        (33, 1)
        """
        self._do("storage_align", axis=axis, factor=factor, offset=offset)

    def tensorize(self, axis: Axis, intrinsic: Any) -> None:
        """Refuse te's ``tensorize``: users cannot define hardware intrinsics here."""
        refuse(
            f"tensorize({getattr(axis, 'name', axis)}, ...) on stage {self.name}",
            "schedlang has no user-defined hardware intrinsics",
            "Vectorize a data axis instead: vectorize emits vector instructions.",
        )

    def transform_layout(self, index_map: Callable[..., Any]) -> None:
        """Store the elements in another order: ``index_map`` maps dimensions to memory indices.

        ``index_map`` returns one index or several, outermost first: dimensions ``d``, or ``d//n``
        and ``d%n``. Indices start at the first stored element. Loops do not change. (The name is
        TVM's; Halide's ``reorder_storage`` is the case without ``//``.) Requires an intermediate
        stage, and indices that determine every dimension.

        rewrite::

            B: float32[8, 32]       ->   B: float32[2, 8, 16]
            B[k, j] = ...                B[j//16, k, j%16] = ...

        >>> import schedlang as sl
        >>> B = sl.compute((8, 32), lambda k, j: k + j, name="B")
        >>> s = sl.schedule(sl.compute((8, 32), lambda k, j: B[k, j] + 1, name="C"))
        >>> s[B].transform_layout(lambda k, j: (j // 16, k, j % 16))
        >>> s.nest().buffers[-1].shape
        (2, 8, 16)
        """
        self._do("transform_layout", indices=mapped(index_map, self._stage))

    def double_buffer(self) -> None:
        """Keep two copies of this stage's storage: one is filled while the other is read.

        Requires an intermediate stage that is not inlined.

        rewrite::

            B: float32[8]   shared  ->   B: float32[8]   shared, double buffered

        >>> import schedlang as sl
        >>> B = sl.compute((8,), lambda i: i * 2, name="B")
        >>> s = sl.schedule(sl.compute((8,), lambda i: B[i] + 1, name="C"))
        >>> s[B].double_buffer()
        >>> s.nest().buffers[-1].double
        True
        """
        self._do("double_buffer")

    def set_store_predicate(self, predicate: Expr) -> None:
        """Store only where ``predicate`` holds, a bool over loops of this stage and thread axes.

        It is up to you that the skipped stores are not needed. Requires a stage that is neither a
        scan nor inlined, and a loop of its kernel bound to each thread axis.

        rewrite::

            B[i] = A[i] + 1         ->   if i < 3:   # store predicate
                                           B[i] = A[i] + 1

        >>> import schedlang as sl
        >>> B = sl.compute((8,), lambda i: i + 1, name="B")
        >>> s = sl.schedule(B)
        >>> s[B].set_store_predicate(s[B].op.axis[0] < 3)
        >>> [str(guard.cond) for guard in s.nest().guards]
        ['i < 3']
        """
        self._do("set_store_predicate", predicate=predicate)
