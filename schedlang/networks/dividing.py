"""From a model to the parts of its network: what the cache spares a process."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from schedlang.compute.tensor import Tensor
from schedlang.networks.dot_products import in_dot_products
from schedlang.networks.layouts import blocked_layouts
from schedlang.networks.looked_up import LookedUp
from schedlang.networks.model import Model, Options
from schedlang.networks.padding import without_padding_taps
from schedlang.networks.partition import Partition, partition
from schedlang.networks.precision import in_precision
from schedlang.networks.prepare import Prepared, Weighted, computed_ahead, weighted
from schedlang.networks.scan_weights import packed_for_scans
from schedlang.networks.winograd import Convolution, forms, rule_of, with_winograd
from schedlang.target import Target


@dataclass(frozen=True, eq=False)
class Divided:
    """A model that is prepared for a target, and its parts.

    ``forms`` has the size of Winograd's tiles, 0 for none, of each convolution of 3 by 3 for which
    several may be the fastest, by the name of its stage. ``layers`` has the layer of each stage.
    ``trials`` are those by whose times the forms were chosen, ``None`` if no times matter.
    """

    prepared: Prepared
    partition: Partition
    layers: Mapping[str, str]
    forms: Mapping[str, int] = field(default_factory=dict)
    trials: LookedUp | None = None


@dataclass(frozen=True, eq=False)
class Formless:
    """A model with the layouts of a target, before its convolutions of 3 by 3 have forms.

    ``layers`` has the layer of each stage.
    """

    model: Model
    options: Options
    target: Target
    network: Weighted
    layers: Mapping[str, str]


def formless(model: Model, options: Options, target: Target) -> Formless:
    """Return what all forms of a model for ``target`` with ``options`` have in common.

    Raises :class:`~schedlang.errors.NetworkError` for a network without the precision of options.
    """
    layers = dict(model.layers)

    def rewritten(outputs: tuple[Tensor, ...], weights: Collection[Tensor]) -> tuple[Tensor, ...]:
        if options.fold:
            outputs = without_padding_taps(outputs, weights)
        if options.layouts and target.facts.rewrites_networks:
            outputs = blocked_layouts(outputs, weights, target).outputs
            outputs = packed_for_scans(outputs, weights, target)
        rounded = in_precision(outputs, options.precision)
        layers.update((new, layers[old]) for new, old in rounded.sources.items() if old in layers)
        outputs = rounded.outputs
        if options.layouts and target.facts.rewrites_networks:
            outputs = in_dot_products(outputs, weights, target)
        return outputs

    integers = options.fold and target.facts.rewrites_networks
    network = weighted(model.outputs, model.params, options.fold, integers).rewritten(rewritten)
    for quantized in network.sums:
        if quantized.stage in layers:
            layers.update(dict.fromkeys(quantized.stages, layers[quantized.stage]))
    return Formless(model, options, target, network, layers)


def in_forms(shared: Formless, form: Callable[[Convolution], int] | None = None) -> Divided:
    """Return a model with its parts; ``form`` is as :func:`divide_model` takes it."""
    options, layers = shared.options, dict(shared.layers)
    chosen_form = form or rule_of(shared.target)
    chosen: dict[str, int] = {}

    def choose(convolution: Convolution) -> int:
        m = chosen_form(convolution)
        if len(forms(convolution)) > 1:
            chosen[convolution.name] = m
        if m and convolution.name in layers:
            layers.update(dict.fromkeys(convolution.stages, layers[convolution.name]))
        return m

    def rewritten(outputs: tuple[Tensor, ...], weights: Collection[Tensor]) -> tuple[Tensor, ...]:
        if options.winograd and shared.target.facts.winograd:
            outputs = with_winograd(outputs, weights, choose).outputs
        return outputs

    prepared = computed_ahead(shared.network.rewritten(rewritten))
    parts = partition(prepared.outputs, options.cut, options.fuse, layers=layers)
    return Divided(prepared, parts, layers, chosen)


def divide_model(
    model: Model,
    options: Options,
    target: Target,
    form: Callable[[Convolution], int] | None = None,
) -> Divided:
    """Return a model that is prepared for ``target`` with ``options``, and its parts.

    ``form`` returns the size of Winograd's tiles for a convolution of 3 by 3, 0 for none; by
    default it is the rule of the target. Raises
    :class:`~schedlang.errors.NetworkError` for overrides that do not fit.
    """
    return in_forms(formless(model, options, target), form)
