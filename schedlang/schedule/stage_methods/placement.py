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

        Each iteration computes and stores a *box*: the smallest range of points that it reads,
        found by interval arithmetic on the indices. An element of a five-point stencil reads a box
        of 3 by 3. All iterations have a box of the same size; only the rest of a cut may have a
        smaller one, with storage of its own. A guard stops a last box that reaches past the end of
        the tensor.

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

        Requires that ``parent`` (a stage or its tensor) reads this stage, directly or through
        others, that neither ``axis`` nor a loop around it is vectorized, and that this stage is
        neither an output nor the init or update of a scan. A loop that has a scan compute all of
        its steps again is refused. The loop must also enclose every reader. Since stages
        may be attached in any order, ``compute_at`` does not refuse a loop that leaves a reader
        outside: the printed nest says so in a comment, and ``sl.lower`` and ``sl.build`` raise
        :class:`~schedlang.errors.LoweringError` with the legal places if it stays outside:

        >>> D = sl.compute((8,), lambda i: B[i] + C[i], name="D")
        >>> s = sl.schedule(D)
        >>> s[B].compute_at(s[C], s[C].op.axis[0])
        >>> sl.lower(s)
        Traceback (most recent call last):
        ...
        schedlang.errors.LoweringError: compute_at(C, i) on stage B: D reads B outside that loop
          No loop encloses all its readers: leave it at root, or inline it.

        The arguments of ``sl.lower`` and ``sl.build`` may include an intermediate tensor, which the
        caller then receives whole. A stage that is computed at a loop is accepted there only if its
        boxes provably cover the whole tensor and compute each element once. Otherwise leave it out
        of the arguments, or compute it at root and let the loop read a copy
        (:meth:`~schedlang.schedule.Schedule.cache_read`).

        In a schedule of ``te.create_schedule``, ``axis`` may be vectorized: the stage is computed
        at the loop outside of it, for all lanes.
        """
        asked = f"compute_at(...) on stage {self.name}"
        stage = self._schedule._stage(parent, asked)
        if self._schedule.of_te:
            from schedlang.schedule.lanes import loop_outside

            around = loop_outside(self._schedule.state, stage, axis)
            if around is None:
                self._apply("compute_root")
                return
            stage, axis = around
        self._apply("compute_at", parent=stage, axis=axis)

    @of_stage
    def compute_inline(self) -> None:
        """Replace each read of this stage by its expression.

        The stage then has no loops and no storage of its own, and each read computes again. Use it
        for cheap elements. Requires a stage that is not a reduction, an output or part of a scan,
        with no stage attached to its loops. If its tensor is an argument of ``sl.lower`` or
        ``sl.build``, it is also computed at root, for the caller.

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

        :meth:`compute_at` alone computes the stage anew in each iteration of its loop. With storage
        further out, an iteration uses again what earlier ones computed. This is Halide's sliding
        window. The storage is folded, as in Halide: it keeps the rows in use, each at its index
        modulo a power of two. Requires :meth:`compute_at` first, and its loop or one around it. No
        loop between the two may be parallel, since the iterations must run in order.

        rewrite::

            for i in 0..8:          ->   B: float32[4]
              B: float32[3]              for i in 0..8:
              for B.i in 0..3:             ... only the B that is new
                B[B.i] = ...               C[i] = B[i%4] + B[(i + 2)%4]
              C[i] = B[0] + B[2]

        Here an iteration of ``i.inner`` reads 3 elements of ``B``, so ``B`` has room for 4. Each
        iteration of ``i.outer`` starts a new window, and computes its first elements again:

        >>> import schedlang as sl
        >>> A = sl.placeholder((66,), name="A")
        >>> B = sl.compute((66,), lambda i: A[i] * 2, name="B")
        >>> C = sl.compute((64,), lambda i: B[i] + B[i + 2], name="C")
        >>> s = sl.schedule(C)
        >>> outer, inner = s[C].split(s[C].op.axis[0], factor=16)
        >>> s[B].compute_at(s[C], inner)
        >>> s[B].store_at(s[C], outer)
        >>> print(s)
        C(A: float32[66]) -> C: float32[64]
        <BLANKLINE>
        for i.outer in 0..4:
          B: float32[4]   global, 16 B
          for i.inner in 0..16:
            for i in 0..3:
              if (i.inner == 0) | (i > 1):   # B slides along i.inner
                B[(i.inner + i)%4] = A[i.outer*16 + i.inner + i] * 2
            C[i.outer*16 + i.inner] = B[i.inner%4] + B[(i.inner + 2)%4]

        A window slides along a loop that

        * is serial or unrolled,
        * lies inside the loop at which the stage is stored,
        * moves the box by a constant step, in a dimension that no other loop moves.

        The nest then shows a guard, ``# B slides along ...``. Elsewhere every point is computed
        again, as along a fused loop, which moves the box in two dimensions. A window that slides
        along several loops is folded for the outermost of them. Its last dimension is not folded if
        a loop over the stage or over its readers is vectorized.
        """
        stage = self._schedule._stage(parent, f"store_at(...) on stage {self.name}")
        self._apply("store_at", parent=stage, axis=axis)

    @of_stage
    def store_root(self) -> None:
        """Allocate this stage's storage outside all loops; see :meth:`store_at`.

        Where the window slides, each point is computed once. Requires :meth:`compute_at` first.

        rewrite::

            for i in 0..8:          ->   B: float32[4]
              B: float32[3]              for i in 0..8:
              ...                          ...

        >>> import schedlang as sl
        >>> A = sl.placeholder((10,), name="A")
        >>> B = sl.compute((10,), lambda i: A[i] * 2, name="B")
        >>> C = sl.compute((8,), lambda i: B[i] + B[i + 2], name="C")
        >>> s = sl.schedule(C)
        >>> s[B].compute_at(s[C], s[C].op.axis[0])
        >>> s[B].store_root()
        >>> print(s)
        C(A: float32[10]) -> C: float32[8]
        <BLANKLINE>
        B: float32[4]   global, 16 B
        for i in 0..8:
          for B.i in 0..3:
            if (i == 0) | (B.i > 1):   # B slides along i
              B[(i + B.i)%4] = A[i + B.i] * 2
          C[i] = B[i%4] + B[(i + 2)%4]
        """
        self._apply("store_root")
