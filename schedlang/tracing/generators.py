"""A generator of random numbers that is an argument: each call draws from it what the trace noted.

The function runs once, with a stand-in. Each draw becomes an input of the program; a call draws
the numbers from the caller's generator, in the order of the function, and passes them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, NoReturn, Union

import numpy as np

from schedlang.compute.tensor import Tensor, placeholder
from schedlang.errors import ComputeTypeError, explain
from schedlang.expr import dtypes
from schedlang.expr.nodes import Cast
from schedlang.tracing.array import array_of, wrap
from schedlang.tracing.items import is_traced
from schedlang.tracing.leaves import flatten
from schedlang.tracing.trace import Trace, current
from schedlang.tracing.unknown import line_text

# the generators of NumPy, whose draws a call can repeat
GENERATORS = (np.random.Generator, np.random.RandomState)
Generator = Union[np.random.Generator, np.random.RandomState]
# methods that change an array, or return no numbers
_OTHERS = {
    "shuffle": "Choose instead: x[...] = x[{name}.permutation(len(x))].",
    "bytes": "Draw integers in place of bytes, of dtype uint8.",
    "spawn": "Spawn generators outside, and pass them as arguments.",
    "bit_generator": "Draw numbers by the methods of {name}.",
    "seed": "Seed the generator outside.",
    "get_state": "Draw numbers by the methods of {name}.",
    "set_state": "Set the state outside.",
}
# what to write for draws from elements
_FROM_ELEMENTS = {
    "permutation": "Permute the indices: x[{name}.permutation(len(x))].",
    "permuted": "Permute the indices: x[{name}.permutation(len(x))].",
    "choice": "Choose an index: x[{name}.choice(len(x))].",
}
_STANDARD = (
    "Draw from the standard distribution and compute with the numbers: low + (high - low) * "
    "{name}.random(n), or mean + scale * {name}.standard_normal(n)."
)


@dataclass(frozen=True)
class Draw:
    """A draw by a ``method`` of the generator at ``place`` among the generators of a call."""

    place: int
    method: str
    args: tuple[Any, ...]
    named: Mapping[str, Any]

    def of(self, generators: Sequence[Generator]) -> np.ndarray:
        """Return the numbers that this draws."""
        return np.asarray(getattr(generators[self.place], self.method)(*self.args, **self.named))


@dataclass(frozen=True)
class Draws:
    """The draws of a trace in order, each with the input that stands for its numbers."""

    trace: Trace
    calls: list[Draw] = field(default_factory=list)
    inputs: list[Tensor] = field(default_factory=list)

    def add(self, draw: Draw, sample: Any, name: str) -> Any:
        """Return what stands for the numbers of ``draw``, which are like ``sample``."""
        array = np.asarray(sample)
        tensor = placeholder(array.shape, dtypes.canonical(array.dtype), name=name)
        self.calls.append(draw)
        self.inputs.append(tensor)
        if isinstance(sample, np.ndarray):
            return array_of(tensor if array.ndim else tensor[()], rows=True)
        value = tensor[()]
        # numbers of Python take the dtype of the arrays that they meet
        weak = isinstance(sample, (int, float)) and not isinstance(sample, np.generic)
        return wrap(Cast(value, tensor.dtype, weak=True) if weak else value)


class TracedGenerator:
    """The generator ``name`` in a traced function: its methods return arrays of the trace."""

    __slots__ = ("_name", "_place", "_draws", "_kind", "_sample")

    def __init__(self, name: str, place: int, draws: Draws, given: Generator) -> None:
        self._name = name
        self._place = place
        self._draws = draws
        self._kind = type(given)
        # draws of a copy have the shapes and dtypes of later ones
        self._sample = deepcopy(given)

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return self._kind

    def __getattr__(self, method: str) -> Callable[..., Any]:
        sampled = getattr(self._sample, method)
        if method.startswith("_"):
            raise AttributeError(f"{self._name} has no {method} in a traced function")
        if method in _OTHERS:
            self._refuse(method, "it returns no numbers", _OTHERS[method])

        def draw(*args: Any, **named: Any) -> Any:
            self._check(method, args, named)
            # the function may change its arrays later
            call = Draw(self._place, method, deepcopy(args), deepcopy(named))
            name = f"{self._name.split('[')[0]}_{method}"
            return self._draws.add(call, sampled(*args, **named), name)

        return draw

    def _check(self, method: str, args: Sequence[Any], named: Mapping[str, Any]) -> None:
        if current() is not self._draws.trace:
            self._refuse(
                method,
                "the body of the loop is traced once, and each iteration draws other numbers",
                "Draw the numbers of all iterations before the loop, noise = {name}.{method}(..., "
                "(n, *x.shape)), and read noise[i] in it.",
            )
        if current().conditions:
            self._refuse(
                method,
                "whether it draws depends on elements, which are unknown while the function is "
                "traced",
                "Draw before the if.",
            )
        if named.get("out") is not None:
            self._refuse(method, "out= is an array of NumPy", "Write x[...] = {name}.{method}(...)")
        if any(is_traced(v) for v in flatten([list(args), dict(named)])[0]):
            self._refuse(
                method,
                "it depends on elements, which are unknown while the function is traced",
                _FROM_ELEMENTS.get(method, _STANDARD),
            )

    def _refuse(self, method: str, why: str, hint: str) -> NoReturn:
        asked = f"{self._name}.{method}(...) in {line_text()}"
        raise ComputeTypeError(explain(asked, why, hint.format(name=self._name, method=method)))


__all__ = ["GENERATORS", "Draw", "Draws", "Generator", "TracedGenerator"]
