"""The reducer of a reduction: a combiner of tuples, and its identity."""

from __future__ import annotations

from dataclasses import dataclass

from schedlang.expr.nodes import Const, Expr, Var


@dataclass(frozen=True, eq=False)
class Reducer:
    """A commutative, associative combiner of tuples: ``result`` over ``lhs`` and ``rhs``.

    ``ties`` is an example of two states that do not commute because equal values are compared; it
    is empty for a combiner that always commutes. ``identity_ties`` is an example of a state that
    the identity replaces because the two tie. ``restarts`` is an example of an element for which
    the identity is not neutral, so that a reduction with ``init`` depends on how often a schedule
    starts from the identity. ``vouched`` says that the user vouches for the combiner, by
    ``trusted`` or ``samples``. ``parts`` are the reducers of several reductions in one loop, which
    together have all values; any other reducer has no parts. ``gradient`` is ``"fold"`` if the
    derivative of a reduction follows from the derivative of the combiner, else ``""``. Sources:
    TVM's ``comm_reducer``, which assumes commutativity and associativity; here they are tested
    """

    name: str
    lhs: tuple[Var, ...]
    rhs: tuple[Var, ...]
    result: tuple[Expr, ...]
    identity: tuple[Const, ...]
    vouched: bool = False
    ties: str = ""
    identity_ties: str = ""
    restarts: str = ""
    parts: tuple[Part, ...] = ()
    gradient: str = ""

    @property
    def overwrites(self) -> bool:
        """True if the later of two updates remains, so that their order matters (a scatter's)."""
        return all(new is y for new, y in zip(self.result, self.rhs))


@dataclass(frozen=True, eq=False)
class Part:
    """One of several reductions in one loop.

    ``places`` are the positions of the values of ``reducer`` among the values of the loop. The user
    sees the first ``visible`` of them.
    """

    reducer: Reducer
    places: tuple[int, ...]
    visible: int = 1
