"""Methods on storage: scope, alignment, layout, double buffering, store predicates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from schedlang.expr.nodes import Axis, Expr
from schedlang.schedule.misfits import of_stage
from schedlang.schedule.stage_methods.index_map import map_indices
from schedlang.schedule.stage_methods.recording import Recording


class StorageMethods(Recording):
    """Methods that say how a stage is stored."""

    @of_stage
    def set_scope(self, scope: str) -> None:
        """Set the memory of this stage: ``"global"``, ``"shared"`` (by a block) or ``"local"``.

        A ``"fragment"`` is in the registers of a warp, for an instruction of matrix units. te's
        names of fragments, such as ``"wmma.accumulator"``, mean the same.

        Local memory is private to a thread; on a CPU, it is a small array on the stack of each
        thread, which stays in registers if it fits. Without this step, a stage that is computed
        inside a bound loop is shared if the loop is a ``blockIdx``, and local if it is a
        ``threadIdx``; all others are global. Requires an intermediate stage; an output is global.

        rewrite::

            B: float32[8]   global  ->   B: float32[8]   shared

        >>> import schedlang as sl
        >>> B = sl.compute((8,), lambda i: i * 2, name="B")
        >>> s = sl.schedule(sl.compute((8,), lambda i: B[i] + 1, name="C"))
        >>> s[B].set_scope("shared")
        >>> s.nest().buffers[-1].scope
        'shared'
        """
        self._apply("set_scope", scope=scope)

    @of_stage
    def storage_align(self, axis: Axis, factor: int, offset: int = 0) -> None:
        """Pad storage so that the stride of dimension ``axis`` is ``offset`` modulo ``factor``.

        This avoids bank conflicts in shared memory, and rows that compete for the same set of a
        cache. After ``transform_layout``, this is the stride in the new order, of a dimension that
        was not divided. Requires a dimension of an intermediate stage (one of ``op.axis``), and an
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
        self._apply("storage_align", axis=axis, factor=factor, offset=offset)

    @of_stage
    def transform_layout(self, index_map: Callable[..., Any]) -> list[Axis] | None:
        """Store the elements in another order: ``index_map`` maps dimensions to memory indices.

        ``index_map`` returns one index or several, outermost first: dimensions ``d``, or ``d//n``
        and ``d%n``, or a swizzle ``d%n ^ e%m`` of two such parts, where ``n`` is a power of two and
        ``m`` is not larger. Indices start at the first stored element. Loops do not change: split
        and reorder them to write memory in order. (The name is TVM's; Halide's ``reorder_storage``
        is the case without ``//``.) Requires an intermediate stage, and indices that determine
        every dimension.

        In a schedule of ``te.create_schedule``, loops that had no step yet follow: the result is
        the list of the loops over the new indices. There an output's array has the layout, too
        (:meth:`~schedlang.schedule.Schedule.transform_argument`).

        rewrite::

            B: float32[8, 32]       ->   B: float32[2, 8, 16]
            B[k, j] = ...                B[j//16, k, j%16] = ...

        >>> import schedlang as sl
        >>> B = sl.compute((8, 32), lambda k, j: k + j, name="B")
        >>> s = sl.schedule(sl.compute((8, 32), lambda k, j: B[k, j] + 1, name="C"))
        >>> s[B].transform_layout(lambda k, j: (j // 16, k, j % 16))
        >>> s.nest().buffers[-1].shape
        (2, 8, 16)

        If ``n`` does not divide the extent of ``d``, the end of the last panel stays unfilled. With
        :meth:`~schedlang.schedule.Schedule.cache_read`, the layout packs an operand into panels
        that a tile reads from start to end:

        >>> Y, k = sl.placeholder((64, 64), name="Y"), sl.reduce_axis(64, name="k")
        >>> Z = sl.compute((64,), lambda j: sl.sum(Y[k, j], axis=k), name="Z")
        >>> s = sl.schedule(Z)
        >>> P = s.cache_read(Y, "global", [Z])
        >>> s[P].transform_layout(lambda k, j: (j // 16, k, j % 16))
        >>> k, j = s[P].op.axis
        >>> panel, lane = s[P].split(j, factor=16)
        >>> s[P].reorder(panel, k, lane)
        >>> for line in str(s).splitlines()[2:7]: print(line)
        Y.global: float32[4, 64, 16]   global, 16 KiB
        for ax1.outer in 0..4:
          for ax0 in 0..64:
            for ax1.inner in 0..16:
              Y.global[ax1.outer, ax0, ax1.inner] = Y[ax0, ax1.outer*16 + ax1.inner]

        A swizzle lets the 32 threads of a warp read down a column of a shared tile without bank
        conflicts. Padding (:meth:`storage_align`) takes memory for that, a swizzle takes none. The
        nest keeps the indices before the swizzle:

        >>> T = sl.compute((32, 32), lambda i, j: Y[i, j], name="T")
        >>> s = sl.schedule(sl.compute((32, 32), lambda i, j: T[j, i], name="U"))
        >>> s[T].transform_layout(lambda i, j: (i, j // 32, j % 32 ^ i % 32))
        >>> for line in str(s).splitlines()[2:6]: print(line)
        T: float32[32, 1, 32]   global, 4096 B, swizzled: index 2 ^ index 0 % 32
        for i in 0..32:
          for j in 0..32:
            T[i, 0, j] = Y[i, j]
        """
        if self._schedule.of_te and not (self._stage.is_scan or self._stage.is_extern):
            from schedlang.schedule import te_layouts

            return te_layouts.transform_layout(self._schedule, self._stage, index_map)
        self._apply("transform_layout", indices=map_indices(index_map, self._stage))
        return None

    @of_stage
    def double_buffer(self) -> None:
        """Keep two copies of this stage's storage: one is filled while the other is read.

        Requires an intermediate stage that is not inlined.

        rewrite::

            B: float32[8]   shared  ->   B: float32[8]   shared, double buffered

        >>> import schedlang as sl
        >>> B = sl.compute((8,), lambda i: i * 2, name="B")
        >>> s = sl.schedule(sl.compute((8,), lambda i: B[i] + 1, name="C"))
        >>> s[B].double_buffer()
        >>> s.nest().buffers[-1].copies
        2
        """
        self._apply("double_buffer")

    @of_stage
    def pipeline(self, stages: int) -> None:
        """Keep ``stages`` copies of this stage's storage: one is read, the others are filled.

        The GPU copies global to shared memory by itself while the threads compute (``cp.async``),
        so a tile takes no registers on its way, and has ``stages - 1`` iterations to arrive. Each
        iteration has one barrier. Source: NVIDIA, "CUDA C++ Programming Guide", "Asynchronous Data
        Copies"; te has ``double_buffer`` alone.

        Requires an intermediate stage that copies elements of a tensor as they are, such as one of
        ``cache_read``, in shared memory, inside a serial loop of its reader; each thread copies 4,
        8 or 16 adjacent bytes at once. CPUs ignore it, and OpenCL refuses it.

        rewrite::

            B: float32[8]   shared  ->   B: float32[8]   shared, pipeline of 3 stages

        >>> import schedlang as sl
        >>> A = sl.placeholder((8,), name="A")
        >>> C = sl.compute((8,), lambda i: A[i] + 1, name="C")
        >>> s = sl.schedule(C)
        >>> B = s.cache_read(A, "shared", [C])
        >>> s[B].pipeline(stages=3)
        >>> s.nest().buffers[-1].copies
        3
        """
        self._apply("pipeline", stages=stages)

    @of_stage
    def set_store_predicate(self, predicate: Expr) -> None:
        """Store only where ``predicate`` holds, a bool over loops of this stage and thread axes.

        You promise that the skipped stores are not needed: nothing checks it. Requires a stage that
        is neither a scan nor inlined, and a loop of the same kernel bound to each thread axis. That
        loop need not enclose the store: a stage that reads a sum across threads, computed at the
        loop over blocks, may store under ``tx == 0``. A reduction across threads needs no
        condition, since one thread stores the sum anyway: the ``tx == 0`` of te programs has no
        effect there. A condition on any other reduction axis skips steps of the reduction.

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
        self._apply("set_store_predicate", predicate=predicate)
