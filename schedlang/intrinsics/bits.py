"""Reinterpretation of a number's bits as another dtype of the same size."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types

from schedlang.expr.functions import definitions
from schedlang.intrinsics.elementary import intrinsic_of  # noqa: F401
from schedlang.intrinsics.half import reshaped
from schedlang.intrinsics.simd import element, with_element


def reinterpreted(source: types.Type, to: types.Type, scalar: ir.Type, x: Any) -> Any:
    """Return the signature and code of one conversion, or `None` if `x` is not of type `source`."""
    ty = types.unliteral(x)
    if element(ty) != source:
        return None

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        return builder.bitcast(args[0], reshaped(args[0].type, scalar))

    return with_element(ty, to)(ty), codegen


# one for each row of the table of functions, made by intrinsic_of
exec("\n".join(definitions("bits").values()))
__all__ = [*definitions("bits")]
