"""Sorts, searches in sorted arrays, and what they answer: medians and quantiles."""

from __future__ import annotations

import numpy as np

from schedlang.arrays.host.row import Row
from schedlang.arrays.host.shapes import along, like, quantiles, reduced

_FIRST = {"kth": 0}
_QUANTILE = "a q axis out overwrite_input method keepdims weights"
_MEDIAN = "a axis out overwrite_input keepdims"

ROWS = {
    "sort": Row("a axis kind order stable", "a", along),
    "argsort": Row("a axis kind order stable", "a", along),
    "sort_complex": Row("a", "a", like("a")),
    "partition": Row("a kth axis kind order", "a", along, _FIRST),
    "argpartition": Row("a kth axis kind order", "a", along, _FIRST),
    "lexsort": Row("keys axis", "keys", lambda keys, **_: keys[1:]),
    "searchsorted": Row(
        "a v side sorter", "a v sorter", like("v"), {"sorter": np.zeros(1, "int64")}
    ),
    "digitize": Row("x bins right", "x bins", like("x")),
    "isin": Row(
        "element test_elements assume_unique invert kind", "element test_elements", like("element")
    ),
    "median": Row(_MEDIAN, "a", reduced),
    "nanmedian": Row(_MEDIAN, "a", reduced),
    "quantile": Row(_QUANTILE, "a weights", quantiles),
    "percentile": Row(_QUANTILE, "a weights", quantiles),
    "nanquantile": Row(_QUANTILE, "a weights", quantiles),
    "nanpercentile": Row(_QUANTILE, "a weights", quantiles),
    "nanargmin": Row("a axis out keepdims", "a", reduced),
    "nanargmax": Row("a axis out keepdims", "a", reduced),
    "interp": Row("x xp fp left right period", "x xp fp", like("x")),
    "unwrap": Row("p discont axis period", "p", like("p")),
}
