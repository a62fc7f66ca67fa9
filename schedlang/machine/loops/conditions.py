"""Conditions that copies, lanes and the loops around decide; the others become tests or masks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from schedlang.expr.nodes import Axis, Binary, Const, Expr, Select, Var
from schedlang.expr.operators import COMPARISONS
from schedlang.expr.printer import is_index
from schedlang.expr.visit import preorder, rewrite
from schedlang.index.conditions import decide, facts_of
from schedlang.index.linear import Lin
from schedlang.index.ranges import Ranges
from schedlang.index.simplify import to_lin
from schedlang.ir.nodes import (
    Block,
    Copies,
    Copy,
    For,
    If,
    Lanes,
    Load,
    Masked,
    Stmt,
    Strips,
    block_of,
    expressions,
    held_statements,
    with_fields,
    with_held,
)
from schedlang.ir.offsets import flat, is_uniform, lane_step
from schedlang.ir.rewrite import with_expressions
from schedlang.machine.loops.job import LoopJob

NOTHING = Block()


@dataclass(frozen=True)
class _Place:
    """The values of axes in this copy, the ranges and facts around, and the lanes around.

    ``leads`` says that the first lane passes each mask around. ``conditional`` says of statements,
    by ``id``, whether they hold conditions: copies hold one body.
    """

    values: Mapping[Axis | Var, Lin]
    known: Ranges
    conditional: dict[int, bool]
    lanes: Lanes | None = None
    leads: bool = True


def settle_conditions(body: Block, job: LoopJob) -> Block:
    """Return ``body`` without the guards and choices that are known at their place.

    A guard that differs between lanes becomes a :class:`Masked`.
    """
    return block_of(_settle(body, _Place(job.values, job.known, {})))


def _is_conditional(stmt: Stmt, known: dict[int, bool]) -> bool:
    """Return whether ``stmt`` is or holds a guard or a choice."""
    answer = known.get(id(stmt))
    if answer is None:
        answer = known[id(stmt)] = (
            isinstance(stmt, If)
            or _has_choices(expressions(stmt))
            or any([_is_conditional(inner, known) for inner in held_statements(stmt)])
        )
    return answer


def _has_choices(roots: Iterable[Expr]) -> bool:
    for node in preorder(roots):
        if isinstance(node, Select):
            return True
    return False


def _settle(stmt: Stmt, place: _Place) -> Stmt:
    if not _is_conditional(stmt, place.conditional):
        return stmt
    if isinstance(stmt, If):
        return _guard(stmt, place)
    if not stmt.HELD:
        return with_expressions(stmt, lambda root: _choice(root, place))
    if isinstance(stmt, For):
        inside = place.known.extended(stmt.axis, Lin.of(0), to_lin(stmt.extent) - 1)
        place = replace(place, known=inside)
    elif isinstance(stmt, Strips):
        last = Lin.of(stmt.stop - stmt.step)
        place = replace(place, known=place.known.extended(stmt.start, Lin.of(0), last))
    elif isinstance(stmt, Copies):
        return with_fields(stmt, copies=tuple(_copy(copy, place) for copy in stmt.copies))
    elif isinstance(stmt, Copy):
        return _copy(stmt, place)
    elif isinstance(stmt, Lanes):
        place = replace(place, lanes=stmt)
    return with_held(stmt, lambda inner: _settle(inner, place))


def _copy(stmt: Copy, place: _Place) -> Copy:
    inside = replace(place, values={**place.values, stmt.axis: Lin.of(stmt.at)})
    return with_fields(stmt, body=block_of(_settle(stmt.body, inside)))


def _guard(stmt: If, place: _Place) -> Stmt:
    test = _condition(stmt.cond, place)
    if isinstance(test, Const):
        return _settle(stmt.body, place) if test.value else NOTHING
    test = _choice(test, place)
    if _differs(test, place):
        leads = place.leads and _holds_in_first_lane(test, place)
        body = block_of(_settle(stmt.body, replace(place, leads=leads)))
        return Masked(test, body, stmt.note, leads, stmt.number)
    facts = facts_of(stmt.cond, True, place.known)
    inside = replace(place, known=place.known.assuming(facts))
    return with_fields(stmt, cond=test, body=block_of(_settle(stmt.body, inside)))


def _differs(test: Expr, place: _Place) -> bool:
    """Return whether ``test`` may differ between the lanes around."""
    lanes = place.lanes
    if lanes is None:
        return False
    stack = [test]
    while stack:
        node = stack.pop()
        if node is lanes.axis:
            return True
        if not isinstance(node, Load):
            stack.extend(node.children)
        elif not is_uniform(lane_step(_offset(node, place.values), lanes.axis), place.leads):
            return True
    return False


def _offset(load: Load, values: Mapping[Any, Lin]) -> Lin:
    return flat(load.buffer, load.indices, values)


def _choice(root: Expr, place: _Place) -> Expr:
    """Return ``root`` with each choice whose condition is known replaced by the side it takes.

    Without unrolled axes and lanes there is nothing to do: lowering has settled these choices.
    """
    if (not place.values and place.lanes is None) or not _has_choices((root,)):
        return root

    def side(node: Expr) -> Expr | None:
        if not isinstance(node, Select):
            return None
        cond = _condition(node.cond, place)
        if isinstance(cond, Const):
            return node.a if cond.value else node.b
        return node if cond is node.cond else replace(node, cond=cond)

    return rewrite(root, side)


def _condition(cond: Expr, place: _Place) -> Expr:
    """Return ``cond`` without the comparisons that are known; a ``Const`` if all are."""

    def known(node: Expr) -> Expr | None:
        if not isinstance(node, Binary) or node.dtype != "bool":
            return node
        if node.op in ("&", "|"):
            return None
        truth = _comparison(node, place) if node.op in COMPARISONS else None
        return node if truth is None else Const(truth, "bool")

    return rewrite(cond, _folded, before=known)


def _folded(node: Expr) -> Expr | None:
    """Return an ``&`` or ``|`` simplified, if one of its operands is known; else ``None``."""
    assert isinstance(node, Binary)
    for one, other in ((node.a, node.b), (node.b, node.a)):
        if isinstance(one, Const):
            return other if bool(one.value) == (node.op == "&") else one
    return None


def _holds_in_first_lane(cond: Expr, place: _Place) -> bool:
    """Return whether ``cond`` is certain to hold in the first lane."""
    assert place.lanes is not None
    values = {**place.values, place.lanes.axis: place.lanes.start}
    stack = [cond]
    while stack:
        node = stack.pop()
        if isinstance(node, Binary) and node.op == "&":
            stack += [node.a, node.b]
            continue
        if not isinstance(node, Binary) or node.op not in ("<", "<=", ">", ">="):
            return False
        if not (is_index(node.a) and is_index(node.b)):
            return False
        facts = [f.substitute(values) for f in facts_of(node, True, place.known)]
        if not facts or not all(place.known.nonneg(-f) for f in facts):
            return False
    return True


def _comparison(node: Binary, place: _Place) -> bool | None:
    """Return the truth of a comparison of indices if it is the same in all lanes and iterations."""
    if not (is_index(node.a) and is_index(node.b)):
        return None
    difference = to_lin(node.a, place.values) - to_lin(node.b, place.values)
    ends = [difference]
    if place.lanes is not None:
        lanes = place.lanes
        step = lane_step(difference, lanes.axis)
        if step is None:
            return None
        first = difference.substitute({lanes.axis: lanes.start})
        ends = [first, first + step * (lanes.count - 1)]

    return decide(node.op, ends, place.known)
