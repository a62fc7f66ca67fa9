"""Products of matrices: dense layers, and products of batches of matrices."""

from __future__ import annotations

from typing import Any

from schedlang.arrays.shapes import broadcast, is_one
from schedlang.compute.reduce import Reduction, reduce_axis
from schedlang.compute.reduce import sum as total
from schedlang.compute.tensor import Extent, Tensor, shape_text
from schedlang.errors import ComputeError
from schedlang.expr.nodes import Axis
from schedlang.language.construct import cast
from schedlang.signatures import public
from schedlang.tvm.topi.checks import check_same, check_shape, check_tensor
from schedlang.tvm.topi.rules import operator, tensor
from schedlang.tvm.topi.stages import compute, result_dtype

MATRICES = ("batch", "rows", "columns")


@operator(weight=tensor("outputs", "inputs"))
def dense(data: Any, weight: Any, bias: Any = None, out_dtype: Any = None) -> Tensor:
    """Return ``sum(data[..., k] * weight[j, k]) + bias[j]``, of shape ``[..., j]``.

    ``data`` has two dimensions or more (TVM: two), ``weight`` is ``[outputs, inputs]``, and
    ``bias``, in a stage of its own, ``[outputs]``. Factors are cast to ``out_dtype``, by default
    the dtype to which they promote.

    >>> import schedlang as sl
    >>> A, W = sl.placeholder((4, 8), name="A"), sl.placeholder((5, 8), name="W")
    >>> dense(A, W, sl.placeholder((5,), name="b"))
    Tensor(dense_bias: float32[4, 5])
    """
    return _product("dense", data, "data", weight, "weight", False, True, bias, out_dtype)


@public
def matmul(
    tensor_a: Any,
    tensor_b: Any,
    bias: Any = None,
    out_dtype: Any = None,
    transpose_a: bool = False,
    transpose_b: bool = False,
) -> Tensor:
    """Return the product of ``[..., i, k]`` and ``[..., k, j]``; the other dimensions broadcast.

    ``transpose_a`` says that the last two dimensions of ``tensor_a`` are ``[k, i]``,
    ``transpose_b`` that the last two of ``tensor_b`` are ``[j, k]``. ``bias`` is ``[j]``.

    >>> import schedlang as sl
    >>> A, B = sl.placeholder((8, 4), name="A"), sl.placeholder((8, 5), name="B")
    >>> matmul(A, B, transpose_a=True)
    Tensor(matmul: float32[4, 5])
    """
    return _product(
        "matmul",
        tensor_a,
        "tensor_a",
        tensor_b,
        "tensor_b",
        transpose_a,
        transpose_b,
        bias,
        out_dtype,
    )


@operator(tensor_a=tensor(*MATRICES), tensor_b=tensor(*MATRICES))
def batch_matmul(
    tensor_a: Any,
    tensor_b: Any,
    oshape: Any = None,
    out_dtype: Any = None,
    transpose_a: bool = False,
    transpose_b: bool = True,
) -> Tensor:
    """Return the product of each matrix ``[b, i, k]`` with ``[b, j, k]``; a batch of 1 broadcasts.

    As in TVM, ``tensor_b`` is transposed unless ``transpose_b=False``. ``oshape`` is the shape of
    the result, if it is to be checked.

    >>> import schedlang as sl
    >>> A, B = sl.placeholder((3, 4, 8), name="A"), sl.placeholder((1, 5, 8), name="B")
    >>> batch_matmul(A, B)
    Tensor(batch_matmul: float32[3, 4, 5])
    """
    product = _product(
        "batch_matmul",
        tensor_a,
        "tensor_a",
        tensor_b,
        "tensor_b",
        transpose_a,
        transpose_b,
        None,
        out_dtype,
    )
    if oshape is not None:
        check_shape("topi.nn.batch_matmul with oshape", product, "the result", tuple(oshape))
    return product


def _product(
    name: str,
    a: Any,
    what_a: str,
    b: Any,
    what_b: str,
    transpose_a: bool,
    transpose_b: bool,
    bias: Any,
    out_dtype: Any,
) -> Tensor:
    asked = f"topi.nn.{name}"
    for matrix, what in ((a, what_a), (b, what_b)):
        check_tensor(asked, matrix, what)
        if matrix.ndim < 2:
            raise ComputeError(
                f"{asked} with {what} {matrix.name} of shape {shape_text(matrix.shape)}: a matrix "
                "has two dimensions or more; topi.expand_dims adds one"
            )
    (rows, inner), (other, columns) = a.shape[-2:], b.shape[-2:]
    if transpose_a:
        rows, inner = inner, rows
    if transpose_b:
        other, columns = columns, other
    summed, by = (f"the extent of {x.name} to sum over" for x in (a, b))
    check_same(asked, inner, summed, other, by)
    batch = broadcast([a.shape[:-2], b.shape[:-2]], f"{asked} with batches")
    dtype = result_dtype(out_dtype, a, b)
    k = reduce_axis(inner, "k")

    def place(shape: tuple[Extent, ...], at: tuple[Axis, ...]) -> list[Any]:
        own = at[len(at) - len(shape) :]
        return [0 if is_one(e) and not is_one(i.extent) else i for e, i in zip(shape, own)]

    def element(*axes: Axis) -> Reduction:
        *lead, i, j = axes
        left = [*place(a.shape[:-2], tuple(lead)), *((k, i) if transpose_a else (i, k))]
        right = [*place(b.shape[:-2], tuple(lead)), *((j, k) if transpose_b else (k, j))]
        return total(cast(a[tuple(left)], dtype) * cast(b[tuple(right)], dtype), axis=k)

    names = ["b"] if len(batch) == 1 else [f"b{n}" for n in range(len(batch))]
    product: Tensor = compute(name, (*batch, rows, columns), element, [*names, "i", "j"])
    if bias is None:
        return product
    check_tensor(asked, bias, "bias", "outputs")
    check_same(
        asked,
        bias.shape[0],
        f"the number of elements of bias {bias.name}",
        columns,
        "the number of outputs",
    )
    return compute(
        f"{name}_bias",
        product.shape,
        lambda *at: product[at] + cast(bias[at[-1]], dtype),
        [*names, "i", "j"],
    )
