"""Results that bypass the caches: the decision, and the loops that ask for it."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from schedlang.compute.tensor import Tensor
from schedlang.expr.dtypes import itemsize
from schedlang.ir.nodes import For, Store
from schedlang.state.state import NONTEMPORAL
from schedlang.target import Target


def bypasses_caches(
    written: Iterable[Tensor], read: Iterable[Tensor], target: Target, threads: int
) -> bool:
    """Return whether a stage that stores the outputs ``written`` had better bypass the caches.

    It does if the last caches of ``threads`` cores do not hold what it reads and writes. Elements
    of bool do not fill registers, and a size that is open may be small: both stay in the caches.
    """
    written = [*written]
    tensors = dict.fromkeys([*written, *read])
    if any(tensor.dtype == "bool" for tensor in written):
        return False
    if not all(isinstance(extent, int) for tensor in tensors for extent in tensor.shape):
        return False
    held = sum(prod(tensor.shape) * itemsize(tensor.dtype) for tensor in tensors)
    return bool(held > target.last_cache(threads))


def streams(loop: For, store: Store) -> bool:
    """Return whether a loop asks that a store in it bypasses the caches."""
    return loop.stage == store.stage and any(name == NONTEMPORAL for name, _ in loop.pragmas)
