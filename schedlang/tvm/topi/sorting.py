"""Operators that order elements: sorts, the largest ones, places in a sequence, unique ones.

A sort of a short axis counts for each element how many come before it, which is its place: loops
for any target, which compare all pairs. NumPy sorts a longer axis on the host, in a stage of its
own. NaN is greater than all numbers, and equal elements keep their order.
"""

from __future__ import annotations

from typing import Any

from schedlang.arrays.host.calls import on_host
from schedlang.arrays.host.table import ROWS
from schedlang.arrays.naming import automatic_name, mark_automatic
from schedlang.arrays.shapes import axis_number, same
from schedlang.arrays.shaping import expand_dims, reshape, swapaxes
from schedlang.compute import reduce
from schedlang.compute.math import if_then_else
from schedlang.compute.reduce import reduce_axis
from schedlang.compute.scatter import scatter
from schedlang.compute.tensor import Shape, Tensor, shape_text
from schedlang.errors import ComputeError, explain
from schedlang.expr import dtypes
from schedlang.expr.nodes import Axis, Expr
from schedlang.language.calls import call
from schedlang.language.construct import as_expr, cast, select
from schedlang.tvm.te_dtypes import te_dtype
from schedlang.tvm.topi.checks import check_numbers
from schedlang.tvm.topi.elementwise import cast as cast_to
from schedlang.tvm.topi.elementwise import full
from schedlang.tvm.topi.gathering import cumsum
from schedlang.tvm.topi.reduction import sum as total
from schedlang.tvm.topi.rules import one_of, operator, tensor
from schedlang.tvm.topi.stages import compute, stage_of

# the longest axis that loops sort: a thousand comparisons for each element
LONGEST = 1024


@operator(data=tensor())
def sort(data: Any, axis: int = -1, is_ascend: int = 1) -> Tensor:
    """Return the elements of ``data`` in order along ``axis``, descending unless ``is_ascend``.

    Loops sort an axis of at most 1024 elements; NumPy sorts a longer or a symbolic one on the host.
    Raises :class:`~schedlang.errors.ComputeError` for an axis that ``data`` lacks.

    >>> import numpy as np, schedlang as sl
    >>> A = sl.placeholder((4,), name="A")
    >>> sl.reference(sort(A))(np.array([3, 1, 2, 1], "float32"))
    array([1., 1., 2., 3.], dtype=float32)
    """
    values, _ = ordered("topi.sort", data, axis, None, not is_ascend)
    return stage_of(values, data)


@operator(data=tensor())
def argsort(
    data: Any, valid_count: Any = None, axis: int = -1, is_ascend: int = 1, dtype: Any = "float32"
) -> Tensor:
    """Return the indices that sort ``data`` along ``axis``, in ``dtype``, which is float32 in TVM.

    The index of the first of equal elements comes first. Raises
    :class:`~schedlang.errors.ComputeError` for a ``valid_count``.

    >>> import numpy as np, schedlang as sl
    >>> A = sl.placeholder((4,), name="A")
    >>> sl.reference(argsort(A, dtype="int32"))(np.array([3, 1, 2, 1], "float32"))
    array([1, 3, 2, 0], dtype=int32)
    """
    if valid_count is not None:
        raise ComputeError(
            explain(
                "topi.argsort(valid_count=...)",
                "a sort takes whole axes",
                "Set the other elements to te.max_value(dtype) first, so that they come last.",
            )
        )
    _, places = ordered("topi.argsort", data, axis, None, not is_ascend)
    return stage_of(cast_to(places, te_dtype(dtype)))


@operator(data=tensor(), ret_type=one_of("both", "values", "indices"))
def topk(
    data: Any, k: int = 1, axis: int = -1, ret_type: str = "both", is_ascend: bool = False,
    dtype: Any = "int64",
) -> Any:  # fmt: skip
    """Return the ``k`` largest elements along ``axis``, in order, and their indices as ``dtype``.

    They are a list, or one tensor for ``ret_type="values"`` or ``"indices"``. With ``is_ascend``
    they are the smallest elements; ``k`` below 1 means all. Raises
    :class:`~schedlang.errors.ComputeError` for more elements than the axis has.

    >>> import schedlang as sl
    >>> topk(sl.placeholder((3, 8), name="A"), 2)
    [Tensor(values: float32[3, 2]), Tensor(indices: int64[3, 2])]
    """
    asked = "topi.topk"
    (count,) = check_numbers(asked, k, "k", (1,), -(2**31))
    along = axis_number(axis, data.ndim, asked)
    length = data.shape[along]
    if isinstance(length, int) and count > length:
        raise ComputeError(f"{asked}: k={count} is more than the {length} elements of axis {along}")
    values, places = ordered(asked, data, axis, None if count < 1 else count, not is_ascend)

    def named(word: str, t: Tensor, kind: str) -> Tensor:
        return compute(word, t.shape, lambda *at: cast(t.element(at), kind))

    results = {
        "values": lambda: named("values", values, data.dtype),
        "indices": lambda: named("indices", places, te_dtype(dtype)),
    }
    chosen = list(results) if ret_type == "both" else [ret_type]
    tensors = [results[word]() for word in chosen]
    return tensors if ret_type == "both" else tensors[0]


