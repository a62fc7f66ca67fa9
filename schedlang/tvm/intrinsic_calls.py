"""te's ``call_intrin`` and ``call_pure_extern``: functions by their names in TVM and in C."""

from __future__ import annotations

from typing import Any

from schedlang.errors import ComputeError, ComputeTypeError, explain, nearest
from schedlang.expr.dtypes import is_integer
from schedlang.expr.nodes import Expr
from schedlang.signatures import public
from schedlang.tvm import tir
from schedlang.tvm.matrix_intrinsics import CALLS, MatrixCall, matrix_call
from schedlang.tvm.te_dtypes import te_dtype

# TVM's names of functions that have another name here
_OTHER = {"fabs": "abs"}
# what tvm.tir has besides functions of values
_NO_FUNCTIONS = {
    "Cast", "FloatImm", "IntImm", "Select", "Var", "all", "any", "comm_reducer", "const",
    "infinity", "max", "max_value", "min", "min_value", "prod", "reinterpret", "sum",
}  # fmt: skip


@public
def call_intrin(dtype: Any, func_name: str, *args: Any) -> Expr | MatrixCall:
    """Return the value of a function of TVM's, such as ``"tir.exp"``, of ``args``.

    It is the function of ``tvm.tir`` that has the name. ``"tir.tvm_load_matrix_sync"``,
    ``"tir.tvm_mma_sync"``, ``"tir.tvm_fill_fragment"`` and ``"tir.tvm_store_matrix_sync"`` are
    calls of matrix units, which ``ib.emit`` takes in :func:`te.decl_tensor_intrin`. Raise
    :class:`~schedlang.errors.ComputeError` for another name, and
    :class:`~schedlang.errors.ComputeTypeError` for a result that is not ``dtype``, and for
    arguments that a matrix unit does not take.

    >>> import schedlang as tvm
    >>> from schedlang import te
    >>> A = te.placeholder((8,), name="A")
    >>> B = te.compute((8,), lambda i: tvm.tir.call_intrin("float32", "tir.exp", A[i]), name="B")
    >>> B.op.body
    (exp(A[i]),)
    """
    asked = f"tvm.tir.call_intrin({dtype!r}, {func_name!r}, ...)"
    name = func_name.removeprefix("tir.") if isinstance(func_name, str) else ""
    if name in CALLS:
        return matrix_call(asked, name, args)
    known = [n for n in tir.__all__ if n not in _NO_FUNCTIONS] + [*_OTHER, *CALLS]
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
    return _value(asked, dtype, name, args)


def _value(asked: str, dtype: Any, name: str, args: tuple[Any, ...]) -> Expr:
    """Return the value of a function of ``tvm.tir``; refuse one of another dtype."""
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


# functions of C's library that tvm.tir has by the same name
_OF_C = {
    name: name
    for name in (
        "acos", "asin", "atan", "atan2", "ceil", "cos", "cosh", "erf", "exp", "exp2", "floor",
        "fmod", "log", "log10", "log1p", "log2", "nearbyint", "pow", "round", "rsqrt", "sin",
        "sinh", "sqrt", "tan", "tanh", "trunc",
    )
}  # fmt: skip
_OF_C.update(fabs="fabs", rint="nearbyint")
# approximations of CUDA
_APPROXIMATE = {
    f"__{name}f": name for name in ("cos", "exp", "log", "log10", "log2", "pow", "sin", "tan")
}


@public
def call_pure_extern(dtype: Any, func_name: str, *args: Any) -> Expr:
    """Return the value of a function of C's library, such as ``"expf"``, of ``args``.

    It is the function of ``tvm.tir`` of that name, at most 2 ulp off in float32, and so are CUDA's
    approximations, such as ``"__expf"``. Raise :class:`~schedlang.errors.ComputeError` for another
    function, and :class:`~schedlang.errors.ComputeTypeError` for a result that is not ``dtype``.

    >>> import schedlang as tvm
    >>> from schedlang import te
    >>> A = te.placeholder((8,), name="A")
    >>> B = te.compute((8,), lambda i: tvm.tir.call_pure_extern("float32", "__expf", A[i]))
    >>> B.op.body
    (exp(A[i]),)
    """
    asked = f"tvm.tir.call_pure_extern({dtype!r}, {func_name!r}, ...)"
    names = {**_OF_C, **{f"{name}f": value for name, value in _OF_C.items()}, **_APPROXIMATE}
    if not isinstance(func_name, str) or func_name not in names:
        close = nearest(func_name, names) if isinstance(func_name, str) else ""
        raise ComputeError(
            explain(
                asked,
                f"an expression calls functions of C's library alone{close}",
                "For whole arrays, te.extern calls a packed function, and sl.extern a function of "
                "numba or of C.",
            )
        )
    return _value(asked, dtype, names[func_name], args)


__all__ = ["call_intrin", "call_pure_extern"]
