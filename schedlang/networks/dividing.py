"""From a model to the parts of its network: what the cache spares a process."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

import numpy as np

from schedlang.compute.tensor import Tensor
from schedlang.networks.layouts import blocked_layouts
from schedlang.networks.model import Options, Recipe
from schedlang.networks.padding import without_padding_taps
from schedlang.networks.partition import Partition, partition
from schedlang.networks.prepare import Prepared, prepare
from schedlang.networks.scan_weights import packed_for_scans
from schedlang.networks.winograd import Convolution, by_rule, forms, with_winograd
from schedlang.target import Target


@dataclass(frozen=True, eq=False)
class Divided:
    """A model that is prepared for a target, and its parts.

    ``forms`` has the size of Winograd's tiles, 0 for none, of each convolution of 3 by 3 for which
    several may be the fastest, by the name of its stage. ``layers`` has the layer of each stage.
    ``trials`` is a key of the database by whose times the forms were chosen, as it was then, empty
    if no times matter.
    """

    prepared: Prepared
    partition: Partition
    layers: Mapping[str, str]
    forms: Mapping[str, int] = field(default_factory=dict)
    trials: str = ""


def divided(
    outputs: tuple[Tensor, ...], params: Mapping[Tensor, np.ndarray], options: Options,
    recipe: Recipe, target: Target, form: Callable[[Convolution], int] = by_rule,
) -> Divided:  # fmt: skip
    """Return a model that is prepared for ``target`` with ``options``, and its parts.

    ``form`` returns the size of Winograd's tiles for a convolution of 3 by 3, 0 for none. Raises
    :class:`~schedlang.errors.NetworkError` for overrides that do not fit.
    """
    rewrites = target.facts.rewrites_networks
    taken: dict[str, int] = {}
    layers = dict(recipe.layers)

    def choose(found: Convolution) -> int:
        m = form(found)
        if len(forms(found)) > 1:
            taken[found.name] = m
        if m and found.name in layers:
            layers.update(dict.fromkeys(found.stages, layers[found.name]))
        return m

    def rewritten(
        outputs: tuple[Tensor, ...], weights: Collection[Tensor]
    ) -> tuple[Tensor, ...]:  # fmt: skip
        if options.fold:
            outputs = without_padding_taps(outputs, weights)
        if options.layouts and rewrites:
            outputs = blocked_layouts(outputs, weights, target).outputs
            outputs = packed_for_scans(outputs, weights, target)
        if options.winograd and rewrites:
            outputs = with_winograd(outputs, weights, choose).outputs
        return outputs

    prepared = prepare(outputs, params, options.fold, rewritten)
    return Divided(prepared, _parts(prepared, recipe, layers), layers, taken)


def divided_again(
    outputs: tuple[Tensor, ...], params: Mapping[Tensor, np.ndarray], recipe: Recipe
) -> Divided:
    """Return a graph that was prepared before, and its parts."""
    prepared = prepare(outputs, params, fold=False)
    return Divided(prepared, _parts(prepared, recipe, recipe.layers), recipe.layers)


def _parts(prepared: Prepared, recipe: Recipe, layers: Mapping[str, str]) -> Partition:
    return partition(prepared.outputs, recipe.cut, recipe.fuse, layers=layers)
