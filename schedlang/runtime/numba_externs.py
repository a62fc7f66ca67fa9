"""Functions of numba as functions of C, which compiled code calls for boxes of arrays."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from llvmlite import ir
from numba import cfunc, from_dtype, types
from numba.core.errors import NumbaError
from numba.extending import intrinsic

from schedlang.errors import BuildError, explain
from schedlang.markup.text import uncoloured
from schedlang.runtime.numba_internals import cgutils, compiled_by_types

if TYPE_CHECKING:
    from schedlang.runtime.extern_table import Called


def compiled_address(called: Called) -> int:
    """Return the address of a function of numba's, compiled for the arrays that it is given.

    Raises :class:`~schedlang.errors.BuildError` if numba cannot compile it, or if it returns a
    value.
    """
    return int(_compiled(called).address)


@lru_cache(maxsize=256)
def _compiled(called: Called) -> Any:
    import numpy as np

    function = called.function
    kinds = [
        types.Array(from_dtype(np.dtype(dtype)), rank, "C" if packed else "A")
        for dtype, rank, packed in zip(called.dtypes, called.ranks, called.packed)
    ]
    try:
        function.call.compile(tuple(kinds))
    except (NumbaError, TypeError) as error:
        raise BuildError(_refusal(called, kinds, str(error))) from None
    result = compiled_by_types(function.call)[tuple(kinds)].signature.return_type
    if result != types.none:
        raise BuildError(
            explain(
                f"sl.extern calls {function.name}",
                f"it returns {result}, and the kernel takes no value from it",
                "Write the result into its last argument, out[...] = value, and return nothing.",
            )
        )
    return _thunk(called, kinds)


def _refusal(called: Called, kinds: list[Any], said: str) -> str:
    lines = [line.strip() for line in uncoloured(said).splitlines() if line.strip()]
    first = next((line for line in lines if "Failed in" not in line), lines[0])
    given = ", ".join(map(str, kinds))
    return explain(
        f"sl.extern calls {called.function.name}",
        f"numba cannot compile it for ({given}), its inputs and then its outputs",
        f"numba says: {first}",
    )


def _thunk(called: Called, kinds: list[Any]) -> Any:
    """Return a function of C that makes arrays of addresses, and returns 1 if ``called`` raises."""
    names = [f"place{k}" for k in range(len(kinds))]
    given, at, space = [], 0, {"call": called.function.call}
    for k, (name, kind) in enumerate(zip(names, kinds)):
        space[f"array{k}"] = _array_maker(kind)
        given.append(f"array{k}({name}, sizes, {at})")
        at += 2 * kind.ndim
    lines = [
        f"def thunk({', '.join([*names, 'sizes'])}):",
        "    try:",
        f"        call({', '.join(given)})",
        "    except Exception:",
        "        return 1",
        "    return 0",
    ]
    exec("\n".join(lines), space)
    pointers = [types.CPointer(kind.dtype) for kind in kinds]
    return cfunc(types.int32(*pointers, types.CPointer(types.int64)))(space["thunk"])


def _array_maker(kind: Any) -> Any:
    """Return a function that makes an array of a pointer, of sizes and of the place of its own."""

    @intrinsic
    def made(typingctx: Any, place: Any, sizes: Any, at: Any) -> Any:
        def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
            array = context.make_array(kind)(context, builder)
            word = context.get_value_type(types.intp)
            data = context.get_data_type(kind.dtype)
            size = context.get_constant(types.intp, context.get_abi_sizeof(data))

            def known(k: int) -> ir.Value:
                index = builder.add(args[2], ir.Constant(args[2].type, k))
                return builder.load(builder.gep(args[1], [index]))

            shape = [known(k) for k in range(kind.ndim)]
            steps = [builder.mul(known(kind.ndim + k), size) for k in range(kind.ndim)]
            context.populate_array(
                array,
                data=builder.bitcast(args[0], array.data.type),
                shape=cgutils.pack_array(builder, shape, ty=word),
                strides=cgutils.pack_array(builder, steps, ty=word),
                itemsize=size,
                meminfo=None,
            )
            return array._getvalue()

        return kind(place, sizes, types.int64), codegen

    return made
