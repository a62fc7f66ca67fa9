"""A function over small arrays, traced on core dimensions, and the machine nest of its loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from schedlang.autotune.at_once.scheduler import autoschedule
from schedlang.compute.define import compute
from schedlang.compute.tensor import Tensor, placeholder, var
from schedlang.errors import ComputeError, ComputeTypeError, explain
from schedlang.expr.dtypes import itemsize
from schedlang.machine.nest import MachineNest
from schedlang.machine.passes.serial import serial
from schedlang.runtime.llvm.gufunc_loop import GufuncLoop
from schedlang.target import Target
from schedlang.targets.build import build
from schedlang.tracing.tensors import trace
from schedlang.tracing.ufuncs.signature import CoreDimensions, counted

Tensors = tuple[Tensor, ...]


def traced_cores(
    function: Callable[..., Any], parameters: Sequence[str], dtypes: Sequence[str], name: str,
    dimensions: CoreDimensions,
) -> tuple[Tensors, Tensors]:  # fmt: skip
    """Return arrays of the core dimensions, and the tensors of ``function`` of these."""
    sizes: dict[str, Any] = {d: int(d) if d.isdigit() else var(d) for d in dimensions.names}
    inputs = tuple(
        placeholder(tuple(sizes[d] for d in core), kind, name=p)
        for p, kind, core in zip(parameters, dtypes, dimensions.inputs)
    )
    result = trace(function, *inputs)
    results = tuple(result) if isinstance(result, (tuple, list)) else (result,)
    asked = f"sl.ufunc({name}, signature={str(dimensions)!r})"
    if len(results) != len(dimensions.outputs):
        raise ComputeError(
            explain(asked, f"the function returns {counted(len(results), 'result')}, and the "
                    f"signature has {len(dimensions.outputs)}")
        )  # fmt: skip
    for k, (value, core) in enumerate(zip(results, dimensions.outputs)):
        what = f"result {k}" if len(results) > 1 else "the result"
        if not isinstance(value, Tensor):
            why = f"{what} is {value!r}, and no array that is computed from the arguments"
            raise ComputeTypeError(explain(asked, why))
        wanted = tuple(sizes[d] for d in core)
        same = len(wanted) == len(value.shape) and all(
            _is_equal(a, b) for a, b in zip(wanted, value.shape)
        )
        if not same:
            raise ComputeError(
                explain(
                    asked,
                    f"{what} has the shape {_shape(value.shape)}, and the signature says "
                    f"{_shape(wanted)}",
                    "A function takes and returns arrays of the core dimensions alone; NumPy adds "
                    "the others.",
                )
            )
    return inputs, tuple(_computed(v, inputs, results[:k]) for k, v in enumerate(results))


def _is_equal(a: Any, b: Any) -> bool:
    return a is b or (isinstance(a, int) and isinstance(b, int) and a == b)


def _shape(shape: Sequence[Any]) -> str:
    return f"({', '.join(map(str, shape))}{',' * (len(shape) == 1)})"


def _computed(value: Tensor, inputs: Tensors, before: Sequence[Tensor]) -> Tensor:
    """Return a tensor that a kernel computes; an argument that is returned is copied."""
    if value in inputs or value in before:
        return compute(value.shape, lambda *at: value[at], name=f"{value.name}_copy")
    return value


def cores_nest(
    name: str, inputs: Tensors, outputs: Tensors, dimensions: CoreDimensions, fastmath: bool,
    forks: bool,
) -> tuple[MachineNest, GufuncLoop]:  # fmt: skip
    """Return the kernel of a loop, which runs on one thread, and the loop's form."""
    arguments = [*inputs, *outputs]
    s = autoschedule([*outputs] if len(outputs) > 1 else outputs[0], target=Target("cpu"))
    kernel = build(s, arguments, target=Target("cpu"), name=name, fastmath=fastmath)
    nest = serial(kernel.machine_nest)
    names = dimensions.names
    places = {d: k for k, d in enumerate(names)}
    form = GufuncLoop(
        tuple(itemsize(t.dtype) for t in arguments),
        len(inputs),
        tuple(
            tuple(places[d] for d in core) for core in (*dimensions.inputs, *dimensions.outputs)
        ),
        nest.entry.name,
        tuple(k for k, d in enumerate(names) if not d.isdigit()),
        any("int" not in t.dtype for t in arguments),
        forks,
    )
    assert len(form.given) == len(nest.entry.parameters) - len(arguments)
    return nest, form
