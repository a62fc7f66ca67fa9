"""Folding: a scale after a convolution or a product goes into its weights, ahead of all calls.

``E[n, c] = R[n, c] * a[c] + b[c]``, with a sum ``R[n, c]`` of products with weights ``W[c, k]``, is
``E[n, c] = R'[n, c] + b[c]``, whose weights are ``W[c, k] * a[c]``. So a batch norm costs nothing
(B. Jacob et al., "Quantization and Training of Neural Networks for Efficient
Integer-Arithmetic-Only Inference", CVPR 2018, section 3.2). No operator is known by name: stages
are folded if their expressions have this form.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from schedlang.compute.define import define
from schedlang.compute.extraction import extract
from schedlang.compute.graph import operations
from schedlang.compute.read import Read, reads
from schedlang.compute.reducer import Reducer
from schedlang.compute.reference import reference
from schedlang.compute.tensor import ComputeOp, Operation, PlaceholderOp, Tensor
from schedlang.expr.nodes import Axis, Binary, Const, Expr
from schedlang.expr.visit import rewrite
from schedlang.gradient.algebra import is_number, number, plus, same, times
from schedlang.index.simplify import to_lin
from schedlang.networks.affine import (
    Affine,
    affine_parts,
    axes_in,
    known_ahead,
    solve_for,
    with_values,
)
from schedlang.networks.ahead import in_order, in_scans, known_tensors
from schedlang.state.initial import stage_names

# sums in other dtypes would be rounded or wrap in another way
_DTYPES = ("float32", "float64")


@dataclass(frozen=True)
class Folded:
    """A scale that went into weights: of ``stage``, into the ``weights`` of stage ``into``."""

    stage: str
    into: str
    weights: str

    def __str__(self) -> str:
        return f"{self.stage} into {self.weights} of {self.into}"


@dataclass(frozen=True, eq=False)
class _Chain:
    """Elements of a stage as ``scale * total[indices]`` plus the sum of ``shift``.

    All are expressions over the axes of the stage; ``total`` is a sum that nothing else reads.
    """

    total: Tensor
    indices: tuple[Expr, ...]
    form: Affine


@dataclass(frozen=True, eq=False)
class _Fold:
    """A stage as a sum with scaled weights.

    ``parts`` are the parts of the body of ``stage`` that become the sum plus a shift; ``weights``
    is the tensor that is scaled, ``scaled`` the scale over ``places``, the axes of its dimensions.
    """

    stage: ComputeOp
    total: Tensor
    indices: tuple[Expr, ...]
    parts: tuple[tuple[Expr, tuple[Expr, ...]], ...]
    weights: Tensor
    scale: Expr
    places: tuple[Axis, ...]


def fold_scales(
    outputs: Sequence[Tensor], params: Mapping[Tensor, np.ndarray]
) -> tuple[tuple[Tensor, ...], tuple[Folded, ...]]:
    """Return tensors that compute ``outputs`` with scales folded into weights, and what was folded.

    A stage is folded that alone reads a sum of products with weights, or reads such a sum through
    stages that are affine in it themselves (a bias before a batch norm), if

    * its elements are affine in that sum, with a scale that depends on ``params``, constants and
      axes alone,
    * each of these axes is a whole dimension of the weights, such as the output channels, or their
      quotient and remainder are,
    * sum, weights and stage have one dtype, float32 or float64, and
    * the scale and the scaled weights are finite where the weights are.

    Sums are rounded in another way then. They differ otherwise only where the sum of the original
    overflows, where it is infinite and the scale is 0, and where the scale makes a weight so small
    that it is rounded to a multiple of the smallest number, or to 0. Stages keep their names, made
    unique.

    >>> import schedlang as sl
    >>> from schedlang import topi
    >>> A, W = sl.placeholder((2, 3), name="A"), sl.placeholder((4, 3), name="W")
    >>> s = sl.placeholder((4,), name="s")
    >>> y = sl.named("y", topi.multiply(topi.nn.dense(A, W), s))
    >>> (made,), (note,) = fold_scales([y], {W: np.ones((4, 3), "f4"), s: np.full(4, 2, "f4")})
    >>> print(note, made.op.body, made.op.input_tensors[0].op.body)
    y into W of dense (dense[i, j],) (A[i, k] * W_scaled[j, k],)
    """
    ops = operations(outputs)
    names = {
        op.outputs[0]: name
        for op, name in stage_names(ops).items()
        if not isinstance(op, PlaceholderOp)
    }
    search = _Search(ops, outputs, params)
    folds = search.folds()
    rebuilt = _Rebuilt(names, search.known)
    for fold in folds:
        rebuilt.apply(fold)
    copies = extract(in_order(outputs, rebuilt.changed), {**names, **rebuilt.names})
    notes = tuple(
        Folded(names[f.stage.outputs[0]], names[f.total], names.get(f.weights, f.weights.name))
        for f in folds
    )
    return tuple(copies.get(t, t) for t in outputs), notes


class _Search:
    """Facts about a graph while its stages are visited, producers first."""

    def __init__(
        self,
        ops: Sequence[Operation],
        outputs: Sequence[Tensor],
        params: Mapping[Tensor, np.ndarray],
    ) -> None:
        self.ops = ops
        self.params = params
        self.known = known_tensors(ops, params)
        self.scanned = in_scans(ops)
        self.kept = {t.op for t in outputs} | self.scanned
        self.readers: dict[Operation, set[Operation]] = {}
        for op in ops:
            for tensor in op.input_tensors:
                self.readers.setdefault(tensor.op, set()).add(op)
        self.chains: dict[Tensor, _Chain] = {}

    def folds(self) -> list[_Fold]:
        """Return at most one fold of each sum, of the last stage of its chain."""
        folds: dict[Tensor, _Fold] = {}
        for op in self.ops:
            if not isinstance(op, ComputeOp) or not self._is_map(op):
                continue
            for tensor in op.input_tensors:
                fold = self._fold(op, tensor)
                if fold is not None:
                    folds[fold.total] = fold
                    break
        return list(folds.values())

    def _is_map(self, op: ComputeOp) -> bool:
        simple = op.reducer is None and op.destination is None and len(op.outputs) == 1
        return simple and op.outputs[0].dtype in _DTYPES and op.outputs[0] not in self.known

    def _fold(self, op: ComputeOp, tensor: Tensor) -> _Fold | None:
        """Return the fold of a stage into the sum behind ``tensor``, and keep its chain."""
        chain = self._chain(tensor)
        if chain is None or self.readers[tensor.op] != {op} or tensor.op in self.kept:
            return None
        if op in self.scanned or tensor.dtype != op.outputs[0].dtype:
            return None
        read = [r for r in reads(op.body) if r.tensor is tensor]
        if not all(_same_place(r, read[0]) for r in read):
            return None
        parts = affine_parts(op.body[0], lambda n: isinstance(n, Read) and n.tensor is tensor)
        if not parts:
            return None
        source = tensor.op
        assert isinstance(source, ComputeOp)
        swap = dict(zip(source.axis, read[0].indices))
        indices = tuple(with_values(index, swap) for index in chain.indices)
        forms = [(part, _through(form, chain.form, swap)) for part, form in parts]
        scale = forms[0][1].scale
        if not all(same(form.scale, scale) for _, form in forms):
            return None
        if not known_ahead(scale, self.known):
            return None
        whole = parts[0] if len(parts) == 1 and parts[0][0] is op.body[0] else None
        if whole and all(known_ahead(value, self.known) for value in forms[0][1].shift):
            self.chains[op.outputs[0]] = _Chain(chain.total, indices, forms[0][1])
        # besides a scale, only a shift of a scaled sum is worth a change: both become one
        shifts = whole and any(known_ahead(value, self.known) for value in whole[1].shift)
        if is_number(scale, 1) or (is_number(parts[0][1].scale, 1) and not shifts):
            return None
        return self._into_weights(op, chain, indices, forms)

    def _chain(self, tensor: Tensor) -> _Chain | None:
        """Return how a tensor depends on a sum; a sum depends on itself."""
        op = tensor.op
        if tensor in self.chains:
            return self.chains[tensor]
        if not isinstance(op, ComputeOp) or not is_sum(op) or op in self.scanned:
            return None
        if tensor in self.known or tensor.dtype not in _DTYPES:
            return None
        return _Chain(tensor, op.axis, Affine(number(1, tensor.dtype)))

    def _into_weights(
        self,
        op: ComputeOp,
        chain: _Chain,
        indices: tuple[Expr, ...],
        forms: Sequence[tuple[Expr, Affine]],
    ) -> _Fold | None:
        """Return the fold of a stage, if its scale can go into weights."""
        scale = forms[0][1].scale
        if is_number(scale, 0):
            return None
        total = chain.total.op
        assert isinstance(total, ComputeOp)
        of_total = _moved(scale, indices, total.axis)
        if of_total is None:
            return None
        for read in _factors(total, self.known):
            places = tuple(Axis(f"i{k}", e) for k, e in enumerate(read.tensor.shape))
            of_weights = _moved(of_total, read.indices, places)
            if of_weights is not None and self._is_safe(read.tensor, of_weights):
                parts = tuple((part, form.shift) for part, form in forms)
                return _Fold(op, chain.total, indices, parts, read.tensor, of_weights, places)
        return None

    def _is_safe(self, weights: Tensor, scale: Expr) -> bool:
        """Return whether scaled weights are finite where the weights are."""
        own = tuple(dict.fromkeys(axes_in(scale)))
        factor, values = self._values(define("scale", own, scale)), self._values(weights)
        largest = np.finfo(values.dtype).max
        if not np.isfinite(factor).all():
            return False
        most = np.abs(factor).max(initial=0)
        finite = np.abs(values).max(initial=0, where=np.isfinite(values))
        return bool(most == 0 or finite <= largest / max(most, 1))

    def _values(self, tensor: Tensor) -> np.ndarray:
        if tensor in self.params:
            return np.asarray(self.params[tensor])
        oracle = reference(tensor)
        return oracle(*(self.params[t] for t in oracle.inputs))


def is_sum(op: ComputeOp) -> bool:
    """Return whether an operation is a sum of one value, from 0 on."""
    simple = len(op.body) == 1 and op.destination is None and op.init is None
    return simple and op.reducer is not None and _adds(op.reducer)


def _adds(reducer: Reducer) -> bool:
    """Return whether a reducer adds, whatever its name is."""
    if len(reducer.result) != 1 or not is_number(reducer.identity[0], 0):
        return False
    value, operands = reducer.result[0], (reducer.lhs[0], reducer.rhs[0])
    return (
        isinstance(value, Binary)
        and value.op == "+"
        and (
            (value.a is operands[0] and value.b is operands[1])
            or (value.a is operands[1] and value.b is operands[0])
        )
    )


def _factors(op: ComputeOp, known: Mapping[Tensor, None]) -> Iterator[Read]:
    """Yield the reads of known tensors in which a sum's terms are linear."""
    for tensor in op.input_tensors:
        if tensor not in known or tensor.dtype != op.outputs[0].dtype:
            continue
        own = [read for read in reads(op.roots) if read.tensor is tensor]
        if not all(_same_place(read, own[0]) for read in own):
            continue
        if op.where is not None and any(read.tensor is tensor for read in reads([op.where])):
            continue

        def is_x(node: Expr, tensor: Tensor = tensor) -> bool:
            return isinstance(node, Read) and node.tensor is tensor

        parts = affine_parts(op.body[0], is_x)
        if parts and len(parts) == 1 and parts[0][0] is op.body[0] and not parts[0][1].shift:
            yield own[0]


