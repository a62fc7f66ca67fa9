"""The short way into a kernel on a GPU, for arrays in its memory that need no conversion."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from schedlang.runtime.loaded import Memory
from schedlang.runtime.parameters import Signature


class Passed(NamedTuple):
    """The arguments of a call that needs no closer look, and what their libraries say of them."""

    memory: list[Memory]
    interfaces: list[Mapping[str, Any]]


def device_shortcut(
    signature: Signature, alignment: Sequence[int]
) -> Callable[[Sequence[Any]], Passed | None] | None:
    """Return a function from all arguments of a call, outputs too, to where they lie.

    Each is asked once for its ``__cuda_array_interface__``. It gives ``None`` for whatever deserves
    a closer look, right or wrong, as the CPU's shortcut. Signatures with sizes or scalars have no
    short way. ``alignment`` gives the bytes at a multiple of which each array must start.
    """
    parameters = signature.parameters
    if signature.sizes or any(p.is_scalar for p in parameters):
        return None
    wanted = [
        (tuple(p.shape), np.dtype(p.dtype).str, prod(map(int, p.shape)), np.dtype(p.dtype).itemsize)
        for p in parameters
    ]
    outputs = [k for k, p in enumerate(parameters) if p.is_output]
    pairs = [(i, k) for i in outputs for k in range(len(wanted)) if k != i]

    def bind(args: Sequence[Any]) -> Passed | None:
        if len(args) != len(wanted):
            return None
        memory, interfaces = [], []
        for value, (shape, typestr, length, itemsize), unit in zip(args, wanted, alignment):
            # memory that a CPU sees too is waited for
            if isinstance(value, np.ndarray) or getattr(value, "requires_grad", False):
                return None
            known = getattr(value, "__cuda_array_interface__", None)
            if known is None or known["shape"] != shape or known["typestr"] != typestr:
                return None
            if known.get("strides") is not None or known.get("mask") is not None:
                return None
            address = known["data"][0]
            if address % unit:
                return None
            memory.append(Memory(address, length, itemsize))
            interfaces.append(known)
        if any(interfaces[k]["data"][1] for k in outputs):
            return None
        for i, k in pairs:
            one, other = memory[i], memory[k]
            ends = one.address + one.length * one.itemsize, other.address + (
                other.length * other.itemsize)  # fmt: skip
            if one.address < ends[1] and other.address < ends[0]:
                return None
        return Passed(memory, interfaces)

    return bind


__all__ = ["Passed", "device_shortcut"]
