"""The interpreter: it runs a loop nest on NumPy arrays and checks every access.

The nest becomes one plain Python program over scalars of the declared dtypes. The interpreter
finds elements that were never written, indices outside a buffer, and elements that were finalised
more than once.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from schedlang.compute.arguments import single_unknown
from schedlang.compute.poison import run_in_poison
from schedlang.errors import CallError, VerifyError
from schedlang.expr.bfloat import as_array, convert_values, holding_dtype
from schedlang.expr.evaluate import evaluate
from schedlang.expr.nodes import Expr, Var
from schedlang.ir.extern_call import Extern
from schedlang.ir.nest import Nest
from schedlang.ir.nodes import Alloc, Buffer, For, If, walk
from schedlang.ir.predicate_threads import free_threads
from schedlang.ir.scalars import HELPERS
from schedlang.ir.transcribe import Transcript, transcribe

ORDERS = ("forward", "reverse", "shuffle")


@dataclass(frozen=True)
class Run:
    """The results of one run of a nest, with counts of its work.

    ``loads`` and ``stores`` count elements by buffer name. ``finalised`` holds an array per
    output: how often each element was written by a plain store.
    """

    outputs: tuple[np.ndarray, ...]
    loads: Mapping[str, int]
    stores: Mapping[str, int]
    iterations: int
    finalised: tuple[np.ndarray, ...]


class Memory:
    """The elements of one buffer; an element is ``None`` until it is written."""

    __slots__ = ("name", "shape", "strides", "data", "count", "final")

    def __init__(self, buffer: Buffer, shape: tuple[int, ...], count: list[int]) -> None:
        self.name = buffer.name
        self.shape = shape
        packed = tuple(prod(shape[k + 1 :]) for k in range(len(shape)))
        self.strides = buffer.strides or packed
        last = sum((n - 1) * s for n, s in zip(shape, self.strides))
        self.data: list[Any] = [None] * (last + 1 if all(shape) else 0)
        self.count = count
        self.final: list[int] | None = None

    def places(self, starts: tuple[int, ...], extents: tuple[int, ...]) -> list[int]:
        """Return the places of the elements of a box, in the order of the box."""
        for axis, (start, extent, size) in enumerate(zip(starts, extents, self.shape)):
            if start < 0 or start + extent > size:
                raise VerifyError(
                    f"the box {start}:{start + extent} in dimension {axis} of {self.name} is "
                    f"outside 0..{size}"
                )
        steps = zip(starts, extents, self.strides)
        grid = np.zeros((), int)
        for start, extent, step in steps:
            grid = grid[..., None] + (start + np.arange(extent)) * step
        return [int(place) for place in grid.ravel()]

    def fill(self, array: np.ndarray) -> None:
        self.data = array.ravel().tolist() if array.dtype == bool else list(array.ravel())


def interpret(
    nest: Nest,
    args: Sequence[Any],
    order: str = "forward",
    seed: int = 0,
    complete: bool = True,
) -> Run:
    """Run ``nest`` on ``args``: one value for each argument besides the outputs, in order.

    ``order`` is the order of parallel, vectorized and thread loops. With ``complete``, every
    element of every output must be finalised exactly once.

    Raise :class:`~schedlang.errors.VerifyError` if the nest breaks a rule, and
    :class:`~schedlang.errors.CallError` if ``args`` do not fit the nest.
    """
    if order not in ORDERS:
        raise CallError(
            f"interpret(order={order!r}): {order!r} is not an order; choose one of "
            f"{', '.join(ORDERS)}"
        )
    if cooperative(nest):
        raise CallError(
            f"interpret({nest.name}): its threads share storage, which needs barriers that the "
            'interpreter does not have; use sl.build(..., target="cuda-emulator") instead'
        )
    program = transcribe(nest)
    inputs = [a for a in nest.args if isinstance(a, Var) or a not in nest.outputs]
    if len(inputs) != len(args):
        raise CallError(f"{nest.name} takes {len(inputs)} arguments, got {len(args)}")
    values: dict[Var, Any] = {}
    shapes: list[tuple[int | Expr, int]] = []
    for arg, value in zip(inputs, args):
        if isinstance(arg, Buffer):
            shapes += _extents(arg, np.asarray(value))
        else:
            values[arg] = int(value) if arg.weak else convert_values(value, arg.dtype)
    _solve(shapes, values)
    counts: dict[str, list[int]] = {}
    memories = {}
    for arg in nest.args:
        if isinstance(arg, Buffer):
            count = counts.setdefault(arg.name, [0, 0])
            memories[arg] = Memory(arg, _shape(arg, values), count)
    for arg, value in zip(inputs, args):
        if isinstance(arg, Buffer):
            _fill(memories[arg], arg, np.asarray(value))
    for output in nest.outputs:
        memories[output].final = [0] * len(memories[output].data)
    ticks = _execute(program, memories, values, counts, _ordering(order, seed))
    outputs = tuple(_array(memories[b], b, complete) for b in nest.outputs)
    final = tuple(np.array(memories[b].final, int).reshape(memories[b].shape) for b in nest.outputs)
    for buffer, times in zip(nest.outputs, final):
        if complete and times.size and (times != 1).any():
            where = tuple(int(k) for k in np.argwhere(times != 1)[0])
            raise VerifyError(f"{buffer.name}{list(where)} is finalised {times[where]} times")
    return Run(
        outputs,
        {n: c[0] for n, c in counts.items()},
        {n: c[1] for n, c in counts.items()},
        ticks,
        final,
    )


def cooperative(nest: Nest) -> bool:
    """Return whether threads share storage that is allocated inside their loops.

    Plain loops cannot run such a nest: it needs barriers.
    """
    return any(
        (isinstance(stmt, For) and stmt.kind == "thread" and _shares(stmt))
        # a predicate over a thread axis whose loop does not enclose it
        or (isinstance(stmt, If) and stmt.predicate and bool(free_threads(stmt.cond, set())))
        for stmt, _ in walk(nest.body)
    )


def _shares(loop: For) -> bool:
    scopes = ("shared", "global") if loop.tag.startswith("threadIdx") else ("global",)
    return any(isinstance(s, Alloc) and s.buffer.scope in scopes for s, _ in walk(loop.body))


def _shape(buffer: Buffer, values: Mapping[Var, Any]) -> tuple[int, ...]:
    return tuple(e if isinstance(e, int) else int(evaluate(e, values)) for e in buffer.shape)


def _extents(buffer: Buffer, array: np.ndarray) -> list[tuple[int | Expr, int]]:
    if array.ndim != len(buffer.shape):
        raise CallError(f"{buffer.name} has {len(buffer.shape)} dimensions, got {array.ndim}")
    return list(zip(buffer.shape, array.shape))


def _solve(extents: Sequence[tuple[int | Expr, int]], values: dict[Var, Any]) -> None:
    """Add the sizes that the shapes determine to ``values``.

    Each size is solved from an extent with one unknown.
    """
    progress = True
    while progress:
        progress = False
        for extent, actual in extents:
            solution = None if isinstance(extent, int) else single_unknown(extent, actual, values)
            if solution is not None:
                values[solution[0]], progress = solution[1], True


def _fill(memory: Memory, buffer: Buffer, array: np.ndarray) -> None:
    if array.shape != memory.shape or array.dtype.name != buffer.dtype:
        raise CallError(
            f"{buffer.name} is {buffer.dtype}{list(memory.shape)}, got "
            f"{array.dtype}{list(array.shape)}"
        )
    memory.fill(array.astype(holding_dtype(buffer.dtype), copy=False))


def _array(memory: Memory, buffer: Buffer, complete: bool) -> np.ndarray:
    if complete and None in memory.data:
        raise VerifyError(f"element {memory.data.index(None)} of {buffer.name} was never written")
    result = np.zeros(len(memory.data), holding_dtype(buffer.dtype))
    for k, value in enumerate(memory.data):
        if value is not None:
            result[k] = value
    return as_array(result.reshape(memory.shape), buffer.dtype)


def _ordering(order: str, seed: int) -> Callable[[int], Iterable[int]]:
    if order == "forward":
        return range
    if order == "reverse":
        return lambda n: range(n - 1, -1, -1)
    rng = random.Random(seed)
    return lambda n: rng.sample(range(n), n) if n > 0 else ()


def _call_extern(
    stmt: Extern, boxes: Sequence[tuple[Memory, tuple[int, ...], tuple[int, ...]]]
) -> None:
    """Call a user's function with arrays of its boxes, then write its outputs back."""
    buffers, arrays = (*stmt.inputs, *stmt.outputs), []
    places = [memory.places(starts, extents) for memory, starts, extents in boxes]
    for k, (buffer, (memory, _, extents)) in enumerate(zip(buffers, boxes)):
        array = np.zeros(extents, buffer.dtype)
        if k < len(stmt.inputs):
            values = [memory.data[place] for place in places[k]]
            if None in values:
                raise VerifyError(
                    f"{stmt.function.name} reads {memory.name}, of which element "
                    f"{places[k][values.index(None)]} was never written"
                )
            array.ravel()[:] = values
            memory.count[0] += len(values)
        arrays.append(array)
    count = len(stmt.inputs)
    results = run_in_poison(
        f"stage {stmt.stage}, which {stmt.function.name} computes",
        stmt.function,
        arrays[:count],
        arrays[count:],
        [memory.name for memory, _, _ in boxes],
        [extents == memory.shape for memory, _, extents in boxes],
    )
    for (memory, _, _), array, own in zip(boxes[count:], results, places[count:]):
        elements: Any = array.ravel().tolist() if array.dtype == bool else array.ravel()
        for place, value in zip(own, elements):
            memory.data[place] = value
            if memory.final is not None:
                memory.final[place] += 1
        memory.count[1] += len(own)


def _execute(
    program: Transcript,
    memories: Mapping[Buffer, Memory],
    values: Mapping[Var, Any],
    counts: dict[str, list[int]],
    ordering: Callable[[int], Iterable[int]],
) -> int:
    def fresh(buffer: Buffer, shape: tuple[int, ...]) -> Memory:
        return Memory(buffer, shape, counts.setdefault(buffer.name, [0, 0]))

    ticks = [0]
    space: dict[str, Any] = {
        # messages leave out the lines of modules of schedlang
        "__name__": __name__,
        **HELPERS, **program.constants, "fresh": fresh, "ordered": ordering,
        "ticks": ticks, "call_extern": _call_extern
    }  # fmt: skip
    space.update({program.names[b]: m for b, m in memories.items()})
    space.update({program.names[v]: x for v, x in values.items() if v in program.names})
    exec(compile(program.source, "<nest>", "exec"), space)
    with np.errstate(all="ignore"):
        space["run"]()
    return ticks[0]


__all__ = ["Memory", "Run", "interpret"]
