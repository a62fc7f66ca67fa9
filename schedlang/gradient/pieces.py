"""Pieces: the elements of a tensor that one stage of its gradient computes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from schedlang.compute.tensor import Shape
from schedlang.expr.nodes import Axis, Binary, Expr
from schedlang.gradient.algebra import chosen
from schedlang.index.linear import Lin, to_expr
from schedlang.index.ranges import Ranges
from schedlang.index.rules import floordiv, mod
from schedlang.index.simplify import ceildiv, to_lin

# the most pieces into which the residues of strides cut a tensor
MOST_PIECES = 16


@dataclass(frozen=True, eq=False)
class Piece:
    """The elements whose index along dimension ``k`` is ``steps[k]*axes[k] + starts[k]``.

    There is no axis along a dimension in which the piece is a single point; its step is 0.
    """

    axes: tuple[Axis | None, ...]
    steps: tuple[int, ...]
    starts: tuple[Lin, ...]

    @property
    def element(self) -> list[Lin]:
        """The indices of an element of the piece."""
        return [start if axis is None else Lin.of(axis) * step + start
                for axis, step, start in zip(self.axes, self.steps, self.starts)]  # fmt: skip

    @property
    def own_axes(self) -> tuple[Axis, ...]:
        return tuple(axis for axis in self.axes if axis is not None)

    @property
    def is_whole(self) -> bool:
        return all(step == 1 for step in self.steps)

    @property
    def label(self) -> str:
        """The residues and points of the piece, for the name of its stage; "" for a whole one."""
        cut = [f"{to_expr(start)}" for step, start in zip(self.steps, self.starts) if step != 1]
        return "at" + "_".join(cut) if cut and all(c.isalnum() for c in cut) else "part" * bool(cut)

    def condition(self, dim: int, index: Expr) -> Expr:
        """Return whether ``index`` along a dimension is that of an element of the piece."""
        step, start = self.steps[dim], to_expr(self.starts[dim])
        left = index if step == 0 else to_expr(mod(to_lin(index), Lin.of(step), Ranges()))
        return Binary("==", left, start, "bool")

    def position(self, indices: Sequence[Expr]) -> list[Expr]:
        """Return the values of the axes of the piece at the element at ``indices``."""
        return [to_expr(floordiv(to_lin(index), Lin.of(step), Ranges()))
                for index, step in zip(indices, self.steps) if step]  # fmt: skip


def whole(names: Sequence[str], shape: Shape) -> Piece:
    """Return the piece of all elements."""
    axes = tuple(Axis(name, extent) for name, extent in zip(names, shape))
    return Piece(axes, (1,) * len(axes), (Lin.of(0),) * len(axes))


def cut(
    names: Sequence[str], shape: Shape, moduli: Mapping[int, int], points: Mapping[int, Lin]
) -> Iterator[Piece]:
    """Yield the pieces of equal residues by ``moduli``, at ``points`` along some dimensions.

    If the residues were too many, those of the last dimensions are not told apart.

    >>> pieces = list(cut(["y", "x"], (5, 4), {0: 2}, {}))
    >>> [(piece.element, piece.axes[0].extent) for piece in pieces]
    [([y*2, x], 3), ([y*2 + 1, x], 2)]
    """
    used: dict[int, int] = {}
    for dim, modulus in moduli.items():
        if dim not in points and prod(used.values()) * modulus <= MOST_PIECES:
            used[dim] = modulus
    for residues in product(*(range(modulus) for modulus in used.values())):
        start = dict(zip(used, residues))
        axes: list[Axis | None] = []
        for dim, (name, extent) in enumerate(zip(names, shape)):
            if dim in points:
                axes.append(None)
            elif dim in used:
                count = ceildiv(to_lin(extent) - start[dim], Lin.of(used[dim]))
                axes.append(Axis(name, to_expr(count) if count.const is None else count.const))
            else:
                axes.append(Axis(name, extent))
        if any(axis is not None and axis.extent == 0 for axis in axes):
            continue
        dims = range(len(shape))
        yield Piece(
            tuple(axes), tuple(0 if d in points else used.get(d, 1) for d in dims),
            tuple(points.get(d, Lin.of(start.get(d, 0))) for d in dims),
        )  # fmt: skip


def assembled(parts: Sequence[tuple[Piece, Expr]], indices: Sequence[Expr], zero: Expr) -> Expr:
    """Return the value at ``indices`` of the parts of one cut; ``zero`` in pieces without a part.

    Each part comes with its value there, which only its own elements have.
    """
    return _assembled(list(parts), indices, zero, 0)


def _assembled(
    parts: list[tuple[Piece, Expr]], indices: Sequence[Expr], zero: Expr, dim: int
) -> Expr:
    if not parts:
        return zero
    if dim == len(indices):
        ((_, value),) = parts
        return value
    step = parts[0][0].steps[dim]
    if step == 1:
        return _assembled(parts, indices, zero, dim + 1)
    groups: dict[Lin, list[tuple[Piece, Expr]]] = {}
    for piece, value in parts:
        groups.setdefault(piece.starts[dim], []).append((piece, value))
    made = [(group[0][0], _assembled(group, indices, zero, dim + 1)) for group in groups.values()]
    covered = step > 1 and len(groups) == step
    total = made.pop()[1] if covered else zero
    for piece, value in reversed(made):
        total = chosen(piece.condition(dim, indices[dim]), value, total, True)
    return total
