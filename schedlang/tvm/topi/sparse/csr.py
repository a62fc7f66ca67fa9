"""Products of sparse matrices in compressed rows (CSR) with dense ones, by ragged ranges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from schedlang.arrays.shapes import extent, is_one
from schedlang.compute.facts import assume
from schedlang.compute.reduce import Reduction, reduce_axis
from schedlang.compute.reduce import sum as total
from schedlang.compute.tensor import Extent, Shape, Tensor, check_shape, var
from schedlang.compute.tensor import placeholder as dense_placeholder
from schedlang.errors import ComputeError, ComputeTypeError
from schedlang.expr.names import check_name
from schedlang.expr.nodes import Axis
from schedlang.language.construct import as_expr, cast
from schedlang.signatures import public
from schedlang.tvm.tir import te_dtype
from schedlang.tvm.topi.checks import check_index, check_same, check_tensor
from schedlang.tvm.topi.stages import compute, result_dtype


@dataclass(frozen=True)
class CSR:
    """A sparse matrix of ``shape``, whose row i has elements ``indptr[i]`` to ``indptr[i + 1]``.

    ``data`` are the elements, row by row, and ``indices`` their columns.
    """

    shape: Shape
    data: Tensor
    indices: Tensor
    indptr: Tensor

    @property
    def dtype(self) -> str:
        return self.data.dtype


@public
def placeholder(
    shape: Any, nonzeros: Any = None, dtype: Any = None, name: str = "placeholder"
) -> CSR:
    """Return a sparse input: placeholders ``<name>_data``, ``<name>_indices``, ``<name>_indptr``.

    It is TVM's ``tvm.contrib.sparse.placeholder``. ``nonzeros`` is the number of elements, by
    default a size ``<name>_nonzeros``. Each call checks that the ends of rows ascend and that
    columns are in the matrix.

    >>> A = placeholder((3, 4), name="A")
    >>> A.data, A.indptr
    (Tensor(A_data: float32[A_nonzeros]), Tensor(A_indptr: int32[4]))
    """
    check_name(name, "a sparse matrix")
    rows, columns = _matrix(check_shape(shape, name))
    count = var(f"{name}_nonzeros") if nonzeros is None else nonzeros
    kind = "float32" if dtype is None else te_dtype(dtype)
    data = dense_placeholder((count,), kind, name=f"{name}_data")
    indices = dense_placeholder((count,), "int32", name=f"{name}_indices")
    indptr = dense_placeholder((rows + 1,), "int32", name=f"{name}_indptr")
    assume(indptr, monotonic=True, within=(0, data.shape[0]))
    if not (isinstance(columns, int) and columns == 0):
        assume(indices, within=(0, columns - 1))
    return CSR((rows, columns), data, indices, indptr)


def _matrix(shape: Shape) -> tuple[Any, Any]:
    if len(shape) != 2:
        raise ComputeError(f"topi.sparse.placeholder: shape={shape} must have two extents")
    return shape[0], shape[1]


@public
def csrmv(a: Any, x: Any, y: Any = None) -> Tensor:
    """Return the product of sparse ``a`` with a vector ``x``, plus ``y``.

    ``a`` is a :class:`CSR`, or has its attributes. ``x`` is ``[columns, 1]``, as in TVM, or
    ``[columns]``, and the result ``[rows, 1]`` or ``[rows]``. ``y`` is ``[rows]``, or ``[1]`` to
    add its element to each row; it is added in a stage of its own.

    >>> import schedlang as sl
    >>> A, x = placeholder((3, 4), name="A"), sl.placeholder((4,), name="x")
    >>> csrmv(A, x)
    Tensor(csrmv: float32[3])
    """
    asked = "topi.sparse.csrmv"
    matrix = _checked(asked, a)
    check_tensor(asked, x, "x")
    flat = x.ndim == 1
    if not flat:
        check_tensor(asked, x, "x", "columns", "1")
        columns = f"the number of columns of x {x.name}"
        check_same(asked, x.shape[1], columns, 1, "the number of columns of a vector")
    check_same(
        asked,
        matrix.shape[1],
        "the number of columns of a",
        x.shape[0],
        f"the number of elements of x {x.name}",
    )
    product = _product("csrmv", matrix, x, flat)
    if y is None:
        return product
    check_tensor(asked, y, "y", "rows")
    return _biased("csrmv", product, y, "y", is_one(y.shape[0]))


@public
def csrmm(a: Any, b: Any, c: Any = None) -> Tensor:
    """Return the product of sparse ``a[rows, k]`` with ``b[k, columns]``, plus ``c[rows]``.

    ``a`` is a :class:`CSR`, or has its attributes; ``c`` is added in a stage of its own.

    >>> import schedlang as sl
    >>> A, B = placeholder((3, 4), name="A"), sl.placeholder((4, 5), name="B")
    >>> csrmm(A, B)
    Tensor(csrmm: float32[3, 5])
    """
    asked = "topi.sparse.csrmm"
    matrix = _checked(asked, a)
    check_tensor(asked, b, "b", "rows", "columns")
    check_same(
        asked,
        matrix.shape[1],
        "the number of columns of a",
        b.shape[0],
        f"the number of rows of b {b.name}",
    )
    product = _product("csrmm", matrix, b, False)
    if c is None:
        return product
    check_tensor(asked, c, "c", "rows")
    return _biased("csrmm", product, c, "c", False)


def _biased(name: str, made: Tensor, bias: Tensor, what: str, single: bool) -> Tensor:
    """Return ``made`` plus the element of ``bias`` for each row, or its ``single`` one."""
    if not single:
        check_same(
            f"topi.sparse.{name}",
            bias.shape[0],
            f"the number of elements of {what} {bias.name}",
            made.shape[0],
            "the number of rows of a",
        )
    return compute(
        f"{name}_bias",
        made.shape,
        lambda *at: made[at] + cast(bias[0 if single else at[0]], made.dtype),
    )


@public
def sparse_dense(
    dense_data: Any,
    sparse_data: Any,
    sparse_indices: Any,
    sparse_indptr: Any,
    sparse_lhs: bool = False,
) -> Tensor:
    """Return ``dense_data[m, k]`` times the transpose of a sparse matrix ``[n, k]``: ``[m, n]``.

    The sparse matrix is given by its elements, their columns, and the ends of its rows. With
    ``sparse_lhs``, the sparse ``[n, k]`` is multiplied by the transpose of ``dense_data[m, k]``,
    ``[n, m]``. Columns must lie in ``0..k``; with ``sl.assume`` each call checks them.

    >>> import schedlang as sl
    >>> A, W = sl.placeholder((3, 4), name="A"), placeholder((5, 4), name="W")
    >>> sparse_dense(A, W.data, W.indices, W.indptr)
    Tensor(sparse_dense: float32[3, 5])
    """
    asked = "topi.nn.sparse_dense"
    check_tensor(asked, dense_data, "dense_data", "rows", "columns")
    rows = _check_parts(asked, sparse_data, sparse_indices, sparse_indptr)
    dtype = result_dtype(None, dense_data, sparse_data)

    def element(*axes: Axis) -> Reduction:
        n, m = axes if sparse_lhs else axes[::-1]
        k = reduce_axis((sparse_indptr[n], sparse_indptr[n + 1]), "k")
        value = cast(sparse_data[k], dtype)
        return total(value * cast(dense_data[m, sparse_indices[k]], dtype), axis=k)

    shape = (dense_data.shape[0], rows)
    return compute("sparse_dense", shape[::-1] if sparse_lhs else shape, element)


@public
def dense(data: Any, weight: Any, bias: Any = None) -> Tensor:
    """Return ``data[m, k]`` times the transpose of ``weight[n, k]``, plus ``bias[n]``: ``[m, n]``.

    One of the two matrices is a :class:`CSR`, or has its attributes. ``bias`` is added in a stage
    of its own.

    >>> import schedlang as sl
    >>> X, W = sl.placeholder((3, 4), name="X"), placeholder((5, 4), name="W")
    >>> dense(X, W)
    Tensor(sparse_dense: float32[3, 5])
    """
    asked = "topi.sparse.dense"
    of_data = isinstance(weight, Tensor)
    if of_data and isinstance(data, Tensor):
        raise ComputeTypeError(
            f"{asked}: {data.name} and {weight.name} are both dense; use topi.nn.dense, or give "
            "one as a matrix of topi.sparse.placeholder"
        )
    matrix = _checked(asked, data if of_data else weight)
    other, what = (weight, "weight") if of_data else (data, "data")
    check_tensor(asked, other, what, "rows", "columns")
    columns = f"the number of columns of {what} {other.name}"
    of_matrix = "the number of columns of the sparse matrix"
    check_same(asked, other.shape[1], columns, matrix.shape[1], of_matrix)
    product = sparse_dense(other, matrix.data, matrix.indices, matrix.indptr, of_data)
    if bias is None:
        return product
    check_tensor(asked, bias, "bias", "columns")
    given = f"the number of elements of bias {bias.name}"
    check_same(asked, bias.shape[0], given, product.shape[1], "the number of rows of weight")
    return compute(
        "dense_bias", product.shape, lambda i, j: product[i, j] + cast(bias[j], product.dtype)
    )


def _product(name: str, a: CSR, b: Tensor, flat: bool) -> Tensor:
    dtype = result_dtype(None, a.data, b)

    def element(i: Axis, *j: Axis) -> Reduction:
        k = reduce_axis((a.indptr[i], a.indptr[i + 1]), "k")
        return total(cast(a.data[k], dtype) * cast(b.element((a.indices[k], *j)), dtype), axis=k)

    columns: tuple[Extent, ...] = () if flat else (b.shape[1],)
    return compute(name, (a.shape[0], *columns), element, ["i", "j"][: 1 + len(columns)])


def _checked(asked: str, a: Any) -> CSR:
    names = ("shape", "data", "indices", "indptr")
    if isinstance(a, Tensor) or not all(hasattr(a, n) for n in names):
        raise ComputeTypeError(
            f"{asked}: a must be a sparse matrix, made by topi.sparse.placeholder, not a "
            f"{type(a).__name__}"
        )
    rows = _check_parts(asked, a.data, a.indices, a.indptr)
    given = f"the number of rows in {a.indptr.name}"
    check_same(asked, rows, given, a.shape[0], "the number of rows of a")
    return CSR(tuple(a.shape), a.data, a.indices, a.indptr)


def _check_parts(asked: str, data: Any, indices: Any, indptr: Any) -> Extent:
    """Return the number of rows of a sparse matrix, given by its parts."""
    for part, what in ((data, "data"), (indices, "indices"), (indptr, "indptr")):
        check_tensor(asked, part, what, "elements")
    check_index(asked, indices, "indices")
    check_index(asked, indptr, "indptr")
    check_same(
        asked,
        data.shape[0],
        f"the number of elements of {data.name}",
        indices.shape[0],
        f"the number of elements of {indices.name}",
    )
    ends = indptr.shape[0]
    if isinstance(ends, int) and ends < 1:
        raise ComputeError(
            f"{asked}: {indptr.name} is empty, but must have an end more than there are rows"
        )
    return extent(as_expr(ends) - 1)
