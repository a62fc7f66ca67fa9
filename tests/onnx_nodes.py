"""The node tests of the package ``onnx``: what each one gives here.

    python -m tests.onnx_nodes [PATTERN]

prints how many are right, and the others by reason. Strings, sequences, optional values and types
of less than 16 bits besides int8 are left out.
"""

from __future__ import annotations

import sys
import warnings
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import schedlang as sl
from schedlang.errors import FrontendError

# inputs by which exporters say shapes and sizes, so that models have constants there
CONSTANT = {"Resize": "scales roi sizes", "Upsample": "scales", "OneHot": "depth", "Pad": "value",
            "Range": "start limit delta"}  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """What became of a node test: ``right``, or why not; ``constants`` says that it needs them."""

    name: str
    reason: str = ""
    right: bool = False
    constants: bool = False


def outcomes(pattern: str = "") -> Iterator[Outcome]:
    """Return the outcomes of the tests whose names have a pattern; wrong results are errors."""
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        cases = load_model_tests(kind="node")
    for case in cases:
        inputs, expected = case.data_sets[0]
        if pattern in case.name and all(map(_is_array, (*inputs, *expected))):
            yield _outcome(case, inputs, expected)


def _is_array(value: Any) -> bool:
    return isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in "biufc"


def _outcome(case: Any, inputs: Any, expected: Any) -> Outcome:
    reasons = []
    for model, arrays in ((case.model, inputs), _with_constants(case.model, inputs)):
        try:
            results = sl.frontend.from_onnx(model).reference(*arrays)
        except FrontendError as error:
            reasons.append(str(error).splitlines()[0])
            continue
        results = results if isinstance(results, tuple) else (results,)
        # an element that float16 rounds the other way is as right
        tolerance = 1e-3 if any(e.dtype == "float16" for e in expected) else max(case.atol, 1e-6)
        for result, wanted in zip(results, expected, strict=True):
            assert (result.dtype, result.shape) == (wanted.dtype, wanted.shape), case.name
            np.testing.assert_allclose(
                result, wanted, rtol=case.rtol, atol=tolerance, err_msg=case.name
            )
        return Outcome(case.name, right=True, constants=model is not case.model)
    return Outcome(case.name, reasons[-1])


def _with_constants(model: Any, inputs: Any) -> tuple[Any, list[Any]]:
    """Return a model with initializers in place of integers and of numbers that size a result."""
    from onnx import ModelProto, numpy_helper

    copy = ModelProto()
    copy.CopyFrom(model)
    constant = CONSTANT.get(copy.graph.node[0].op_type, "").split()
    kept, arrays = [], []
    for declared, array in zip(model.graph.input, inputs):
        if array.dtype.kind in "iub" or declared.name in constant:
            copy.graph.initializer.append(numpy_helper.from_array(np.array(array), declared.name))
        else:
            kept.append(declared)
            arrays.append(array)
    del copy.graph.input[:]
    copy.graph.input.extend(kept)
    return copy, arrays


def main(pattern: str = "") -> None:
    right, others = [], defaultdict(list)
    for outcome in outcomes(pattern):
        if outcome.right:
            right.append(outcome)
        else:
            others[outcome.reason.partition(": ")[2] or outcome.reason].append(outcome.name)
    constants = sum(outcome.constants for outcome in right)
    print(f"{len(right)} right, {constants} of them with constants; ", end="")
    print(f"{sum(map(len, others.values()))} refused")
    for reason, names in sorted(others.items(), key=lambda item: -len(item[1])):
        print(f"{len(names):4} {reason[:120]}\n     {' '.join(names)}")


if __name__ == "__main__":
    main(*sys.argv[1:])
