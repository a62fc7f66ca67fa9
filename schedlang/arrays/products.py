"""Products of arrays: matmul, dot, tensordot, outer and their like."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from schedlang.arrays.contraction import contraction
from schedlang.arrays.einsum import einsum
from schedlang.arrays.elementwise import array, elementwise
from schedlang.arrays.operands import operand
from schedlang.arrays.reductions import total
from schedlang.arrays.shapes import axis_number, broadcast, same, size_of
from schedlang.arrays.shaping import diagonal, moveaxis, ravel, reshape
from schedlang.arrays.stages import data_axes, each, element, read, stage, tensor_of
from schedlang.compute.tensor import Extent, Tensor, shape_text
from schedlang.errors import ComputeError, explain
from schedlang.expr import dtypes
from schedlang.language.calls import call
from schedlang.language.construct import binary, cast, settle


def matmul(a: Any, b: Any) -> Tensor:
    """Return ``a @ b`` by the rules of ``np.matmul``.

    The first dimensions are batches, which broadcast; a 1-d operand is a row or a column.
    """
    left, right = (tensor_of(v, "np.matmul") for v in (a, b))
    asked = f"{left.name} @ {right.name}"
    for side in (left, right):
        if not side.ndim:
            raise ComputeError(
                explain(asked, f"{side.name} has no dimension", "Multiply by a scalar with *.")
            )
    rows = ("i",) if left.ndim > 1 else ()
    columns = ("j",) if right.ndim > 1 else ()
    return _batched("matmul", left, (*rows, "k"), right, ("k", *columns), (*rows, *columns), asked)


def _batched(
    word: str,
    a: Tensor,
    own_a: tuple[str, ...],
    b: Tensor,
    own_b: tuple[str, ...],
    output: tuple[str, ...],
    asked: str,
) -> Tensor:
    """Return the sum over ``k`` of products of the last dimensions, whose labels are given.

    The dimensions before them are batches.
    """
    for side, own in ((a, own_a), (b, own_b)):
        if side.ndim < len(own):
            raise ComputeError(
                f"{asked}: {side.name} of shape {shape_text(side.shape)} needs {len(own)} "
                f"dimension{'s' * (len(own) != 1)} or more"
            )
    at_a, at_b = own_a.index("k") - len(own_a), own_b.index("k") - len(own_b)
    _check_inner(asked, a, b, a.shape[at_a], b.shape[at_b])
    count = max(a.ndim - len(own_a), b.ndim - len(own_b))
    batch = ("b",) if count == 1 else tuple(f"b{k}" for k in range(count))
    labels = [(*batch[count - t.ndim + len(own) :], *own) for t, own in ((a, own_a), (b, own_b))]
    return contraction(word, [a, b], labels, (*batch, *output), asked)


def _check_inner(asked: str, a: Tensor, b: Tensor, first: Extent, second: Extent) -> None:
    if same(first, second):
        return
    is_static = isinstance(first, int) and isinstance(second, int)
    raise ComputeError(
        explain(
            f"{asked} of shapes {shape_text(a.shape)} and {shape_text(b.shape)}",
            f"the extents to sum over, {first} and {second}, "
            + ("differ" if is_static else "are not known to be equal"),
            "The last dimension of the first is as long as the last but one of the second; "
            "A.T transposes."
            if is_static
            else 'Declare both by one size, n = sl.var("n").',
        )
    )


def dot(a: Any, b: Any) -> Any:
    """Return ``np.dot``: a product of scalars, of vectors or of matrices.

    For more dimensions it is the sum over the last of ``a`` and the last but one of ``b``.
    """
    left, right = (operand(v, "np.dot") for v in (a, b))
    if not _has_axes(left) or not _has_axes(right):
        # np.dot is not a ufunc: it gives a Python number a dtype of its own
        strong = [v if isinstance(v, Tensor) else settle(v, "float64") for v in (left, right)]
        return elementwise("multiply", lambda x, y: binary("*", x, y), *strong, asked="np.dot")
    assert isinstance(left, Tensor) and isinstance(right, Tensor)
    if left.ndim <= 2 and right.ndim <= 2:
        return matmul(left, right)
    return _summed("dot", left, right, (left.ndim - 1,), (max(right.ndim - 2, 0),))


def _has_axes(value: Any) -> bool:
    return isinstance(value, Tensor) and value.ndim > 0


def _summed(
    word: str, a: Tensor, b: Tensor, over_a: Sequence[int], over_b: Sequence[int]
) -> Tensor:
    """Return the sum of products over the dimensions ``over_a`` of ``a`` and ``over_b`` of ``b``.

    The other dimensions of ``a`` come first, then the other dimensions of ``b``.
    """
    for p, q in zip(over_a, over_b):
        if not same(a.shape[p], b.shape[q]):
            raise ComputeError(
                explain(
                    f"np.{word} of shapes {shape_text(a.shape)} and {shape_text(b.shape)}",
                    f"dimension {p} of the first has extent {a.shape[p]}, and dimension {q} of the "
                    f"second {b.shape[q]}",
                    "Extents that are summed over must be equal.",
                )
            )
    free = iter("ijlmnopqrstuvwxyzabcdefgh")
    inner = ["k"] if len(over_a) == 1 else [f"k{n}" for n in range(len(over_a))]
    labels = []
    for tensor, over in ((a, list(over_a)), (b, list(over_b))):
        labels.append(
            [inner[over.index(d)] if d in over else next(free) for d in range(tensor.ndim)]
        )
    output = [label for own in labels for label in own if label not in inner]
    return contraction(word, [a, b], labels, output, f"np.{word}")


def tensordot(a: Any, b: Any, axes: Any = 2) -> Tensor:
    """Return ``np.tensordot``; ``axes`` is a number of dimensions, or the dimensions of each one.
    """
    left, right = (tensor_of(v, "np.tensordot") for v in (a, b))
    asked = f"np.tensordot(..., axes={axes})"
    if isinstance(axes, (tuple, list)):
        if len(axes) != 2:
            raise ComputeError(
                f"{asked}: axes is a number, or a pair of the dimensions of each operand"
            )
        over = [list(v) if isinstance(v, (tuple, list)) else [v] for v in axes]
    else:
        if isinstance(axes, bool) or not hasattr(axes, "__index__") or axes < 0:
            raise ComputeError(f"{asked}: axes must be an integer of 0 or more, or a pair")
        if axes > min(left.ndim, right.ndim):
            raise ComputeError(
                f"{asked} of shapes {shape_text(left.shape)} and {shape_text(right.shape)}: an "
                f"operand has fewer than {axes} dimensions"
            )
        over = [list(range(left.ndim - axes, left.ndim)), list(range(axes))]
    if len(over[0]) != len(over[1]):
        raise ComputeError(f"{asked}: give the same number of dimensions for both operands")
    numbers = [
        [axis_number(k, t.ndim, asked, "axes") for k in own] for t, own in zip((left, right), over)
    ]
    if any(len(set(own)) < len(own) for own in numbers):
        raise ComputeError(f"{asked}: a dimension is given twice; sum over each once")
    return _summed("tensordot", left, right, *numbers)


def outer(a: Any, b: Any) -> Tensor:
    """Return ``np.outer``: each element of ``a`` times each of ``b``, as a matrix."""
    return _summed("outer", ravel(a), ravel(b), (), ())


def inner(a: Any, b: Any) -> Any:
    """Return ``np.inner``: the sum of products over the last dimensions."""
    left, right = (operand(v, "np.inner") for v in (a, b))
    if not _has_axes(left) or not _has_axes(right):
        return dot(a, b)
    assert isinstance(left, Tensor) and isinstance(right, Tensor)
    return _summed("inner", left, right, (left.ndim - 1,), (right.ndim - 1,))


def vdot(a: Any, b: Any) -> Tensor:
    """Return ``np.vdot``: the sum of the products of all elements, with ``a`` conjugated."""
    left = _conjugated(tensor_of(a, "np.vdot"))
    return _summed("vdot", ravel(left), ravel(b), (0,), (0,))


def _conjugated(a: Tensor) -> Tensor:
    if not dtypes.is_complex(a.dtype):
        return a
    return array("conjugate", lambda z: call("conj", z), a)


def vecdot(a: Any, b: Any, axis: int = -1) -> Tensor:
    """Return ``np.vecdot``: the sum of products along ``axis``, for each vector of a batch."""
    left, right = (tensor_of(v, "np.vecdot") for v in (a, b))
    if axis != -1:
        left, right = moveaxis(left, axis, -1), moveaxis(right, axis, -1)
    return _batched("vecdot", _conjugated(left), ("k",), right, ("k",), (), "np.vecdot")


def matvec(a: Any, b: Any) -> Tensor:
    """Return ``np.matvec``: a batch of matrices times a batch of vectors."""
    left, right = (tensor_of(v, "np.matvec") for v in (a, b))
    return _batched("matvec", left, ("i", "k"), right, ("k",), ("i",), "np.matvec")


def vecmat(a: Any, b: Any) -> Tensor:
    """Return ``np.vecmat``: a batch of vectors times a batch of matrices."""
    left, right = (tensor_of(v, "np.vecmat") for v in (a, b))
    return _batched("vecmat", _conjugated(left), ("k",), right, ("k", "j"), ("j",), "np.vecmat")


def kron(a: Any, b: Any) -> Tensor:
    """Return ``np.kron``: blocks of ``b``, each times an element of ``a``."""
    left, right = (tensor_of(v, "np.kron") for v in (a, b))
    one = (1,) * max(left.ndim, right.ndim)
    wide = [(*one[t.ndim :], *t.shape) for t in (left, right)]
    left, right = (reshape(t, shape) for t, shape in zip((left, right), wide))
    axes = data_axes(tuple(size_of(pair) for pair in zip(*wide)))
    x = read(left, [axis // e for axis, e in zip(axes, wide[1])])
    y = read(right, [axis % e for axis, e in zip(axes, wide[1])])
    return stage("kron", axes, binary("*", x, y))


def trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None) -> Tensor:
    """Return ``np.trace``: the sum of a diagonal."""
    return total("sum", diagonal(a, offset, axis1, axis2), -1, dtype)


def linalg_trace(x: Any, offset: int = 0, dtype: Any = None) -> Tensor:
    """Return ``np.linalg.trace``: the sums of the diagonals of the last two dimensions."""
    return trace(x, offset, -2, -1, dtype)


def multi_dot(arrays: Any) -> Tensor:
    """Return ``np.linalg.multi_dot``: a product of matrices, in the order that costs least."""
    listed = [tensor_of(v, "np.linalg.multi_dot") for v in arrays]
    if len(listed) < 2:
        raise ComputeError("np.linalg.multi_dot: give at least two matrices")
    for k, tensor in enumerate(listed):
        vector = tensor.ndim == 1 and k in (0, len(listed) - 1)
        if tensor.ndim != 2 and not vector:
            raise ComputeError(
                f"np.linalg.multi_dot: {tensor.name} has {tensor.ndim} dimensions, not 2"
            )
    for left, right in zip(listed, listed[1:]):
        _check_inner("np.linalg.multi_dot", left, right, left.shape[-1], right.shape[0])
    labels = [[k, k + 1] for k in range(len(listed))]
    labels[0] = labels[0][-listed[0].ndim :]
    labels[-1] = labels[-1][: listed[-1].ndim]
    ends = [*labels[0][:-1], *labels[-1][1:]]
    operands = [v for pair in zip(listed, labels) for v in pair]
    return einsum(*operands, ends)


def matrix_power(a: Any, n: int) -> Tensor:
    """Return ``np.linalg.matrix_power`` for ``n`` of 0 or more, by repeated squaring."""
    source = tensor_of(a, "np.linalg.matrix_power")
    asked = f"np.linalg.matrix_power({source.name}, {n})"
    if source.ndim < 2 or not same(*source.shape[-2:]):
        raise ComputeError(
            f"{asked}: {source.name} of shape {shape_text(source.shape)} is not square"
        )
    if isinstance(n, bool) or not hasattr(n, "__index__") or n < 0:
        raise ComputeError(
            explain(
                asked,
                "the power must be an integer of 0 or more",
                "Compute an inverse with NumPy, and pass it to the kernel.",
            )
        )
    if n == 0:
        return each(
            "eye", source.shape, lambda *at: cast(binary("==", at[-2], at[-1]), source.dtype)
        )
    power: Tensor | None = None
    square = source
    while n:
        if n & 1:
            power = square if power is None else matmul(power, square)
        n >>= 1
        square = matmul(square, square) if n else square
    assert power is not None
    return power


def cross(
    a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: Any = None
) -> Tensor:
    """Return ``np.cross`` of vectors with three components."""
    if axis is not None:
        axisa = axisb = axisc = axis
    left, right = (tensor_of(v, "np.cross") for v in (a, b))
    left, right = moveaxis(left, axisa, -1), moveaxis(right, axisb, -1)
    for side in (left, right):
        if not same(side.shape[-1], 3):
            raise ComputeError(
                f"np.cross: {side.name} has {side.shape[-1]} components, but must have 3; of plane "
                "vectors, write a[..., 0]*b[..., 1] - a[..., 1]*b[..., 0]"
            )
    shape = broadcast([left.shape, right.shape], "np.cross")
    axes = data_axes(shape)
    following = [(*axes[:-1], (axes[-1] + k) % 3) for k in (1, 2)]
    (x1, x2), (y1, y2) = ([element(side, at, shape) for at in following] for side in (left, right))
    value = binary("-", binary("*", x1, y2), binary("*", x2, y1))
    return moveaxis(stage("cross", axes, value), -1, axisc)
