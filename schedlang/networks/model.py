"""The source of a network: a graph, the arrays of its weights, and the form of a call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from schedlang.compute.tensor import Tensor


# the forms of a convolution of 3 by 3: the sizes of Winograd's tiles, 0 for a direct convolution
FORMS = (0, 2, 4)
# the precisions of the factors of products: FULL rounds none
FULL, TF32 = "float32", "tf32"
PRECISIONS = (FULL, TF32, "float16", "bfloat16")


@dataclass(frozen=True, eq=False)
class Model:
    """A graph with the arrays of its weights, such as an ``sl.frontend.Imported``.

    ``structure`` is the form of what a call returns, with the positions of outputs.
    """

    outputs: tuple[Tensor, ...]
    inputs: tuple[Tensor, ...]
    params: Mapping[Tensor, Any]
    layers: Mapping[str, str] = field(default_factory=dict)
    structure: Any = 0


@dataclass(frozen=True, eq=False)
class Options:
    """The options of ``sl.network`` for what it does to the graph and to its partition.

    ``cut`` and ``fuse`` are the overrides of the partition. ``fold``, ``layouts`` and ``winograd``
    allow to rewrite the graph. With ``flush_denormals`` a call takes denormal numbers as 0.
    ``precision`` is the one of the factors of products.
    """

    cut: tuple[str, ...] = ()
    fuse: tuple[tuple[str, ...], ...] = ()
    fold: bool = True
    layouts: bool = True
    winograd: bool = True
    flush_denormals: bool = True
    precision: str = FULL

    @property
    def choose_forms(self) -> bool:
        """True if times may choose the forms of convolutions.

        Where the user names stages, in overrides, the forms are the rule's.
        """
        return self.winograd and not (self.cut or self.fuse)


def options_of_prepared(
    cut: tuple[str, ...], fuse: tuple[tuple[str, ...], ...], flush_denormals: bool
) -> Options:
    """Return the options of a graph that was prepared before, which nothing rewrites again."""
    return Options(cut, fuse, False, False, False, flush_denormals)


@dataclass(frozen=True, eq=False)
class Recipe:
    """The inputs and results of a network's call, and the overrides of its partition.

    ``inputs`` are the placeholders that a call takes. ``layers`` has the layer of each stage, and
    ``cut`` and ``fuse`` are the overrides of the partition. With ``flush_denormals`` a call takes
    denormal numbers as 0. Saved and pickled networks have these fields.
    """

    name: str
    inputs: tuple[Tensor, ...]
    layers: Mapping[str, str]
    cut: tuple[str, ...]
    fuse: tuple[tuple[str, ...], ...]
    structure: Any
    flush_denormals: bool = True


def recipe_of(name: str, model: Model, options: Options) -> Recipe:
    """Return the recipe of a network of this name."""
    return Recipe(
        name,
        model.inputs,
        model.layers,
        options.cut,
        options.fuse,
        model.structure,
        options.flush_denormals,
    )
