"""Sources of networks: a model with options, or what was saved or pickled.

A source says enough to find the network in the cache. Only if it is not there, or if its parts are
asked for, the source divides it into parts.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from schedlang.compute.data import to_data
from schedlang.compute.tensor import Tensor
from schedlang.errors import BuildError
from schedlang.networks.cache import cache_key, cached
from schedlang.networks.call import weight_in
from schedlang.networks.data import ModuleData
from schedlang.networks.model import Options, Recipe
from schedlang.networks.plan import Plan
from schedlang.networks.saving import WEIGHTS, Saved, head_of, load_saved, manifest_of
from schedlang.networks.starts import Start, packed_of, start_of, store_packed, store_start
from schedlang.networks.weights import UNREADABLE, digest, read_params
from schedlang.target import Target

if TYPE_CHECKING:
    from schedlang.networks.dividing import Divided
    from schedlang.networks.forms import Forms
    from schedlang.networks.winograd import Convolution


@dataclass(frozen=True, eq=False)
class Artifact:
    """The data of a module, which the cache folder has under ``key``, and its packed weights.

    ``forms`` are those of its convolutions, as :class:`~schedlang.networks.dividing.Divided` has
    them.
    """

    key: str
    data: ModuleData
    params: np.ndarray
    forms: Mapping[str, int] = field(default_factory=dict)


class Source:
    """The source of a network; by default, a graph whose weights are those of one form."""

    recipe: Recipe

    @property
    def name(self) -> str:
        """The name of the recipe, which may be made when it is asked for."""
        return self.recipe.name

    @property
    def structure(self) -> Any:
        """The structure of the recipe."""
        return self.recipe.structure

    def divided(self, target: Target, plan: Plan) -> Divided:
        """Return the network in parts; its database may tell which forms of them are faster."""
        raise NotImplementedError

    def forms(self, target: Target, plan: Plan) -> Forms | None:
        """Return the network in all forms of its convolutions, ``None`` if these are settled."""
        return None

    def found(self, target: Target, plan: Plan) -> Artifact | None:
        """Return the module that an earlier process made of this, ``None`` if there is none.

        The cache folder may have it under a key of its parts all the same.
        """
        return None

    def store(
        self, target: Target, plan: Plan, made: Artifact, weights: Sequence[Tensor], trials: str
    ) -> None:
        """Let other processes find the module that was ``made``.

        ``weights`` are those of the module, in its order, and ``trials`` is the key of the
        database, as :class:`~schedlang.networks.dividing.Divided` has it.
        """

    def packed(self) -> Source:
        """Return this source for a network whose module has packed the weights."""
        return self


@dataclass(frozen=True)
class Hashes:
    """The hashes of a graph and of the values of its weights."""

    graph: str
    weights: str


@dataclass(frozen=True, eq=False)
class OfModel(Source):
    """A model: a graph that is not prepared, and the arrays of its weights.

    Once a module has packed the weights, the arrays are empty, since nothing needs them any more,
    and ``hashes`` has what they were.
    """

    recipe: Recipe
    outputs: tuple[Tensor, ...]
    params: Mapping[Tensor, np.ndarray]
    options: Options
    hashes: Hashes | None = None

    def divided(self, target: Target, plan: Plan) -> Divided:
        """Return the network in parts, its convolutions in the fastest form that is known."""
        divide = partial(self._divided, target)
        if plan.forms is not None:
            return self._as_taken(divide, plan.forms)
        if not self._timed(target):
            return divide()
        from schedlang.networks.forms import chosen

        try:
            # before the times are read: those that are written meanwhile may be read, too
            trials = self._key(target, plan)
        except BuildError:
            # no cache folder, and no times: the first call says so
            return divide()
        return replace(chosen(divide, target, plan.database), trials=trials)

    def forms(self, target: Target, plan: Plan) -> Forms | None:
        """Return the network in all forms of its convolutions, ``None`` if these are settled."""
        if plan.forms is not None or not self._timed(target):
            return None
        from schedlang.networks.forms import all_forms

        return all_forms(partial(self._divided, target))

    def _timed(self, target: Target) -> bool:
        """Return whether times choose the forms of convolutions.

        Where the user names stages, in overrides, these are those of the rule's forms.
        """
        rewrites = self.options.winograd and target.facts.rewrites_networks
        return rewrites and not (self.recipe.cut or self.recipe.fuse)

    def _as_taken(self, divide: Callable[..., Divided], forms: Mapping[str, int]) -> Divided:
        from schedlang.networks.winograd import by_rule

        return divide(lambda found: forms.get(found.name, by_rule(found)))

    def _divided(self, target: Target, *form: Callable[[Convolution], int]) -> Divided:
        from schedlang.networks.dividing import divided

        return divided(self.outputs, self.params, self.options, self.recipe, target, *form)

    @cached_property
    def _graph(self) -> str:
        """A hash of all but the values of the weights."""
        if self.hashes is not None:
            return self.hashes.graph
        recipe, inputs = self.recipe, self.recipe.inputs
        about = [
            to_data((*self.outputs, *inputs, *self.params)), len(self.outputs), len(inputs),
            recipe.name, dict(recipe.layers), recipe.cut, recipe.fuse, recipe.flush_denormals,
            astuple(self.options),
        ]  # fmt: skip
        # names that are no text are refused when the model is divided
        text = json.dumps(about, sort_keys=True, allow_nan=False, default=repr)
        return hashlib.sha256(text.encode()).hexdigest()

    @cached_property
    def _weights(self) -> str:
        """A hash of the values of the weights, as they are when it is first asked for."""
        return self.hashes.weights if self.hashes is not None else digest(self.params.values())

    def _key(self, target: Target, plan: Plan) -> str:
        return cache_key(["model", self._graph], target, plan)

    def _packed_key(self, target: Target) -> str:
        """Return the key of the packed weights, of which there is one copy for all databases."""
        return cache_key(["packed", self._graph], target)

    def is_known(self, target: Target, plan: Plan) -> bool:
        """Return whether an earlier process made a module of this, of the same weights or not."""
        try:
            return start_of(self._key(target, plan)) is not None
        except BuildError:
            # no folder: the first call says so
            return False

    def found(self, target: Target, plan: Plan) -> Artifact | None:
        """Return the module that an earlier process made of this, ``None`` if there is none."""
        key = self._key(target, plan)
        start = start_of(key)
        if start is None or start.weights != self._weights:
            return None
        data = cached(start.module, target)
        if data is None:
            return None
        params = packed_of(self._packed_key(target), start, data.storage.param_bytes)
        if params is None:
            return None
        return Artifact(start.module, data, params, start.forms)

    def store(
        self, target: Target, plan: Plan, made: Artifact, weights: Sequence[Tensor], trials: str
    ) -> None:
        """Let other processes find the module that was ``made``.

        Others would choose forms by the times in the database now, and find no module with those of
        other times, nor one of arrays that were changed since they were hashed.
        """
        key, known = self._key(target, plan), vars(self).get("_weights")
        current = not (made.forms and self._timed(target)) or trials == key
        hashed = self.hashes is not None or known is None
        if current and (hashed or known == digest(self.params.values())):
            packed = store_packed(self._packed_key(target), self._weights, made.params)
            if packed is not None:
                store_start(key, Start(made.key, self._weights, packed, dict(made.forms)))

    def packed(self) -> OfModel:
        """Return this source without arrays.

        Its hash is that of the weights as they are now, if it was not asked for before.
        """
        hashes = Hashes(self._graph, self._weights)
        return replace(self, params=dict.fromkeys(self.params, np.empty(0)), hashes=hashes)


class OfFolder(Source):
    """The network of a folder, whose manifest is read now.

    Raises :class:`~schedlang.errors.NetworkError` for a folder without a manifest that this version
    reads.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = folder
        self._manifest = manifest_of(folder)
        self.head = head_of(folder, self._manifest)
        # the arrays of its weights by name, if they were read
        self._arrays: Mapping[str, np.ndarray] | None = None

    @property
    def name(self) -> str:
        return self.head.name

    @property
    def structure(self) -> Any:
        return self.head.structure

    @cached_property
    def recipe(self) -> Recipe:  # type: ignore[override]
        return self.saved.recipe

    @cached_property
    def saved(self) -> Saved:
        """The graph and the weights, which are read if they were not."""
        return load_saved(self._folder, self._manifest, self.head, self._arrays)

    def divided(self, target: Target, plan: Plan) -> Divided:
        """Return the network in parts."""
        return OfGraph(self.recipe, self.saved.outputs, self.saved.weights).divided(target, plan)

    def _key(self, target: Target, plan: Plan) -> str:
        manifest = hashlib.sha256(self._manifest).hexdigest()
        return cache_key(["folder", manifest], target, plan)

    def found(self, target: Target, plan: Plan) -> Artifact | None:
        """Return the module that an earlier process made of this, ``None`` if there is none.

        The weights are read now. If they are damaged there is none, and :attr:`saved` says why; nor
        is there if indices were checked with other ones, or for other schedules than those of the
        folder.
        """
        start = None if plan.saved is None else start_of(self._key(target, plan))
        data = None if start is None else cached(start.module, target)
        if start is None or data is None:
            return None
        try:
            params = read_params(Path(self._folder) / WEIGHTS, data.storage)
        except UNREADABLE:
            return None
        arrays = {place.name: weight_in(params, place) for place in data.storage.params}
        for name, found in start.indexing.items():
            if name not in arrays or digest([arrays[name]]) != found:
                return None
        self._arrays = arrays
        return Artifact(start.module, data, params)

    def store(
        self, target: Target, plan: Plan, made: Artifact, weights: Sequence[Tensor], trials: str
    ) -> None:
        """Let other processes find the module that was ``made`` by the schedules of the folder."""
        places = zip(weights, made.data.storage.params)
        same = {tensor: place.name for tensor, place in places} == self.saved.names
        if same and plan.saved is not None:
            arrays = {name: weight for weight, name in self.saved.names.items()}
            indexing = {
                name: digest([self.saved.weights[arrays[name]]]) for name in self.saved.indexing
            }
            store_start(self._key(target, plan), Start(made.key, indexing=indexing))


@dataclass(frozen=True, eq=False)
class OfGraph(Source):
    """A graph that was prepared before, and the arrays of its weights."""

    recipe: Recipe
    outputs: tuple[Tensor, ...]
    params: Mapping[Tensor, np.ndarray]

    def divided(self, target: Target, plan: Plan) -> Divided:
        """Return the network in parts."""
        from schedlang.networks.dividing import divided_again

        return divided_again(self.outputs, self.params, self.recipe)
