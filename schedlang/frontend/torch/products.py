"""Products of ATen: linear layers, matrices, batches of matrices, Einstein's notation."""

from __future__ import annotations

from string import ascii_lowercase
from typing import Any

from schedlang import topi
from schedlang.arrays.shaping import expand_dims, squeeze
from schedlang.compute.tensor import Tensor
from schedlang.frontend.node_stages import cast_to
from schedlang.frontend.torch.calls import Call, Operator, of_dtype


def linear(call: Call, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    _check_dtypes(call, x, weight)
    if weight.ndim == 1:
        return matmul(call, x, weight)
    data = expand_dims(x, 0) if x.ndim == 1 else x
    product = call.biased(topi.nn.dense(data, weight, None, call.wide), bias)
    return squeeze(product, 0) if x.ndim == 1 else product


def matmul(call: Call, x: Tensor, other: Tensor) -> Tensor:
    _check_dtypes(call, x, other)
    left = expand_dims(x, 0) if x.ndim == 1 else x
    right = expand_dims(other, 1) if other.ndim == 1 else other
    product = call.product(topi.nn.matmul(left, right, None, call.wide))
    rounded = call.main(cast_to(product, call.dtype))
    gone = tuple(k for k, t in ((-2, x), (-1, other)) if t.ndim == 1)
    return squeeze(rounded, gone) if gone else rounded


def bmm(call: Call, x: Tensor, mat2: Tensor) -> Tensor:
    return cast_to(call.product(_batched(call, x, mat2)), call.dtype)


def _batched(call: Call, left: Tensor, right: Tensor) -> Tensor:
    _check_dtypes(call, left, right)
    return topi.nn.batch_matmul(left, right, None, call.wide, transpose_b=False)


def mm(call: Call, x: Tensor, mat2: Tensor) -> Tensor:
    return matmul(call, x, mat2)


def mv(call: Call, x: Tensor, vec: Tensor) -> Tensor:
    return matmul(call, x, vec)


def dot(call: Call, x: Tensor, tensor: Tensor) -> Tensor:
    return matmul(call, x, tensor)


def addmm(call: Call, x: Tensor, mat1: Tensor, mat2: Tensor, beta: Any, alpha: Any) -> Tensor:
    product = topi.nn.matmul(mat1, mat2, None, call.wide)
    return _sum(call, x, call.product(product), beta, alpha)


def baddbmm(call: Call, x: Tensor, batch1: Tensor, batch2: Tensor, beta: Any, alpha: Any) -> Tensor:
    return _sum(call, x, call.product(_batched(call, batch1, batch2)), beta, alpha)


def addmv(call: Call, x: Tensor, mat: Tensor, vec: Tensor, beta: Any, alpha: Any) -> Tensor:
    column = topi.nn.matmul(mat, expand_dims(vec, 1), None, call.wide)
    return _sum(call, x, squeeze(call.product(column), -1), beta, alpha)


def addbmm(call: Call, x: Tensor, batch1: Tensor, batch2: Tensor, beta: Any, alpha: Any) -> Tensor:
    left, right = of_dtype(batch1, call.wide), of_dtype(batch2, call.wide)
    return _sum(call, x, call.product(topi.einsum("bij,bjk->ik", left, right)), beta, alpha)


def _check_dtypes(call: Call, left: Tensor, right: Tensor) -> None:
    """Refuse operands of two dtypes, which PyTorch exports, but does not multiply."""
    if left.dtype != right.dtype:
        raise call.refuse(
            f"its operands are {left.dtype} and {right.dtype}, which PyTorch does not multiply",
            "Give example inputs of the dtype of the weights, or convert the module: "
            "module.to(x.dtype).",
        )


def _sum(call: Call, added: Tensor, product: Tensor, beta: Any, alpha: Any) -> Tensor:
    """Return ``beta * added + alpha * product``, rounded once.

    With ``beta=0``, NaN in ``added`` is ignored.
    """
    alpha, beta = of_dtype(alpha, call.dtype), of_dtype(beta, call.dtype)
    total = product if alpha == 1 else topi.multiply(product, alpha)
    if beta != 0:
        wide = cast_to(added, product.dtype)
        total = topi.add(total, wide if beta == 1 else topi.multiply(wide, beta))
    return cast_to(total, call.dtype)


def einsum(call: Call, equation: str, tensors: list[Tensor], path: Any) -> Tensor:
    """The result is the same for any ``path``, which is the order of the contractions."""
    return topi.einsum(equation.replace(" ", ""), *(of_dtype(t, call.dtype) for t in tensors))


def trilinear(
    call: Call,
    i1: Tensor,
    i2: Tensor,
    i3: Tensor,
    expand1: list[int],
    expand2: list[int],
    expand3: list[int],
    sumdim: list[int],
    unroll_dim: int,
) -> Tensor:
    """The product of three tensors with new dimensions, summed over some; the order is free."""
    operands = list(zip((i1, i2, i3), (expand1, expand2, expand3)))
    letters = ascii_lowercase[: i1.ndim + len(expand1)]
    own = ["".join(c for k, c in enumerate(letters) if k not in new) for _, new in operands]
    out = "".join(c for k, c in enumerate(letters) if k not in sumdim)
    values = (of_dtype(t, call.wide) for t, _ in operands)
    return of_dtype(topi.einsum(f"{','.join(own)}->{out}", *values), call.dtype)


OPERATORS: dict[str, Operator] = {
    "linear.default": linear, "matmul.default": matmul, "bmm.default": bmm, "mm.default": mm,
    "mv.default": mv, "dot.default": dot, "addmm.default": addmm, "baddbmm.default": baddbmm,
    "addmv.default": addmv, "addbmm.default": addbmm, "einsum.default": einsum,
    "_trilinear.default": trilinear,
}  # fmt: skip
