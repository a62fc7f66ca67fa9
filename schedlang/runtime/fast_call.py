"""The fast path of a call, for NumPy arrays and PyTorch tensors that need no conversion."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from sys import modules
from typing import Any

import numpy as np

from schedlang.runtime.arrays import LARGE, empty_array
from schedlang.runtime.parameters import Parameter, Signature

Bound = tuple[list[np.ndarray], Any]
# the dtype, the shape and the flags that an array must have
Kind = tuple[np.dtype, tuple[int, ...], int]
Bind = Callable[[Sequence[Any]], "Bound | None"]
# the bit of ndarray.flags.num of an array that owns its memory, by NumPy's C API
_OWNED = 0x4
LARGEST = 2**63 - 1


def _no_call(args: Sequence[Any]) -> None:
    """Bind no arguments: each call needs the full checks."""


def fast_call(signature: Signature, sizes_checked: bool = True) -> Bind | None:
    """Return a function that maps a call's arguments to flat arrays and the call's result.

    It returns ``None`` for arguments that need the full checks, right or wrong: these go through
    :class:`~schedlang.runtime.parameters.Binder`. A signature with sizes, short floats or
    declared facts has no fast path, and ``None`` is returned for it. A scalar has one if it is of
    its dtype. An integer, which may be a size, has one unless ``sizes_checked`` says that
    a call checks more than its sign.
    """
    if signature.sizes or not all(map(_is_passed_on, signature.parameters)):
        return None
    if sizes_checked and any(p.is_size for p in signature.parameters):
        return None
    # a plain tuple unpacks faster
    kinds = [(n.dtype, n.shape or (), n.flags) for n in (p.needed for p in signature.parameters)]
    # the class of each scalar, in place of the dtype of an array
    scalars = [p.needed.dtype.type if p.is_scalar else None for p in signature.parameters]
    parts = [None if p.is_scalar else p.parts for p in signature.parameters]
    pairs = [(i, k, (i, k) in signature.in_place) for i, k in signature.pairs]
    outputs = [k for k, p in enumerate(signature.parameters) if p.is_output]
    slots = [
        (shape, dtype, _function_of_new(shape, dtype) if k in outputs else None)
        for k, (dtype, shape, _) in enumerate(kinds)
    ]
    count, inputs = len(kinds), len(kinds) - len(outputs)
    ndarray, may_share, int64 = np.ndarray, np.may_share_memory, np.int64
    weak: dict[Any, type] = {np.float64: float, np.int64: int}
    plain = signature.is_plain
    bind_tensors = _tensor_fast_call(kinds, outputs, signature.pairs) if plain else _no_call

    def bind(args: Sequence[Any]) -> Bound | None:
        if args and type(args[0]) is not ndarray:
            return bind_tensors(args)
        if len(args) == count:
            values = args
        elif len(args) == inputs:
            rest = iter(args)
            values = [
                next(rest) if new is None else new(shape, dtype) for shape, dtype, new in slots
            ]
        else:
            return None
        flat: list[Any] = []
        owners: list[np.ndarray | None] = []
        for value, scalar, part, (dtype, shape, needed) in zip(values, scalars, parts, kinds):
            if scalar is not None:
                if type(value) is not scalar:
                    if type(value) is not weak.get(scalar):
                        return None
                    if scalar is int64 and value > LARGEST:  # type: ignore[operator]
                        return None
                    value = scalar(value)
                if scalar is int64 and value < 0:
                    return None
                flat.append(value)
                owners.append(None)
                continue
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
            if part is not None:
                flat.append(value.ravel().view(part))
            else:
                flat.append(value if len(shape) == 1 else value.ravel())
        for i, k, same in pairs:
            if same and values[i] is values[k]:
                continue
            one, other = owners[i], owners[k]
            distinct = one is not other and one is not None and other is not None
            if not distinct and may_share(values[i], values[k]):
                return None
        result = values[outputs[0]] if len(outputs) == 1 else tuple(values[k] for k in outputs)
        return flat, result

    return bind


def _is_passed_on(p: Parameter) -> bool:
    """Return whether a call passes on an argument that fits, or the parts of its elements."""
    return p.is_plain_scalar or p.is_plain or (p.is_whole and p.parts is not None)


def _function_of_new(shape: tuple[int, ...], dtype: Any) -> Callable[..., np.ndarray]:
    """Return the function that allocates an output: NumPy's own is faster for a small one."""
    return np.empty if math.prod(shape) * dtype.itemsize < LARGE else empty_array


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
