"""The shapes of a computation's results, for sizes that may be symbolic in PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Union

from schedlang.compute.tensor import Tensor
from schedlang.expr.nodes import Expr, Var
from schedlang.index.simplify import to_lin
from schedlang.index.sums import value_of
from schedlang.index.terms import terms_of

# the shape and the dtype of a tensor
Form = tuple[tuple[Any, ...], str]


@dataclass(frozen=True, eq=False)
class Graph:
    """A computation: an input for each argument of an operator, and the outputs.

    An input is a placeholder, a scalar, or ``None`` for an argument whose value was traced.
    """

    inputs: tuple[Union[Tensor, Var, None], ...]
    outputs: tuple[Tensor, ...]

    def forms(self, args: Sequence[Any]) -> list[Form] | None:
        """Return the form of each output, ``None`` if no dimension of an input is a size of it.

        The dimensions of ``args`` may be integers of PyTorch that stand for any number.
        """
        sizes = self._sizes(args)
        try:
            return [(tuple(_extent(e, sizes) for e in t.shape), t.dtype) for t in self.outputs]
        except KeyError:
            return None

    def _sizes(self, args: Sequence[Any]) -> dict[str, Any]:
        import torch

        sizes: dict[str, Any] = {}
        origin: dict[str, str] = {}
        for given, value in zip(self.inputs, args):
            if isinstance(given, Var) and given.is_size:
                sizes[given.name], origin[given.name] = value, "its own argument"
        for given, value in zip(self.inputs, args):
            if not isinstance(given, Tensor):
                continue
            for k, extent in enumerate(given.shape):
                if not isinstance(extent, Var):
                    continue
                where = f"dimension {k} of {given.name}"
                known, own = sizes.setdefault(extent.name, value.shape[k]), value.shape[k]
                before = origin.setdefault(extent.name, where)
                message = f"{extent.name} is {known} in {before} and {own} in {where}"
                torch._check(known == own, partial(str, message))
        return sizes


def _extent(extent: Any, sizes: dict[str, Any]) -> Any:
    return value_of(terms_of(to_lin(extent)), sizes) if isinstance(extent, Expr) else extent
