"""Estimators of scikit-learn as skl2onnx exports them: which run here as scikit-learn runs them.

    python -m tests.sklearn_exports [NAME ...]

prints a line for each estimator that skl2onnx exports, or for each of those named: ``right``, or
``refused`` with the reason. ``sklearn_exports.txt`` has the lines of all. An export is right if
``from_onnx`` imports it and its ``reference`` gives what the estimator gives in float32, for 40 new
rows, up to labels and rows that rounding turns.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import schedlang as sl
from schedlang.errors import SchedlangError

ROWS, COLUMNS = 120, 5
# the part of the numbers that may differ: a split at a threshold, or a label between two classes
TURNED = 0.03
TOLERANCE = 1e-3


@dataclass(frozen=True)
class Outcome:
    """The outcome of an estimator: ``right``, or the reason why not."""

    name: str
    reason: str = ""

    @property
    def right(self) -> bool:
        return not self.reason

    def __str__(self) -> str:
        return f"right   {self.name}" if self.right else f"refused {self.name} {self.reason}"


def options() -> dict[str, dict[str, Any]]:
    """Return arguments of estimators that need some, by the names of these."""
    from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
    from sklearn.preprocessing import StandardScaler
    from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

    logistic, ridge = LogisticRegression(), Ridge()
    pair = [("a", logistic), ("b", DecisionTreeClassifier(max_depth=3))]
    regressors = [("a", ridge), ("b", DecisionTreeRegressor(max_depth=3))]
    small = {"n_estimators": 5, "random_state": 0}
    return {
        "ClassifierChain": {"estimator": logistic},
        "ColumnTransformer": {"transformers": [("s", StandardScaler(), [0, 1])]},
        "FeatureUnion": {"transformer_list": [("s", StandardScaler())]},
        "FixedThresholdClassifier": {"estimator": logistic},
        "GridSearchCV": {"estimator": logistic, "param_grid": {"C": [0.1, 1.0]}, "cv": 2},
        "MultiOutputClassifier": {"estimator": logistic},
        "MultiOutputRegressor": {"estimator": ridge},
        "OneVsOneClassifier": {"estimator": logistic},
        "OneVsRestClassifier": {"estimator": logistic},
        "OutputCodeClassifier": {"estimator": logistic},
        "Pipeline": {"steps": [("s", StandardScaler()), ("m", logistic)]},
        "RANSACRegressor": {"estimator": LinearRegression(), "random_state": 0},
        "RFE": {"estimator": logistic, "n_features_to_select": 3},
        "RFECV": {"estimator": logistic, "cv": 2},
        "RegressorChain": {"estimator": ridge},
        "SelectFromModel": {"estimator": logistic},
        "SelectKBest": {"k": 3},
        "StackingClassifier": {"estimators": pair, "cv": 2},
        "StackingRegressor": {"estimators": regressors, "cv": 2},
        "TunedThresholdClassifierCV": {"estimator": logistic, "cv": 2},
        "VotingClassifier": {"estimators": pair, "voting": "soft"},
        "VotingRegressor": {"estimators": regressors},
        **{
            f"{kind}{what}": small
            for kind in ("AdaBoost", "Bagging", "ExtraTrees", "GradientBoosting", "RandomForest")
            for what in ("Classifier", "Regressor")
        },
        "HistGradientBoostingClassifier": {"max_iter": 5},
        "HistGradientBoostingRegressor": {"max_iter": 5},
        "IsolationForest": small,
        "RandomTreesEmbedding": small,
        "KMeans": {"n_clusters": 4, "random_state": 0},
        "MiniBatchKMeans": {"n_clusters": 4, "random_state": 0},
        "GaussianMixture": {"n_components": 2, "random_state": 0},
        "BayesianGaussianMixture": {"n_components": 2, "random_state": 0},
        "MLPClassifier": {"max_iter": 30, "random_state": 0},
        "MLPRegressor": {"max_iter": 30, "random_state": 0},
        "FunctionTransformer": {"validate": False},
    }


def outcomes(names: Collection[str] = ()) -> Iterator[Outcome]:
    """Return the outcomes of the estimators that skl2onnx exports; wrong results are among them."""
    from sklearn.utils import all_estimators

    given = options()
    for name, kind in all_estimators():
        if names and name not in names:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exported = _exported(kind, given.get(name, {}))
            if exported is None:
                continue
            model, estimator, x = exported
            try:
                reason = _difference(model, estimator, x)
            except SchedlangError as error:
                reason = " ".join(str(error).split())
        yield Outcome(name, reason)


def _exported(kind: type, arguments: dict[str, Any]) -> tuple[Any, Any, np.ndarray] | None:
    """Return an export, the estimator and data; ``None`` if skl2onnx does not export it."""
    from skl2onnx import to_onnx

    for x, y in _data():
        try:
            estimator = kind(**arguments).fit(x, y)
            zipped = {id(estimator): {"zipmap": False}}
            try:
                model = to_onnx(estimator, x[:1], options=zipped)
            except NameError:
                # an estimator without classes has no such option
                model = to_onnx(estimator, x[:1])
        except Exception:  # what an estimator does not take, or skl2onnx does not export
            continue
        return model, estimator, x
    return None


def _data() -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield data: with two classes or three, numbers, several outputs; integers; gaps."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((ROWS, COLUMNS)).astype("float32")
    score = x @ rng.standard_normal(COLUMNS) + 0.3 * x[:, 0] ** 2
    three = np.digitize(score, np.quantile(score, [0.33, 0.66]))
    yield x, three
    yield x, score.astype("float32")
    yield x, (score > 0).astype(np.int64)
    yield np.abs(x), np.exp(score / 4).astype("float32")
    yield x, np.stack([score, x[:, 0] - x[:, 1]], 1).astype("float32")
    yield x, np.stack([score > 0, x[:, 1] > 0], 1).astype(np.int64)
    yield np.abs(x * 3).astype(np.int64), three
    gaps = x.copy()
    gaps[rng.random(x.shape) < 0.1] = np.nan
    yield gaps, three


def _difference(model: Any, estimator: Any, x: np.ndarray) -> str:
    """Return how the import differs from the estimator, empty if it does not."""
    rows = x[-40:]
    imported = sl.frontend.from_onnx(model, {model.graph.input[0].name: rows.shape})
    results = imported.reference(rows)
    results = results if isinstance(results, tuple) else (results,)
    names = [output.name for output in model.graph.output]
    by_name = dict(zip(names, results, strict=True))
    compared = 0
    for name in names:
        expected = [
            wanted
            for method, outputs in _METHODS.items()
            if name in outputs and hasattr(estimator, method)
            if (wanted := _array(getattr(estimator, method)(rows))).dtype.kind in "iufb"
        ]
        compared += bool(expected)
        # a regressor that also transforms has one export
        if expected and not any(_near(by_name[name], wanted) for wanted in expected):
            return f"WRONG {name}: {np.shape(by_name[name])}, it differs"
    return "" if compared else f"UNCOMPARED, its outputs are {', '.join(names)}"


def _array(value: Any) -> np.ndarray:
    return np.asarray(value.toarray() if hasattr(value, "toarray") else value)


def _near(result: Any, expected: np.ndarray) -> bool:
    """Return whether nearly all numbers of an import are those of an estimator."""
    if np.size(result) != expected.size:
        return False
    own = np.asarray(result, "float64").reshape(expected.shape)
    room = TOLERANCE * (1e-6 + float(np.nanmax(np.abs(expected))))
    near = np.isclose(own, expected, TOLERANCE, room, equal_nan=True)
    return bool(near.mean() >= 1 - TURNED)


_METHODS = {
    "predict": ("label", "output_label", "variable", "GPmean"),
    "predict_proba": ("probabilities", "output_probability"),
    "transform": ("variable", "transformed_column", "scores", "union"),
    "decision_function": ("scores",),
}


if __name__ == "__main__":
    for outcome in outcomes(sys.argv[1:]):
        print(outcome, flush=True)
