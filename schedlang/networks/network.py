"""``network``: a graph of stages as one module of fused kernels that one call runs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from threading import RLock
from typing import Any

import numpy as np

from schedlang.autotune.database import Database
from schedlang.autotune.runner.task import Limits
from schedlang.compute.tensor import PlaceholderOp, Tensor, declared
from schedlang.errors import CallTypeError, NetworkError, explain, shown
from schedlang.ir.printer import bytes_text
from schedlang.markup.text import printable
from schedlang.networks.module import NetworkModule
from schedlang.networks.kernels import PartKernel, Source, kernel_of, part_kernels
from schedlang.networks.memory import MemoryPlan
from schedlang.networks.partition import Partition, equal_parts, partition
from schedlang.networks.prepare import Prepared, prepare
from schedlang.networks.program import KernelCall, ModuleData, module_data
from schedlang.networks.progress import Setting
from schedlang.networks.tuning import NetworkTuning, Work, tune
from schedlang.target import Target, or_emulator


def network(
    outputs: Any, params: Mapping[Tensor, Any] | None = None, target: Target | str | None = None,
    name: str = "network", database: Source = None, cut: Sequence[str] = (),
    fuse: Sequence[Sequence[str]] = (), fold: bool = True,
) -> Network:  # fmt: skip
    """Return a graph of stages as one module: fused kernels, which one call runs in order.

    ``outputs`` is a tensor, a list of them, or what ``sl.frontend`` imported. ``params`` has an
    array for each placeholder that is a weight, by the placeholder or by its name; the others are
    the inputs of a call. A model that was imported brings its own.

    What depends on the weights alone is computed once, ahead, and with ``fold`` the scales of batch
    norms go into them (:func:`~schedlang.networks.prepare.prepare`). The stages are divided into
    parts, each of which becomes a kernel; ``cut`` and ``fuse`` override how
    (:func:`~schedlang.networks.partition.partition`). Parts that are equal but for names share a
    schedule and a kernel. A schedule comes from ``database``, by default the one in the cache
    folder and those that come with schedlang, or else from the cost model. Nothing is compiled
    before the first call.

    Raises :class:`~schedlang.errors.NetworkError` for outputs, weights and overrides that do not
    fit, and :class:`~schedlang.errors.BuildError` for an unknown target.

    >>> import numpy as np, schedlang as sl
    >>> from schedlang import topi
    >>> X, W = sl.placeholder((2, 3), name="X"), sl.placeholder((4, 3), name="W")
    >>> h = topi.nn.relu(sl.named("fc", topi.nn.dense(X, W)))
    >>> net = sl.network(topi.nn.softmax(h), {W: np.ones((4, 3), "float32")}, target="python")
    >>> net(np.ones((2, 3), "float32"))
    array([[0.25, 0.25, 0.25, 0.25],
           [0.25, 0.25, 0.25, 0.25]], dtype=float32)
    >>> [part.name for part in net.partition]
    ['fc', 'softmax']
    """
    given, inputs, values, layers, structure = _model(outputs, params)
    where = or_emulator(Target.of(target))
    prepared = prepare(given, values, fold)
    divided = partition(prepared.outputs, cut, fuse, layers=layers)
    return Network(name, prepared, inputs, divided, where, database, structure)


class Network:
    """A network: call it with arrays.

    ``net(x)`` returns what the network computes, in the library of the first array: an array, a
    tuple of them, or what the imported model returns. ``net(x, out=y)`` writes ``y``. A call checks
    its arguments as a kernel does, runs without Python between the kernels, and may be made by
    several threads at once.

    * ``partition``: the parts, as a table.
    * ``kernels``: the kernels, each of one or several parts, with their schedules.
    * ``memory``: the plan of the arena.
    * ``module``: the generated module, with ``source``, ``path`` and ``machine_nest``.
    * ``prepared``: what is computed ahead, and what was folded.
    """

    def __init__(
        self, name: str, prepared: Prepared, inputs: Sequence[Tensor], divided: Partition,
        target: Target, database: Source = None, structure: Any = None,
    ) -> None:  # fmt: skip
        self.name = name
        self.prepared = prepared
        self.inputs = tuple(inputs)
        self.partition = divided
        self.target = target
        self.database = database
        self._structure = structure
        self._lock = RLock()
        self._kernels: tuple[PartKernel, ...] | None = None
        self._data: ModuleData | None = None
        self._module: NetworkModule | None = None
        self._values: dict[Tensor, np.ndarray] | None = None

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        return self.prepared.outputs

    @property
    def kernels(self) -> tuple[PartKernel, ...]:
        """The kernels in the order of their first parts, scheduled but not yet compiled."""
        with self._lock:
            if self._kernels is None:
                found = part_kernels(self.partition.parts, self.target, self.database)
                self._kernels = found
            return self._kernels

    @property
    def memory(self) -> MemoryPlan:
        """The place of each tensor between the kernels, in one arena."""
        return self._linked().plan

    @property
    def module(self) -> NetworkModule:
        """The module that a call runs. Its weights are computed when it is first asked for."""
        with self._lock:
            if self._module is None:
                if self._values is None:
                    self._values = self.prepared.values()
                data = self._linked()
                # a module has its parameters in the order in which its calls read them
                read = dict.fromkeys(t for part in self.partition.parts for t in part.reads)
                arrays = [self._values[t] for t in read if t in self._values]
                given = {place.name: a for place, a in zip(data.storage.params, arrays)}
                self._module = NetworkModule(data, given)
            return self._module

    @property
    def source(self) -> str:
        """The source of the module."""
        return self._linked().text

    def __call__(self, *args: Any, **named: Any) -> Any:
        found = self.module(*args, **named)
        if self._structure is None:
            return found
        return self._structure(found if isinstance(found, tuple) else (found,))

    def tune(
        self, trials: int | None = None, timeout: float | None = None, search: Any = "random",
        seed: int = 0, resume: bool = True, executor: Executor | None = None,
        progress: Setting = None, limits: Limits | None = None,
        database: Database | str | os.PathLike[str] | None = None,
    ) -> NetworkTuning:  # fmt: skip
        """Search for the schedule of each kernel, and use what is found from the next call on.

        Each kernel is searched once, however many parts it has, those with the most work first.
        The options are those of :func:`schedlang.autotune`, and ``trials`` are those of one kernel;
        ``timeout`` is for all of them. Every trial goes into ``database``, by default that of the
        network, so that a search that was interrupted continues. ``progress`` is one bar for all
        searches, or a function that takes the name of a kernel and a trial.

        Raises :class:`~schedlang.errors.TuningError` for options that do not fit. A kernel for
        which no candidate works keeps its schedule, and the result says why.
        """
        works = [
            Work(same[0].name, same[0].group.outputs, tuple(part.name for part in same))
            for same in equal_parts(self.partition.parts)
        ]
        where = self.database if database is None else database
        found = tune(
            self.name, works, self.target, trials, timeout, where, executor, progress, resume,
            search, seed, limits,
        )  # fmt: skip
        with self._lock:
            if where is not None:
                self.database = where
            self._kernels = self._data = self._module = None
        return found

    def _linked(self) -> ModuleData:
        with self._lock:
            if self._data is None:
                self._data = module_data(
                    self.name, self.inputs, self.outputs,
                    [*self.prepared.params, *self.prepared.computed], self._calls(), self.target,
                )  # fmt: skip
            return self._data

    def _calls(self) -> list[KernelCall]:
        kernels = kernel_of(self.kernels)
        found = []
        for part in self.partition.parts:
            made = kernels[part.name]
            kernel = made.kernel
            found.append(
                KernelCall(
                    part.name, kernel.machine_nest, kernel.signature, (*part.reads, *part.writes),
                    part.stages, part.layers, made.note or made.origin,
                )
            )  # fmt: skip
        return found

    def __repr__(self) -> str:
        given = ", ".join(map(declared, self.inputs))
        made = ", ".join(map(declared, self.outputs))
        return f"<Network {printable(self.name)}({given}) -> {made} for {self.target.kind}>"

    def __str__(self) -> str:
        weights = [*self.prepared.params, *self.prepared.computed]
        size = bytes_text(sum(self.partition.bytes_of(t) for t in weights))
        kernels = len(equal_parts(self.partition.parts))
        head = (
            f"{repr(self)[1:-1]}: {len(self.partition)} parts, {kernels} kernels, "
            f"{len(weights)} weights of {size}"
        )
        return f"{head}\n\n{self.partition}"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/html": self.partition._repr_html_(), "text/plain": str(self)}


def _model(
    outputs: Any, params: Mapping[Any, Any] | None
) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...], dict[Tensor, Any], Mapping[str, str], Any]:
    """Return outputs, inputs, weights, layers, and the function that makes the result of a call."""
    from schedlang.compute.graph import placeholders

    if hasattr(outputs, "structured") and hasattr(outputs, "params"):
        if params is not None:
            raise NetworkError(
                explain(
                    "sl.network of an imported model with params",
                    "the model has its own weights",
                    "Leave params out, or pass model.outputs.",
                )
            )
        return (outputs.outputs, outputs.inputs, dict(outputs.params), outputs.layers,
                outputs.structured)  # fmt: skip
    tensors = tuple(outputs) if isinstance(outputs, (list, tuple)) else (outputs,)
    if not tensors or not all(isinstance(t, Tensor) for t in tensors):
        raise CallTypeError(
            f"sl.network({shown(outputs)}): give a tensor, a list of them or an imported model"
        )
    for tensor in tensors:
        if isinstance(tensor.op, PlaceholderOp):
            raise NetworkError(f"sl.network: {tensor.name} is an input, so that nothing computes it")
    read = placeholders(tensors)
    by_name = {t.name: t for t in read}
    values: dict[Tensor, Any] = {}
    for key, value in (params or {}).items():
        tensor = by_name.get(key) if isinstance(key, str) else key
        if tensor is None:
            raise NetworkError(f"sl.network: params has {key!r}, which no stage reads")
        values[tensor] = value
    inputs = tuple(t for t in read if t not in values)
    return tensors, inputs, values, {}, None


__all__ = ["Network", "network"]
