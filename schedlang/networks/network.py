"""``network``: a graph of stages as one module of fused kernels that one call runs.

A network that the cache folder has runs without its parts. What makes them and what compiles is
imported when they are asked for.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any

import numpy as np

from schedlang.compute.data import Graph, to_data
from schedlang.compute.graph import placeholders
from schedlang.compute.tensor import Tensor, check_name, declared
from schedlang.errors import NetworkError
from schedlang.ir.printer import bytes_text
from schedlang.markup.text import printable
from schedlang.networks.cache import cache_key, cached, store
from schedlang.networks.call import weight_in
from schedlang.networks.data import ModuleData
from schedlang.networks.memory import MemoryPlan
from schedlang.networks.model import Options, Recipe, check_outputs, model_of
from schedlang.networks.module import NetworkModule
from schedlang.networks.saving import save
from schedlang.networks.sources import Found, OfFolder, OfGraph, OfModel, Source
from schedlang.networks.structure import filled
from schedlang.networks.weights import weight_array
from schedlang.target import Target, or_emulator

if TYPE_CHECKING:
    from schedlang.autotune.database import Database
    from schedlang.autotune.runner.task import Limits
    from schedlang.networks.kernels import PartKernel
    from schedlang.networks.kernels import Source as Trials
    from schedlang.networks.partition import Partition
    from schedlang.networks.prepare import Prepared
    from schedlang.networks.profile import NetworkProfile
    from schedlang.networks.program import KernelCall
    from schedlang.networks.progress import Setting
    from schedlang.networks.tuning import NetworkTuning


def network(
    outputs: Any, params: Mapping[Any, Any] | None = None, target: Target | str | None = None,
    name: str = "network", database: Trials = None, cut: Sequence[str] = (),
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
    (:func:`~schedlang.networks.layouts.blocked_layouts`), and ``winograd`` computes convolutions of
    3 by 3 with fewer products where that is faster, with other rounding
    (:func:`~schedlang.networks.winograd.with_winograd`). The stages are divided into
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
    recipe = Recipe(
        check_name(name, "a network"), model.inputs, dict(model.layers), tuple(cut),
        tuple(map(tuple, fuse)), model.structure,
    )  # fmt: skip
    arrays = {tensor: weight_array(tensor, value) for tensor, value in model.params.items()}
    source = OfModel(recipe, model.outputs, arrays, Options(fold, layouts, winograd))
    where = or_emulator(Target.of(target))
    made = Network(source, where, database)
    if where.is_gpu or not source.is_known(where, database):
        # what does not fit is an error now
        made._divided()
    return made


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
        self, source: Source, target: Target, database: Trials = None,
        steps: Mapping[str, str] | None = None, origins: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        self.target = target
        self.database = database
        self._source = source
        # the schedules of kernels that were saved, and where these came from
        self._steps, self._origins = steps, origins or {}
        self._lock = RLock()
        self._parts: tuple[Prepared, Partition] | None = None
        self._kernels: tuple[PartKernel, ...] | None = None
        self._data: ModuleData | None = None
        self._module: NetworkModule | None = None
        # the key of the data in the cache folder, once they are there
        self._key: str | None = None
        self._values: dict[Tensor, np.ndarray] | None = None

    @property
    def name(self) -> str:
        return self._source.name

    @property
    def recipe(self) -> Recipe:
        """The inputs and results of a call, and the overrides of the partition."""
        return self._source.recipe

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The placeholders that a call takes, in order."""
        return self.recipe.inputs

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        return self.prepared.outputs

    @property
    def prepared(self) -> Prepared:
        """What is computed ahead of all calls, and what was folded."""
        return self._divided()[0]

    @property
    def partition(self) -> Partition:
        """The parts of the network, each of which is a kernel."""
        return self._divided()[1]

    def _divided(self) -> tuple[Prepared, Partition]:
        with self._lock:
            if self._parts is None:
                self._parts = self._source.divided(self.target)
                if self._module is not None:
                    self._keep_only(self._module)
            return self._parts

    @property
    def kernels(self) -> tuple[PartKernel, ...]:
        """The kernels in the order of their first parts, scheduled but not yet compiled."""
        with self._lock:
            if self._kernels is None:
                from schedlang.networks.kernels import part_kernels

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
            data = self._linked()
            if self._module is None:
                self._module = NetworkModule(data, self.weights)
                self._keep_only(self._module)
                self._store_start(self._module)
            return self._module

    def _started(self) -> bool:
        """Take the module that an earlier process made, if the cache folder has it."""
        found = None
        if not self.target.is_gpu:
            found = self._source.found(self.target, self.database)
        if found is None:
            return False
        self._data, self._key = found.data, found.key
        self._module = NetworkModule(found.data, found.params)
        if self._parts is not None:
            self._keep_only(self._module)
        return True

    def _store_start(self, module: NetworkModule) -> None:
        """Let other processes find ``module`` without its parts."""
        if self.target.is_gpu:
            return
        if self._key is None:
            self._key = self._cache_key()
            store(self._key, module.data)
        made = Found(self._key, module.data, module.params)
        self._source = self._source.stored(self.target, self.database, made, self._read())

    def _keep_only(self, module: NetworkModule) -> None:
        """Replace the arrays of weights by views of those of ``module``, which has copies."""
        assert self._parts is not None
        prepared, divided = self._parts
        places = module.data.storage.params
        found = {t: weight_in(module.params, place) for t, place in zip(self._read(), places)}
        kept = {t: found[t] for t in (*prepared.params, *prepared.computed)}
        params = {t: found[t] for t in prepared.params}
        self._values = found
        self._parts = replace(prepared, params=params, given={}, kept=kept), divided

    @property
    def weights(self) -> dict[str, np.ndarray]:
        """The arrays of all weights that the module reads, by their names in its source."""
        with self._lock:
            places = self._linked().storage.params
            if self._module is not None:
                return {place.name: weight_in(self._module.params, place) for place in places}
            return {place.name: array for place, array in zip(places, self._weights().values())}

    def _weights(self) -> dict[Tensor, np.ndarray]:
        """Return the arrays of the weights, in the order in which the module has them."""
        with self._lock:
            prepared, _ = self._divided()
            if self._values is None:
                self._values = prepared.values()
            return {t: self._values[t] for t in self._read()}

    def _read(self) -> list[Tensor]:
        """Return the weights in the order in which calls read them, which is that of the module."""
        prepared, divided = self._divided()
        known = {*prepared.params, *prepared.computed}
        read = dict.fromkeys(t for part in divided.parts for t in part.reads)
        return [t for t in read if t in known]

    @property
    def source(self) -> str:
        """The source of the module."""
        return self._linked().text

    def __call__(self, *args: Any, **named: Any) -> Any:
        found = self.module(*args, **named)
        return filled(self._source.structure, found if isinstance(found, tuple) else (found,))

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
        from schedlang.networks.partition import equal_parts
        from schedlang.networks.tuning import Work, tune

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
            self._source, self._origins = self._source.without_steps(), {}
            self._kernels = self._data = self._module = self._steps = self._key = None
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
        from schedlang.networks.profile import profile

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
        data, weights = self._whole(), self._weights()
        return save(folder, self.recipe, self.outputs, data, weights, *self._schedules())

    def _linked(self) -> ModuleData:
        """Return the data of the module, from the cache folder if it was built before."""
        with self._lock:
            if self._data is None and not self._started():
                key = self._cache_key()
                self._data = cached(key, self.target)
                if self._data is None:
                    store(key, self._whole())
                self._key = key
            assert self._data is not None
            return self._data

    def _cache_key(self) -> str:
        """Return the key of the data of the module in the cache folder."""
        recipe = self.recipe
        about = [
            to_data(self.outputs), recipe.name, dict(recipe.layers), recipe.cut, recipe.fuse,
            self._steps, self._origins,
        ]  # fmt: skip
        return cache_key(about, self.target, self.database, None if self._steps is None else ())

    def _whole(self) -> ModuleData:
        """Return the data of the module with its machine nest."""
        with self._lock:
            if self._data is None or self._data.machine is None:
                from schedlang.networks.program import module_data

                weights = [*self.prepared.params, *self.prepared.computed]
                self._data = module_data(
                    self.name, self.inputs, self.outputs, weights, self._calls(), self.target
                )
                self._key = None
                if self._module is not None:
                    # a module of the same parts has the same weights
                    self._module = NetworkModule(self._data, self._module.params)
            return self._data

    def _calls(self) -> list[KernelCall]:
        from schedlang.networks.kernels import kernel_of
        from schedlang.networks.program import KernelCall

        kernels = kernel_of(self.kernels)
        found = []
        for part in self.partition.parts:
            made = kernels[part.name]
            kernel = made.kernel
            found.append(
                KernelCall(
                    part.name, kernel.machine_nest, kernel.signature, (*part.reads, *part.writes),
                    part.stages, part.layers, self._origin(made),
                )
            )  # fmt: skip
        return found

    def _schedules(self) -> tuple[dict[str, str], dict[str, str]]:
        """Return the steps of each kernel as JSON, and where they come from."""
        steps = {kernel.name: kernel.schedule.to_json() for kernel in self.kernels}
        return steps, {kernel.name: self._origin(kernel) for kernel in self.kernels}

    def _origin(self, kernel: PartKernel) -> str:
        """Return where the schedule of a kernel comes from, or came from when it was saved."""
        return self._origins.get(kernel.name, "") or kernel.note or kernel.origin

    def __reduce__(self) -> Any:
        read, weights = placeholders(self.outputs), self._weights()
        places = {t: k for k, t in enumerate(read)}
        recipe = replace(self.recipe, inputs=())
        return _unpickled, (
            Graph(self.outputs), recipe, [places[t] for t in self.inputs],
            {places[t]: array for t, array in weights.items()}, self.target, *self._schedules(),
        )  # fmt: skip

    def __repr__(self) -> str:
        given = ", ".join(map(declared, self.inputs))
        made = ", ".join(map(declared, self.outputs))
        return f"<Network {printable(self.name)}({given}) -> {made} for {self.target.kind}>"

    def __str__(self) -> str:
        from schedlang.networks.partition import equal_parts

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
    source = OfFolder(folder)
    where, head = or_emulator(Target.of(target)), source.head
    made = Network(source, where, None, head.steps, head.origins)
    if not made._started():
        # what is wrong with the folder is an error now
        made._divided()
    return made


def _unpickled(
    graph: Graph, recipe: Recipe, inputs: Sequence[int], weights: Mapping[int, np.ndarray],
    target: Target, steps: Mapping[str, str], origins: Mapping[str, str],
) -> Network:  # fmt: skip
    read = placeholders(graph.tensors)
    arrays = {read[k]: array for k, array in weights.items()}
    recipe = replace(recipe, inputs=tuple(read[k] for k in inputs))
    return Network(OfGraph(recipe, graph.tensors, arrays), target, None, steps, origins)


__all__ = ["Network", "load", "network"]
