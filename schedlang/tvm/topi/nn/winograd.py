"""Convolutions of 3 by 3 by Winograd's minimal filtering, with weights transformed ahead.

F(m x m, 3 x 3) computes m by m outputs from m + 2 by m + 2 inputs with (m + 2)**2 products instead
of 9*m*m: 2.25 times fewer for m = 2, 4 times fewer for m = 4. The sums differ from the sums of a
direct convolution, so that rounding errors are larger; ``docs/reference/topi.md`` has measurements.
Source: A. Lavin and S. Gray, "Fast Algorithms for Convolutional Neural Networks", CVPR 2016.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from schedlang.arrays.shapes import extent
from schedlang.compute.reduce import reduce_axis
from schedlang.compute.reduce import sum as total
from schedlang.compute.tensor import Tensor
from schedlang.errors import ComputeError, ComputeTypeError, explain
from schedlang.expr import dtypes
from schedlang.expr.nodes import Axis, Expr
from schedlang.language.construct import as_expr, binary, cast, const, select
from schedlang.signatures import public
from schedlang.tvm.topi.checks import (
    MEANINGS,
    check_float,
    check_layout,
    check_same,
    check_shape,
    check_tensor,
    check_whole,
    laid_out,
)
from schedlang.tvm.topi.rules import one_of, operator
from schedlang.tvm.topi.stages import compute, result_dtype
from schedlang.tvm.topi.windows import output_count, pad_windows, windows

# the points at which F(m, 3) evaluates polynomials, besides infinity; 1/2 and -2 round less than
# the paper's 2 and -2 (B. Barabasz et al., "Error Analysis and Improving the Accuracy of Winograd
# Convolution for Deep Neural Networks", ACM TOMS 2020)
POINTS = {2: (0, 1, -1), 4: (0, 1, -1, Fraction(1, 2), -2)}
Matrix = tuple[tuple[Fraction, ...], ...]


def winograd_matrices(tile_size: int) -> tuple[Matrix, Matrix, Matrix]:
    """Return the matrices A, B and G of F(m, 3) for m = ``tile_size``, 2 or 4.

    For inputs d and weights g, the outputs are ``A.T @ ((B.T @ d) * (G @ g))``. A has m + 2 rows
    and m columns, B is square, and G has 3 columns (Toom-Cook; Lavin and Gray, section 4).

    >>> A, B, G = winograd_matrices(2)
    >>> [[str(v) for v in row] for row in G]
    [['1', '0', '0'], ['1/2', '1/2', '1/2'], ['1/2', '-1/2', '1/2'], ['0', '0', '1']]
    """
    points = [Fraction(p) for p in POINTS[tile_size]]
    count = len(points)
    a, g, columns = [], [], []
    for k, p in enumerate(points):
        others = points[:k] + points[k + 1 :]
        weight = Fraction(1)
        for q in others:
            weight *= p - q
        # signs as in the paper: the input of the first point counts positively
        sign = -1 if weight < 0 else 1
        a.append(tuple(p**e for e in range(tile_size)))
        g.append(tuple(p**e / (weight * sign) for e in range(3)))
        columns.append([c * sign for c in _product_of(others)] + [Fraction(0)])
    a.append(tuple(Fraction(int(e == tile_size - 1)) for e in range(tile_size)))
    g.append((Fraction(0), Fraction(0), Fraction(1)))
    columns.append(_product_of(points))
    b = tuple(tuple(column[row] for column in columns) for row in range(count + 1))
    return tuple(a), b, tuple(g)


def _product_of(points: Sequence[Fraction]) -> list[Fraction]:
    """Return the coefficients of the product of ``x - p``, the constant first."""
    coefficients = [Fraction(1)]
    for p in points:
        shifted, scaled = (
            [Fraction(0), *coefficients],
            [*(c * -p for c in coefficients), Fraction(0)],
        )
        coefficients = [s + t for s, t in zip(shifted, scaled)]
    return coefficients


@operator(layout=one_of("NHWC", "NCHW"))
def conv2d_winograd_weight_transform(
    kernel: Any, tile_size: int, layout: str = "NHWC", kernel_layout: str = "OIHW"
) -> Tensor:
    """Return the weights ``kernel[o, i, 3, 3]`` transformed for F(m x m, 3 x 3).

    m is ``tile_size``, 2 or 4. The result is ``[m + 2, m + 2, o, i]`` for a convolution in
    ``layout="NHWC"``, TVM's only one, and ``[m + 2, m + 2, i, o]`` for ``"NCHW"``. Compute it once,
    ahead of the convolutions that take it.

    >>> import schedlang as sl
    >>> W = sl.placeholder((16, 8, 3, 3), name="W")
    >>> conv2d_winograd_weight_transform(W, 4, "NCHW")
    Tensor(winograd_weight: float32[6, 6, 8, 16])
    """
    asked = "topi.nn.conv2d_winograd_weight_transform"
    check_layout(asked, kernel_layout, "OIHW", "kernel_layout")
    m = _check_tile(asked, tile_size)
    laid_out(asked, kernel, "kernel", kernel_layout)
    return _weights(asked, kernel, kernel_layout, m, layout, kernel.dtype)


@public
def conv2d_winograd_nchw(
    data: Any,
    weight: Any,
    strides: Any,
    padding: Any,
    dilation: Any,
    out_dtype: Any = None,
    pre_computed: bool = False,
    tile_size: int = 4,
) -> Tensor:
    """Return the convolution of ``data[n, c, h, w]`` with ``weight[o, i, 3, 3]`` by Winograd.

    ``tile_size`` is m of F(m x m, 3 x 3): 4, or 2, which rounds less. Strides and dilation must be
    1. With ``pre_computed``, ``weight`` is what :func:`conv2d_winograd_weight_transform` returns
    for ``NCHW``, ``[m + 2, m + 2, i, o]``. Transforms and products are computed in ``out_dtype``,
    by default the dtype to which data and weights promote.

    Its stages: ``winograd_weight_rows`` and ``winograd_weight`` (unless pre-computed),
    ``pad_temp``, ``winograd_rows`` and ``winograd_data`` (the transformed input),
    ``winograd_products``, ``winograd_columns`` and ``winograd_tiles`` (the outputs of each tile),
    ``conv2d_winograd_nchw``.

    >>> import schedlang as sl
    >>> A, W = sl.placeholder((1, 8, 7, 7), name="A"), sl.placeholder((16, 8, 3, 3), name="W")
    >>> conv2d_winograd_nchw(A, W, 1, 1, 1)
    Tensor(conv2d_winograd_nchw: float32[1, 16, 7, 7])
    """
    return _winograd(
        "NCHW", data, weight, strides, padding, dilation, out_dtype, pre_computed, tile_size
    )


@public
def conv2d_winograd_nhwc(
    data: Any,
    weight: Any,
    strides: Any,
    padding: Any,
    dilation: Any,
    out_dtype: Any = None,
    pre_computed: bool = False,
    tile_size: int = 4,
) -> Tensor:
    """Return the convolution of ``data[n, h, w, c]`` with ``weight[3, 3, i, o]`` by Winograd.

    With ``pre_computed``, ``weight`` is ``[m + 2, m + 2, o, i]``, as in TVM. See
    :func:`conv2d_winograd_nchw` for the rest.

    >>> import schedlang as sl
    >>> A, W = sl.placeholder((1, 7, 7, 8), name="A"), sl.placeholder((3, 3, 8, 16), name="W")
    >>> conv2d_winograd_nhwc(A, W, 1, 1, 1, tile_size=2)
    Tensor(conv2d_winograd_nhwc: float32[1, 7, 7, 16])
    """
    return _winograd(
        "NHWC", data, weight, strides, padding, dilation, out_dtype, pre_computed, tile_size
    )


@public
def conv2d_winograd_nchw_without_weight_transform(
    data: Any, weight: Any, strides: Any, padding: Any, dilation: Any, out_dtype: Any = None
) -> Tensor:
    """Return :func:`conv2d_winograd_nchw` with pre-computed weights, ``[m + 2, m + 2, i, o]``.

    >>> import schedlang as sl
    >>> A, U = sl.placeholder((1, 8, 7, 7), name="A"), sl.placeholder((4, 4, 8, 16), name="U")
    >>> conv2d_winograd_nchw_without_weight_transform(A, U, 1, 1, 1)
    Tensor(conv2d_winograd_nchw: float32[1, 16, 7, 7])
    """
    return conv2d_winograd_nchw(
        data, weight, strides, padding, dilation, out_dtype, True, _tile_of("nchw", weight)
    )


@public
def conv2d_winograd_nhwc_without_weight_transform(
    data: Any, weight: Any, strides: Any, padding: Any, dilation: Any, out_dtype: Any = None
) -> Tensor:
    """Return :func:`conv2d_winograd_nhwc` with pre-computed weights, ``[m + 2, m + 2, o, i]``.

    >>> import schedlang as sl
    >>> A, U = sl.placeholder((1, 7, 7, 8), name="A"), sl.placeholder((6, 6, 16, 8), name="U")
    >>> conv2d_winograd_nhwc_without_weight_transform(A, U, 1, 1, 1)
    Tensor(conv2d_winograd_nhwc: float32[1, 7, 7, 16])
    """
    return conv2d_winograd_nhwc(
        data, weight, strides, padding, dilation, out_dtype, True, _tile_of("nhwc", weight)
    )


def _tile_of(layout: str, weight: Any) -> int:
    asked = f"topi.nn.conv2d_winograd_{layout}_without_weight_transform"
    check_tensor(asked, weight, "weight", "m + 2", "m + 2", "channels", "channels")
    edge = weight.shape[0]
    return edge - 2 if isinstance(edge, int) and edge - 2 in POINTS else 0


def _check_tile(asked: str, tile_size: Any) -> int:
    if isinstance(tile_size, bool) or tile_size not in list(POINTS):
        raise ComputeError(f"{asked}: tile_size={tile_size!r} must be 2 or 4")
    return int(tile_size)


def _dtype_of(asked: str, out_dtype: Any, data: Tensor, weight: Tensor) -> str:
    dtype = result_dtype(out_dtype, data, weight)
    if not dtypes.is_float(dtype):
        raise ComputeTypeError(
            f"{asked}: out_dtype={dtype!r} must be a dtype of floats, since the transforms "
            "multiply by fractions; topi.nn.conv2d takes others"
        )
    return dtype


def _weights(
    asked: str, kernel: Tensor, kernel_layout: str, m: int, layout: str, dtype: str
) -> Tensor:
    """Return ``G @ kernel @ G.T`` of each pair of channels, rows first."""
    check_float(asked, kernel)
    size = dict(zip(kernel_layout, kernel.shape))
    if not (size["H"] == 3 and size["W"] == 3):
        raise ComputeError(
            explain(
                f"{asked} with kernel {kernel.name}",
                f"its windows are {size['H']} by {size['W']}, but must be 3 by 3",
                "Use topi.nn.conv2d_nchw or topi.nn.conv2d_nhwc.",
            )
        )
    g = winograd_matrices(m)[2]
    order = "IO" if layout == "NCHW" else "OI"
    channels = tuple(size[c] for c in order)

    def along_rows(u: Axis, x: Axis, *at: Axis) -> Expr:
        def value(ry: int) -> Expr:
            place = {**dict(zip(order, at)), "H": ry, "W": x}
            return cast(kernel[tuple(place[c] for c in kernel_layout)], dtype)

        return mix_rows(u, g, value, dtype)

    names = list(order.lower())
    rows = compute("winograd_weight_rows", (m + 2, 3, *channels), along_rows, ["u", "x", *names])
    return compute(
        "winograd_weight",
        (m + 2, m + 2, *channels),
        lambda u, v, *at: mix_rows(v, g, lambda rx: rows.element((u, rx, *at)), dtype),
        ["u", "v", *names],
    )


def mix_rows(index: Axis, rows: Matrix, read: Callable[[int], Expr], dtype: str) -> Expr:
    """Return row ``index`` of the matrix ``rows`` times the vector ``read(0), read(1), ...``.

    It is a choice of sums without zeros. A schedule that unrolls ``index`` settles the choice.
    """
    values = [read(k) for k in range(len(rows[0]))]
    sums = [_combine(row, values, dtype) for row in rows]
    chosen = sums[-1]
    for k in range(len(sums) - 2, -1, -1):
        chosen = select(binary("==", index, k), sums[k], chosen)
    return chosen


def _combine(row: Sequence[Fraction], values: Sequence[Expr], dtype: str) -> Expr:
    total: Expr | None = None
    for factor, value in zip(row, values):
        if not factor:
            continue
        size = abs(factor)
        term = value if size == 1 else value * const(float(size), dtype)
        if total is None:
            total = -term if factor < 0 else term
        else:
            total = total - term if factor < 0 else total + term
    assert total is not None
    return total


def transpose(matrix: Matrix) -> Matrix:
    return tuple(zip(*matrix))


def _winograd(
    layout: str,
    data: Any,
    weight: Any,
    strides: Any,
    padding: Any,
    dilation: Any,
    out_dtype: Any,
    pre_computed: bool,
    tile_size: Any,
) -> Tensor:
    name = f"conv2d_winograd_{layout.lower()}"
    asked = f"topi.nn.{name}"
    m = _check_tile(asked, tile_size)
    laid_out(asked, data, "data", layout)
    check_float(asked, data)
    high, wide = windows(asked, (3, 3), strides, padding, dilation)
    if {high.stride, high.dilation, wide.stride, wide.dilation} != {1}:
        raise ComputeError(
            f"{asked}: strides={strides} and dilation={dilation} must be 1; topi.nn.conv2d takes "
            "others"
        )
    order = "IO" if layout == "NCHW" else "OI"
    if pre_computed:
        check_tensor(asked, weight, "weight", "m + 2", "m + 2", *(MEANINGS[c] for c in order))
        check_shape(asked, weight, "weight", (m + 2, m + 2, *weight.shape[2:]))
        dtype, u_weight = _dtype_of(asked, out_dtype, data, weight), weight
    else:
        kernel_layout = "OIHW" if layout == "NCHW" else "HWIO"
        laid_out(asked, weight, "weight", kernel_layout)
        dtype = _dtype_of(asked, out_dtype, data, weight)
        u_weight = _weights(asked, weight, kernel_layout, m, layout, dtype)
    size, channels = dict(zip(layout, data.shape)), dict(zip(order, u_weight.shape[2:]))
    check_same(
        asked,
        size["C"],
        f"the number of channels of data {data.name}",
        channels["I"],
        f"the number of input channels of weight {weight.name}",
    )
    for c in "HW":
        check_whole(asked, size[c], f"the {MEANINGS[c]} of {data.name}")
    height, width = (
        check_whole(asked, output_count(asked, data, c, size[c], w), "the result's extent")
        for c, w in (("H", high), ("W", wide))
    )
    th, tw = -(-height // m), -(-width // m)
    # whole tiles: rows and columns after the last ones count as 0
    source = pad_windows(
        data,
        layout,
        {
            "H": (high.before, th * m + 2 - size["H"] - high.before),
            "W": (wide.before, tw * m + 2 - size["W"] - wide.before),
        },
    )
    a, b = (transpose(matrix) for matrix in winograd_matrices(m)[:2])
    count = extent(as_expr(size["N"]) * (th * tw))
    first = layout == "NCHW"

    def ordered(channel: Any, tile: Any) -> tuple[Any, Any]:
        return (channel, tile) if first else (tile, channel)

    def rows_of(u: Axis, *at: Axis) -> Expr:
        place = dict(zip(layout, at))

        def value(k: int) -> Expr:
            read = {**place, "H": place["H"] * m + k}
            return cast(source[tuple(read[c] for c in layout)], dtype)

        return mix_rows(u, b, value, dtype)

    sizes = {**size, "H": th, "W": tw * m + 2}
    rows = compute(
        "winograd_rows", (m + 2, *(sizes[c] for c in layout)), rows_of, ["u", *_axes(layout)]
    )

    def data_of(u: Axis, v: Axis, *at: Axis) -> Expr:
        c, p = ordered(*at)

        def value(k: int) -> Expr:
            read = {"N": p // (th * tw), "C": c, "H": p // tw % th, "W": p % tw * m + k}
            return rows.element((u, *(read[letter] for letter in layout)))

        return mix_rows(v, b, value, dtype)

    v_data = compute(
        "winograd_data",
        (m + 2, m + 2, *ordered(size["C"], count)),
        data_of,
        ["u", "v", *ordered("c", "p")],
    )
    rc = reduce_axis(size["C"], "rc")

    def product(u: Axis, v: Axis, *at: Axis) -> Any:
        f, p = ordered(*at)
        value = v_data.element((u, v, *ordered(rc, p)))
        factor = u_weight.element((u, v, *((rc, f) if first else (f, rc))))
        return total(value * cast(factor, dtype), axis=rc)

    outputs, names = ordered(channels["O"], count), ordered("f", "p")
    products = compute("winograd_products", (m + 2, m + 2, *outputs), product, ["u", "v", *names])
    columns = compute(
        "winograd_columns",
        (m, m + 2, *outputs),
        lambda y, v, *at: mix_rows(y, a, lambda u: products.element((u, v, *at)), dtype),
        ["y", "v", *names],
    )
    tiles = compute(
        "winograd_tiles",
        (m, m, *outputs),
        lambda y, x, *at: mix_rows(x, a, lambda v: columns.element((y, v, *at)), dtype),
        ["y", "x", *names],
    )

    def element(*axes: Axis) -> Expr:
        at = dict(zip(layout, axes))
        y, x = at["H"], at["W"]
        tile = at["N"] * (th * tw) + y // m * tw + x // m
        return tiles.element((y % m, x % m, *ordered(at["C"], tile)))

    shape = {"N": size["N"], "C": channels["O"], "H": height, "W": width}
    return compute(name, tuple(shape[c] for c in layout), element, _axes(layout, "f"))


def _axes(layout: str, channel: str = "c") -> list[str]:
    names = {"N": "n", "C": channel, "H": "y", "W": "x"}
    return [names[c] for c in layout]
