"""Computations in PyTorch, point by point as they are written, which autograd differentiates.

Each stage is evaluated at all points of its domain at once. An index out of bounds counts as 0:
only a condition that does not hold can lead there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import schedlang as sl
from schedlang.compute.fold import ufunc_of
from schedlang.compute.graph import operations
from schedlang.compute.joint import alone
from schedlang.compute.read import Read
from schedlang.compute.tensor import ComputeOp, PlaceholderOp, ScanOp
from schedlang.expr.nodes import Axis, Binary, Call, Cast, Const, Expr, Select, Unary
from schedlang.expr.visit import postorder

_BINARY = {
    "+": lambda t, a, b: a + b, "-": lambda t, a, b: a - b, "*": lambda t, a, b: a * b,
    "/": lambda t, a, b: a / b, "**": lambda t, a, b: a**b,
    "%": lambda t, a, b: t.remainder(a, b),
    "//": lambda t, a, b: t.div(a, b, rounding_mode="floor"),
    "<": lambda t, a, b: a < b, "<=": lambda t, a, b: a <= b, ">": lambda t, a, b: a > b,
    ">=": lambda t, a, b: a >= b, "==": lambda t, a, b: a == b, "!=": lambda t, a, b: a != b,
    "&": lambda t, a, b: a & b, "|": lambda t, a, b: a | b,
}  # fmt: skip
_CALLS = {"max": "maximum", "min": "minimum", "cosh": "cosh", "sinh": "sinh", "pow": "pow"}


def gradients(
    y: sl.Tensor, xs: Sequence[sl.Tensor], arrays: dict[str, np.ndarray], torch: Any
) -> list[np.ndarray] | None:
    """Return PyTorch's gradients of the sum of ``y`` times ``arrays["head"]`` by ``xs``.

    Return ``None`` for a computation of another kind: a scan, a custom reducer, ``argmax``.
    """
    values: dict[Any, Any] = {}
    wanted = {x: torch.tensor(arrays[x.name], requires_grad=True) for x in xs}
    order = operations([y])
    if any(isinstance(op, ScanOp) for op in order):
        return None
    for op in order:
        if isinstance(op, PlaceholderOp):
            tensor = next(t for t in (*xs, *_inputs(y)) if t.op is op)
            values[op, 0] = wanted.get(tensor, torch.tensor(arrays[tensor.name]))
            continue
        made = _stage(op, values, torch)
        if made is None:
            return None
        values.update(((op, k), v) for k, v in enumerate(made))
    total = (values[y.op, y.value_index] * torch.tensor(arrays["head"])).sum()
    if not total.requires_grad:
        return [np.zeros(x.shape) for x in xs]
    found = torch.autograd.grad(total, list(wanted.values()), allow_unused=True)
    return [np.zeros(x.shape) if g is None else g.numpy() for x, g in zip(xs, found)]


def _inputs(y: sl.Tensor) -> list[sl.Tensor]:
    return [t for op in operations([y]) for t in op.input_tensors]


def _stage(op: ComputeOp, values: dict[Any, Any], torch: Any) -> list[Any] | None:
    """Return the outputs of a stage."""
    if op.reducer is not None and op.reducer.parts:
        made: list[Any] = [None] * len(op.outputs)
        for part in op.reducer.parts:
            found = _stage(alone(op, part), values, torch)
            if found is None:
                return None
            for place, value in zip(part.places, found):
                made[place] = value
        return made
    if op.reducer is None:
        grid = _grid(op.axis, torch)
        shape = tuple(int(a.extent) for a in op.axis)
        return [_at(body, grid, values, torch).broadcast_to(shape) for body in op.body]
    ufunc = ufunc_of(op.reducer)
    if ufunc not in (np.add, np.multiply, np.minimum, np.maximum):
        return None
    if op.destination is not None and ufunc is not np.add:
        return None
    result = _scattered(op, values, torch) if op.destination else _reduced(op, ufunc, values, torch)
    return [result]


def _points(op: ComputeOp, axes: Sequence[Axis], values: dict[Any, Any], torch: Any) -> Any:
    """Return the points of ``axes`` where the condition of ``op`` holds, as columns by axis."""
    grid = _grid(axes, torch)
    shape = tuple(int(a.extent) for a in axes)
    kept = torch.ones(shape, dtype=torch.bool)
    if op.where is not None:
        kept = _at(op.where, grid, values, torch).broadcast_to(shape)
    places = kept.nonzero()
    return {axis: places[:, k] + int(axis.lo) for k, axis in enumerate(axes)}, places


def _scattered(op: ComputeOp, values: dict[Any, Any], torch: Any) -> Any:
    at, places = _points(op, op.domain, values, torch)
    count = (len(places),)
    body = _at(op.body[0], at, values, torch).broadcast_to(count)
    index = tuple(_at(i, at, values, torch).broadcast_to(count).long() for i in op.destination)
    return _start(op, 0.0, values, torch).index_put(index, body, accumulate=True)


def _start(op: ComputeOp, identity: float, values: dict[Any, Any], torch: Any) -> Any:
    shape = tuple(int(a.extent) for a in op.axis)
    if op.init is None:
        return torch.full(shape, identity, dtype=torch.float64)
    return _at(op.init[0], _grid(op.axis, torch), values, torch).broadcast_to(shape)


def _reduced(op: ComputeOp, ufunc: Any, values: dict[Any, Any], torch: Any) -> Any:
    """Return a reduction: a row of terms for each element, in which absent terms are neutral."""
    neutral = {np.add: 0.0, np.multiply: 1.0, np.maximum: -np.inf, np.minimum: np.inf}[ufunc]
    at, places = _points(op, (*op.axis, *op.reduce_axis), values, torch)
    body = _at(op.body[0], at, values, torch).broadcast_to((len(places),))
    data = tuple(int(a.extent) for a in op.axis)
    terms = int(np.prod([int(a.extent) for a in op.reduce_axis], dtype=int))
    rows = torch.full((*data, *(int(a.extent) for a in op.reduce_axis)), neutral).double()
    rows = rows.index_put(tuple(places.T), body).reshape(*data, terms)
    first = _start(op, neutral, values, torch).reshape(*data, 1)
    rows = torch.cat([first, rows], -1)
    if ufunc is np.add:
        return rows.sum(-1)
    if ufunc is np.multiply:
        return rows.prod(-1)
    return rows.amax(-1) if ufunc is np.maximum else rows.amin(-1)


def _grid(axes: Sequence[Axis], torch: Any) -> dict[Axis, Any]:
    """Return the values of axes, which broadcast to all points."""
    found = {}
    for k, axis in enumerate(axes):
        shape = [1] * len(axes)
        shape[k] = int(axis.extent)
        found[axis] = (torch.arange(int(axis.extent)) + int(axis.lo)).reshape(shape)
    return found


def _at(root: Expr, grid: dict[Axis, Any], values: dict[Any, Any], torch: Any) -> Any:
    """Return the value of an expression at points."""
    done: dict[int, Any] = {}
    for node in postorder([root]):
        args = [done[id(child)] for child in node.children]
        done[id(node)] = _value(node, args, grid, values, torch)
    return done[id(root)]


def _value(
    node: Expr, args: list[Any], grid: dict[Axis, Any], values: dict[Any, Any], torch: Any
) -> Any:
    if isinstance(node, Axis):
        return grid[node]
    if isinstance(node, Const):
        return torch.tensor(node.value, dtype=getattr(torch, node.dtype))
    if isinstance(node, Read):
        return _element(values[node.tensor.op, node.tensor.value_index], args, torch)
    if isinstance(node, Binary):
        return _BINARY[node.op](torch, *args)
    if isinstance(node, Unary):
        return ~args[0] if node.op == "~" else -args[0]
    if isinstance(node, Cast):
        return args[0].to(getattr(torch, node.dtype))
    if isinstance(node, Select):
        return torch.where(*args)
    assert isinstance(node, Call)
    return getattr(torch, _CALLS.get(node.fn, node.fn))(*args)


def _element(array: Any, indices: list[Any], torch: Any) -> Any:
    if not indices:
        return array
    if 0 in array.shape:
        shape = torch.broadcast_shapes(*(i.shape for i in indices))
        return torch.zeros(shape, dtype=array.dtype)
    clamped = [i.long().clamp(0, n - 1) for i, n in zip(indices, array.shape)]
    return array[tuple(torch.broadcast_tensors(*clamped))]


__all__ = ["gradients"]
