"""Conversion between layouts: the order of dimensions, and channels in blocks."""

from __future__ import annotations

import re
from typing import Any

from schedlang.arrays.shapes import extent
from schedlang.compute.tensor import Extent, Tensor
from schedlang.errors import ComputeError
from schedlang.expr.nodes import Axis, Expr
from schedlang.language.construct import as_expr
from schedlang.signatures import public
from schedlang.tvm.topi.checks import check_divides, check_same, check_tensor
from schedlang.tvm.topi.stages import compute


@public
def layout_transform(
    array: Any, src_layout: str, dst_layout: str, schedule_rule: Any = None
) -> Tensor:
    """Return ``array`` in ``dst_layout`` instead of ``src_layout``: ``"NCHW"`` as ``"NCHW16c"``.

    A capital letter is a dimension; a number and its small letter are a block of it, such as
    ``16c`` of ``C``. Each dimension must divide into its blocks. ``schedule_rule`` has no effect.

    >>> import schedlang as sl
    >>> A = sl.placeholder((1, 32, 8, 8), name="A")
    >>> layout_transform(A, "NCHW", "NCHW16c")
    Tensor(layout_transform: float32[1, 2, 8, 8, 16])
    """
    asked = "topi.layout_transform"
    source, result = (
        _parse(asked, v, w) for v, w in ((src_layout, "src_layout"), (dst_layout, "dst_layout"))
    )
    if {c for c, _ in source if c.isupper()} != {c for c, _ in result if c.isupper()}:
        raise ComputeError(
            f"{asked}: src_layout={src_layout!r} and dst_layout={dst_layout!r} have different "
            "dimensions"
        )
    check_tensor(asked, array, "array", *(c for c, _ in source))
    size = {c: array.shape[k] for k, (c, _) in enumerate(source)}
    for c, block in source:
        if block:
            what = f"the extent of {block}{c} of {array.name}"
            check_same(asked, size[c], what, block, "the block")
    # the whole extent of each dimension
    whole: dict[str, Extent] = {
        c: extent(as_expr(e) * dict(source).get(c.lower(), 1))
        for c, e in size.items()
        if c.isupper()
    }
    blocks = {c: block for c, block in result if block}
    for c, block in blocks.items():
        check_divides(
            f"{asked} to {dst_layout!r}",
            whole[c.upper()],
            block,
            f"the extent of dimension {c.upper()} of {array.name}",
            f"blocks of {block}",
        )

    def shape_of(c: str) -> Extent:
        if c.islower():
            return blocks[c]
        block = blocks.get(c.lower(), 1)
        return whole[c] if block == 1 else extent(as_expr(whole[c]) // block)

    def element(*axes: Axis) -> Expr:
        at = {c: axis for (c, _), axis in zip(result, axes)}
        place = {
            c: at[c] * blocks[c.lower()] + at[c.lower()] if c.lower() in blocks else at[c]
            for c in whole
        }
        read = []
        for c, block in source:
            inner = dict(source).get(c.lower(), 0)
            if block:
                read.append(place[c.upper()] % block)
            else:
                read.append(place[c] // inner if inner else place[c])
        return array[tuple(read)]

    return compute("layout_transform", tuple(shape_of(c) for c, _ in result), element)


def _parse(asked: str, layout: Any, what: str) -> list[tuple[str, int]]:
    """Return the dimensions of a layout and their blocks, 0 for a whole dimension."""
    parts = re.findall(r"(\d*)([A-Za-z])", layout) if isinstance(layout, str) else []
    dims = [(c, int(number) if number else 0) for number, c in parts]
    letters = [c for c, _ in dims]
    sound = (
        "".join(number + c for number, c in parts) == layout
        and len(set(letters)) == len(letters)
        and all((block > 0) == c.islower() for c, block in dims)
        and all(c.upper() in letters for c in letters)
    )
    if not dims or not sound:
        raise ComputeError(
            f"{asked}: {what}={layout!r} is not a layout such as 'NCHW' or 'NCHW16c': a capital "
            "letter for each dimension, and a number before the letter of a block"
        )
    return dims
