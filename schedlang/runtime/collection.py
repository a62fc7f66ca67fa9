"""A pause of the collection of garbage, in which Python looks for cycles of objects."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_collection() -> Iterator[None]:
    """Collect no garbage inside of a ``with`` block.

    >>> with no_collection():
    ...     print(gc.isenabled())
    False
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
