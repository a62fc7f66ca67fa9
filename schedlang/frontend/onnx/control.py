"""``If``, ``Loop`` and ``Scan``, where conditions and counts are known at import."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Union

import numpy as np

from schedlang import topi
from schedlang.arrays.shapes import axis_number
from schedlang.arrays.stages import tensor_of
from schedlang.compute.tensor import Tensor, declaration, shape_text
from schedlang.expr.nodes import Expr
from schedlang.frontend.onnx.graph import Body, Node
from schedlang.frontend.onnx.limits import MOST_REPEATED
from schedlang.frontend.onnx.values import Known, Value

# the outputs of a graph inside of a node, for its inputs
Run = Callable[[Body, Sequence[Value]], list[Value]]
# a value as a tensor
AsTensor = Callable[[Value], Tensor]
Control = Callable[[Node, Sequence[Union[Value, None]], Run, AsTensor], list[Value]]


def _branch(
    node: Node, operands: Sequence[Value | None], run: Run, tensor: AsTensor
) -> list[Value]:
    """Return the outputs of ``If``: of the branch that its condition names."""
    if len(operands) != 1 or operands[0] is None:
        raise node.refused(f"it has {len(operands)} inputs, but takes one")
    holds = _truth(node, operands[0], "its condition")
    return run(_body(node, "then_branch" if holds else "else_branch", 0), [])


def _loop(node: Node, operands: Sequence[Value | None], run: Run, tensor: AsTensor) -> list[Value]:
    """Return the outputs of ``Loop``: the nodes of its body, once for each iteration."""
    if len(operands) < 2:
        raise node.refused(f"it has {len(operands)} inputs, but takes two or more")
    count, condition, *carried = operands
    if any(v is None for v in carried):
        raise node.refused("one of its inputs is left out")
    values = [v for v in carried if v is not None]
    body = _body(node, "body", 2 + len(values))
    if len(body.outputs) < 1 + len(values):
        raise node.refused(f"its body has {len(body.outputs)} outputs for {len(values)} values")
    most = None if count is None else _number(node, count)
    goes_on = condition is None or _truth(node, condition, "its condition")
    stacked: list[list[Value]] = [[] for _ in body.outputs[1 + len(values) :]]
    done = 0
    while goes_on and (most is None or done < most):
        given = [Known("", np.array(done), "int64"), Known("", np.array(True), "bool"), *values]
        after, *results = run(body, given)
        goes_on = _truth(node, after, "its condition after an iteration")
        values = results[: len(values)]
        for rows, row in zip(stacked, results[len(values) :]):
            rows.append(row)
        done += 1
    return [*values, *(_stack(node, rows, tensor) for rows in stacked)]


def _scan(node: Node, operands: Sequence[Value | None], run: Run, tensor: AsTensor) -> list[Value]:
    """Return the outputs of ``Scan``: the nodes of its body, once for each row of its inputs."""
    count = node.attributes.get("num_scan_inputs")
    if not isinstance(count, int) or not 1 <= count <= len(operands):
        raise node.refused(f"its attribute 'num_scan_inputs' is {count!r:.40}")
    if node.version < 9 or any(v is None for v in operands):
        raise node.refused("its form before opset 9, or with inputs left out, has no form here")
    given = [v for v in operands if v is not None]
    values, scanned = given[:-count], given[-count:]
    body = _body(node, "body", len(given))
    stacked = len(body.outputs) - len(values)
    axes, backward = _ways(node, "input", count)
    ends, reverse = _ways(node, "output", stacked)
    rows = [_rows(node, *way) for way in zip(scanned, axes, backward)]
    if len({len(r) for r in rows}) > 1:
        raise node.refused("its inputs have several lengths")
    outputs: list[list[Value]] = [[] for _ in range(stacked)]
    for row in zip(*rows):
        results = run(body, [*values, *row])
        values = results[: len(values)]
        for kept, result in zip(outputs, results[len(values) :]):
            kept.append(result)
    last = [
        _stack(node, kept[::-1] if back else kept, tensor, axis)
        for kept, axis, back in zip(outputs, ends, reverse)
    ]
    return [*values, *last]


def _ways(node: Node, side: str, count: int) -> tuple[list[int], list[bool]]:
    """Return the axes along which a scan goes through its inputs or outputs, and which way."""
    axes = node.attributes.get(f"scan_{side}_axes") or [0] * count
    ways = node.attributes.get(f"scan_{side}_directions") or [0] * count
    fits = isinstance(axes, list) and isinstance(ways, list) and len(axes) == len(ways) == count
    if not fits or not {*ways} <= {0, 1}:
        raise node.refused(f"its axes or directions do not fit its {count} scanned {side}s")
    return axes, [way == 1 for way in ways]


def _rows(node: Node, value: Value, axis: int, backward: bool) -> list[Value]:
    """Return the parts of a value along a dimension."""
    along = axis_number(axis, value.ndim, str(node))
    extent = value.shape[along]
    if not isinstance(extent, int):
        raise node.refused(
            f"it goes through the symbolic size {extent}, but must know how often it repeats",
            "Import the model with a number for this size: shapes={...}.",
        )
    if extent > MOST_REPEATED:
        raise node.refused(
            f"it repeats {extent:,} times, more than {MOST_REPEATED:,}, each as stages of its own",
            "Export the model with operators on whole arrays in place of loops.",
        )
    places: list[Any] = [(*[slice(None)] * along, k) for k in range(extent)]
    parts: list[Value]
    if isinstance(value, Known):
        parts = [Known("", np.asarray(value.array[at]), value.dtype) for at in places]
    else:
        parts = [tensor_of(value[at], "row") for at in places]
    return parts[::-1] if backward else parts


def _body(node: Node, name: str, inputs: int) -> Body:
    """Return a graph of a node that takes a number of inputs."""
    body = node.attributes.get(name)
    if not isinstance(body, Body):
        raise node.refused(f"its attribute {name!r} is missing, or not a graph")
    if len(body.inputs) != inputs:
        raise node.refused(f"its graph {name!r} has {len(body.inputs)} inputs, not {inputs}")
    return body


def _truth(node: Node, value: Value, what: str) -> bool:
    """Return a condition that must be known."""
    known = _known(node, value, what)
    if value.dtype != "bool":
        raise node.refused(f"{what} is {value.dtype}, not bool")
    return bool(known)


def _number(node: Node, value: Value) -> int:
    """Return the number of iterations, which must be known."""
    known = _known(node, value, "its number of iterations")
    if value.dtype not in ("int64", "int32"):
        raise node.refused(f"its number of iterations is {value.dtype}, not int64")
    return int(known)


def _known(node: Node, value: Value, what: str) -> Any:
    """Return the only element of a value that must be known."""
    if isinstance(value, Tensor):
        raise node.refused(
            f"{what} is {declaration(value)}, which is computed when the network runs, but must be "
            "known when the model is imported",
            "Export the model for one case, fix its symbolic sizes (shapes={...}), or choose "
            "between elements by Where(condition, a, b).",
        )
    if value.array.size != 1:
        raise node.refused(f"{what} has the shape {shape_text(value.shape)}, not one element")
    (item,) = value.items()
    if isinstance(item, Expr):
        raise node.refused(
            f"{what} is the symbolic size {item}, but must be a number",
            "Import the model with a number for this size: shapes={...}.",
        )
    return item


def _stack(node: Node, rows: Sequence[Value], tensor: AsTensor, axis: int = 0) -> Value:
    """Return what each iteration makes, side by side along a new dimension."""
    if not rows:
        raise node.refused("without iterations, the shape of what it stacks is unknown")
    if all(isinstance(row, Known) for row in rows):
        arrays = [row.array for row in rows if isinstance(row, Known)]
        if len({a.shape for a in arrays}) > 1:
            raise node.refused("its iterations make arrays of several shapes")
        return Known("", np.stack(arrays, axis), rows[0].dtype)
    return topi.stack([tensor(row) for row in rows], axis)


CONTROL: dict[str, Control] = {"If": _branch, "Loop": _loop, "Scan": _scan}
