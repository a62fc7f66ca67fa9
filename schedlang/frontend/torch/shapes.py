"""Operators of ATen that move elements: views, slices, joined and padded tensors.

Views of views are one view, which elementwise operators read through.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from schedlang import topi
from schedlang.arrays import shaping
from schedlang.arrays.joining import concatenate
from schedlang.arrays.rearranging import flip as reversed_along
from schedlang.arrays.rearranging import pad as padded
from schedlang.arrays.rearranging import roll as rolled
from schedlang.arrays.rearranging import tile
from schedlang.arrays.shapes import extent, is_one
from schedlang.arrays.stages import view
from schedlang.compute.math import all as every
from schedlang.compute.math import if_then_else
from schedlang.compute.tensor import Tensor
from schedlang.expr.nodes import Expr
from schedlang.frontend.torch.calls import Call, Operator, of_dtype
from schedlang.tvm.topi.stages import compute

# the end of a slice without one
_LAST = 2**63 - 1
_MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def view_(call: Call, x: Tensor, size: Any) -> Tensor:
    return shaping.reshape(x, size)


def reshape(call: Call, x: Tensor, shape: Any) -> Tensor:
    return shaping.reshape(x, shape)


def flatten(call: Call, x: Tensor, start_dim: int, end_dim: int) -> Tensor:
    if not x.ndim:
        return shaping.reshape(x, [1])
    first, last = start_dim % x.ndim, end_dim % x.ndim
    joined = extent(prod(x.shape[first : last + 1]))
    return shaping.reshape(x, [*x.shape[:first], joined, *x.shape[last + 1 :]])


def unflatten(call: Call, x: Tensor, dim: int, sizes: Sequence[Any]) -> Tensor:
    first = dim % x.ndim
    return shaping.reshape(x, [*x.shape[:first], *sizes, *x.shape[first + 1 :]])


def permute(call: Call, x: Tensor, dims: Sequence[int]) -> Tensor:
    return shaping.transpose(x, dims)


def transpose(call: Call, x: Tensor, dim0: int, dim1: int) -> Tensor:
    return shaping.swapaxes(x, dim0, dim1) if x.ndim else x


def matrix_transpose(call: Call, x: Tensor) -> Tensor:
    return shaping.swapaxes(x, -2, -1)


def t(call: Call, x: Tensor) -> Tensor:
    return shaping.transpose(x)


def unsqueeze(call: Call, x: Tensor, dim: int) -> Tensor:
    return shaping.expand_dims(x, dim)


def squeeze(call: Call, x: Tensor, dim: Any = None) -> Tensor:
    """Dimensions whose extent is not 1 stay."""
    named = range(x.ndim) if dim is None else dim if isinstance(dim, list) else [dim]
    gone = tuple(k % x.ndim for k in named if x.ndim and is_one(x.shape[k]))
    return shaping.squeeze(x, gone) if gone else x


def expand(call: Call, x: Tensor, size: Sequence[Any]) -> Tensor:
    skipped = len(size) - x.ndim
    new_shape = [
        x.shape[k - skipped] if k >= skipped and isinstance(e, int) and e == -1 else e
        for k, e in enumerate(size)
    ]
    return shaping.broadcast_to(x, new_shape)


def expand_as(call: Call, x: Tensor, other: Tensor) -> Tensor:
    return shaping.broadcast_to(x, other.shape)


def slice_(call: Call, x: Tensor, dim: int, start: Any, end: Any, step: int) -> Tensor:
    last = None if isinstance(end, int) and end == _LAST else end
    if start in (None, 0) and last is None and step == 1:
        return x
    whole = isinstance(x.shape[dim], int) and call.shape[dim] is None
    if whole and isinstance(last, Expr):
        # PyTorch has proven that the end is one within the bounds that the user gave for it
        along = dim % x.ndim
        part = (*x.shape[:along], last, *x.shape[along + 1 :])
        x, last = view("slice", x, part, lambda *at: at), None
        if start in (None, 0) and step == 1:
            return x
    items = [slice(None)] * x.ndim
    items[dim] = slice(start, last, step)
    return x[tuple(items)]


def select(call: Call, x: Tensor, dim: int, index: Any) -> Tensor:
    items: list[Any] = [slice(None)] * x.ndim
    items[dim] = index
    part = x[tuple(items)]
    # the only dimension of a vector: an element, not a view
    return part if isinstance(part, Tensor) else topi.full((), x.dtype, part)


def split(call: Call, x: Tensor, split_size: int, dim: int) -> tuple[Tensor, ...]:
    """Parts of one size; the last one may be smaller."""
    along = dim % x.ndim
    size = x.shape[along]
    if not isinstance(size, int):
        raise call.refuse(
            f"dimension {along} of extent {size} would make a number of parts that is not known",
            "Split dimensions whose extent is a number.",
        )
    count = len(call.shapes)
    sizes = [min(split_size, size - k * split_size) for k in range(count)]
    return split_with_sizes(call, x, sizes, along)


def chunk(call: Call, x: Tensor, chunks: int, dim: int) -> tuple[Tensor, ...]:
    extent_along: Any = x.shape[dim % x.ndim]
    size = (extent_along + chunks - 1) // chunks
    return split(call, x, size, dim)


def split_with_sizes(
    call: Call, x: Tensor, split_sizes: Sequence[Any], dim: int
) -> tuple[Tensor, ...]:
    start: Any = 0
    parts = []
    for size in split_sizes:
        parts.append(slice_(call, x, dim, start, start + size, 1))
        start = start + size
    return tuple(parts)


def unbind(call: Call, x: Tensor, dim: int) -> tuple[Tensor, ...]:
    return tuple(select(call, x, dim, k) for k in range(len(call.shapes)))


def cat(call: Call, tensors: list[Tensor], dim: int) -> Tensor:
    """Empty vectors among tensors of more dimensions are left out, as in PyTorch."""
    empty = [v.ndim == 1 and isinstance(v.shape[0], int) and not v.shape[0] for v in tensors]
    parts = [v for v, is_empty in zip(tensors, empty) if not is_empty] or tensors[:1]
    converted = [of_dtype(v, call.dtype) for v in parts]
    return converted[0] if len(converted) == 1 else concatenate(converted, dim)


def stack(call: Call, tensors: list[Tensor], dim: int) -> Tensor:
    return topi.stack([of_dtype(v, call.dtype) for v in tensors], dim)


def repeat(call: Call, x: Tensor, repeats: Sequence[Any]) -> Tensor:
    return tile(x, tuple(repeats))


def flip(call: Call, x: Tensor, dims: Sequence[int]) -> Tensor:
    return reversed_along(x, tuple(dims)) if dims else x


def roll(call: Call, x: Tensor, shifts: Any, dims: Any) -> Tensor:
    return rolled(x, tuple(shifts), tuple(dims)) if dims else rolled(x, shifts[0])


def diagonal(call: Call, x: Tensor, offset: int, dim1: int, dim2: int) -> Tensor:
    return shaping.diagonal(x, offset, dim1, dim2)


def triangle(call: Call, x: Tensor, diagonal: int) -> Tensor:
    return topi.trilu(x, diagonal, call.operator.startswith("aten.triu"))


def pad_(
    call: Call, x: Tensor, pad: Sequence[int], mode: str = "constant", value: Any = 0
) -> Tensor:
    """The widths are those before and after the last dimension, then the one before it, ...

    A negative width cuts elements.
    """
    if mode not in _MODES:
        raise call.refuse(f"mode={mode!r} has no form here", f"Use one of {', '.join(_MODES)}.")
    pairs = [(0, 0)] * (x.ndim - len(pad) // 2)
    pairs += [(pad[k], pad[k + 1]) for k in range(len(pad) - 2, -1, -2)]
    for k, (before, after) in enumerate(pairs):
        if before < 0 or after < 0:
            x = slice_(call, x, k, max(-before, 0), after if after < 0 else _LAST, 1)
    widths = [(max(before, 0), max(after, 0)) for before, after in pairs]
    if not any(map(any, widths)):
        return x
    if mode != "constant":
        return padded(x, widths, _MODES[mode])
    return padded(x, widths, constant_values=0 if value is None else value)


def slice_scatter(
    call: Call, x: Tensor, src: Tensor, dim: int, start: Any, end: Any, step: int
) -> Tensor:
    """``x`` with ``src`` in place of a slice of it."""
    along, size = dim % x.ndim, x.shape[dim]
    if start in (None, 0) and end in (None, _LAST) and step == 1:
        return src
    if not isinstance(size, int):
        raise call.refuse(
            f"dimension {along} that is written to has the symbolic extent {size}",
            "Join the parts with torch.cat.",
        )
    first, last, _ = slice(start, None if end == _LAST else end).indices(size)

    def element(*i: Any) -> Any:
        place = i[along] - first
        inside = [i[along] >= first, i[along] < last]
        inside += [place % step == 0] if step > 1 else []
        written = src.element((*i[:along], place // step, *i[along + 1 :]))
        return if_then_else(every(*inside), written, x.element(i))

    return x if last <= first else compute("slice_scatter", x.shape, element)


def select_scatter(call: Call, x: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """``x`` with ``src`` in place of index ``index`` of dimension ``dim``."""
    along = dim % x.ndim
    start = index + x.shape[along] if index < 0 else index
    part = shaping.expand_dims(src, along)
    return slice_scatter(call, x, part, along, start, start + 1, 1)


def unfold(call: Call, x: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """The windows of a dimension, whose elements are a new last one."""
    if not x.ndim:
        return shaping.expand_dims(x, 0)
    along = dimension % x.ndim
    count = extent((x.shape[along] - size) // step + 1)
    shape = (*x.shape[:along], count, *x.shape[along + 1 :], size)
    return view(
        "unfold",
        x,
        shape,
        lambda *i: (*i[:along], i[along] * step + i[-1], *i[along + 1 : -1]),
    )


OPERATORS: dict[str, Operator] = {
    "view.default": view_, "_unsafe_view.default": view_, "reshape.default": reshape,
    "flatten.using_ints": flatten, "unflatten.int": unflatten, "mT.default": matrix_transpose,
    "numpy_T.default": t, "expand_as.default": expand_as, "chunk.default": chunk,
    "permute.default": permute, "transpose.int": transpose, "t.default": t,
    "unsqueeze.default": unsqueeze, "squeeze.default": squeeze, "squeeze.dim": squeeze,
    "squeeze.dims": squeeze, "expand.default": expand, "slice.Tensor": slice_,
    "select.int": select, "split.Tensor": split, "split_with_sizes.default": split_with_sizes,
    "unbind.int": unbind, "cat.default": cat, "stack.default": stack, "repeat.default": repeat,
    "flip.default": flip, "roll.default": roll, "diagonal.default": diagonal,
    "tril.default": triangle, "triu.default": triangle, "pad.default": pad_,
    "constant_pad_nd.default": pad_, "slice_scatter.default": slice_scatter,
    "select_scatter.default": select_scatter, "unfold.default": unfold,
}  # fmt: skip
