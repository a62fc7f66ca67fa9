"""``extern``: a stage that a function of the user's computes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from schedlang.compute.extern_op import ExternOp, checked_flops
from schedlang.compute.tensor import Tensor, check_shape
from schedlang.compute.whole import refuse_traced
from schedlang.errors import ComputeError, ComputeTypeError, explain, text_of
from schedlang.expr.dtypes import canonical
from schedlang.expr.names import check_name
from schedlang.externs.boxes import boxes_of
from schedlang.externs.functions import C_TYPES, function_of
from schedlang.signatures import public


@public
def extern(
    shape: Any,
    inputs: Sequence[Tensor] | Tensor,
    call: Any,
    name: str = "extern",
    dtype: Any = None,
    reads: Callable[..., Any] | None = None,
    writes: Callable[..., Any] | None = None,
    flops: Any = None,
) -> Any:
    """Return the tensor that ``call`` computes from ``inputs``, as a stage of its own.

    ``shape`` is a tuple of extents, or a list of such tuples for several outputs, which are then
    returned as a tuple. ``dtype`` is one dtype or a list of them: bool, an integer, float32 or
    float64, by default the dtype that all inputs have.

    ``call`` takes an array for each input, then for each output, and writes the latter:

    * a function of ``numba.njit``, or a ``numba.cfunc``;
    * a function of Python, which takes arrays of NumPy and holds the GIL;
    * the address of a C function, as a number or a function of ctypes;
    * the text of C source, which defines a function of the name ``name``.

    A C function is ``int f(const A *, ..., B *, const int64_t *sizes)``. ``sizes`` has the extents
    of each array, then its strides in elements. It returns 0 if it succeeds.

    One call computes the whole output, unless ``reads`` says what it reads for a box of the output.
    ``reads`` takes a slice for each dimension of the output, with ``start`` and ``stop``, and
    returns an index of slices, or a list with one for each input. Then
    ``s[T].compute_at(...)`` computes such a box at a loop, and arrays have gaps between their rows.
    ``writes`` returns the box that a call writes if it writes more than is asked for.

    ``flops`` is the number of operations that the whole output takes, if you know it, as an
    expression of sizes if need be: :func:`~schedlang.cost`, :func:`~schedlang.evaluate` and
    profiles of networks count them. Otherwise they say that these are unknown.

    Raises :class:`~schedlang.errors.ComputeTypeError` for a ``call`` that cannot take the arrays,
    :class:`~schedlang.errors.ComputeError` for C source that does not compile and for ``flops``
    that do not count operations, and :class:`~schedlang.errors.BoundsError` for boxes outside
    of an array.

    >>> import numpy as np, schedlang as sl
    >>> A = sl.placeholder((2, 3), name="A")
    >>> def cumulate(a, out):
    ...     np.cumsum(a, axis=1, out=out)
    >>> B = sl.extern((2, 3), [A], cumulate, name="B")
    >>> C = sl.compute((2, 3), lambda i, j: B[i, j] * 10, name="C")
    >>> print(sl.schedule(C))
    C(A: float32[2, 3]) -> C: float32[2, 3]
    <BLANKLINE>
    B: float32[2, 3]   global, 24 B
    B = cumulate(A)
    for i in 0..2:
      for j in 0..3:
        C[i, j] = B[i, j] * 10
    >>> sl.build(sl.schedule(C))(np.ones((2, 3), "float32"))
    array([[10., 20., 30.],
           [10., 20., 30.]], dtype=float32)
    """
    check_name(name, "a tensor")
    given = tuple(inputs) if isinstance(inputs, (list, tuple)) else (inputs,)
    refuse_traced(f"sl.extern for {name}", *given)
    for item in given:
        if not isinstance(item, Tensor):
            raise ComputeTypeError(
                f"sl.extern for {name}: inputs has {text_of(item)}, which is not a tensor; give a "
                "list of tensors"
            )
    several = isinstance(shape, list)
    shapes = [check_shape(s, name) for s in (shape if several else [shape])]
    if not shapes:
        raise ComputeError(
            f"sl.extern for {name}: the list of shapes is empty; give a shape for each output"
        )
    dtypes = output_dtypes(dtype, given, len(shapes), name)
    names = [f"{name}.v{k}" for k in range(len(shapes))] if len(shapes) > 1 else [name]
    drafts = tuple(
        Tensor(n, s, d, None, k) for k, (n, s, d) in enumerate(zip(names, shapes, dtypes))
    )
    for tensor in (*given, *drafts):
        if tensor.dtype not in C_TYPES:
            raise ComputeTypeError(
                explain(
                    f"sl.extern for {name}",
                    f"{tensor.name} is {tensor.dtype}, and functions take arrays of bool, of "
                    "integers, of float32 and of float64",
                    "Convert it in a stage before or after, with sl.cast.",
                )
            )
    function = function_of(call, name, given, drafts)
    if writes is not None and reads is None:
        raise ComputeError(
            f"sl.extern for {name}: writes= says what a call for a box writes, and needs reads=, "
            "which says what it reads"
        )
    boxes = None if reads is None else boxes_of(reads, writes, name, given, drafts)
    count = None if flops is None else checked_flops(flops, name, (*given, *drafts))
    op = ExternOp(name, given, function, boxes, drafts, flops=count)
    for tensor in drafts:
        tensor.op = op
    return drafts if several else drafts[0]


def output_dtypes(dtype: Any, inputs: Sequence[Tensor], count: int, name: str) -> list[str]:
    """Return the dtype of each output."""
    if isinstance(dtype, (list, tuple)):
        if len(dtype) != count:
            raise ComputeError(
                f"sl.extern for {name}: dtype= has {len(dtype)} dtypes for {count} outputs; give "
                "one for each, or one for all"
            )
        return [canonical(d) for d in dtype]
    if dtype is not None:
        return [canonical(dtype)] * count
    kinds = dict.fromkeys(t.dtype for t in inputs)
    if len(kinds) != 1:
        raise ComputeTypeError(
            explain(
                f"sl.extern for {name}",
                f"its inputs are {', '.join(kinds) or 'none'}, so nothing says what its output is",
                'Give dtype=, e.g. dtype="float32".',
            )
        )
    return [*kinds] * count
