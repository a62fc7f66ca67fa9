"""The answer to an exercise as something that runs: its tensors, its kernel, arrays for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from schedlang.compute.graph import placeholders, variables
from schedlang.compute.reference import reference
from schedlang.compute.tensor import Tensor
from schedlang.course.exercises.inputs import in_order, input_names
from schedlang.errors import CallError, explain
from schedlang.expr.dtypes import array_dtype, is_complex, is_integer
from schedlang.runtime.emulated import GpuKernel
from schedlang.runtime.kernel import Kernel
from schedlang.schedule.schedule import Schedule
from schedlang.targets.build import build


@dataclass(frozen=True)
class Answer:
    """An answer to an exercise: its name, and the kernel and schedule that run it.

    ``outputs`` are its tensors, and ``name`` is the name of the first one. A tensor alone has
    neither ``schedule`` nor ``kernel``: NumPy computes it.
    """

    name: str
    outputs: tuple[Tensor, ...]
    schedule: Schedule | None = None
    kernel: Kernel | None = None

    @property
    def inputs(self) -> list[str]:
        """The names of its inputs, in the order of ``sl.reference``."""
        return input_names(self.outputs)

    def arguments(self, arrays: Sequence[Any]) -> list[Any]:
        """Return ``arrays``, which are in the order of ``inputs``, in the order of the kernel's
        parameters."""
        if self.kernel is None:
            return list(arrays)
        input_names = [
            p.name for p in self.kernel.signature.parameters if not p.is_output and not p.is_scalar
        ]
        return in_order(arrays, self.inputs, input_names)

    def results(self, arrays: Sequence[Any]) -> tuple[Any, ...]:
        """Return the arrays that the answer computes of ``arrays``, in the order of ``inputs``.

        A kernel of the emulator runs in lockstep, so that races are errors.
        """
        operands = self.arguments(arrays)
        if self.kernel is None:
            results = reference(self.outputs)(*operands)
        elif isinstance(self.kernel, GpuKernel) and not self.kernel.target.facts.needs_driver:
            results = self.kernel.check(*operands)
        else:
            results = self.kernel(*operands)
        return results if isinstance(results, tuple) else (results,)

    def call(self, arrays: Sequence[Any]) -> Callable[[], Any]:
        """Return a call of the kernel on ``arrays``, with outputs that are allocated once."""
        assert self.kernel is not None
        kernel, operands, outputs_once = self.kernel, self.arguments(arrays), self.results(arrays)
        parameters = kernel.signature.parameters
        values = [*operands, *outputs_once]
        if len(values) == len(parameters):
            inputs, outputs = iter(operands), iter(outputs_once)
            values = [next(outputs if p.is_output else inputs) for p in parameters]
        return lambda: kernel(*values)


def answer_of(given: Any, target: Any) -> Answer | None:
    """Return tensors, a schedule or a kernel as an answer; ``None`` for anything else.

    A schedule is built for ``target``. Raise the errors of :func:`~schedlang.build`.
    """
    tensors = (given,) if isinstance(given, Tensor) else given
    if isinstance(tensors, (tuple, list)) and all(isinstance(t, Tensor) for t in tensors):
        return Answer(tensors[0].name, tuple(tensors)) if tensors else None
    if not isinstance(given, (Schedule, Kernel)):
        return None
    kernel = given if isinstance(given, Kernel) else build(given, target=target)
    outputs = kernel.schedule.outputs
    return Answer(outputs[0].name, outputs, kernel.schedule, kernel)


def arrays_for(outputs: Sequence[Tensor], seed: int = 0) -> list[np.ndarray[Any, Any]]:
    """Return random arrays for the inputs of a computation, in the order of ``sl.reference``.

    Floats are in -1..1, integers in -8..8 or 0..8, each from the same ``seed``.

    Raise :class:`~schedlang.errors.CallError` for symbolic sizes and scalars.

    >>> import schedlang as sl
    >>> A = sl.placeholder((2, 3), name="A")
    >>> (made,) = arrays_for([sl.compute((2,), lambda i: A[i, 0], name="B")])
    >>> made.shape, str(made.dtype)
    ((2, 3), 'float32')
    """
    symbolic = variables(outputs)
    if symbolic:
        raise CallError(
            explain(
                f"check({outputs[0].name})",
                f"it has no value for {symbolic[0].name}",
                "Give the arrays after the expected result: check(answer, expected, a, b).",
            )
        )
    rng = np.random.default_rng(seed)
    return [_array(tensor, rng) for tensor in placeholders(outputs)]


def _array(tensor: Tensor, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    shape, dtype = [int(e) for e in tensor.shape], array_dtype(tensor.dtype)
    if tensor.dtype == "bool":
        return rng.random(shape) < 0.5
    if is_integer(tensor.dtype):
        return rng.integers(0 if dtype.kind == "u" else -8, 9, shape).astype(dtype)
    if is_complex(tensor.dtype):
        return (rng.uniform(-1, 1, shape) + 1j * rng.uniform(-1, 1, shape)).astype(dtype)
    return rng.uniform(-1, 1, shape).astype(dtype)
