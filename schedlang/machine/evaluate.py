"""The value of a machine expression, by the NumPy twins of the intrinsics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from schedlang.compute.reference import reference
from schedlang.expr import dtypes
from schedlang.expr.operators import OPERATORS
from schedlang.instructions.declaration import Instruction
from schedlang.intrinsics import twins
from schedlang.intrinsics.twins import gpu as gpu_twins
from schedlang.machine.nodes import (
    Both,
    Cast,
    Choice,
    Column,
    Fn,
    Instructed,
    Iota,
    Load,
    Neg,
    Num,
    Op,
    Order,
    Reg,
    Splat,
    Value,
)
from schedlang.machine.text import CALLED, WRAPPING

_PYTHONS = {symbol: row.of_python for symbol, row in OPERATORS.items()}


class Evaluator:
    """An evaluator of values. ``loads`` counts the elements read from each array, by its name."""

    def __init__(self) -> None:
        self.loads: Counter[str] = Counter()

    def __call__(self, value: Value, space: Mapping[str, Any]) -> Any:
        """Return ``value``, where ``space`` holds the arrays and the registers by name."""
        if isinstance(value, Reg):
            return space[value.name]
        if isinstance(value, Num):
            return _number(value)
        if isinstance(value, Op):
            return _operation(value, self(value.a, space), self(value.b, space))
        if isinstance(value, Load):
            return self._load(value, space)
        if isinstance(value, Neg):
            a = self(value.a, space)
            scalar = value.type.dtype == "bool" and not value.type.lanes
            return not a if scalar else -a if value.op == "-" else ~a
        if isinstance(value, Cast):
            return cast(self(value.a, space), value.type.dtype)
        if isinstance(value, Splat):
            return twins.broadcast(self(value.a, space), value.type.lanes)
        if isinstance(value, Iota):
            return twins.iota(value.type.lanes)
        if isinstance(value, Fn):
            args = [self(a, space) for a in value.args]
            if value.index:
                return min(args) if value.name == "min" else max(args)
            return getattr(twins, value.name)(*args)
        if isinstance(value, Column):
            return space[value.columns.name][value.at]
        if isinstance(value, Instructed):
            return declared_value(value.instruction, [self(a, space) for a in value.args])
        if isinstance(value, Order):
            return value.lanes
        if isinstance(value, Both):
            return self(value.a, space) and self(value.b, space)
        assert isinstance(value, Choice)
        return self(value.a if self(value.cond, space) else value.b, space)

    def _load(self, value: Load, space: Mapping[str, Any]) -> Any:
        read = intrinsic(value.how, value.array.dtype)
        array, at, lanes = space[value.array.name], self(value.at, space), value.type.lanes
        mask = None if value.mask is None else self(value.mask, space)
        if value.how == "vload_if":
            assert value.other is not None
            self.loads[value.array.name] += lanes * bool(mask)
            return read(mask, array, at, self(value.other, space))
        count = max(lanes, 1) * max(value.columns, 1)
        if mask is not None:
            count = int(np.count_nonzero(mask))
        self.loads[value.array.name] += count
        if value.how == "vload_columns":
            return read(array, at, value.step, value.columns, lanes)
        more: list[Any] = [] if value.step == 1 else [value.step]
        if value.order is not None:
            more.append(self(value.order, space))
        elif mask is not None:
            more.append(mask)
        elif lanes and value.how != "vgather":
            more.append(lanes)
        return read(array, at, *more)


def intrinsic(how: str, dtype: str) -> Callable[..., Any]:
    """Return the twin of a load or store of an array of ``dtype``."""
    name = f"{how}_half" if dtype == "float16" else how
    own = "_aligned" in how or how.startswith("atomic_")
    twin = getattr(gpu_twins if own else twins, name)
    return _of_bfloats(how, twin) if dtype == "bfloat16" else twin


def _of_bfloats(how: str, access: Callable[..., Any]) -> Callable[..., Any]:
    """Return a load or store of bits as one of bfloat16 values, which are held as float32."""
    if "load" in how or "gather" in how:

        def read(*args: Any) -> Any:
            if how == "vload_if":
                args = (*args[:-1], twins.bfloat_bits(args[-1]))
            bits = access(*args)
            several = how == "vload_columns"
            return tuple(map(twins.bfloat_value, bits)) if several else twins.bfloat_value(bits)

        return read
    place = -2 if "masked" in how else -1

    def write(*args: Any) -> None:
        values = list(args)
        values[place] = twins.bfloat_bits(values[place])
        access(*values)

    return write


def cast(value: Any, dtype: str) -> Any:
    """Return ``value`` as ``dtype``; short floats are held as float32."""
    if dtype in dtypes.SHORT_FLOATS:
        return twins.half_from(value) if dtype == "float16" else twins.bfloat_from(value)
    return getattr(twins, "boolean" if dtype == "bool" else dtype)(value)


def declared_value(declared: Instruction, args: Sequence[Any]) -> Any:
    """Return what an instruction declares; its earlier value comes first if it accumulates."""
    given = args[len(args) - len(declared.operands) :]
    tiles = [
        np.asarray(a).view(dtypes.array_dtype(t.dtype)).reshape(t.shape)
        for a, t in zip(given, declared.operands)
    ]
    with np.errstate(all="ignore"):
        result = reference(declared.output)(*tiles)
        if declared.accumulates:
            result = result + args[0]
    held = np.asarray(result).astype(dtypes.register_dtype(declared.output.dtype))
    return held if declared.lanes > 1 else held[0]


def _number(value: Num) -> Any:
    dtype = value.type.dtype
    if dtype in ("int64", "bool"):
        return value.value
    return cast(value.value, dtypes.register_dtype(dtype))


def _operation(value: Op, a: Any, b: Any) -> Any:
    if value.index:
        return _PYTHONS[value.op](a, b)
    dtype, lanes = value.type.dtype, value.type.lanes
    called = CALLED.get(value.op)
    if dtype == "int64" and not lanes:
        called = called or WRAPPING.get(value.op)
    result = getattr(twins, called)(a, b) if called else _PYTHONS[value.op](a, b)
    narrow = dtypes.is_integer(dtype) and dtypes.itemsize(dtype) < 8 and not lanes
    return cast(result, dtype) if narrow else result