@operator(sorted_sequence=tensor(), values=tensor())
def searchsorted(
    sorted_sequence: Any, values: Any, right: bool = False, out_dtype: Any = "int64"
) -> Tensor:
    """Return for each of ``values`` how many elements of a sorted sequence come before it.

    ``sorted_sequence`` is ``[n]``, or ``[..., n]`` with the first dimensions of ``values``. With
    ``right``, equal elements come before, too. Each element is compared. Raises
    :class:`~schedlang.errors.ComputeError` for other dimensions.

    >>> import numpy as np, schedlang as sl
    >>> S, v = sl.placeholder((4,), name="S"), sl.placeholder((2,), name="v")
    >>> count = sl.reference(searchsorted(S, v))
    >>> count(np.array([1, 2, 2, 3], "float32"), np.array([2, 9], "float32"))
    array([1, 4])
    """
    lead = sorted_sequence.ndim - 1
    fits = values.ndim == lead + 1 and all(map(same, sorted_sequence.shape[:-1], values.shape))
    if lead and not fits:
        raise ComputeError(
            f"topi.searchsorted: values {values.name} of shape {shape_text(values.shape)} must "
            f"have the first dimensions of {sorted_sequence.name}, "
            f"{shape_text(sorted_sequence.shape)}"
        )
    return places_in(sorted_sequence, values, right, te_dtype(out_dtype))


def places_in(sequence: Tensor, values: Tensor, right: bool, dtype: str) -> Tensor:
    """Return how many elements of sorted sequences come before each value, NaN after all."""
    lead = sequence.ndim - 1
    common, _ = dtypes.promote(sequence.dtype, False, values.dtype, False)

    def count(*at: Axis) -> Any:
        k = reduce_axis(sequence.shape[-1], "k")
        item = cast(sequence.element((*at[:lead], k)), common)
        value = cast(values.element(at), common)
        return reduce.sum(cast(~(item > value if right else item >= value), dtype), k)

    return compute("count", values.shape, count)


@operator(data=tensor("elements"))
def unique(data: Any, is_sorted: bool = True, return_counts: bool = False) -> list[Tensor]:
    """Return the different elements of ``data[n]``, and where they are.

    The list has the elements, ``[n]``, ascending or, without ``is_sorted``, in the order of their
    first occurrence, with zeros after the last; the index of the first occurrence of each, int32;
    the place of each element of ``data`` among them, int32; their number, ``[1]``, int32; and with
    ``return_counts`` how often each occurs, int32.

    >>> import numpy as np, schedlang as sl
    >>> A = sl.placeholder((4,), "int32", name="A")
    >>> f = sl.build(sl.schedule(unique(A)), target="python")
    >>> f(np.array([7, 3, 7, 5], "int32"))[0]
    array([3, 5, 7, 0], dtype=int32)
    """
    values, order = ordered("topi.unique", data, 0, None, False)
    n = data.shape[0]

    def differs(j: Axis) -> Expr:
        before = values.element((_within(as_expr(j) - 1, n),))
        return cast((j < 1) | (values.element((j,)) != before), "int32")

    starts = compute("starts", (n,), differs)
    sums = cumsum(starts)
    groups = compute("groups", (n,), lambda j: sums.element((j,)) - 1)

    def scattered(word: str, dtype: str, index: Any, value: Any, combine: str = "last") -> Tensor:
        init = full((n,), dtype, 0)
        result: Tensor = scatter(
            init, (n,), lambda j: (index(j), cast(value(j), dtype)), combine, mode="drop",
            name=automatic_name(word),
        )  # fmt: skip
        mark_automatic(result)
        return result

    def firsts_by(of: Tensor) -> Tensor:
        # equal elements keep their order; an update at n is dropped
        return scattered(
            "indices", "int32",
            lambda j: select(starts.element((j,)) > 0, of.element((j,)), as_expr(n)),
            lambda j: order.element((j,)),
        )  # fmt: skip

    if not is_sorted:
        firsts = firsts_by(groups)
        # what is beyond the last element comes last
        count = total(starts)
        keyed = compute(
            "keyed", (n,),
            lambda g: if_then_else(g < count.as_scalar(), firsts.element((g,)), as_expr(n)),
        )  # fmt: skip
        _, by_first = ordered("topi.unique", keyed, 0, None, False)
        moved = scattered("moved", "int32", lambda g: by_first.element((g,)), lambda g: g)
        by_value = groups
        groups = compute(
            "places", (n,), lambda j: moved.element((_within(by_value.element((j,)), n),))
        )

    def place(j: Axis) -> Expr:
        return groups.element((j,))

    results = [
        scattered("unique", data.dtype, place, lambda j: values.element((j,))),
        firsts_by(groups),
        scattered("inverse", "int32", lambda j: order.element((j,)), place),
        compute("num_unique", (1,), lambda _: total(starts).as_scalar()),
    ]
    if return_counts:
        results.append(scattered("counts", "int32", place, lambda j: as_expr(1), "sum"))
    return results


