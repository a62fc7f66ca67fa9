"""Models of single ONNX operators: how they are built, and compared with ONNX's own evaluator."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

import schedlang as sl

# the element types of onnx.TensorProto, by dtype
KINDS = {"float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7,
         "bool": 9, "float16": 10, "float64": 11, "uint32": 12, "uint64": 13}  # fmt: skip
CLASSIC = {"ArrayFeatureExtractor", "Scaler", "Normalizer", "LinearRegressor", "LinearClassifier",
           "Imputer", "Binarizer", "LabelEncoder", "OneHotEncoder", "SVMClassifier",
           "SVMRegressor", "TreeEnsembleClassifier", "TreeEnsembleRegressor"}  # fmt: skip


@dataclass(frozen=True)
class Known:
    """An input of an operator that is an initializer of the model."""

    array: Any


@dataclass(frozen=True)
class Case:
    """A call of ``operator``: an array for each input, ``None`` where one is left out."""

    operator: str
    inputs: tuple[Any, ...]
    attributes: dict[str, Any] = field(default_factory=dict)
    opset: int = 21
    outputs: int = 1
    tolerance: float = 1e-5
    note: str = ""

    def __str__(self) -> str:
        return "-".join(filter(None, [self.operator, str(self.opset), self.note]))


def f32(*shape: int, seed: int = 0) -> np.ndarray:
    """Return random numbers of float32."""
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype("float32")


def i64(*items: Any) -> Known:
    """Return a known vector of int64."""
    return Known(np.array(items, "int64"))


def model_of(case: Case) -> tuple[Any, list[np.ndarray]]:
    """Return the model of a case, and the arrays that it takes."""
    from onnx import helper, numpy_helper

    names = [f"x{k}" if x is not None else "" for k, x in enumerate(case.inputs)]
    domain = "ai.onnx.ml" if case.operator in CLASSIC else ""
    outputs = [f"y{k}" for k in range(case.outputs)]
    node = helper.make_node(case.operator, names, outputs, "it", domain=domain, **case.attributes)
    given = {n: x for n, x in zip(names, case.inputs) if isinstance(x, np.ndarray)}
    graph = helper.make_graph(
        [node], "case",
        [helper.make_tensor_value_info(n, KINDS[x.dtype.name], x.shape) for n, x in given.items()],
        [helper.make_tensor_value_info(n, 0, None) for n in outputs],
        [numpy_helper.from_array(np.asarray(x.array), n) for n, x in zip(names, case.inputs)
         if isinstance(x, Known)],
    )  # fmt: skip
    for output in graph.output:
        output.type.tensor_type.elem_type = 0
    opsets = [helper.make_opsetid("", case.opset), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=opsets), list(given.values())


def expected_of(model: Any, arrays: list[np.ndarray]) -> list[Any]:
    """Return what ONNX's evaluator in NumPy computes."""
    from onnx.reference import ReferenceEvaluator

    names = [value.name for value in model.graph.input]
    with np.errstate(all="ignore"):
        found: list[Any] = ReferenceEvaluator(model).run(None, dict(zip(names, arrays)))
    return found


def results(model: Any, *arrays: np.ndarray, **kwargs: Any) -> list[Any]:
    """Return the outputs of an imported model as a list, by the NumPy oracle."""
    with np.errstate(all="ignore"):
        found = sl.frontend.from_onnx(model, **kwargs).reference(*arrays)
    return list(found) if isinstance(found, tuple) else [found]


def check(case: Case) -> None:
    """Compare an operator with ONNX's evaluator: dtypes, shapes and values."""
    model, arrays = model_of(case)
    for found, wanted in zip(results(model, *arrays), expected_of(model, arrays), strict=True):
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_allclose(found, wanted, rtol=case.tolerance, atol=case.tolerance)
