"""Sources of networks: a model, or the folder of a network that was saved.

A source says enough to find the network in the cache. Only if it is not there, or if its parts are
asked for, the source divides it into parts.
"""

from __future__ import annotations

import hashlib
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from schedlang.errors import BuildError
from schedlang.networks.cache import (
    Artifact,
    PackedWeights,
    cache_key,
    database_states,
    is_packed,
    load_weights,
    store_weights,
)
from schedlang.networks.call import weight_in
from schedlang.networks.manifest import WEIGHTS, head_of, manifest_of
from schedlang.networks.model import Model
from schedlang.networks.plan import Plan
from schedlang.networks.saved_functions import given_functions
from schedlang.networks.weight_files import UNREADABLE, digest, read_params, state_of
from schedlang.target import Target

if TYPE_CHECKING:
    from schedlang.codegen.network_storage import Storage
    from schedlang.compute.extern_op import ExternFunction
    from schedlang.compute.tensor import Tensor
    from schedlang.networks.dividing import Divided
    from schedlang.networks.forms import Forms
    from schedlang.networks.saved_model import Saved


class Source(ABC):
    """The source of a network: a name, and a model with the arrays of its weights."""

    name: str

    @property
    @abstractmethod
    def model(self) -> Model:
        """The model, which may be read when it is asked for."""

    @property
    def structure(self) -> Any:
        """The structure of what a call returns."""
        return self.model.structure

    def functions(self) -> list[ExternFunction]:
        """Return the functions of users that the model calls, in order."""
        from schedlang.compute.graph import functions_of

        return functions_of(self.model.outputs)

    @property
    @abstractmethod
    def facts(self) -> list[str]:
        """Text that differs for every other source, whatever the values of its weights are."""

    @abstractmethod
    def params_of(
        self, artifact: Artifact, target: Target, plan: Plan
    ) -> tuple[np.ndarray, PackedWeights] | None:
        """Return the packed weights, ``None`` if an artifact's were packed of other weights.

        The second result tells them: what the artifact has, or should have from now on.
        """

    @abstractmethod
    def stored_params(
        self,
        params: np.ndarray,
        weights: Mapping[Tensor, str],
        target: Target,
        plan: Plan,
    ) -> PackedWeights | None:
        """Store packed weights for other processes, and return what tells them.

        ``weights`` are the module's, with their names there. Return ``None`` if other processes
        cannot take them.
        """

    def _packed_key(self, target: Target, plan: Plan) -> str:
        """Return the key of the packed weights, which do not depend on schedules.

        There is one copy for all databases.
        """
        return cache_key(["packed", *self.facts], target, Plan(plan.options, saved={}))

    def packed(self) -> Source:
        """Return this source for a network whose module has packed the weights."""
        return self

    def divided(self, target: Target, plan: Plan) -> Divided:
        """Return the network in parts, its convolutions in the fastest form that is known."""
        divide = self._dividing(target, plan)
        if plan.forms is not None:
            return self._in_forms(divide, plan.forms, target)
        if not _timed(target, plan):
            return divide()
        from schedlang.networks.forms import choose_forms

        try:
            # before the times are read: those that are written meanwhile may be read, too
            files = database_states(plan)
        except BuildError:
            # no cache folder, and no times: the first call says so
            return divide()
        return choose_forms(divide, target, plan.database, plan.compiler, files)

    def forms(self, target: Target, plan: Plan) -> Forms | None:
        """Return the network in all forms of its convolutions, ``None`` if these are settled."""
        if plan.forms is not None or not _timed(target, plan):
            return None
        from schedlang.networks.forms import all_forms

        return all_forms(self._dividing(target, plan), target)

    def _in_forms(
        self, divide: Callable[..., Divided], forms: Mapping[str, int], target: Target
    ) -> Divided:
        from schedlang.networks.winograd import rule_of

        rule = rule_of(target)
        return divide(lambda kernel: forms.get(kernel.name, rule(kernel)))

    def _dividing(self, target: Target, plan: Plan) -> Callable[..., Divided]:
        """Return the function that divides the model, given the form of each convolution."""
        from schedlang.networks.dividing import formless, in_forms

        return partial(in_forms, formless(self.model, plan.options, target))


def _timed(target: Target, plan: Plan) -> bool:
    """Return whether times choose the forms of convolutions."""
    return plan.options.choose_forms and bool(target.facts.winograd)


@dataclass(frozen=True)
class Hashes:
    """The hashes of a graph and of the values of its weights."""

    graph: str
    weights: str


