"""Nested tuples, lists and dicts of arrays, as a flat list and its form."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Form:
    """The form of nested containers.

    ``kind`` is tuple, a class of named tuples, list, dict, ``None`` or ``"leaf"``.
    """

    kind: Any
    parts: tuple[Form, ...] = ()
    keys: tuple[Any, ...] = ()

    def __str__(self) -> str:
        if self.kind == "leaf":
            return "array"
        if self.kind is None:
            return "None"
        inner = ", ".join(map(str, self.parts))
        if self.kind is dict:
            inner = ", ".join(f"{k!r}: {p}" for k, p in zip(self.keys, self.parts))
            return f"{{{inner}}}"
        return f"[{inner}]" if self.kind is list else f"({inner})"


LEAF = Form("leaf")


def is_traced(value: Any) -> bool:
    """Return whether ``value`` is an array of a traced function."""
    return hasattr(type(value), "apply_traced")


def container_of(value: Any) -> type | None:
    """Return the class of a tuple, named tuple, list or dict; else ``None``."""
    kind = type(value)
    return kind if kind in (tuple, list, dict) or is_named_tuple(kind) else None


def is_named_tuple(kind: type) -> bool:
    """Return whether ``kind`` is a class of named tuples, such as ``np.linalg.svd`` returns."""
    return issubclass(kind, tuple) and hasattr(kind, "_make")


def sequence_of(kind: Any, parts: Iterable[Any]) -> Any:
    """Return a list, a tuple or a named tuple of ``parts``."""
    return kind._make(parts) if is_named_tuple(kind) else kind(parts)


def flatten(value: Any) -> tuple[list[Any], Form]:
    """Return the leaves of nested tuples, lists and dicts, and their form.

    >>> leaves, form = flatten((1, {"a": [2, 3]}))
    >>> leaves, str(form), rebuilt(form, leaves)
    ([1, 2, 3], "(array, {'a': [array, array]})", (1, {'a': [2, 3]}))
    """
    leaves: list[Any] = []
    return leaves, _form(value, leaves)


def _form(value: Any, leaves: list[Any]) -> Form:
    if value is None:
        return Form(None)
    kind = container_of(value)
    if kind is dict:
        return Form(dict, tuple(_form(v, leaves) for v in value.values()), tuple(value))
    if kind is not None:
        return Form(kind, tuple(_form(v, leaves) for v in value))
    leaves.append(value)
    return LEAF


def rebuilt(form: Form, leaves: Sequence[Any]) -> Any:
    """Return nested containers of a ``form`` with these leaves."""
    return _rebuild(form, iter(leaves))


def _rebuild(form: Form, leaves: Iterator[Any]) -> Any:
    if form.kind is None:
        return None
    if form.kind == "leaf":
        return next(leaves)
    parts = [_rebuild(p, leaves) for p in form.parts]
    if form.kind is dict:
        return dict(zip(form.keys, parts))
    return sequence_of(form.kind, parts)
