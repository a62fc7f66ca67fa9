"""te's ``call_extern``: a call of a function of C in the body of an intrinsic."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from schedlang.errors import ComputeError, ComputeTypeError, explain
from schedlang.expr.dtypes import is_integer
from schedlang.expr.nodes import Const, Expr
from schedlang.language.construct import as_expr
from schedlang.signatures import public
from schedlang.tvm.buffers import AccessPtr
from schedlang.tvm.te_dtypes import te_dtype

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


@dataclass(frozen=True, eq=False)
class ExternCall:
    """A call of the function ``name`` of C, which returns ``dtype``, with addresses and numbers."""

    name: str
    dtype: str
    args: tuple[AccessPtr | Expr, ...]


@public
def call_extern(dtype: Any, func_name: str, *args: Any) -> ExternCall:
    """Return a call of a function of C, which ``ib.emit`` takes in :func:`te.decl_tensor_intrin`.

    ``args`` are addresses, ``buffer.access_ptr("r")``, and numbers; the ``te.var`` of a buffer's
    stride stands for the stride. The result is not used. Raise
    :class:`~schedlang.errors.ComputeTypeError` for other arguments.
    """
    asked = f"tvm.tir.call_extern({dtype!r}, {func_name!r}, ...)"
    if not isinstance(func_name, str) or not _NAME.fullmatch(func_name):
        raise ComputeError(f"{asked}: {func_name!r} is not the name of a function of C")
    given = tuple(_argument(arg, asked) for arg in args)
    return ExternCall(func_name, te_dtype(dtype), given)


def _argument(arg: Any, asked: str) -> AccessPtr | Expr:
    if isinstance(arg, AccessPtr):
        return arg
    if isinstance(arg, (int, float, Expr)):
        expr = as_expr(arg)
        if isinstance(expr, Const) or is_integer(expr.dtype):
            return expr
    raise ComputeTypeError(
        explain(
            asked,
            f"the argument {arg} is neither an address nor a number",
            'Pass buffer.access_ptr("r"), numbers, and strides of buffers.',
        )
    )


__all__ = ["ExternCall", "call_extern"]
