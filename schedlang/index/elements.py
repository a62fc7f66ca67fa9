"""Elements of arrays in index arithmetic: each equal read is one variable with a known range.

The polynomials of :mod:`.linear` cannot compare two reads. Here a read of ``indptr[i + 1]`` becomes
a variable, the same at each place, so that bounds of ragged ranges cancel and can be compared.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable
from dataclasses import dataclass, field
from typing import Optional

from schedlang.expr import dtypes
from schedlang.expr.nodes import ArrayRead, Axis, Binary, Call, Cast, Const, Expr, Var
from schedlang.expr.operators import ON_INDICES
from schedlang.expr.visit import postorder, rewrite
from schedlang.index.linear import Lin, to_expr
from schedlang.index.ranges import Ranges
from schedlang.index.simplify import to_lin

# the bounds of an element without a declared range
LARGEST = 2**62
LEAST, MOST = Lin.of(-LARGEST), Lin.of(LARGEST)

Ends = tuple[Optional[Lin], Optional[Lin]]


@dataclass(eq=False)
class Elements:
    """The variables that stand for reads, and the ranges of their values.

    ``array_of`` gives what a read reads, and ``span`` the known first and last value of its
    elements.

    >>> from schedlang import placeholder
    >>> from schedlang.compute.read import Read
    >>> P, i = placeholder((9,), "int32", name="P"), Axis("i", 8)
    >>> elements = Elements(lambda read: read.tensor, lambda read: (Lin.of(0), None))
    >>> elements.lin(P[i + 1] - i) - elements.lin(P[1 + i] - i)
    0
    """

    array_of: Callable[[ArrayRead], Hashable]
    span: Callable[[ArrayRead], Ends]
    reads: dict[Axis, Expr] = field(default_factory=dict)
    known: dict[Axis | Var, tuple[Lin, Lin]] = field(default_factory=dict)
    _variables: dict[Hashable, Axis] = field(default_factory=dict)

    def lin(self, value: Expr | int, ranges: Ranges | None = None) -> Lin:
        """Return ``value`` as a polynomial over axes, sizes and the variables of its reads.

        Integers count as unbounded: an index that overflows its dtype is out of bounds anyway.
        """
        if isinstance(value, int):
            return Lin.of(value)
        return to_lin(rewrite(value, self._swap), ranges=ranges)

    def expr(self, lin: Lin) -> Expr:
        """Return a polynomial over the variables as an index expression that reads."""
        return rewrite(to_expr(lin), lambda n: self.reads.get(n) if isinstance(n, Axis) else None)

    def within(self, ranges: Ranges) -> Ranges:
        """Return ``ranges`` with the ranges of all variables added."""
        return Ranges({**ranges.known, **self.known}, ranges.facts)

    def narrow(self, lin: Lin, low: Lin | None, high: Lin | None) -> None:
        """Note that ``lin``, if it is one variable plus a number, lies in ``low..high``."""
        variables = [a for a in lin.leaves() if a in self.known]
        if len(variables) != 1 or lin - Lin.of(variables[0]) != Lin.of(lin.offset):
            return
        (variable,) = variables
        assert isinstance(variable, Axis)
        least, most = self.known[variable]
        self.known[variable] = (
            least if low is None else low - lin.offset,
            most if high is None else high - lin.offset,
        )

    def depend(self, lin: Lin, axes: Container[object]) -> bool:
        """Return whether ``lin`` depends on ``axes``, also through the index of a read."""
        return lin.depends_on(axes) or any(
            node in axes
            for leaf in lin.leaves()
            if leaf in self.reads and isinstance(leaf, Axis)
            for node in postorder([self.reads[leaf]])
        )

    def _swap(self, node: Expr) -> Expr | None:
        if isinstance(node, ArrayRead):
            key: Hashable = (self.array_of(node), *(to_lin(i) for i in node.indices))
            return self._variable(key, node)
        if isinstance(node, (Axis, Var, Const)) or not dtypes.is_integer(node.dtype):
            return None
        if not any(isinstance(n, Axis) and n in self.reads for n in postorder([node])):
            return None
        if isinstance(node, Cast):
            return node.a if dtypes.is_integer(node.a.dtype) else self._variable(node, node)
        if isinstance(node, Binary) and node.op in ON_INDICES:
            return Binary(node.op, _weak(node.a), _weak(node.b), dtypes.INDEX, True)
        if isinstance(node, Call) and node.fn in ("min", "max"):
            return Call(node.fn, tuple(map(_weak, node.args)), dtypes.INDEX, True)
        return self._variable(node, node)

    def _variable(self, key: Hashable, node: Expr) -> Axis:
        """Return the variable of a ``key``: an element, or a node, which the table keeps alive."""
        variable = self._variables.get(key)
        if variable is None:
            low, high = self.span(node) if isinstance(node, ArrayRead) else (None, None)
            # the indices of a read were swapped, too
            read = rewrite(node, lambda n: self.reads.get(n) if isinstance(n, Axis) else None)
            read = read if read.dtype == dtypes.INDEX else Cast(read, dtypes.INDEX)
            # simplification relies on the declared range, which a negative element must not leave
            name = f"element{len(self.reads)}"
            variable = self._variables[key] = Axis(name, 2 * LARGEST, lo=-LARGEST)
            self.reads[variable] = read
            self.known[variable] = (LEAST if low is None else low, MOST if high is None else high)
        return variable


def _weak(value: Expr) -> Expr:
    """Return an integer as a number without dtype."""
    if value.weak and value.dtype == dtypes.INDEX:
        return value
    if isinstance(value, Const):
        return Const(int(value.value), dtypes.INDEX, True)
    if isinstance(value, Cast) and value.a.weak:
        return _weak(value.a)
    return Cast(value, dtypes.INDEX, True)
