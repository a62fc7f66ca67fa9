"""Methods that transform loops: split, fuse, reorder, tile."""

from __future__ import annotations

from schedlang.expr.nodes import Axis
from schedlang.schedule.misfits import of_stage
from schedlang.schedule.stage_methods.recording import Recording


class LoopMethods(Recording):
    """Methods that transform loops."""

    @of_stage
    def split(
        self, parent: Axis, factor: int | None = None, nparts: int | None = None,
        tail: str = "auto", idle: bool = False,
    ) -> tuple[Axis, Axis]:  # fmt: skip
        """Split a loop in two, ``parent = outer*factor + inner``, and return both.

        Give ``factor`` (the extent of the inner loop) or ``nparts`` (the extent of the outer one).
        A split changes no order; it makes loops that other steps move or annotate. Requires a loop
        without annotation; stages computed at it move to the inner loop. The parts of the time
        of a scan keep their order.

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

        A factor that exceeds the extent is cut down to it. With ``idle`` it stays if a loop made of
        the split is bound to ``threadIdx``: threads beyond the axis then idle under a guard, so
        that other stages may use them. Schedules of ``te.create_schedule`` do so by themselves.

        If the factor does not divide the extent, ``tail`` says how the last, partial iteration
        runs:

        * ``"guard"``: one nest, with an ``if`` around the body.
        * ``"cut"``: a main nest without an ``if``, then a second nest for the rest.
        * ``"auto"``, the default: a cut where that pays, otherwise a guard.

        >>> A = sl.placeholder((100,), name="A")
        >>> B = sl.compute((100,), lambda i: A[i] + 1, name="B")
        >>> guarded, cut = sl.schedule(B), sl.schedule(B)
        >>> _ = guarded[B].split(B.op.axis[0], factor=16, tail="guard")
        >>> print(guarded)
        B(A: float32[100]) -> B: float32[100]
        <BLANKLINE>
        for i.outer in 0..7:
          for i.inner in 0..16:
            if i.outer*16 + i.inner < 100:   # tail of i split by 16
              B[i.outer*16 + i.inner] = A[i.outer*16 + i.inner] + 1
        >>> _ = cut[B].split(B.op.axis[0], factor=16, tail="cut")
        >>> print(cut)
        B(A: float32[100]) -> B: float32[100]
        <BLANKLINE>
        for i.outer in 0..6:
          for i.inner in 0..16:
            B[i.outer*16 + i.inner] = A[i.outer*16 + i.inner] + 1
        for i.inner in 0..4:
          B[i.inner + 96] = A[i.inner + 96] + 1

        A guard costs most on a vectorized loop, where it masks every load and store, and, if it
        tests a data axis, inside a reduction loop, where it keeps the sums in memory instead of in
        registers. (A guard on a reduction axis leaves them in registers.) So ``"auto"`` cuts if the
        cut is legal and one of these holds:

        * The inner loop is vectorized.
        * The extent is a number, and the inner loop is unrolled inside a reduction loop.
        * The extent is a number, and a vectorized or unrolled tile of another stage is computed
          inside the outer loop. A step on one stage may therefore change the loops of another.

        A cut is legal under three conditions. Otherwise ``"cut"`` is refused, and so is a later
        step that would make it illegal:

        * The outer loop is serial or parallel, and encloses the inner one.
        * The extent is never negative. ``(n - 3)//2 + 1`` may be, so write ``sl.max((n - 3)//2 + 1,
          0)`` in the shape.
        * The extent of the inner loop is a number. ``nparts`` of a symbolic extent makes it
          symbolic.

        Every cut copies the loops inside it: three cuts of one stage make eight copies, the most
        that ``"auto"`` makes. If the outer loop is parallel, the rest is its last iteration, so
        that all threads share one loop. The first ``if`` selects the iterations of the main part,
        and a stage computed inside has a smaller box in the rest:

        >>> A = sl.placeholder((34,), name="A")
        >>> B = sl.compute((34,), lambda i: A[i] * 2, name="B")
        >>> C = sl.compute((32,), lambda i: B[i] + B[i + 2], name="C")
        >>> s = sl.schedule(C)
        >>> outer, _ = s[C].split(C.op.axis[0], factor=10, tail="cut")
        >>> s[B].compute_at(s[C], outer)
        >>> s[C].parallel(outer)
        >>> print(s)
        C(A: float32[34]) -> C: float32[32]
        <BLANKLINE>
        parallel i.outer in 0..4:
          if i.outer < 3:
            B: float32[12]   global, 48 B
            for i in 0..12:
              B[i] = A[i.outer*10 + i] * 2
            for i.inner in 0..10:
              C[i.outer*10 + i.inner] = B[i.inner] + B[i.inner + 2]
          if i.outer == 3:   # rest of i split by 10
            B: float32[4]   global, 16 B
            for i in 0..4:
              B[i] = A[i.outer*10 + i] * 2
            for i.inner in 0..2:
              C[i.outer*10 + i.inner] = B[i.inner] + B[i.inner + 2]

        Under ``"auto"``, a symbolic extent gets a guard. To vectorize the inner loop, ask for a
        cut. The rest, which may be empty, then stands under an ``if``:

        >>> n = sl.var("n")
        >>> A = sl.placeholder((n,), name="A")
        >>> B = sl.compute((n,), lambda i: A[i] + 1, name="B")
        >>> s = sl.schedule(B)
        >>> _, lanes = s[B].split(B.op.axis[0], factor=16, tail="cut")
        >>> s[B].vectorize(lanes)
        >>> print(s)
        B(A: float32[n]) -> B: float32[n]
        <BLANKLINE>
        for i.outer in 0..n//16:
          vectorize i.inner in 0..16:
            B[i.outer*16 + i.inner] = A[i.outer*16 + i.inner] + 1
        if n//16*16 < n:   # rest of i split by 16
          vectorize i.inner in 0..16:
            if n//16*16 + i.inner < n:   # tail of i split by 16
              B[n//16*16 + i.inner] = A[n//16*16 + i.inner] + 1

        To unroll the inner loop of a symbolic extent, keep the guard: after a cut, the rest would
        have ``n%16`` iterations, and only loops whose extent is a number can be unrolled.
        """
        given = self._idle(idle, (parent, factor), (parent, nparts))
        return self._apply("split", axis=parent, factor=factor, nparts=nparts, tail=tail, **given)

    @of_stage
    def fuse(self, *axes: Axis) -> Axis:
        """Fuse loops into one over all their iterations; ``fuse()`` makes a loop of extent 1.

        Use it to give ``parallel`` or ``bind`` more iterations than one loop has. Requires adjacent
        loops, given outer to inner, without annotation. All must be data axes, or all reduction
        axes.

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
        return self._apply("fuse", axes=tuple(listed))

    @of_stage
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

        If a reduction axis moves outside a data axis, the sums start in a nest of their own:

        >>> A, k = sl.placeholder((4, 9), name="A"), sl.reduce_axis(9, name="k")
        >>> C = sl.compute((4,), lambda i: sl.sum(A[i, k], axis=k), name="C")
        >>> s = sl.schedule(C)
        >>> s[C].reorder(k, *C.op.axis)
        >>> print(s)
        C(A: float32[4, 9]) -> C: float32[4]
        <BLANKLINE>
        for i in 0..4:
          C[i] = 0
        for k in 0..9:
          for i in 0..4:
            C[i] += A[i, k]
        """
        listed = axes[0] if len(axes) == 1 and isinstance(axes[0], (list, tuple)) else axes
        self._apply("reorder", axes=tuple(listed))

    @of_stage
    def tile(
        self, x_parent: Axis, y_parent: Axis, x_factor: int, y_factor: int,
        tail: str = "auto", idle: bool = False,
    ) -> tuple[Axis, Axis, Axis, Axis]:  # fmt: skip
        """Split two loops and reorder them to ``(x.outer, y.outer, x.inner, y.inner)``.

        The elements are then visited in rectangles. Requires two different loops, each as for
        :meth:`split`, whose ``tail`` and ``idle`` hold for both.

        rewrite::

            for i in 0..8:          ->   for i.outer in 0..2:
              for j in 0..8:               for j.outer in 0..2:
                B[i, j] = ...                for i.inner in 0..4:
                                               for j.inner in 0..4:
                                                 B[i.outer*4 + i.inner, ...] = ...

        >>> import schedlang as sl
        >>> B = sl.compute((8, 8), lambda i, j: i + j, name="B")
        >>> s = sl.schedule(B)
        >>> s[B].tile(*s[B].op.axis, 4, 4)
        (i.outer, j.outer, i.inner, j.inner)
        """
        given = self._idle(idle, (x_parent, x_factor), (y_parent, y_factor))
        return self._apply(
            "tile", x=x_parent, y=y_parent, x_factor=x_factor, y_factor=y_factor, tail=tail, **given
        )

    def _idle(self, idle: bool, *splits: tuple[Axis, int | None]) -> dict[str, bool]:
        """Return the argument ``idle`` of a step if it has an effect.

        In a schedule of te it is true for a number of iterations that exceeds the loop's.
        """
        if self._schedule.of_te and not idle:
            counted = (
                (axis.extent, count)
                for axis, count in splits
                if isinstance(axis, Axis) and isinstance(count, int)
            )
            idle = any(isinstance(extent, int) and count > extent for extent, count in counted)
        return {"idle": idle} if idle else {}
