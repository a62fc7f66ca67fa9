"""The derivatives of functions of NumPy that are called on the host.

They call NumPy's functions again, so that a gradient has a gradient, too. A further function is a
row of ``DERIVATIVES``, and a case in ``tests/test_gradient_host_calls.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from schedlang.arrays.host.row import NumpyCall
from schedlang.arrays.shapes import is_one
from schedlang.compute.extern_op import ExternOp
from schedlang.compute.tensor import Operation, Tensor
from schedlang.expr import dtypes
from schedlang.gradient.rules import Rules

# takes the arguments of a call by name, its results and their gradients, and returns the gradients
# by the arguments
Derivative = Callable[[Mapping[str, Any], Sequence[Any], Sequence[Any]], Mapping[str, Any]]


def rules_of_calls(ops: Iterable[Operation]) -> Rules:
    """Return a rule for the first result of each call whose derivative is known."""
    rules: dict[Tensor, Any] = {}
    for op in ops:
        call = op.function.call if isinstance(op, ExternOp) else None
        if isinstance(op, ExternOp) and isinstance(call, NumpyCall) and _is_known(op, call):
            rules[op.outputs[0]] = partial(_back, op, call)
    return rules


def _is_known(op: ExternOp, call: NumpyCall) -> bool:
    """Return whether the derivative of a call is known for the arrays that it has."""
    real = all(dtypes.is_float(t.dtype) for t in (*op.inputs, *op.outputs))
    return call.name in DERIVATIVES and real


def _arguments(op: ExternOp, call: NumpyCall) -> dict[str, Any]:
    return {**dict(call.options), **dict(zip(call.arrays, op.inputs))}


def _back(op: ExternOp, call: NumpyCall, *heads: Tensor) -> dict[Tensor, Tensor]:
    """Return what flows back from the results of a call to the tensors that it reads."""
    by_name = DERIVATIVES[call.name](_arguments(op, call), op.outputs, heads)
    by: dict[Tensor, Any] = {}
    for name, source in zip(call.arrays, op.inputs):
        own = by_name[name].astype(source.dtype)
        by[source] = by[source] + own if source in by else own
    return by


def _inv(given: Mapping[str, Any], results: Sequence[Any], heads: Sequence[Any]) -> dict[str, Any]:
    back = np.matrix_transpose(results[0])
    return {"a": -(back @ heads[0] @ back)}


def _solve(
    given: Mapping[str, Any], results: Sequence[Any], heads: Sequence[Any]
) -> dict[str, Any]:
    a, b = given["a"], given["b"]
    x, head = results[0], heads[0]
    if np.ndim(b) == 1:
        # a column for each matrix
        x, head = np.expand_dims(x, -1), np.expand_dims(head, -1)
    by = np.linalg.solve(np.matrix_transpose(a), head)
    outer = by @ np.matrix_transpose(x)
    return {"a": -_of_shape(outer, a), "b": _of_shape(by[..., 0] if np.ndim(b) == 1 else by, b)}


def _of_shape(gradient: Any, array: Any) -> Any:
    """Return the gradient by an array that was broadcast: sums over its copies."""
    shape = np.shape(array)
    added = np.ndim(gradient) - len(shape)
    if added:
        gradient = gradient.sum(axis=tuple(range(added)))
    pairs = zip(shape, np.shape(gradient))
    copied = tuple(k for k, (own, full) in enumerate(pairs) if is_one(own) and not is_one(full))
    return gradient.sum(axis=copied, keepdims=True) if copied else gradient


def _cholesky(
    given: Mapping[str, Any], results: Sequence[Any], heads: Sequence[Any]
) -> dict[str, Any]:
    """Return the gradient by the triangle that NumPy reads; the other one has none."""
    upper = bool(given.get("upper", False))
    factor, head = ((np.matrix_transpose(t) if upper else t) for t in (results[0], heads[0]))
    back = np.matrix_transpose(factor)
    half = np.linalg.solve(back, _lower_half(back @ head))
    whole = np.linalg.solve(back, np.matrix_transpose(half))
    by = _lower_half(whole + np.matrix_transpose(whole))
    return {"a": np.matrix_transpose(by) if upper else by}


def _lower_half(a: Any) -> Any:
    """Return the lower triangle, with half of the diagonal."""
    return (np.tril(a) + np.tril(a, -1)) / 2


def _det(given: Mapping[str, Any], results: Sequence[Any], heads: Sequence[Any]) -> dict[str, Any]:
    back = np.matrix_transpose(np.linalg.inv(given["a"]))
    return {"a": _each(heads[0] * results[0]) * back}


def _slogdet(
    given: Mapping[str, Any], results: Sequence[Any], heads: Sequence[Any]
) -> dict[str, Any]:
    return {"a": _each(heads[1]) * np.matrix_transpose(np.linalg.inv(given["a"]))}


def _each(numbers: Any) -> Any:
    """Return a number for each matrix, to multiply with it."""
    return np.expand_dims(numbers, (-2, -1))


DERIVATIVES: dict[str, Derivative] = {
    "linalg.cholesky": _cholesky,
    "linalg.det": _det,
    "linalg.inv": _inv,
    "linalg.slogdet": _slogdet,
    "linalg.solve": _solve,
}
