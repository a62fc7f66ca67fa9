"""Methods of a schedule that add stages, and one that lays out the arrays of arguments."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from schedlang.compute.tensor import Tensor
from schedlang.expr.nodes import Axis
from schedlang.schedule.misfits import of_schedule
from schedlang.schedule.refuse import refuse
from schedlang.schedule.stage_methods.index_map import indices_at, parts_of_array
from schedlang.state.layout import Part, with_whole_ends
from schedlang.state.primitives.argument_layout import dimensions
from schedlang.state.primitives.arguments import names, text_of
from schedlang.state.state import Stage


class DataflowMethods(ABC):
    """Methods on what stages read and write; :class:`~schedlang.schedule.Schedule` has them."""

    @abstractmethod
    def apply(self, primitive: str, stage: str, **args: Any) -> Any: ...

    @abstractmethod
    def _stage(self, key: Any, asked: str) -> Stage: ...

    @of_schedule
    def cache_read(self, tensor: Tensor, scope: str, readers: Any) -> Tensor:
        """Add a stage that copies ``tensor`` to ``scope``, where ``readers`` read it; return it.

        Like any stage, the copy may be attached at the loop that uses it, and laid out by
        ``transform_layout``. ``readers`` is a stage (or its tensor) or a list of them. Requires
        that each of them reads ``tensor``, which is an input or a stage of this schedule.

        rewrite::

            for i in 0..8:           ->   for ax0 in 0..8:
              C[i] = A[i] + 1               A.local[ax0] = A[ax0]
                                          for i in 0..8:
                                            C[i] = A.local[i] + 1

        >>> import schedlang as sl
        >>> A = sl.placeholder((8,), name="A")
        >>> C = sl.compute((8,), lambda i: A[i] + 1, name="C")
        >>> s = sl.schedule(C)
        >>> s.cache_read(A, "local", [C])
        Tensor(A.local: float32[8])

        Here each row of a matrix product copies a row of ``A``:

        >>> A, B = sl.placeholder((64, 64), name="A"), sl.placeholder((64, 64), name="B")
        >>> k = sl.reduce_axis(64, name="k")
        >>> C = sl.compute((64, 64), lambda i, j: sl.sum(A[i, k] * B[k, j], axis=k), name="C")
        >>> s = sl.schedule(C)
        >>> near = s.cache_read(A, "local", [C])
        >>> s[near].compute_at(s[C], s[C].op.axis[0])
        >>> print(s)
        C(A: float32[64, 64], B: float32[64, 64]) -> C: float32[64, 64]
        <BLANKLINE>
        for i in 0..64:
          A.local: float32[1, 64]   local, 256 B
          for ax1 in 0..64:
            A.local[0, ax1] = A[i, ax1]
          for j in 0..64:
            C[i, j] = 0
            for k in 0..64:
              C[i, j] += A.local[0, k] * B[k, j]
        """
        asked = f"cache_read({text_of(tensor)}, {scope!r}, ...)"
        if not isinstance(tensor, Tensor):
            refuse(asked, f"{text_of(tensor)} is not a tensor", "Give the tensor to copy.")
        items = list(readers) if isinstance(readers, (list, tuple)) else [readers]
        stages_reading = tuple(self._stage(r, asked) for r in items)
        return self.apply("cache_read", "", tensor=tensor, scope=scope, readers=stages_reading)

    @of_schedule
    def cache_write(self, tensor: Any, scope: str) -> Any:
        """Add a stage that computes ``tensor`` in ``scope``; return the new tensor.

        The new stage takes over the computation and its reduction axes, which are then its
        ``op.reduce_axis``. The stage of ``tensor`` keeps its data axes and copies the result. The
        reads move too, so call :meth:`cache_read` afterwards, and name the new stage as the reader.
        For a list of all outputs of one computation, return a list. Earlier steps on data axes stay
        with the stage of ``tensor``. Requires a stage without steps on its reduction axes, neither
        inlined nor a scan.

        rewrite::

            for i in 0..8:           ->   for i in 0..8:
              C[i] = A[i] + 1               C.local[i] = A[i] + 1
                                          for i in 0..8:
                                            C[i] = C.local[i]

        >>> import schedlang as sl
        >>> A = sl.placeholder((8,), name="A")
        >>> C = sl.compute((8,), lambda i: A[i] + 1, name="C")
        >>> s = sl.schedule(C)
        >>> s.cache_write(C, "local")
        Tensor(C.local: float32[8])

        In a matrix product, this makes a separate tile of sums:

        >>> A, B = sl.placeholder((64, 64), name="A"), sl.placeholder((64, 64), name="B")
        >>> k = sl.reduce_axis(64, name="k")
        >>> C = sl.compute((64, 64), lambda i, j: sl.sum(A[i, k] * B[k, j], axis=k), name="C")
        >>> s = sl.schedule(C)
        >>> tile = s.cache_write(C, "local")
        >>> io, jo, ii, ji = s[C].tile(*s[C].op.axis, 4, 16)
        >>> s[tile].compute_at(s[C], jo)
        >>> print(s)
        C(A: float32[64, 64], B: float32[64, 64]) -> C: float32[64, 64]
        <BLANKLINE>
        for i.outer in 0..16:
          for j.outer in 0..4:
            C.local: float32[4, 16]   local, 256 B
            for i in 0..4:
              for j in 0..16:
                C.local[i, j] = 0
                for k in 0..64:
                  C.local[i, j] += A[i.outer*4 + i, k] * B[k, j.outer*16 + j]
            for i.inner in 0..4:
              for j.inner in 0..16:
                C[i.outer*4 + i.inner, j.outer*16 + j.inner] = C.local[i.inner, j.inner]
        """
        stage, several = self._one_stage(tensor, "cache_write")
        result = self.apply("cache_write", stage.name, scope=scope)
        return [result] if several and not isinstance(result, list) else result

    @of_schedule
    def rfactor(self, tensor: Any, axis: Axis, factor_axis: int = 0) -> Any:
        """Add a stage of partial results along reduction ``axis``; return its tensor.

        In the new stage ``axis`` is a data axis, which may be vectorized or parallel: it is
        dimension ``factor_axis`` of the tensor. The reduction axes that remain are its
        ``op.reduce_axis``. This is legal since reducers are associative and commutative (Suriana,
        Adams and Kamil, "Parallel associative reductions in Halide", CGO 2017); a sum of
        floating-point numbers has another order, and so another rounding. For a scatter, each
        iteration of ``axis`` updates a private copy of the result. Requires a reduction axis of a
        stage whose loops have had no other steps so far than splits and fuses of its reduction
        axes; the stage may have its place already.

        rewrite::

            for k.outer in 0..4:     ->   for k.inner in 0..4:
              for k.inner in 0..4:          for k.outer in 0..4:
                C[i] += A[i, ...]             C.rf[k.inner, i] += A[i, ...]
                                          for k.inner in 0..4:
                                            C[i] += C.rf[k.inner, i]

        Here 8 lanes each add up a part of a row:

        >>> import schedlang as sl
        >>> A = sl.placeholder((32, 256), name="A")
        >>> k = sl.reduce_axis(256, name="k")
        >>> C = sl.compute((32,), lambda i: sl.sum(A[i, k], axis=k), name="C")
        >>> s = sl.schedule(C)
        >>> _, lanes = s[C].split(k, factor=8)
        >>> partial = s.rfactor(C, lanes)
        >>> partial
        Tensor(C.rf: float32[8, 32])
        >>> lanes, i = s[partial].op.axis
        >>> (steps,) = s[partial].op.reduce_axis
        >>> s[partial].reorder(i, steps, lanes)
        >>> s[partial].vectorize(lanes)
        >>> print(s)
        C(A: float32[32, 256]) -> C: float32[32]
        <BLANKLINE>
        C.rf: float32[8, 32]   global, 1024 B
        for i in 0..32:
          vectorize k.inner in 0..8:
            C.rf[k.inner, i] = 0
          for k.outer in 0..32:
            vectorize k.inner in 0..8:
              C.rf[k.inner, i] += A[i, k.outer*8 + k.inner]
        for i in 0..32:
          C[i] = 0
          for k.inner in 0..8:
            C[i] += C.rf[k.inner, i]
        """
        stage, several = self._one_stage(tensor, "rfactor")
        result = self.apply("rfactor", stage.name, axis=axis, factor_axis=factor_axis)
        return [result] if several and not isinstance(result, list) else result

    @of_schedule
    def pad_einsum(self, tensor: Any, padding: Any) -> list[Tensor]:
        """Let a sum of products read operands that zeros lengthen; return the copies.

        ``padding`` has a multiple for each axis of the stage, data axes first: a reduction axis
        takes as many further steps, which add 0. Along a data axis, the operands alone become
        longer, so that tiles of the stage may read past its end. A multiple of 1 leaves an axis as
        it is. (The name is TVM's.) Each copy is a stage, to be laid out and computed like any
        other. Requires a sum of products of elements without conditions, on which no step was taken
        so far; a padded axis has a constant extent and is the index of a whole dimension in each
        factor that is read along it, which all are along a padded reduction axis.

        rewrite::

            for k in 0..7:           ->   for ax0 in 0..8:
              C[()] += A[k] * B[k]          A.pad[ax0] = ax0 < 7 ? A[ax0] : 0
                                            B.pad[ax0] = ax0 < 7 ? B[ax0] : 0
                                          for k in 0..8:
                                            C[()] += A.pad[k] * B.pad[k]

        >>> import schedlang as sl
        >>> A, B = sl.placeholder((9, 7), name="A"), sl.placeholder((7, 20), name="B")
        >>> k = sl.reduce_axis(7, name="k")
        >>> C = sl.compute((9, 20), lambda i, j: sl.sum(A[i, k] * B[k, j], axis=k), name="C")
        >>> s = sl.schedule(C)
        >>> s.pad_einsum(C, [1, 16, 4])
        [Tensor(A.pad: float32[9, 8]), Tensor(B.pad: float32[8, 32])]
        >>> s[C].op.reduce_axis[0].extent
        8
        """
        stage, _ = self._one_stage(tensor, "pad_einsum")
        given = tuple(padding) if isinstance(padding, list) else padding
        return list(self.apply("pad_einsum", stage.name, padding=given))

    @of_schedule
    def shift_operand(self, tensor: Any, operand: Tensor, dtype: str) -> list[Tensor]:
        """Let a sum of products read an operand with the other sign; return the new tensors.

        A dot product of a processor may take one signed and one unsigned operand. Half of the range
        is added to each element of ``operand``: int8 becomes uint8, or the other way round, and so
        do integers of 16 bits. Sums of the other factor, times that half, are where the sum then
        starts from, so that the result is the same, also where it wraps. The new tensors are the
        shifted operand and these sums; both are stages like any other. Requires a sum, in a signed
        dtype that is longer than the operand's, of products of two factors, without conditions, on
        which no step was taken so far.

        rewrite::

            for k in 0..8:           ->   for ax0 in 0..8:
              C += int32(A[k])              B.shift[ax0] = uint8(B[ax0]) ^ 128
                   * int32(B[k])          for k in 0..8:
                                            C.sums += int32(A[k])
                                          C = C.sums*-128
                                          for k in 0..8:
                                            C += int32(A[k]) * int32(B.shift[k])

        >>> import schedlang as sl
        >>> A, B = (sl.placeholder((8, 8), "int8", name=name) for name in "AB")
        >>> k = sl.reduce_axis(8, name="k")
        >>> a, b = (lambda i: A[i, k].astype("int32")), (lambda j: B[k, j].astype("int32"))
        >>> C = sl.compute((8, 8), lambda i, j: sl.sum(a(i) * b(j), axis=k), name="C")
        >>> s = sl.schedule(C)
        >>> s.shift_operand(C, B, "uint8")
        [Tensor(B.shift: uint8[8, 8]), Tensor(C.sums: int32[8])]
        """
        stage, _ = self._one_stage(tensor, "shift_operand")
        return list(self.apply("shift_operand", stage.name, tensor=operand, dtype=dtype))

    @of_schedule
    def transform_argument(self, tensor: Tensor, index_map: Callable[..., Any]) -> None:
        """Let the caller pass the array of an input or output in another shape and order.

        ``index_map`` maps dimensions of ``tensor`` to the index in the array. Each index is a part
        ``d``, ``d//n`` or ``d%n`` of one dimension, or counts several, such as ``i*32 + j`` where
        ``j`` has 32 values. Computations and ``sl.reference`` know the tensor alone: give them
        arrays of its shape. So do searches, which refuse such a schedule: call this on the schedule
        that they return. Loops do not change. (In te it is part of ``transform_layout``, as it is
        here in schedules of ``te.create_schedule``.) Requires sizes that are numbers, divisors of
        the extents, and indices that determine every dimension; a scan and a function of yours know
        their arrays.

        rewrite::

            A: float32[8, 32]       ->   A: float32[2, 8, 16]
            ... = A[k, j]                ... = A[j//16, k, j%16]

        >>> import schedlang as sl, numpy as np
        >>> A = sl.placeholder((8, 32), name="A")
        >>> C = sl.compute((8, 32), lambda k, j: A[k, j] + 1, name="C")
        >>> s = sl.schedule(C)
        >>> s.transform_argument(A, lambda k, j: (j // 16, k, j % 16))
        >>> a = np.random.rand(8, 32).astype("float32")
        >>> packed = a.reshape(8, 2, 16).transpose(1, 0, 2).copy()
        >>> np.array_equal(sl.build(s, [A, C], "python")(packed), a + 1)
        True
        """
        shown = tensor.name if isinstance(tensor, Tensor) else text_of(tensor)
        asked = f"transform_argument({shown}, index_map)"
        if not isinstance(tensor, Tensor):
            refuse(asked, f"{shown} is not a tensor", "Give an input or an output.")
        axes = dimensions(tensor)
        indices = indices_at(index_map, axes, asked, tensor.name)
        self.lay_out(tensor, parts_of_array(indices, axes, asked))

    def lay_out(self, tensor: Tensor, dims: list[list[Part]]) -> None:
        """Let the dimensions of an argument's array hold these parts of ``tensor``."""
        flat = tuple(part for parts in dims for part in parts)
        whole = with_whole_ends(flat, dimensions(tensor))
        numbers = tuple(n for p in whole for n in (p.dim, p.divisor, p.modulus))
        counts = tuple(len(parts) for parts in dims)
        self.apply("transform_argument", "", tensor=tensor, parts=numbers, counts=counts)

    def _one_stage(self, tensor: Any, primitive: str) -> tuple[Stage, bool]:
        several = isinstance(tensor, (list, tuple))
        items = list(tensor) if several else [tensor]
        asked = f"{primitive}({names(items)}, ...)" if primitive != "s" else f"s[[{names(items)}]]"
        stages = [self._stage(t, asked) for t in items]
        if not stages or any(s is not stages[0] for s in stages):
            hint = "Give one tensor, or all outputs of a single sl.compute."
            refuse(asked, "these are not the outputs of one computation", hint)
        return stages[0], several
