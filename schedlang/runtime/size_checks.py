"""The checks of a kernel against the sizes of a call: its storage, and its accesses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from schedlang.compute.tensor import Tensor
from schedlang.errors import CallError, VerifyError
from schedlang.expr.dtypes import LARGEST_BYTES, itemsize
from schedlang.expr.nodes import Expr, Var
from schedlang.index.simplify import to_lin
from schedlang.ir.nest import Nest
from schedlang.ir.nodes import Alloc, walk
from schedlang.ir.specialize import at_sizes
from schedlang.ir.verify import verify
from schedlang.runtime.advice import short_scan
from schedlang.runtime.parameters import Extent, Sum, terms_of, value_of


@dataclass(frozen=True)
class SizedStorage:
    """The arrays of symbolic sizes that a kernel allocates: name, dtype and shape of each.

    ``extents`` has the terms of each extent that is no number, by its text in ``arrays``.
    """

    arrays: tuple[tuple[str, str, tuple[Extent, ...]], ...]
    extents: Mapping[str, Sum]

    def check(self, what: str, sizes: Mapping[str, int]) -> None:
        """Raise :class:`~schedlang.errors.CallError` if an address does not reach all of an array.

        ``what`` allocates the arrays at ``sizes``.
        """
        for name, dtype, shape in self.arrays:
            whole = itemsize(dtype) * prod(self._value(extent, sizes) for extent in shape)
            if whole >= LARGEST_BYTES:
                raise CallError(
                    f"{what} where {given_text(sizes)}: {name} would take {whole} bytes, more than "
                    "an address can reach"
                )

    def _value(self, extent: Extent, sizes: Mapping[str, int]) -> int:
        return extent if isinstance(extent, int) else value_of(self.extents[extent], sizes)


def sized_storage(nest: Nest) -> SizedStorage:
    """Return the arrays of symbolic sizes that ``nest`` allocates.

    >>> import schedlang as sl
    >>> A = sl.placeholder((sl.var("n"), 4), name="A")
    >>> B = sl.compute(A.shape, lambda i, j: A[i, j] * 2, name="B")
    >>> C = sl.compute(A.shape, lambda i, j: B[i, 3 - j], name="C")
    >>> sized_storage(sl.lower(sl.schedule(C))).arrays
    (('B', 'float32', ('n', 4)),)
    """
    sizes = {*nest.sizes, *(a for a in nest.args if isinstance(a, Var) and a.is_size)}
    arrays: list[tuple[str, str, tuple[Extent, ...]]] = []
    extents: dict[str, Sum] = {}
    for stmt, _ in walk(nest.body):
        if not isinstance(stmt, Alloc) or stmt.buffer.size is not None:
            continue
        buffer = stmt.buffer
        symbolic = {str(e): to_lin(e) for e in buffer.shape if isinstance(e, Expr)}
        # sizes alone do not say how long an extent is that depends on a loop
        if all(leaf in sizes for lin in symbolic.values() for leaf in lin.leaves()):
            extents.update((text, terms_of(lin)) for text, lin in symbolic.items())
            shape = tuple(e if isinstance(e, int) else str(e) for e in buffer.shape)
            arrays.append((buffer.name, buffer.dtype, shape))
    return SizedStorage(tuple(arrays), extents)


def check_accesses(
    what: str, nest: Nest, outputs: Sequence[Tensor], sizes: Mapping[str, int]
) -> None:
    """Raise :class:`~schedlang.errors.CallError` if an access of ``nest`` may leave its array.

    ``what`` computes ``outputs`` by ``nest``, now at ``sizes``.
    """
    given = given_text(sizes)
    try:
        left = [u for u in verify(at_sizes(nest, sizes)) if u.exact]
    except VerifyError as error:
        why = str(error).removeprefix(f"{nest.name}: ")
        why = short_scan(outputs, sizes) or why
        raise CallError(f"{what} cannot run where {given}: {why}") from None
    if left:
        raise CallError(left[0].refusal(f"{what} where {given},"))


def given_text(sizes: Mapping[str, int]) -> str:
    """Return sizes as text.

    >>> given_text({"n": 2, "m": 3})
    'n=2, m=3'
    """
    return ", ".join(f"{name}={size}" for name, size in sizes.items())


__all__ = ["SizedStorage", "check_accesses", "given_text", "sized_storage"]
