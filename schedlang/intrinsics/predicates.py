"""Predicates on a number or each lane of a vector: NaN, infinite, finite."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types

from schedlang.expr.functions import definitions
from schedlang.intrinsics.elementary import emit_absolute, intrinsic_of  # noqa: F401
from schedlang.intrinsics.operators import Emit
from schedlang.intrinsics.simd import constant, is_float, with_element


def predicate(emit: Emit, x: types.Type) -> Any:
    """Return an intrinsic that tests a number, or each lane; the result is a boolean or a mask."""
    ty = types.unliteral(x)

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        return emit(builder, ty, args[0])

    return with_element(ty, types.boolean)(ty), codegen


def emit_isnan(builder: ir.IRBuilder, ty: types.Type, a: ir.Value) -> ir.Value:
    """Emit whether a is NaN."""
    if not is_float(ty):
        return constant(with_element(ty, types.boolean), 0)
    return builder.fcmp_unordered("uno", a, a)


def emit_isinf(builder: ir.IRBuilder, ty: types.Type, a: ir.Value) -> ir.Value:
    """Emit whether a is infinite."""
    if not is_float(ty):
        return constant(with_element(ty, types.boolean), 0)
    return builder.fcmp_ordered("==", emit_absolute(builder, ty, a), constant(ty, float("inf")))


def emit_isfinite(builder: ir.IRBuilder, ty: types.Type, a: ir.Value) -> ir.Value:
    """Emit whether a is neither infinite nor NaN."""
    if not is_float(ty):
        return constant(with_element(ty, types.boolean), 1)
    return builder.fcmp_ordered("<", emit_absolute(builder, ty, a), constant(ty, float("inf")))


# one for each row of the table of functions, made by intrinsic_of
exec("\n".join(definitions("predicates").values()))
__all__ = [*definitions("predicates")]
