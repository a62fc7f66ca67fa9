"""The form in which a network returns its outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from schedlang.errors import NetworkError


def filled(structure: Any, values: Sequence[Any]) -> Any:
    """Return ``values`` in the form of ``structure``, which has the position of each value.

    >>> filled({"more": 0, "pair": (1, None)}, ["a", "b"])
    {'more': 'a', 'pair': ('b', None)}
    """
    if isinstance(structure, dict):
        return {key: filled(value, values) for key, value in structure.items()}
    if isinstance(structure, (tuple, list)):
        return type(structure)(filled(value, values) for value in structure)
    return None if structure is None else values[structure]


def to_json(structure: Any) -> Any:
    """Return ``structure`` as data that JSON can hold.

    >>> to_json({"more": 0, "pair": (1, None)})
    {'dict': [['more', 0], ['pair', {'tuple': [1, None]}]]}
    """
    if isinstance(structure, dict):
        return {"dict": [[key, to_json(value)] for key, value in structure.items()]}
    if isinstance(structure, (tuple, list)):
        return {type(structure).__name__: [to_json(value) for value in structure]}
    return structure


def from_json(data: Any, outputs: int, depth: int = 0) -> Any:
    """Return the structure that :func:`to_json` wrote, of a network with so many ``outputs``.

    Raises :class:`~schedlang.errors.NetworkError` for other data.

    >>> from_json({"dict": [["more", 0], ["pair", {"tuple": [1, None]}]]}, 2)
    {'more': 0, 'pair': (1, None)}
    """
    if data is None and depth:
        return None
    if isinstance(data, int) and not isinstance(data, bool) and 0 <= data < outputs:
        return data
    if isinstance(data, dict) and len(data) == 1 and depth < 32:
        ((kind, items),) = data.items()
        if kind in ("tuple", "list") and isinstance(items, list):
            parts = [from_json(item, outputs, depth + 1) for item in items]
            return tuple(parts) if kind == "tuple" else parts
        if (
            kind == "dict"
            and isinstance(items, list)
            and all(
                isinstance(item, list) and len(item) == 2 and isinstance(item[0], (str, int))
                for item in items
            )
        ):
            return {key: from_json(value, outputs, depth + 1) for key, value in items}
    raise NetworkError(f"{str(data)[:60]!r} is not the form of what a network returns")
