"""TVM's ``topi.sparse.utils``, as far as programs without graphs of models use it."""

from __future__ import annotations

from typing import Any

import numpy as np

from schedlang.errors import ComputeError, MissingExtraError, explain, missing_name
from schedlang.signatures import public

_GRAPHS = ("graphs of models are not part of schedlang", "Replace weights by random_bsr_matrix.")
REFUSED = {
    **dict.fromkeys(("random_sparse_dense_params", "random_sparse_conv2d_params"), _GRAPHS),
    "sparse_sketch_rules": (
        "searches have no rules of sketches",
        "sl.autotune(C, template=...) searches over the steps that you write.",
    ),
}


@public
def random_bsr_matrix(
    m: int, n: int, bs_r: int, bs_c: int, density: float, dtype: Any = "float32"
) -> Any:
    """Return a random matrix of ``m`` by ``n`` in blocks, as ``scipy.sparse.bsr_matrix``.

    Its blocks of ``bs_r`` by ``bs_c`` normal numbers hold the share ``density`` of the elements,
    and one block more, as TVM's. NumPy's ``np.random.seed`` decides which. Raise
    :class:`~schedlang.errors.ComputeError` if the blocks do not divide the matrix, or do not fit.

    >>> matrix = random_bsr_matrix(64, 32, 16, 1, density=0.25)
    >>> matrix.shape, matrix.data.shape, matrix.indptr.shape
    ((64, 32), (33, 16, 1), (5,))
    """
    try:
        from scipy.sparse import bsr_matrix
    except ImportError:
        raise MissingExtraError(
            "topi.sparse.utils.random_bsr_matrix returns a matrix of SciPy: pip install scipy"
        ) from None
    asked = f"topi.sparse.utils.random_bsr_matrix({m}, {n}, {bs_r}, {bs_c}, {density})"
    if m % bs_r or n % bs_c:
        why = f"blocks of {bs_r} by {bs_c} do not divide the matrix"
        raise ComputeError(explain(asked, why, "Use divisors of its extents."))
    rows, columns = m // bs_r, n // bs_c
    count = int(int(density * m * n) / (bs_r * bs_c)) + 1
    if not 0 < count <= rows * columns:
        why = f"{count} blocks are more than the {rows * columns} that fit"
        raise ComputeError(explain(asked, why, "Use a smaller density."))
    chosen = np.sort(np.random.choice(rows * columns, size=count, replace=False))
    first = np.searchsorted(chosen, np.arange(rows + 1) * columns).astype("int32")
    data = np.random.randn(count, bs_r, bs_c).astype(dtype)
    return bsr_matrix((data, (chosen % columns).astype("int32"), first), shape=(m, n))


def __getattr__(name: str) -> Any:
    raise missing_name(__name__, name, REFUSED, "topi.sparse.utils")


__all__ = ["random_bsr_matrix"]
