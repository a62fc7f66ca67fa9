"""The results of an answer beside the expected ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from schedlang.arrays.host.row import NumpyCall
from schedlang.autotune.runner.task import tolerance_for
from schedlang.compute.extern_op import ExternOp
from schedlang.compute.graph import operations
from schedlang.compute.reference import reference
from schedlang.compute.tensor import Tensor
from schedlang.course.exercises.answer import Answer, arrays_for
from schedlang.course.exercises.differences import Shortfall, difference
from schedlang.course.exercises.inputs import in_order, input_names, parameter_names
from schedlang.errors import amount

# the most that rounding may explain: a narrow sum of many elements is wrong, not rounded
MOST_ROUNDING = 0.02


def compare(
    answer: Answer, expected: Any, arrays: Sequence[Any], rtol: float | None
) -> tuple[list[Any], tuple[Any, ...], Shortfall | None]:
    """Run an answer; return its inputs in the order of ``answer.inputs``, its results, and how they
    differ from the expected ones, if they do.

    ``expected`` and ``rtol`` are as in :func:`~schedlang.testing.check`; without ``arrays``, inputs
    are random.
    """
    values = list(arrays) or arrays_for(answer.outputs)
    if arrays:
        values = in_order(values, _order(expected), answer.inputs)
    _check_functions(answer.outputs, values)
    results = answer.results(values)
    expected_results = _expected_results(expected, answer, values)
    if len(results) != len(expected_results):
        outputs = amount(len(results), "output")
        why = f"{answer.name} has {outputs}, not {len(expected_results)}"
        return values, results, Shortfall(why)
    rounding = min(2 * tolerance_for(answer.outputs), MOST_ROUNDING)
    tolerance = max(rounding if rtol is None else rtol, 1e-12)
    for tensor, ours, theirs in zip(answer.outputs, results, expected_results):
        shortfall = difference(tensor.name, ours, theirs, tolerance)
        if shortfall is not None:
            return values, results, shortfall
    return values, results, None


def _check_functions(outputs: Sequence[Tensor], arrays: Sequence[Any]) -> None:
    """Raise :class:`~schedlang.errors.VerifyError` if a function of the user's leaves its boxes.

    In compiled code, it could end the process.
    """
    called = [op for op in operations(outputs) if isinstance(op, ExternOp)]
    own = [op for op in called if not isinstance(op.function.call, NumpyCall)]
    inputs = dict.fromkeys(tensor for op in own for tensor in op.inputs)
    if own:
        # the outputs come first, as they say in which order the arrays are
        results = reference((*outputs, *inputs))(*arrays)
        values = dict(zip(inputs, results[len(outputs) :])) if inputs else {}
        for op in own:
            op.check(*(values[tensor] for tensor in op.input_tensors))


def _expected_results(expected: Any, answer: Answer, arrays: Sequence[Any]) -> tuple[Any, ...]:
    if expected is None:
        results = reference(answer.outputs)(*arrays)
    elif isinstance(expected, Tensor):
        results = reference(expected)(*in_order(arrays, answer.inputs, _order(expected)))
    elif callable(expected):
        results = _called(expected, in_order(arrays, answer.inputs, _order(expected)))
    else:
        results = expected
    return tuple(results) if isinstance(results, (tuple, list)) else (results,)


def _order(expected: Any) -> list[str]:
    """Return the names of inputs in the order of the expected result; none if it has no order."""
    if isinstance(expected, Tensor):
        return input_names((expected,))
    return parameter_names(expected) if callable(expected) else []


def _called(expected: Callable[..., Any], arrays: Sequence[Any]) -> Any:
    # what the function does to its arguments must not reach the answer's
    return expected(*(a.copy() if isinstance(a, np.ndarray) else a for a in arrays))
