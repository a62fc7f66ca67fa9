"""Primitives that change the operands of a sum of products: pad_einsum, shift_operand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isfinite
from typing import Any

from schedlang.compute.read import Read, reads
from schedlang.compute.tensor import ComputeOp, Tensor
from schedlang.errors import subscript
from schedlang.expr.dtypes import itemsize
from schedlang.expr.lazy import both
from schedlang.expr.nodes import Axis, Binary, Call, Cast, Const, Expr
from schedlang.expr.visit import axes_in
from schedlang.index.linear import Lin
from schedlang.index.simplify import to_lin
from schedlang.language.construct import binary, cast, const, select
from schedlang.state.primitives.arguments import count, names, text_of
from schedlang.state.primitives.dataflow import (
    has_annotations,
    new_operation,
    refuse_attached,
    substituted,
)
from schedlang.state.primitives.primitive import Primitive
from schedlang.state.primitives.refusal import refuse
from schedlang.state.state import Inline, Result, Stage, State

# the dtypes of the same bits with the other sign
OTHER_SIGN = {"int8": "uint8", "uint8": "int8", "int16": "uint16", "uint16": "int16"}
# the dtypes of sums that wrap, so that terms may be added in any order
WRAPPING = ("int16", "int32", "int64")


def pad_einsum(state: State, stage: Stage, padding: Any) -> Result:
    op = _sum_of_products(stage, "pad_einsum")
    loops = op.loops
    listed = isinstance(padding, (tuple, list))
    if not listed or len(padding) != len(loops):
        given = f"[{names(padding)}]" if listed else text_of(padding)
        refuse(
            f"padding is {given}, and {stage.name} has {len(loops)} axes: "
            f"{names(loops)}",
            "Give one multiple for each of them, data axes first; 1 leaves an axis as it is.",
        )
    longer = _longer(stage, loops, [count(n, "a multiple in padding") for n in padding])
    wanted = _longer_operands(stage, op, longer)
    refuse_attached(state, [a for a in longer if a.is_reduce], "pad_einsum")
    copies: dict[Tensor, Tensor] = {}
    for tensor, extents in wanted.items():
        axes = tuple(
            Axis(a.name, extents.get(k, a.extent))
            for k, a in enumerate(_dimensions(state, tensor))
        )
        inside: Expr | None = None
        for k in extents:
            test = axes[k] < tensor.shape[k]
            inside = test if inside is None else both(inside, test)
        assert inside is not None
        value = select(inside, Read(tensor, axes, tensor.dtype), const(0, tensor.dtype), lazy=True)
        state, copies[tensor] = _with_map(state, stage, f"{tensor.name}.pad", axes, value)
    steps = {a: Axis(a.name, longer[a], "reduce") for a in op.reduce_axis if a in longer}
    order = tuple(steps.get(a, a) for a in op.reduce_axis)
    padded = replace(substituted(op, steps, copies), reduce_axis=order)
    return _with_operation(state, stage, padded), list(copies.values())


def _sum_of_products(stage: Stage, primitive: str) -> ComputeOp:
    """Return the operation of a stage that sums products and has had no steps."""
    op = stage.op
    plain = isinstance(op, ComputeOp) and op.reducer is not None and op.reducer.name == "sum"
    if not isinstance(op, ComputeOp) or not plain or len(op.body) != 1:
        refuse(f"{stage.name} is not a sum", "It changes the factors of a sum of products.")
    if op.where is not None or op.destination is not None or any(a.bounds for a in op.loops):
        refuse(
            f"{stage.name} leaves out terms of its sum, or adds them at computed places",
            "It changes the factors of a plain sum over boxes.",
        )
    if stage.relations or stage.leaf != stage.roots or has_annotations(stage):
        refuse(
            f"{stage.name} is already scheduled",
            f"Call {primitive} before the other steps on the stage, since its loops change. "
            "s.at(0) returns the schedule before its first step.",
        )
    if isinstance(stage.attach, Inline):
        refuse(
            f"{stage.name} is inlined and has no loops",
            f"Call {subscript(stage.name)}.compute_root() first.",
        )
    return op


def _longer(stage: Stage, loops: Sequence[Axis], multiples: Sequence[int]) -> dict[Axis, int]:
    """Return the axes that multiples lengthen, with their new extents."""
    longer: dict[Axis, int] = {}
    for axis, multiple in zip(loops, multiples):
        if multiple == 1:
            continue
        if not isinstance(axis.extent, int) or axis.lo != 0:
            refuse(
                f"{axis.name} is not a range from 0 to a constant",
                "Give 1 for it: the other axes may be padded.",
            )
        if axis.extent % multiple:
            longer[axis] = axis.extent + -axis.extent % multiple
    if not longer:
        refuse(
            f"the extents of {stage.name} are multiples of these numbers already",
            "Leave the step out.",
        )
    return longer


def _longer_operands(
    stage: Stage, op: ComputeOp, longer: Mapping[Axis, int]
) -> dict[Tensor, dict[int, int]]:
    """Return, for each operand, the new extents of the dimensions along axes that are padded."""
    wanted: dict[Tensor, dict[int, int]] = {}
    for read in _factors(stage, op.body[0]):
        for axis, extent in longer.items():
            moving = [k for k, i in enumerate(read.indices) if to_lin(i).depends_on({axis})]
            if not moving and not axis.is_reduce:
                continue
            own = [k for k in moving if to_lin(read.indices[k]) == Lin.of(axis)]
            if len(moving) != 1 or moving != own or read.tensor.shape[own[0]] != axis.extent:
                refuse(
                    f"{axis.name} is not the index of a whole dimension of its own in {read}",
                    f"Give 1 for {axis.name}: zeros at the end of {read.tensor.name} do not "
                    "lengthen it.",
                )
            extents = wanted.setdefault(read.tensor, {})
            extents[own[0]] = max(extent, extents.get(own[0], 0))
    if not wanted:
        refuse(f"no operand is read along {names(longer)}", "Give 1 for them.")
    return wanted


def _factors(stage: Stage, body: Expr) -> list[Read]:
    """Return the elements whose product a body is, each perhaps converted or rounded."""
    factors: list[Read] = []
    waiting = [body]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Binary) and node.op == "*":
            waiting += (node.b, node.a)
        elif isinstance(node, Cast) or (isinstance(node, Call) and node.fn == "tf32"):
            waiting += node.children
        elif isinstance(node, Read):
            factors.append(node)
        elif isinstance(node, Const) and not isfinite(abs(node.value)):
            refuse(
                f"{stage.name} sums {body}, and zero times {node} is NaN",
                "Multiply the sum by it in a stage of its own.",
            )
        elif not isinstance(node, Const):
            refuse(
                f"{stage.name} sums {body}, and {node} is not an element of a tensor",
                "Zeros add nothing to a sum of products of elements alone: compute the factor in a "
                "stage of its own.",
            )
    return factors


def _dimensions(state: State, tensor: Tensor) -> list[Axis]:
    """Return axes over a tensor, named as its stage's are."""
    producer = state.of(tensor)
    own = [] if producer is None or producer.is_scan else [a.name for a in producer.op.axis]
    labels = own or [f"ax{k}" for k in range(tensor.ndim)]
    return [Axis(label, extent) for label, extent in zip(labels, tensor.shape)]


