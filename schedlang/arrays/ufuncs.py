"""NumPy's ufuncs on whole arrays, and their methods ``reduce``, ``accumulate`` and ``outer``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from schedlang.arrays.elementwise import elementwise, power
from schedlang.arrays.host.ufuncs import is_on_host, ufunc_on_host
from schedlang.arrays.keywords import refuse_keyword, refuse_keywords
from schedlang.arrays.operands import whole
from schedlang.arrays.products import matmul, matvec, vecdot, vecmat
from schedlang.arrays.reductions import extreme, total, truth
from schedlang.arrays.refused import refuse_function
from schedlang.arrays.scans import FORMS, running_fold
from schedlang.arrays.shaping import expand_dims
from schedlang.arrays.special import has_special, special
from schedlang.arrays.stages import tensor_of
from schedlang.compute.tensor import Tensor
from schedlang.errors import ComputeTypeError, explain
from schedlang.expr import dtypes
from schedlang.expr.nodes import Expr
from schedlang.language.construct import cast
from schedlang.language.foreign import check_ufunc
from schedlang.language.ufuncs import function_of

GENERALIZED: dict[str, Callable[..., Any]] = {
    "matmul": matmul, "vecdot": vecdot, "matvec": matvec, "vecmat": vecmat,
}  # fmt: skip
# the ufuncs whose method reduce has a form
REDUCED = ("add", "multiply", "maximum", "minimum", "logical_and", "logical_or")


def takes_arrays(ufunc: Any, inputs: Sequence[Any]) -> bool:
    """Return whether ``ufunc`` takes whole arrays, though no expression computes it."""
    return has_special(ufunc) or is_on_host(ufunc, inputs)


def apply(ufunc: Any, method: str, inputs: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Return ``ufunc(*inputs)``, or its ``method``, as an array or, of elements, an expression."""
    if method == "__call__" and not kwargs and takes_arrays(ufunc, inputs):
        return special(ufunc, inputs) if has_special(ufunc) else ufunc_on_host(ufunc, inputs)
    check_ufunc(ufunc, "a tensor")
    name = ufunc.__name__
    asked = f"np.{name}" if method == "__call__" else f"np.{name}.{method}"
    if method != "__call__":
        form = METHODS.get(method)
        if form is None:
            raise ComputeTypeError(explain(asked, *_UNKNOWN_METHODS.get(method, _NO_FORM)))
        return form(ufunc, asked, *inputs, **kwargs)
    options = dict(kwargs)
    dtype = options.pop("dtype", None)
    refuse_keywords(asked, options)
    if name in GENERALIZED:
        return GENERALIZED[name](*inputs)
    if name == "divmod":
        return apply(np.floor_divide, method, inputs, kwargs), apply(
            np.remainder, method, inputs, kwargs
        )
    function = power if name == "power" and whole(inputs) is not None else _function(name)
    if dtype is None:
        return elementwise(name, function, *inputs)
    kind = dtypes.canonical(dtype)
    return elementwise(name, lambda *v: function(*(cast(x, kind) for x in v)), *inputs)


def _function(name: str) -> Callable[..., Expr]:
    try:
        return function_of(name)
    except ComputeTypeError:
        refuse_function(name, "a tensor")


def _reduce(
    ufunc: Any,
    asked: str,
    a: Any,
    axis: Any = 0,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = True,
) -> Tensor:
    refuse_keywords(asked, {"out": out})
    condition = None if where is True else where
    name = ufunc.__name__
    if name in ("add", "multiply"):
        word = "sum" if name == "add" else "prod"
        return total(word, a, axis, dtype, keepdims, initial, condition)
    if dtype is not None:
        refuse_keyword(asked, "dtype")
    if name in ("maximum", "minimum"):
        return extreme(name[:3], a, axis, keepdims, initial, condition)
    if name in ("logical_and", "logical_or"):
        if initial is not None:
            refuse_keyword(asked, "initial")
        return truth("all" if name == "logical_and" else "any", a, axis, keepdims, condition)
    raise ComputeTypeError(
        explain(
            asked,
            f"np.{name} has no reducer",
            "Write sl.comm_reducer(lambda x, y: ..., lambda t: identity), and reduce with it in "
            "sl.compute.",
        )
    )


def _accumulate(
    ufunc: Any, asked: str, a: Any, axis: Any = 0, dtype: Any = None, out: Any = None
) -> Tensor:
    refuse_keywords(asked, {"out": out})
    if ufunc.__name__ not in FORMS:
        raise ComputeTypeError(
            explain(
                asked,
                f"a running np.{ufunc.__name__} has no form",
                "Write the recurrence: sl.scan(init, update, state).",
            )
        )
    return running_fold(ufunc.__name__, a, axis, dtype, asked)


def _outer(ufunc: Any, asked: str, a: Any, b: Any, **kwargs: Any) -> Any:
    """Return ``ufunc`` of each element of ``a`` with each of ``b``."""
    left, right = tensor_of(a, asked), tensor_of(b, asked)
    new = tuple(range(left.ndim, left.ndim + right.ndim))
    stretched = expand_dims(left, new) if new else left
    return apply(ufunc, "__call__", (stretched, right), kwargs)


METHODS: dict[str, Callable[..., Any]] = {
    "reduce": _reduce,
    "accumulate": _accumulate,
    "outer": _outer,
}
_NO_FORM = ("this method has no form", "Write what it computes per element inside sl.compute.")
_UNKNOWN_METHODS = {
    "at": (
        "a tensor is not written to",
        "Make a new one by a scatter: sl.scatter(A, idx.shape, lambda k: (idx[k], V[k]), "
        '"sum"). A function under sl.jit may write np.add.at(A, idx, V).',
    ),
    "reduceat": (
        "its ranges depend on data",
        "Give each element the number of its range, and reduce with a condition: sl.sum("
        "V[k], axis=k, where=X[k] == b).",
    ),
}
