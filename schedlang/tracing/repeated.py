"""A loop over one kernel: its calls are checked until they repeat."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Sequence
from itertools import cycle
from typing import Any

import numpy as np

from schedlang.runtime.kernel import Kernel


def run_repeated(
    kernel: Kernel,
    iterations: range,
    first: int,
    read: Sequence[Any],
    carries: list[Any],
    inputs: Sequence[int],
    leaving: Sequence[int],
) -> list[Any]:
    """Return the carries after a call of ``kernel`` for each of ``iterations``.

    The values of an iteration are, in this order, its index less ``first``, what it reads, the
    carries, and the results of the kernel. ``inputs`` are the positions of the kernel's inputs
    among them, ``leaving`` the positions of the next carries. The kernel writes into arrays that
    earlier calls made: into one that it reads, if it may, or into one that is not a carry any more.
    After a few calls, the same arrays come again.
    """
    outputs = [(tuple(map(int, p.shape)), p.dtype) for p in kernel.signature.outputs]
    free: list[list[Any]] = [[] for _ in outputs]
    made_for: dict[int, int] = {}
    calls_by_key: dict[object, int] = {}
    calls: list[tuple[Any, list[Any]]] = []
    before: list[list[Any]] = []
    for i in iterations:
        key = tuple(map(id, carries)), tuple(tuple(map(id, arrays)) for arrays in free)
        if key in calls_by_key:
            first_call = calls_by_key[key]
            remaining = iterations[len(calls) :]
            _repeat(calls[first_call:], remaining, first, inputs)
            return before[first_call + len(remaining) % (len(calls) - first_call)]
        calls_by_key[key] = len(calls)
        before.append(carries)
        values = [i - first, *read, *carries]
        own = _overwritable_inputs(kernel, values, inputs, leaving, made_for)
        results = [
            own[k] if k in own else free[k].pop() if free[k] else np.empty(shape, dtype)
            for k, (shape, dtype) in enumerate(outputs)
        ]
        made_for |= {id(array): k for k, array in enumerate(results)}
        values += results
        function, arguments = kernel.bound(*(values[k] for k in inputs), *results)
        function(*arguments)
        calls.append((function, arguments))
        after = [values[k] for k in leaving]
        living = {id(array) for array in after}
        for array in {id(a): a for a in carries}.values():
            if id(array) in made_for and id(array) not in living:
                free[made_for[id(array)]].append(array)
        carries = after
    return carries


def _overwritable_inputs(
    kernel: Kernel,
    values: Sequence[Any],
    inputs: Sequence[int],
    leaving: Sequence[int],
    own_arrays: Container[int],
) -> dict[int, Any]:
    """Return, by output, the input that the kernel may overwrite with it.

    An overwritten input is an array whose ``id`` is in ``own_arrays``. Nothing else reads it, and
    it is not part of the next carry.
    """
    read = Counter(id(values[at]) for at in inputs)
    passed = {id(values[at]) for at in leaving if at < len(values)}
    targets: dict[int, Any] = {}
    chosen: set[int] = set()
    for output, position in sorted(kernel.signature.in_place):
        array, k = values[inputs[position]], output - len(inputs)
        free = id(array) in own_arrays and read[id(array)] == 1 and id(array) not in passed | chosen
        if free and k not in targets:
            targets[k] = array
            chosen.add(id(array))
    return targets


def _repeat(
    calls: Sequence[tuple[Any, list[Any]]], iterations: range, first: int, inputs: Sequence[int]
) -> None:
    """Make the calls again, one for each of ``iterations``, whose index is the only change."""
    index = inputs.index(0) if 0 in inputs else None
    for i, (function, arguments) in zip(iterations, cycle(calls)):
        if index is not None:
            arguments[index] = np.int64(i - first)
        function(*arguments)
