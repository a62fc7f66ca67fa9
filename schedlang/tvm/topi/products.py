"""Products of tensors: matrices, contractions, Einstein's notation."""

from __future__ import annotations

from typing import Any

from schedlang.arrays import products
from schedlang.arrays.einsum import einsum as contracted
from schedlang.compute.tensor import Tensor
from schedlang.signatures import public
from schedlang.tvm.topi.nn import matrices
from schedlang.tvm.topi.rules import operator, tensor
from schedlang.tvm.topi.stages import names_of_user


@public
def matmul(a: Any, b: Any, transp_a: bool = False, transp_b: bool = False) -> Tensor:
    """Return the matrix product of ``a`` and ``b``; dimensions before the last two broadcast.

    ``transp_a`` and ``transp_b`` say that the last two dimensions are transposed.

    >>> import schedlang as sl
    >>> A, B = sl.placeholder((4, 8), name="A"), sl.placeholder((5, 8), name="B")
    >>> matmul(A, B, transp_b=True)
    Tensor(matmul: float32[4, 5])
    """
    with names_of_user("topi.nn.matmul", "topi.matmul"):
        return matrices.matmul(a, b, transpose_a=transp_a, transpose_b=transp_b)


@operator(a=tensor(), b=tensor())
def tensordot(a: Any, b: Any, axes: Any) -> Tensor:
    """Return the sum of products over ``axes``: a number of dimensions, or a list for each operand.

    >>> import schedlang as sl
    >>> A, B = sl.placeholder((2, 3, 4), name="A"), sl.placeholder((3, 4, 5), name="B")
    >>> tensordot(A, B, 2)
    Tensor(tensordot: float32[2, 5])
    """
    with names_of_user("np.tensordot", "topi.tensordot"):
        return products.tensordot(a, b, axes)


@public
def einsum(subscripts: str, *operand: Any) -> Tensor:
    """Return the sum of products that ``subscripts`` describes, such as ``"ij,jk->ik"``.

    >>> import schedlang as sl
    >>> A, B = sl.placeholder((4, 8), name="A"), sl.placeholder((8, 5), name="B")
    >>> einsum("ij,jk->ik", A, B)
    Tensor(einsum: float32[4, 5])
    """
    with names_of_user("sl.einsum", "topi.einsum"):
        return contracted(subscripts, *operand)
