"""The short way into a kernel, for NumPy arrays that need no conversion."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from schedlang.runtime.parameters import Signature

Bound = tuple[list[np.ndarray], Any]
# bits of ndarray.flags.num, as NumPy's C API has them: one look in place of three
_CONTIGUOUS, _OWNED, _WRITEABLE = 0x1, 0x4, 0x400


def shortcut(signature: Signature) -> Callable[[Sequence[Any]], Bound | None] | None:
    """A function from a call's arguments to flat arrays and what the call returns.

    It gives ``None`` for whatever deserves a closer look, right or wrong: those arguments go
    through :class:`~schedlang.runtime.parameters.Binder`. Signatures with sizes, scalars or
    float16 have no short way.
    """
    parameters = signature.parameters
    if signature.sizes or any(p.is_scalar or p.dtype == "float16" for p in parameters):
        return None
    kinds = [
        (np.dtype(p.dtype), tuple(p.shape), _CONTIGUOUS | (_WRITEABLE if p.is_output else 0))
        for p in parameters
    ]
    outputs = [k for k, p in enumerate(parameters) if p.is_output]
    pairs = [(i, k) for i in outputs for k in range(len(kinds)) if k != i]
    count, inputs = len(kinds), len(kinds) - len(outputs)
    ndarray, empty, may_share = np.ndarray, np.empty, np.may_share_memory

    def bind(args: Sequence[Any]) -> Bound | None:
        if len(args) == count:
            values = args
        elif len(args) == inputs:
            given = iter(args)
            values = [
                empty(shape, dtype) if needed & _WRITEABLE else next(given)
                for dtype, shape, needed in kinds
            ]
        else:
            return None
        flat: list[np.ndarray] = []
        owners: list[np.ndarray | None] = []
        for value, (dtype, shape, needed) in zip(values, kinds):
            if type(value) is not ndarray or value.dtype is not dtype or value.shape != shape:
                return None
            flags = value.flags.num
            if flags & needed != needed:
                return None
            if flags & _OWNED:
                owners.append(value)
            else:
                # memory that an array has of someone else says nothing of who else has it
                base = value.base
                owners.append(base if type(base) is ndarray and base.flags.owndata else None)
            flat.append(value if len(shape) == 1 else value.ravel())
        for i, k in pairs:
            one, other = owners[i], owners[k]
            apart = one is not other and one is not None and other is not None
            if not apart and may_share(values[i], values[k]):
                return None
        result = values[outputs[0]] if len(outputs) == 1 else tuple(values[k] for k in outputs)
        return flat, result

    return bind
