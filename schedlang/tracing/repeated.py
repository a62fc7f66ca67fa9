"""A loop over one kernel: its calls are checked until they repeat."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Sequence
from itertools import cycle
from typing import Any

import numpy as np

from schedlang.runtime.kernel import Kernel


def run_repeated(
    kernel: Kernel, iterations: range, first: int, read: Sequence[Any], carries: list[Any],
    inputs: Sequence[int], leaving: Sequence[int],
) -> list[Any]:  # fmt: skip
    """Return the carries after a call of ``kernel`` for each of ``iterations``.

    The values of an iteration are its index less ``first``, what it reads, the carries, and what
    the kernel makes. ``inputs`` are the positions of the kernel's inputs among them, ``leaving``
    those of the next carries. The kernel writes into arrays that earlier calls made: into one that
    it reads, if it may, or one that is no carry any more. After a few calls the arrays are the same
    again.
    """
    outputs = [(tuple(map(int, p.shape)), p.dtype) for p in kernel.signature.outputs]
    free: list[list[Any]] = [[] for _ in outputs]
    made_for: dict[int, int] = {}
    seen: dict[object, int] = {}
    calls: list[tuple[Any, list[Any]]] = []
    before: list[list[Any]] = []
    for i in iterations:
        key = tuple(map(id, carries)), tuple(tuple(map(id, arrays)) for arrays in free)
        if key in seen:
            known = seen[key]
            left = iterations[len(calls) :]
            _repeat(calls[known:], left, first, inputs)
            return before[known + len(left) % (len(calls) - known)]
        seen[key] = len(calls)
        before.append(carries)
        values = [i - first, *read, *carries]
        own = _overwritten(kernel, values, inputs, leaving, made_for)
        made = [
            own[k] if k in own else free[k].pop() if free[k] else np.empty(shape, dtype)
            for k, (shape, dtype) in enumerate(outputs)
        ]
        made_for |= {id(array): k for k, array in enumerate(made)}
        values += made
        function, given = kernel.bound(*(values[k] for k in inputs), *made)
        function(*given)
        calls.append((function, given))
        after = [values[k] for k in leaving]
        kept = {id(array) for array in after}
        for array in {id(a): a for a in carries}.values():
            if id(array) in made_for and id(array) not in kept:
                free[made_for[id(array)]].append(array)
        carries = after
    return carries


def _overwritten(
    kernel: Kernel, values: Sequence[Any], inputs: Sequence[int], leaving: Sequence[int],
    made: Container[int],
) -> dict[int, Any]:  # fmt: skip
    """Return, by output, the input that the kernel may overwrite with it.

    It is an array whose ``id`` is in ``made``, which nothing else reads and which is no next carry.
    """
    read = Counter(id(values[at]) for at in inputs)
    passed = {id(values[at]) for at in leaving if at < len(values)}
    found: dict[int, Any] = {}
    taken: set[int] = set()
    for output, given in sorted(kernel.signature.in_place):
        array, k = values[inputs[given]], output - len(inputs)
        free = id(array) in made and read[id(array)] == 1 and id(array) not in passed | taken
        if free and k not in found:
            found[k] = array
            taken.add(id(array))
    return found


def _repeat(
    calls: Sequence[tuple[Any, list[Any]]], iterations: range, first: int, inputs: Sequence[int]
) -> None:
    """Make the calls again, one for each of ``iterations``, whose index is the only change."""
    index = inputs.index(0) if 0 in inputs else None
    for i, (function, given) in zip(iterations, cycle(calls)):
        if index is not None:
            given[index] = np.int64(i - first)
        function(*given)
