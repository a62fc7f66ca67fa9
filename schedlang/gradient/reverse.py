"""``gradient``: the adjoints of a computation, from its result back to its inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from schedlang.compute.define import define
from schedlang.compute.extern_op import refuse_extern
from schedlang.compute.graph import operations
from schedlang.compute.tensor import ComputeOp, Operation, PlaceholderOp, ScanOp, Tensor
from schedlang.expr.nodes import Axis
from schedlang.gradient.adjoint import Adjoint
from schedlang.gradient.algebra import number
from schedlang.gradient.arguments import (
    check_head,
    check_reached,
    check_result,
    check_rules,
    check_sources,
    steps_of,
)
from schedlang.gradient.backward import Backward
from schedlang.gradient.host_rules import rules_of_calls
from schedlang.gradient.reductions import compute_sites
from schedlang.gradient.rules import Rules, rule_sites
from schedlang.gradient.scans import scan_sites
from schedlang.gradient.stage_sites import Found, Head, Walk
from schedlang.markup.progress import Setting, check_setting, tell, working
from schedlang.signatures import public


@public
def gradient(
    y: Tensor,
    xs: Any,
    head: Tensor | None = None,
    *,
    rules: Rules | None = None,
    progress: Setting = None,
) -> Any:
    """Return the gradient of ``y`` by each of ``xs``, as tensors to schedule like any other.

    ``xs`` is a tensor or a list of tensors of float dtypes, and the result has the same form. The
    gradient by ``x`` has the shape and the dtype of ``x``, and the name ``x_grad``. Its element is
    the sum over all elements of ``y`` of their derivative times their element of ``head``, a tensor
    of the shape and dtype of ``y``. A ``y`` of one element needs no ``head``.

    Where a function has a kink, one derivative is chosen: equal elements of a ``max`` share it, as
    in PyTorch, and ``abs`` and relu (``sl.max(x, 0)``) have the derivative 0 at 0. Indices,
    conditions, comparisons and roundings have none.

    ``rules`` replaces derivatives. It maps a tensor to ``None``, if it counts as a constant, or to
    a function of its own gradient (one argument for each output of its stage). The function returns
    the gradients that flow on, by tensor: ``rules={S: lambda head: {X: ...}}``.

    Calls of ``np.linalg.solve``, ``inv``, ``det``, ``slogdet`` and ``cholesky`` have derivatives,
    the last by the triangle that NumPy reads. Other calls of NumPy on the host need a rule.

    The gradient of a gradient by an ``x`` that it no longer depends on, such as one that entered
    linearly, is 0.

    A call that takes more than two seconds says so on a terminal and in a notebook, unless
    ``progress=False``.

    Raises :class:`~schedlang.errors.ComputeError` if ``y`` does not depend on an ``x``, for a
    ``head`` of another shape, for a conversion to integers, for a custom reducer that does not
    declare ``gradient=``, and for a read in the step of a scan at an index that depends on data.

    >>> import numpy as np, schedlang as sl
    >>> A = sl.placeholder((3,), "float64", name="A")
    >>> k = sl.reduce_axis(3, name="k")
    >>> C = sl.compute((), lambda: sl.sum(A[k] * A[k], axis=k), name="C")
    >>> sl.reference(sl.gradient(C, A))(np.array([1.0, 2.0, 3.0]))
    array([2., 4., 6.])
    """
    several = isinstance(xs, (list, tuple))
    sources = check_sources(xs)
    check_result(y)
    checked_rules = check_rules(rules)
    check_head(y, head)
    check_setting("sl.gradient", progress)
    seed = Adjoint(value=number(1, y.dtype)) if head is None else Adjoint(tensor=head)
    with working(f"gradient of {y.name}", progress):
        by_source = adjoints(y, sources, seed, (), checked_rules)
    results = [
        result_stage(x, by_source[x], (), (y, *([] if head is None else [head]))) for x in sources
    ]
    return results if several else results[0]


def adjoints(
    y: Tensor, xs: Sequence[Tensor], seed: Adjoint, batch: tuple[Axis, ...], rules: Rules
) -> dict[Tensor, Head]:
    """Return the adjoint of each of ``xs``, given the adjoint of ``y``."""
    order = operations([y])
    rules = {**rules_of_calls(order), **rules}
    without = [op for op in order if not any(t in rules for t in getattr(op, "outputs", ()))]
    refuse_extern(
        without,
        f"sl.gradient({y.name}, ...)",
        "Give its derivative by rules=, or write the stage with sl.compute.",
    )
    differentiated = operations(_differentiated(order))
    scans = [op for op in order if isinstance(op, ScanOp)]
    check_reached(y, xs, rules, order, scans, differentiated)
    active = _depending(order, xs, rules)
    stored = {init: output for scan in scans for init, output in zip(scan.init, scan.outputs)}
    done = {op: k for k, op in enumerate(reversed(order))}
    walk = Walk(active.__contains__, batch, stored=stored)

    def sites_of(walk: Walk, op: Operation, heads: Sequence[Head]) -> Found:
        tell("differentiating {} stages", done[op], len(order))
        ruled = [t for t in op.outputs if t in rules] if not isinstance(op, PlaceholderOp) else []
        if ruled:
            return rule_sites(rules[ruled[0]], ruled[0], op, heads)
        if isinstance(op, ScanOp):
            return scan_sites(walk, op, heads)
        assert isinstance(op, ComputeOp)
        return compute_sites(walk, op, heads)

    backward = Backward(walk, {y: seed}, sites_of, {*xs, *rules})
    inside = {step for scan in scans for step in steps_of(scan)}
    backward.run([op for op in order if op not in inside])
    return {x: backward.adjoint(x) for x in xs}


def _differentiated(order: Sequence[Operation]) -> list[Tensor]:
    """Return the tensors whose derivatives, of any degree, are in ``order``."""
    originals: dict[Tensor, None] = {}
    waiting = list(order)
    while waiting:
        op = waiting.pop()
        fresh = [t for t in getattr(op, "gradient_of", ()) if t not in originals]
        originals.update(dict.fromkeys(fresh))
        waiting += operations(fresh)
    return list(originals)


def result_stage(x: Tensor, head: Head, batch: Sequence[Axis], of: tuple[Tensor, ...]) -> Tensor:
    """Return the gradient by ``x`` as a stage of its own, with the batch axes first.

    It is a derivative of the tensors ``of``.
    """
    name = f"{x.name}_grad"
    tensor = head.tensor if isinstance(head, Adjoint) else None
    if tensor is not None and tensor.name == name and not batch and tensor not in of:
        if isinstance(tensor.op, ComputeOp):
            return _derived(tensor, of)
    own = tuple(Axis(f"i{k}", n) for k, n in enumerate(x.shape))
    if tensor is not None and not isinstance(tensor.op, (PlaceholderOp, ScanOp)):
        names = [axis.name for axis in tensor.op.axis][: x.ndim]
        own = tuple(Axis(n, e) for n, e in zip(names, x.shape))
    lead = tuple(Axis(axis.name, axis.extent) for axis in batch)
    adjoint = head if isinstance(head, Adjoint) else Adjoint.zero(x.dtype)
    return _derived(define(name, (*lead, *own), adjoint.at((*own, *lead))), of)


def _derived(tensor: Tensor, of: tuple[Tensor, ...]) -> Tensor:
    if isinstance(tensor.op, ComputeOp):
        tensor.op.gradient_of = of
    return tensor


def _depending(order: Sequence[Operation], xs: Sequence[Tensor], rules: Rules) -> set[Tensor]:
    """Return ``xs`` and the tensors that depend on them, not counting constants by a rule."""
    dependent = set(xs)
    for op in order:
        if isinstance(op, PlaceholderOp):
            continue
        reads = [*op.input_tensors, *(op.state if isinstance(op, ScanOp) else ())]
        if any(t in dependent for t in reads):
            dependent.update(t for t in op.outputs if rules.get(t, True) is not None or t in xs)
    return dependent
