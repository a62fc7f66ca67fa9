"""The short way into a kernel, for NumPy arrays and PyTorch tensors that need no conversion."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from sys import modules
from typing import Any, NamedTuple

import numpy as np

from schedlang.runtime.parameters import Signature

Bound = tuple[list[np.ndarray], Any]
Bind = Callable[[Sequence[Any]], "Bound | None"]
# bits of ndarray.flags.num, as NumPy's C API has them: one look in place of three
_CONTIGUOUS, _OWNED, _WRITEABLE = 0x1, 0x4, 0x400


class _Kind(NamedTuple):
    """What one array has to be: its dtype, its shape, and the flags that it has at least."""

    dtype: np.dtype
    shape: tuple[int, ...]
    needed: int


def shortcut(signature: Signature) -> Bind | None:
    """Return a function from a call's arguments to flat arrays and what the call returns.

    It gives ``None`` for whatever deserves a closer look, right or wrong: those arguments go
    through :class:`~schedlang.runtime.parameters.Binder`. Signatures with sizes, scalars or
    float16 have no short way.
    """
    parameters = signature.parameters
    if signature.sizes or any(p.is_scalar or p.dtype == "float16" for p in parameters):
        return None
    kinds = [
        _Kind(
            np.dtype(p.dtype), tuple(map(int, p.shape)),
            _CONTIGUOUS | (_WRITEABLE if p.is_output else 0),
        )
        for p in parameters
    ]  # fmt: skip
    outputs = [k for k, p in enumerate(parameters) if p.is_output]
    pairs = [(i, k) for i in outputs for k in range(len(kinds)) if k != i]
    count, inputs = len(kinds), len(kinds) - len(outputs)
    ndarray, empty, may_share = np.ndarray, np.empty, np.may_share_memory
    of_torch = _of_torch(kinds, outputs, pairs)

    def bind(args: Sequence[Any]) -> Bound | None:
        if args and type(args[0]) is not ndarray:
            return of_torch(args)
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


def _of_torch(
    kinds: Sequence[_Kind], outputs: Sequence[int], pairs: Sequence[tuple[int, int]]
) -> Bind:
    """Return the same for plain tensors on the CPU; parameters are such where no gradient is
    recorded."""
    count, inputs, may_share = len(kinds), len(kinds) - len(outputs), np.may_share_memory
    # of each output a tensor of one element that has its shape, to make others like it
    likes: dict[int, Any] = {}
    classes: tuple[Any, Any] = (None, None)

    def bind(args: Sequence[Any]) -> Bound | None:
        nonlocal classes
        torch = modules.get("torch")
        if torch is None or len(args) not in (count, inputs):
            return None
        if not likes:
            classes = torch.Tensor, torch.nn.Parameter
            for k in outputs:
                one = torch.empty((), dtype=getattr(torch, str(kinds[k].dtype)), device="cpu")
                likes[k] = one.expand(kinds[k].shape)
        tensor, parameter = classes
        made = len(args) == inputs
        given = iter(args)
        flat: list[np.ndarray] = []
        arrays: list[np.ndarray] = []
        results: list[Any] = []
        for k, (dtype, shape, needed) in enumerate(kinds):
            written = needed & _WRITEABLE
            value = torch.empty_like(likes[k]) if made and written else next(given)
            kind = type(value)
            if kind is not tensor and kind is not parameter:
                return None
            try:
                array = value.numpy()
            except Exception:
                # the closer look says why it shows no memory
                return None
            if array.dtype is not dtype or array.shape != shape:
                return None
            if array.flags.num & needed != needed:
                return None
            if written:
                results.append(value)
            arrays.append(array)
            flat.append(array if len(shape) == 1 else array.ravel())
        if not made:
            for i, k in pairs:
                if may_share(arrays[i], arrays[k]):
                    return None
        return flat, results[0] if len(results) == 1 else tuple(results)

    return bind
