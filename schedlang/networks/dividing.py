"""From a model to the parts of its network: what the cache spares a process."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import numpy as np

from schedlang.compute.tensor import Tensor
from schedlang.networks.layouts import blocked_layouts
from schedlang.networks.model import Options, Recipe
from schedlang.networks.partition import Partition, partition
from schedlang.networks.prepare import Prepared, prepare
from schedlang.networks.scan_weights import packed_for_scans
from schedlang.networks.winograd import STAGES, Convolution, by_rule, with_winograd
from schedlang.target import Target

Divided = tuple[Prepared, Partition]


def divided(
    outputs: tuple[Tensor, ...], params: Mapping[Tensor, np.ndarray], options: Options,
    recipe: Recipe, target: Target, form: Callable[[Convolution], int] = by_rule,
) -> Divided:  # fmt: skip
    """Return a model that is prepared for ``target`` with ``options``, and its parts.

    ``form`` returns the size of Winograd's tiles for a convolution of 3 by 3, 0 for none. Raises
    :class:`~schedlang.errors.NetworkError` for overrides that do not fit.
    """
    on_cpu = not target.is_gpu

    def rewritten(
        outputs: tuple[Tensor, ...], weights: Collection[Tensor]
    ) -> tuple[Tensor, ...]:  # fmt: skip
        if options.layouts and on_cpu:
            outputs = blocked_layouts(outputs, weights, target).outputs
            outputs = packed_for_scans(outputs, weights, target)
        if options.winograd and on_cpu:
            outputs = with_winograd(outputs, weights, form).outputs
        return outputs

    return _parts(prepare(outputs, params, options.fold, rewritten), recipe)


def divided_again(
    outputs: tuple[Tensor, ...], params: Mapping[Tensor, np.ndarray], recipe: Recipe
) -> Divided:
    """Return a graph that was prepared before, and its parts."""
    return _parts(prepare(outputs, params, fold=False), recipe)


def _parts(prepared: Prepared, recipe: Recipe) -> Divided:
    layers = with_winograd_stages(recipe.layers)
    return prepared, partition(prepared.outputs, recipe.cut, recipe.fuse, layers=layers)


def with_winograd_stages(layers: Mapping[str, str]) -> dict[str, str]:
    """Return the layers of stages, and of those that Winograd's filtering makes of convolutions.

    >>> with_winograd_stages({"conv": "features.0"})["conv_products"]
    'features.0'
    """
    made = {f"{stage}_{word}": layer for stage, layer in layers.items() for word in STAGES}
    return {**made, **layers}


__all__ = ["Divided", "divided", "divided_again"]
