"""Launches on a device of OpenCL: the compiled file, and the steps of its program."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, MutableSequence, Sequence
from math import prod
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from schedlang.codegen.opencl_source import KernelForm, OpenClSource
from schedlang.errors import BuildError, explain
from schedlang.expr.dtypes import itemsize
from schedlang.expr.evaluate import evaluate
from schedlang.expr.nodes import Expr, Var
from schedlang.gpu_lowering.program import Launch, Repeat, Scratch, Step
from schedlang.targets.opencl.arrays import new_buffer
from schedlang.targets.opencl.devices import check_device, driver, name_of

# the kernels that a call launched, by name, with their events
Launched = MutableSequence[tuple[str, Any]]


class Launcher:
    """The kernels of a file, compiled for a device."""

    def __init__(
        self, what: str, source: OpenClSource, path: Path, fastmath: bool, device: Any, context: Any
    ) -> None:
        check_device(what, device, source.listing.text, source.kernels)
        self.context = context
        self._source = source
        program = _compiled(what, source.listing.text, path, fastmath, device, context)
        self._kernels = {
            form.launch: (form, program_kernel(program, form.name)) for form in source.kernels
        }
        # the arguments of a kernel are a state of its object
        self._lock = Lock()

    def start(
        self, queue: Any, given: Sequence[Any], sizes: Sequence[int], launched: Launched
    ) -> None:
        """Launch the kernels of a call on ``queue``, and add their events to ``launched``."""
        nest = self._source.program.nest
        values: dict[Any, Any] = dict(zip(nest.args, given))
        values |= {v: np.int64(n) for v, n in zip(nest.sizes, sizes)}
        numbers = {k: int(v) for k, v in values.items() if isinstance(k, Var) and _is_whole(v)}
        with self._lock:
            self._run(self._source.program.steps, queue, values, numbers, launched)

    def _run(
        self,
        steps: Sequence[Step],
        queue: Any,
        values: dict[Any, Any],
        numbers: dict[Any, int],
        launched: Launched,
    ) -> None:
        for step in steps:
            if isinstance(step, Launch):
                self._launch(step, queue, values, numbers, launched)
            elif isinstance(step, Scratch):
                buffer = step.buffer
                count = prod(_number(e, numbers) for e in buffer.shape)
                if buffer.size is not None:
                    count = buffer.size
                values[buffer] = new_buffer(queue, count * itemsize(buffer.dtype))
            elif isinstance(step, Repeat):
                for n in range(_number(step.extent, numbers)):
                    inside = {**values, step.axis: np.int64(n)}
                    self._run(step.body, queue, inside, {**numbers, step.axis: n}, launched)
            elif evaluate(step.cond, numbers):
                self._run(step.body, queue, values, numbers, launched)

    def _launch(
        self,
        launch: Launch,
        queue: Any,
        values: Mapping[Any, Any],
        numbers: Mapping[Any, int],
        launched: Launched,
    ) -> None:
        form, kernel = self._kernels[launch]
        grid = [_number(e, numbers) for e in launch.dims("grid")]
        block = [_number(e, numbers) for e in launch.dims("block")]
        if not all(n > 0 for n in grid):
            return
        kernel.set_args(*(values[key] for key in form.parameters))
        size = tuple(g * b for g, b in zip(grid, block))
        event = driver(form.name).enqueue_nd_range_kernel(queue, kernel, size, tuple(block))
        launched.append((form.name, event))


def program_kernel(program: Any, name: str) -> Any:
    """Return a kernel object of its own."""
    return driver(name).Kernel(program, name)


def _is_whole(value: Any) -> bool:
    return isinstance(value, np.integer)


def _number(extent: int | Expr, numbers: Mapping[Any, int]) -> int:
    return extent if isinstance(extent, int) else int(evaluate(extent, numbers))


def _compiled(
    what: str, text: str, path: Path, fastmath: bool, device: Any, context: Any
) -> Any:
    """Return the compiled program of a file; raise with what the device's compiler says."""
    cl = driver(what)
    # -w: a person who wants warnings compiles the file by hand
    options = ["-cl-std=CL1.2", "-w", *["-cl-fast-relaxed-math"] * fastmath]
    if device.single_fp_config & cl.device_fp_config.CORRECTLY_ROUNDED_DIVIDE_SQRT:
        options.append("-cl-fp32-correctly-rounded-divide-sqrt")
    try:
        with warnings.catch_warnings():
            # a compiler's notes are not errors
            warnings.simplefilter("ignore", cl.CompilerWarning)
            return cl.Program(context, text).build(options=options, devices=[device])
    except cl.RuntimeError as error:
        raise BuildError(
            explain(
                what,
                f"the compiler of {name_of(device)} refuses the file {path}",
                f"It says:\n{error}",
            )
        ) from None


__all__ = ["KernelForm", "Launched", "Launcher"]
