"""``prepare``: what depends on the weights alone is computed once, ahead of all calls."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, Optional

import numpy as np

from schedlang.autotune.at_once.scheduler import autoschedule
from schedlang.compute.extraction import extract, name_of
from schedlang.compute.graph import operations, placeholders
from schedlang.compute.reference import reference
from schedlang.compute.tensor import ComputeOp, Operation, PlaceholderOp, Tensor
from schedlang.compute.work import flops, of_point
from schedlang.networks.ahead import in_order, in_scans, known_tensors
from schedlang.networks.dataflow import COPY, kind_of
from schedlang.networks.folding import Folded, fold_scales
from schedlang.networks.integers import IntegerSum, integer_sums
from schedlang.networks.reciprocals import with_reciprocals
from schedlang.networks.weight_files import contiguous
from schedlang.networks.weights import weight_array
from schedlang.state.initial import stage_names
from schedlang.target import Target
from schedlang.targets.build import unwritten_kernel

# beyond so many operations a kernel, which takes seconds to compile, is faster than NumPy
MOST_FLOPS = 2**28
# how many times larger a copy of weights may be, such as one filled up with zeros
MOST_GROWTH = 2
HOST = Target("cpu")
Rewrite = Callable[["tuple[Tensor, ...]", Collection[Tensor]], "tuple[Tensor, ...]"]


@dataclass(frozen=True, eq=False)
class Prepared:
    """A network in which everything that depends on its weights alone is computed ahead.

    ``outputs`` compute the same as the given outputs, under the same names; all stages have
    different names. ``inputs`` are the placeholders that each call passes. ``params`` are the given
    weights that ``outputs`` still read, with their arrays. ``computed`` are placeholders for
    weights that are computed ahead, each with the tensor that computes it from ``given``, the given
    weights that it needs. ``folded`` says which scales went into weights. ``kept`` has all of these
    arrays if they are elsewhere already; nothing is computed from ``given`` then.
    """

    outputs: tuple[Tensor, ...]
    inputs: tuple[Tensor, ...]
    params: Mapping[Tensor, np.ndarray] = field(repr=False)
    computed: Mapping[Tensor, Tensor] = field(repr=False)
    given: Mapping[Tensor, np.ndarray] = field(repr=False)
    folded: tuple[Folded, ...] = ()
    kept: Optional[Mapping[Tensor, np.ndarray]] = field(default=None, repr=False)

    def values(self) -> dict[Tensor, np.ndarray]:
        """Return an array for each weight that ``outputs`` read: the given and the computed ones.

        Those that are not kept are computed now, in the dtypes of their stages: by NumPy as in
        :func:`schedlang.reference`, and by a kernel where that takes many operations. Keep the
        result; another call computes them again.

        >>> import schedlang as sl
        >>> X, W = sl.placeholder((2,), name="X"), sl.placeholder((2,), name="W")
        >>> U = sl.named("U", W * W)
        >>> found = prepare([X + U], {W: np.array([2, 3], "float32")})
        >>> [(t.name, array.tolist()) for t, array in found.values().items()]
        [('U', [4.0, 9.0])]
        """
        if self.kept is not None:
            return dict(self.kept)
        arrays = {t: contiguous(array) for t, array in self.params.items()}
        light: dict[Tensor, Tensor] = {}
        for place, tensor in self.computed.items():
            if flops([tensor]) > MOST_FLOPS:
                arrays[place] = self._by_kernel(tensor)
            else:
                light[place] = tensor
        if light:
            oracle = reference(list(light.values()))
            results = oracle(*(self.given[t] for t in oracle.inputs))
            results = results if isinstance(results, tuple) else (results,)
            arrays.update((t, contiguous(array)) for t, array in zip(light, results))
        return {t: arrays[t] for t in (*self.params, *self.computed)}

    def _by_kernel(self, tensor: Tensor) -> np.ndarray:
        # weights are computed here, whatever the target of the network is
        kernel = unwritten_kernel(autoschedule(tensor, HOST), None, HOST)
        return kernel(*(contiguous(self.given[t]) for t in placeholders([tensor])))


@dataclass(frozen=True, eq=False)
class Weighted:
    """A network and the arrays of its weights, before any of them are computed ahead.

    ``outputs`` are folded, and ``notes`` say which scales went into weights. ``sums`` are the sums
    that became sums of integers. ``inputs`` are the placeholders that each call passes.
    """

    outputs: tuple[Tensor, ...]
    inputs: tuple[Tensor, ...]
    weights: Mapping[Tensor, np.ndarray] = field(repr=False)
    notes: tuple[Folded, ...] = ()
    sums: tuple[IntegerSum, ...] = ()

    def rewritten(self, rewrite: Rewrite) -> Weighted:
        """Return the network with outputs that compute the same."""
        return replace(self, outputs=rewrite(self.outputs, self.weights))


def weighted(
    outputs: Any, params: Mapping[Tensor, Any] | None, fold: bool, integers: bool = False
) -> Weighted:
    """Return a network with its weights, folded if ``fold``, as :func:`prepare` takes them.

    With ``integers``, products of quantized values are sums of integers, and quotients by known
    values are products.
    """
    tensors = tuple(outputs) if isinstance(outputs, (list, tuple)) else (outputs,)
    given = {t: weight_array(t, value) for t, value in (params or {}).items()}
    inputs = tuple(t for t in placeholders(tensors) if t not in given)
    # before scales go into weights of floats
    whole, sums = integer_sums(tensors, given) if integers else (tensors, ())
    whole, notes = fold_scales(whole, given) if fold else (whole, ())
    whole = with_reciprocals(whole, given) if integers else whole
    return Weighted(whole, inputs, given, notes, sums)


def prepare(
    outputs: Any,
    params: Mapping[Tensor, Any] | None = None,
    fold: bool = True,
    rewrite: Rewrite | None = None,
) -> Prepared:
    """Return a network in which all that depends on its weights alone is computed ahead.

    ``outputs`` is a tensor or a list of them, and ``params`` has an array for each placeholder that
    is a weight. The largest stages that depend on weights and constants alone become weights
    themselves. A stage that only copies its elements into an array of more than twice their size
    stays, and so does one with symbolic sizes or scalar arguments. A scan is computed ahead as a
    whole or not at all.

    ``rewrite`` is called with the outputs, after folding, and the weights, and returns outputs that
    compute the same, for instance by :func:`~schedlang.networks.layouts.blocked_layouts`.

    With ``fold``, a scale after a convolution or a product goes into its weights:
    :func:`~schedlang.networks.folding.fold_scales` says when, and how results change.

    Raises :class:`~schedlang.errors.NetworkError` for a weight whose array does not fit, or that is
    not a placeholder.

    >>> import schedlang as sl
    >>> from schedlang import topi
    >>> A, W = sl.placeholder((1, 3, 8, 8), name="A"), sl.placeholder((4, 3, 3, 3), name="W")
    >>> parts = [sl.placeholder((4,), name=name) for name in ("gamma", "beta", "mean", "var")]
    >>> y = topi.nn.batch_norm(topi.nn.conv2d_nchw(A, W, 1, 1, 1), *parts)[0]
    >>> arrays = {t: np.ones(t.shape, "float32") for t in (W, *parts)}
    >>> found = prepare(y, arrays)
    >>> found.inputs, [t.name for t in found.computed], [str(note) for note in found.folded]
    ((Tensor(A: float32[1, 3, 8, 8]),), ['W_scaled', 'batch_norm_shift'], \
['batch_norm into W of conv2d_nchw'])
    """
    whole = weighted(outputs, params, fold)
    return computed_ahead(whole if rewrite is None else whole.rewritten(rewrite))


def computed_ahead(network: Weighted) -> Prepared:
    """Return a network in which what depends on its weights alone is computed ahead."""
    whole, given = network.outputs, network.weights
    ops = operations(whole)
    names = {
        op.outputs[0]: name
        for op, name in stage_names(ops).items()
        if not isinstance(op, PlaceholderOp)
    }
    frontier = _frontier(ops, whole, given)
    places = {t: PlaceholderOp(name_of(t, names), t.shape, t.dtype).output() for t in frontier}
    copies = extract(in_order(whole, ends=places), names, places)
    results = tuple(copies.get(t, t) for t in whole)
    read = placeholders(results)
    return Prepared(
        results,
        network.inputs,
        {t: array for t, array in given.items() if t in read},
        {new: old for old, new in places.items() if new in read},
        {t: given[t] for t in placeholders(frontier)},
        network.notes,
    )


def _frontier(
    ops: Sequence[Operation], outputs: Sequence[Tensor], params: Collection[Tensor]
) -> list[Tensor]:
    """Return the tensors to compute ahead: the known ones that stages read which are not."""
    known = known_tensors(ops, params)
    kept = {t.op for t in outputs} | in_scans(ops)
    stays: dict[Operation, bool] = {}
    for op in reversed(ops):
        stays[op] = not isinstance(op, PlaceholderOp) and (
            op.outputs[0] not in known or op in kept or _only_grows(op)
        )
    frontier: dict[Tensor, None] = {}
    needed = [t.op for t in outputs]
    seen: set[Operation] = set()
    while needed:
        op = needed.pop()
        if op in seen:
            continue
        seen.add(op)
        if stays.get(op):
            for tensor in op.input_tensors:
                if isinstance(tensor.op, PlaceholderOp) or stays[tensor.op]:
                    needed.append(tensor.op)
                else:
                    frontier.setdefault(tensor)
    place = {op: k for k, op in enumerate(ops)}
    return sorted(frontier, key=lambda t: (place[t.op], t.value_index))


def _only_grows(op: Operation) -> bool:
    """Return whether a known stage only copies its elements into a much larger array."""
    if not isinstance(op, ComputeOp) or kind_of(op) != COPY or of_point(op):
        return False
    read = sum(prod(int(n) for n in t.shape) for t in op.input_tensors)
    return prod(int(n) for n in op.shape) > MOST_GROWTH * read


__all__ = ["MOST_FLOPS", "Prepared", "Weighted", "computed_ahead", "prepare", "weighted"]
