"""NumPy's functions that have no form for tensors: why, and what to write instead."""

from __future__ import annotations

from typing import NoReturn

from schedlang.compute.tensor import UNSORTED
from schedlang.errors import ComputeTypeError, explain

_DATA_SHAPE = (
    (
        "nonzero",
        "flatnonzero",
        "argwhere",
        "unique",
        "unique_values",
        "unique_counts",
        "unique_inverse",
        "unique_all",
        "compress",
        "extract",
        "trim_zeros",
        "union1d",
        "intersect1d",
        "setdiff1d",
        "setxor1d",
        "delete",
        "mask_indices",
    ),
    "the shape of the result would depend on data",
    "Keep the shape and choose, np.where(cond, A, 0), or reduce with where=cond. A fixed part is a "
    "slice: A[1:].",
)
_SORTED = (
    (
        "sort",
        "argsort",
        "partition",
        "argpartition",
        "median",
        "nanmedian",
        "percentile",
        "quantile",
        "nanpercentile",
        "nanquantile",
        "lexsort",
        "searchsorted",
        "digitize",
        "sort_complex",
    ),
    *UNSORTED,
)
_SOLVED = (
    (
        "linalg.inv",
        "linalg.pinv",
        "linalg.solve",
        "linalg.lstsq",
        "linalg.det",
        "linalg.slogdet",
        "linalg.eig",
        "linalg.eigh",
        "linalg.eigvals",
        "linalg.eigvalsh",
        "linalg.svd",
        "linalg.svdvals",
        "linalg.qr",
        "linalg.cholesky",
        "linalg.matrix_rank",
        "linalg.cond",
        "linalg.tensorsolve",
        "linalg.tensorinv",
        "linalg.matrix_norm",
        "roots",
        "polyfit",
    ),
    "schedlang has no solvers",
    "Compute it with NumPy, and pass the result to the kernel; a triangular solve is a recurrence, "
    "sl.scan(init, update, state).",
)
_WRITTEN = (
    ("copyto", "put", "place", "putmask", "fill_diagonal", "put_along_axis", "resize", "insert"),
    "a tensor describes a computation and is not written to",
    "Make a new one: np.where(cond, value, A), or np.concatenate of slices.",
)
_COUNTED = (
    ("histogram", "histogram2d", "histogramdd", "bincount", "histogram_bin_edges"),
    "its results are stored at places that depend on data",
    "Count with a scatter, whose shape you give: sl.scatter((bins,), A.shape, lambda *k: "
    "(A[k], 1)).",
)
_MAPPED = (
    ("apply_along_axis", "apply_over_axes", "piecewise", "vectorize", "fromfunction"),
    "a Python function of elements is what sl.compute takes",
    "Write sl.compute(A.shape, lambda i, j: f(A[i, j])).",
)
_SHOWN = (
    (
        "array_repr",
        "array_str",
        "array2string",
        "save",
        "savez",
        "savetxt",
        "savez_compressed",
        "may_share_memory",
        "shares_memory",
        "array_equiv",
    ),
    "a tensor describes a computation and has no values yet",
    "Call a kernel, f = sl.build(sl.schedule(C)), and use the array that it returns.",
)
_TABLE: dict[str, tuple[str, str]] = {
    name: (why, hint)
    for names, why, hint in (
        _DATA_SHAPE,
        _SORTED,
        _SOLVED,
        _WRITTEN,
        _COUNTED,
        _MAPPED,
        _SHOWN,
    )
    for name in names
}
_TABLE |= {
    "gradient": (
        "it has no form here",
        "Write the differences of slices: (A[2:] - A[:-2]) / 2.",
    ),
    "trapezoid": (
        "it has no form here",
        "Write the sum: ((y[1:] + y[:-1]) / 2 * np.diff(x)).sum().",
    ),
    "interp": (
        "it searches for the place of each element",
        "With evenly spaced points the place is a product: i = np.floor((x - x0) / step), and "
        "np.take(fp, i.astype('int64')).",
    ),
    "isin": ("it has no form here", "Write (A[..., None] == B).any(axis=-1)."),
    "cov": (
        "it has no form here",
        "Write X = A - A.mean(axis=1, keepdims=True), and X @ X.T / (n - 1).",
    ),
    "corrcoef": (
        "it has no form here",
        "Write X = A - A.mean(axis=1, keepdims=True), and scale X @ X.T by the roots of its "
        "diagonal.",
    ),
    "nanmax": ("it has no form here", "Write np.max(np.where(np.isnan(A), -np.inf, A))."),
    "nanmin": ("it has no form here", "Write np.min(np.where(np.isnan(A), np.inf, A))."),
    "nanmean": ("it has no form here", "Write np.nansum(A) / np.count_nonzero(~np.isnan(A))."),
    "nanvar": ("it has no form here", "Write np.var(A, where=~np.isnan(A))."),
    "nanstd": ("it has no form here", "Write np.std(A, where=~np.isnan(A))."),
    "einsum_path": (
        "a path is chosen from shapes",
        "sl.einsum chooses one, or takes optimize=np.einsum_path(subscripts, *arrays)[0].",
    ),
    "linspace": (
        "it makes values and takes no tensor",
        "Write start + np.arange(n, like=A) * step.",
    ),
    "block": ("it has no form here", "Write np.concatenate of np.concatenate."),
    "cbrt": ("it has no form here", "Write np.sign(A) * np.abs(A) ** (1 / 3)."),
    "modf": ("it has no form here", "Write whole = np.trunc(A), and A - whole."),
    "ldexp": ("it has no form here", "Write A * np.exp2(B)."),
}


def refuse_function(
    name: str,
    what: str,
    instead: str | None = None,
    otherwise: str = "Write what it computes per element inside sl.compute.",
) -> NoReturn:
    """Raise for ``np.<name>`` of a tensor, with what to write ``instead``.

    Without it, that is what the table says, or ``otherwise`` if ``name`` is not in it.
    """
    if name in _TABLE:
        why, hint = _TABLE[name]
    elif name.startswith("fft."):
        why = "schedlang has no Fourier transforms"
        hint = (
            "Compute it with NumPy, and pass the result to the kernel. A short one is a product of "
            "A with matrices of cosines and sines."
        )
    else:
        why = f"it has no form here, since {what} describes a computation and has no values yet"
        hint = otherwise
    raise ComputeTypeError(explain(f"np.{name} of {what}", why, instead or hint))
