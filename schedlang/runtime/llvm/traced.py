"""Functions of Python that intrinsics call, as functions of LLVM's code.

``exp`` of float32 is a function of Python over intrinsics, which numba compiles for each type of
its operand. It has neither branches nor loops: a call of it with values that write an instruction
for each operator gives the same code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from schedlang.expr.operators import OPERATORS
from schedlang.intrinsics import operators
from schedlang.intrinsics.simd import Vec, llvm_type, with_element
from schedlang.runtime.llvm.dialect import ARITHMETIC, Context, Typed, call, cast, literal, number
from schedlang.runtime.numba_internals import Intrinsic, with_flags


class Tracer:
    """The builder and the context with which the operators of one traced function write."""

    def __init__(self, context: Context, builder: ir.IRBuilder) -> None:
        self.context, self.builder = context, builder

    def typed(self, value: Any) -> Typed:
        """Return a value with its type; an integer or a text of Python is a literal."""
        if isinstance(value, Traced):
            return value.typed
        if isinstance(value, tuple):
            return self.tuple_of([self.typed(x) for x in value])
        if isinstance(value, str):
            return types.StringLiteral(value), None
        if isinstance(value, int):
            return literal(value)
        kind = getattr(types, np.asarray(value).dtype.name)
        return kind, number(kind, value)

    def tuple_of(self, values: Sequence[Typed]) -> Typed:
        """Return a tuple of values, such as the operands of an instruction."""
        kinds = [(types.unliteral(kind), x) for kind, x in values]
        given = ir.Constant(ir.LiteralStructType([x.type for _, x in kinds]), ir.Undefined)
        for k, (_, x) in enumerate(kinds):
            given = self.builder.insert_value(given, x, k)
        return types.Tuple([kind for kind, _ in kinds]), given

    def operator(self, symbol: str, a: Any, b: Any) -> Traced:
        """Emit a binary operator."""
        (kind, x), (other, y) = self.typed(a), self.typed(b)
        both = other if isinstance(other, Vec) else kind
        x, y = cast(self.builder, x, kind, both), cast(self.builder, y, other, both)
        emit = ARITHMETIC.get(symbol)
        if emit is not None:
            return Traced(self, (both, emit(self.builder, both, x, y)))
        holds = operators.emit_compare(self.builder, both, symbol, x, y)
        return Traced(self, (with_element(both, types.boolean), holds))

    def calls(self, intrinsic: Any) -> Callable[..., Traced]:
        """Return the function that emits a call of an intrinsic."""

        def emit(*args: Any) -> Traced:
            given = [self.typed(a) for a in args]
            return Traced(self, call(self.context, self.builder, intrinsic, given))

        return emit


class Traced:
    """A value in a function that is traced: each operator on it writes an instruction."""

    # NumPy's numbers leave an operator to the other operand
    __array_ufunc__ = None

    def __init__(self, tracer: Tracer, typed: Typed) -> None:
        self.tracer, self.typed = tracer, typed

    def __neg__(self) -> Traced:
        kind, value = self.typed
        return Traced(self.tracer, (kind, operators.emit_neg(self.tracer.builder, kind, value)))


def _operators(symbol: str) -> tuple[Callable[..., Traced], Callable[..., Traced]]:
    def left(a: Traced, b: Any) -> Traced:
        return a.tracer.operator(symbol, a, b)

    def right(b: Traced, a: Any) -> Traced:
        return b.tracer.operator(symbol, a, b)

    return left, right


for _row in OPERATORS.values():
    if _row.symbol in ARITHMETIC or _row.mirrored:
        _left, _right = _operators(_row.symbol)
        setattr(Traced, f"__{_row.method}__", _left)
        if not _row.mirrored:
            setattr(Traced, f"__r{_row.method}__", _right)


def run(tracer: Tracer, function: FunctionType, operands: Sequence[Typed]) -> Typed:
    """Emit what a function of Python over intrinsics computes, and return its result."""
    names = {
        key: tracer.calls(value) if isinstance(value, Intrinsic) else value
        for key, value in function.__globals__.items()
    }
    own = FunctionType(function.__code__, names)
    return tracer.typed(own(*(Traced(tracer, typed) for typed in operands)))


def traced(
    context: Context, module: ir.Module, function: FunctionType, kinds: tuple[types.Type, ...]
) -> ir.Function:
    """Return the function of a module that computes ``function`` for operands of these types."""
    name = ".".join([function.__name__, *map(str, kinds)])
    known = module.globals.get(name)
    if known is not None:
        return known
    # its result has the type of its operand
    kind = ir.FunctionType(llvm_type(kinds[0]), [llvm_type(k) for k in kinds])
    traced_function = ir.Function(module, kind, name)
    traced_function.linkage = "internal"
    traced_function.attributes.add("alwaysinline")
    builder = ir.IRBuilder(traced_function.append_basic_block("entry"))
    result = run(Tracer(context, builder), function, [*zip(kinds, traced_function.args)])
    builder.ret(result[1])
    # numba compiles it by itself, with no other freedom
    with_flags(traced_function, {"contract"})
    return traced_function
