"""The signature of a generalized ufunc: the core dimensions of its operands."""

from __future__ import annotations

import re
from dataclasses import dataclass

from schedlang.errors import ComputeError, ComputeTypeError, explain

_OPERAND = re.compile(r"\(([^()]*)\)")
_SIDE = re.compile(r"\([^()]*\)(,\([^()]*\))*")
_DIMENSION = re.compile(r"[^\W\d]\w*|[1-9]\d*")
_EXAMPLE = 'Write it as NumPy does: signature="(n),(n)->()", one bracket for each operand.'


@dataclass(frozen=True)
class CoreDimensions:
    """The core dimensions of inputs and of outputs: names, or numbers as text.

    >>> read_signature("(m,n),(n)->(m)").outputs
    (('m',),)
    """

    inputs: tuple[tuple[str, ...], ...]
    outputs: tuple[tuple[str, ...], ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The dimensions in NumPy's order, in which each appears first."""
        every = [name for core in (*self.inputs, *self.outputs) for name in core]
        return tuple(dict.fromkeys(every))

    def __str__(self) -> str:
        sides = (
            ",".join(f"({','.join(core)})" for core in side)
            for side in (self.inputs, self.outputs)
        )
        return "->".join(sides)


def read_signature(text: object) -> CoreDimensions:
    """Return the core dimensions that a signature states; raise for one that is not NumPy's."""
    if not isinstance(text, str):
        raise ComputeTypeError(
            explain(f"sl.ufunc(signature={text!r})", "a signature is a string", _EXAMPLE)
        )
    asked, plain = f"sl.ufunc(signature={text!r})", re.sub(r"\s", "", text)
    sides = plain.split("->")
    if len(sides) != 2 or not all(map(_SIDE.fullmatch, sides)):  # noqa: PLR2004
        raise ComputeError(explain(asked, "this is not a signature of NumPy's", _EXAMPLE))
    if "?" in plain or "|" in plain:
        raise ComputeError(
            explain(
                asked,
                "dimensions that may be missing or broadcast are not supported",
                "Make one ufunc for each number of dimensions.",
            )
        )
    read = [tuple(_core(core, asked) for core in _OPERAND.findall(side)) for side in sides]
    dimensions = CoreDimensions(*read)
    given = {name for core in dimensions.inputs for name in core}
    for name in dimensions.names:
        if name not in given and not name.isdigit():
            raise ComputeError(
                explain(
                    asked,
                    f"the dimension {name} of a result is in no input, so no call tells its size",
                    f"Name a dimension of the inputs, or write its size in place of {name}.",
                )
            )
    return dimensions


def _core(text: str, asked: str) -> tuple[str, ...]:
    names = tuple(text.split(",")) if text else ()
    for name in names:
        if not _DIMENSION.fullmatch(name):
            why = f"{name!r} is neither the name nor the size of a dimension"
            raise ComputeError(explain(asked, why, _EXAMPLE))
    return names


def counted(count: int, noun: str) -> str:
    """Return a count of things, as in ``"2 inputs"``."""
    return f"{count} {noun}{'s' * (count != 1)}"
