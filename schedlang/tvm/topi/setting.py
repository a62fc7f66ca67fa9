"""Tensors with some elements replaced: a diagonal, a slice."""

from __future__ import annotations

from typing import Any

from schedlang.compute.math import all as every
from schedlang.compute.math import if_then_else
from schedlang.compute.tensor import Tensor
from schedlang.errors import ComputeError, ComputeTypeError
from schedlang.expr.nodes import Expr
from schedlang.tvm.topi.checks import check_numbers, check_shape, check_whole
from schedlang.tvm.topi.rules import one_of, operator, tensor
from schedlang.tvm.topi.stages import compute


@operator(data=tensor(), diagonal=tensor(),
          align=one_of("RIGHT_LEFT", "LEFT_RIGHT", "LEFT_LEFT", "RIGHT_RIGHT"))  # fmt: skip
def matrix_set_diag(data: Any, diagonal: Any, k: Any = 0, align: str = "RIGHT_LEFT") -> Tensor:
    """Return matrices with ``diagonal`` in place of their diagonal ``k``, or of several.

    The last two dimensions of ``data`` are the matrices; ``k > 0`` is above the main diagonal. For
    ``k=(low, high)``, ``diagonal`` has a row for each, the highest first. Shorter ones are at the
    side of the row that ``align`` says, first for diagonals above, then for those below.

    >>> import schedlang as sl
    >>> matrix_set_diag(sl.placeholder((3, 4), name="A"), sl.placeholder((3,), name="d"))
    Tensor(matrix_set_diag: float32[3, 4])
    """
    asked = "topi.matrix_set_diag"
    if data.ndim < 2:
        raise ComputeError(f"{asked}: {data.name} has {data.ndim} dimensions, but needs 2 or more")
    given = list(k) if isinstance(k, (list, tuple)) else [k]
    low, high = check_numbers(asked, given * 2 if len(given) == 1 else given, "k", (2,), -(2**31))
    rows, columns = (check_whole(asked, e, f"a side of {data.name}") for e in data.shape[-2:])
    if not -rows < low <= high < columns:
        raise ComputeError(
            f"{asked}: k={k} names diagonals that matrices of {rows} by {columns} do not have, "
            f"which are {1 - rows} to {columns - 1}"
        )
    lengths = {d: min(columns - max(d, 0), rows + min(d, 0)) for d in range(low, high + 1)}
    most, several = max(lengths.values()), low != high
    wanted = (*data.shape[:-2], *([high - low + 1] if several else []), most)
    check_shape(asked, diagonal, "diagonal", wanted)
    _check_dtype(asked, diagonal, data)

    def element(*at: Any) -> Expr:
        i, j = at[-2:]
        value = data.element(at)
        for d, length in lengths.items():
            side = align.split("_")[d < 0]
            start = most - length if side == "RIGHT" else 0
            place = (i if d >= 0 else j) + start
            row = (high - d,) if several else ()
            on = (j - i).equal(d)
            value = if_then_else(on, diagonal.element((*at[:-2], *row, place)), value)
        return value

    return compute("matrix_set_diag", data.shape, element)


@operator(a=tensor(), v=tensor())
def strided_set(a: Any, v: Any, begin: Any, end: Any, strides: Any = None) -> Tensor:
    """Return ``a`` with ``v`` in the slices ``begin:end:strides`` of its dimensions.

    Each is a list of numbers, one for each dimension, as in Python; a stride may be negative.

    >>> import schedlang as sl
    >>> strided_set(sl.placeholder((3, 4), name="A"), sl.placeholder((2, 2), name="v"),
    ...             [0, 1], [2, 3])
    Tensor(strided_set: float32[3, 4])
    """
    asked = "topi.strided_set"
    lists = []
    steps = strides if isinstance(strides, Tensor) or strides else [1] * a.ndim
    for what, value in (("begin", begin), ("end", end), ("strides", steps)):
        if isinstance(value, Tensor):
            raise ComputeError(
                f"{asked}: {what} is the tensor {value.name}, and the slice must be known before a "
                "call; give numbers, or choose by a condition: topi.where(cond, x, y)"
            )
        lists.append(check_numbers(asked, list(value), what, (a.ndim,), -(2**62)))
    slices = []
    for d, (size, first, last, step) in enumerate(zip(a.shape, *lists)):
        if step == 0:
            raise ComputeError(f"{asked}: the stride of dimension {d} is 0")
        whole = check_whole(asked, size, f"dimension {d} of {a.name}")
        slices.append(range(whole)[slice(first, last, step)])
    check_shape(asked, v, "v", tuple(map(len, slices)))
    _check_dtype(asked, v, a)

    def element(*at: Any) -> Expr:
        inside, places = [], []
        for i, taken in zip(at, slices):
            up = taken if taken.step > 0 else taken[::-1]
            if not up:
                return a.element(at)
            place = (i - up.start) // up.step
            inside += [i >= up.start, i <= up[-1], ((i - up.start) % up.step).equal(0)]
            places.append(place if taken.step > 0 else len(up) - 1 - place)
        return if_then_else(every(*inside), v.element(tuple(places)), a.element(at))

    return compute("strided_set", a.shape, element)


def _check_dtype(asked: str, value: Tensor, data: Tensor) -> None:
    """Raise unless the elements that are set have the dtype of the others."""
    if value.dtype != data.dtype:
        raise ComputeTypeError(
            f"{asked}: {value.name} is {value.dtype}, and {data.name} is {data.dtype}; convert one "
            "of them: topi.cast(x, dtype)"
        )


__all__ = ["matrix_set_diag", "strided_set"]
