"""The functions of users that a kernel calls: their addresses, and the errors of a call.

A kernel takes a table with the addresses after its other parameters, so that its machine code does
not depend on them. Element 0 of the table is the position of the first function that failed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from schedlang.compute.extern_op import ADDRESS, HOST, ExternFunction
from schedlang.compute.poison import run_in_poison
from schedlang.errors import CallError, explain
from schedlang.machine.nest import MachineNest
from schedlang.machine.nodes import Invoke
from schedlang.runtime.host_callbacks import callback


@dataclass(frozen=True)
class Called:
    """A function with the dtype and the dimensions of each box, and which boxes have no gaps.

    The first ``inputs`` of the boxes are read.
    """

    function: ExternFunction
    dtypes: tuple[str, ...]
    ranks: tuple[int, ...]
    packed: tuple[bool, ...]
    inputs: int


class ExternTable:
    """The functions that a machine nest calls, at their positions behind element 0 of a table.

    ``what`` names the kernel or the network in messages. If it is ``interpreted``, the table has
    functions of Python. ``at`` is the place of the table among the parameters of the entry.
    """

    def __init__(self, functions: Sequence[Called], what: str, at: int, interpreted: bool) -> None:
        self.functions, self.what = functions, what
        self.at, self.interpreted = at, interpreted

    @cached_property
    def addresses(self) -> np.ndarray:
        """The table, without the functions of Python: these get an address in each call."""
        return np.array([0, *map(_address, self.functions)], np.int64)

    def prepare(self) -> None:
        """Compile what numba compiles; raise ``BuildError`` for a function that it refuses."""
        if not self.interpreted:
            _ = self.addresses

    def with_table(self, function: Callable[..., None]) -> Callable[..., None]:
        """Return ``function``, which takes the table, as a function without it."""
        if self.interpreted:
            runs = [None, *(partial(_run, self.what, called) for called in self.functions)]
            return lambda *flat: function(*flat[: self.at], runs, *flat[self.at :])
        hosts = [(k, c) for k, c in enumerate(self.functions, 1) if c.function.kind == HOST]

        def start(*flat: Any) -> None:
            table, errors = self.addresses.copy(), list[BaseException]()
            callbacks = [callback(called, errors) for _, called in hosts]
            for (position, _), (address, _) in zip(hosts, callbacks):
                table[position] = address
            function(*flat[: self.at], table, *flat[self.at :])
            if errors:
                raise errors[0]
            if table[0]:
                raise CallError(self._failure(self.functions[int(table[0]) - 1].function))

        return start

    def _failure(self, function: ExternFunction) -> str:
        if function.kind == ADDRESS:
            return explain(
                self.what,
                f"the C function {function.name} returned a number other than 0, so it failed",
                "Return 0 at its end if it succeeds. The output is not complete.",
            )
        return explain(
            self.what,
            f"{function.name} raised an exception, whose text compiled code does not keep",
            "Call it with arrays to see it; a stage of sl.extern shows it under "
            'target="python", too. The output is not complete.',
        )


def _run(what: str, called: Called, *arrays: np.ndarray) -> None:
    """Call a function with arrays of kernels, in which short floats are bits.

    It gets copies, so that what it does outside of its boxes shows.
    """
    kinds = zip(arrays, called.dtypes)
    boxes = [a if a.dtype == kind else a.view(kind) for a, kind in kinds]
    read, written = boxes[: called.inputs], boxes[called.inputs :]
    names = [f"input {k}" for k in range(1, len(read) + 1)]
    names += [f"output {k}" for k in range(1, len(written) + 1)]
    title, function = f"{what}: {called.function.name}", called.function
    results = run_in_poison(title, function, read, written, names, called.packed)
    for box, result in zip(written, results):
        box[...] = result


def called_in(nest: MachineNest) -> tuple[Called, ...]:
    """Return what a machine nest calls, by the positions in its table."""
    by_position = {stmt.position: called_by(stmt) for stmt in nest.invoked}
    return tuple(by_position[k] for k in sorted(by_position))


def called_by(stmt: Invoke) -> Called:
    """Return what a statement calls."""
    arrays = stmt.given
    return Called(
        stmt.function,
        tuple(array.dtype for array in arrays),
        stmt.ranks,
        stmt.packed,
        stmt.inputs,
    )


def _address(called: Called) -> int:
    function = called.function
    if function.kind == HOST:
        return 0
    if function.kind == ADDRESS:
        return int(function.call)
    from schedlang.runtime.numba_externs import compiled_address

    return compiled_address(called)
