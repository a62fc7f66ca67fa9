"""Ensembles of decision trees: all trees go down one level in each step of a scan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any

import numpy as np

from schedlang import topi
from schedlang.arrays.shapes import extent
from schedlang.compute.reduce import reduce_axis
from schedlang.compute.reduce import sum as total
from schedlang.compute.scan import scan
from schedlang.compute.tensor import Tensor, placeholder
from schedlang.expr.nodes import Axis, Expr
from schedlang.frontend.onnx.call import Call
from schedlang.frontend.onnx.operators.scores import label_at, transformed, two_classes
from schedlang.frontend.onnx.operators.table import Table, since
from schedlang.frontend.onnx.values import Known
from schedlang.language.construct import as_expr, binary, cast, select
from schedlang.tvm.topi.stages import compute

# how a node compares a feature with its value
_COMPARED: dict[str, Callable[[Expr, Expr], Any]] = {
    "BRANCH_LEQ": lambda x, v: x <= v, "BRANCH_LT": lambda x, v: x < v,
    "BRANCH_GTE": lambda x, v: x >= v, "BRANCH_GT": lambda x, v: x > v,
    "BRANCH_EQ": lambda x, v: x.equal(v), "BRANCH_NEQ": lambda x, v: binary("!=", x, v),
}  # fmt: skip


@dataclass(frozen=True)
class Trees:
    """The nodes of all trees in one table; a leaf is its own successor."""

    roots: np.ndarray
    feature: np.ndarray
    value: np.ndarray
    below: np.ndarray  # of each node, where it goes if the comparison is false, and if it is true
    missing: np.ndarray
    compare: str
    depth: int
    place: dict[tuple[int, int], int]


def regressor(
    call: Call, x: Tensor, *, aggregate_function: str = "SUM",
    base_values: list[float] | None = None, base_values_as_tensor: np.ndarray | None = None,
    n_targets: int = 1, nodes_falsenodeids: list[int] | None = None,
    nodes_featureids: list[int] | None = None, nodes_hitrates: list[float] | None = None,
    nodes_hitrates_as_tensor: np.ndarray | None = None,
    nodes_missing_value_tracks_true: list[int] | None = None,
    nodes_modes: list[str] | None = None, nodes_nodeids: list[int] | None = None,
    nodes_treeids: list[int] | None = None, nodes_truenodeids: list[int] | None = None,
    nodes_values: list[float] | None = None, nodes_values_as_tensor: np.ndarray | None = None,
    post_transform: str = "NONE", target_ids: list[int] | None = None,
    target_nodeids: list[int] | None = None, target_treeids: list[int] | None = None,
    target_weights: list[float] | None = None, target_weights_as_tensor: np.ndarray | None = None,
) -> Tensor:  # fmt: skip
    trees = _trees(
        call, x, nodes_treeids, nodes_nodeids, nodes_featureids, nodes_modes,
        _either(nodes_values, nodes_values_as_tensor), nodes_truenodeids, nodes_falsenodeids,
        nodes_missing_value_tracks_true,
    )  # fmt: skip
    weights = _weights(
        call, trees, n_targets, target_treeids, target_nodeids, target_ids,
        _either(target_weights, target_weights_as_tensor),
    )  # fmt: skip
    if aggregate_function not in ("SUM", "AVERAGE"):
        raise call.refused(
            f"its aggregate_function is {aggregate_function!r:.40}, and only SUM and AVERAGE have "
            "a form here"
        )
    count = len(trees.roots) if aggregate_function == "AVERAGE" else 1
    base = _either(base_values, base_values_as_tensor)
    scores = _scores(call, x, trees, weights / count, base)
    return transformed(call, scores, post_transform)


def classifier(
    call: Call, x: Tensor, *, base_values: list[float] | None = None,
    base_values_as_tensor: np.ndarray | None = None, class_ids: list[int] | None = None,
    class_nodeids: list[int] | None = None, class_treeids: list[int] | None = None,
    class_weights: list[float] | None = None, class_weights_as_tensor: np.ndarray | None = None,
    classlabels_int64s: list[int] | None = None, classlabels_strings: list[str] | None = None,
    nodes_falsenodeids: list[int] | None = None, nodes_featureids: list[int] | None = None,
    nodes_hitrates: list[float] | None = None, nodes_hitrates_as_tensor: np.ndarray | None = None,
    nodes_missing_value_tracks_true: list[int] | None = None,
    nodes_modes: list[str] | None = None, nodes_nodeids: list[int] | None = None,
    nodes_treeids: list[int] | None = None, nodes_truenodeids: list[int] | None = None,
    nodes_values: list[float] | None = None, nodes_values_as_tensor: np.ndarray | None = None,
    post_transform: str = "NONE",
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The label of the largest score, and the scores; two classes may have one score."""
    labels = classlabels_int64s or []
    trees = _trees(
        call, x, nodes_treeids, nodes_nodeids, nodes_featureids, nodes_modes,
        _either(nodes_values, nodes_values_as_tensor), nodes_truenodeids, nodes_falsenodeids,
        nodes_missing_value_tracks_true,
    )  # fmt: skip
    weights = _weights(
        call, trees, len(labels or classlabels_strings or []), class_treeids, class_nodeids,
        class_ids, _either(class_weights, class_weights_as_tensor),
    )  # fmt: skip
    base = _either(base_values, base_values_as_tensor)
    own = {*(class_ids or [])}
    single = len(own) == 1 and len(labels) == 2
    if single:
        weights = weights[:, [*own]]
        # of two base values, the score of the second class counts, as in ONNX Runtime
        base = base if base is None else base[-1:]
    scores = _scores(call, x, trees, weights, base)
    if single:
        scores = two_classes(scores, post_transform in ("NONE", "PROBIT"))
    scores = transformed(call, scores, post_transform)
    return label_at(call, scores, classlabels_int64s), scores


