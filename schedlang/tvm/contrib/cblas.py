"""te's ``tvm.contrib.cblas``: products of matrices by BLAS, which SciPy brings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from schedlang.compute.tensor import Tensor, shape_text
from schedlang.errors import BoundsError, ComputeTypeError, explain
from schedlang.externs import definition
from schedlang.index.simplify import to_lin
from schedlang.signatures import public
from schedlang.tvm.packed import Handle, InTheBox


@public
def matmul(
    lhs: Tensor,
    rhs: Tensor,
    transa: bool = False,
    transb: bool = False,
    *,
    tag: Any = "",
    attrs: Any = None,
) -> Any:
    """Return the product of two matrices, float32 or float64, by the BLAS of SciPy.

    ``transa`` and ``transb`` transpose them first. ``tag`` and ``attrs`` have no effect.

    Raises :class:`~schedlang.errors.ComputeTypeError` for other dtypes, and
    :class:`~schedlang.errors.BoundsError` for shapes that do not fit.

    >>> import numpy as np, schedlang as sl
    >>> from schedlang.contrib import cblas
    >>> A, B = sl.placeholder((2, 3), name="A"), sl.placeholder((3, 2), name="B")
    >>> f = sl.build(sl.schedule(cblas.matmul(A, B)))
    >>> f(np.ones((2, 3), "float32"), np.ones((3, 2), "float32"))
    array([[3., 3.],
           [3., 3.]], dtype=float32)
    """
    n, m = _shape_of((lhs, rhs), transa, transb)
    call = _product(bool(transa), bool(transb))
    steps = lhs.shape[0 if transa else 1]
    return definition.extern((n, m), [lhs, rhs], call, name="C", flops=2 * n * m * steps)


def _shape_of(
    operands: Sequence[Tensor | Handle], transa: bool, transb: bool, asked: str = "cblas.matmul"
) -> tuple[Any, Any]:
    """Return the shape of the product; raise if BLAS cannot compute it."""
    for operand in operands:
        if operand.dtype not in ("float32", "float64") or operand.dtype != operands[0].dtype:
            raise ComputeTypeError(
                explain(
                    asked,
                    f"{operand.name} is {operand.dtype}, and BLAS multiplies float32 or float64",
                    "Convert both operands to one of them, in stages before.",
                )
            )
        if operand.ndim != 2:
            raise BoundsError(
                f"{asked}: {operand.name} of shape {shape_text(operand.shape)} is not a matrix"
            )
    (n, k), (inner, m) = (
        tuple(t.shape)[:: -1 if turned else 1] for t, turned in zip(operands, (transa, transb))
    )
    if to_lin(k) != to_lin(inner):
        left, right = (f"{t.name}{shape_text(t.shape)}" for t in operands)
        turned = " and ".join(n for n, t in (("transa", transa), ("transb", transb)) if t)
        raise BoundsError(
            explain(
                asked,
                f"{left} and {right}{f' with {turned}' if turned else ''} have the inner "
                f"dimensions {k} and {inner}",
                "Give matrices whose inner dimensions agree, or transa= and transb=.",
            )
        )
    return n, m


@lru_cache(maxsize=4)
def _product(transa: bool, transb: bool) -> Any:
    """Return a function of numba, whose product calls the BLAS at the addresses of SciPy."""
    from numba import njit
    from numpy import dot

    def matmul(a, b, out):  # type: ignore[no-untyped-def]
        dot(a.T if transa else a, b.T if transb else b, out)

    return njit(nogil=True)(matmul)


def _compiled(args: Sequence[Any], handles: Sequence[Handle]) -> Callable[..., None]:
    """Return the function of numba for a call of two inputs and one output, and two flags."""
    asked = 'tvm.tir.call_packed("tvm.contrib.cblas.matmul", a, b, c, transa, transb)'
    flags = [*args[3:], False, False][:2]
    if len(handles) != 3 or list(args[:3]) != list(handles) or len(args) > 5:
        raise ComputeTypeError(
            explain(
                asked,
                "it takes the two inputs, the output and two flags",
                "Pass ins[0], ins[1], outs[0], then transa and transb.",
            )
        )
    n, m = _shape_of(handles[:2], bool(flags[0]), bool(flags[1]), asked)
    if [to_lin(e) for e in handles[2].shape] != [to_lin(n), to_lin(m)]:
        raise BoundsError(
            f"{asked}: the product has the shape {shape_text((n, m))}, but {handles[2].name} has "
            f"{shape_text(handles[2].shape)}"
        )
    return _product(bool(flags[0]), bool(flags[1]))


PACKED = InTheBox("tvm.contrib.cblas.matmul", _compiled)

__all__ = ["matmul"]
