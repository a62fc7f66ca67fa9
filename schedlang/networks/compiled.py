"""A network and its parts so far, as a value: each function returns it with more parts.

The code that makes parts, kernels and modules is imported when it is needed: a network that the
cache folder has runs without it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

import numpy as np

from schedlang.errors import BuildError
from schedlang.markup.progress import Setting, tell
from schedlang.networks.cache import (
    Artifact,
    cache_key,
    database_states,
    graph_key,
    is_shared,
    load_artifact,
    store,
)
from schedlang.networks.call import weight_in
from schedlang.networks.data import ModuleData
from schedlang.networks.looked_up import FileState, LookedUp, looked_up
from schedlang.networks.model import Recipe, recipe_of
from schedlang.networks.module import NetworkModule
from schedlang.networks.origins import Origin
from schedlang.networks.plan import Plan
from schedlang.networks.sources import Source
from schedlang.runtime.collection import no_collection
from schedlang.target import Target
from schedlang.target_kinds import placed_at

if TYPE_CHECKING:
    from schedlang.compute.tensor import Tensor
    from schedlang.networks.backend import ModuleBackend
    from schedlang.networks.dividing import Divided
    from schedlang.networks.kernels import PartKernel
    from schedlang.networks.partition import Partition
    from schedlang.networks.prepare import Prepared
    from schedlang.runtime.on_host import OnHost

Step = Callable[["Compiled"], "Compiled"]
# the method of a network that returns the data of its module with the machine nest
Whole = Callable[[], ModuleData]


@dataclass(frozen=True, eq=False)
class Compiled:
    """A network of a source, for a target, by a plan, and its parts so far.

    What was not asked for yet is ``None``. ``divided`` are its parts, and ``kernels`` compute them.
    ``data`` are the data of the module, which computes the prepared graph with the hash ``graph``;
    ``is_stored`` says whether the cache folder has them. ``params`` are the packed weights, of
    which a network keeps no other copy. ``trials`` are those that the schedules of the kernels
    depend on.
    """

    source: Source
    target: Target
    plan: Plan
    divided: Divided | None = None
    kernels: tuple[PartKernel, ...] | None = None
    data: ModuleData | None = None
    graph: str = ""
    is_stored: bool = False
    params: np.ndarray | None = None
    module: NetworkModule | None = None
    trials: tuple[LookedUp, ...] = ()

    @property
    def parts(self) -> Divided:
        """The parts of a network that :func:`with_parts` returned."""
        return cast("Divided", self.divided)

    @property
    def linked(self) -> ModuleData:
        """The data of a network that :func:`with_data` or :func:`with_whole` returned."""
        return cast(ModuleData, self.data)

    @property
    def prepared(self) -> Prepared:
        return self.parts.prepared

    @property
    def partition(self) -> Partition:
        return self.parts.partition

    @property
    def recipe(self) -> Recipe:
        """The recipe of the prepared graph, with the layers of its stages."""
        model = replace(self.source.model, layers=self.parts.layers)
        return recipe_of(self.source.name, model, self.plan.options)


def by_plan(network: Compiled, plan: Plan) -> Compiled:
    """Return the network by another plan, with its parts, but without kernels and a module."""
    return Compiled(network.source, network.target, plan, network.divided)


def with_parts(network: Compiled) -> Compiled:
    """Return the network with its parts."""
    if network.divided is not None:
        return network
    tell("dividing")
    divided = replace(network, divided=network.source.divided(network.target, network.plan))
    if network.params is None:
        return divided
    # without the module if a file of the cache folder was changed
    fits = graph_of(divided) == network.graph
    return _with_one_copy(divided) if fits else by_plan(divided, divided.plan)


def with_kernels(network: Compiled) -> Compiled:
    """Return the network with its kernels, which are not compiled."""
    divided = with_parts(network)
    if divided.kernels is not None:
        return divided
    from schedlang.networks.kernels import part_kernels

    # before the schedules are looked up: those that are written meanwhile may be read, too
    files = _database_states(divided.plan)
    plan, parts, target = divided.plan, divided.partition.parts, divided.target
    kernels = part_kernels(parts, target, plan.database, plan.steps, plan.origins, plan.compiler)
    trials = looked_up((part.group.outputs for part in parts), files)
    return replace(divided, kernels=kernels, trials=(trials,))


def _database_states(plan: Plan) -> tuple[FileState, ...]:
    try:
        return database_states(plan)
    except BuildError:
        # no cache folder, and no database there: the first call says so
        return ()


def from_cache(network: Compiled) -> Compiled:
    """Return the network with what the cache folder has of it, and with its parts if need be.

    The packed weights are all that a network needs parts for. A module serves other weights, too,
    if they make the same graph.
    """
    if network.data is not None:
        return network
    source, target, plan = network.source, network.target, network.plan
    artifact = load_artifact(key_of(network), target, source.functions)
    packed = None
    if artifact is not None and target.facts.starts:
        packed = source.params_of(artifact, target, plan)
    if artifact is not None and packed is not None:
        params, weights = packed
        if weights != artifact.weights:
            # the file of a folder has other weights by now, or stands elsewhere
            store(key_of(network), replace(artifact, weights=weights), source.functions)
        started = _linked(
            replace(network, plan=replace(plan, forms=artifact.forms), params=params), artifact
        )
        if network.divided is None:
            return started
        if network.divided.forms == artifact.forms and graph_of(started) == artifact.graph:
            return _with_one_copy(started)
    divided = with_parts(network)
    if artifact is None and divided.parts.forms:
        # one whose forms were settled before has the same module
        settled = replace(plan, forms=divided.parts.forms)
        key = key_of(replace(divided, plan=settled))
        artifact = load_artifact(key, target, source.functions)
    if artifact is None or artifact.graph != graph_of(divided):
        return divided
    return _linked(divided, artifact)


def _linked(network: Compiled, artifact: Artifact) -> Compiled:
    return replace(
        network, data=artifact.data, graph=artifact.graph, trials=artifact.trials, is_stored=True
    )


def key_of(network: Compiled) -> str:
    """Return the key of a network in the cache: a digest of its source, its target and its plan."""
    return cache_key(network.source.facts, network.target, network.plan)


def graph_of(network: Compiled) -> str:
    """Return the hash of the prepared graph of a network with parts."""
    prepared, model = network.prepared, network.source.model
    weights = [*prepared.params, *prepared.computed]
    return graph_key(prepared.outputs, model.inputs, network.parts.layers, weights)


def with_scheduled(network: Compiled) -> Compiled:
    """Return the network with its kernels, unless its module has them already."""
    return network if network.data is not None else with_kernels(network)


def with_data(network: Compiled) -> Compiled:
    """Return the network with the data of its module, from the cache folder if they are there."""
    looked_up = from_cache(network)
    return looked_up if looked_up.data is not None else with_whole(looked_up)


def with_stored_data(network: Compiled) -> Compiled:
    """Return the network with the data of its module, which the cache folder has then."""
    linked = with_data(network)
    return linked if linked.is_stored else _stored(linked)


def _stored(network: Compiled) -> Compiled:
    """Return the network, which the cache folder has then, with the packed weights if it has them.

    Other processes choose schedules, and the forms of convolutions that no plan has, by the trials
    that the database has now: a network by earlier trials is not theirs.
    """
    source, target, plan, parts = network.source, network.target, network.plan, network.parts
    if not is_shared(network.linked, source.functions):
        return network
    settled = plan.forms is not None or not parts.forms
    chosen = () if settled or parts.trials is None else (parts.trials,)
    trials = tuple(dict.fromkeys((*network.trials, *chosen)))
    if not all(record.stands() for record in trials):
        return network
    weights = None
    if network.params is not None and target.facts.starts:
        names = (place.name for place in network.linked.storage.params)
        weights = source.stored_params(
            network.params, dict(zip(_read(network), names)), target, plan
        )
    artifact = Artifact(network.linked, network.graph, parts.forms, weights, trials)
    store(key_of(network), artifact, source.functions)
    return replace(network, is_stored=True)


def with_whole(network: Compiled, whole: Whole | None = None, progress: Setting = None) -> Compiled:
    """Return the network with the data of its module and their machine nest."""
    if network.data is not None and network.data.machine is not None:
        return network
    scheduled = with_kernels(network)
    data, module = link_for(scheduled, scheduled.target), scheduled.module
    stays = scheduled.is_stored and scheduled.data == data
    if module is not None and module.data != data:
        # a module of the same parts has the same weights
        module = NetworkModule(data, module.params, whole, network.plan.compiler, progress)
    return replace(scheduled, data=data, graph=graph_of(scheduled), is_stored=stays, module=module)


def link_for(network: Compiled, target: Target) -> ModuleData:
    """Return the data of the module of a network with kernels, linked for a target."""
    from schedlang.networks.linking import link_parts

    tell("linking, then compiling")
    kernels = cast("tuple[PartKernel, ...]", network.kernels)
    with no_collection():
        return link_parts(network.recipe, network.prepared, network.partition, kernels, target)


def with_weights(network: Compiled) -> Compiled:
    """Return the network with the arrays of all weights, as :func:`arrays_of` returns them."""
    divided = with_parts(network)
    if divided.prepared.kept is not None:
        return divided
    tell("computing weights, then compiling")
    prepared = replace(divided.prepared, kept=divided.prepared.values())
    return replace(divided, divided=replace(divided.parts, prepared=prepared))


def arrays_of(network: Compiled) -> dict[Tensor, np.ndarray]:
    """Return the arrays of the weights, in the order in which calls read them."""
    kept = cast("Mapping[Tensor, np.ndarray]", network.prepared.kept)
    return {t: kept[t] for t in _read(network)}


def _read(network: Compiled) -> list[Tensor]:
    """Return the weights in the order in which calls read them."""
    known = {*network.prepared.params, *network.prepared.computed}
    read = dict.fromkeys(t for part in network.partition for t in part.reads)
    return [t for t in read if t in known]


def with_named_weights(network: Compiled) -> Compiled:
    """Return the network with what :func:`weights_of` needs; packed weights need no parts."""
    linked = with_data(network)
    return linked if linked.params is not None else with_weights(linked)


def weights_of(network: Compiled) -> dict[str, np.ndarray]:
    """Return the arrays of the weights by their names in the source of the module."""
    places, params = network.linked.storage.params, network.params
    if params is not None:
        return {place.name: weight_in(params, place) for place in places}
    return {place.name: array for place, array in zip(places, arrays_of(network).values())}


def code_of(network: Compiled) -> OnHost | None:
    """Return the function of the module that a network with data is to have, to compile it now.

    The function is ``None`` if the network has a module, or data from the cache folder, and for
    targets whose modules are not compiled before they have weights.
    """
    data = network.linked
    if network.module is not None or data.machine is None:
        return None
    backend: type[ModuleBackend] = placed_at(data.target.facts.network_backend)
    return backend.code(data, network.plan.compiler)


def with_module(network: Compiled, whole: Whole, progress: Setting = None) -> Compiled:
    """Return the network with its module, which packs its weights; others find them."""
    if network.module is not None:
        return network
    weighted, compiler = with_named_weights(network), network.plan.compiler
    if weighted.params is not None:
        module = NetworkModule(weighted.linked, weighted.params, whole, compiler, progress)
        return replace(weighted, module=module)
    module = NetworkModule(weighted.linked, weights_of(weighted), whole, compiler, progress)
    packed = replace(weighted, params=module.params, module=module)
    if packed.target.facts.starts or not packed.is_stored:
        packed = _stored(packed)
    return _with_one_copy(packed)


def _with_one_copy(network: Compiled) -> Compiled:
    """Return the network with views of its packed weights in place of other arrays.

    Its convolutions keep the forms for which these are packed.
    """
    divided, prepared, plan, source = (
        network.parts,
        network.prepared,
        network.plan,
        network.source,
    )
    arrays = dict(zip(_read(network), weights_of(network).values()))
    kept = {t: arrays[t] for t in (*prepared.params, *prepared.computed)}
    params = {t: arrays[t] for t in prepared.params}
    prepared = replace(prepared, params=params, given={}, kept=kept)
    if network.target.facts.starts:
        plan, source = replace(plan, forms=divided.forms), source.packed()
    divided = replace(divided, prepared=prepared)
    return replace(network, source=source, plan=plan, divided=divided)


def schedules_of(network: Compiled) -> tuple[dict[str, str], dict[str, Origin]]:
    """Return the steps of each kernel as JSON, and where they come from."""
    kernels = cast("tuple[PartKernel, ...]", network.kernels)
    steps = {kernel.name: kernel.schedule.to_json() for kernel in kernels}
    return steps, {kernel.name: (kernel.origin, kernel.note) for kernel in kernels}


# the steps to the data of a module, and to all that the module needs: what one of them has made
# stays when the next one is interrupted
TO_DATA: tuple[Step, ...] = (from_cache, with_scheduled, with_data)
TO_MODULE: tuple[Step, ...] = (*TO_DATA, with_named_weights)