@dataclass(frozen=True, eq=False)
class OfModel(Source):
    """A model that is given.

    Once a module has packed the weights, the arrays of the model are empty, since nothing needs
    them any more, and ``hashes`` has what they were.
    """

    name: str
    given: Model
    hashes: Hashes | None = None

    @property
    def model(self) -> Model:
        return self.given

    @property
    def facts(self) -> list[str]:
        return ["model", self._graph]

    @cached_property
    def _graph(self) -> str:
        """A hash of all but the values of the weights."""
        if self.hashes is not None:
            return self.hashes.graph
        # a process that loads a folder imports no graphs
        from schedlang.compute.data import hashed_data

        outputs, inputs, params = self.given.outputs, self.given.inputs, self.given.params
        about = [
            hashed_data((*outputs, *inputs, *params)),
            len(outputs),
            len(inputs),
            self.name,
            dict(self.given.layers),
        ]
        # names that are not text are refused when the model is divided
        text = json.dumps(about, sort_keys=True, allow_nan=False, default=repr)
        return hashlib.sha256(text.encode()).hexdigest()

    @cached_property
    def _values(self) -> str:
        """A hash of the values of the weights, as they are when it is first asked for."""
        if self.hashes is not None:
            return self.hashes.weights
        return digest(self.given.params.values())

    def params_of(
        self, artifact: Artifact, target: Target, plan: Plan
    ) -> tuple[np.ndarray, PackedWeights] | None:
        weights = artifact.weights
        if weights is None or weights.values != self._values:
            return None
        size = artifact.data.storage.param_bytes
        params = load_weights(self._packed_key(target, plan), weights, size)
        return None if params is None else (params, weights)

    def stored_params(
        self,
        params: np.ndarray,
        weights: Mapping[Tensor, str],
        target: Target,
        plan: Plan,
    ) -> PackedWeights | None:
        """Store packed weights, unless the arrays were changed since they were hashed."""
        hashed = vars(self).get("_values")
        if self.hashes is None and hashed not in (None, digest(self.given.params.values())):
            return None
        return store_weights(self._packed_key(target, plan), self._values, params)

    def packed(self) -> OfModel:
        """Return this source without arrays.

        Its hash is taken of the weights as they are now, unless it was asked for before.
        """
        hashes = Hashes(self._graph, self._values)
        params = dict.fromkeys(self.given.params, np.empty(0))
        return replace(self, given=replace(self.given, params=params), hashes=hashes)


class OfFolder(Source):
    """The network of a folder, whose manifest is read now.

    ``functions`` are the users' that it calls, by their names. Raises
    :class:`~schedlang.errors.NetworkError` for a folder without a manifest that this version reads,
    and if functions are missing.
    """

    def __init__(self, folder: str | os.PathLike[str], functions: Any = None) -> None:
        self._folder = folder
        self._manifest = manifest_of(folder)
        self.head = head_of(folder, self._manifest)
        self.name = self.head.name
        self._functions = given_functions(folder, self.head.functions, functions)
        # the arrays of its weights by name, if they were read, and the state of their file
        self._arrays: Mapping[str, np.ndarray] | None = None
        self._state = ""

    @property
    def structure(self) -> Any:
        return self.head.structure

    @property
    def model(self) -> Model:
        return self.saved.model

    @cached_property
    def saved(self) -> Saved:
        """The graph and the weights, which are read if they were not."""
        # a process that takes the module from the cache folder does not import this
        from schedlang.networks.saved_model import load_saved

        if self._arrays is not None:
            return load_saved(
                self._folder, self._manifest, self.head, self._arrays, self._functions
            )
        before = self._state_now()
        saved = load_saved(self._folder, self._manifest, self.head, None, self._functions)
        # a file that was written meanwhile has no state for these arrays
        self._state = before if before == self._state_now() else ""
        return saved

    def _state_now(self) -> str:
        try:
            return state_of(self._path)
        except UNREADABLE:
            return ""

    @property
    def _path(self) -> Path:
        return Path(self._folder) / WEIGHTS

    @property
    def facts(self) -> list[str]:
        functions = [function.identity for function in self._functions]
        return ["folder", hashlib.sha256(self._manifest).hexdigest(), *functions]

    def functions(self) -> list[ExternFunction]:
        return self._functions

    def params_of(
        self, artifact: Artifact, target: Target, plan: Plan
    ) -> tuple[np.ndarray, PackedWeights] | None:
        """Return the packed weights, from the cache folder if the file is as it was.

        Otherwise the file is read. Return ``None`` if it is damaged, which :attr:`saved` then says,
        or if indices were checked with other weights.
        """
        weights, storage = artifact.weights, artifact.data.storage
        if weights is None:
            return None
        key = self._packed_key(target, plan)
        try:
            state = state_of(self._path)
            if weights.digest and state == weights.stamp:
                params = load_weights(key, weights, storage.param_bytes)
                if params is not None:
                    self._take(params, storage, state)
                    return params, weights
                # another process removed them, or packed them in another way
                weights = replace(weights, digest="")
            params = read_params(self._path, storage)
            # a file that was written meanwhile has no state for these arrays
            state = state if self._state_now() == state else ""
        except UNREADABLE:
            return None
        self._take(params, storage, state)
        arrays = self._arrays or {}
        for name, values in weights.indexing.items():
            if name not in arrays or digest([arrays[name]]) != values:
                return None
        return params, self._stored(key, params, weights)

    def _take(self, params: np.ndarray, storage: Storage, state: str) -> None:
        self._arrays = {place.name: weight_in(params, place) for place in storage.params}
        self._state = state

    def _stored(self, key: str, params: np.ndarray, weights: PackedWeights) -> PackedWeights:
        """Return what tells packed weights of the file in its state, which are stored if need be.

        If the folder was copied, the file of the copy has another state, and the same packed
        weights serve it.
        """
        if not self._state:
            return weights
        values = digest([params])
        if not (weights.digest and weights.values == values and is_packed(key, values)):
            stored = store_weights(key, values, params)
            if stored is None:
                return replace(weights, values="", digest="", stamp="")
            weights = replace(weights, values=values, digest=stored.digest)
        return replace(weights, stamp=self._state)

    def stored_params(
        self,
        params: np.ndarray,
        weights: Mapping[Tensor, str],
        target: Target,
        plan: Plan,
    ) -> PackedWeights | None:
        """Store packed weights, if the module has the folder's weights by their names."""
        if weights != self.saved.names:
            return None
        arrays = {name: self.model.params[weight] for weight, name in weights.items()}
        checked = {name: digest([arrays[name]]) for name in self.saved.indexing}
        return self._stored(self._packed_key(target, plan), params, PackedWeights(indexing=checked))


__all__ = ["Hashes", "OfFolder", "OfModel", "Source"]
