"""The computation to tune, as data that goes to a process elsewhere."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from math import prod
from typing import Any

import numpy as np

from schedlang.autotune.record import checked_text
from schedlang.compute.data import from_data, to_data
from schedlang.compute.graph import operations, placeholders, variables
from schedlang.compute.tensor import ComputeOp, Tensor
from schedlang.expr.evaluate import evaluate
from schedlang.expr.nodes import Cast, Expr, Var
from schedlang.expr.visit import preorder
from schedlang.target import Cache, Target

EPSILON = {"float16": 2.0**-10, "float32": 2.0**-23, "float64": 2.0**-52}


@dataclass(frozen=True)
class Limits:
    """The limits of a candidate: seconds to ``build``, seconds to ``run``, bytes of ``memory``.

    ``run`` bounds the call that is checked, and again the calls that are timed. ``memory`` bounds
    what a process takes beyond what it and its threads start with: by default half of the machine's
    memory, 0 for no limit. A candidate beyond a limit is a failed trial.
    """

    build: float = 20.0
    run: float = 10.0
    memory: int | None = None

    def on(self, memory: int) -> Limits:
        """Return these limits for a machine with ``memory`` bytes."""
        return self if self.memory is not None else replace(self, memory=memory // 2)


@dataclass(frozen=True)
class Task:
    """A computation, where it is to run, on what data, and what counts as right.

    ``inputs`` are arrays in the order of the placeholders, or none: then they are made from
    ``seed``. A result is right where it is off by at most ``tolerance`` of its own size plus the
    size typical for its array; integers only where floats are cast to integers, of which few may
    be rounded to a neighbour too.
    """

    outputs: tuple[Tensor, ...]
    target: Target
    sizes: Mapping[str, int]
    inputs: Sequence[np.ndarray[Any, Any]] | None = None
    seed: int = 0
    tolerance: float = 1e-4
    limits: Limits = Limits()
    timed: bool = True

    @cached_property
    def values(self) -> dict[Var, int]:
        """The values of the symbolic sizes."""
        return {v: self.sizes[v.name] for v in variables(self.outputs) if v.name in self.sizes}

    @property
    def bytes(self) -> int:
        """Return what the inputs and outputs take."""
        tensors = [*placeholders(self.outputs), *self.outputs]
        return sum(prod(self.shape(t)) * np.dtype(t.dtype).itemsize for t in tensors)

    def shape(self, tensor: Tensor) -> tuple[int, ...]:
        """Return the extents of a tensor, as numbers."""
        return tuple(
            int(evaluate(e, self.values)) if isinstance(e, Expr) else e for e in tensor.shape
        )

    @cached_property
    def _casts(self) -> bool:
        """Return whether floats are cast to integers: one may be off where a sum has another
        order."""
        roots = [root for op in operations(self.outputs) if isinstance(op, ComputeOp)
                 for root in op.roots]  # fmt: skip
        return any(
            isinstance(e, Cast) and e.dtype not in EPSILON and e.a.dtype in EPSILON
            for e in preorder(roots)
        )

    def tolerance_of(self, tensor: Tensor) -> float:
        """Return how far elements of an output may be off; 0 where they are to be the same."""
        return self.tolerance if tensor.dtype in EPSILON or self.rounds(tensor) else 0.0

    def rounds(self, tensor: Tensor) -> bool:
        """Return whether an output is of integers that may be rounded to a neighbour of what is
        right."""
        return self._casts and tensor.dtype not in (*EPSILON, "bool")

    @property
    def runs(self) -> bool:
        """Return whether candidates run: for a GPU that is not there they are only compiled."""
        return self.timed or self.target.kind != "cuda"

    @cached_property
    def data(self) -> dict[str, Any]:
        """Return what JSON holds.

        :func:`task_from_data` reads it. Made once: inputs may be large.
        """
        given = None if self.inputs is None else [_packed(a) for a in self.inputs]
        return {
            "computation": to_data(self.outputs), "target": target_data(self.target),
            "sizes": dict(self.sizes),
            "inputs": given, "seed": self.seed, "tolerance": self.tolerance,
            "limits": [self.limits.build, self.limits.run, self.limits.memory],
            "timed": self.timed,
        }  # fmt: skip

    @cached_property
    def checked(self) -> str:
        """Return what counts as right, as a text to compare: under another, "ok" may be wrong."""
        given = sha256()
        for array in self.inputs or ():
            given.update(np.ascontiguousarray(array).tobytes())
        return checked_text(self.tolerance, given.hexdigest()[:16] if self.inputs else "")

    @property
    def limited(self) -> str:
        """Return what a candidate may take, as a text to compare: what failed may do under
        another."""
        limits = self.limits
        memory = limits.memory or 0
        held = f"{memory / 2**30:.1f} GiB" if memory >= 2**30 or not memory else f"{memory} bytes"
        return f"{limits.build:g} s, {limits.run:g} s, {held}"


_TARGET = ("kind", "vector_bytes", "vector_registers", "arch", "datapath_bytes")


def target_data(target: Target) -> dict[str, Any]:
    """Return a target as data, of which :func:`target_from` is the same on any machine."""
    caches = [[cache.size, cache.ways] for cache in target.caches]
    return {name: getattr(target, name) for name in _TARGET} | {"caches": caches}


def target_from(data: Mapping[str, Any]) -> Target:
    """Return the target that :func:`target_data` holds."""
    caches = tuple(Cache(int(size), int(ways)) for size, ways in data["caches"])
    return Target(**{name: data[name] for name in _TARGET}, caches=caches)


def task_from_data(data: Mapping[str, Any]) -> Task:
    """Return the task that :attr:`Task.data` holds: data in, no code."""
    given = data["inputs"]
    return Task(
        from_data(data["computation"]), target_from(data["target"]), dict(data["sizes"]),
        None if given is None else [_unpacked(text) for text in given],
        int(data["seed"]), float(data["tolerance"]), Limits(*data["limits"]), bool(data["timed"]),
    )  # fmt: skip


def _packed(array: np.ndarray[Any, Any]) -> str:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return base64.b64encode(file.getvalue()).decode()


def _unpacked(text: str) -> np.ndarray[Any, Any]:
    found: np.ndarray[Any, Any] = np.load(io.BytesIO(base64.b64decode(text)), allow_pickle=False)
    return found


def tolerance_for(outputs: Sequence[Tensor]) -> float:
    """Return a bound on rounding errors, which grows with the root of a sum's length as they do.

    Integers and booleans have none. (Higham, Accuracy and Stability of Numerical Algorithms, 2nd
    edition, section 4.2: the square root stands for errors that are not all of one sign.)

    >>> import schedlang as sl
    >>> A = sl.placeholder((4,), name="A", dtype="int32")
    >>> tolerance_for([sl.compute((4,), lambda i: A[i] + 1, name="B")])
    0.0
    """
    worst = 0.0
    for op in operations(outputs):
        if not isinstance(op, ComputeOp):
            continue
        length = 1
        for axis in op.reduce_axis:
            length *= axis.extent if isinstance(axis.extent, int) else 1 << 12
        for tensor in op.outputs:
            worst += EPSILON.get(tensor.dtype, 0.0) * (16 + 4 * length**0.5)
    if all(t.dtype not in EPSILON for t in outputs):
        return 0.0
    return worst
