"""Methods that annotate loops: vectorize, unroll, parallel, bind, pragma, prefetch."""

from __future__ import annotations

from typing import Any

from schedlang.compute.tensor import Tensor
from schedlang.expr.nodes import Axis
from schedlang.schedule.misfits import of_stage
from schedlang.schedule.stage_methods.recording import Recording


class AnnotationMethods(Recording):
    """Methods that annotate loops."""

    @of_stage
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
        self._apply("vectorize", axis=axis)

    @of_stage
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
        self._apply("unroll", axis=axis)

    @of_stage
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
        self._apply("parallel", axis=axis)

    @of_stage
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
        self._apply("bind", axis=axis, thread=thread)

    @of_stage
    def pragma(self, axis: Axis, name: str, value: Any = None) -> None:
        """Attach a named hint to a loop, which the printed nest shows.

        Two names have an effect, on the CPU:

        * ``"nontemporal"``: aligned vectors that the stage stores inside the loop bypass the cache.
        * ``"serpentine"``: the loop goes backwards wherever the index of the serial loop next
          around it is odd, so that it begins with the data that it used last. Loops of other
          kinds in between do not count; in a scan, the loops of a step turn with the time axis.
          Requires a serial loop over elements that are computed independently: no reduction axis,
          no scan axis, no loop of a scatter. No rows may be kept from one iteration to the next
          (``store_at``, ``store_root``) or prefetched for a later one. ``sl.lower`` and
          ``sl.build`` refuse it if no serial loop is around. A loop of one iteration drops it, and
          each part of a cut loop turns by itself.

        The names of te that only tune (``"auto_unroll_max_step"``) and your own names with a dot
        (``"my.note"``) have no effect. Other names raise
        :class:`~schedlang.errors.ScheduleError`, and so do te's pragmas that change what is
        computed: ``"import_llvm"``, ``"import_c"`` and ``"debug_skip_region"``.

        rewrite::

            for i in 0..8:          ->   for i in 0..8:   # pragma unroll_hint = 4

        >>> import schedlang as sl
        >>> B = sl.compute((8,), lambda i: i + 1, name="B")
        >>> s = sl.schedule(B)
        >>> s[B].pragma(s[B].op.axis[0], "unroll_hint", 4)
        >>> s.nest().loops[0].pragmas
        (('unroll_hint', 4),)
        """
        self._apply("pragma", axis=axis, name=name, value=getattr(value, "value", value))

    @of_stage
    def prefetch(self, tensor: Tensor, axis: Axis, offset: int, at: Axis | None = None) -> None:
        """Prefetch the part of ``tensor`` that is accessed ``offset`` iterations of ``axis`` later.

        One element in each 64 bytes is prefetched, at the start of an iteration of ``axis``. With
        ``at``, a loop inside of ``axis``, the prefetches are spread: the iterations of the loops
        from ``axis`` in to ``at`` take the lines in order, an equal number each, and the iterations
        left over at the end take lines of the last row again. If the number of prefetches in an
        iteration is unknown or above 1024, ``sl.lower`` and ``sl.build`` refuse it. Requires an
        offset of 0 or more, and a tensor that this stage writes, or that this stage or one computed
        inside ``axis`` reads. Requires that no loop from ``axis`` in to ``at`` is vectorized or
        parallel.

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
        self._apply("prefetch", tensor=tensor, axis=axis, offset=offset, at=at)
