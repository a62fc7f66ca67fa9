"""The storage of a kernel whose arrays depend on sizes, and the refusal of sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from schedlang.errors import CallError
from schedlang.expr.dtypes import LARGEST_BYTES, itemsize
from schedlang.index.sums import Sum, multiply
from schedlang.runtime.parameters import Extent

if TYPE_CHECKING:
    from schedlang.ir.size_conditions import SizeCondition


@dataclass(frozen=True)
class SizedStorage:
    """The arrays of symbolic sizes that a kernel allocates: name, dtype and shape of each.

    ``extents`` has the terms of each extent that is not a number, by its text in ``arrays``.
    """

    arrays: tuple[tuple[str, str, tuple[Extent, ...]], ...]
    extents: Mapping[str, Sum]

    @property
    def conditions(self) -> tuple[SizeCondition, ...]:
        """The sizes at which an address does not reach all of an array."""
        # a process whose kernels have no such arrays imports no loop nests
        from schedlang.ir.size_conditions import SizeCondition

        return tuple(
            SizeCondition(
                ((*(whole := self._bytes(dtype, shape)), (1 - LARGEST_BYTES, ())),),
                (f"{name} would take ", whole, " bytes, more than an address can reach"),
                "",
            )
            for name, dtype, shape in self.arrays
        )

    def _bytes(self, dtype: str, shape: Sequence[Extent]) -> Sum:
        extents = (((e, ()),) if isinstance(e, int) else self.extents[e] for e in shape)
        return reduce(multiply, extents, ((itemsize(dtype), ()),))


def refuse(what: str, conditions: Sequence[SizeCondition], sizes: Mapping[str, int]) -> None:
    """Raise :class:`~schedlang.errors.CallError` if a condition refuses ``sizes``."""
    for condition in conditions:
        if condition.refuses(sizes):
            why = condition.reason(sizes)
            raise CallError(f"{what}{condition.verb} where {given_text(sizes)}: {why}")


def given_text(sizes: Mapping[str, int]) -> str:
    """Return sizes as text.

    >>> given_text({"n": 2, "m": 3})
    'n=2, m=3'
    """
    return ", ".join(f"{name}={size}" for name, size in sizes.items())
