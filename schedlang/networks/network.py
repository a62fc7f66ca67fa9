"""``network``: a graph of stages as one module of fused kernels that one call runs."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path
from threading import RLock
from typing import Any

import numpy as np

from schedlang.autotune.database import Database
from schedlang.autotune.runner.task import Limits
from schedlang.compute.data import Graph
from schedlang.compute.graph import placeholders
from schedlang.compute.tensor import Tensor, check_name, declared
from schedlang.errors import NetworkError
from schedlang.ir.printer import bytes_text
from schedlang.markup.text import printable
from schedlang.networks.cache import cache_key, cached, store
from schedlang.networks.call import weight_in
from schedlang.networks.kernels import PartKernel, Source, kernel_of, part_kernels
from schedlang.networks.layouts import blocked_layouts
from schedlang.networks.memory import MemoryPlan
from schedlang.networks.model import Recipe, check_outputs, model_of
from schedlang.networks.module import NetworkModule
from schedlang.networks.partition import Partition, equal_parts, partition
from schedlang.networks.prepare import Prepared, prepare
from schedlang.networks.profile import NetworkProfile, profile
from schedlang.networks.program import KernelCall, ModuleData, module_data
from schedlang.networks.progress import Setting
from schedlang.networks.saving import load_saved, save
from schedlang.networks.scan_weights import packed_for_scans
from schedlang.networks.structure import filled
from schedlang.networks.tuning import NetworkTuning, Work, tune
from schedlang.networks.winograd import with_winograd
from schedlang.target import Target, or_emulator


def network(
    outputs: Any, params: Mapping[Any, Any] | None = None, target: Target | str | None = None,
    name: str = "network", database: Source = None, cut: Sequence[str] = (),
    fuse: Sequence[Sequence[str]] = (), fold: bool = True, layouts: bool = True,
    winograd: bool = True,
) -> Network:  # fmt: skip
    """Return a graph of stages as one module: fused kernels, which one call runs in order.

    ``outputs`` is a tensor, a list of them, or what ``sl.frontend`` imported. ``params`` has an
    array for each placeholder that is a weight, by the placeholder or by its name; the others are
    the inputs of a call. A model that was imported brings its own.

    What depends on the weights alone is computed once, ahead, and with ``fold`` the scales of batch
    norms go into them (:func:`~schedlang.networks.prepare.prepare`). For a CPU, ``layouts`` puts
    channels into blocks of a vector where that gains
    (:func:`~schedlang.networks.layouts.blocked_layouts`) and the weights of recurrent layers into
    the order of their steps (:func:`~schedlang.networks.scan_weights.packed_for_scans`), and
    ``winograd`` computes convolutions of 3 by 3 with fewer products where that is faster, with
    other rounding (:func:`~schedlang.networks.winograd.with_winograd`). The stages are divided into
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
    model = model_of(outputs, params)
    check_outputs(model.outputs)
    where = or_emulator(Target.of(target))
    on_cpu = not where.is_gpu

    def rewritten(
        outputs: tuple[Tensor, ...], weights: Collection[Tensor]
    ) -> tuple[Tensor, ...]:  # fmt: skip
        if layouts and on_cpu:
            outputs = blocked_layouts(outputs, weights, where).outputs
            outputs = packed_for_scans(outputs, weights, where)
        if winograd and on_cpu:
            outputs = with_winograd(outputs, weights).outputs
        return outputs

    prepared = prepare(model.outputs, model.params, fold, rewritten)
    divided = partition(prepared.outputs, cut, fuse, layers=model.layers)
    recipe = Recipe(
        check_name(name, "a network"), model.inputs, dict(model.layers), tuple(cut),
        tuple(map(tuple, fuse)), model.structure,
    )  # fmt: skip
    return Network(recipe, prepared, divided, where, database)


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
        self, recipe: Recipe, prepared: Prepared, divided: Partition, target: Target,
        database: Source = None, steps: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        self.recipe = recipe
        self.prepared = prepared
        self.partition = divided
        self.target = target
        self.database = database
        self._steps = steps
        self._lock = RLock()
        self._kernels: tuple[PartKernel, ...] | None = None
        self._data: ModuleData | None = None
        self._module: NetworkModule | None = None
        self._values: dict[Tensor, np.ndarray] | None = None

    @property
    def name(self) -> str:
        return self.recipe.name

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The placeholders that a call takes, in order."""
        return self.recipe.inputs

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        return self.prepared.outputs

    @property
    def kernels(self) -> tuple[PartKernel, ...]:
        """The kernels in the order of their first parts, scheduled but not yet compiled."""
        with self._lock:
            if self._kernels is None:
                self._kernels = part_kernels(
                    self.partition.parts, self.target, self.database, self._steps
                )
            return self._kernels

    @property
    def memory(self) -> MemoryPlan:
        """The place of each tensor between the kernels, in one arena.

        Raises :class:`~schedlang.errors.NetworkError` for a network with symbolic sizes, whose
        memory is planned at each size.
        """
        found = self._linked().plan
        if found is None:
            raise NetworkError(
                f"memory of network {self.name}: it depends on the sizes of a call; "
                "net.module.memory_at(...) has it for given ones"
            )
        return found

    @property
    def module(self) -> NetworkModule:
        """The module that a call runs. Its weights are computed when it is first asked for."""
        with self._lock:
            if self._module is None:
                self._module = NetworkModule(self._linked(), self.weights)
                self._keep_only(self._module)
            return self._module

    def _keep_only(self, module: NetworkModule) -> None:
        """Replace the arrays of weights by views of those of ``module``, which has copies."""
        places = module.data.storage.params
        self._values = {
            t: weight_in(module.params, place) for t, place in zip(self._weights(), places)
        }
        if not self.prepared.computed:
            self.prepared = replace(
                self.prepared, params={t: self._values[t] for t in self.prepared.params}, given={}
            )

    @property
    def weights(self) -> dict[str, np.ndarray]:
        """The arrays of all weights that the module reads, by their names in its source."""
        places = self._linked().storage.params
        return {place.name: array for place, array in zip(places, self._weights().values())}

    def _weights(self) -> dict[Tensor, np.ndarray]:
        """Return the arrays of the weights, in the order in which the module has them."""
        with self._lock:
            if self._values is None:
                self._values = self.prepared.values()
            # that is the order in which its calls read them
            read = dict.fromkeys(t for part in self.partition.parts for t in part.reads)
            return {t: self._values[t] for t in read if t in self._values}

    @property
    def source(self) -> str:
        """The source of the module."""
        return self._linked().text

    def __call__(self, *args: Any, **named: Any) -> Any:
        found = self.module(*args, **named)
        return filled(self.recipe.structure, found if isinstance(found, tuple) else (found,))

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
            self._kernels = self._data = self._module = self._steps = None
        return found

    def profile(self, *args: Any, repeat: int = 5) -> NetworkProfile:
        """Return the time of each kernel in a call with these arguments.

        The module is compiled once more, with time stamps between its calls, and runs at least
        ``repeat`` times. The times are those of the fastest run. ``print`` shows a table, a
        notebook also a chart.

        Raises :class:`~schedlang.errors.CallError` for arguments that do not fit and for a
        ``repeat`` below 1, and :class:`~schedlang.errors.BuildError` for ``target="c"``.

        >>> import numpy as np, schedlang as sl
        >>> X = sl.placeholder((64,), name="X")
        >>> net = sl.network(sl.named("double", X * 2), target="python")
        >>> found = net.profile(np.ones(64, "float32"))
        >>> [kernel.name for kernel in found.kernels], found.seconds > 0
        (['double'], True)
        """
        self._whole()
        return profile(self.module, self.partition.parts, args, repeat)

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write the network to a new folder, and return its path; ``sl.load`` reads it.

        * ``network.py`` runs with NumPy and numba alone: ``pack`` makes the bytes of the weights,
          and the function with the name of the network takes and returns arrays.
        * ``weights.npz`` has the weights, by their names in ``network.py``.
        * ``manifest.json`` has the graph, the schedules and the partition.

        The folder appears complete or not at all. Raises :class:`~schedlang.errors.NetworkError`
        for one that exists already, and for a network that is not for ``target="cpu"``.
        """
        steps = {kernel.name: kernel.schedule.to_json() for kernel in self.kernels}
        return save(folder, self.recipe, self.outputs, self._whole(), self._weights(), steps)

    def _linked(self) -> ModuleData:
        """Return the data of the module, from the cache folder if it was built before."""
        with self._lock:
            if self._data is None:
                recipe = self.recipe
                about = [recipe.name, dict(recipe.layers), recipe.cut, recipe.fuse, self._steps]
                used = None if self._steps is None else ()
                key = cache_key(self.outputs, about, self.target, self.database, used)
                self._data = cached(key, self.target)
                if self._data is None:
                    store(key, self._whole())
            assert self._data is not None
            return self._data

    def _whole(self) -> ModuleData:
        """Return the data of the module with its machine nest."""
        with self._lock:
            if self._data is None or self._data.machine is None:
                weights = [*self.prepared.params, *self.prepared.computed]
                self._data = module_data(
                    self.name, self.inputs, self.outputs, weights, self._calls(), self.target
                )
                self._module = None
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

    def __reduce__(self) -> Any:
        steps = {kernel.name: kernel.schedule.to_json() for kernel in self.kernels}
        read, weights = placeholders(self.outputs), self._weights()
        places = {t: k for k, t in enumerate(read)}
        recipe = replace(self.recipe, inputs=())
        return _unpickled, (
            Graph(self.outputs), recipe, [places[t] for t in self.inputs],
            {places[t]: array for t, array in weights.items()}, self.target, steps,
        )  # fmt: skip

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