def _either(numbers: list[float] | None, tensor: np.ndarray | None) -> np.ndarray | None:
    return np.array(numbers, "float32") if numbers else tensor


def _trees(
    call: Call, x: Tensor, trees: list[int] | None, nodes: list[int] | None,
    features: list[int] | None, modes: list[str] | None, values: np.ndarray | None,
    yes: list[int] | None, no: list[int] | None, missing: list[int] | None,
) -> Trees:  # fmt: skip
    """Return the table of nodes; raise for nodes that are missing, repeated or in a cycle."""
    if not (trees and nodes and features and modes and yes and no) or values is None:
        raise call.refused("its attributes of nodes are missing")
    count = len(nodes)
    if {len(c) for c in (trees, features, modes, values, yes, no, missing or nodes)} != {count}:
        raise call.refused("its attributes of nodes have several lengths")
    if x.ndim != 2 or not isinstance(x.shape[1], int):
        raise call.refused(f"its input has {x.ndim} dimensions, not rows of features")
    place = {key: k for k, key in enumerate(zip(trees, nodes))}
    kinds = {mode for mode in modes if mode != "LEAF"}
    if len(place) < count or len(kinds) > 1 or not kinds <= {*_COMPARED}:
        raise call.refused(
            "two of its nodes are one, or its nodes compare in several ways",
            f"Each node is a LEAF, or compares by one of {', '.join(_COMPARED)}.",
        )
    below = np.empty((count, 2), "int32")
    for k, (tree, mode) in enumerate(zip(trees, modes)):
        for side, successors in enumerate((no, yes)):
            successor = k if mode == "LEAF" else place.get((tree, successors[k]))
            if successor is None:
                raise call.refused(f"node {nodes[k]} of its tree {tree} has no successor")
            below[k, side] = successor
        if mode != "LEAF" and not 0 <= features[k] < x.shape[1]:
            raise call.refused(f"its node {nodes[k]} reads feature {features[k]} of {x.shape[1]}")
    first = dict(zip(reversed(trees), reversed(range(count))))
    roots = np.array([first[tree] for tree in sorted(first)], "int32")
    leaf = np.array([mode == "LEAF" for mode in modes])
    return Trees(
        roots, np.where(leaf, 0, features).astype("int32"), np.asarray(values), below,
        np.array(missing or [0] * count) != 0, next(iter(kinds), "BRANCH_LEQ"),
        _depth(call, roots, below, leaf), place,
    )  # fmt: skip


