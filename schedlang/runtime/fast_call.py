"""The fast path of a call, for NumPy arrays and PyTorch tensors that need no conversion."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from sys import modules
from typing import Any

import numpy as np

from schedlang.runtime.parameters import Signature

Bound = tuple[list[np.ndarray], Any]
# the dtype, the shape and the flags that an array must have
Kind = tuple[np.dtype, tuple[int, ...], int]
Bind = Callable[[Sequence[Any]], "Bound | None"]
# the bit of ndarray.flags.num of an array that owns its memory, by NumPy's C API
_OWNED = 0x4


def fast_call(signature: Signature) -> Bind | None:
    """Return a function that maps a call's arguments to flat arrays and the call's result.

    It returns ``None`` for arguments that need the full checks, right or wrong: these go through
    :class:`~schedlang.runtime.parameters.Binder`. A signature with sizes, scalars, short
    floats, complex numbers or declared facts has no fast path, and ``None`` is returned for it.
    """
    if not signature.is_plain:
        return None
    # a plain tuple unpacks faster
    kinds = [(n.dtype, n.shape or (), n.flags) for n in (p.needed for p in signature.parameters)]
    pairs = signature.pairs
    outputs = [k for k, p in enumerate(signature.parameters) if p.is_output]
    slots = [(shape, dtype, k in outputs) for k, (dtype, shape, _) in enumerate(kinds)]
    count, inputs = len(kinds), len(kinds) - len(outputs)
    ndarray, empty, may_share = np.ndarray, np.empty, np.may_share_memory
    bind_tensors = _tensor_fast_call(kinds, outputs, pairs)

    def bind(args: Sequence[Any]) -> Bound | None:
        if args and type(args[0]) is not ndarray:
            return bind_tensors(args)
        if len(args) == count:
            values = args
        elif len(args) == inputs:
            rest = iter(args)
            values = [
                empty(shape, dtype) if is_new else next(rest) for shape, dtype, is_new in slots
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
                # a view: its owner is known only if that is an array of NumPy
                base = value.base
                owners.append(base if type(base) is ndarray and base.flags.owndata else None)
            flat.append(value if len(shape) == 1 else value.ravel())
        for i, k in pairs:
            one, other = owners[i], owners[k]
            distinct = one is not other and one is not None and other is not None
            if not distinct and may_share(values[i], values[k]):
                return None
        result = values[outputs[0]] if len(outputs) == 1 else tuple(values[k] for k in outputs)
        return flat, result

    return bind


def _tensor_fast_call(
    kinds: Sequence[Kind], outputs: Sequence[int], pairs: Sequence[tuple[int, int]]
) -> Bind:
    """Return the fast path for plain tensors on the CPU.

    It also takes parameters of PyTorch while no gradient is recorded.
    """
    count, inputs, may_share = len(kinds), len(kinds) - len(outputs), np.may_share_memory
    # for each output a one-element tensor expanded to its shape, for empty_like
    prototypes: dict[int, Any] = {}
    classes: tuple[Any, Any] = (None, None)

    def bind(args: Sequence[Any]) -> Bound | None:
        nonlocal classes
        torch = modules.get("torch")
        if torch is None or len(args) not in (count, inputs):
            return None
        if not prototypes:
            classes = torch.Tensor, torch.nn.Parameter
            for k in outputs:
                dtype, shape, _ = kinds[k]
                one = torch.empty((), dtype=getattr(torch, str(dtype)), device="cpu")
                prototypes[k] = one.expand(shape)
        tensor, parameter = classes
        allocate = len(args) == inputs
        rest = iter(args)
        flat: list[np.ndarray] = []
        arrays: list[np.ndarray] = []
        results: list[Any] = []
        for k, (dtype, shape, needed) in enumerate(kinds):
            is_output = k in prototypes
            value = torch.empty_like(prototypes[k]) if allocate and is_output else next(rest)
            kind = type(value)
            if kind is not tensor and kind is not parameter:
                return None
            try:
                array = value.numpy()
            except Exception:
                # the full checks say why the tensor has no NumPy array
                return None
            if array.dtype is not dtype or array.shape != shape:
                return None
            if array.flags.num & needed != needed:
                return None
            if is_output:
                results.append(value)
            arrays.append(array)
            flat.append(array if len(shape) == 1 else array.ravel())
        if not allocate:
            for i, k in pairs:
                if may_share(arrays[i], arrays[k]):
                    return None
        return flat, results[0] if len(results) == 1 else tuple(results)

    return bind
