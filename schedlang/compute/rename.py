"""The names of a computation, and an equal computation with other names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from schedlang.compute.data_reader import rebuild
from schedlang.compute.data_writer import FORMAT, VERSION, Writer, everything
from schedlang.compute.extern_op import ExternFunction
from schedlang.compute.tensor import Tensor
from schedlang.errors import ComputeError
from schedlang.expr.nodes import Var


@dataclass(frozen=True)
class Names:
    """Names of operations, axes and outputs (``parts``) and of variables (``sizes``).

    Computations of one structure have the same number of each, in the same order.
    """

    parts: tuple[str, ...] = ()
    sizes: tuple[str, ...] = ()


def names_of(outputs: Sequence[Tensor]) -> Names:
    """Return the names of the parts and the sizes of a computation.

    >>> import schedlang as sl
    >>> A = sl.placeholder((sl.var("n"),), name="A")
    >>> names_of([sl.compute(A.shape, lambda i: A[i] + 1, name="B")])
    Names(parts=('A', 'B', 'i', 'B'), sizes=('n',))
    """
    *_, parts, sizes = _slots(outputs)
    return Names(tuple(at[k] for at, k in parts), tuple(at[k] for at, k in sizes))


def rename(outputs: Sequence[Tensor], names: Names) -> tuple[Tensor, ...]:
    """Return tensors that compute what ``outputs`` do, under ``names``.

    Raises :class:`~schedlang.errors.ComputeError` for a wrong number of names, or an invalid name.

    >>> import schedlang as sl
    >>> A = sl.placeholder((4,), name="A")
    >>> B = sl.compute((4,), lambda i: A[i] + 1, name="B")
    >>> rename([B], Names(("X", "Y", "j", "Y")))
    (Tensor(Y: float32[4]),)
    """
    data, functions, parts, sizes = _slots(outputs)
    if (len(names.parts), len(names.sizes)) != (len(parts), len(sizes)):
        raise ComputeError(
            f"{len(names.parts)} names and {len(names.sizes)} sizes are given, but the "
            f"computation has {len(parts)} and {len(sizes)}"
        )
    for (at, k), name in zip((*parts, *sizes), (*names.parts, *names.sizes)):
        at[k] = name
    return rebuild(data, functions)


# the place of a name: a list of the data form, and the position in that list
_Slot = tuple[list[Any], int]


def _slots(
    outputs: Sequence[Tensor],
) -> tuple[dict[str, Any], list[ExternFunction], list[_Slot], list[_Slot]]:
    """Return the data form of ``outputs``, its functions, and the places of names in it."""
    writer = Writer()
    parts: list[_Slot] = []
    for op in everything(outputs):
        # an axis that two operations share is written twice: an equal graph may have two axes
        writer.forget_expressions()
        start = len(writer.items)
        writer.operation(op)
        item = writer.items[writer.places[op]]
        parts.append((item, 1))
        parts += [(x, 1) for x in writer.items[start:] if x[0] == "axis"]
        if item[0] != "placeholder":
            parts += [(item[-1], k) for k in range(len(item[-1]))]
    sizes = [(writer.items[at], 1) for key, at in writer.places.items() if isinstance(key, Var)]
    written_outputs = [writer.tensor(t) for t in outputs]
    data = {"format": FORMAT, "version": VERSION, "items": writer.items, "outputs": written_outputs}
    return data, writer.functions, parts, sizes
