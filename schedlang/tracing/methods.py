"""The methods of arrays of a trace that are functions of NumPy, and their operators in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from schedlang.arrays.methods import SAME
from schedlang.tracing.strided import strides_of
from schedlang.tracing.unknown import missing_attribute

# methods that change the array to what the function of the same name returns
_CHANGING = ("sort", "partition")
_OPERATORS = (
    "__iadd__", "__isub__", "__imul__", "__imatmul__", "__itruediv__", "__ifloordiv__", "__imod__",
    "__ipow__", "__ilshift__", "__irshift__", "__iand__", "__ixor__", "__ior__",
)  # fmt: skip


def add_methods(kind: Any) -> None:
    """Give ``kind`` the methods of NumPy's arrays that it does not have."""
    methods = {name: _method(name) for name in (*SAME, "nonzero")}
    methods |= {name: _changing(name) for name in _CHANGING}
    kind.strides = property(strides_of)
    for name, method in methods.items():
        if name not in vars(kind):
            setattr(kind, name, method)
    kind.view, kind.compress = _view, _compress
    for name in _OPERATORS:
        setattr(kind, name, _in_place(name))


def _named(method: Callable[..., Any], name: str, doc: str) -> Callable[..., Any]:
    method.__name__, method.__doc__ = name, doc
    return method


def _method(name: str) -> Callable[..., Any]:
    function = getattr(np, name)

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return function(self, *args, **kwargs)

    return _named(method, name, f"Return ``np.{name}`` of this array.")


def _changing(name: str) -> Callable[..., Any]:
    function = getattr(np, name)

    def method(self: Any, *args: Any, **kwargs: Any) -> None:
        self[...] = function(self, *args, **kwargs)

    return _named(method, name, f"Change this array to ``np.{name}`` of it.")


def _view(self: Any, *kinds: Any, **named: Any) -> Any:
    """Return a view of all elements; views of another dtype or class are refused."""
    if kinds or named:
        raise missing_attribute(type(self), "view")
    return self[()] if self.is_scalar else self[...]


def _compress(self: Any, condition: Any, axis: Any = None) -> Any:
    """Return ``np.compress`` of this array."""
    return np.compress(condition, self, axis)


def _in_place(name: str) -> Callable[..., Any]:
    function = getattr(np.lib.mixins.NDArrayOperatorsMixin, name)

    def operator(self: Any, other: Any) -> Any:
        # Python then takes the operator that makes a new value
        return NotImplemented if self.is_scalar else function(self, other)

    return _named(operator, name, f"Apply ``{name}`` to the elements, in place.")
