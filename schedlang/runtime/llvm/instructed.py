"""The result of an instruction of the user's, as LLVM's code."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from types import FunctionType
from typing import Any

from llvmlite import ir
from numba import types

from schedlang.instructions.c_forms import CFunction, CSnippet
from schedlang.instructions.declaration import Instruction, ValueEmission
from schedlang.intrinsics import cpu
from schedlang.intrinsics.simd import Vec, common_type, is_float, is_integer
from schedlang.machine.nodes import Type
from schedlang.runtime.llvm.dialect import Context, Typed, Unprintable, call, cast, type_of
from schedlang.runtime.llvm.traced import Traced, Tracer, run


def instructed(
    context: Context, builder: ir.IRBuilder, declared: Instruction, emission: ValueEmission,
    operands: Sequence[Typed],
) -> Typed:  # fmt: skip
    """Emit the result of an instruction of ``operands``, in the order of its emission.

    Raise ``Unprintable`` for a function of Python without a form in LLVM's code.
    """
    assert not isinstance(emission, (CFunction, CSnippet))
    called, tracer = emission.call(declared), _Tracer(context, builder)
    if not called.definition:
        literals = [(types.StringLiteral(text), None) for text in called.texts]
        given = [*literals, tracer.tuple_of(operands)]
        return call(context, builder, getattr(cpu, called.name), given)
    kind, value = run(tracer, _function(called.name, called.definition), operands)
    output = declared.output
    wanted = type_of(Type(output.dtype, declared.lanes if declared.lanes > 1 else 0))
    is_scalar = isinstance(kind, (types.Number, types.Boolean)) and not isinstance(wanted, Vec)
    if kind != wanted and not is_scalar:
        raise Unprintable(f"{emission} returns {kind}, and {output.name} is {wanted}")
    return wanted, cast(builder, value, kind, wanted)


class _Tracer(Tracer):
    """A tracer that takes the operands which numba takes, and computes in its types."""

    def operator(self, symbol: str, a: Any, b: Any) -> Traced:
        (kind, x), (other, y) = self.typed(a), self.typed(b)
        both = common_type(kind, other)
        if both is not None and not isinstance(both, Vec) and is_integer(both):
            both = types.int64
        if symbol == "/" and both is not None and not is_float(both):
            raise Unprintable(f"{kind} / {other}: convert one to a float, as in float32(2)")
        if both is None:
            raise Unprintable(
                f"{kind} {symbol} {other}: the operands of an operator have one dtype; convert "
                "one, as in float32(2)"
            )
        x, y = cast(self.builder, x, kind, both), cast(self.builder, y, other, both)
        return super().operator(symbol, Traced(self, (both, x)), Traced(self, (both, y)))


@lru_cache(maxsize=64)
def _function(name: str, definition: str) -> FunctionType:
    """Return a function of Python over the intrinsics of a CPU; its text was checked."""
    space = {key: getattr(cpu, key) for key in dir(cpu)}
    exec(compile(definition, f"<{name}>", "exec"), space)
    function = space[name]
    assert isinstance(function, FunctionType)
    return function
