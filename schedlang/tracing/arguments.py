"""The arguments of a traced function: which are arrays, which are numbers, and which are fixed.

Arrays and floating-point numbers may change from call to call. Python integers, bools and other
values that have a hash decide what the function does, so each value is traced on its own.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import Parameter, Signature
from typing import Any, Optional, Union

import numpy as np

from schedlang.compute.arrays import as_numpy, has_buffer
from schedlang.compute.tensor import Tensor
from schedlang.compute.torch_tensors import is_tensor
from schedlang.errors import CallTypeError, explain
from schedlang.expr import dtypes
from schedlang.expr.nodes import Expr
from schedlang.tracing.containers import containers_of
from schedlang.tracing.generators import GENERATORS, Generator
from schedlang.tracing.items import check_numbers, has_other_operators
from schedlang.tracing.leaves import Form, flatten


@dataclass(frozen=True)
class Length:
    """A symbolic length in the shape of an argument; equal ones have the same ``number``."""

    number: int


@dataclass(frozen=True)
class Leaf:
    """An array or number of a call: its dtype and shape, and whether it is a Python float.

    For a ``negative`` integer, kernels get the opposite. In a trace for many calls, a length may be
    symbolic; a trace for one has the lengths of its call, and may have the ``strides`` of an array
    that does not lie row by row, in elements.
    """

    name: str
    dtype: str
    shape: Optional[tuple[Union[int, Length], ...]]
    weak: bool = False
    negative: bool = False
    strides: Optional[tuple[int, ...]] = None


@dataclass(frozen=True)
class Fixed:
    """An argument whose value is part of what is traced; ``kind`` has its types."""

    value: Any
    kind: Hashable


@dataclass(frozen=True)
class Drawn:
    """A generator of random numbers among the arguments, at ``place`` among the generators."""

    name: str
    place: int


@dataclass(frozen=True)
class Given:
    """The arguments of a call: ``key`` tells calls apart that need traces of their own.

    ``arrays`` are the leaves of all arguments that may change, in order, as NumPy arrays and
    numbers; ``originals`` are the same as they were given, and ``leaves`` describe them.
    ``containers`` are the lists and dicts among the arguments, and ``generators`` draw random
    numbers.
    """

    key: Hashable
    arrays: tuple[Any, ...]
    originals: tuple[Any, ...]
    leaves: tuple[Leaf, ...]
    containers: tuple[Any, ...] = ()
    generators: tuple[Generator, ...] = ()

    @property
    def first(self) -> Any:
        """The first array as it was given, or ``None``."""
        arrays = (o for o, leaf in zip(self.originals, self.leaves) if leaf.shape is not None)
        return next(arrays, None)


def bind_arguments(
    signature: Signature,
    title: str,
    static: frozenset[str],
    args: Sequence[Any],
    named: Mapping[str, Any],
) -> Given:
    """Return the arguments of a call, classified.

    Raises :class:`~schedlang.errors.CallTypeError` if they do not fit ``signature``, or for one
    that is neither an array, a number nor a value with a hash.
    """
    try:
        call = signature.bind(*args, **named)
    except TypeError as error:
        raise CallTypeError(f"{title}{signature}: {error}") from None
    call.apply_defaults()
    key: list[Any] = []
    arrays: list[Any] = []
    originals: list[Any] = []
    leaves: list[Leaf] = []
    containers: list[Any] = []
    generators: list[Generator] = []
    for name, value in call.arguments.items():
        if name in static:
            key.append(_fix(title, name, value, static))
            continue
        nested = _as_dict(signature.parameters[name], value)
        containers += containers_of(nested)
        values, form = flatten(nested)
        parts: list[Any] = [form]
        for k, leaf in enumerate(values):
            label = name if len(values) == 1 else f"{name}_{k}"
            if isinstance(leaf, GENERATORS):
                parts.append(Drawn(label, len(generators)))
                generators.append(leaf)
                continue
            array, described = _leaf(title, label, leaf)
            if described is None:
                parts.append(_fix(title, label, leaf, static))
                continue
            arrays.append(array)
            originals.append(leaf)
            leaves.append(described)
            parts.append(described)
        key.append(tuple(parts))
    return Given(
        tuple(key),
        tuple(arrays),
        tuple(originals),
        tuple(leaves),
        tuple(containers),
        tuple(generators),
    )


def with_strides(call: Given) -> Given:
    """Return a call whose leaves have the strides of arrays that do not lie row by row."""
    leaves = tuple(_strided(leaf, array) for leaf, array in zip(call.leaves, call.arrays))
    rest = iter(leaves)
    key = tuple(
        part
        if isinstance(part, Fixed)
        else tuple(next(rest) if isinstance(leaf, Leaf) else leaf for leaf in part)
        for part in call.key  # type: ignore[attr-defined]
    )
    return replace(call, key=key, leaves=leaves)


def _strided(leaf: Leaf, array: Any) -> Leaf:
    if not isinstance(array, np.ndarray) or array.flags.c_contiguous:
        return leaf
    # a field of a structured array may lie between two elements
    if any(step % array.itemsize for step in array.strides):
        return leaf
    return replace(leaf, strides=tuple(step // array.itemsize for step in array.strides))


def _as_dict(parameter: Parameter, value: Any) -> Any:
    return dict(value) if parameter.kind is Parameter.VAR_KEYWORD else value


def _leaf(title: str, name: str, value: Any) -> tuple[Any, Leaf | None]:
    """Return an argument as an array or number, and what it is; ``None`` if its value is fixed."""
    if isinstance(value, np.signedinteger) and value < 0:
        # an integer argument of a kernel may be a size, which is never negative
        return -int(value), Leaf(name, dtypes.canonical(value.dtype), None, negative=True)
    if isinstance(value, np.complexfloating):
        # kernels take complex arrays alone
        return value, None
    if isinstance(value, np.generic) and not isinstance(value, (str, bytes)):
        return value, Leaf(name, dtypes.canonical(value.dtype), None)
    if isinstance(value, (Tensor, Expr)):
        text = value.name if isinstance(value, Tensor) else str(value)
        raise CallTypeError(
            explain(
                f"{title}({name}={text})",
                f"{text} describes a computation and has no values, and a function under @sl.jit "
                "takes arrays and numbers",
                f"sl.trace({title if title.isidentifier() else 'f'}, {text}) returns the tensors "
                "that it computes from it.",
            )
        )
    if isinstance(value, float):
        return value, Leaf(name, "float64", None, weak=True)
    if isinstance(value, (bool, int, str, bytes, type, np.dtype)) or not _is_array(value):
        return value, None
    array = as_numpy(value, f"{title}: argument {name}")
    check_numbers(array, f"{title}({name}=...)", CallTypeError)
    if has_other_operators(value):
        kind = type(value).__name__
        raise CallTypeError(
            explain(
                f"{title}({name}={kind})",
                f"the operators of {kind} differ from an array's operators, and a traced "
                "function sees an array",
                f"Pass np.asarray({name}); x @ y is the product of matrices.",
            )
        )
    return array, Leaf(name, dtypes.canonical(array.dtype), array.shape)


def _is_array(value: Any) -> bool:
    protocols = ("__array_interface__", "__dlpack__", "__array__")
    return is_tensor(value) or any(hasattr(value, p) for p in protocols) or has_buffer(value)


def _fix(title: str, name: str, value: Any, static: frozenset[str]) -> Fixed:
    try:
        hash(value)
    except TypeError:
        how = (
            "static arguments are compared"
            if name in static
            else ("it is neither an array nor a number, so each value is traced on its own")
        )
        raise CallTypeError(
            explain(
                f"{title}({name}={type(value).__name__})",
                f"{how}, which needs a hash, and {type(value).__name__} has none",
                "Pass arrays, numbers, strings, or tuples, lists and dicts of arrays; give a class "
                "of your own __hash__ and __eq__.",
            )
        ) from None
    return Fixed(value, _kinds(value))


def _kinds(value: Any) -> Any:
    """Return what tells equal values apart: 1, 1.0 and True, and 0.0 and -0.0.

    It does so in tuples and in the parts of complex numbers, too.
    """
    if isinstance(value, tuple):
        return (type(value), *map(_kinds, value))
    signed = isinstance(value, (float, complex, np.complexfloating))
    return (type(value), str(value)) if signed else type(value)


__all__ = ["Drawn", "Fixed", "Form", "Given", "Leaf", "Length", "bind_arguments", "with_strides"]
