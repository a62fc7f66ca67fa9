"""The fast path of a call on a GPU, for arrays in its memory that need no conversion."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from schedlang.ir.array_rules import rules_for
from schedlang.runtime.launch import Memory
from schedlang.runtime.parameters import Signature


class Passed(NamedTuple):
    """The arguments of a call on the fast path, their memory and ``__cuda_array_interface__``."""

    args: Sequence[Any]
    memory: list[Memory]
    interfaces: list[Mapping[str, Any]]


Bind = Callable[[Sequence[Any]], "tuple[Passed, Any] | None"]


def device_fast_call(signature: Signature, alignment: Sequence[int]) -> Bind | None:
    """Return a function that binds all arguments of a call, outputs too, and returns these as well.

    It reads the ``__cuda_array_interface__`` of each once. It returns ``None`` for arguments that
    need the full checks, right or wrong, as on the CPU's fast path. A signature with sizes,
    scalars, short floats, complex numbers or declared facts has no fast path, and ``None`` is
    returned for it, as for a rule about memory that an interface cannot tell. Each array must start
    at a multiple of as many bytes as ``alignment`` says.
    """
    rules = [[r.interface for r in rules_for(p.is_output)] for p in signature.parameters]
    tests = [[test for test in of if test is not None] for of in rules]
    if not signature.is_plain or tests != rules:
        return None
    kinds, pairs = [p.needed for p in signature.parameters], signature.pairs
    forms = [
        (kind.shape, kind.dtype.str, prod(kind.shape or ()), kind.dtype.itemsize) for kind in kinds
    ]

    outputs = [k for k, p in enumerate(signature.parameters) if p.is_output]

    def bind(args: Sequence[Any]) -> tuple[Passed, Any] | None:
        if len(args) != len(forms):
            return None
        memory, interfaces = [], []
        for value, (shape, typestr, length, itemsize), unit, kept in zip(
            args, forms, alignment, tests
        ):
            # a NumPy array over memory of a GPU must be waited for
            if isinstance(value, np.ndarray) or getattr(value, "requires_grad", False):
                return None
            interface = getattr(value, "__cuda_array_interface__", None)
            if interface is None or interface["shape"] != shape or interface["typestr"] != typestr:
                return None
            if interface.get("mask") is not None:
                return None
            for test in kept:
                if not test(interface):
                    return None
            address = interface["data"][0]
            if address % unit:
                return None
            memory.append(Memory(address, length, itemsize))
            interfaces.append(interface)
        for i, k in pairs:
            one, other = memory[i], memory[k]
            ends = (
                one.address + one.length * one.itemsize,
                other.address + (other.length * other.itemsize),
            )
            if one.address < ends[1] and other.address < ends[0]:
                return None
        return (
            Passed(args, memory, interfaces),
            args[outputs[0]] if len(outputs) == 1 else tuple(args[k] for k in outputs),
        )

    return bind
