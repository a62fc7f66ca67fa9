"""The origins of kernels' schedules, in a network and as data that was saved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from schedlang.errors import NetworkError

# the origin of a schedule that was given, and of one whose note alone was saved
GIVEN, SAVED = "given", "saved"
# those that a manifest may have; the others are the origins of a ``Choice``
ORIGINS = ("database", "near size", "model", "plain", GIVEN, SAVED)
# where the schedule of a kernel comes from, and a note about it, as ``PartKernel`` has them
Origin = tuple[str, str]


def origins_of(data: Mapping[Any, Any], texts: bool = False) -> dict[str, Origin]:
    """Return the origins in ``data`` by kernel.

    With ``texts`` they may be phrases, as older versions wrote them. Raises
    :class:`~schedlang.errors.NetworkError` for other data.

    >>> origins_of({"fc": ["model", ""]}), origins_of({"fc": "by the cost model"}, texts=True)
    ({'fc': ('model', '')}, {'fc': ('saved', 'by the cost model')})
    """
    origins: dict[str, Origin] = {}
    for name, value in data.items():
        if texts and isinstance(value, str):
            value = (SAVED, value) if value else (GIVEN, "")
        pair = isinstance(value, (list, tuple)) and len(value) == 2
        if not (pair and all(isinstance(text, str) for text in (name, *value))):
            raise NetworkError(f"the origin of kernel {name!r} should be two texts: {value!r}")
        if value[0] not in ORIGINS:
            raise NetworkError(
                f"the origin of kernel {name!r} should be one of {', '.join(ORIGINS)}: {value[0]!r}"
            )
        origins[name] = (value[0], value[1])
    return origins
