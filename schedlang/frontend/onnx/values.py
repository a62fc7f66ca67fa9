"""The values of a graph: tensors, and arrays that are known when the model is imported.

A known array becomes a parameter when an operator reads it as a tensor. Its elements may be
symbolic sizes: shapes of tensors, and what exporters compute of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Union

import numpy as np

from schedlang.arrays.shapes import extent
from schedlang.arrays.shaping import reshape
from schedlang.arrays.stages import each
from schedlang.compute.tensor import Tensor, placeholder
from schedlang.expr.nodes import Axis, Expr
from schedlang.frontend.model_names import Names
from schedlang.language.construct import as_expr, cast, const, select


@dataclass(frozen=True, eq=False)
class Known:
    """An array that is known at import, the value ``name`` of the model.

    An array of dtype object has symbolic sizes among its elements; ``dtype`` is the dtype of the
    elements in the model.
    """

    name: str
    array: np.ndarray
    dtype: str

    @property
    def symbolic(self) -> bool:
        return self.array.dtype == object

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def ndim(self) -> int:
        return self.array.ndim

    def items(self) -> list[Any]:
        """Return the elements in a row, as Python numbers or as sizes."""
        elements = self.array.ravel().tolist()
        return [extent(v) if isinstance(v, Expr) else v for v in elements]


Value = Union[Tensor, Known]


@dataclass(frozen=True)
class Params:
    """The parameters of the model so far, by their values, and the names in use."""

    names: Names
    arrays: dict[Tensor, np.ndarray] = field(default_factory=dict)
    # by the value itself: nodes may have equal names, and what they make then has equal names, too
    _made: dict[Known, Tensor] = field(default_factory=dict)
    _places: dict[tuple[int, int, str], Tensor] = field(default_factory=dict)

    def tensor(self, value: Value) -> Tensor:
        """Return ``value`` as a tensor: a known array as a parameter, or a stage if symbolic."""
        if isinstance(value, Tensor):
            return value
        if value.symbolic:
            return _stage(value)
        parameter = self._made.get(value)
        if parameter is None:
            parameter = self._made[value] = self._new(value)
        return parameter

    def _new(self, value: Known) -> Tensor:
        """Return a parameter, or the one whose array has the same bytes in the shape of ``value``.

        Files may say of any number of initializers that they are at one place.
        """
        array = value.array
        key = (array.ctypes.data, array.nbytes, value.dtype)
        shared = array.nbytes > 0 and array.flags.c_contiguous
        parameter = self._places.get(key) if shared else None
        if parameter is not None:
            return parameter if parameter.shape == value.shape else reshape(parameter, value.shape)
        parameter = placeholder(value.shape, value.dtype, name=self.names.new(value.name))
        # kept, the array has its bytes to itself
        self.arrays[parameter] = array
        if shared:
            self._places[key] = parameter
        return parameter


def number(value: Known) -> Expr | None:
    """Return the only element of a known array as an expression of its dtype.

    It is ``None`` for an array of more elements, and for NaN, which stays a parameter.
    """
    if value.array.size != 1:
        return None
    (item,) = value.items()
    if isinstance(item, Expr):
        return cast(item, value.dtype)
    if item != item:
        return None
    return const(item, value.dtype)


def _stage(value: Known) -> Tensor:
    """Return the stage of an array with symbolic sizes: a choice between its elements."""
    items = [as_expr(v) for v in value.items()]

    def element(*at: Axis) -> Expr:
        place: Expr = as_expr(0)
        for axis, size in zip(at, value.shape):
            place = place * size + axis
        element_here = cast(items[-1], value.dtype)
        for k in range(len(items) - 2, -1, -1):
            element_here = select(place.equal(k), cast(items[k], value.dtype), element_here)
        return element_here

    return each("sizes", value.shape, element)
