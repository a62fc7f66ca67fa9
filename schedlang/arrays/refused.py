"""NumPy's functions that have no form for tensors: why, and what to write instead."""

from __future__ import annotations

from typing import NoReturn

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
_BY_ELEMENTS = (
    ("roots", "linalg.lstsq"),
    "the shape of a result would depend on data",
    "Compute it with NumPy, and pass the result to the kernel. A system with full rank has the "
    "solution np.linalg.pinv(A) @ b.",
)
_WRITTEN = (
    ("copyto", "put", "place", "putmask", "fill_diagonal", "put_along_axis", "resize", "insert"),
    "a tensor describes a computation and is not written to",
    "Make a new one: np.where(cond, value, A), or np.concatenate of slices.",
)
_COUNTED = (
    ("bincount", "histogram2d", "histogramdd"),
    "the number of bins would depend on data, or this form is not supported",
    "Give the number of bins, np.bincount(A, minlength=n), or count with a scatter: "
    "sl.scatter((n,), A.shape, lambda *k: (A[k], 1)).",
)
_MAPPED = (
    ("apply_along_axis", "apply_over_axes", "piecewise", "vectorize", "fromfunction"),
    "it calls a Python function with one element or one row after the other",
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
        _BY_ELEMENTS,
        _WRITTEN,
        _COUNTED,
        _MAPPED,
        _SHOWN,
    )
    for name in names
}
_TABLE |= {
    "einsum_path": (
        "a path is chosen from shapes",
        "sl.einsum chooses one, or takes optimize=np.einsum_path(subscripts, *arrays)[0].",
    ),
    "linspace": (
        "it makes values and takes no tensor",
        "Write start + np.arange(n, like=A) * step.",
    ),
    "block": ("it has no form here", "Write np.concatenate of np.concatenate."),
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
    else:
        why = f"it has no form here, since {what} describes a computation and has no values yet"
        hint = otherwise
    raise ComputeTypeError(explain(f"np.{name} of {what}", why, instead or hint))
