"""The decorator of the classes of which a kernel has tens of thousands of values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from dataclasses import dataclass as immutable
else:
    Class = TypeVar("Class", bound=type)

    def immutable(*, frozen: bool, **options: bool) -> Callable[[Class], Class]:
        """Return the decorator of a dataclass that the type checker takes for a frozen one.

        The type checker refuses to write into its values. A class that refuses it at run time,
        too, stores each field by a call, and takes four times as long to make a value.
        """
        assert frozen, "the type checker takes the class for one to write into"
        return dataclass(unsafe_hash=options.get("eq", True), **options)


__all__ = ["immutable"]
