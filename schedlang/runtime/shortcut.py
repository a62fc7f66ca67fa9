"""The short way into a kernel, for NumPy arrays that need no conversion."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from schedlang.runtime.parameters import Signature

Bound = tuple[list[np.ndarray], Any]


def shortcut(signature: Signature) -> Callable[[Sequence[Any]], Bound | None] | None:
    """A function from a call's arguments to flat arrays and what the call returns.

    It gives ``None`` for whatever deserves a closer look, right or wrong: those arguments go
    through :class:`~schedlang.runtime.parameters.Binder`. Signatures with sizes, scalars or
    float16 have no short way.
    """
    parameters = signature.parameters
    if signature.sizes or any(p.is_scalar or p.dtype == "float16" for p in parameters):
        return None
    kinds = [(np.dtype(p.dtype), tuple(p.shape), p.is_output) for p in parameters]
    outputs = [k for k, p in enumerate(parameters) if p.is_output]
    pairs = [(i, k) for i in outputs for k in range(len(kinds)) if k != i]
    count, inputs = len(kinds), len(kinds) - len(outputs)
    ndarray, empty, may_share = np.ndarray, np.empty, np.may_share_memory

    def bind(args: Sequence[Any]) -> Bound | None:
        if len(args) == count:
            values = args
        elif len(args) == inputs:
            given = iter(args)
            values = [empty(s, d) if written else next(given) for d, s, written in kinds]
        else:
            return None
        flat, owners = [], []
        for value, (dtype, shape, written) in zip(values, kinds):
            if type(value) is not ndarray or value.dtype is not dtype or value.shape != shape:
                return None
            flags = value.flags
            if not flags.c_contiguous or (written and not flags.writeable):
                return None
            owner = value if flags.owndata else value.base
            # memory that an array has of someone else says nothing of who else has it
            owners.append(owner if type(owner) is ndarray and owner.flags.owndata else None)
            flat.append(value if len(shape) == 1 else value.ravel())
        for i, k in pairs:
            one, other = owners[i], owners[k]
            apart = one is not other and one is not None and other is not None
            if not apart and may_share(values[i], values[k]):
                return None
        result = values[outputs[0]] if len(outputs) == 1 else tuple(values[k] for k in outputs)
        return flat, result

    return bind
