"""Sizes that an importer learns to be multiples of numbers, as a model divides them.

A reshape to ``(n//2, 1, -1)`` is known to fit where ``n`` is even. The size ``n`` is then declared
as ``2 * n_over_2``, all over again: each call checks the multiple. An odd ``n`` that happens to
fit, such as 3, is refused, too.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from math import lcm

from schedlang.arrays.shapes import extent
from schedlang.compute.tensor import Extent
from schedlang.errors import FrontendError, MultipleError
from schedlang.expr.nodes import Expr, Var
from schedlang.expr.visit import rewrite


@dataclass(frozen=True)
class Multiples:
    """The number of which each size is a multiple, and the size of the quotient.

    A quotient takes none of ``names``, the names of the model's sizes.
    """

    of: Mapping[Var, tuple[int, Var]] = field(default_factory=dict)
    names: Collection[str] = ()

    def extent(self, given: Extent) -> Extent:
        """Return an extent with its sizes as multiples."""

        def multiple(node: Expr) -> Expr | None:
            if not isinstance(node, Var) or node not in self.of:
                return None
            number, quotient = self.of[node]
            return quotient * number

        return given if isinstance(given, int) else extent(rewrite(given, multiple))

    def after(self, error: FrontendError) -> Multiples | None:
        """Return the multiples with those that ``error`` asks for; ``None`` if it asks for none."""
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, MultipleError):
            cause = cause.__cause__
        if cause is None:
            return None
        known = dict(self.of)
        declared = {quotient: size for size, (_, quotient) in known.items()}
        for size, number in cause.multiples.items():
            whole = declared.get(size, size)
            before = known[whole][0] if whole in known else 1
            number = before * number if size in declared else lcm(before, number)
            known[whole] = number, quotient_of(whole, number, self.names)
        return replace(self, of=known)


def quotient_of(size: Var, number: int, names: Collection[str] = ()) -> Var:
    """Return the size that is ``size / number``, whose name is not among ``names``.

    >>> quotient_of(Var("n", least=3, most=9), 2), quotient_of(Var("n"), 2, ["n", "n_over_2"])
    (n_over_2, n_over_2_)
    """
    most = None if size.most is None else size.most // number
    name = f"{size.name}_over_{number}"
    while name in names:
        name += "_"
    return replace(size, name=name, least=-(-size.least // number), most=most)
