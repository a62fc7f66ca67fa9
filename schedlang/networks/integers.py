"""Products of quantized values as exact sums of integers, whose scales come after the sum.

A sum over ``(x - zx) * sx * (w - zw) * sw``, with integers ``x`` and ``w`` of 8 bits, is
``sx * sw`` times a sum of integers: the sum over ``x * v`` with ``v = w - zw``, less ``zx`` times
the sum over ``v``, which is known ahead (B. Jacob et al., "Quantization and Training of Neural
Networks for Efficient Integer-Arithmetic-Only Inference", CVPR 2018, section 2.3). Padding with 0
is padding with ``zx``. The data become uint8 and the weights int8, as dot products of processors
take them. No operator is known by name: stages are followed from a sum to the integers that its
factors are computed of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, Optional

import numpy as np

from schedlang.compute.define import define
from schedlang.compute.graph import operations
from schedlang.compute.read import Read
from schedlang.compute.reduce import sum as total
from schedlang.compute.reference import reference
from schedlang.compute.tensor import ComputeOp, Tensor
from schedlang.expr.dtypes import can_cast, limits
from schedlang.expr.lazy import both
from schedlang.expr.nodes import Axis, Binary, Cast, Const, Expr, Select
from schedlang.expr.visit import axes_in
from schedlang.gradient.algebra import is_number
from schedlang.index.linear import Lin
from schedlang.index.simplify import to_lin
from schedlang.language.construct import binary, cast, const, select
from schedlang.networks.affine import known_ahead, with_values
from schedlang.networks.ahead import known_tensors
from schedlang.networks.blocks import may_be_rewritten
from schedlang.networks.folding import is_sum
from schedlang.networks.reading import with_inputs, with_operands
from schedlang.state.initial import stage_names

BYTES = ("uint8", "int8")
# the dtype of sums, and the dtypes of sums that are replaced
SUMS, FROM = "int32", ("float32", "int32")
# the most products of which a sum of int32 holds any: 255 * 128 each
MOST_STEPS = (2**31 - 1) // (255 * 128)
# added to an integer of int8, it gives one of uint8
SHIFT = 128


@dataclass(frozen=True, eq=False)
class Integers:
    """A value as ``(read - zero) * scale`` where ``inside`` holds, and 0 elsewhere.

    ``read`` is an integer of 8 bits, and ``zero`` of its dtype, ``None`` for 0. The product of
    ``scales`` is the scale. All are expressions over the axes of a stage.
    """

    read: Read
    zero: Optional[Expr] = None
    scales: tuple[Expr, ...] = ()
    inside: Optional[Expr] = None

    def at(self, values: Mapping[Axis, Expr]) -> Integers:
        """Return the value at other places."""
        zero, inside = (
            None if root is None else with_values(root, values) for root in (self.zero, self.inside)
        )
        read = with_values(self.read, values)
        assert isinstance(read, Read)
        return Integers(read, zero, tuple(with_values(s, values) for s in self.scales), inside)


@dataclass(frozen=True)
class IntegerSum:
    """The ``stage`` that became a sum of integers, and the further ``stages`` that it needs."""

    stage: str
    stages: tuple[str, ...]


def integer_sums(
    outputs: Sequence[Tensor], params: Mapping[Tensor, np.ndarray]
) -> tuple[tuple[Tensor, ...], tuple[IntegerSum, ...]]:
    """Return tensors that compute ``outputs`` with sums of integers, and which sums these are.

    ``params`` has the arrays of the weights. A sum of products, in float32 or int32, becomes one of
    int32 if

    * one factor is computed from integers of 8 bits by subtracting a zero point, multiplying by
      scales, moving elements, and padding with 0,
    * the other factor is computed so from weights, and its integers, less the zero point, fit int8,
    * no scale, and no zero point of the data, changes along the reduction, and
    * for a sum of float32, no sum of int32 of so many products overflows.

    A sum of int32 gives the same integers. A sum of float32 gives the exact sum, converted to
    float32 and multiplied by the product of the scales: two roundings in place of one at each step.

    >>> import schedlang as sl
    >>> from schedlang import topi
    >>> x, w = sl.placeholder((2, 8), "uint8", name="x"), sl.placeholder((4, 8), "int8", name="w")
    >>> floats = [topi.multiply(topi.cast(t, "float32"), s) for t, s in ((x, 0.5), (w, 0.25))]
    >>> y = sl.named("y", topi.nn.dense(*floats))
    >>> (summed,), (note,) = integer_sums([y], {w: np.ones((4, 8), "int8")})
    >>> print(summed.op.body[0], "of", summed.op.input_tensors[0].op.body[0])
    float32(y[i, j]) * y_scale[()] of int32(x[i, k]) * int32(w[j, k])
    """
    ops = operations(outputs)
    if not may_be_rewritten(ops):
        return tuple(outputs), ()
    search = _Search(params, known_tensors(ops, params), {*stage_names(ops).values()})
    replaced: dict[Tensor, Tensor] = {}
    notes = []
    for op in ops:
        if not isinstance(op, ComputeOp):
            replaced.update(with_inputs(op, replaced))
            continue
        twin = with_operands(op, replaced)
        summed = search.integer_sum(twin)
        if summed is not None:
            replaced[op.outputs[0]], note = summed
            notes.append(note)
        elif twin is not op:
            replaced.update(zip(op.outputs, twin.outputs))
            pairs = zip(op.outputs, twin.outputs)
            search.known.update((new, None) for old, new in pairs if old in search.known)
    return tuple(replaced.get(t, t) for t in outputs), tuple(notes)


class _Search:
    """What is known of the stages so far, and the names in use."""

    def __init__(
        self, params: Mapping[Tensor, np.ndarray], known: dict[Tensor, None], names: set[str]
    ) -> None:
        self.params, self.known, self.names = params, known, names
        self._integers: dict[Tensor, Integers | None] = {}
        self._data: dict[Tensor, tuple[Tensor, Expr | None]] = {}
        self._weights: dict[Tensor, Tensor | None] = {}

    def integer_sum(self, op: ComputeOp) -> tuple[Tensor, IntegerSum] | None:
        """Return a sum of products by its integers, if it is one of quantized values."""
        factors = self._factors(op)
        if factors is None:
            return None
        before = {*self.names}
        data, weights = (f.tensor for f in factors)
        x, w = (self._of(f) for f in factors)
        if x is None or w is None or not self._fits(op, factors[1], x, w):
            return None
        byte_weights = self._byte_weights(weights)
        if byte_weights is None or (byte_weights is weights and x.read.tensor is data):
            return None
        bytes_, zero = self._bytes(data, x)
        summed = op.outputs[0].name
        value = binary(
            "*",
            cast(Read(bytes_, factors[0].indices, bytes_.dtype), SUMS),
            cast(Read(byte_weights, factors[1].indices, "int8"), SUMS),
        )
        sums = define(summed, op.axis, total(value, axis=list(op.reduce_axis)))
        result = self._rescaled(op, sums, zero, [*x.scales, *w.scales], (byte_weights, factors[1]))
        return result, IntegerSum(summed, tuple(sorted(self.names - before)))

    def _factors(self, op: ComputeOp) -> tuple[Read, Read] | None:
        """Return the data and the weights of a sum of products."""
        axes = (*op.axis, *op.reduce_axis)
        if op.where is not None or not is_sum(op) or op.outputs[0] in self.known:
            return None
        body = op.body[0]
        if not isinstance(body, Binary) or body.op != "*" or body.dtype not in FROM:
            return None
        if any(a.lo != 0 or a.bounds for a in axes):
            return None
        if not all(isinstance(a.extent, int) for a in op.reduce_axis):
            return None
        sides = [side.a if isinstance(side, Cast) else side for side in (body.a, body.b)]
        sides = sorted(sides, key=lambda s: isinstance(s, Read) and s.tensor in self.known)
        data, weights = sides
        if not isinstance(data, Read) or not isinstance(weights, Read):
            return None
        if data.tensor in self.known or weights.tensor not in self.known:
            return None
        return data, weights

    def _fits(self, op: ComputeOp, weights: Read, x: Integers, w: Integers) -> bool:
        """Return whether the integers of a sum can be summed without their scales."""
        steps = [axis for axis in op.reduce_axis if axis.extent != 1]
        if x.zero is not None and {*axes_in([x.zero])}:
            return False
        if w.inside is not None or {*axes_in([*x.scales, *w.scales])} & {*steps}:
            return False
        if not {*steps} <= {*axes_in(weights.indices)}:
            return False
        few = prod(int(axis.extent) for axis in steps) <= MOST_STEPS
        return few or op.body[0].dtype == SUMS

    def _of(self, read: Read) -> Integers | None:
        """Return a value that a sum reads by its integers."""
        tensor = read.tensor
        if tensor.dtype in BYTES:
            return Integers(read)
        op = tensor.op
        if tensor not in self._integers:
            self._integers[tensor] = None
            if isinstance(op, ComputeOp) and _is_map(op):
                self._integers[tensor] = self._by_integers(op.body[0])
        own = self._integers[tensor]
        assert own is None or isinstance(op, ComputeOp)
        return None if own is None else own.at(dict(zip(op.axis, read.indices)))

    def _by_integers(self, value: Expr) -> Integers | None:
        """Return an expression by its integers."""
        if isinstance(value, Read):
            return self._of(value)
        if isinstance(value, Cast):
            own = self._by_integers(value.a)
            plain = own is not None and own.zero is None and not own.scales
            wide = value.dtype in FROM and (plain or value.a.dtype == value.dtype)
            return own if wide else None
        if isinstance(value, Select) and is_number(value.b, 0):
            own = self._by_integers(value.a)
            if own is None:
                return None
            outer = own.inside
            return replace(own, inside=value.cond if outer is None else both(value.cond, outer))
        if not isinstance(value, Binary) or value.dtype not in FROM:
            return None
        if value.op == "-":
            own = self._by_integers(value.a)
            if own is None or own.zero is not None or own.scales or own.inside is not None:
                return None
            zero = self._byte(value.b, own.read.dtype)
            return None if zero is None else replace(own, zero=zero)
        if value.op == "*" and value.dtype == "float32":
            for side, scale in ((value.a, value.b), (value.b, value.a)):
                own = self._by_integers(side)
                if own is not None and _is_scale(scale):
                    return replace(own, scales=(*own.scales, scale))
        return None

    def _bytes(self, tensor: Tensor, x: Integers) -> tuple[Tensor, Expr | None]:
        """Return a tensor's integers as uint8, padded with their zero point, which is int32."""
        if tensor not in self._data:
            self._data[tensor] = self._new_bytes(tensor)
        return self._data[tensor]

    def _new_bytes(self, tensor: Tensor) -> tuple[Tensor, Expr | None]:
        axes = tuple(Axis(f"i{k}", extent) for k, extent in enumerate(tensor.shape))
        own = self._of(Read(tensor, axes, tensor.dtype))
        assert own is not None
        zero = _unsigned(const(0, own.read.dtype) if own.zero is None else own.zero)
        wide = None if is_number(zero, 0) or self._is_zero(zero) else cast(zero, SUMS)
        if own.inside is None and own.read.dtype == "uint8" and _in_place(own.read, axes):
            return own.read.tensor, wide
        value = _unsigned(own.read)
        if own.inside is not None:
            value = select(own.inside, value, zero, lazy=True)
        return define(self._name(f"{tensor.name}_bytes"), axes, value), wide

    def _byte_weights(self, tensor: Tensor) -> Tensor | None:
        """Return the weights less their zero point as int8, ``None`` if they do not fit."""
        if tensor not in self._weights:
            self._weights[tensor] = self._new_weights(tensor)
        return self._weights[tensor]

    def _new_weights(self, tensor: Tensor) -> Tensor | None:
        axes = tuple(Axis(f"i{k}", extent) for k, extent in enumerate(tensor.shape))
        own = self._of(Read(tensor, axes, tensor.dtype))
        assert own is not None
        moved = own.zero is not None and not self._is_zero(own.zero)
        if not moved and own.read.dtype == "int8":
            if _in_place(own.read, axes):
                return own.read.tensor
            value: Expr = own.read
        else:
            difference = cast(own.read, SUMS)
            if own.zero is not None and moved:
                difference = binary("-", difference, cast(own.zero, SUMS))
            values = self._values(axes, difference)
            if values.min(initial=0) < -128 or values.max(initial=0) > 127:
                return None
            value = cast(difference, "int8")
        weights = define(self._name(f"{tensor.name}_bytes"), axes, value)
        self.known[weights] = None
        return weights

    def _rescaled(
        self,
        op: ComputeOp,
        sums: Tensor,
        zero: Expr | None,
        scales: Sequence[Expr],
        weights: tuple[Tensor, Read],
    ) -> Tensor:
        """Return sums less what the zero point of the data adds, times the scales."""
        axes = tuple(Axis(axis.name, axis.extent) for axis in op.axis)
        places = dict(zip(op.axis, axes))
        value: Expr = Read(sums, axes, SUMS)
        if zero is not None:
            tensor, read = weights
            steps = {a: Axis(a.name, a.extent, "reduce") for a in op.reduce_axis}
            own = {a: Axis(a.name, a.extent) for a in axes_in(read.indices) if a not in steps}
            at = tuple(with_values(index, {**steps, **own}) for index in read.indices)
            of_weights = total(cast(Read(tensor, at, "int8"), SUMS), axis=list(steps.values()))
            name = self._name(f"{sums.name}_weights")
            summed = define(name, tuple(own.values()), of_weights)
            self.known[summed] = None
            added = binary("*", Read(summed, tuple(places[a] for a in own), SUMS), zero)
            value = binary("-", value, self._ahead(f"{sums.name}_offset", added))
        dtype = op.outputs[0].dtype
        if dtype != SUMS:
            value = cast(value, dtype)
        if scales:
            scale = scales[0]
            for factor in scales[1:]:
                scale = binary("*", scale, factor)
            scale = self._ahead(f"{sums.name}_scale", with_values(scale, places))
            value = binary("*", value, scale)
        return define(self._name(f"{sums.name}_rescaled"), axes, value)

    def _ahead(self, name: str, value: Expr) -> Expr:
        """Return a value that is known as an element of a stage, which is computed ahead."""
        if not known_ahead(value, self.known) or isinstance(value, Const):
            return value
        axes = tuple(axes_in([value]))
        own = {axis: Axis(axis.name, axis.extent) for axis in axes}
        stage = define(self._name(name), tuple(own.values()), with_values(value, own))
        return Read(stage, axes, stage.dtype)

    def _byte(self, value: Expr, dtype: str) -> Expr | None:
        """Return an expression as an integer of an 8-bit ``dtype``, if it is known to be one."""
        while value.dtype != dtype and isinstance(value, Cast):
            if not can_cast(dtype, value.dtype, "safe"):
                return None
            value = value.a
        if value.dtype == dtype:
            return value
        values = self._known(value)
        if values is not None:
            low, high = limits(dtype)
            fits = np.all((values >= low) & (values <= high) & (values == np.round(values)))
            return cast(value, dtype) if fits else None
        op = value.tensor.op if isinstance(value, Read) else None
        if not isinstance(op, ComputeOp) or not _is_map(op) or not isinstance(op.body[0], Cast):
            return None
        assert isinstance(value, Read)
        return self._byte(with_values(op.body[0], dict(zip(op.axis, value.indices))), dtype)

    def _is_zero(self, value: Expr) -> bool:
        """Return whether an expression is known to be 0 everywhere."""
        values = self._known(value)
        return values is not None and not values.any()

    def _known(self, value: Expr) -> np.ndarray | None:
        """Return the values of an expression at all axes, ``None`` if it is not known ahead."""
        if not known_ahead(value, self.known):
            return None
        own = {axis: Axis(axis.name, axis.extent) for axis in axes_in([value])}
        return self._values(tuple(own.values()), with_values(value, own))

    def _values(self, axes: tuple[Axis, ...], value: Expr) -> np.ndarray:
        oracle = reference(define("values", axes, value))
        result: Any = oracle(*(np.asarray(self.params[t]) for t in oracle.inputs))
        return np.asarray(result)

    def _name(self, wanted: str) -> str:
        """Return a name that no stage has."""
        name, number = wanted, 0
        while name in self.names:
            number += 1
            name = f"{wanted}_{number}"
        self.names.add(name)
        return name


def _is_map(op: ComputeOp) -> bool:
    """Return whether each element of the only result is computed on its own."""
    return op.reducer is None and op.destination is None and len(op.outputs) == 1


def _is_scale(value: Expr) -> bool:
    """Return whether a factor may be a scale: a number, or an element of a tensor."""
    return isinstance(value, (Const, Read))


def _unsigned(value: Expr) -> Expr:
    """Return an integer of int8 plus 128 as uint8, and one of uint8 itself."""
    if value.dtype == "uint8":
        return value
    if isinstance(value, Const):
        return const(int(str(value.value)) + SHIFT, "uint8")
    # modulo 256, a sum with 128 is an exclusive or
    return binary("^", cast(value, "uint8"), const(SHIFT, "uint8"))


def _in_place(read: Read, axes: Sequence[Axis]) -> bool:
    """Return whether a read has the element at ``axes`` of a tensor of this shape."""
    same = len(read.indices) == len(axes)
    return same and all(to_lin(i) == Lin.of(a) for i, a in zip(read.indices, axes))


__all__ = ["IntegerSum", "integer_sums"]
