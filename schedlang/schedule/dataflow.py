"""Methods of a schedule that add a stage: cache_read, cache_write, rfactor."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from schedlang.compute.tensor import Tensor
from schedlang.expr.nodes import Axis
from schedlang.schedule.misfits import of_schedule
from schedlang.schedule.refuse import refuse
from schedlang.state.primitives.arguments import names, text_of
from schedlang.state.state import Stage


class DataflowMethods(ABC):
    """Methods that add a stage. :class:`~schedlang.schedule.Schedule` derives from it."""

    @abstractmethod
    def apply(self, primitive: str, stage: str, **args: Any) -> Any: ...

    @abstractmethod
    def _stage(self, key: Any, asked: str) -> Stage: ...

    @of_schedule
    def cache_read(self, tensor: Tensor, scope: str, readers: Any) -> Tensor:
        """Add a stage that copies ``tensor`` to ``scope``, where ``readers`` read it; return it.

        ``readers`` is a stage (or its tensor) or a list of them. Requires that each of them reads
        ``tensor``, which is an input or a stage of this schedule.

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

        The new stage takes over the computation and its reduction axes. The stage of ``tensor``
        keeps its data axes and copies the result. For a list of all outputs of one computation,
        return a list. Requires a stage without steps, neither inlined nor a scan.

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
        """
        stage, several = self._one_stage(tensor, "cache_write")
        result = self.apply("cache_write", stage.name, scope=scope)
        return [result] if several and not isinstance(result, list) else result

    @of_schedule
    def rfactor(self, tensor: Any, axis: Axis, factor_axis: int = 0) -> Any:
        """Add a stage of partial results along reduction ``axis``; return its tensor.

        In the new stage ``axis`` is a data axis, which may be vectorized or parallel; it is
        dimension ``factor_axis`` of the tensor. This is legal since reducers are associative and
        commutative (Suriana, Adams and Kamil, "Parallel associative reductions in Halide", CGO
        2017). Requires a reduction axis of a stage whose only steps so far are splits and fuses
        of its reduction axes.

        rewrite::

            for k.outer in 0..4:     ->   for k.inner in 0..4:
              for k.inner in 0..4:          for k.outer in 0..4:
                C[i] += A[i, ...]             C.rf[k.inner, i] += A[i, ...]
                                          for k.inner in 0..4:
                                            C[i] += C.rf[k.inner, i]

        >>> import schedlang as sl
        >>> A = sl.placeholder((8, 16), name="A")
        >>> k = sl.reduce_axis(16, name="k")
        >>> C = sl.compute((8,), lambda i: sl.sum(A[i, k], axis=k), name="C")
        >>> s = sl.schedule(C)
        >>> ko, ki = s[C].split(k, factor=4)
        >>> s.rfactor(C, ki)
        Tensor(C.rf: float32[4, 8])
        """
        stage, several = self._one_stage(tensor, "rfactor")
        result = self.apply("rfactor", stage.name, axis=axis, factor_axis=factor_axis)
        return [result] if several and not isinstance(result, list) else result

    def _one_stage(self, tensor: Any, primitive: str) -> tuple[Stage, bool]:
        several = isinstance(tensor, (list, tuple))
        items = list(tensor) if several else [tensor]
        asked = f"{primitive}({names(items)}, ...)" if primitive != "s" else f"s[[{names(items)}]]"
        stages = [self._stage(t, asked) for t in items]
        if not stages or any(s is not stages[0] for s in stages):
            hint = "Give one tensor, or all outputs of a single sl.compute."
            refuse(asked, "these are not the outputs of one computation", hint)
        return stages[0], several
