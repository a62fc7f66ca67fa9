"""Methods that place a stage: where it is computed, and where it is stored."""

from __future__ import annotations

from typing import Any

from schedlang.expr.nodes import Axis
from schedlang.schedule.misfits import of_stage
from schedlang.schedule.stage_methods.recording import Recording


class PlacementMethods(Recording):
    """Methods that say where a stage is computed and stored."""

    @of_stage
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
        self._apply("compute_at", parent=stage, axis=axis)

    @of_stage
    def compute_inline(self) -> None:
        """Replace each read of this stage by its expression.

        Requires a stage that is not a reduction, an output or part of a scan, with no stage
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
        self._apply("compute_inline")

    @of_stage
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
        self._apply("compute_root")

    @of_stage
    def store_at(self, parent: Any, axis: Axis) -> None:
        """Allocate this stage's storage inside loop ``axis`` of ``parent``, for several iterations.

        As with Halide's sliding window, points that earlier iterations computed are not computed
        again, and the storage is folded to the rows in use. Requires :meth:`compute_at` first, and
        the loop of ``compute_at`` or one around it.

        rewrite::

            for i in 0..8:          ->   B: float32[4]
              B: float32[3]              for i in 0..8:
              for B.i in 0..3:             ... only the B that is new
                B[B.i] = ...               C[i] = B[i%4] + B[(i + 2)%4]
              C[i] = B[0] + B[2]

        >>> import schedlang as sl
        >>> B = sl.compute((10,), lambda i: i * 2, name="B")
        >>> C = sl.compute((8,), lambda i: B[i] + B[i + 2], name="C")
        >>> s = sl.schedule(C)
        >>> outer, inner = s[C].split(s[C].op.axis[0], factor=4)
        >>> s[B].compute_at(s[C], inner)
        >>> s[B].store_at(s[C], outer)
        >>> s.nest().buffers[-1].shape
        (4,)
        """
        stage = self._schedule._stage(parent, f"store_at(...) on stage {self.name}")
        self._apply("store_at", parent=stage, axis=axis)

    @of_stage
    def store_root(self) -> None:
        """Allocate this stage's storage outside all loops, as :meth:`store_at` does inside one.

        Requires :meth:`compute_at` first.

        rewrite::

            for i in 0..8:          ->   B: float32[4]
              B: float32[3]              for i in 0..8:
              ...                          ...

        >>> import schedlang as sl
        >>> B = sl.compute((10,), lambda i: i * 2, name="B")
        >>> C = sl.compute((8,), lambda i: B[i] + B[i + 2], name="C")
        >>> s = sl.schedule(C)
        >>> s[B].compute_at(s[C], s[C].op.axis[0])
        >>> s[B].store_root()
        >>> s.nest().buffers[-1].shape
        (4,)
        """
        self._apply("store_root")
