"""Networks of kernels by hand: parts that are scheduled one by one, and linked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import schedlang as sl
from schedlang.networks.data import ModuleData
from schedlang.networks.module import NetworkModule
from schedlang.networks.program import KernelCall, module_data
from schedlang.networks.size_checks import size_check
from schedlang.runtime.emulated import GpuKernel
from schedlang.target import Target
from schedlang.targets.build import unwritten_kernel


class Parts:
    """The calls of a network so far; its tensors are placeholders."""

    def __init__(self, target: str | Target = "python") -> None:
        self.target = Target.of(target)
        self.calls: list[KernelCall] = []

    def add(
        self, name: str, build: Callable[..., sl.Tensor], *args: Any,
        how: Callable[[sl.Tensor], sl.Schedule] = sl.schedule, layers: Sequence[str] = (),
        schedule: str = "",
    ) -> sl.Tensor:  # fmt: skip
        """Add a call of the kernel of ``build(*args)``, scheduled by ``how``; return its result."""
        given = [
            sl.placeholder(a.shape, a.dtype, name=a.name) if isinstance(a, sl.Tensor) else a
            for a in args
        ]
        made = build(*given)
        kernel = unwritten_kernel(how(made), [*given, made], self.target, name=name)
        result = sl.placeholder(made.shape, made.dtype, name=name)
        stages = (made.op.name,)
        self.calls.append(
            KernelCall(name, kernel.machine_nest, kernel.signature, (*args, result), stages,
                       tuple(layers), schedule, size_check(name, kernel, layers),
                       program=kernel.launches if isinstance(kernel, GpuKernel) else None)
        )  # fmt: skip
        return result

    def data(
        self, inputs: Sequence[Any], outputs: Sequence[sl.Tensor],
        params: Sequence[sl.Tensor] = (), name: str = "net",
    ) -> ModuleData:  # fmt: skip
        return module_data(name, inputs, outputs, params, self.calls, self.target)

    def module(
        self, inputs: Sequence[Any], outputs: Sequence[sl.Tensor],
        params: Mapping[sl.Tensor, Any] | None = None, name: str = "net",
    ) -> NetworkModule:  # fmt: skip
        """Return the module, whose parameters have the arrays of ``params``."""
        params = params or {}
        data = self.data(inputs, outputs, list(params), name)
        return NetworkModule(data, {t.name: a for t, a in params.items()})


def conv(x: sl.Tensor, w: sl.Tensor) -> sl.Tensor:
    """Return a convolution of an image in the layout CHW with kernels of odd size, with zeros."""
    channels, height, width = x.shape
    out, _, size, _ = w.shape
    c, i, j = (sl.reduce_axis(n, name=k) for n, k in zip((channels, size, size), "cij"))
    half = size // 2

    def element(o: Any, y: Any, v: Any) -> Any:
        inside = sl.all(y + i >= half, y + i < height + half, v + j >= half, v + j < width + half)
        read = sl.if_then_else(inside, x[c, y + i - half, v + j - half], 0.0)
        return sl.sum(read * w[o, c, i, j], axis=[c, i, j])

    return sl.compute((out, height, width), element, name="conv")


def relu(x: sl.Tensor) -> sl.Tensor:
    return sl.compute(x.shape, lambda *i: sl.max(x[i], 0.0), name="relu")


def add(x: sl.Tensor, y: sl.Tensor) -> sl.Tensor:
    return sl.compute(x.shape, lambda *i: x[i] + y[i], name="sum_of")


def dense(x: sl.Tensor, w: sl.Tensor) -> sl.Tensor:
    k = sl.reduce_axis(x.shape[1], name="k")
    return sl.compute(
        (x.shape[0], w.shape[0]), lambda i, j: sl.sum(x[i, k] * w[j, k], axis=k), name="dense"
    )
