"""The sizes at which an access leaves its array, as conditions that a file can hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional, Union

from schedlang.expr.nodes import Axis, Expr, Unary, Var
from schedlang.index.conditions import (
    NEGATED,
    at_most,
    compares_indices,
    facts_of_extent,
    joined_by,
)
from schedlang.index.linear import Atom, Div, Extreme, Lin, to_expr
from schedlang.index.positive import at_least_one, divisors
from schedlang.index.quotients import within
from schedlang.index.ranges import Ranges
from schedlang.index.relax import lower, upper
from schedlang.index.simplify import to_lin
from schedlang.index.sums import Sum, value_of
from schedlang.index.terms import terms_of
from schedlang.ir.nest import Nest
from schedlang.ir.printer import expr_text
from schedlang.ir.verify import Unproven, by_data, verify

Piece = Union[str, Sum]


@dataclass(frozen=True)
class SizeCondition:
    """Sizes of calls that are refused: those at which each of ``where`` is at least 1.

    ``why`` is the reason, in pieces: texts, and polynomials whose values stand between them. It is
    the reason for what ``verb`` says.
    """

    where: tuple[Sum, ...]
    why: tuple[Piece, ...]
    verb: str = " cannot run"

    def refuses(self, sizes: Mapping[str, int]) -> bool:
        return all(value_of(terms, sizes) >= 1 for terms in self.where)

    def reason(self, sizes: Mapping[str, int]) -> str:
        return "".join(p if isinstance(p, str) else str(value_of(p, sizes)) for p in self.why)


def size_conditions(nest: Nest) -> Optional[tuple[SizeCondition, ...]]:
    """Return the sizes at which an access of ``nest`` leaves its array.

    They are exact. Return ``None`` if an access has other conditions, which do not have this form:
    its index is not linear, or a loop or a guard around it is not.

    >>> import schedlang as sl
    >>> A = sl.placeholder((sl.var("n"),), name="A")
    >>> last = sl.compute((1,), lambda i: A[A.shape[0] - 1], name="last")
    >>> (condition,) = size_conditions(sl.lower(sl.schedule(last)))
    >>> condition.refuses({"n": 0}), condition.refuses({"n": 1}), condition.reason({"n": 0})[:40]
    (True, False, 'index 0 of A, n - 1, cannot lie in 0..0 ')
    """
    conditions: dict[SizeCondition, None] = {}
    for access in verify(nest):
        if not access.exact:
            continue
        own = _of_access(access, nest.names)
        if own is None:
            return None
        conditions.update(dict.fromkeys(own))
    return tuple(conditions)


def _of_access(access: Unproven, names: dict[Axis, str]) -> list[SizeCondition] | None:
    ranges = Ranges()
    for loop in access.loops:
        ranges.learn(loop.axis, Lin.of(0), to_lin(loop.extent) - 1)
    tests = _facts(access.tests, ranges)
    runs = None if tests is None else _runs(access, tests, ranges)
    size = to_lin(access.buffer.shape[access.position])
    if tests is None or runs is None or not _is_of_sizes(size):
        return None
    extents = (to_lin(loop.extent) for loop in access.loops)
    facts = (*(fact for extent in extents for fact in facts_of_extent(extent)), *tests)
    inside = ranges.assuming((*facts, -size + 1))
    lin = to_lin(access.index, ranges=ranges)
    title = f"index {access.position} of {access.buffer.name}, {expr_text(access.index, names)}, "
    end = f" (in stage {access.stage})"
    if not access.stores:
        end += "\n  Guard the read with sl.if_then_else(cond, ..., 0)."
    whole = by_data(lin) or within(lin, size, inside)
    if whole and all(by_data(d) or at_least_one(d, inside) for d in divisors(lin)):
        # it is inside unless the dimension is empty
        return _refused(runs, -size + 1, (f"{title}cannot lie in 0..0{end}",))
    if any(_axes(fact) for fact in tests) or not _takes_its_bounds(lin):
        return None
    if any(_axes(to_lin(loop.extent)) for loop in access.loops):
        return None
    first, last = lower(lin, ranges), upper(lin, ranges)
    if first is None or last is None:
        return None
    values: tuple[Piece, ...] = (terms_of(first),)
    if first != last:
        values = (*values, "..", terms_of(last))
    takes = "is " if first == last else "takes the values "
    why = (f"{title}{takes}", *values, ", outside 0..", terms_of(size), end)
    return [*_refused(runs, -first, why), *_refused(runs, last - size + 1, why)]


def _refused(runs: Sequence[Lin], outside: Lin, why: tuple[Piece, ...]) -> list[SizeCondition]:
    """Return the condition that all of ``runs`` and ``outside`` are at least 1, if they can be."""
    where = [lin for lin in (*runs, outside) if not at_least_one(lin, Ranges())]
    if any(Ranges().nonneg(-lin) for lin in where):
        return []
    return [SizeCondition(tuple(dict.fromkeys(map(terms_of, where))), why)]


def _runs(access: Unproven, tests: Sequence[Lin], ranges: Ranges) -> list[Lin] | None:
    """Return polynomials over sizes that are all at least 1 exactly where the access is reached.

    Each extent and each test must be largest in the first iteration of all loops: if any iteration
    is reached, so is that one.
    """
    start: dict[Axis | Var, Lin] = {loop.axis: Lin.of(0) for loop in access.loops}
    polynomials: list[Lin] = []
    for lin in (*(to_lin(loop.extent) for loop in access.loops), *(-fact + 1 for fact in tests)):
        first = lin
        if _axes(lin):
            first = to_lin(to_expr(lin.substitute(start)))
            most = upper(lin, ranges)
            if most is None or to_lin(to_expr(most)) != first:
                return None
        if not _is_of_sizes(first) or any(True for _ in divisors(first)):
            return None
        polynomials.append(first)
    return polynomials


def _facts(tests: Sequence[Expr], ranges: Ranges) -> tuple[Lin, ...] | None:
    """Return polynomials that are all at most 0 exactly where all tests hold."""
    polynomials: list[Lin] = []
    stack: list[tuple[Any, bool]] = [(test, True) for test in tests]
    while stack:
        node, holds = stack.pop()
        if joined := joined_by(node, holds):
            stack += joined
            continue
        if isinstance(node, Unary) or not compares_indices(node):
            return None
        op = node.op if holds else NEGATED[node.op]
        if op == "!=":
            return None
        polynomials += at_most(op, to_lin(node.a, ranges=ranges) - to_lin(node.b, ranges=ranges))
    return tuple(polynomials)


def _is_of_sizes(lin: Lin) -> bool:
    return all(isinstance(leaf, Var) and leaf.is_size for leaf in lin.leaves())


def _axes(lin: Lin) -> bool:
    return any(isinstance(leaf, Axis) for leaf in lin.leaves())


def _takes_its_bounds(lin: Lin) -> bool:
    """Return whether the bounds of ``lin`` over its loops, none of them empty, are values of it.

    They are if each loop occurs once, and if the value only grows or only falls with each.
    """
    axes = [leaf for leaf in lin.leaves() if isinstance(leaf, Axis)]
    sizes = all(isinstance(x, Axis) or (isinstance(x, Var) and x.is_size) for x in lin.leaves())
    return sizes and len(axes) == len(set(axes)) and all(map(_is_monotone, _atoms(lin)))


def _atoms(lin: Lin) -> Iterator[tuple[Atom, ...]]:
    """Yield each product of ``lin``, and of the operands of its atoms."""
    for product in lin.terms:
        yield product
        for atom in product:
            if isinstance(atom, Extreme):
                for arg in atom.args:
                    yield from _atoms(arg)
            elif not isinstance(atom, (Axis, Var)):
                yield from _atoms(atom.num)  # type: ignore[union-attr]


def _is_monotone(product: tuple[Atom, ...]) -> bool:
    others = [atom for atom in product if not isinstance(atom, Var)]
    if len(others) > 1:
        return False
    return all(
        isinstance(atom, (Axis, Extreme)) or (isinstance(atom, Div) and bool(atom.den.const))
        for atom in others
    )
