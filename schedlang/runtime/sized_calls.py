"""The fast path of calls of a kernel with symbolic sizes: one for each combination of sizes.

The first call with some sizes takes the full checks, and what they learn holds for the next ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Optional

from schedlang.runtime.fast_call import Bind, Bound, fast_call
from schedlang.runtime.parameters import Parameter, Signature

# the combinations of sizes that are kept
MOST = 64
# returns the shape of a parameter for given sizes
Shape = Callable[[Parameter, Mapping[str, int]], tuple[int, ...]]


class SizedCalls:
    """The fast paths of a kernel with ``signature`` so far, by the shapes of its arguments."""

    def __init__(self, signature: Signature, shape: Shape) -> None:
        self._signature, self._shape = signature, shape
        kinds = [_kind(p) for p in signature.parameters]
        inputs = [k for k, p in zip(kinds, signature.parameters) if not p.is_output]
        self._kinds = {len(kinds): kinds, len(inputs): inputs}
        self._known: dict[Any, tuple[Bind, list[Any]]] = {}

    def __call__(self, args: Sequence[Any]) -> Bound | None:
        """Return the flat arrays and the result of a call whose sizes were checked before."""
        known = self._known.get(self._key(args))
        if known is None:
            return None
        bind, sizes = known
        bound = bind(args)
        if bound is not None:
            bound[0].extend(sizes)
        return bound

    def learn(self, args: Sequence[Any], sizes: Mapping[str, int]) -> None:
        """Take the fast path in calls like one with ``args``, whose ``sizes`` were checked."""
        signature, key = self._signature, self._key(args)
        if key is None or key in self._known:
            return
        parameters = tuple(
            p if p.is_scalar else replace(p, shape=self._shape(p, sizes))
            for p in signature.parameters
        )
        known = replace(
            signature,
            parameters=parameters,
            sizes=(),
            extents={},
            solved=(),
            single={},
            least={},
            most={},
        )
        bind = fast_call(known, sizes_checked=False)
        if bind is not None:
            if len(self._known) >= MOST:
                # a thread may call at the same time
                self._known.pop(next(iter(self._known)), None)
            self._known[key] = bind, [sizes[name] for name in signature.sizes]

    def _key(self, args: Sequence[Any]) -> Any:
        """Return what tells calls apart: shapes, and numbers that are sizes."""
        kinds = self._kinds.get(len(args))
        if kinds is None:
            return None
        try:
            return tuple([a.shape if k is None else k(a) for a, k in zip(args, kinds)])
        except (AttributeError, TypeError, ValueError, RuntimeError):
            # the full checks say what is wrong with them
            return None


def _kind(parameter: Parameter) -> Optional[Callable[[Any], Any]]:
    """Return what a key has of an argument, ``None`` for its shape."""
    if not parameter.is_scalar:
        return None
    return int if parameter.is_size else _nothing


def _nothing(_: Any) -> None:
    """Return the key of a number that is not a size."""
