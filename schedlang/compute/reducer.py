"""What a reduction combines with: a combiner of tuples and its identity."""

from __future__ import annotations

from dataclasses import dataclass

from schedlang.expr.nodes import Const, Expr, Var


@dataclass(frozen=True, eq=False)
class Reducer:
    """A commutative, associative combiner of tuples: ``result`` over ``lhs`` and ``rhs``.

    ``ties`` is an example of two states whose order shows, where comparing equal values decides;
    it is empty for a combiner that always commutes. ``vouched`` says that the user answers for
    what was not sampled. Sources: TVM's ``comm_reducer``, whose promise of commutativity and
    associativity is sampled here (:mod:`schedlang.compute.laws`).
    """

    name: str
    lhs: tuple[Var, ...]
    rhs: tuple[Var, ...]
    result: tuple[Expr, ...]
    identity: tuple[Const, ...]
    vouched: bool = False
    ties: str = ""
