"""The counter of a ``while``, such as ``k`` in ``while k < n: ...; k += 1``, as a range's index."""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence
from copy import deepcopy
from dataclasses import dataclass

from schedlang.tracing.leaving import LEFT
from schedlang.tracing.names import assigned, inside

# the comparison with the sides swapped
_SWAPPED = {ast.Lt: ast.Gt, ast.LtE: ast.GtE, ast.Gt: ast.Lt, ast.GtE: ast.LtE}
# the attributes of arrays that no iteration changes
_SIZES = ("shape", "size", "ndim", "T")


@dataclass(frozen=True)
class Counter:
    """A ``name`` to which each iteration adds ``step`` until it reaches ``stop``.

    ``measured`` are the names of which ``stop`` takes the length. A list may have another one in
    the next iteration.
    """

    name: str
    step: int
    stop: ast.expr
    measured: tuple[str, ...] = ()


def counter_of(loop: ast.While) -> Counter | None:
    """Return the counter of a loop; ``None`` if its test or its body has another form.

    >>> (loop,) = ast.parse("while k <= len(x): x[k] = 0; k += 2").body
    >>> counter = counter_of(loop)
    >>> counter.name, counter.step, ast.unparse(counter.stop)
    ('k', 2, 'len(x) + 1')
    """
    test = loop.test
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or type(test.ops[0]) not in _SWAPPED:
        return None
    kind, left, right = type(test.ops[0]), test.left, test.comparators[0]
    for order, name, end in ((kind, left, right), (_SWAPPED[kind], right, left)):
        measured: list[str] = []
        if not isinstance(name, ast.Name) or not _is_fixed(end, set(assigned(loop.body)), measured):
            continue
        step = _step(loop.body, name.id)
        if step is None:
            continue
        if (step > 0) != (order in (ast.Lt, ast.LtE)):
            return None
        stop = deepcopy(end)
        if order in (ast.LtE, ast.GtE):
            sign = ast.Add() if step > 0 else ast.Sub()
            stop = ast.copy_location(ast.BinOp(stop, sign, ast.Constant(1)), end)
        return Counter(name.id, step, ast.fix_missing_locations(stop), tuple(measured))
    return None


def _step(body: Sequence[ast.stmt], name: str) -> int | None:
    """Return what each iteration adds to a name, unless it ends the loop before; or ``None``."""
    stores = [n for n in inside(body) if isinstance(n, ast.Name) and n.id == name
              and isinstance(n.ctx, ast.Store)]  # fmt: skip
    return _step_in(body, name) if len(stores) == 1 else None


def _step_in(block: Sequence[ast.stmt], name: str) -> int | None:
    for statement in block:
        if isinstance(statement, ast.If) and any(map(_ends, (statement.body, statement.orelse))):
            rest = statement.orelse if _ends(statement.body) else statement.body
            step = _step_in(rest, name)
        else:
            step = _added(statement, name)
        if step:
            return step
    return None


def _ends(block: Sequence[ast.stmt]) -> bool:
    """Return whether a side of an ``if`` ends the loop, by a flag in place of ``break``."""
    return any(
        isinstance(s, ast.Assign)
        and isinstance(s.targets[0], ast.Name)
        and s.targets[0].id.startswith(LEFT)
        and isinstance(s.value, ast.Constant)
        and s.value.value is True
        for s in block
    )


def _added(statement: ast.stmt, name: str) -> int | None:
    """Return the number that a statement adds to a name, or ``None``."""
    value: ast.expr
    target: ast.expr
    if isinstance(statement, ast.AugAssign):
        target, op, value = statement.target, statement.op, statement.value
    elif isinstance(statement, ast.Assign) and isinstance(statement.value, ast.BinOp):
        (target, *others), op = statement.targets, statement.value.op
        before, value = statement.value.left, statement.value.right
        if others or not isinstance(before, ast.Name) or before.id != name:
            return None
    else:
        return None
    is_own = isinstance(target, ast.Name) and target.id == name
    if not is_own or not isinstance(value, ast.Constant) or type(value.value) is not int:
        return None
    steps: dict[type, int] = {ast.Add: value.value, ast.Sub: -value.value}
    return steps.get(type(op))


def _is_fixed(end: ast.expr, changed: Collection[str], measured: list[str]) -> bool:
    """Return whether an end is the same in all iterations, which have ``changed`` names.

    Add to ``measured`` the names of which it takes the length.
    """
    if isinstance(end, ast.Name):
        return end.id not in changed
    if isinstance(end, ast.BinOp):
        return all(_is_fixed(side, changed, measured) for side in (end.left, end.right))
    if isinstance(end, ast.UnaryOp):
        return _is_fixed(end.operand, changed, measured)
    if isinstance(end, ast.Attribute):
        # another attribute may be one that an iteration assigns
        return end.attr in _SIZES and _is_fixed(end.value, changed, measured)
    if isinstance(end, ast.Subscript):
        # an element of anything but a shape may change
        is_shape = isinstance(end.value, ast.Attribute) and end.value.attr == "shape"
        return is_shape and all(_is_fixed(e, changed, measured) for e in (end.value, end.slice))
    if isinstance(end, ast.Call):
        is_length = isinstance(end.func, ast.Name) and end.func.id == "len" and not end.keywords
        if not is_length or len(end.args) != 1 or not isinstance(end.args[0], ast.Name):
            return False
        measured.append(end.args[0].id)
        return _is_fixed(end.args[0], changed, measured)
    return isinstance(end, ast.Constant)
