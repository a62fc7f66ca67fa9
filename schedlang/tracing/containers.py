"""Lists and dicts that are arguments of a traced function, which it does not change.

The function runs once, on copies of the containers: what it adds to one of the caller, or replaces
there, would be missing. If a copy has changed, a second run gets stand-ins, which refuse to change
at the user's line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, NoReturn

from schedlang.errors import ComputeTypeError, explain
from schedlang.tracing.leaves import Form, sequence_of
from schedlang.tracing.unknown import line_text


class GivenList(list[Any]):
    """A list among the arguments, which refuses to change.

    ``type(x)(...)`` makes the user's own list.
    """

    stands_for = list
    name: str

    def __new__(cls, *args: Any) -> Any:
        return list(*args)

    def __setitem__(self, at: Any, value: Any) -> None:
        # d[k] += y assigns the same array again
        if isinstance(at, slice) or not -len(self) <= at < len(self) or self[at] is not value:
            _refuse(self, f"{self.name}[{at!r}] = ...")

    def __copy__(self) -> list[Any]:
        return list(self)

    def __deepcopy__(self, memo: Any) -> list[Any]:
        return deepcopy(list(self), memo)


class GivenDict(dict[Any, Any]):
    """A dict among the arguments, which refuses to change.

    ``type(x)(...)`` makes the user's own dict.
    """

    stands_for = dict
    name: str

    def __new__(cls, *args: Any, **named: Any) -> Any:
        return dict(*args, **named)

    def __setitem__(self, key: Any, value: Any) -> None:
        if key not in self or self[key] is not value:
            _refuse(self, f"{self.name}[{key!r}] = ...")

    def setdefault(self, key: Any, default: Any = None) -> Any:
        """Return the value of a key that is there."""
        return self[key] if key in self else _refuse(self, f"{self.name}.setdefault({key!r})")

    def __copy__(self) -> dict[Any, Any]:
        return dict(self)

    def __deepcopy__(self, memo: Any) -> dict[Any, Any]:
        return deepcopy(dict(self), memo)


def _refuse(container: Any, asked: str, where: str | None = None) -> NoReturn:
    kind = container.stands_for.__name__
    raise ComputeTypeError(
        explain(
            f"{asked} in {line_text() if where is None else where}",
            f"{container.name} is a {kind} of the caller, and a call runs kernels, which change "
            "elements of arrays alone",
            "Return what is new, and let the caller store it; to work on a copy, write "
            f"{kind}({container.name}).",
        )
    )


def _refusal_of(method: str) -> Callable[..., NoReturn]:
    form = {
        "__delitem__": "del {}[...]",
        "__iadd__": "{} += ...",
        "__imul__": "{} *= ...",
        "__ior__": "{} |= ...",
    }.get(method, "{}." + method + "(...)")

    def refuse(self: Any, *_: Any, **__: Any) -> NoReturn:
        _refuse(self, form.format(self.name))

    return refuse


for _name in ("__delitem__", "__iadd__", "__imul__", "append", "extend", "insert", "pop", "remove",
              "clear", "sort", "reverse"):  # fmt: skip
    setattr(GivenList, _name, _refusal_of(_name))
for _name in ("__delitem__", "__ior__", "update", "pop", "popitem", "clear"):
    setattr(GivenDict, _name, _refusal_of(_name))


@dataclass(frozen=True)
class Given:
    """A container that a trace got for the argument ``name``, with what it held then."""

    container: Any
    name: str
    keys: tuple[Any, ...]
    parts: tuple[Any, ...]

    @property
    def stands_for(self) -> type:
        return type(self.container)

    @property
    def is_changed(self) -> bool:
        keys, parts = _contents(self.container)
        return keys != self.keys or any(a is not b for a, b in zip(parts, self.parts))


@dataclass(frozen=True)
class Containers:
    """The containers among the arguments of a trace, by identity."""

    known: dict[int, Given] = field(default_factory=dict)

    def built(self, form: Form, leaves: Sequence[Any], name: str) -> Any:
        """Return nested containers of a ``form`` with these leaves, for the argument ``name``."""
        return self._built(form, iter(leaves), name)

    def _built(self, form: Form, leaves: Iterator[Any], name: str) -> Any:
        if form.kind is None:
            return None
        if form.kind == "leaf":
            return next(leaves)
        keys = form.keys if form.kind is dict else range(len(form.parts))
        parts = [
            self._built(part, leaves, f"{name}[{key!r}]") for key, part in zip(keys, form.parts)
        ]
        if issubclass(form.kind, tuple):
            return sequence_of(form.kind, parts)
        container: Any = dict(zip(keys, parts)) if form.kind is dict else parts
        self.known[id(container)] = Given(container, name, *_contents(container))
        return container

    def check(
        self,
        title: str,
        function: Callable[..., Any],
        args: Sequence[Any],
        named: Mapping[str, Any],
    ) -> None:
        """Raise if a container changed when ``function`` of these arguments ran, at its line."""
        changed = next(
            (container for container in self.known.values() if container.is_changed), None
        )
        if changed is None:
            return
        function(*map(self._refusing, args), **{k: self._refusing(v) for k, v in named.items()})
        # by a way that a stand-in does not see, such as list.append(l)
        _refuse(changed, f"a change of {changed.name}", title)

    def _refusing(self, value: Any) -> Any:
        """Return an argument as it was, with containers that refuse to change."""
        if type(value) is tuple:
            return tuple(map(self._refusing, value))
        container = self.known.get(id(value))
        if container is None:
            return value
        parts = map(self._refusing, container.parts)
        stand_in: Any
        if container.stands_for is dict:
            stand_in = dict.__new__(GivenDict)
            dict.update(stand_in, zip(container.keys, parts))
        else:
            stand_in = list.__new__(GivenList)
            list.extend(stand_in, parts)
        stand_in.name = container.name
        return stand_in


def _contents(container: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return the keys, or the positions, and what is there."""
    if isinstance(container, dict):
        return tuple(container), tuple(container.values())
    return tuple(range(len(container))), tuple(container)
