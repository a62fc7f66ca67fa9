"""Time stamps around the calls of a linked nest's entry: a network that measures its kernels."""

from __future__ import annotations

from dataclasses import replace

from schedlang.intrinsics.dialect import NAMES
from schedlang.ir.nodes import Buffer
from schedlang.machine.identifiers import Names
from schedlang.machine.nest import MachineNest
from schedlang.machine.nodes import INDEX, Array, Fn, Num, Run, Stmt, Store


def with_call_stamps(nest: MachineNest) -> MachineNest:
    """Return a nest whose entry stores the ticks at its start and after each of its calls.

    The entry takes an array of int64 after its other parameters, with one element more than it
    makes calls.

    >>> from schedlang.machine.nodes import Function
    >>> x = Array("x", Buffer("x", "float32", (8,)))
    >>> copy = Function("copy", (x,), ())
    >>> entry = Function("network", (x,), (Run("copy", (x,)), Run("copy", (x,))))
    >>> print(with_call_stamps(MachineNest((copy, entry))))
    copy(x: float32[]):
    <BLANKLINE>
    network(x: float32[], times: int64[]):
      store(times, 0, ticks())
      copy(x)
      store(times, 1, ticks())
      copy(x)
      store(times, 2, ticks())
    """
    names = Names({*NAMES, *nest.identifiers()})
    entry = nest.entry
    calls = sum(isinstance(stmt, Run) for stmt in entry.body)
    name = names.fresh("times")
    times = Array(name, Buffer(name, "int64", (calls + 1,)))
    body: list[Stmt] = []
    count = 0
    for stmt in entry.body:
        if isinstance(stmt, Run):
            if not count:
                body.append(_stamp(times, 0))
            count += 1
            body += [stmt, _stamp(times, count)]
        else:
            body.append(stmt)
    stamped = replace(entry, parameters=(*entry.parameters, times), body=tuple(body))
    return nest.with_functions([*nest.functions[:-1], stamped])


def _stamp(times: Array, place: int) -> Store:
    return Store("store", times, Num(place), Fn("ticks", (), INDEX))
