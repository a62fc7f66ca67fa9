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
from time import monotonic
from typing import TYPE_CHECKING, Any

import numpy as np

from schedlang.compute.data import Graph
from schedlang.compute.graph import placeholders
from schedlang.compute.tensor import Tensor, declared
from schedlang.errors import NetworkError
from schedlang.ir.printer import bytes_text
from schedlang.markup.text import printable
from schedlang.networks.cache import cache_key, cached, module_facts, store
from schedlang.networks.call import weight_in
from schedlang.networks.data import ModuleData
from schedlang.networks.memory import MemoryPlan
from schedlang.networks.model import Recipe
from schedlang.networks.module import NetworkModule
from schedlang.networks.modules import module_of
from schedlang.networks.origins import Origin, origins_of
from schedlang.networks.saving import check_destination, save
from schedlang.networks.sources import Found, OfGraph, Source
from schedlang.networks.structure import filled
from schedlang.target import Target

if TYPE_CHECKING:
    from schedlang.autotune.database import Database
    from schedlang.autotune.runner.task import Limits
    from schedlang.networks.dividing import Divided
    from schedlang.networks.kernels import PartKernel
    from schedlang.networks.kernels import Source as Trials
    from schedlang.networks.named_kernels import Kernels
    from schedlang.networks.partition import Partition
    from schedlang.networks.prepare import Prepared
    from schedlang.networks.present import Present
    from schedlang.networks.profile import NetworkProfile
    from schedlang.networks.progress import Setting
    from schedlang.networks.tuning import NetworkTuning, Tuned
    from schedlang.schedule.schedule import Schedule


