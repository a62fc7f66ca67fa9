"""Ensembles of decision trees of ONNX beside ONNX's evaluator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import FrontendError
from tests.onnx_cases import Case, check, expected_of, f32, model_of, results

pytest.importorskip("onnx", reason="imports ONNX models: the extra onnx")

FEATURES = 4
X = np.round(f32(9, FEATURES), 1)


def nodes(depths: Any, mode: str = "BRANCH_LEQ", missing: bool = False) -> dict[str, Any]:
    """Return the attributes of random trees, each of which ends at its depth at the latest."""
    rng = np.random.default_rng(len(depths))
    columns: dict[str, list[Any]] = {
        f"nodes_{name}": []
        for name in ("treeids", "nodeids", "featureids", "modes", "values", "truenodeids",
                     "falsenodeids", "missing_value_tracks_true")
    }  # fmt: skip

    def add(tree: int, depth: int, number: int) -> int:
        """Add a node and those below it; return the number of the next one."""
        leaf = depth == 0 or (number and rng.random() < 0.3)
        row = len(columns["nodes_modes"])
        for column in columns.values():
            column.append(0)
        after = number + 1
        values = {"treeids": tree, "nodeids": number, "modes": "LEAF" if leaf else mode,
                  "featureids": int(rng.integers(FEATURES)), "values": round(rng.normal(), 1),
                  "missing_value_tracks_true": int(missing and rng.integers(2))}  # fmt: skip
        if not leaf:
            values["truenodeids"], after = after, add(tree, depth - 1, after)
            values["falsenodeids"], after = after, add(tree, depth - 1, after)
        for name, value in values.items():
            columns[f"nodes_{name}"][row] = value
        return after

    for tree, depth in enumerate(depths):
        add(tree, depth, 0)
    if not missing:
        del columns["nodes_missing_value_tracks_true"]
    return columns


def weights(what: str, columns: dict[str, Any], targets: int) -> dict[str, Any]:
    """Return the attributes of what the leaves add to each target."""
    rows = [k for k, mode in enumerate(columns["nodes_modes"]) if mode == "LEAF"] * targets
    numbers = np.random.default_rng(5).normal(size=len(rows)).astype("float32")
    return {
        **({"n_targets": targets} if what == "target" else {}),
        f"{what}_treeids": [columns["nodes_treeids"][k] for k in rows],
        f"{what}_nodeids": [columns["nodes_nodeids"][k] for k in rows],
        f"{what}_ids": [n * targets // len(rows) for n in range(len(rows))],
        f"{what}_weights": numbers.tolist(),
    }


@pytest.mark.parametrize("mode", ["LEQ", "LT", "GTE", "GT", "EQ", "NEQ"])
@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE"])
def test_a_regressor(mode: str, aggregate: str) -> None:
    columns = nodes([3, 0, 5], f"BRANCH_{mode}")
    check(Case("TreeEnsembleRegressor", (X,),
        {**columns, **weights("target", columns, 2),
         "aggregate_function": aggregate, "base_values": [0.5, -1.0]}))  # fmt: skip


def test_trees_that_are_leaves() -> None:
    columns = nodes([0, 0])
    check(Case("TreeEnsembleRegressor", (X,), {**columns, **weights("target", columns, 1)}))


@pytest.mark.parametrize("post", ["NONE", "SOFTMAX", "LOGISTIC"])
@pytest.mark.parametrize("classes", [2, 3])
def test_a_classifier(classes: int, post: str) -> None:
    """Two classes have one score, which is of the second one."""
    columns = nodes([4, 2])
    added = weights("class", columns, 1 if classes == 2 else 3)
    check(Case("TreeEnsembleClassifier", (X,),
        {**columns, **added, "classlabels_int64s": [7, 3, 5][:classes], "post_transform": post},
        outputs=2))  # fmt: skip


def test_missing_features_go_where_the_node_says() -> None:
    columns = nodes([4, 4], missing=True)
    x = X.copy()
    x[::2, 1::2] = np.nan
    check(Case("TreeEnsembleRegressor", (x,), {**columns, **weights("target", columns, 1)}))


@pytest.mark.parametrize("mode", ["LEQ", "NEQ"])
def test_missing_features_go_to_the_false_side_by_default(mode: str) -> None:
    columns = nodes([4, 4], f"BRANCH_{mode}")
    added = weights("target", columns, 1)
    x = X.copy()
    x[::2, 1::2] = np.nan
    stated = {**columns, "nodes_missing_value_tracks_true": [0] * len(columns["nodes_modes"])}
    wanted = expected_of(*model_of(Case("TreeEnsembleRegressor", (x,), {**stated, **added})))
    for attributes in (stated, columns):
        model, _ = model_of(Case("TreeEnsembleRegressor", (x,), {**attributes, **added}))
        np.testing.assert_allclose(results(model, x)[0], wanted[0], rtol=1e-5)


def test_a_forest_is_a_network() -> None:
    columns = nodes([6] * 5)
    case = Case("TreeEnsembleRegressor", (X,), {**columns, **weights("target", columns, 2)})
    model, arrays = model_of(case)
    net = sl.network(sl.frontend.from_onnx(model), database=None)
    np.testing.assert_allclose(net(*arrays), results(model, *arrays)[0], rtol=1e-5, atol=1e-6)


def test_many_cycles_are_refused_at_once() -> None:
    """Each of many trees is one node, which is below itself."""
    count = 20_000
    zeros = [0] * count
    columns = {
        "nodes_treeids": list(range(count)), "nodes_modes": ["BRANCH_LEQ"] * count,
        "nodes_values": [0.0] * count,
        **{f"nodes_{n}ids": zeros for n in ("node", "feature", "truenode", "falsenode")},
    }  # fmt: skip
    added = {"target_treeids": [0], "target_nodeids": [0], "target_ids": [0],
             "target_weights": [1.0]}  # fmt: skip
    model, _ = model_of(Case("TreeEnsembleRegressor", (X,), {**columns, **added}))
    with pytest.raises(FrontendError, match="its nodes have a cycle"):
        sl.frontend.from_onnx(model)


def changed(name: str, place: int, value: Any) -> dict[str, Any]:
    columns = nodes([3])
    columns[name][place] = value
    return columns


@pytest.mark.parametrize(("columns", "words"), [
    (changed("nodes_truenodeids", 0, 99), "node 0 of its tree 0 has no successor"),
    (changed("nodes_truenodeids", 0, 0), "its nodes have a cycle"),
    (changed("nodes_featureids", 0, FEATURES), f"reads feature {FEATURES} of {FEATURES}"),
    (changed("nodes_nodeids", 1, 0), "two of its nodes are one"),
    (changed("nodes_modes", 0, "BRANCH_MEMBER"), "its nodes compare in several ways"),
    ({**nodes([3]), "nodes_values": [1.0]}, "its attributes of nodes have several lengths"),
])  # fmt: skip
def test_trees_that_are_refused(columns: dict[str, Any], words: str) -> None:
    added = {"target_treeids": [0], "target_nodeids": [1], "target_ids": [0],
             "target_weights": [1.0]}  # fmt: skip
    model, _ = model_of(Case("TreeEnsembleRegressor", (X,), {**columns, **added}))
    with pytest.raises(FrontendError, match=words):
        sl.frontend.from_onnx(model)
