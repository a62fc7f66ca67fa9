"""The outputs of classifiers: probabilities, and the label of the largest score."""

from __future__ import annotations

import numpy as np

from schedlang import topi
from schedlang.arrays.elementwise import array
from schedlang.compute.tensor import Tensor
from schedlang.frontend.onnx.call import Call
from schedlang.frontend.onnx.values import Known


def transformed(call: Call, scores: Tensor, post: str) -> Tensor:
    """Return the scores after ``post_transform``."""
    if post == "NONE":
        return scores
    if post == "SOFTMAX":
        return topi.nn.softmax(scores)
    if post == "LOGISTIC":
        return topi.sigmoid(scores)
    raise call.refused(f"its attribute 'post_transform' is {post!r:.40}, which has no form here")


def two_classes(score: Tensor, chances: bool) -> Tensor:
    """Return the scores of two classes from the score of the second one, ``[rows, 1]``.

    The first class has its negative, or one minus it if the scores are ``chances``.
    """
    other = array("other", lambda s: 1 - s if chances else -s, score)
    return topi.concatenate([other, score], 1)


def label_at(call: Call, scores: Tensor, labels: list[int] | None) -> Tensor:
    """Return the label of the largest score of each row."""
    if labels is None:
        raise call.refused(
            "its labels are strings, which have no dtype here",
            "Train the model with integers for labels.",
        )
    if len(labels) != scores.shape[1]:
        raise call.refused(f"it has {len(labels)} labels for {scores.shape[1]} scores")
    known = Known(f"{call.node.name}.labels", np.array(labels, "int64"), "int64")
    return topi.take(call.tensor(known), topi.argmax(scores, 1), 0, mode="fast")
