"""Products of float32 whose factors have fewer bits, for the matrix units of a GPU.

With ``precision="float16"`` a product multiplies float16 factors and adds in float32, and all other
stages stay in float32 (P. Micikevicius et al., "Mixed Precision Training", ICLR 2018, section 3.3).
Weights are rounded ahead of all calls. Data are rounded by the kernel that computes them, before
stages that only move elements. TF32 has float32 in memory, and each product rounds its factors. No
operator is known by name: products are found by the indices of reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from schedlang.autotune.tactics.known_instructions import (
    LANES,
    ROWS,
    TILES,
    WARPS,
    in_the_box,
    lacks,
)
from schedlang.compute.define import define
from schedlang.compute.graph import operations
from schedlang.compute.read import Read
from schedlang.compute.tensor import ComputeOp, Tensor
from schedlang.errors import BuildError, NetworkError, explain
from schedlang.expr.nodes import Axis, Binary, Call, Cast, Const, Expr, Select
from schedlang.expr.visit import axes_in, rewrite
from schedlang.instructions.declaration import Instruction
from schedlang.language.calls import call
from schedlang.language.construct import cast, const
from schedlang.networks.blocks import may_be_rewritten
from schedlang.networks.dataflow import COPY, kind_of
from schedlang.networks.folding import is_sum
from schedlang.networks.model import FULL, TF32
from schedlang.networks.reading import with_fields, with_inputs, with_operands
from schedlang.state.initial import stage_names
from schedlang.target import Target


@dataclass(frozen=True, eq=False)
class Rounded:
    """A network whose products have factors of a precision.

    ``outputs`` compute the same as the given outputs, but for the rounding of factors. ``products``
    are the names of the stages whose factors are rounded. ``sources`` has, for the name of each
    stage that rounds data or moves rounded data, the name of the stage that it stands for.
    """

    outputs: tuple[Tensor, ...]
    products: tuple[str, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict)


def check_precision(precision: str, target: Target) -> None:
    """Raise :class:`~schedlang.errors.BuildError` if a target has no products in a precision."""
    asked = f'sl.network(..., target="{target.kind}", precision="{precision}")'
    forms = (LANES, ROWS, TILES, WARPS)
    units = [d for form in forms for d in in_the_box(target, form) if _multiplies(d, precision)]
    if not units:
        why = f"no instruction of this target multiplies {precision} and adds in {FULL}"
        fix = 'Give target="cuda", whose matrix units do, or leave precision out.'
        raise BuildError(explain(asked, why, fix))
    if all(lacks(unit, target) for unit in units):
        needed = " or ".join(f"{unit.name} ({', '.join(unit.needs)})" for unit in units)
        where = f"arch={target.arch!r}" if target.arch else "this processor"
        why = f"such products take {needed}, and {where} lacks it"
        fix = 'Give a target that has it, such as target="cuda", or leave precision out.'
        raise BuildError(explain(asked, why, fix))


def _multiplies(declared: Instruction, precision: str) -> bool:
    """Return whether an instruction adds products of a precision in float32."""
    body, kinds = declared.op.body[0], {operand.dtype for operand in declared.operands}
    if declared.output.dtype != FULL or not isinstance(body, Binary) or body.op != "*":
        return False
    rounds = all(isinstance(side, Call) and side.fn == TF32 for side in (body.a, body.b))
    return rounds if precision == TF32 else kinds == {precision}


def in_precision(outputs: Sequence[Tensor], precision: str) -> Rounded:
    """Return tensors that compute ``outputs`` with products of a precision, added in float32.

    A stage is such a product if it sums ``a * b`` in float32, and each factor has a data axis that
    the other lacks, as in products of matrices and in convolutions. Convolutions of groups or of
    each channel alone are none: they stay in float32, like all other stages.

    Raises :class:`~schedlang.errors.NetworkError` for a network with scans or ragged sums, whose
    stages cannot be replaced.

    >>> import schedlang as sl
    >>> from schedlang import topi
    >>> x, w = sl.placeholder((2, 8), name="x"), sl.placeholder((4, 8), name="w")
    >>> net = in_precision([topi.nn.dense(x, w)], "float16")
    >>> print(net.outputs[0].op.body[0], net.sources)
    float32(x_float16[i, k]) * float32(w_float16[j, k]) {'x_float16': 'x', 'w_float16': 'w'}
    """
    if precision == FULL:
        return Rounded(tuple(outputs))
    ops = operations(outputs)
    if not may_be_rewritten(ops):
        raise NetworkError(
            explain(
                f'sl.network(..., precision="{precision}")',
                "the network has a scan or a sum over a ragged axis, and products beside these "
                "are computed in float32 alone",
                "Leave precision out, or make networks of what comes before it and after it.",
            )
        )
    rewriting = _Rewriting(precision)
    names, products = stage_names(ops), []
    for op in ops:
        if not isinstance(op, ComputeOp):
            rewriting.replaced.update(with_inputs(op, rewriting.replaced))
            continue
        twin = with_operands(op, rewriting.replaced)
        if is_matrix_product(twin):
            products.append(names[op])
            twin = rewriting.rounded(twin)
        if twin is not op:
            rewriting.replaced.update(zip(op.outputs, twin.outputs))
    whole = tuple(rewriting.replaced.get(t, t) for t in outputs)
    named = stage_names(operations(whole))
    sources = {
        named[narrow.op]: named.get(wide.op, wide.name)
        for wide, narrow in rewriting.narrow.items()
        if narrow.op in named
    }
    return Rounded(whole, tuple(products), sources)


def is_matrix_product(op: ComputeOp) -> bool:
    """Return whether a stage sums products of float32, like a matrix product."""
    body = op.body[0]
    if not is_sum(op) or not isinstance(body, Binary) or body.op != "*":
        return False
    if not isinstance(body.a, Read) or not isinstance(body.b, Read) or body.dtype != FULL:
        return False
    if {body.a.dtype, body.b.dtype} != {FULL}:
        return False
    left, right = ({*axes_in(side.indices)} for side in (body.a, body.b))
    data, steps = {*op.axis}, {*op.reduce_axis}
    shared = left & right & steps
    return bool(shared and (left - right) & data and (right - left) & data)


class _Rewriting:
    """The stages of a network that round factors, by what they round."""

    def __init__(self, precision: str) -> None:
        self.precision = precision
        self.replaced: dict[Tensor, Tensor] = {}
        self.narrow: dict[Tensor, Tensor] = {}

    def rounded(self, op: ComputeOp) -> ComputeOp:
        """Return a product with rounded factors."""
        body = op.body[0]
        assert isinstance(body, Binary)
        sides = (self._factor(body.a), self._factor(body.b))
        return with_fields(op, body=(Binary("*", *sides, FULL),))

    def _factor(self, side: Expr) -> Expr:
        assert isinstance(side, Read)
        if self.precision == TF32:
            return call(TF32, side)
        return Cast(Read(self._narrow(side.tensor), side.indices, self.precision), FULL)

    def _narrow(self, tensor: Tensor) -> Tensor:
        """Return a tensor rounded; where it only moves elements, what it moves is rounded."""
        stack = [(tensor, False)]
        while stack:
            at, ready = stack.pop()
            if at in self.narrow:
                continue
            moves = self._moves(at)
            if moves is None:
                self.narrow[at] = self._cast(at)
            elif ready:
                self.narrow[at] = self._copy(moves)
            else:
                stack += [(at, True), *((t, False) for t in moves.input_tensors)]
        return self.narrow[tensor]

    def _moves(self, tensor: Tensor) -> ComputeOp | None:
        """Return the stage of a tensor that only moves elements of others."""
        op = tensor.op
        if not isinstance(op, ComputeOp) or not op.input_tensors:
            return None
        return op if kind_of(op) == COPY else None

    def _cast(self, tensor: Tensor) -> Tensor:
        axes = tuple(Axis(f"i{k}", extent) for k, extent in enumerate(tensor.shape))
        name = f"{tensor.name}_{self.precision}"
        return define(name, axes, cast(tensor.element(axes), self.precision))

    def _copy(self, op: ComputeOp) -> Tensor:
        def changed(node: Expr) -> Expr | None:
            if isinstance(node, Read):
                return Read(self.narrow[node.tensor], node.indices, self.precision)
            if isinstance(node, Const) and node.dtype == FULL:
                return const(node.value, self.precision)
            # all choices but choices of indices
            if isinstance(node, Select) and node.dtype == FULL:
                return replace(node, dtype=self.precision)
            return None

        name = f"{op.outputs[0].name}_{self.precision}"
        moved = with_fields(op, name=name, body=(rewrite(op.body[0], changed),)).outputs[0]
        moved.name = name
        return moved


__all__ = ["Rounded", "check_precision", "in_precision", "is_matrix_product"]
