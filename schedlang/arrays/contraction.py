"""Sums of products of arrays whose dimensions have labels, as in Einstein's notation."""

from __future__ import annotations

from collections.abc import Sequence

from schedlang.arrays.elementwise import array
from schedlang.arrays.shapes import broadcast, is_one, same_shape
from schedlang.arrays.stages import read, stage
from schedlang.compute import math, reduce
from schedlang.compute.reduce import Reduction
from schedlang.compute.tensor import Extent, Tensor, shape_text
from schedlang.errors import ComputeError
from schedlang.expr import dtypes
from schedlang.expr.nodes import Axis, Expr
from schedlang.language.construct import binary, cast

Labels = Sequence[str]


def contraction(
    word: str, operands: Sequence[Tensor], labels: Sequence[Labels], output: Labels, asked: str
) -> Tensor:
    """Return the product of ``operands``, summed over the labels that are not in ``output``.

    ``labels`` name the dimensions of each operand. A label that an operand has twice is its
    diagonal. Extents of one label are equal, or 1, which broadcasts. The labels name the axes.
    """
    extents = label_extents(operands, labels, asked)
    axes = {
        label: Axis(label, extent, "data" if label in output else "reduce")
        for label, extent in extents.items()
    }
    factors = [
        read(
            t,
            [0 if is_one(e) and not is_one(extents[c]) else axes[c] for c, e in zip(own, t.shape)],
        )
        for t, own in zip(operands, labels)
    ]
    data = [axes[c] for c in output]
    return contract(word, data, [a for a in axes.values() if a.is_reduce], factors)


def label_extents(
    operands: Sequence[Tensor], labels: Sequence[Labels], asked: str
) -> dict[str, Extent]:
    """Return the extent of each label; raise :class:`ComputeError` for two that do not fit."""
    extents: dict[str, Extent] = {}
    for tensor, own in zip(operands, labels):
        _check_diagonals(tensor, own, asked)
        for label, extent in zip(own, tensor.shape):
            if label in extents:
                what = f"{asked}: {label}"
                (extent,) = broadcast([(extents[label],), (extent,)], what)
            extents[label] = extent
    return extents


def _check_diagonals(tensor: Tensor, labels: Labels, asked: str) -> None:
    """Raise for a label of two dimensions of one tensor that differ.

    As in NumPy, 1 does not broadcast here. NumPy returns a diagonal of shape ``(0, 1)``, but its
    elements lie outside of the array.
    """
    own: dict[str, Extent] = {}
    for label, extent in zip(labels, tensor.shape):
        first = own.setdefault(label, extent)
        if not same_shape((first,), (extent,)):
            raise ComputeError(
                f"{asked}: {label} labels dimensions of {first} and of {extent} in {tensor.name} "
                f"of shape {shape_text(tensor.shape)}; a diagonal needs two equal ones"
            )


def contract(
    word: str, data: Sequence[Axis], reduced: Sequence[Axis], factors: Sequence[Expr]
) -> Tensor:
    """Return the sum over ``reduced`` of the product of ``factors``, in their common dtype.

    As in NumPy, bools are joined by "and" and "or", and short floats are accumulated in float32.
    """
    dtype, weak = factors[0].dtype, factors[0].weak
    for factor in factors[1:]:
        dtype, weak = dtypes.promote(dtype, weak, factor.dtype, factor.weak)
    wide = "float32" if dtype in dtypes.SHORT_FLOATS and reduced else dtype
    product = cast(factors[0], wide)
    for factor in factors[1:]:
        product = binary("&" if wide == "bool" else "*", product, cast(factor, wide))
    if not reduced:
        return stage(word, tuple(data), product)
    total: Reduction = (
        math.any(product, axis=tuple(reduced))
        if wide == "bool"
        else reduce.sum(product, axis=tuple(reduced))
    )
    tensor = stage(word, tuple(data), total)
    return tensor if wide == dtype else array("astype", lambda x: cast(x, dtype), tensor)