def _with_map(
    state: State, reader: Stage, name: str, axes: tuple[Axis, ...], value: Expr
) -> tuple[State, Tensor]:
    """Return a state with a stage in front of ``reader``, and the stage's tensor."""
    name = state.unique_name(name)
    op = new_operation(name, axes, (value,))
    return state.inserted(Stage(name, op, op.outputs, axes), reader.name), op.outputs[0]


def _with_operation(state: State, stage: Stage, op: ComputeOp) -> State:
    return state.updated(stage.with_(op=op, leaf=op.loops))


def shift_operand(state: State, stage: Stage, tensor: Any, dtype: Any) -> Result:
    op = _sum_of_products(stage, "shift_operand")
    if not isinstance(tensor, Tensor) or OTHER_SIGN.get(tensor.dtype) != dtype:
        kind = tensor.dtype if isinstance(tensor, Tensor) else "not a tensor"
        refuse(
            f"{text_of(tensor)} is {kind}, and a shift does not make that {text_of(dtype)}",
            f"It makes {', '.join(f'{a} {b}' for a, b in OTHER_SIGN.items())}.",
        )
    own, other = _factor_of(stage, op, tensor)
    # half of the range, added modulo the range, changes the highest bit
    half = 1 << (8 * itemsize(dtype) - 1)
    axes = tuple(_dimensions(state, tensor))
    bits = cast(Read(tensor, axes, tensor.dtype), f"uint{8 * itemsize(dtype)}")
    value = cast(binary("^", bits, const(half, bits.dtype)), dtype)
    state, shifted = _with_map(state, stage, f"{tensor.name}.shift", axes, value)
    state, sums = _with_sums(state, stage, op, other)
    data = tuple(a for a in op.axis if a in {*axes_in([other])})
    added = half if dtype.startswith("uint") else -half
    start = binary("*", Read(sums, data, sums.dtype), const(-added, sums.dtype))
    if op.init is not None:
        start = binary("+", op.init[0], start)
    factor = cast(Read(shifted, own.indices, dtype), other.dtype)
    before = isinstance(op.body[0], Binary) and op.body[0].b is other
    body = binary("*", factor, other) if before else binary("*", other, factor)
    changed = replace(op, body=(body,), init=(start,))
    return _with_operation(state, stage, changed), [shifted, sums]


