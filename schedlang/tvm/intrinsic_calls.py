"""te's ``call_intrin``: a function of the expression language, called by its name in TVM."""

from __future__ import annotations

from typing import Any

from schedlang.errors import ComputeError, ComputeTypeError, explain, nearest
from schedlang.expr.dtypes import is_integer
from schedlang.expr.nodes import Expr
from schedlang.signatures import public
from schedlang.tvm import tir
from schedlang.tvm.te_dtypes import te_dtype

# TVM's names of functions that have another name here
_OTHER = {"fabs": "abs"}
# what tvm.tir has besides functions of values
_NO_FUNCTIONS = {
    "Cast", "FloatImm", "IntImm", "Select", "Var", "all", "any", "comm_reducer", "const",
    "infinity", "max", "max_value", "min", "min_value", "prod", "reinterpret", "sum",
}  # fmt: skip


@public
def call_intrin(dtype: Any, func_name: str, *args: Any) -> Expr:
    """Return the value of a function of TVM's, such as ``"tir.exp"``, of ``args``.

    It is the function of ``tvm.tir`` that has the name. Raise
    :class:`~schedlang.errors.ComputeError` for another name, and
    :class:`~schedlang.errors.ComputeTypeError` for a result that is not ``dtype``.

    >>> import schedlang as tvm
    >>> from schedlang import te
    >>> A = te.placeholder((8,), name="A")
    >>> B = te.compute((8,), lambda i: tvm.tir.call_intrin("float32", "tir.exp", A[i]), name="B")
    >>> B.op.body
    (exp(A[i]),)
    """
    asked = f"tvm.tir.call_intrin({dtype!r}, {func_name!r}, ...)"
    name = func_name.removeprefix("tir.") if isinstance(func_name, str) else ""
    known = [n for n in tir.__all__ if n not in _NO_FUNCTIONS] + [*_OTHER]
    if name not in known:
        close = nearest(name, known)
        raise ComputeError(
            explain(
                asked,
                f"{func_name!r} is not a function of values{close}",
                "An instruction of a processor is declared by what it computes, "
                "sl.instruction(name, compute, emit=...), for s[C].tensorize(axis, instruction).",
            )
        )
    value = getattr(tir, _OTHER.get(name, name))(*args)
    kind = te_dtype(dtype)
    # a number or an index takes any dtype of its kind
    fits = isinstance(value, Expr) and (
        value.dtype == kind or (value.weak and is_integer(value.dtype) == is_integer(kind))
    )
    if not fits:
        raise ComputeTypeError(
            explain(
                asked,
                f"the result is {getattr(value, 'dtype', type(value).__name__)}",
                "Give its dtype, or convert it by .astype(...).",
            )
        )
    return value


__all__ = ["call_intrin"]
