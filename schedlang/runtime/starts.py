"""The callable that a call starts: the function of a kernel's file in a lock or error handling."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Any

import numpy as np

from schedlang.errors import BoundsError
from schedlang.runtime.index_errors import with_array_name


def one_at_a_time(function: Callable[..., None], lock: Lock) -> Callable[..., None]:
    """Return ``function`` so that one call runs at a time."""

    def start(*flat: Any) -> None:
        with lock:
            function(*flat)

    return start


def interpret(
    function: Callable[..., None], name: str, path: str, what: str = "kernel"
) -> Callable[..., None]:
    """Return ``function`` of the uncompiled kernel ``name``, whose errors name the array.

    ``what`` is what it is called in messages.
    """

    def start(*flat: Any) -> None:
        # NumPy warns of overflow and division by zero; compiled code does not
        with np.errstate(all="ignore"):
            try:
                function(*flat)
            except IndexError as error:
                raise BoundsError(f"{what} {name}: {with_array_name(error, path)}") from error

    return start