def load(folder: str | os.PathLike[str], target: Target | str | None = None) -> Network:
    """Return the network that :meth:`Network.save` wrote to ``folder``.

    Its graph and its schedules are checked, and its Python is not run: the module is generated
    again, or comes from the cache folder. Steps that were saved on another machine are kept.

    Raises :class:`~schedlang.errors.NetworkError` for a folder that has no saved network.

    >>> import tempfile, numpy as np, schedlang as sl
    >>> X, w = sl.placeholder((4,), name="X"), sl.placeholder((4,), name="w")
    >>> net = sl.network(sl.named("scaled", X * w), {w: np.full(4, 3, "float32")})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     again = sl.load(net.save(folder + "/scaled"))
    >>> again.partition.parts[0].name, again.weights["w"].tolist()
    ('scaled', [3.0, 3.0, 3.0, 3.0])
    """
    found = load_saved(folder)
    return _again(found.recipe, found.outputs, found.weights, or_emulator(Target.of(target)),
                  found.steps)  # fmt: skip


def _again(
    recipe: Recipe, outputs: tuple[Tensor, ...], weights: Mapping[Tensor, np.ndarray],
    target: Target, steps: Mapping[str, str],
) -> Network:  # fmt: skip
    """Return a network whose graph was prepared before."""
    prepared = prepare(outputs, weights, fold=False)
    divided = partition(prepared.outputs, recipe.cut, recipe.fuse, layers=recipe.layers)
    return Network(recipe, prepared, divided, target, steps=steps)


def _unpickled(
    graph: Graph, recipe: Recipe, inputs: Sequence[int], weights: Mapping[int, np.ndarray],
    target: Target, steps: Mapping[str, str],
) -> Network:  # fmt: skip
    read = placeholders(graph.tensors)
    arrays = {read[k]: array for k, array in weights.items()}
    recipe = replace(recipe, inputs=tuple(read[k] for k in inputs))
    return _again(recipe, graph.tensors, arrays, target, steps)


__all__ = ["Network", "load", "network"]
