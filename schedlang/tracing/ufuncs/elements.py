"""A function over numbers, traced on elements of arrays, and the machine nest of its loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from schedlang.compute.define import compute
from schedlang.compute.tensor import Tensor, placeholder, var
from schedlang.expr.dtypes import itemsize
from schedlang.machine.nest import MachineNest
from schedlang.machine.nodes import Function
from schedlang.runtime.llvm.ufunc_loop import UfuncLoop
from schedlang.schedule.schedule import Schedule, schedule
from schedlang.target import Target
from schedlang.targets.build import build

Tensors = tuple[Tensor, ...]


def traced_elements(
    function: Callable[..., Any], parameters: Sequence[str], dtypes: Sequence[str], name: str
) -> tuple[Tensors, Tensors]:
    """Return arrays of a symbolic length, and the tensors of ``function`` of their elements."""
    n = var("n")
    inputs = tuple(placeholder((n,), d, name=p) for p, d in zip(parameters, dtypes))
    result: Any = compute((n,), lambda i: function(*(x[i] for x in inputs)), name=name)
    return inputs, tuple(result) if isinstance(result, (tuple, list)) else (result,)


def elements_nest(
    name: str, inputs: Tensors, outputs: Tensors, fastmath: bool, forks: bool
) -> tuple[MachineNest, UfuncLoop]:
    """Return the functions of a loop, for contiguous arrays and for one element, and its form."""
    arguments = [*inputs, *outputs]
    widest = max(itemsize(t.dtype) for t in arguments)
    lanes = max(Target("cpu").vector_bytes // widest, 1)
    s = schedule([*outputs])
    stage = s[outputs[0]]
    if lanes > 1:
        stage.vectorize(stage.split(stage.op.axis[0], factor=lanes)[1])
    contiguous = _functions(s, arguments, name, fastmath)
    plain = _functions(schedule([*outputs]), arguments, f"{name}_element", fastmath)
    nest = MachineNest((*plain, *contiguous))
    form = UfuncLoop(
        tuple(itemsize(t.dtype) for t in arguments), len(inputs), nest.entry.name, plain[-1].name,
        lanes, any("int" not in t.dtype for t in arguments), forks,
    )  # fmt: skip
    return nest, form


def _functions(
    s: Schedule, arguments: Sequence[Tensor], name: str, fastmath: bool
) -> Sequence[Function]:
    kernel = build(s, arguments, target=Target("cpu"), name=name, fastmath=fastmath)
    return kernel.machine_nest.functions
