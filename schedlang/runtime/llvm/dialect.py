"""The intrinsics of emitted files, written for LLVM with types that the machine nest knows.

An intrinsic is defined once, for numba: its definition takes the types of the operands, and returns
a signature and what writes the code. numba calls both when it compiles an emitted file. Here they
are called for a value of the machine nest, so that both compilers write the same instructions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, Union

from llvmlite import ir
from numba import types

from schedlang.expr.dtypes import register_dtype, storage_dtype
from schedlang.intrinsics import cpu, operators
from schedlang.intrinsics.simd import Vec, convert, llvm_type
from schedlang.machine.nodes import Type
from schedlang.runtime.llvm.unprintable import Unprintable
from schedlang.runtime.numba_internals import cpu_context, math_context

I64 = ir.IntType(64)
# a value of LLVM's with its type in numba
Typed = tuple[types.Type, ir.Value]
# the types of an operand that is known when the code is written
Literal = Union[types.IntegerLiteral, types.StringLiteral]

# what writes the operators of vectors, and of scalars that numba computes alike
ARITHMETIC = {
    "+": operators.emit_add, "-": operators.emit_sub, "*": operators.emit_mul,
    "/": operators.emit_div, "&": operators.emit_and, "|": operators.emit_or,
    "^": operators.emit_xor,
}  # fmt: skip


@lru_cache(maxsize=512)
def type_of(type_: Type) -> types.Type:
    """Return the type in numba of a machine nest's type; a short float becomes float32."""
    dtype = scalar_type(register_dtype(type_.dtype))
    return Vec(dtype, type_.lanes) if type_.lanes else dtype


@lru_cache(maxsize=32)
def scalar_type(dtype: str) -> types.Type:
    """Return numba's type of a dtype."""
    return types.boolean if dtype == "bool" else getattr(types, dtype)


@lru_cache(maxsize=32)
def array_type(dtype: str) -> types.Array:
    """Return numba's type of flat arrays of a dtype, whose elements may be bits or parts."""
    return types.Array(scalar_type(storage_dtype(dtype)), 1, "C")


class _Pointers:
    """The data model of arrays here: an array is the address of its first element."""

    def __getitem__(self, array: types.Array) -> _Pointers:
        return self

    def get(self, builder: ir.IRBuilder, value: ir.Value, name: str) -> ir.Value:
        """Return the address in an array."""
        assert name == "data"
        return value


class Subroutine(NamedTuple):
    """A stand-in for a function that numba compiled."""

    fndesc: ir.Function


class Context:
    """The part of numba's target context that the code of intrinsics uses.

    ``traced`` returns the function of a module that computes a function of Python for types of
    operands. numba has the functions of the C library.
    """

    data_model_manager = _Pointers()

    def __init__(self, traced: Callable[..., ir.Function]) -> None:
        self._traced = traced

    def codegen(self) -> Any:
        """Return numba's generator of machine code."""
        return cpu_context().codegen()

    def get_dummy_value(self) -> None:
        """Return the value of what returns nothing."""

    def get_function(self, function: Any, sig: Any) -> Any:
        """Return what writes a call of a function of Python's ``math``."""
        return math_context().get_function(function, sig)

    def compile_subroutine(
        self, builder: ir.IRBuilder, function: Any, sig: Any, flags: Any = None
    ) -> Subroutine:
        """Return a function of Python as what :meth:`call_internal` calls."""
        return Subroutine(self._traced(self, builder.module, function, tuple(sig.args)))

    def call_internal(
        self, builder: ir.IRBuilder, function: ir.Function, sig: Any, args: Sequence[ir.Value]
    ) -> ir.Value:
        """Emit a call of a function that was a function of Python."""
        return builder.call(function, args)


@lru_cache(maxsize=4096)
def _defined(intrinsic: Any, kinds: tuple[types.Type, ...]) -> tuple[Any, Any]:
    """Return the signature and the code of an intrinsic for operands of these types."""
    defined = intrinsic._defn(None, *kinds)
    if defined is None:
        called = f"{intrinsic.__name__}({', '.join(map(str, kinds))})"
        raise Unprintable(f"{called} has no form in LLVM's code")
    return defined


def named(name: str) -> Any:
    """Return the intrinsic of a name."""
    intrinsic = getattr(cpu, name, None)
    if intrinsic is None:
        raise Unprintable(f"{name} has no form in LLVM's code for a CPU")
    return intrinsic


def call(
    context: Context, builder: ir.IRBuilder, intrinsic: Any, operands: Sequence[Typed]
) -> Typed:
    """Emit a call of an intrinsic, and return its value; the operands are cast by numba's rules."""
    signature, emit = _defined(intrinsic, tuple([kind for kind, _ in operands]))
    given = [
        cast(builder, value, kind, wanted)
        for (kind, value), wanted in zip(operands, signature.args)
    ]
    return signature.return_type, emit(context, builder, signature, given)


def cast(builder: ir.IRBuilder, value: ir.Value, kind: types.Type, wanted: types.Type) -> ir.Value:
    """Emit the conversion of a value to the type that is wanted, a scalar to all lanes."""
    if kind is wanted:
        return value
    if kind == wanted or isinstance(wanted, (types.Literal, types.BaseTuple, types.Array)):
        return value
    plain = types.unliteral(kind)
    if isinstance(wanted, Vec) and not isinstance(plain, Vec):
        return splat(builder, convert(builder, value, plain, wanted.dtype), wanted.lanes)
    return convert(builder, value, plain, wanted)


def splat(builder: ir.IRBuilder, x: ir.Value, lanes: int) -> ir.Value:
    """Emit a vector of equal lanes as :func:`schedlang.intrinsics.simd.splat` does.

    That one, which saved files hold, makes its constants anew.
    """
    undefined, zeros = _splatted(x.type, lanes)
    return builder.shuffle_vector(builder.insert_element(undefined, x, _FIRST), undefined, zeros)


_FIRST = ir.IntType(32)(0)


@lru_cache(maxsize=64)
def _splatted(scalar: ir.Type, lanes: int) -> tuple[ir.Constant, ir.Constant]:
    """Return the vector that a scalar is inserted to, and the order that repeats its first lane."""
    undefined = ir.Constant(ir.VectorType(scalar, lanes), ir.Undefined)
    return undefined, ir.Constant(ir.VectorType(ir.IntType(32), lanes), None)


@lru_cache(maxsize=512, typed=True)
def literal(value: int) -> Typed:
    """Return an integer that is known when the code is written."""
    return types.IntegerLiteral(value), I64(value)


def number(kind: types.Type, value: Any) -> ir.Constant:
    """Return a constant of a scalar type, with a value that is converted as by ``astype``."""
    # 0.0 and -0.0 are equal
    return _whole(kind, value) if isinstance(value, int) else _number(kind, value)


def _number(kind: types.Type, value: Any) -> ir.Constant:
    llt = llvm_type(kind)
    if isinstance(llt, ir.IntType):
        return ir.Constant(llt, int(value) & ((1 << llt.width) - 1))
    return ir.Constant(llt, _single(value) if isinstance(llt, ir.FloatType) else float(value))


_whole = lru_cache(maxsize=1024)(_number)


def _single(value: Any) -> float:
    import numpy as np

    with np.errstate(over="ignore"):
        return float(np.float32(value))
