"""The task of a search: the computation, its data and its limits, which other processes get."""

from __future__ import annotations

import base64
import io
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from schedlang.autotune.record import checked_text
from schedlang.compute.data import from_data, to_data
from schedlang.compute.extern_op import ExternFunction, ExternOp
from schedlang.compute.graph import operations, placeholders, step_operations, variables
from schedlang.compute.tensor import ComputeOp, ScanOp, Tensor
from schedlang.errors import TuningError, explain
from schedlang.expr.dtypes import array_dtype, itemsize
from schedlang.expr.evaluate import evaluate
from schedlang.expr.nodes import Axis, Cast, Expr, Var
from schedlang.expr.visit import preorder
from schedlang.externs.shared import function_of_code
from schedlang.target import Cache, Target
from schedlang.target_kinds import installed_target

EPSILON = {
    "float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52,
    "complex64": 2.0**-22, "complex128": 2.0**-51,
}  # fmt: skip


@dataclass(frozen=True)
class Limits:
    """The limits of a candidate: seconds to ``build``, seconds to ``run``, bytes of ``memory``.

    ``run`` bounds the call that is checked, and again the calls that are timed. ``memory`` bounds
    the memory that a process takes in addition to what it and its threads start with. The default
    is half of the machine's memory; 0 means no limit. A candidate beyond a limit is a failed trial.
    """

    build: float = 20.0
    run: float = 10.0
    memory: int | None = None

    def on(self, memory: int) -> Limits:
        """Return these limits, with half of ``memory`` bytes if no memory limit is set."""
        return self if self.memory is not None else replace(self, memory=memory // 2)


@dataclass(frozen=True)
class Task:
    """A computation to tune, its target, its data and the tolerance of its check.

    ``inputs`` are arrays in the order of the placeholders; without them they are made from
    ``seed``. An element may be off by ``tolerance`` times the sum of its magnitude and the root
    mean square of its array. Integers must be equal, unless floats are cast to integers: then the
    tolerance holds too, and a few elements may be off by 1. ``timed``: kernels can be timed.
    ``cold`` are the names of inputs that come from memory in each call that is timed.
    ``compiler`` is one of the target's, empty for the default one.
    """

    outputs: tuple[Tensor, ...]
    target: Target
    sizes: Mapping[str, int]
    inputs: Sequence[np.ndarray[Any, Any]] | None = None
    seed: int = 0
    tolerance: float = 1e-4
    limits: Limits = Limits()
    timed: bool = True
    cold: tuple[str, ...] = ()
    compiler: str = ""

    @cached_property
    def values(self) -> dict[Var, int]:
        """The values of the symbolic sizes."""
        return {v: self.sizes[v.name] for v in variables(self.outputs) if v.name in self.sizes}

    @property
    def bytes(self) -> int:
        """The bytes of all inputs and outputs."""
        tensors = [*placeholders(self.outputs), *self.outputs]
        return sum(prod(self.shape(t)) * itemsize(t.dtype) for t in tensors)

    def shape(self, tensor: Tensor) -> tuple[int, ...]:
        """Return the extents of a tensor, as numbers."""
        return tuple(
            int(evaluate(e, self.values)) if isinstance(e, Expr) else e for e in tensor.shape
        )

    @cached_property
    def _casts(self) -> bool:
        """True if floats are cast to integers, so that the order of a sum may change an integer."""
        ops = operations(self.outputs)
        roots = [root for op in ops if isinstance(op, ComputeOp) for root in op.roots]
        calls = [op.function.dtypes for op in ops if isinstance(op, ExternOp)]
        if any({*inputs} & {*EPSILON} and {*outputs} - {*EPSILON} for inputs, outputs in calls):
            return True
        return any(
            isinstance(e, Cast) and e.dtype not in EPSILON and e.a.dtype in EPSILON
            for e in preorder(roots)
        )

    def tolerance_of(self, tensor: Tensor) -> float:
        """Return the tolerance of an output; 0 if its elements must be equal."""
        return self.tolerance if tensor.dtype in EPSILON or self.rounds(tensor) else 0.0

    def rounds(self, tensor: Tensor) -> bool:
        """Return whether an output has integers that may be off by 1, as floats were cast."""
        return self._casts and tensor.dtype not in (*EPSILON, "bool")

    @property
    def runs(self) -> bool:
        """True if candidates run. Without the GPU that they are for, they are only compiled."""
        return self.timed or not self.target.facts.needs_driver

    @cached_property
    def data(self) -> dict[str, Any]:
        """The task as JSON data, which :func:`task_from_data` reads.

        It is computed once, as inputs may be large.
        """
        given = None if self.inputs is None else [_pack(a) for a in self.inputs]
        functions: list[ExternFunction] = []
        computation = to_data(self.outputs, functions)
        imports = any(function.place for function in functions)
        return {
            "computation": computation, "functions": [f.code for f in functions],
            "path": [str(Path(p).absolute()) for p in sys.path] if imports else [],
            "target": target_data(self.target),
            "sizes": dict(self.sizes),
            "inputs": given, "seed": self.seed, "tolerance": self.tolerance,
            "limits": [self.limits.build, self.limits.run, self.limits.memory],
            "timed": self.timed, "cold": list(self.cold), "compiler": self.compiler,
        }  # fmt: skip

    @cached_property
    def checked(self) -> str:
        """The tolerance and inputs as text. Trials with another text are not reused."""
        given = sha256()
        for array in self.inputs or ():
            given.update(np.ascontiguousarray(array).tobytes())
        places = [n for n, t in enumerate(placeholders(self.outputs)) if t.name in self.cold]
        return checked_text(self.tolerance, given.hexdigest()[:16] if self.inputs else "", places)

    @property
    def limited(self) -> str:
        """The limits as text. Failed trials with another text are not reused."""
        limits = self.limits
        memory = limits.memory or 0
        size = f"{memory / 2**30:.1f} GiB" if memory >= 2**30 or not memory else f"{memory} bytes"
        return f"{limits.build:g} s, {limits.run:g} s, {size}"


_TARGET = ("kind", "vector_bytes", "vector_registers", "arch", "datapath_bytes", "features")


def target_data(target: Target) -> dict[str, Any]:
    """Return a target as JSON data, which :func:`target_from` reads on any machine.

    Raise :class:`~schedlang.errors.TuningError` for an object that no installed package names.
    """
    if target.backend is not None and installed_target(target.kind) != target.backend:
        raise TuningError(
            explain(
                f"autotune(target={target.backend!r})",
                "candidates run in processes of their own, which find a target by its name",
                "Make it an entry point of its package in the group schedlang.targets, and install "
                "that; or schedule with sl.autoschedule, which runs nothing.",
            )
        )
    if target.triple:
        raise TuningError(
            explain(
                f"autotune(target=Target({str(target.kind)!r}, triple={target.triple!r}))",
                "candidates run on this machine",
                "Schedule with sl.autoschedule, which runs nothing, or search on such a machine.",
            )
        )
    caches = [[cache.size, cache.ways, cache.cores] for cache in target.caches]
    return {name: getattr(target, name) for name in _TARGET} | {"caches": caches}


def target_from(data: Mapping[str, Any]) -> Target:
    """Return the target of the data that :func:`target_data` made."""
    caches = tuple(Cache(*map(int, numbers)) for numbers in data["caches"])
    return Target(**{name: data[name] for name in _TARGET}, caches=caches)


def task_from_data(data: Mapping[str, Any]) -> Task:
    """Return the task of :attr:`Task.data`.

    It runs no code from the data, except for the functions of the user's that the computation
    calls: those it imports, or makes from their source.
    """
    given = data["inputs"]
    sys.path += [p for p in map(str, data["path"]) if p not in sys.path and os.path.isdir(p)]
    functions = [function_of_code(code) for code in data["functions"]]
    return Task(
        from_data(data["computation"], functions), target_from(data["target"]), dict(data["sizes"]),
        None if given is None else [_unpack(text) for text in given],
        int(data["seed"]), float(data["tolerance"]), Limits(*data["limits"]), bool(data["timed"]),
        tuple(map(str, data["cold"])), str(data["compiler"]),
    )  # fmt: skip


def _pack(array: np.ndarray[Any, Any]) -> str:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return base64.b64encode(file.getvalue()).decode()


def _unpack(text: str) -> np.ndarray[Any, Any]:
    array: np.ndarray[Any, Any] = np.load(io.BytesIO(base64.b64decode(text)), allow_pickle=False)
    # NumPy's files do not know bfloat16, and hold its bytes; no other dtype is stored as bytes
    return array.view(array_dtype("bfloat16")) if array.dtype.kind == "V" else array


def tolerance_for(outputs: Sequence[Tensor]) -> float:
    """Return a bound on rounding errors; it grows with the square root of the length of a sum.

    So it does with the number of steps of a scan, which pass their errors on. It is 0 if no output
    has floats. The square root holds for errors of random sign (Higham, Accuracy and Stability of
    Numerical Algorithms, 2nd edition, section 4.2).

    >>> import schedlang as sl
    >>> A = sl.placeholder((4,), name="A", dtype="int32")
    >>> tolerance_for([sl.compute((4,), lambda i: A[i] + 1, name="B")])
    0.0
    """
    worst = 0.0
    ops = operations(outputs)
    times = {op: _length(scan.scan_axis) for scan in ops if isinstance(scan, ScanOp)
             for op in _in_steps(scan)}  # fmt: skip
    for op in ops:
        if isinstance(op, ComputeOp):
            error = (16 + 4 * prod(map(_length, op.reduce_axis)) ** 0.5) * times.get(op, 1) ** 0.5
            worst += sum(EPSILON.get(tensor.dtype, 0.0) * error for tensor in op.outputs)
    if all(t.dtype not in EPSILON for t in outputs):
        return 0.0
    return worst


def summed_in_steps(outputs: Sequence[Tensor]) -> dict[Tensor, int]:
    """Return the inputs that sums in the steps of scans read, with the length of the longest sum.

    They are weights of a layer. As large as other inputs, they would multiply a rounding error in
    each step.

    >>> import schedlang as sl
    >>> from schedlang import topi
    >>> X, W, U = (sl.placeholder(shape) for shape in [(5, 1, 8), (16, 8), (16, 4)])
    >>> states = topi.nn.lstm(X, W, U)[0]
    >>> sorted(summed_in_steps([states]).values())
    [4]
    """
    lengths: dict[Tensor, int] = {}
    for scan in operations(outputs):
        if not isinstance(scan, ScanOp):
            continue
        steps = _in_steps(scan)
        for op in steps:
            length = prod(map(_length, op.reduce_axis))
            read = [t for t in op.input_tensors if t.op not in steps and t not in scan.state]
            for tensor in placeholders(read) if op.reduce_axis else ():
                lengths[tensor] = max(length, lengths.get(tensor, 1))
    return lengths


def _in_steps(scan: ScanOp) -> list[ComputeOp]:
    """Return the operations that each step of a scan computes."""
    updates = [t.op for t in scan.update if isinstance(t.op, ComputeOp)]
    return [*step_operations(scan), *updates]


def _length(axis: Axis) -> int:
    return axis.extent if isinstance(axis.extent, int) else 1 << 12
