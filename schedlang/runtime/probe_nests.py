"""The machine nests that measure the ceilings of a machine: multiply-adds, and copies.

Each is a pair: a loop for one thread, and the launch of such loops on all threads.
"""

from __future__ import annotations

from functools import reduce

from schedlang.ir.nodes import Buffer
from schedlang.machine.nest import MachineNest
from schedlang.machine.nodes import (
    INDEX,
    Array,
    Cast,
    Fn,
    For,
    Function,
    Hint,
    Iota,
    Let,
    Load,
    Num,
    Op,
    Reg,
    Run,
    Splat,
    Store,
    Type,
    Value,
)

Nests = tuple[MachineNest, MachineNest]
# more multiply-adds than any core has in flight, and they fit 16 registers
CHAINS = 12
TASK, WORKERS = Reg("task"), Reg("workers")


def multiply_adds(dtype: str, lanes: int) -> Nests:
    """Return ``chains(out, task, steps)`` and ``all_chains(out, workers, steps)``."""
    vector, out, steps = Type(dtype, lanes), _array("out", dtype), Reg("steps")
    a, b = (_splat(value, vector) for value in (0.999, 0.001))
    sums = [Reg(f"c{k}", vector) for k in range(CHAINS)]
    lane = Cast(Iota(Type(INDEX.dtype, lanes)), vector)
    # sums that begin alike would be one for LLVM
    starts = [Let(c, Op("+", lane, _splat(k / 8, vector), vector)) for k, c in enumerate(sums)]
    adds = tuple(Let(c, Fn("fma", (c, a, b), vector)) for c in sums)
    values: list[Value] = [*sums]
    total = reduce(lambda x, y: Op("+", x, y, vector), values)
    stored = Store("vstore", out, _product(TASK, Num(lanes)), total)
    loop = Function("chains", (out, TASK, steps), (*starts, For(Reg("step"), steps, adds), stored))
    launch = For(TASK, WORKERS, (Run("chains", (out, TASK, steps)),), parallel=True)
    return _nests(loop, Function("all_chains", (out, WORKERS, steps), (launch,), parallel=True))


def copies(dtype: str, lanes: int, store: str) -> Nests:
    """Return ``part(source, target, start, stop)`` and ``parts(source, target, workers, size)``.

    ``store`` is the intrinsic that writes a vector. Each worker copies ``size`` elements.

    >>> print(copies("float32", 16, "vstore")[0])
    part(source: float32[], target: float32[], start: int64, stop: int64):
      for at in start..stop step 16:
        vstore(target, at, vload(source, at, 16))
      stream_fence()
    """
    source, target = _array("source", dtype), _array("target", dtype)
    start, stop, size, at = Reg("start"), Reg("stop"), Reg("size"), Reg("at")
    copied = Store(store, target, at, Load("vload", source, at, Type(dtype, lanes)))
    loop = Function(
        "part", (source, target, start, stop),
        (For(at, stop, (copied,), step=lanes, start=start), Hint("stream_fence")),
    )  # fmt: skip
    first = _product(TASK, size)
    last = Op("+", first, size, index=True)
    launch = For(TASK, WORKERS, (Run("part", (source, target, first, last)),), parallel=True)
    parameters = source, target, WORKERS, size
    return _nests(loop, Function("parts", parameters, (launch,), parallel=True))


def _nests(loop: Function, launch: Function) -> Nests:
    return MachineNest((loop,)), MachineNest((loop, launch))


def _array(name: str, dtype: str) -> Array:
    # a function reads no more of an array than its parameters say
    return Array(name, Buffer(name, dtype, (1,)))


def _splat(value: float, vector: Type) -> Value:
    return Splat(Num(value, Type(vector.dtype)), vector)


def _product(a: Value, b: Value) -> Value:
    return Op("*", a, b, index=True)
