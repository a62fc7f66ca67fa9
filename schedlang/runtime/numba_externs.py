"""Functions of numba as functions of C, which compiled code calls for boxes of arrays."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import from_dtype, types

from schedlang.errors import BuildError, explain
from schedlang.intrinsics.cpu.foreign import numba_function
from schedlang.markup.text import uncoloured
from schedlang.runtime.numba_internals import NumbaError, compiled_by_types

if TYPE_CHECKING:
    from schedlang.runtime.extern_table import Called

# the dtype of each box, its dimensions, and whether it has no gaps
Boxes = tuple[tuple[str, int, bool], ...]


def compiled_address(called: Called) -> int:
    """Return the address of a function of numba's, compiled for the arrays that it is given.

    Raises :class:`~schedlang.errors.BuildError` if numba cannot compile it, or if it returns a
    value.
    """
    boxes = tuple(zip(called.dtypes, called.ranks, called.packed))
    address, _ = _thunk(called.function.call, boxes, _compiled(called, boxes))
    return int(address)


@lru_cache(maxsize=256)
def _thunk(call: Any, boxes: Boxes, code: Any) -> Any:
    """Return the C function that stages share. ``call.recompile`` makes another ``code``."""
    return numba_function(call, boxes)


def _compiled(called: Called, boxes: Boxes) -> Any:
    """Return what numba compiles of a function for boxes, which it does once."""
    function = called.function
    kinds = [
        types.Array(from_dtype(np.dtype(dtype)), rank, "C" if packed else "A")
        for dtype, rank, packed in boxes
    ]
    try:
        function.call.compile(tuple(kinds))
    except (NumbaError, TypeError) as error:
        raise BuildError(_refusal(called, kinds, str(error))) from None
    code = compiled_by_types(function.call)[tuple(kinds)]
    result = code.signature.return_type
    if result != types.none:
        raise BuildError(
            explain(
                f"sl.extern calls {function.name}",
                f"it returns {result}, and the kernel takes no value from it",
                "Write the result into its last argument, out[...] = value, and return nothing.",
            )
        )
    return code.entry_point


def _refusal(called: Called, kinds: list[Any], said: str) -> str:
    lines = [line.strip() for line in uncoloured(said).splitlines() if line.strip()]
    first = next((line for line in lines if "Failed in" not in line), lines[0])
    given = ", ".join(map(str, kinds))
    return explain(
        f"sl.extern calls {called.function.name}",
        f"numba cannot compile it for ({given}), its inputs and then its outputs",
        f"numba says: {first}",
    )
