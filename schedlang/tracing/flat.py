"""``x.flat``: the elements of an array in row-major order, as NumPy's iterator has them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

import numpy as np

from schedlang.errors import ComputeError, ComputeTypeError, explain
from schedlang.tracing.items import is_traced
from schedlang.tracing.unknown import line_text


class FlatElements:
    """The elements of an array by their place in row-major order.

    ``flat[k]`` is an element, ``flat[a:b]`` a copy, and an assignment changes the array.
    """

    __slots__ = ("_row",)

    def __init__(self, row: Any) -> None:
        self._row = row

    def __getitem__(self, item: Any) -> Any:
        return self._row[item].copy()

    def __setitem__(self, item: Any, value: Any) -> None:
        values = value if is_traced(value) else np.asarray(value)
        if values.ndim:
            values, wanted = values.reshape(-1), self._row[item].size
            if values.size != wanted:
                raise ComputeError(
                    explain(
                        f"x.flat[...] = {values.size} values in {line_text()}",
                        f"they go to {wanted} elements, for which NumPy repeats or drops some",
                        "Assign as many values as elements, or one number.",
                    )
                )
        self._row[item] = values

    def __len__(self) -> int:
        return len(self._row)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._row)

    def copy(self) -> Any:
        """Return the elements as a new vector."""
        return self._row.copy()

    def __array__(self, dtype: Any = None, copy: Any = None) -> NoReturn:
        raise ComputeTypeError(
            explain(
                f"x.flat as an array in {line_text()}",
                "it is an iterator over the elements",
                "Write np.ravel(x), the elements in one dimension.",
            )
        )
