"""NumPy's functions in traced functions: those without a form, and what a trace must know."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from schedlang.arrays.functions import FORMS
from schedlang.arrays.refused import refuse_function
from schedlang.arrays.scans import FORMS as RUNNING
from schedlang.arrays.ufuncs import GENERALIZED, REDUCED
from schedlang.errors import ComputeTypeError, docs_page, explain
from schedlang.language.numpy_functions import name_of
from schedlang.language.ufuncs import has_form
from schedlang.tracing.items import is_traced
from schedlang.tracing.spans import of_lengths
from schedlang.tracing.trace import current

# parameters of NumPy's functions that a trace must know
_KNOWN = {
    "shape", "axis", "axes", "axis1", "axis2", "axisa", "axisb", "axisc", "source", "destination",
    "start", "indices_or_sections", "repeats", "reps", "pad_width", "N", "M", "bounds", "decimals",
    "ddof",
}  # fmt: skip
# what to write in a traced function where the advice for tensors is sl.compute or sl.scan
_INSTEAD = {
    **dict.fromkeys(("histogram2d", "histogramdd"),
                    "Count into an array of a known shape: bins = np.zeros(n, 'int64', like=x), "
                    "and np.add.at(bins, x, 1), where x has the places."),
    **dict.fromkeys(("apply_along_axis", "apply_over_axes", "piecewise", "fromfunction"),
                    "NumPy's functions and operators take whole arrays, along axis=k: call the "
                    "function itself, f(x), and choose with np.where."),
    **dict.fromkeys(("put", "place", "putmask", "put_along_axis"),
                    "Assign to elements: x[indices] = values, or x[mask] = value."),
    **dict.fromkeys(("array_repr", "array_str", "array2string", "save", "savez", "savetxt",
                     "savez_compressed"),
                    "Return the array, and print or save what the function returned."),
}  # fmt: skip
_SOLVED = (
    "Compute it with NumPy, and pass the result as an argument; a triangular solve is a loop over "
    "rows, sl.fori_loop(0, n, body, x)."
)
_LOOP = "Write it as a loop, sl.fori_loop(0, n, body, init)."
_RANGES = (
    "Reduce each range, x[a:b].sum(), or add the elements to the sums of their ranges: "
    "np.add.at(sums, numbers, x), where numbers has the range of each element."
)
_METHODS = {"reduce": REDUCED, "accumulate": tuple(RUNNING)}
_ANY = f"Write it with other functions; {docs_page('NumPy code')} lists them."


def check_form(function: Any, method: str = "__call__") -> None:
    """Raise for a function of NumPy, or a method of a ufunc, that has no form in a trace.

    It names what to write in a trace, where tensors would take sl.compute, sl.scatter or sl.scan.
    """
    name = name_of(function)
    what = f"an array of {current().title}"
    if not isinstance(function, np.ufunc):
        if name not in FORMS:
            solved = _SOLVED if name.startswith("linalg.") else None
            refuse_function(name, what, _INSTEAD.get(name, solved), _ANY)
    elif method == "__call__":
        if name not in GENERALIZED and name != "divmod" and not has_form(name):
            refuse_function(name, what, None, _ANY)
    elif method == "reduceat":
        raise ComputeTypeError(
            explain(f"np.{name}.reduceat of {what}", "it has no form in a traced function", _RANGES)
        )
    elif method in _METHODS and name not in _METHODS[method]:
        raise ComputeTypeError(
            explain(f"np.{name}.{method}", f"a {method} by np.{name} has no form", _LOOP)
        )


def check_known(function: Any, args: Sequence[Any], named: Mapping[str, Any]) -> None:
    """Raise for a shape, an axis and the like that is an array of the trace."""
    form = FORMS.get(name_of(function))
    if form is None:
        return
    names = form.names
    if form.variadic:
        names = [names[0].lstrip("*")] * len(args)
    for name, value in (*zip(names, args), *named.items()):
        if name in _KNOWN:
            for part in value if isinstance(value, (tuple, list)) else (value,):
                if is_traced(part) and of_lengths(part) is None:
                    # this raises, and explains why the part is not an integer
                    operator.index(part)