class Network:
    """A network: call it with arrays.

    ``net(x)`` returns what the network computes, in the library of the first array: an array, a
    tuple of them, or what the imported model returns. ``net(x, out=y)`` writes ``y``, an array or a
    tuple with one for each of ``outputs``. A call checks its arguments as a kernel does, runs
    without Python between the kernels, and may be made by several threads at once. On a GPU it
    launches the kernels in order, on the stream of its arrays.

    * ``partition``: the parts, as a table.
    * ``kernels``: the kernels, each of one or several parts, in order and by name.
    * ``memory``: the plan of the arena.
    * ``module``: the generated module, with ``source``, ``path`` and ``machine_nest``.
    * ``prepared``: what is computed ahead, and what was folded.
    """

    def __init__(
        self, source: Source, target: Target, database: Trials = None,
        steps: Mapping[str, str] | None = None, origins: Mapping[str, Origin] | None = None,
    ) -> None:  # fmt: skip
        self.target = target
        self.database = database
        self._source = source
        # the schedules of kernels that were saved, and where these came from
        self._steps, self._origins = steps, origins or {}
        # the schedules of kernels that the user set, and those that a search left
        self._set: dict[str, str] = {}
        # the schedules when each search that runs began
        self._searches: list[Present] = []
        self._lock = RLock()
        self._parts: Divided | None = None
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
        """The graph with the stages that are computed ahead of all calls, and those folded."""
        return self._divided().prepared

    @property
    def partition(self) -> Partition:
        """The parts of the network, each of which is a kernel."""
        return self._divided().partition

    def _divided(self) -> Divided:
        with self._lock:
            if self._parts is None:
                self._parts = self._source.divided(self.target, self.database)
                if self._module is not None:
                    self._keep_only(self._module)
            return self._parts

    @property
    def kernels(self) -> Kernels:
        """The kernels, also by what they compute (``net.kernels["conv1"]``), not yet compiled."""
        from schedlang.networks.named_kernels import Kernels

        with self._lock:
            if self._kernels is None:
                from schedlang.networks.kernels import part_kernels

                self._kernels = part_kernels(
                    self.partition.parts, self.target, self.database,
                    {**(self._steps or {}), **self._set}, self._origins,
                )
            return Kernels(self._kernels, self.partition.parts)

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
                self._module = module_of(data, self.weights, self._whole)
                self._keep_only(self._module)
                self._store_start(self._module)
            return self._module

    def _started(self) -> bool:
        """Take the module that an earlier process made, if the cache folder has it.

        One with other forms of convolutions than the parts have is another network.
        """
        found = None
        if self.target.facts.starts and not self._set:
            found = self._source.found(self.target, self.database)
        if found is None or (self._parts is not None and self._parts.forms != found.forms):
            return False
        self._source = self._source.settled(found.forms)
        self._data, self._key = found.data, found.key
        self._module = module_of(found.data, found.params, self._whole)
        if self._parts is not None:
            self._keep_only(self._module)
        return self._data is not None

    def _store_start(self, module: NetworkModule) -> None:
        """Let other processes find ``module`` without its parts."""
        if not self.target.facts.starts:
            return
        forms, trials, at = self._divided().forms, self._divided().trials, self.database
        if self._set:
            self._source = self._source.settled(forms)
            return
        if self._key is None:
            self._key = self._cache_key()
            store(self._key, module.data)
        made = Found(self._key, module.data, module.params, forms)
        self._source = self._source.stored(self.target, at, made, self._read(), trials)

    def _keep_only(self, module: NetworkModule) -> None:
        """Replace the arrays of weights by views of those of ``module``, which has copies."""
        assert self._parts is not None
        prepared = self._parts.prepared
        places, read = module.data.storage.params, self._read()
        if [place.shape for place in places] != [t.shape for t in read]:
            # a file of the cache folder was changed
            self._module = self._data = self._key = None
            return
        found = {t: weight_in(module.params, place) for t, place in zip(read, places)}
        kept = {t: found[t] for t in (*prepared.params, *prepared.computed)}
        self._values, params = found, {t: found[t] for t in prepared.params}
        prepared = replace(prepared, params=params, given={}, kept=kept)
        self._parts = replace(self._parts, prepared=prepared)

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
            prepared = self.prepared
            if self._values is None:
                self._values = prepared.values()
            return {t: self._values[t] for t in self._read()}

    def _read(self) -> list[Tensor]:
        """Return the weights in the order in which calls read them, which is that of the module."""
        prepared = self.prepared
        known = {*prepared.params, *prepared.computed}
        read = dict.fromkeys(t for part in self.partition for t in part.reads)
        return [t for t in read if t in known]

    @property
    def source(self) -> str:
        """The source of the module."""
        return self._linked().text

    def __call__(self, /, *args: Any, **named: Any) -> Any:
        found = self.module(*args, **named)
        return filled(self._source.structure, found if isinstance(found, tuple) else (found,))

    def tune(
        self, trials: int | None = None, timeout: float | None = None, search: Any = "random",
        seed: int = 0, resume: bool = True, executor: Executor | None = None,
        progress: Setting = None, limits: Limits | None = None,
        database: Database | str | os.PathLike[str] | None = None,
        sizes: Mapping[Any, int] | None = None,
    ) -> NetworkTuning:  # fmt: skip
        """Search for the schedule of each kernel, and use what is found from the next call on.

        Each kernel is searched once, however many parts it has, and so are those of the other forms
        of 3 by 3 convolutions (direct, or Winograd's filtering), of which the network takes the
        fastest. Kernels without a trial in the database come first, then those in use, then those
        with the most work. A network that has run keeps its forms, for which its weights are
        packed, and one with overrides those of the rule. The options are those of
        :func:`schedlang.autotune`; ``trials`` are those of one kernel, and ``timeout`` is for all.
        Every trial goes into ``database``, by default that of the network, so that a search that
        was interrupted continues. The schedule that a kernel has is measured, too, and stays if
        none is faster. ``progress`` is one bar for all searches, or a function of the name of a
        kernel and a trial. ``sizes`` are the values of symbolic sizes, by name or var.

        Raises :class:`~schedlang.errors.TuningError` for options that do not fit, and for
        ``target="cuda"`` on a machine without a GPU, unless workers of ``executor`` measure, and
        :class:`~schedlang.errors.MissingExtraError` there without numba-cuda. A kernel for which no
        candidate works keeps its schedule, and the result says why.
        """
        from schedlang.networks.present import Present
        from schedlang.networks.tuning import tune, unsearched, works_of

        began, source = monotonic(), self._source
        forms = source.forms(self.target)
        where = self.database if database is None else database
        with self._lock:
            settled, given = self._divided().forms, {**(self._steps or {}), **self._set}
            present = Present(
                self.partition.parts, self.target, self.database, given, self._origins,
                self._kernels or (), where != self.database, not isinstance(search, str),
            )  # fmt: skip
            self._searches.append(present)

        def renewed(searches: Sequence[Tuned]) -> Partition:
            """Return the parts as the times in the database say; nothing is scheduled yet."""
            with self._lock:
                if where is not None:
                    self.database = where
                # a call that was made meanwhile has settled the forms
                if forms is not None and self._source is source:
                    self._parts = self._values = None
                self._source = self._source.without_steps()
                self._kernels = self._data = self._module = self._steps = self._key = None
                self._set, self._origins = present.staying(searches, self.partition.parts)
                return self.partition

        try:
            found = tune(
                self.name, works_of(self.partition, forms, self.target), self.target, trials,
                timeout, where, executor, progress, resume, search, seed, limits, sizes,
                None if forms is None else lambda f: works_of(renewed(f), None, self.target),
                present.schedule, began,
            )  # fmt: skip
            found = found.within(renewed(found.searches))
        finally:
            self._searches.remove(present)
        return replace(found, note=unsearched(forms, settled, self.recipe))

    def reschedule(self, part: str, schedule: Schedule) -> None:
        """Use ``schedule`` for the kernel of a part, and of all parts that are equal to it.

        It is a schedule of the kernel's computation, such as a changed ``net.kernels[k].schedule``.
        The next call runs it, and :meth:`save` writes it. :meth:`tune` only replaces it by one that
        it measures to be faster; one that is set while that runs stays. Raises
        :class:`~schedlang.errors.NetworkError` for an unknown part, and for a schedule of another
        computation; and what ``sl.build`` raises for a schedule that cannot run on the network's
        target, which then keeps the one that it has.

        >>> import numpy as np, schedlang as sl
        >>> X = sl.placeholder((64,), name="X")
        >>> net = sl.network(sl.named("double", X * 2), target="python")
        >>> s = sl.schedule(net.partition["double"].group.outputs)
        >>> s["double"].split(s["double"].op.axis[0], factor=8)  # doctest: +ELLIPSIS
        (...)
        >>> net.reschedule("double", s)
        >>> net.kernels[0].origin, net(np.ones(64, "float32"))[:2]
        ('given', array([2., 2.], dtype=float32))
        """
        from schedlang.networks.kernels import kernel_of
        from schedlang.networks.rescheduling import rescheduled

        with self._lock:
            # an error leaves the network as it was
            kernels = rescheduled(
                self.kernels, self.partition, self.target, self.database, part, schedule
            )
            name, steps = kernel_of(kernels)[part].name, schedule.to_json()
            self._set[name] = steps
            for search in self._searches:
                search.since[name] = self.partition[name].key, steps
            self._origins = {k: v for k, v in self._origins.items() if k != name}
            self._kernels = kernels
            self._data = self._module = self._key = None

    def profile(self, *args: Any, repeat: int = 5) -> NetworkProfile:
        """Return the time of each kernel in a call with these arguments.

        The first profile on a CPU compiles the module once more, with time stamps between its
        calls, which takes about as long as the first call did, or longer; later ones, also of other
        processes, load what was compiled. The module runs at least ``repeat`` times, and the times
        are those of the fastest run. On a GPU they are by its events, without the host's time of
        launching; for the emulator they are those of this CPU. ``print`` shows a table, a notebook
        also a chart and the loop nests of the longest kernels; ``found["conv1"].nest`` is that of
        one part.

        Raises :class:`~schedlang.errors.CallError` for arguments that do not fit and for a
        ``repeat`` below 1, and :class:`~schedlang.errors.BuildError` for ``target="c"``.

        >>> import numpy as np, schedlang as sl
        >>> X = sl.placeholder((64,), name="X")
        >>> net = sl.network(sl.named("double", X * 2), target="python")
        >>> found = net.profile(np.ones(64, "float32"))
        >>> [kernel.name for kernel in found.kernels], found.seconds > 0
        (['double'], True)
        """
        from schedlang.networks.kernels import kernel_of
        from schedlang.networks.profile import profile

        with self._lock:
            self._whole()
            module, whole, kernels = self.module, self.partition, kernel_of(self.kernels)
        return profile(module, whole, kernels, args, repeat)

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write the network to a new folder, and return its path; ``sl.load`` reads it.

        * ``network.py`` runs with NumPy and numba alone: ``pack`` makes the bytes of the weights,
          and the function with the name of the network takes and returns arrays. That of a network
          for a GPU, also of one for the emulator, runs with numba-cuda: ``memory_of`` copies the
          weights to the GPU. Its docstring says how to call it.
        * ``weights.npz`` has the weights, by their names in ``network.py``.
        * ``manifest.json`` has the graph, the schedules and the partition.

        The folder appears complete or not at all. Raises :class:`~schedlang.errors.NetworkError`
        for one that exists already, for a network for ``target="python"`` or ``"c"``, for a part
        whose computation may read outside of an array at some sizes, which only calls here check,
        for indices that weights may lead astray, which ``sl.load`` refuses, and for a kernel of a
        GPU that needs more shared memory than a launch by numba may have.
        """
        check_destination(folder, self.target)
        with self._lock:
            data, weights = self._whole(), self._weights()
            if emulated := self.target.facts.emulates:
                data = self._made(Target(emulated, arch=self.target.arch))
            recipe, outputs, schedules = self._recipe(), self.outputs, self._schedules()
        return save(folder, recipe, outputs, data, weights, *schedules)

    def _linked(self) -> ModuleData:
        """Return the data of the module, from the cache folder if it was built before."""
        with self._lock:
            if self._data is None and not self._started() and not self._built():
                store(key := self._cache_key(), self._whole())
                self._key = key
            assert self._data is not None
            return self._data

    def _built(self) -> bool:
        """Take the data of the module if the cache folder has those of these parts."""
        key = self._cache_key()
        self._data = cached(key, self.target)
        self._key = None if self._data is None else key
        return self._data is not None

    def _cache_key(self) -> str:
        """Return the key of the data of the module in the cache folder."""
        weights = [*self.prepared.params, *self.prepared.computed]
        given = [self._steps, self._set, self._origins]
        about = module_facts(self.recipe, self.outputs, weights, given)
        return cache_key(about, self.target, self.database, None if self._steps is None else ())

    def _whole(self) -> ModuleData:
        """Return the data of the module with its machine nest."""
        with self._lock:
            if self._data is None or self._data.machine is None:
                self._data, self._key = self._made(self.target), None
                if self._module is not None and self._module.data != self._data:
                    # a module of the same parts has the same weights
                    self._module = module_of(self._data, self._module.params, self._whole)
            return self._data

    def _made(self, target: Target) -> ModuleData:
        """Return the data of a module for ``target``, with its machine nest."""
        from schedlang.networks.linking import linked

        return linked(self.recipe, self.prepared, self.partition, self.kernels, target)

    def _recipe(self) -> Recipe:
        """Return the recipe of the prepared graph, with the layers of its stages."""
        return replace(self.recipe, layers=self._divided().layers)

    def _schedules(self) -> tuple[dict[str, str], dict[str, Origin]]:
        """Return the steps of each kernel as JSON, and where they come from."""
        steps = {kernel.name: kernel.schedule.to_json() for kernel in self.kernels}
        return steps, {kernel.name: (kernel.origin, kernel.note) for kernel in self.kernels}

    def __reduce__(self) -> Any:
        with self._lock:
            outputs, recipe, schedules = self.outputs, self._recipe(), self._schedules()
            weights = self._weights()
        # with the inputs that no output reads, which a call takes, too
        tensors = (*outputs, *recipe.inputs)
        places = {t: k for k, t in enumerate(placeholders(tensors))}
        return _unpickled, (
            Graph(tensors), len(outputs), replace(recipe, inputs=()),
            [places[t] for t in recipe.inputs],
            {places[t]: array for t, array in weights.items()}, self.target, *schedules,
        )  # fmt: skip

    def __repr__(self) -> str:
        given = ", ".join(map(declared, self.inputs))
        made = ", ".join(map(declared, self.outputs))
        return f"<Network {printable(self.name)}({given}) -> {made} for {self.target.kind}>"

    def __str__(self) -> str:
        from schedlang.networks.partition import equal_parts
        from schedlang.networks.program import counted

        weights = [*self.prepared.params, *self.prepared.computed]
        size = bytes_text(sum(self.partition.bytes_of(t) for t in weights))
        parts, kernels = len(self.partition), len(equal_parts(self.partition.parts))
        counts = f"{counted(parts, 'part')}, {counted(kernels, 'kernel')}, "
        counts += f"{counted(len(weights), 'weight')} of {size}" if weights else "no weights"
        return f"{repr(self)[1:-1]}: {counts}\n\n{self.partition}"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/html": self.partition._repr_html_(), "text/plain": str(self)}


def _unpickled(
    graph: Graph, outputs: int, recipe: Recipe, inputs: Sequence[int],
    weights: Mapping[int, np.ndarray], target: Target, steps: Mapping[str, str],
    origins: Mapping[str, Any],
) -> Network:  # fmt: skip
    read = placeholders(graph.tensors)
    arrays = {read[k]: array for k, array in weights.items()}
    recipe = replace(recipe, inputs=tuple(read[k] for k in inputs))
    source = OfGraph(recipe, tuple(graph.tensors[:outputs]), arrays)
    # in older pickles the origins are texts
    return Network(source, target, None, steps, origins_of(origins, texts=True))


__all__ = ["Network"]
