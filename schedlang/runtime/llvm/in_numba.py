"""Kernels that LLVM compiled, inside of functions that numba compiles."""

from __future__ import annotations

from functools import cache
from inspect import Parameter, Signature
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import lower_builtin, type_callable

from schedlang.machine.nodes import Array, Function
from schedlang.runtime.llvm.dialect import array_type, type_of
from schedlang.runtime.llvm.functions import function_type
from schedlang.runtime.numba_internals import cgutils


@cache
def let_numba_call(
    function: Any, address: int, entry: Function, fails: bool, written: frozenset[int]
) -> Any:
    """Return ``function``, which numba's functions may call from now on.

    They call the code at ``address``, of the ``entry`` of a machine nest. It takes the addresses of
    arrays, and returns whether memory was lacking if it ``fails``. ``written`` are the positions of
    the arrays that it writes.
    """
    kinds = [
        array_type(p.dtype) if isinstance(p, Array) else type_of(p.type) for p in entry.parameters
    ]

    @type_callable(function)
    def type_kernel(context: Any) -> Any:
        names = [Parameter(p.name, Parameter.POSITIONAL_OR_KEYWORD) for p in entry.parameters]
        signature = Signature(names)

        def typer(*given: Any, **named: Any) -> Any:
            try:
                values = signature.bind(*given, **named).args
            except TypeError:
                return None
            changes = [position in written for position in range(len(kinds))]
            return types.none if all(map(_takes, kinds, values, changes)) else None

        # numba reads it to put what is named into its place
        typer.__signature__ = signature  # type: ignore[attr-defined]
        return typer

    @lower_builtin(function, types.VarArg(types.Any))
    def call_kernel(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> Any:
        kind = function_type(entry.parameters, fails)
        place = context.add_dynamic_addr(builder, address, info=f"the kernel {entry.name}")
        operands = [
            _operand(context, builder, given, value, wanted, parameter)
            for given, value, wanted, parameter in zip(sig.args, args, kinds, kind.args)
        ]
        status = builder.call(builder.bitcast(place, kind.as_pointer()), operands)
        if fails:
            with builder.if_then(cgutils.is_not_null(builder, status), likely=False):
                message = ("no memory for the arrays of a kernel",)
                context.call_conv.return_user_exc(builder, MemoryError, message)
        return context.get_dummy_value()

    return function


def _takes(wanted: Any, given: Any, written: bool) -> bool:
    """Return whether a parameter, which may be ``written``, takes a value of the type ``given``."""
    if not isinstance(wanted, types.Array):
        whole = (types.Integer, types.Boolean)
        return isinstance(given, whole if isinstance(wanted, whole) else (types.Float, *whole))
    same = isinstance(given, types.Array) and (given.dtype, given.ndim, given.layout) == (
        wanted.dtype, 1, "C",
    )  # fmt: skip
    return same and (given.mutable or not written)


def _operand(
    context: Any, builder: ir.IRBuilder, given: Any, value: Any, wanted: Any, kind: ir.Type
) -> ir.Value:
    """Return an argument as the kernel takes it: the address of an array, or a scalar."""
    if not isinstance(wanted, types.Array):
        return context.cast(builder, value, given, wanted)
    return builder.bitcast(context.make_array(given)(context, builder, value).data, kind)
