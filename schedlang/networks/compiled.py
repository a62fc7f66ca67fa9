"""A network and its parts so far, as a value: each function returns it with more parts.

What makes parts, kernels and modules is imported when they are asked for: a network that the cache
folder has runs without.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

import numpy as np

from schedlang.compute.tensor import Tensor
from schedlang.networks.cache import cache_key, cached, module_facts, store
from schedlang.networks.call import weight_in
from schedlang.networks.data import ModuleData
from schedlang.networks.model import Recipe
from schedlang.networks.module import NetworkModule
from schedlang.networks.modules import module_of
from schedlang.networks.origins import Origin
from schedlang.networks.plan import Plan
from schedlang.networks.sources import Artifact, Source
from schedlang.target import Target

if TYPE_CHECKING:
    from schedlang.networks.dividing import Divided
    from schedlang.networks.kernels import PartKernel
    from schedlang.networks.partition import Partition
    from schedlang.networks.prepare import Prepared

# the method of a network that returns the data of its module with the machine nest
Whole = Callable[[], ModuleData]


@dataclass(frozen=True, eq=False)
class Compiled:
    """A network of a source, for a target, by a plan, and what is made of it.

    What was not asked for yet is ``None``. ``divided`` are its parts, and ``kernels`` those that
    compute them. ``data`` are those of the module, which the cache folder has under ``key`` once
    they are there. ``params`` are the packed weights, of which a network keeps no other copy.
    """

    source: Source
    target: Target
    plan: Plan
    divided: Divided | None = None
    kernels: tuple[PartKernel, ...] | None = None
    data: ModuleData | None = None
    key: str | None = None
    params: np.ndarray | None = None
    module: NetworkModule | None = None

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
        return replace(self.source.recipe, layers=self.parts.layers)

    @property
    def has_start(self) -> bool:
        """Whether another process may find the module by what the network is made from."""
        return self.target.facts.starts and not self.plan.given


def planned(network: Compiled, plan: Plan) -> Compiled:
    """Return the network by another plan, with its parts, but without kernels and a module."""
    return Compiled(network.source, network.target, plan, network.divided)


def with_parts(network: Compiled) -> Compiled:
    """Return the network with its parts."""
    if network.divided is not None:
        return network
    divided = network.source.divided(network.target, network.plan)
    made = replace(network, divided=divided)
    if network.params is None:
        return made
    # without the module if a file of the cache folder was changed
    return _with_one_copy(made) if _fits(made) else planned(made, made.plan)


def with_kernels(network: Compiled) -> Compiled:
    """Return the network with its kernels, which are not compiled."""
    made = with_parts(network)
    if made.kernels is not None:
        return made
    from schedlang.networks.kernels import part_kernels

    plan = made.plan
    kernels = part_kernels(
        made.partition.parts, made.target, plan.database, plan.steps, plan.origins
    )
    return replace(made, kernels=kernels)


def from_cache(network: Compiled) -> Compiled:
    """Return the network with the data of its module, if the cache folder has them.

    It is found by what it is made from, or else by its parts, which are made then. A module with
    other forms of convolutions than the parts have is another network.
    """
    artifact = network.source.found(network.target, network.plan) if network.has_start else None
    if artifact is not None:
        started = _started(network, artifact)
        if network.divided is None:
            return started
        if network.divided.forms == artifact.forms and _fits(started):
            return _with_one_copy(started)
    made = with_parts(network)
    key = module_key(made)
    data = cached(key, made.target)
    return made if data is None else replace(made, data=data, key=key)


def _started(network: Compiled, artifact: Artifact) -> Compiled:
    plan = replace(network.plan, forms=artifact.forms)
    data, params = artifact.data, artifact.params
    return replace(network, plan=plan, data=data, key=artifact.key, params=params)


def with_data(network: Compiled) -> Compiled:
    """Return the network with the data of its module, from the cache folder if they are there."""
    if network.data is not None:
        return network
    made = from_cache(network)
    return made if made.data is not None else _stored(with_whole(made))


def _stored(network: Compiled) -> Compiled:
    """Return the network with the key of its module, which the cache folder has then."""
    key = module_key(network)
    store(key, network.linked)
    return replace(network, key=key)


def module_key(network: Compiled) -> str:
    """Return the key of the data of the module in the cache folder."""
    prepared, plan = network.prepared, network.plan
    weights = [*prepared.params, *prepared.computed]
    recipe, schedules = network.source.recipe, [plan.steps, plan.origins]
    about = module_facts(recipe, prepared.outputs, weights, schedules)
    return cache_key(about, network.target, plan)


def with_whole(network: Compiled, whole: Whole | None = None) -> Compiled:
    """Return the network with the data of its module and their machine nest."""
    if network.data is not None and network.data.machine is not None:
        return network
    made = with_kernels(network)
    data, module = linked_for(made, made.target), made.module
    if module is not None and module.data != data:
        # a module of the same parts has the same weights
        module = module_of(data, module.params, whole)
    return replace(made, data=data, key=None, module=module)


def linked_for(network: Compiled, target: Target) -> ModuleData:
    """Return the data of the module of a network with kernels, linked for a target."""
    from schedlang.networks.linking import linked

    kernels = cast("tuple[PartKernel, ...]", network.kernels)
    return linked(network.source.recipe, network.prepared, network.partition, kernels, target)


def with_weights(network: Compiled) -> Compiled:
    """Return the network with the arrays of all weights, as :func:`arrays_of` returns them."""
    made = with_parts(network)
    if made.prepared.kept is not None:
        return made
    prepared = replace(made.prepared, kept=made.prepared.values())
    return replace(made, divided=replace(made.parts, prepared=prepared))


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
    made = with_data(network)
    return made if made.params is not None else with_weights(made)


def weights_of(network: Compiled) -> dict[str, np.ndarray]:
    """Return the arrays of the weights by their names in the source of the module."""
    places, params = network.linked.storage.params, network.params
    if params is not None:
        return {place.name: weight_in(params, place) for place in places}
    return {place.name: array for place, array in zip(places, arrays_of(network).values())}


def with_module(network: Compiled, whole: Whole) -> Compiled:
    """Return the network with its module, which packs its weights; others find them."""
    if network.module is not None:
        return network
    made = with_named_weights(network)
    if made.params is not None:
        return replace(made, module=module_of(made.linked, made.params, whole))
    module = module_of(made.linked, weights_of(made), whole)
    made = replace(made, params=module.params, module=module)
    if made.has_start:
        made = _stored(made) if made.key is None else made
        artifact = Artifact(cast(str, made.key), module.data, module.params, made.parts.forms)
        made.source.store(made.target, made.plan, artifact, _read(made), made.parts.trials)
    return _with_one_copy(made)


def _fits(network: Compiled) -> bool:
    """Return whether the parts read weights of the shapes that the module has."""
    places = network.linked.storage.params
    return [place.shape for place in places] == [t.shape for t in _read(network)]


def _with_one_copy(network: Compiled) -> Compiled:
    """Return the network with views of its packed weights in place of other arrays.

    Its convolutions keep the forms for which these are packed.
    """
    divided, prepared, plan, source = (
        network.parts, network.prepared, network.plan, network.source
    )  # fmt: skip
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
