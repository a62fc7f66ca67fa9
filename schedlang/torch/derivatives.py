"""The gradient of an operator as kernels, by ``sl.gradient``."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Union, cast

from schedlang.autotune.at_once.scheduler import autoschedule
from schedlang.compute.graph import operations
from schedlang.compute.tensor import Tensor, placeholder
from schedlang.expr import dtypes
from schedlang.expr.nodes import Var
from schedlang.gradient.reverse import gradient
from schedlang.runtime.kernel import Kernel
from schedlang.target import Target
from schedlang.targets.build import build
from schedlang.torch.shapes import Graph

Input = Union[Tensor, Var, None]


@dataclass(frozen=True, eq=False)
class Derivative:
    """The gradients of a computation by its inputs, given the gradients of a loss by its outputs.

    A kernel computes the gradients that a backward pass needs, and is made when it is first needed.
    """

    graph: Graph
    target: Target
    heads: tuple[Tensor, ...]
    _grads: dict[tuple[int, ...], tuple[Tensor, ...]] = field(default_factory=dict)
    _kernels: dict[tuple[int, ...], Kernel] = field(default_factory=dict)
    _lock: Any = field(default_factory=threading.Lock)

    @staticmethod
    def of(graph: Graph, target: Target) -> Derivative:
        names = {t.name for t in graph.inputs if t is not None}
        heads = []
        for output in graph.outputs:
            name = f"{output.name}_grad"
            while name in names:
                name += "_"
            heads.append(placeholder(output.shape, output.dtype, name=name))
        return Derivative(graph, target, tuple(heads))

    def differentiable(self, needed: Sequence[int]) -> list[int]:
        """Return the inputs in ``needed`` on which floats or complex numbers of a result depend."""
        reached = {*operations([t for t in self.graph.outputs if _is_continuous(t)])}
        return [k for k in needed if cast(Tensor, self.graph.inputs[k]).op in reached]

    def by(self, needed: Sequence[int]) -> tuple[Tensor, ...]:
        """Return the gradients by the inputs at the positions ``needed``, all differentiable.

        Raises :class:`~schedlang.errors.ComputeError` and
        :class:`~schedlang.errors.ComputeTypeError` where there is none.
        """
        key = tuple(needed)
        if key not in self._grads:
            self._grads[key] = self._derived(key)
        return self._grads[key]

    def _derived(self, needed: Sequence[int]) -> tuple[Tensor, ...]:
        sources = [cast(Tensor, self.graph.inputs[k]) for k in needed]
        sums: dict[Tensor, Tensor] = {}
        for output, head in zip(self.graph.outputs, self.heads):
            if not _is_continuous(output):
                continue
            reached = {*operations([output])}
            xs = [x for x in sources if x.op in reached]
            for x, term in zip(xs, gradient(output, xs, head) if xs else ()):
                sums[x] = sums[x] + term if x in sums else term
        return tuple(sums[x] for x in sources)

    def kernel(self, needed: Sequence[int]) -> Kernel:
        """Return the kernel of :meth:`by`, which takes the inputs, then the heads."""
        key = tuple(needed)
        with self._lock:
            if key not in self._kernels:
                grads = self.by(key)
                arguments = [t for t in self.graph.inputs if t is not None]
                args = [*arguments, *self._given_heads(), *grads]
                schedule = autoschedule(list(grads), target=self.target)
                self._kernels[key] = build(schedule, args, target=self.target)
            return self._kernels[key]

    def _given_heads(self) -> list[Tensor]:
        return [head for head in self.heads if _is_continuous(head)]

    def __call__(
        self, needed: Sequence[int], args: Sequence[Any], heads: Sequence[Any]
    ) -> list[Any]:
        """Return the gradients by the arguments at the positions ``needed``, as tensors."""
        inputs = [a for a, own in zip(args, self.graph.inputs) if own is not None]
        given = [h for h, own in zip(heads, self.heads) if _is_continuous(own)]
        rows = [a.contiguous() if hasattr(a, "contiguous") else a for a in (*inputs, *given)]
        result = self.kernel(needed)(*rows)
        return [*result] if len(needed) > 1 else [result]


def _is_continuous(tensor: Tensor) -> bool:
    """Return whether autograd asks for a gradient of what depends on ``tensor``."""
    return dtypes.is_float(tensor.dtype) or dtypes.is_complex(tensor.dtype)
