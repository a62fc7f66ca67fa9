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
        tail: str = "auto",
    ) -> tuple[Axis, Axis]:  # fmt: skip
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
        return self._apply("split", axis=parent, factor=factor, nparts=nparts, tail=tail)

    @of_stage
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
        """
        listed = axes[0] if len(axes) == 1 and isinstance(axes[0], (list, tuple)) else axes
        self._apply("reorder", axes=tuple(listed))

    @of_stage
    def tile(
        self, x_parent: Axis, y_parent: Axis, x_factor: int, y_factor: int,
        tail: str = "auto",
    ) -> tuple[Axis, Axis, Axis, Axis]:  # fmt: skip
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
        return self._apply(
            "tile", x=x_parent, y=y_parent, x_factor=x_factor, y_factor=y_factor, tail=tail
        )
