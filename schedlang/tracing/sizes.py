"""The symbolic lengths of arguments as sizes of kernels, each with a name."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, count
from typing import Union

from schedlang.expr.nodes import Var
from schedlang.runtime.fast_call import LARGEST
from schedlang.tracing.arguments import Given, Leaf, Length
from schedlang.tracing.trace import Trace

# a trace with symbolic lengths is for lengths from this one on
LEAST = 2
_LETTERS = ("n", "m", "k", "p", "q")


@dataclass(frozen=True)
class Symbolic:
    """A symbolic length: where it is, as text for messages, and a ``likely`` value."""

    text: str
    likely: int


def note_length(trace: Trace, size: Var, text: str, likely: int) -> None:
    """Let ``size`` be a symbolic length in a trace; ``text`` says which one it is."""
    trace.lengths.setdefault(size, Symbolic(text, likely))
    trace.index[size] = (size.least, LARGEST)


class Sizes:
    """The sizes of the trace for a ``call``: one for each symbolic length, a number from 2 on.

    ``places`` has the name of each, and the first argument and dimension that has the length.
    """

    def __init__(self, trace: Trace, call: Given) -> None:
        self._trace, self._call = trace, call
        self._used = set() if trace.code is None else {*trace.code.co_varnames}
        self._sizes: dict[int, Var] = {}
        self._said: dict[int, list[str]] = {}
        self.places: dict[int, tuple[str, int, int]] = {}

    def extents(self, leaf: Leaf, place: int) -> tuple[Union[int, Var], ...]:
        """Return the shape of argument number ``place``."""
        return tuple(
            self._size(e.number, leaf, place, k) if isinstance(e, Length) else e
            for k, e in enumerate(leaf.shape or ())
        )

    def _size(self, number: int, leaf: Leaf, place: int, dimension: int) -> Var:
        self._said.setdefault(number, []).append(f"{leaf.name}.shape[{dimension}]")
        if number not in self._sizes:
            names = chain(_LETTERS, map("n{}".format, count(1)))
            name = next(n for n in names if n not in self._used)
            self._used.add(name)
            size = self._sizes[number] = Var(name, least=LEAST)
            self.places[number] = name, place, dimension
            likely = self._call.arrays[place].shape[dimension]
            note_length(self._trace, size, self._said[number][0], likely)
        return self._sizes[number]

    @property
    def values(self) -> dict[str, int]:
        """The lengths in the call that is traced."""
        return {var.name: length.likely for var, length in self._trace.lengths.items()}

    @property
    def lines(self) -> tuple[str, ...]:
        """A line of text for each symbolic length."""
        return tuple(
            f"{self._sizes[k].name} is any length from {LEAST} on: {', '.join(said)}"
            for k, said in self._said.items()
        )


__all__ = ["LEAST", "Sizes", "note_length"]