def _same_place(a: Read, b: Read) -> bool:
    return all(to_lin(x) == to_lin(y) for x, y in zip(a.indices, b.indices))


def _through(form: Affine, inner: Affine, swap: Mapping[Axis, Expr]) -> Affine:
    """Return an affine form of x as one of what x is an affine form of."""
    shift = tuple(times(with_values(value, swap), form.scale) for value in inner.shift)
    return Affine(times(with_values(inner.scale, swap), form.scale), (*shift, *form.shift))


def _moved(value: Expr, indices: Sequence[Expr], places: Sequence[Axis]) -> Expr | None:
    """Return a reader's expression over the axes of the tensor that it reads."""
    swap: dict[Axis, Expr] = {}
    for axis in axes_in(value):
        solution = solve_for(axis, indices, places)
        if solution is None:
            return None
        swap[axis] = solution
    return with_values(value, swap)


class _Rebuilt:
    """The operations that folds change, by their outputs, and the names of new stages."""

    def __init__(self, names: Mapping[Tensor, str], known: Mapping[Tensor, None]) -> None:
        self.changed: dict[Tensor, ComputeOp] = {}
        self.names: dict[Tensor, str] = {}
        self.known = known
        self.taken = set(names.values()) | {t.name for t in known}
        self.stage_names = names

    def apply(self, fold: _Fold) -> None:
        weights, total = fold.weights, fold.total.op
        assert isinstance(total, ComputeOp)
        element = times(weights.element(fold.places), fold.scale)
        stem = self.stage_names.get(weights, weights.name)
        scaled = self._stage(f"{stem}_scaled", fold.places, element)

        def swapped(node: Expr) -> Expr | None:
            if isinstance(node, Read) and node.tensor is weights:
                return Read(scaled, node.indices, node.dtype, node.weak)
            return None

        body = tuple(rewrite(root, swapped) for root in total.body)
        self.changed[fold.total] = replace(total, body=body)
        read = Read(fold.total, fold.indices, fold.total.dtype)
        values = {id(part): self._with_shift(read, shift, fold) for part, shift in fold.parts}
        element = rewrite(fold.stage.body[0], lambda _: None, values)
        self.changed[fold.stage.outputs[0]] = replace(fold.stage, body=(element,))

    def _with_shift(self, read: Read, shift: Sequence[Expr], fold: _Fold) -> Expr:
        """Return a sum with its shift added; all of the shift that is known ahead is one stage."""
        bias: Expr | None = None
        for value in shift:
            if known_ahead(value, self.known):
                bias = value if bias is None else plus(bias, value)
        total: Expr = read
        if bias is not None:
            total = plus(total, self._bias(bias, self.stage_names[fold.stage.outputs[0]]))
        for value in shift:
            if not known_ahead(value, self.known):
                total = plus(total, value)
        return total

    def _bias(self, value: Expr, name: str) -> Expr:
        """Return a known value as an element of a stage; as it is if that would be no smaller."""
        if isinstance(value, (Read, Const)):
            return value
        axes = list(dict.fromkeys(axes_in(value)))
        size = prod(int(axis.extent) for axis in axes)
        if size > sum(prod(map(int, t.shape)) for t in {r.tensor for r in reads([value])}):
            return value
        places = tuple(Axis(axis.name, axis.extent) for axis in axes)
        stage = self._stage(f"{name}_shift", places, with_values(value, dict(zip(axes, places))))
        return Read(stage, tuple(axes), stage.dtype)

    def _stage(self, name: str, axes: tuple[Axis, ...], value: Expr) -> Tensor:
        unique, count = name, 0
        while unique in self.taken:
            count += 1
            unique = f"{name}_{count}"
        self.taken.add(unique)
        stage: Tensor = define(unique, axes, value)
        self.names[stage] = unique
        return stage