def _factor_of(stage: Stage, op: ComputeOp, tensor: Tensor) -> tuple[Read, Expr]:
    """Return the element of ``tensor`` that is one factor of a product, and the other factor."""
    body, dtype = op.body[0], op.outputs[0].dtype
    if isinstance(body, Binary) and body.op == "*" and dtype in WRAPPING:
        for own, other in ((body.a, body.b), (body.b, body.a)):
            read = own.a if isinstance(own, Cast) else own
            wide = own.dtype == dtype and itemsize(dtype) > itemsize(tensor.dtype)
            alone = all(r.tensor is not tensor for r in reads([other]))
            if isinstance(read, Read) and read.tensor is tensor and wide and alone:
                return read, other
    refuse(
        f"{stage.name} sums {body}, and {tensor.name} is not one of two factors that are converted "
        f"to a longer dtype: {', '.join(WRAPPING)}",
        f'Write {tensor.name}[...].astype("int32") times the other factor.',
    )


def _with_sums(
    state: State, stage: Stage, op: ComputeOp, factor: Expr
) -> tuple[State, Tensor]:
    """Return a state with a stage that sums one factor of ``op``, and the stage's tensor."""
    used = {*axes_in([factor])}
    data = {a: Axis(a.name, a.extent) for a in op.axis if a in used}
    steps = {a: Axis(a.name, a.extent, "reduce", a.lo) for a in op.reduce_axis}
    inner = substituted(replace(op, body=(factor,), init=None), {**data, **steps}, {})
    name = state.unique_name(f"{stage.name}.sums")
    axes, reduce = tuple(data.values()), tuple(steps.values())
    summed = new_operation(name, axes, inner.body, reduce_axis=reduce, reducer=op.reducer)
    new = Stage(name, summed, summed.outputs, summed.loops)
    return state.inserted(new, stage.name), summed.outputs[0]


PRIMITIVES: Mapping[str, Primitive] = {
    "pad_einsum": Primitive(pad_einsum, makes_tensors=True, changes_operands=True),
    "shift_operand": Primitive(shift_operand, makes_tensors=True, changes_operands=True),
}
