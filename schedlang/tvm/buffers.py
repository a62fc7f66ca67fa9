"""te's buffers: what ``te.decl_tensor_intrin`` says of the arrays that a function gets."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from schedlang.errors import ComputeError, ComputeTypeError, explain, text_of
from schedlang.expr.dtypes import is_integer
from schedlang.expr.nodes import Const, Expr, Var
from schedlang.host import ALIGNMENTS
from schedlang.instructions.declaration import SCOPES
from schedlang.signatures import public
from schedlang.state.state import FRAGMENTS
from schedlang.tvm.te_dtypes import te_dtype


@dataclass(frozen=True, eq=False)
class Buffer:
    """An array of a ``shape`` and a ``dtype``, whose ``strides`` are numbers or ``te.var``.

    Without strides its elements lie one after the other. A ``scope`` is the memory that it is in,
    and its address is a multiple of ``alignment`` bytes.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    strides: tuple[int | Var, ...] = ()
    scope: str = ""
    alignment: int = 1
    offset_factor: int = 1

    @property
    def data(self) -> AccessPtr:
        """The address of the first element, as calls of matrix units take it."""
        return AccessPtr(self)

    @cached_property
    def elem_offset(self) -> Var:
        """The number of elements before the first one, for the number of a fragment."""
        return Var(f"{self.name}.elem_offset", "int32")

    def access_ptr(
        self, access_mask: Any, ptr_type: str = "handle", content_lanes: int = 1, offset: Any = 0
    ) -> AccessPtr:
        """Return the address of the first element, or of the one ``offset`` elements behind it.

        ``access_mask``, ``ptr_type`` and ``content_lanes`` have no effect. Raise
        :class:`~schedlang.errors.ComputeTypeError` for an ``offset`` that is not an integer.
        """
        if not (isinstance(offset, Expr) and is_integer(offset.dtype)) and type(offset) is not int:
            raise ComputeTypeError(
                f"{self.name}.access_ptr: the offset {offset} is not an integer, or made of strides"
            )
        return AccessPtr(self, offset)

    def vload(self, begin: Any, dtype: Any = None) -> Any:
        """Refuse: functions in memory load their operands themselves."""
        raise _no_vectors(f"{self.name}.vload(...)")

    def vstore(self, begin: Any, value: Any) -> Any:
        """Refuse: functions in memory store their result themselves."""
        raise _no_vectors(f"{self.name}.vstore(...)")


@dataclass(frozen=True, eq=False)
class AccessPtr:
    """The address of an element of ``buffer``, ``offset`` elements behind the first one."""

    buffer: Buffer
    offset: Any = 0


@public
def decl_buffer(
    shape: Any, dtype: Any = None, name: str = "buffer", data: Any = None, strides: Any = None,
    elem_offset: Any = None, scope: str = "", data_alignment: int = -1, offset_factor: int = 0,
    buffer_type: str = "", axis_separators: Any = None,
) -> Buffer:  # fmt: skip
    """Return a buffer for ``binds=`` of :func:`te.decl_tensor_intrin`.

    ``strides`` has, for each dimension, the distance of elements, or a ``te.var`` that stands for
    any; without it, the elements lie one after the other. With a ``scope``, the array must be in
    that memory. Its address is a multiple of ``data_alignment`` bytes, a power of two up to 64, as
    ``alignment=`` of :func:`schedlang.instruction` says. Else an array may begin at any element, so
    that functions of C take an ``offset_factor`` of 0 or 1 alone; calls of matrix units take any.
    ``data``, ``elem_offset``, ``buffer_type`` and ``axis_separators`` are left out. Raise
    :class:`~schedlang.errors.ComputeError` for what no array of a kernel promises.

    >>> import schedlang as tvm
    >>> from schedlang import te
    >>> tvm.tir.decl_buffer((16, 64), "float32", name="B", strides=[te.var("s"), 1]).shape
    (16, 64)
    """
    asked = f"tvm.tir.decl_buffer(..., name={name!r})"
    for what, given, usual in (
        ("data", data, None), ("elem_offset", elem_offset, None),
        ("buffer_type", buffer_type, ""), ("axis_separators", axis_separators, None),
    ):  # fmt: skip
        if given not in (usual, []):
            raise ComputeError(
                explain(asked, f"{what} is not used here", f"Leave out {what}= {given}.")
            )
    if type(offset_factor) is not int or offset_factor < 0:
        raise ComputeError(
            f"{asked}: offset_factor={text_of(offset_factor)} is not a number of elements; give 1"
        )
    # te's -1 stands for what its allocations promise, which functions of te need not rely on
    alignment = 1 if data_alignment in (-1, 0) else data_alignment
    if type(alignment) is not int or alignment not in ALIGNMENTS:
        raise ComputeError(
            explain(
                asked,
                f"data_alignment={text_of(data_alignment)} is not a number of bytes that the "
                "address of a tile is a multiple of",
                f"Give one of {', '.join(map(str, ALIGNMENTS))}.",
            )
        )
    if scope not in ("", *SCOPES, *FRAGMENTS):
        listed = ", ".join((*SCOPES, *FRAGMENTS))
        raise ComputeError(f"{asked}: the scope {scope!r} is not one of {listed}")
    extents = tuple(_whole(e, f"{asked}: a dimension") for e in _listed(shape))
    distances = tuple(_distance(e, asked) for e in _listed(strides or ()))
    if distances and len(distances) != len(extents):
        raise ComputeError(
            f"{asked}: {len(distances)} strides for {len(extents)} dimensions; give one for each"
        )
    variables = [d for d in distances if isinstance(d, Var)]
    if len({*map(id, variables)}) < len(variables):
        raise ComputeError(
            f"{asked}: one te.var stands for two strides; give each a te.var of its own"
        )
    kind = "float32" if dtype is None else te_dtype(dtype)
    return Buffer(name, extents, kind, distances, scope, alignment, max(offset_factor, 1))


def _listed(value: Any) -> list[Any]:
    return [*value] if isinstance(value, (tuple, list)) else [value]


def _whole(value: Any, what: str) -> int:
    number = value.value if isinstance(value, Const) else value
    if isinstance(number, bool) or not isinstance(number, int):
        raise ComputeTypeError(f"{what} is {number}; give a number")
    return number


def _distance(value: Any, asked: str) -> int | Var:
    if isinstance(value, Var):
        return value
    if isinstance(value, Expr) and not isinstance(value, Const):
        raise ComputeTypeError(f"{asked}: the stride {value} is neither a number nor a te.var")
    return _whole(value, f"{asked}: a stride")


def _no_vectors(asked: str) -> ComputeError:
    return ComputeError(
        explain(
            asked,
            "te's vectors are not part of te.decl_tensor_intrin here",
            "Declare the instruction with sl.instruction(name, compute, emit={'llvm': "
            "sl.instructions.Intrinsic(...)}), which loads and stores its vectors.",
        )
    )


__all__ = ["AccessPtr", "Buffer", "decl_buffer"]