def _depth(call: Call, roots: np.ndarray, below: np.ndarray, leaf: np.ndarray) -> int:
    """Return the most steps from a root to a leaf."""
    sides = below.tolist()
    order = TopologicalSorter({k: sides[k] for k in np.flatnonzero(~leaf).tolist()})
    steps = dict.fromkeys(np.flatnonzero(leaf).tolist(), 0)
    try:
        for k in order.static_order():
            steps.setdefault(k, 1 + max(steps.get(n, 0) for n in sides[k]))
    except CycleError:
        raise call.refused("its nodes have a cycle, so that no leaf ends it") from None
    return max(steps[k] for k in roots.tolist())


def _weights(
    call: Call, trees: Trees, targets: int, tree_ids: list[int] | None,
    node_ids: list[int] | None, ids: list[int] | None, numbers: np.ndarray | None,
) -> np.ndarray:  # fmt: skip
    """Return what each node adds to each target."""
    if not (tree_ids and node_ids and ids) or numbers is None:
        raise call.refused("its attributes of weights are missing")
    if {len(tree_ids), len(node_ids), len(ids)} != {len(numbers)}:
        raise call.refused("its attributes of weights have several lengths")
    weights = np.zeros((len(trees.feature), max(targets, 0)), numbers.dtype)
    for tree, node, target, number in zip(tree_ids, node_ids, ids, numbers):
        row = trees.place.get((tree, node))
        if row is None or not 0 <= target < targets:
            raise call.refused(f"its weight of node {node} of tree {tree} has no node or target")
        weights[row, target] += number
    return weights


def _scores(
    call: Call, x: Tensor, trees: Trees, weights: np.ndarray, base: np.ndarray | None
) -> Tensor:
    """Return the sums of what the leaves of each row add to each target."""

    def table(what: str, array: np.ndarray) -> Tensor:
        return call.tensor(Known(f"{call.node.name}.{what}", array, array.dtype.name))

    # float64 values are compared as float64, as the operator says
    data = x if x.dtype in ("float32", "float64") else topi.cast(x, "float32")
    feature, below = table("feature", trees.feature), table("below", trees.below)
    value, roots = table("value", trees.value.astype(data.dtype)), table("root", trees.roots)
    # NaN differs from each value, but goes where a node says
    asks = trees.missing.any() or trees.compare == "BRANCH_NEQ"
    missing = table("missing", trees.missing) if asks else None
    rows, count = x.shape[0], len(trees.roots)
    node = placeholder((trees.depth + 1, rows, count), "int32", name="node")

    def step(t: Axis, b: Axis, n: Axis) -> Expr:
        before = node[t - 1, b, n]
        read = data[b, feature[before]]
        goes = _COMPARED[trees.compare](read, value[before])
        if missing is not None:
            goes = select(binary("!=", read, read), missing[before], goes)
        return below[before, cast(goes, "int32")]

    first = compute("first", (1, rows, count), lambda t, b, n: roots[n], ["t", "b", "n"])
    levels = compute("next", (trees.depth + 1, rows, count), step, ["t", "b", "n"])
    leaves = scan(first, levels, node, name="leaf") if trees.depth else first
    added, n = table("weight", weights), reduce_axis(count, "n")
    sums: Tensor = compute(
        "votes",
        (rows, extent(as_expr(weights.shape[1]))),
        lambda b, c: total(added[leaves[trees.depth, b, n], c], axis=n),
        ["b", "c"],
    )
    if base is None:
        return sums
    if len(base) not in (1, weights.shape[1]):
        raise call.refused(f"it has {len(base)} base values for {weights.shape[1]} targets")
    known = Known(f"{call.node.name}.base", base.astype(sums.dtype), sums.dtype)
    return topi.add(sums, call.operands(sums, known)[1])


OPERATORS: Table = {
    "TreeEnsembleClassifier": since(classifier, 1, 3, 5),
    "TreeEnsembleRegressor": since(regressor, 1, 3, 5),
}
