"""Quotients by values that are known ahead, as products with their reciprocals.

A processor divides a vector in the time of ten products or so, and a quantized network divides by a
scale wherever it rounds to integers: a layer with few input channels takes longer for the quotients
than for its products. The reciprocal is rounded once more, so that a quotient may differ in its
last bit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from schedlang.compute.define import define
from schedlang.compute.graph import operations
from schedlang.compute.read import Read
from schedlang.compute.reference import reference
from schedlang.compute.tensor import ComputeOp, Tensor
from schedlang.expr.nodes import Axis, Binary, Expr
from schedlang.expr.visit import rewrite
from schedlang.gradient.algebra import number
from schedlang.networks.ahead import known_tensors
from schedlang.networks.blocks import may_be_rewritten
from schedlang.networks.reading import with_fields, with_inputs, with_operands
from schedlang.state.initial import stage_names

_DTYPES = ("float32", "float64")


def with_reciprocals(
    outputs: Sequence[Tensor], params: Mapping[Tensor, np.ndarray]
) -> tuple[Tensor, ...]:
    """Return tensors that compute ``outputs`` with products in place of quotients.

    ``params`` has the arrays of the weights. A quotient is replaced if its divisor, of float32 or
    float64, is an element of a tensor that depends on ``params`` alone, and neither the elements of
    this tensor nor their reciprocals are 0, subnormal, infinite or NaN.

    >>> import schedlang as sl
    >>> x, s = sl.placeholder((4,), name="x"), sl.placeholder((), name="s")
    >>> y = sl.compute((4,), lambda i: x[i] / s[()], name="y")
    >>> (result,) = with_reciprocals([y], {s: np.float32(0.5)})
    >>> print(result.op.body[0], "of", result.op.input_tensors[1].op.body[0])
    x[i] * s_reciprocal[()] of 1 / s[()]
    """
    ops = operations(outputs)
    if not may_be_rewritten(ops):
        return tuple(outputs)
    rewriting = _Rewriting(params, known_tensors(ops, params), {*stage_names(ops).values()})
    for op in ops:
        if isinstance(op, ComputeOp):
            rewriting.add(op)
        else:
            rewriting.replaced.update(with_inputs(op, rewriting.replaced))
    return tuple(rewriting.replaced.get(t, t) for t in outputs)


class _Rewriting:
    """The operations of a network, rewritten one by one, producers first."""

    def __init__(
        self, params: Mapping[Tensor, np.ndarray], known: dict[Tensor, None], names: set[str]
    ) -> None:
        self.params, self.known, self.names = params, known, names
        self.replaced: dict[Tensor, Tensor] = {}
        self._reciprocals: dict[Tensor, Tensor | None] = {}

    def add(self, op: ComputeOp) -> None:
        """Rewrite an operation whose producers were added before."""
        twin = with_operands(op, self.replaced)
        if not {*op.outputs} & self.known.keys():
            body = tuple(rewrite(root, self._product) for root in twin.body)
            if any(new is not old for new, old in zip(body, twin.body)):
                twin = with_fields(twin, body=body)
        if twin is not op:
            self.replaced.update(zip(op.outputs, twin.outputs))

    def _product(self, node: Expr) -> Expr | None:
        """Return the product in place of a quotient by a known value, ``None`` for others."""
        if not isinstance(node, Binary) or node.op != "/" or not isinstance(node.b, Read):
            return None
        divisor = node.b.tensor
        if divisor not in self.known or node.dtype not in _DTYPES or divisor.dtype != node.dtype:
            return None
        if divisor not in self._reciprocals:
            self._reciprocals[divisor] = self._reciprocal(divisor)
        reciprocal = self._reciprocals[divisor]
        if reciprocal is None:
            return None
        value = rewrite(node.a, self._product)
        return Binary("*", value, Read(reciprocal, node.b.indices, node.dtype), node.dtype)

    def _reciprocal(self, tensor: Tensor) -> Tensor | None:
        """Return the stage of the reciprocals of a known tensor, if all of them are normal."""
        values = np.abs(self._values(tensor))
        least = np.finfo(values.dtype).tiny
        if not np.all((values >= least) & (values <= 1 / least)):
            return None
        axes = tuple(Axis(f"i{k}", extent) for k, extent in enumerate(tensor.shape))
        value = Binary("/", number(1, tensor.dtype), tensor.element(axes), tensor.dtype)
        name, count = f"{tensor.name}_reciprocal", 0
        while name in self.names:
            count += 1
            name = f"{tensor.name}_reciprocal_{count}"
        self.names.add(name)
        return define(name, axes, value)

    def _values(self, tensor: Tensor) -> np.ndarray:
        if tensor in self.params:
            return np.asarray(self.params[tensor])
        oracle = reference(tensor)
        return np.asarray(oracle(*(self.params[t] for t in oracle.inputs)))


__all__ = ["with_reciprocals"]
