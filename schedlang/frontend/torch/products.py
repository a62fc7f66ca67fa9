"""Products of ATen: linear layers, matrices, batches of matrices, Einstein's notation."""

from __future__ import annotations

from typing import Any

from schedlang import topi
from schedlang.arrays.shaping import expand_dims, squeeze
from schedlang.compute.tensor import Tensor
from schedlang.frontend.torch.calls import Call, Operator, of_dtype


def linear(call: Call, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    if weight.ndim == 1:
        return matmul(call, x, weight)
    data = expand_dims(x, 0) if x.ndim == 1 else x
    made = call.biased(topi.nn.dense(data, weight), bias)
    return squeeze(made, 0) if x.ndim == 1 else made


def matmul(call: Call, x: Tensor, other: Tensor) -> Tensor:
    left = expand_dims(x, 0) if x.ndim == 1 else x
    right = expand_dims(other, 1) if other.ndim == 1 else other
    made = call.main(topi.matmul(left, right))
    gone = tuple(k for k, t in ((-2, x), (-1, other)) if t.ndim == 1)
    return squeeze(made, gone) if gone else made


def bmm(call: Call, x: Tensor, mat2: Tensor) -> Tensor:
    return topi.nn.batch_matmul(x, mat2, transpose_b=False)


def mm(call: Call, x: Tensor, mat2: Tensor) -> Tensor:
    return topi.matmul(x, mat2)


def mv(call: Call, x: Tensor, vec: Tensor) -> Tensor:
    return matmul(call, x, vec)


def dot(call: Call, x: Tensor, tensor: Tensor) -> Tensor:
    return matmul(call, x, tensor)


def addmm(call: Call, x: Tensor, mat1: Tensor, mat2: Tensor, beta: Any, alpha: Any) -> Tensor:
    return _sum(call, x, call.product(topi.matmul(mat1, mat2)), beta, alpha)


def baddbmm(call: Call, x: Tensor, batch1: Tensor, batch2: Tensor, beta: Any, alpha: Any) -> Tensor:
    made = topi.nn.batch_matmul(batch1, batch2, transpose_b=False)
    return _sum(call, x, call.product(made), beta, alpha)


def addmv(call: Call, x: Tensor, mat: Tensor, vec: Tensor, beta: Any, alpha: Any) -> Tensor:
    return _sum(call, x, matmul(call, mat, vec), beta, alpha)


def addbmm(call: Call, x: Tensor, batch1: Tensor, batch2: Tensor, beta: Any, alpha: Any) -> Tensor:
    return _sum(call, x, call.product(topi.einsum("bij,bjk->ik", batch1, batch2)), beta, alpha)


def _sum(call: Call, added: Tensor, product: Tensor, beta: Any, alpha: Any) -> Tensor:
    """Return ``beta * added + alpha * product``; with ``beta=0``, NaN in ``added`` is ignored."""
    alpha, beta = of_dtype(alpha, call.dtype), of_dtype(beta, call.dtype)
    scaled = product if alpha == 1 else topi.multiply(product, alpha)
    if beta == 0:
        return scaled
    return topi.add(scaled, added if beta == 1 else topi.multiply(added, beta))


def einsum(call: Call, equation: str, tensors: list[Tensor], path: Any) -> Tensor:
    """The result is the same for any ``path``, the order in which operands are contracted."""
    return topi.einsum(equation.replace(" ", ""), *(of_dtype(t, call.dtype) for t in tensors))


OPERATORS: dict[str, Operator] = {
    "linear.default": linear, "matmul.default": matmul, "bmm.default": bmm, "mm.default": mm,
    "mv.default": mv, "dot.default": dot, "addmm.default": addmm, "baddbmm.default": baddbmm,
    "addmv.default": addmv, "addbmm.default": addbmm, "einsum.default": einsum,
}  # fmt: skip
