"""The kernels of a network in order, and by the names of what they compute."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, SupportsIndex, overload

from schedlang.errors import UnknownNameError, explain, names_text, nearest
from schedlang.networks.kernels import PartKernel
from schedlang.networks.naming import is_in
from schedlang.networks.partition import Part

# an error lists so many names that look like an unknown one
_MOST_NEAR = 3


class Kernels(tuple[PartKernel, ...]):
    """The kernels of a network: a tuple, which a name may index, too.

    The name belongs to a part, a stage or a layer; a layer has the stages of the layers inside of
    it. If several of these have the name, the part is meant, then the stage. Raises
    :class:`~schedlang.errors.UnknownNameError` for a name that none has, and for one of what
    several kernels compute.

    >>> import schedlang as sl
    >>> from schedlang import topi
    >>> X, W = sl.placeholder((4, 8), name="X"), sl.placeholder((8, 8), name="W")
    >>> h = topi.nn.relu(topi.nn.dense(X, W))
    >>> net = sl.network(topi.nn.softmax(h), target="python")
    >>> len(net.kernels), net.kernels["dense"].name, net.kernels["relu"] is net.kernels[0]
    (2, 'dense', True)
    """

    _parts: tuple[Part, ...]

    def __new__(cls, kernels: Iterable[PartKernel] = (), parts: Sequence[Part] = ()) -> Kernels:
        self = super().__new__(cls, kernels)
        self._parts = tuple(parts)
        return self

    @overload
    def __getitem__(self, key: SupportsIndex | str) -> PartKernel: ...
    @overload
    def __getitem__(self, key: slice) -> tuple[PartKernel, ...]: ...
    def __getitem__(self, key: Any) -> Any:
        return self._named(key) if isinstance(key, str) else super().__getitem__(key)

    def _named(self, name: str) -> PartKernel:
        names = {part.name for part in self._computing(name)}
        kernels = [kernel for kernel in self if names.intersection(kernel.parts)]
        if len(kernels) == 1:
            return kernels[0]
        asked = f"kernels[{name!r}]"
        if kernels:
            raise UnknownNameError(
                explain(
                    asked,
                    f"{len(kernels)} kernels compute it",
                    f"Name one of their parts: {names_text(k.name for k in kernels)}.",
                )
            )
        known = dict.fromkeys(
            [part.name for part in self._parts]
            + [stage for part in self._parts for stage in part.stages]
            + [layer for part in self._parts for layer in part.layers]
        )
        hint = nearest(name, known, _MOST_NEAR)
        hint = hint or f"; the kernels are {names_text(kernel.name for kernel in self)}"
        raise UnknownNameError(f"{asked}: no kernel computes a part, stage or layer {name!r}{hint}")

    def _computing(self, name: str) -> list[Part]:
        """Return the parts of this name, or else with a stage of this name, or else of a layer."""
        return (
            [part for part in self._parts if part.name == name]
            or [part for part in self._parts if name in part.stages]
            or [part for part in self._parts if any(is_in(layer, name) for layer in part.layers)]
        )
