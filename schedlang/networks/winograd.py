"""Winograd's minimal filtering in place of 3 by 3 convolutions, found by the indices of reads.

F(4x4, 3x3) needs a quarter of the products of a direct convolution, and transforms of 6 by 6
elements for each tile and channel; F(2x2, 3x3) needs 4/9 of the products, and transforms of 4 by 4
(A. Lavin and S. Gray, "Fast Algorithms for Convolutional Neural Networks", CVPR 2016). With
channels innermost, a transform is sums of vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from schedlang.compute.boundary import pad
from schedlang.compute.define import define
from schedlang.compute.graph import operations
from schedlang.compute.read import Read
from schedlang.compute.reduce import sum as total
from schedlang.compute.tensor import ComputeOp, Tensor
from schedlang.errors import NetworkError
from schedlang.expr.nodes import Axis, Binary, Expr
from schedlang.index.linear import Lin
from schedlang.index.simplify import to_lin
from schedlang.language.construct import as_expr
from schedlang.networks.ahead import known_tensors
from schedlang.networks.blocks import may_be_rewritten
from schedlang.networks.folding import is_sum
from schedlang.networks.model import FORMS
from schedlang.networks.reading import with_inputs, with_operands
from schedlang.state.initial import stage_names
from schedlang.target import Target
from schedlang.tvm.topi.nn.winograd import Matrix, mix_rows, transpose, winograd_matrices

# the fewest tiles of 4 by 4, and channels of either side, with which Winograd's filtering is faster
# than a direct convolution: with fewer tiles, reading more weights takes longer than the products
LEAST_TILES, LEAST_CHANNELS = 12, 32
# the fewest tiles of F(4x4, 3x3): with fewer, F(2x2, 3x3) costs a network little time, and its
# weights are less than half as many
LEAST_LARGE_TILES = 16
# with so many tiles, few of them are cut off, and F(2x2, 3x3) has more products than F(4x4, 3x3)
MANY_TILES = 32
EDGE = 3
# what the names of the stages of a convolution by Winograd's filtering end with, in their order
STAGES = ("padded", "rows", "data", "products", "columns", "tiles")


@dataclass(frozen=True, eq=False)
class Winograd:
    """A network with some convolutions by Winograd's filtering.

    ``outputs`` compute the same as the given outputs. ``replaced`` are the stages that were
    replaced, and ``weights`` their transformed weights: stages to compute once, ahead of all calls.
    """

    outputs: tuple[Tensor, ...]
    replaced: tuple[str, ...] = ()
    weights: tuple[Tensor, ...] = ()


@dataclass(frozen=True, eq=False)
class Convolution:
    """A sum over ``data[..., y + ry, ..., x + rx, ...] * kernel[..., ry, ..., rx, ...]``.

    ``name`` is the name of its stage. ``stages`` are the names of the other stages that it has by
    Winograd's filtering, which no other stage has. ``y`` and ``x`` are data axes, ``ry`` and ``rx``
    reduction axes of 3. ``high`` and ``wide`` are the dimensions of ``data`` that they index. All
    other indices are axes or numbers. Only axes of images may be symbolic.
    """

    name: str
    stages: tuple[str, ...]
    op: ComputeOp
    data: Read
    kernel: Read
    y: Axis
    x: Axis
    ry: Axis
    rx: Axis
    high: int
    wide: int

    def tiles(self, m: int) -> tuple[int, int]:
        """Return the number of tiles along ``y`` and ``x``; the last ones may be smaller."""
        return -(-int(self.y.extent) // m), -(-int(self.x.extent) // m)

    def all_tiles(self, m: int) -> int:
        """Return the number of tiles of all images."""
        return self.images * prod(self.tiles(m))

    @property
    def images(self) -> int:
        """The number of images: the points of data axes that only the data have.

        A symbolic number counts as one image, which a call may have.
        """
        others = {*_axes(self.kernel.indices), self.y, self.x}
        return prod(a.extent for a in self.op.axis if a not in others and type(a.extent) is int)

    @property
    def channels(self) -> tuple[int, int]:
        """The channels of the data and of the result."""
        own = _axes(self.data.indices)
        taps = (self.ry, self.rx)
        return (
            prod(int(a.extent) for a in self.op.reduce_axis if a not in taps),
            prod(int(a.extent) for a in self.op.axis if a not in own),
        )


def by_rule(conv: Convolution) -> int:
    """Return the tile size: 4 for at least 16 tiles of 4 by 4, 2 for at least 12, else 0.

    It is 0, which means a direct convolution, if either side has fewer than 32 channels.
    """
    tiles = conv.all_tiles(4)
    if tiles < LEAST_TILES or min(conv.channels) < LEAST_CHANNELS:
        return 0
    return 4 if tiles >= LEAST_LARGE_TILES else 2


def direct(conv: Convolution) -> int:
    """Return 0: a direct convolution, whatever its size."""
    return 0


def rule_of(target: Target) -> Callable[[Convolution], int]:
    """Return the form of convolutions without times: direct where no rule was measured."""
    return by_rule if target.facts.winograd == "rule" else direct


def forms(conv: Convolution) -> tuple[int, ...]:
    """Return the tile sizes that may be the fastest for ``conv``; 0 is a direct convolution.

    >>> import schedlang as sl
    >>> from schedlang import topi
    >>> A, W = sl.placeholder((1, 64, 14, 14), name="A"), sl.placeholder((64, 64, 3, 3), name="W")
    >>> def show(found):
    ...     print(found.name, by_rule(found), forms(found))
    ...     return 0
    >>> _ = with_winograd(topi.nn.conv2d_nchw(A, W, 1, 1, 1), [W], show)
    conv2d_nchw 4 (0, 4, 2)
    """
    if min(conv.channels) < LEAST_CHANNELS // 2:
        return (0,)
    larger = (4,) if conv.all_tiles(4) >= LEAST_TILES // 2 else ()
    gains = conv.all_tiles(2) >= LEAST_TILES and conv.all_tiles(4) < MANY_TILES
    return (0, *larger, *((2,) if gains else ()))


def with_winograd(
    outputs: Any, params: Collection[Tensor] = (), choose: Callable[[Convolution], int] = by_rule
) -> Winograd:
    """Return a network with convolutions of 3 by 3 as F(m x m, 3 x 3), m being 2 or 4.

    ``outputs`` is a tensor or a list of them, and ``params`` are the placeholders that are weights.
    A convolution is a sum of products of floats with weights, of stride and dilation 1, in any
    layout, with any number of images, also a symbolic one. ``choose`` returns the ``m`` of each, or
    0 for a direct convolution; :func:`by_rule` is the default. The rounding errors of the sums are
    larger, as ``docs/reference/topi.md`` says, and an infinite or NaN input makes all results of
    its tiles NaN. A network with scans or ragged axes stays as it is. Raises
    :class:`~schedlang.errors.NetworkError` for another ``m``.

    >>> import schedlang as sl
    >>> from schedlang import topi
    >>> A, W = sl.placeholder((1, 32, 16, 16), name="A"), sl.placeholder((32, 32, 3, 3), name="W")
    >>> found = with_winograd(topi.nn.relu(topi.nn.conv2d_nchw(A, W, 1, 1, 1)), [W])
    >>> found.replaced, found.weights
    (('conv2d_nchw',), (Tensor(W_winograd: float32[6, 6, 32, 32]),))
    """
    tensors = tuple(outputs) if isinstance(outputs, (list, tuple)) else (outputs,)
    ops = operations(tensors)
    if not may_be_rewritten(ops):
        return Winograd(tensors)
    known = known_tensors(ops, params)
    names = stage_names(ops)
    used = {*names.values()}
    instead: dict[Tensor, Tensor] = {}
    replaced, weights = [], []
    for op in ops:
        if not isinstance(op, ComputeOp):
            instead.update(with_inputs(op, instead))
            continue
        twin = with_operands(op, instead)
        conv = _convolution(twin, known, names[op], used)
        m = 0 if conv is None else _checked(choose(conv), conv)
        if conv is not None and m:
            result, weight = _by_winograd(conv, m)
            replaced.append(conv.name)
            weights.append(weight)
            instead[op.outputs[0]] = result
        elif twin is not op:
            instead.update(zip(op.outputs, twin.outputs))
            known.update((new, None) for old, new in zip(op.outputs, twin.outputs) if old in known)
    return Winograd(tuple(instead.get(t, t) for t in tensors), tuple(replaced), tuple(weights))


def _checked(m: Any, conv: Convolution) -> int:
    """Return the size of tiles that was chosen for a convolution."""
    if type(m) is not int or m not in FORMS:
        raise NetworkError(
            f"with_winograd(..., choose): {m!r} for {conv.name} is not a size of tiles; return 2 "
            "or 4, or 0 for a direct convolution"
        )
    return m


def _convolution(
    op: ComputeOp, known: Collection[Tensor], name: str, names_in_use: set[str]
) -> Convolution | None:
    """Return an operation as a convolution of 3 by 3 with weights, if it is one.

    The names of its stages are none of ``names_in_use``, and are added to these.
    """
    if op.where is not None or not is_sum(op):
        return None
    body = op.body[0]
    if not isinstance(body, Binary) or body.op != "*" or body.dtype not in ("float32", "float64"):
        return None
    sides = [side for side in (body.a, body.b) if isinstance(side, Read)]
    if len(sides) < 2 or any(side.dtype != body.dtype for side in sides):
        return None
    data, kernel = sorted(sides, key=lambda side: side.tensor in known)
    if kernel.tensor not in known or data.tensor in known:
        return None
    axes = (*op.axis, *op.reduce_axis)
    if any(a.lo != 0 or a.bounds for a in axes):
        return None
    own = [_lone(index) for index in kernel.indices]
    slid = [(at, _slid(index, op)) for at, index in enumerate(data.indices)]
    pairs = [(at, pair) for at, pair in slid if pair is not None]
    rest = [_lone(index) for at, index in enumerate(data.indices) if all(at != k for k, _ in pairs)]
    used = [a for a in rest if isinstance(a, Axis)]
    taps = [tap for _, (_, tap) in pairs]
    places = [place for _, (place, _) in pairs]
    held = [a for a in own if isinstance(a, Axis)]
    if (
        len(pairs) != 2
        or any(not isinstance(data.tensor.shape[at], int) for at, _ in pairs)
        or None in own
        or None in rest
        or len(set(held)) != len(held)
        or len({*used, *taps, *places}) != len(used) + 4
        or any(tap.extent != EDGE or tap not in held for tap in taps)
        or any(place in held for place in places)
        or not all(isinstance(a.extent, int) for a in (*held, *places))
        or {*used, *places, *held} != set(axes)
        or set(op.reduce_axis) - set(held)
        or any(a in taps for a in used)
        or set(taps) == set(op.reduce_axis)
    ):
        return None
    (high, (y, ry)), (wide, (x, rx)) = pairs
    stages = _new_names(name, names_in_use)
    names_in_use.update(stages)
    return Convolution(name, stages, op, data, kernel, y, x, ry, rx, high, wide)


def _new_names(name: str, used: Collection[str]) -> tuple[str, ...]:
    """Return the names of the stages that a convolution has by Winograd's filtering.

    >>> _new_names("conv", ["conv", "conv_data"])[:3]
    ('conv_1_padded', 'conv_1_rows', 'conv_1_data')
    """
    prefix, number = name, 0
    while any(f"{prefix}_{word}" in used for word in STAGES):
        number += 1
        prefix = f"{name}_{number}"
    return tuple(f"{prefix}_{word}" for word in STAGES)


def _lone(index: Expr) -> Axis | int | None:
    """Return the axis or the number that an index is."""
    form = to_lin(index)
    if form.const is not None:
        return form.const
    atom = next(iter(form.atoms()), None)
    return atom if isinstance(atom, Axis) and form == Lin.of(atom) else None


def _slid(index: Expr, op: ComputeOp) -> tuple[Axis, Axis] | None:
    """Return the data and the reduction axis whose sum an index is."""
    form = to_lin(index)
    axes = [atom for atom in form.atoms() if isinstance(atom, Axis)]
    if len(axes) != 2 or form != Lin.of(axes[0]) + Lin.of(axes[1]):
        return None
    data = [a for a in axes if a in op.axis]
    taps = [a for a in axes if a in op.reduce_axis]
    return (data[0], taps[0]) if data and taps else None


def _axes(indices: Sequence[Expr]) -> set[Axis]:
    return {atom for index in indices for atom in to_lin(index).atoms() if isinstance(atom, Axis)}


def _by_winograd(conv: Convolution, m: int) -> tuple[Tensor, Tensor]:
    """Return the result of a convolution by F(m x m, 3 x 3), and the transformed weights."""
    op, edge = conv.op, m + EDGE - 1
    name, dtype = conv.name, op.body[0].dtype
    called = dict(zip(STAGES, conv.stages))
    a, b, g = winograd_matrices(m)
    th, tw = conv.tiles(m)
    source = _whole_tiles(conv, m)
    ty, tx = Axis(f"t{conv.y.name}", th), Axis(f"t{conv.x.name}", tw)
    column = Axis(conv.x.name, tw * m + EDGE - 1)
    weight = _weights(conv, g, dtype, edge)

    def at(values: Mapping[Axis, Expr], indices: Sequence[Expr]) -> list[Expr]:
        return [
            values.get(axis, axis) if isinstance(axis := _lone(index), Axis) else index
            for index in indices
        ]

    # the dimensions of the data without those inside of a window, with tiles for windows
    data_axes = [
        conv.y if k == conv.high else conv.x if k == conv.wide else _lone(index)
        for k, index in enumerate(conv.data.indices)
    ]
    dims = [axis for axis in data_axes if isinstance(axis, Axis)]

    def read_source(values: Mapping[Axis, Expr]) -> Expr:
        indices = [
            values[axis] if isinstance(axis, Axis) else conv.data.indices[k]
            for k, axis in enumerate(data_axes)
        ]
        return source.element(tuple(indices))

    def stage(
        word: str,
        first: Sequence[Axis],
        places: Mapping[Axis, Axis],
        of: Sequence[Axis],
        body: Callable[[dict[Axis, Expr]], Any],
    ) -> Tensor:
        own = {axis: Axis(p.name, p.extent) for axis in of for p in (places.get(axis, axis),)}
        return define(called[word], (*first, *own.values()), body(dict(own)))

    u, v = Axis("u", edge), Axis("v", edge)
    rows = stage(
        "rows",
        [u],
        {conv.y: ty, conv.x: column},
        dims,
        lambda own: mix_rows(
            u, transpose(b), lambda k: read_source({**own, conv.y: own[conv.y] * m + k}), dtype
        ),
    )
    u, v = Axis("u", edge), Axis("v", edge)
    data = stage(
        "data",
        [u, v],
        {conv.y: ty, conv.x: tx},
        dims,
        lambda own: mix_rows(
            v,
            transpose(b),
            lambda k: rows.element((u, *({**own, conv.x: own[conv.x] * m + k}[d] for d in dims))),
            dtype,
        ),
    )
    steps = {
        axis: Axis(axis.name, axis.extent, "reduce")
        for axis in op.reduce_axis
        if axis not in (conv.ry, conv.rx)
    }
    kernel_dims = [
        k
        for k in map(_lone, conv.kernel.indices)
        if isinstance(k, Axis) and k not in (conv.ry, conv.rx)
    ]
    u, v = Axis("u", edge), Axis("v", edge)

    def product(own: dict[Axis, Expr]) -> Any:
        values = {**own, **steps}
        value = data.element((u, v, *(values[d] for d in dims)))
        return total(
            value * weight.element((u, v, *(values[d] for d in kernel_dims))),
            axis=list(steps.values()),
        )

    tiled = {conv.y: ty, conv.x: tx}
    products = stage("products", [u, v], tiled, op.axis, product)
    y, v = Axis("y", m), Axis("v", edge)
    columns = stage(
        "columns",
        [y, v],
        tiled,
        op.axis,
        lambda own: mix_rows(
            y, transpose(a), lambda k: products.element((k, v, *own.values())), dtype
        ),
    )
    y, x = Axis("y", m), Axis("x", m)
    tiles = stage(
        "tiles",
        [y, x],
        tiled,
        op.axis,
        lambda own: mix_rows(
            x, transpose(a), lambda k: columns.element((y, k, *own.values())), dtype
        ),
    )
    last = {axis: Axis(axis.name, axis.extent) for axis in op.axis}
    place: dict[Axis, Expr] = dict(last)
    yy, xx = last[conv.y], last[conv.x]
    place.update({conv.y: yy // m, conv.x: xx // m})
    body = tiles.element((yy % m, xx % m, *(place[axis] for axis in op.axis)))
    return define(name, tuple(last.values()), body), weight


def _whole_tiles(conv: Convolution, m: int) -> Tensor:
    """Return the data with zeros after the last row and column, if its last tiles are not whole."""
    source = conv.data.tensor
    after = [0] * source.ndim
    for dimension, count in zip((conv.high, conv.wide), conv.tiles(m)):
        after[dimension] = max(0, count * m + EDGE - 1 - int(source.shape[dimension]))
    if not any(after):
        return source
    return pad(source, [0] * source.ndim, after, name=conv.stages[0])


def _weights(conv: Convolution, g: Matrix, dtype: str, edge: int) -> Tensor:
    """Return the transformed weights, over two axes of the transform and the kernel's own."""
    kernel = conv.kernel
    dims = [
        k for k in map(_lone, kernel.indices) if isinstance(k, Axis) and k not in (conv.ry, conv.rx)
    ]

    def read(values: Mapping[Axis, Expr]) -> Expr:
        return kernel.tensor.element(
            tuple(
                values[axis] if isinstance(axis := _lone(index), Axis) else index
                for index in kernel.indices
            )
        )

    name = f"{kernel.tensor.name}_winograd"
    u, column = Axis("u", edge), Axis("x", EDGE)
    own = {axis: Axis(axis.name, axis.extent) for axis in dims}
    rows = define(
        f"{name}_rows",
        (u, column, *own.values()),
        mix_rows(u, g, lambda k: read({**own, conv.ry: as_expr(k), conv.rx: column}), dtype),
    )
    u, v = Axis("u", edge), Axis("v", edge)
    last = tuple(Axis(axis.name, axis.extent) for axis in dims)
    return define(name, (u, v, *last), mix_rows(v, g, lambda k: rows.element((u, k, *last)), dtype))


__all__ = ["Convolution", "Winograd", "by_rule", "direct", "forms", "rule_of", "with_winograd"]
