"""Images at points that data give: grids of points, and boxes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from schedlang.compute.math import abs as magnitude
from schedlang.compute.math import all as every
from schedlang.compute.math import ceil, floor, if_then_else, select
from schedlang.compute.math import round as nearest_even
from schedlang.compute.tensor import Tensor
from schedlang.expr.nodes import Expr
from schedlang.language.calls import call
from schedlang.language.construct import as_expr, cast, const
from schedlang.tvm.topi.checks import check_choice, check_numbers, check_same, check_shape, laid_out
from schedlang.tvm.topi.rules import floats, integers, one_of, operator
from schedlang.tvm.topi.stages import compute, result_dtype


@operator(data=floats("N batch", "2 rows", "3 columns"))
def affine_grid(data: Any, target_shape: Any) -> Tensor:
    """Return the points that a matrix of 2 by 3 for each batch maps a regular grid to.

    The grid goes from -1 to 1 in both directions; ``target_shape`` is its height and width, of at
    least 2. The result ``[N, 2, height, width]`` has x and y, as :func:`grid_sample` takes them.

    >>> import schedlang as sl
    >>> affine_grid(sl.placeholder((4, 2, 3), name="M"), (16, 32))
    Tensor(affine_grid: float32[4, 2, 16, 32])
    """
    asked = "topi.image.affine_grid"
    check_shape(asked, data, "data", (data.shape[0], 2, 3))
    height, width = check_numbers(asked, list(target_shape), "target_shape", (2,), 2)

    def element(n: Any, row: Any, y: Any, x: Any) -> Expr:
        at = (cast(x, data.dtype) * const(2 / (width - 1), data.dtype) - 1,
              cast(y, data.dtype) * const(2 / (height - 1), data.dtype) - 1)  # fmt: skip
        return data[n, row, 0] * at[0] + data[n, row, 1] * at[1] + data[n, row, 2]

    return compute("affine_grid", (data.shape[0], 2, height, width), element)


@operator(
    data=floats("N batch", "C channels", "H height", "W width"),
    grid=floats("N batch", "2 coordinates", "h height", "w width"),
    method=one_of("bilinear", "nearest"), layout=one_of("NCHW"),
    padding_mode=one_of("zeros", "border", "reflection"),
)  # fmt: skip
def grid_sample(
    data: Any,
    grid: Any,
    method: str = "bilinear",
    layout: str = "NCHW",
    padding_mode: str = "zeros",
    align_corners: bool = True,
) -> Tensor:
    """Return ``data`` at the points of ``grid``, whose channels are x and y from -1 to 1.

    With ``align_corners``, -1 and 1 are the centres of the outer pixels, and otherwise their edges.
    Pixels outside are 0 (``padding_mode="zeros"``), the nearest one (``"border"``), or mirrored
    (``"reflection"``). ``method`` is ``"bilinear"`` or ``"nearest"``, whose ties go to even pixels.

    >>> import schedlang as sl
    >>> A = sl.placeholder((1, 3, 20, 30), name="A")
    >>> grid_sample(A, sl.placeholder((1, 2, 5, 6), name="G"))
    Tensor(grid_sample: float32[1, 3, 5, 6])
    """
    asked = "topi.image.grid_sample"
    check_shape(asked, grid, "grid", (data.shape[0], 2, *grid.shape[2:]))
    sizes = data.shape[2:]

    def place(point: Expr, size: Any) -> Expr:
        many = cast(as_expr(size), data.dtype)
        if align_corners:
            at = (point + 1) * (many - 1) * 0.5
            low, span = const(0, data.dtype), many - 1
        else:
            at = ((point + 1) * many - 1) * 0.5
            low, span = const(-0.5, data.dtype), many
        if padding_mode == "reflection":
            far = magnitude(at - low)
            turns = floor(far / call("max", span, const(1e-6, data.dtype)))
            inside = far - turns * span
            odd = turns - floor(turns * 0.5) * 2
            at = select(odd > 0.5, span - inside, inside) + low
        if padding_mode != "zeros":
            return call("min", call("max", at, 0.0), many - 1)
        # a point far outside is 0 wherever it is, and its index must fit
        return call("min", call("max", at, -2.0), many + 1)

    def element(n: Any, c: Any, h: Any, w: Any) -> Expr:
        y, x = (place(grid[n, 1 - k, h, w], size) for k, size in enumerate(sizes))
        return _sampled(lambda i, j: _pixel(data, (n, c), i, j), y, x, method)

    return compute("grid_sample", (*data.shape[:2], *grid.shape[2:]), element)


def _sampled(pixel: Callable[[Expr, Expr], Expr], y: Expr, x: Expr, method: str) -> Expr:
    """Return the value at a point, from the pixels around it."""
    if method != "bilinear":
        return pixel(cast(nearest_even(y), "int32"), cast(nearest_even(x), "int32"))
    top, left = floor(y), floor(x)
    i, j = cast(top, "int32"), cast(left, "int32")
    down, along = y - top, x - left
    upper = pixel(i, j) * (1 - along) + pixel(i, j + 1) * along
    lower = pixel(i + 1, j) * (1 - along) + pixel(i + 1, j + 1) * along
    return upper * (1 - down) + lower * down


def _pixel(data: Tensor, before: tuple[Any, ...], i: Expr, j: Expr) -> Expr:
    """Return a pixel of ``NCHW``; 0 outside of the image."""
    height, width = data.shape[2:]
    inside = every(i >= 0, i < height, j >= 0, j < width)
    return if_then_else(inside, data.element((*before, i, j)), const(0, data.dtype))


@operator(
    boxes=floats("boxes", "4 corners"), box_indices=integers("boxes"),
    method=one_of("bilinear", "nearest_neighbor"),
)  # fmt: skip
def crop_and_resize(
    data: Any,
    boxes: Any,
    box_indices: Any,
    crop_size: Any,
    layout: str = "NCHW",
    method: str = "bilinear",
    extrapolation_value: Any = None,
    out_dtype: Any = None,
) -> Tensor:
    """Return each box of an image, resized to ``crop_size``, which is height and width.

    A box is ``(y1, x1, y2, x2)``, where 0 and 1 are the centres of the outer pixels, of the image
    ``box_indices`` names. Points outside of the image are ``extrapolation_value``, or 0.

    >>> import schedlang as sl
    >>> A, B = sl.placeholder((1, 3, 64, 64), name="A"), sl.placeholder((5, 4), name="B")
    >>> crop_and_resize(A, B, sl.placeholder((5,), "int32", name="I"), (8, 8))
    Tensor(crop_and_resize: float32[5, 3, 8, 8])
    """
    asked = "topi.image.crop_and_resize"
    check_choice(asked, layout, "layout", ("NCHW", "NHWC"))
    laid_out(asked, data, "data", layout)
    check_shape(asked, boxes, "boxes", (boxes.shape[0], 4))
    check_same(asked, box_indices.shape[0], "the number of box_indices", boxes.shape[0],
               "the number of boxes")  # fmt: skip
    target = check_numbers(asked, list(crop_size), "crop_size", (2,), 1)
    own = dict(zip(layout, data.shape))
    kind = result_dtype(out_dtype, data)
    outside = const(0.0 if extrapolation_value is None else extrapolation_value, kind)
    shape = {"N": boxes.shape[0], "C": own["C"], "H": target[0], "W": target[1]}

    def point(n: Any, axis: Any, k: int) -> tuple[Expr, Expr]:
        """Return a coordinate in the image, and the last one."""
        low, high = boxes[n, k], boxes[n, k + 2]
        last = cast(as_expr(own["HW"[k]]) - 1, boxes.dtype)
        if target[k] == 1:
            return (low + high) * last * 0.5, last
        step = (high - low) * last / (target[k] - 1)
        return low * last + step * cast(axis, boxes.dtype), last

    def element(*axes: Any) -> Expr:
        at = dict(zip(layout, axes))
        (y, bottom), (x, right) = point(at["N"], at["H"], 0), point(at["N"], at["W"], 1)

        def pixel(i: Expr, j: Expr) -> Expr:
            clamped = {"N": box_indices[at["N"]], "C": at["C"]}
            for letter, index in (("H", i), ("W", j)):
                last = as_expr(own[letter]) - 1
                clamped[letter] = call("min", call("max", cast(index, "int64"), 0), last)
            return cast(data.element(tuple(clamped[c] for c in layout)), kind)

        if method == "bilinear":
            top, left = floor(y), floor(x)
            upper = _between(pixel(top, left), pixel(top, ceil(x)), x - left)
            lower = _between(pixel(ceil(y), left), pixel(ceil(y), ceil(x)), x - left)
            value = _between(upper, lower, y - top)
        else:
            value = pixel(nearest_even(y), nearest_even(x))
        inside = every(y >= 0, y <= bottom, x >= 0, x <= right)
        return if_then_else(inside, cast(value, kind), outside)

    return compute("crop_and_resize", tuple(shape[c] for c in layout), element)


def _between(a: Expr, b: Expr, part: Expr) -> Expr:
    return a + (b - a) * part


__all__ = ["affine_grid", "crop_and_resize", "grid_sample"]