def _within(index: Expr, size: Any) -> Expr:
    """Return ``index``, which is in a dimension of ``size``, in a form that proves it."""
    return call("max", call("min", index, as_expr(size) - 1), 0)


def ordered(
    asked: str, x: Tensor, axis: int, count: int | None, descending: bool
) -> tuple[Tensor, Tensor]:
    """Return the first ``count`` elements of the order along a dimension, and their indices.

    The indices are int64. A tensor without dimensions is its own order.
    """
    if not x.ndim:
        values, places = ordered(asked, expand_dims(x, 0), 0, count, descending)
        return reshape(values, ()), reshape(places, ())
    along = axis_number(axis, x.ndim, asked)
    rows = swapaxes(x, along, -1)
    length = rows.shape[-1]
    short = isinstance(length, int) and length <= LONGEST
    pair = _by_ranks if short else _on_host
    values, places = pair(rows, (*rows.shape[:-1], length if count is None else count), descending)
    return swapaxes(values, along, -1), swapaxes(places, along, -1)


def _by_ranks(rows: Tensor, shape: Shape, descending: bool) -> tuple[Tensor, Tensor]:
    before = ranks(rows, descending)

    def placed(dtype: str, value: Any) -> Tensor:
        def update(*at: Axis) -> tuple[tuple[Expr, ...], Any]:
            return (*at[:-1], before.element(at)), value(at)

        name, init = automatic_name("scatter"), full(shape, dtype, 0)
        result: Tensor = scatter(init, rows.shape, update, "last", mode="drop", name=name)
        mark_automatic(result)
        return result

    return placed(rows.dtype, rows.element), placed("int64", lambda at: cast(at[-1], "int64"))


def _on_host(rows: Tensor, shape: Shape, descending: bool) -> tuple[Tensor, Tensor]:
    """Sort by NumPy; a descending order is the ascending one of the elements from the end."""
    length = rows.shape[-1]
    last = as_expr(length) - 1
    ascending = rows
    if descending:
        ascending = compute(
            "from_end", rows.shape, lambda *at: rows.element((*at[:-1], last - at[-1]))
        )
    order = on_host("argsort", ROWS["argsort"], a=ascending, axis=-1, kind="stable")

    def place(*at: Axis) -> Expr:
        if not descending:
            return order.element(at)
        return last - order.element((*at[:-1], last - at[-1]))

    places = compute("places", shape, place)

    def value(*at: Axis) -> Expr:
        return rows.element((*at[:-1], _within(places.element(at), length)))

    return compute("sorted", shape, value), places


def ranks(rows: Tensor, descending: bool) -> Tensor:
    """Return how many elements of the last dimension, of a known extent, come before each one."""
    keys = cast_to(rows, "uint8") if rows.dtype == "bool" else rows

    def rank(*at: Axis) -> Any:
        other = reduce_axis(rows.shape[-1], "other")
        own, its = keys.element(at), keys.element((*at[:-1], other))
        pair = (own, its) if descending else (its, own)
        # an equal element comes before if its index does
        before = select(other < at[-1], ~_less(*reversed(pair)), _less(*pair))
        return reduce.sum(cast(before, "int64"), other)

    return compute("rank", rows.shape, rank)


def _less(a: Expr, b: Expr) -> Expr:
    if not dtypes.is_float(a.dtype):
        return a < b
    return (a < b) | ((a == a) & (b != b))  # noqa: PLR0124
