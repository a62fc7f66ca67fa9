"""Methods that annotate loops: vectorize, unroll, parallel, bind, pragma, prefetch."""

from __future__ import annotations

from typing import Any

from schedlang.compute.tensor import Tensor
from schedlang.expr.nodes import Axis
from schedlang.instructions.declaration import Instruction
from schedlang.schedule.misfits import of_stage
from schedlang.schedule.stage_methods.recording import Recording
from schedlang.state.state import PIPELINE


class AnnotationMethods(Recording):
    """Methods that annotate loops."""

    @of_stage
    def vectorize(self, axis: Axis) -> None:
        """Compute all iterations of ``axis`` at once, as lanes of a vector.

        A vector has exactly as many elements as the loop has iterations, and the compiler maps it
        to machine registers. Requires a data axis of constant extent without annotation, at which
        no stage is computed. A reduction axis is refused, since all lanes would add into the same
        element: make partial sums with :meth:`~schedlang.schedule.Schedule.rfactor` first.

        rewrite::

            for i in 0..8:          ->   vectorize i in 0..8:
              B[i] = A[i] + 1              B[i] = A[i] + 1

        >>> import schedlang as sl
        >>> B = sl.compute((8,), lambda i: i + 1, name="B")
        >>> s = sl.schedule(B)
        >>> s[B].vectorize(s[B].op.axis[0])
        >>> s.nest().loops[0].kind
        'vectorize'

        A clamped, wrapped or tested index makes a vectorized read a gather or a masked load,
        although it changes nothing in most iterations. So a serial loop around the vectorized one
        is split into edges and an interior, if the interior then needs no clamps. No step asks for
        it:

        >>> A = sl.placeholder((32,), name="A")
        >>> P = sl.pad(A, 1, mode="edge", name="P")
        >>> B = sl.compute((32,), lambda i: P[i] + P[i + 2], name="B")
        >>> s = sl.schedule(B)
        >>> s[P].compute_inline()
        >>> _, lanes = s[B].split(B.op.axis[0], factor=8)
        >>> s[B].vectorize(lanes)
        >>> print(s)
        B(A: float32[32]) -> B: float32[32]
        <BLANKLINE>
        vectorize i.inner in 0..8:
          B[i.inner] = A[max(i.inner - 1, 0)] + A[i.inner + 1]
        for i.outer in 0..2:
          vectorize i.inner in 0..8:
            B[i.outer*8 + i.inner + 8] = A[i.outer*8 + i.inner + 7] + A[i.outer*8 + i.inner + 9]
        vectorize i.inner in 0..8:
          B[i.inner + 24] = A[i.inner + 23] + A[min(i.inner + 25, 31)]

        The interior starts at iteration 1 of ``i.outer``, so 8 is added to its indices. A parallel
        loop, a loop of symbolic extent and the loops of a schedule for GPUs keep their clamps.

        :func:`schedlang.build` warns with :class:`~schedlang.errors.StrideWarning` if lanes far
        apart in memory take a large part of a kernel's time.
        """
        if self._schedule.of_te:
            self._move_out_of(axis)
        self._apply("vectorize", axis=axis)

    def _move_out_of(self, lanes: Axis) -> None:
        """Compute the stages at a loop that will be vectorized at the loop outside of it.

        Raise the errors of both steps, and then leave the schedule as it was.
        """
        from schedlang.schedule.lanes import attached_at, loop_outside

        held = list(attached_at(self._schedule.state, self._stage, lanes))
        if not held:
            return
        # the steps together are legal or refused
        trial = self._schedule.copy()
        for s in (trial, self._schedule):
            around = loop_outside(s.state, self._stage, lanes, lanes)
            for stage in held:
                if around is None:
                    s.apply("compute_root", stage.name)
                else:
                    s.apply("compute_at", stage.name, parent=around[0], axis=around[1])
            if s is trial:
                s.apply("vectorize", self.name, axis=lanes)

    @of_stage
    def unroll(self, axis: Axis) -> None:
        """Unroll the loop: repeat its body once for each iteration.

        Requires a loop without annotation, of constant extent 1024 or less.

        rewrite::

            for i in 0..2:          ->   unroll i in 0..2:
              B[i] = A[i] + 1              B[i] = A[i] + 1

        >>> import schedlang as sl
        >>> B = sl.compute((2,), lambda i: i + 1, name="B")
        >>> s = sl.schedule(B)
        >>> s[B].unroll(s[B].op.axis[0])
        >>> s.nest().loops[0].kind
        'unroll'

        Each copy has a number in place of ``axis``. Every copy is compiled, and the copies of
        nested loops multiply. A few tens, such as the rows of a tile of sums, are cheap. If there
        are more than 128, blocks of 64 are written out, in a loop over the blocks: the jump after
        64 copies costs nothing. In or around a reduction, and around the storage of another stage,
        all copies are written out, since they may keep values in registers; several hundred take
        seconds to compile. A kernel of more than 100,000 statements is refused.
        """
        self._apply("unroll", axis=axis)

    @of_stage
    def tensorize(self, axis: Axis, instruction: Instruction) -> None:
        """Replace the loops from ``axis`` inwards by an instruction of the processor.

        ``instruction`` is one of :mod:`schedlang.instructions`, or one that you declare with
        :func:`schedlang.instruction`. Requires that these loops compute what the instruction
        declares: their extents, dtypes and operations are the same, and the elements of each
        operand lie one after the other, in the order of the declaration. A refusal says what
        differs. The rest of a split with ``tail="cut"`` runs as loops. So do all of them on a
        target without the instruction's language, such as ``"python"``.

        rewrite::

            for k.outer in 0..8:                   ->   for k.outer in 0..8:
              for j in 0..16:                             tensorize vpdpbusd j in 0..16:
                for k.inner in 0..4:                        for k.inner in 0..4:
                  C[j] += A[k] * B[k.outer, j, k.inner]       C[j] += A[k] * B[k.outer, j, k.inner]

        >>> import schedlang as sl
        >>> A = sl.placeholder((32,), "uint8", name="A")
        >>> B = sl.placeholder((8, 16, 4), "int8", name="B")
        >>> k = sl.reduce_axis(32, name="k")
        >>> def dot(j):
        ...     return sl.sum(A[k].astype("int32") * B[k // 4, j, k % 4].astype("int32"), axis=k)
        >>> C = sl.compute((16,), dot, name="C")
        >>> s = sl.schedule(C)
        >>> (j,), (k,) = s[C].op.axis, s[C].op.reduce_axis
        >>> outer, inner = s[C].split(k, factor=4)
        >>> s[C].reorder(outer, j, inner)
        >>> s[C].tensorize(j, sl.instructions.vpdpbusd)
        >>> print(s)
        C(A: uint8[32], B: int8[8, 16, 4]) -> C: int32[16]
        <BLANKLINE>
        vectorize j in 0..16:
          C[j] = 0
        for k.outer in 0..8:
          tensorize vpdpbusd j in 0..16:
            for k.inner in 0..4:
              C[j] += int32(A[k.outer*4 + k.inner]) * int32(B[k.outer, j, k.inner])
        """
        self._apply("tensorize", axis=axis, instruction=instruction)

    @of_stage
    def parallel(self, axis: Axis) -> None:
        """Distribute the iterations of ``axis`` over CPU threads.

        Requires a data axis without annotation. A reduction axis is refused, since all iterations
        would add into the same element: make partial sums with
        :meth:`~schedlang.schedule.Schedule.rfactor` first. So are a loop inside a vectorized one,
        and a schedule that also uses :meth:`bind`: a schedule is for a CPU or for a GPU. The
        verifier refuses a nest in which two iterations write the same element.

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

        The thread is ``blockIdx`` or ``threadIdx`` with ``.x``, ``.y`` or ``.z``, or ``vthread``;
        te's ``sl.thread_axis((0, extent), tag)`` is accepted too. Requires a loop without
        annotation, and a thread axis to which no other loop of the stage is bound. A reduction axis
        may be bound to ``threadIdx`` only, whose threads then reduce together; the reduction axis
        of a scatter may be bound to ``blockIdx`` too. :func:`schedlang.build` refuses a bound loop
        for a CPU.

        rewrite::

            for i in 0..64:         ->   threadIdx.x i in 0..64:
              B[i] = A[i] + 1              B[i] = A[i] + 1

        >>> import schedlang as sl
        >>> B = sl.compute((64,), lambda i: i + 1, name="B")
        >>> s = sl.schedule(B)
        >>> block, thread = s[B].split(s[B].op.axis[0], factor=32)
        >>> s[B].bind(block, "blockIdx.x")
        >>> s[B].bind(thread, "threadIdx.x")
        >>> print(s)
        B() -> B: int64[64]
        <BLANKLINE>
        blockIdx.x i.outer in 0..2:
          threadIdx.x i.inner in 0..32:
            B[i.outer*32 + i.inner] = i.outer*32 + i.inner + 1
        """
        if isinstance(thread, Axis) and thread.tag == PIPELINE:
            self._apply("pragma", axis=axis, name=PIPELINE)
        else:
            self._apply("bind", axis=axis, thread=thread)

    @of_stage
    def pragma(self, axis: Axis, name: str, value: Any = None) -> None:
        """Attach a named hint to a loop, which the printed nest shows as a comment.

        rewrite::

            for i in 0..8:          ->   for i in 0..8:   # pragma my.order = 1

        >>> import schedlang as sl
        >>> B = sl.compute((8,), lambda i: i + 1, name="B")
        >>> s = sl.schedule(B)
        >>> s[B].pragma(s[B].op.axis[0], "my.order", 1)
        >>> s.nest().loops[0].pragmas
        (('my.order', 1),)

        Two names change the code for a CPU.

        ``"nontemporal"``: the vectors that the stage stores inside the loop bypass the cache, so
        that the overwritten cache lines are not read first. Use it for results that the last cache
        does not hold beside what the kernel reads (see ``Target.last_cache``), as
        :func:`schedlang.autoschedule` does; it slows down results that are read again soon.
        :func:`schedlang.build` refuses it if the loop holds no vectorized store. Only aligned
        vectors bypass the cache: each store checks at run time that its address is a multiple of
        the vector's size, or of 64 bytes for larger vectors. Outputs of 1 MiB and more that a
        kernel allocates start at such an address. NumPy's large arrays start 16 bytes past one, so
        none of their stores qualify. To pass an output, allocate an aligned one:

        >>> import numpy as np
        >>> room = np.empty(64 * 4 + 64, "uint8")
        >>> start = -room.ctypes.data % 64
        >>> out = room[start : start + 64 * 4].view("float32")
        >>> A = sl.placeholder((64,), name="A")
        >>> B = sl.compute((64,), lambda i: A[i] + 1, name="B")
        >>> s = sl.schedule(B)
        >>> outer, inner = s[B].split(B.op.axis[0], factor=16)
        >>> s[B].vectorize(inner)
        >>> s[B].pragma(outer, "nontemporal")
        >>> _ = sl.build(s, [A, B])(np.ones(64, "float32"), out)
        >>> out.ctypes.data % 64 == 0 and bool((out == 2).all())
        True

        ``"serpentine"``: the loop goes backwards wherever the index of the serial loop next around
        it is odd. Use it where the loop reads somewhat more than a cache holds: in one direction
        each line is evicted before the loop comes back to it, but back and forth each run begins
        with the data that the run before it used last. Here all rows of ``Y`` read the same matrix
        ``W``, and every other row reads its panels in the opposite order:

        >>> X, W = sl.placeholder((6, 512), name="X"), sl.placeholder((512, 2048), name="W")
        >>> k = sl.reduce_axis(512, name="k")
        >>> Y = sl.compute((6, 2048), lambda i, j: sl.sum(X[i, k] * W[k, j], axis=k), name="Y")
        >>> s = sl.schedule(Y)
        >>> i, j = s[Y].op.axis
        >>> panel, lane = s[Y].split(j, factor=64)
        >>> s[Y].reorder(i, panel, k, lane)
        >>> s[Y].vectorize(lane)
        >>> s[Y].pragma(panel, "serpentine")
        >>> turned = "j_outer = j_outer_turn if i%2 == 0 else 31 - j_outer_turn"
        >>> turned in sl.build(s, [X, W, Y]).source
        True

        It requires a serial loop over elements that are computed independently: no reduction axis,
        no scan axis, no loop of a scatter. No rows may be kept from one iteration to the next
        (``store_at``, ``store_root``) or prefetched for a later one. ``sl.lower`` and ``sl.build``
        refuse it if no serial loop is around; loops of other kinds in between do not count. In a
        scan, the loops of a step turn with the time axis. Each part of a cut loop turns by itself,
        and a loop of one iteration drops the pragma.

        Pragmas of te that only tune are accepted and have no effect: ``auto_unroll_max_step``,
        ``auto_unroll_max_depth``, ``auto_unroll_max_extent``, ``unroll_explicit``, ``unroll_hint``,
        ``parallel_launch_point``, ``parallel_stride_pattern``, ``parallel_barrier_when_finish``,
        ``loop_partition_hint``, ``tensor_core``. ``import_c`` and ``import_llvm`` bring the code of
        functions that instructions call (``te.decl_tensor_intrin``); no file holds a schedule with
        them. ``debug_skip_region``, which leaves a loop out, raises
        :class:`~schedlang.errors.ScheduleError`. Your own names must contain a dot; any other name
        is refused, since it may be a typing error.
        """
        self._apply("pragma", axis=axis, name=name, value=getattr(value, "value", value))

    @of_stage
    def prefetch(self, tensor: Tensor, axis: Axis, offset: int, at: Axis | None = None) -> None:
        """Prefetch the part of ``tensor`` that is accessed ``offset`` iterations of ``axis`` later.

        If ``tensor`` is the stage's own, the elements that the loop will write are prefetched. Use
        it for panels that come from an outer level of the caches, and for reads a page apart:
        hardware detects simple streams on its own. Requires an offset of 0 or more, and a tensor
        that this stage writes, or that this stage or one computed inside ``axis`` reads. A later
        step after which the loop no longer reads ``tensor`` from outside is refused, such as
        ``cache_read`` of it: take such a step before the prefetch.

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

        One element in each 64 bytes, a cache line, is prefetched along the last dimension, at the
        start of an iteration of ``axis``. So choose a loop whose iterations touch few cache lines.
        If the number of prefetches in an iteration is unknown or above 1024, ``sl.lower`` and
        ``sl.build`` refuse it.

        With ``at``, a loop inside of ``axis``, the prefetches are spread: the iterations of the
        loops from ``axis`` in to ``at`` take the lines in order, an equal number each. Iterations
        left over at the end take lines of the last row again, so choose a loop with about as many
        iterations as there are lines. The lines of an iteration that a guard skips are not
        prefetched. No loop from ``axis`` in to ``at`` may be vectorized or parallel. Below, four
        rows of ``A`` are multiplied with a panel of 8 rows and 64 columns of ``B``, which has 32
        lines. Each of the 32 iterations of ``i.inner`` and ``k.inner`` requests one line of the
        next panel. Without ``at``, an iteration of ``k.outer`` would request all 32 lines at once,
        while it waits for its own:

        >>> A, B = sl.placeholder((64, 64), name="A"), sl.placeholder((64, 64), name="B")
        >>> k = sl.reduce_axis(64, name="k")
        >>> C = sl.compute((64, 64), lambda i, j: sl.sum(A[i, k] * B[k, j], axis=k), name="C")
        >>> s = sl.schedule(C)
        >>> i, j = s[C].op.axis
        >>> rows, i = s[C].split(i, factor=4)
        >>> k_outer, k_inner = s[C].split(k, factor=8)
        >>> s[C].reorder(rows, k_outer, i, k_inner, j)
        >>> s[C].vectorize(j)
        >>> s[C].prefetch(B, k_outer, 1, at=k_inner)
        >>> print(str(s).splitlines()[9].strip())
        prefetch B[min(k.outer*8 + i.inner*2 + k.inner//4 + 8, 63), k.inner%4*16]

        Halide's ``prefetch(B, at, from, offset)`` names two loops, too, but there each iteration of
        ``at`` requests the same lines for every row.
        """
        self._apply("prefetch", tensor=tensor, axis=axis, offset=offset, at=at)
