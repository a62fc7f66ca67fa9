"""The arguments of a nest: which are apart, and the sizes that their shapes determine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Union

from schedlang.compute.tensor import Tensor
from schedlang.expr.nodes import Var
from schedlang.index.solving import equations
from schedlang.ir.array_rules import pairs_apart
from schedlang.ir.nest import Nest

Arg = Union[Tensor, Var]


def arguments_apart(nest: Nest) -> list[tuple[int, int]]:
    """Return the :func:`pairs_apart` of the arguments of ``nest``."""
    return pairs_apart([None if isinstance(a, Var) else a in nest.outputs for a in nest.args])


def sizes_of(args: Sequence[Arg]) -> set[Var]:
    """Return the sizes that the shapes of ``args`` determine, without those that are arguments."""
    own = {a for a in args if isinstance(a, Var)}
    shapes = [(k, a.shape) for k, a in enumerate(args) if isinstance(a, Tensor)]
    return {equation.size for equation in equations([shapes], own)}
