"""A tensor with some of its indices, such as ``A[i]`` in ``A[i][j]``, which te programs write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from schedlang.errors import BoundsError, explain
from schedlang.language.operators import EQUALITIES, OPERATORS

if TYPE_CHECKING:
    from schedlang.compute.tensor import Tensor


class Row:
    """The result of ``tensor[indices]`` with fewer indices than dimensions; it has no value.

    Source: TVM's ``TensorSlice``.
    """

    __slots__ = ("tensor", "indices")

    def __init__(self, tensor: Tensor, indices: tuple[Any, ...]) -> None:
        self.tensor = tensor
        self.indices = indices

    def __getitem__(self, indices: Any) -> Any:
        more = indices if isinstance(indices, tuple) else (indices,)
        every = (*self.indices, *more)
        return self.tensor[every]

    def refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise BoundsError(wrong_count(self.tensor, self.indices))

    as_scalar = __iter__ = astype = equal = refuse
    __array_ufunc__ = __array_function__ = __array__ = refuse


for _name in (*OPERATORS, *EQUALITIES):
    setattr(Row, _name, Row.refuse)


def wrong_count(tensor: Tensor, items: tuple[Any, ...]) -> str:
    """Return the error message for a wrong number of indices."""
    shape = ", ".join(map(str, tensor.shape))
    hint = f"Its shape is ({shape}{',' if tensor.ndim == 1 else ''})."
    if 0 < len(items) < tensor.ndim:
        last = tensor.shape[-1]
        every = [str(v) for v in items] + list("jlmnop"[: tensor.ndim - len(items)])
        hint += (
            f" Write {tensor.name}[{', '.join(every)}] with an axis of sl.compute for each "
            f"dimension, or reduce over one: {tensor.name}[{', '.join([*every[:-1], 'k'])}], where "
            f'k = sl.reduce_axis({last}, name="k").'
        )
    return explain(
        f"{tensor.name}[{', '.join(map(str, items))}]",
        f"{tensor.name} has {tensor.ndim} dimension{'s' * (tensor.ndim != 1)}, got {len(items)} "
        f"{'index' if len(items) == 1 else 'indices'}",
        hint,
    )
