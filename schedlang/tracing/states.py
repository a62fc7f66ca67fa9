"""The names that the parts of a traced function share: their values before and after each part."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from schedlang.tracing.leaves import flatten


class Unbound:
    """The value of a name that nothing was assigned to."""

    def __repr__(self) -> str:
        return "UNBOUND"


UNBOUND = Unbound()


class State:
    """The ``names`` that a loop's body or the sides of an ``if`` assign, at a ``line``.

    ``rebound`` are assigned anew rather than by ``+=`` alone. ``carried`` may be read before they
    are assigned, and ``live`` are read later. ``target`` is the name of the loop's index, which a
    ``counter`` is that the body of a ``while`` changes.
    ``nested`` says that there is a loop in the body, and ``ends`` that the body may end the loop.
    ``word`` is what messages call an ``if``.
    """

    def __init__(
        self,
        getters: Sequence[Callable[[], Any]],
        assign: Callable[[int, Any], None],
        names: Sequence[str],
        live: Collection[str],
        line: int,
        rebound: Collection[str] = (),
        carried: Collection[str] = (),
        target: str = "",
        nested: bool = False,
        counter: str = "",
        ends: bool = False,
        word: str = "if",
    ) -> None:
        self._getters, self._assign = getters, assign
        self.names, self.line, self.target, self.nested = names, line, target, nested
        self.counter, self.ends = counter, ends
        self.rebound, self.carried, self.live = set(rebound), set(carried), set(live)
        self.word = word

    def counted(self) -> State:
        """Return the state of a ``while`` whose counter is the index of a range.

        If only the test may end the loop, the range tells where the counter ends.
        """
        own = {self.counter}
        live = self.live if self.ends else self.live - own
        return State(
            self._getters, self._assign, self.names, live, self.line, self.rebound | own,
            self.carried - own, "", self.nested, self.counter, self.ends,
        )  # fmt: skip

    def with_number(
        self, name: str, read: Callable[[], Any], write: Callable[[Any], None]
    ) -> State:
        """Return the state with one more ``name`` of a number, which each iteration changes."""
        own = {name}

        def assign(at: int, value: Any) -> None:
            if at == len(self.names):
                write(value)
            else:
                self._assign(at, value)

        return State(
            [*self._getters, read], assign, [*self.names, name], self.live, self.line,
            self.rebound | own, self.carried | own, "", self.nested, "", self.ends,
        )  # fmt: skip

    def values(self) -> dict[str, Any]:
        """Return the present values of all names."""
        return {name: self.value(name) for name in self.names}

    def value(self, name: str) -> Any:
        """Return the present value of a name, or ``UNBOUND``."""
        try:
            return self._getters[list(self.names).index(name)]()
        except NameError:
            return UNBOUND

    def set(self, values: dict[str, Any]) -> None:
        """Assign to names."""
        for k, name in enumerate(self.names):
            if name in values:
                self._assign(k, values[name])


# the state of an expression, which assigns nothing
NOTHING = State([], lambda at, value: None, [], [], 0)


def is_data(value: Any) -> bool:
    """Return whether a value consists of arrays and numbers."""
    leaves, _ = flatten(value)
    return bool(leaves) and all(hasattr(v, "dtype") or isinstance(v, (int, float, complex))
                                for v in leaves)  # fmt: skip
