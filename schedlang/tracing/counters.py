"""The counter of a ``while``, such as ``k`` in ``while k < n: ...; k += 1``, as a range's index."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace

from schedlang.tracing.names import LEFT, PREFIX, assigned, inside

# the comparison with the sides swapped
_SWAPPED = {ast.Lt: ast.Gt, ast.LtE: ast.GtE, ast.Gt: ast.Lt, ast.GtE: ast.LtE}
# the attributes of arrays that no iteration changes
_SIZES = ("shape", "size", "ndim", "T")
# the most ways through a body that are followed
_MOST_WAYS = 64


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
    ways = _ways(body, _Way(), name)
    if ways is None or not stores:
        return None
    added = {way.added for way in ways if not way.left}
    if len(added) != 1 or not {way.added for way in ways} <= {0, *added}:
        return None
    return added.pop() or None


@dataclass(frozen=True)
class _Way:
    """A way through a body: what it ``added`` to a name, and which flags it set to a constant.

    It has ``left`` the loop if it set the flag for that.
    """

    added: int = 0
    flags: frozenset[tuple[str, bool]] = frozenset()

    @property
    def left(self) -> bool:
        return any(name.startswith(LEFT) and value for name, value in self.flags)

    def with_flag(self, name: str, value: bool) -> _Way:
        others = frozenset(flag for flag in self.flags if flag[0] != name)
        return replace(self, flags=others | {(name, value)})


def _ways(block: Sequence[ast.stmt], start: _Way, name: str) -> set[_Way] | None:
    """Return the ways through a block; ``None`` if one assigns the name as no counter is."""
    ways = {start}
    for statement in block:
        following: set[_Way] = set()
        for way in ways:
            after = _ways_through(statement, way, name)
            if after is None:
                return None
            following |= after
        ways = following
        if len(ways) > _MOST_WAYS:
            return None
    return ways


def _ways_through(statement: ast.stmt, way: _Way, name: str) -> set[_Way] | None:
    if isinstance(statement, ast.If):
        sides = [(True, statement.body), (False, statement.orelse)]
        known = _known(statement.test, dict(way.flags))
        ends = [_ways(block, way, name) for side, block in sides if known in (None, side)]
        return None if any(e is None for e in ends) else {w for end in ends for w in end or ()}
    added = _added(statement, name)
    if added is not None:
        return {replace(way, added=way.added + added)}
    if name in assigned([statement]):
        return None
    if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant):
        (target, *_), value = statement.targets, statement.value.value
        if isinstance(target, ast.Name) and target.id.startswith(PREFIX) and type(value) is bool:
            return {way.with_flag(target.id, value)}
    return {way}


def _known(test: ast.expr, flags: Mapping[str, bool]) -> bool | None:
    """Return the truth value of a test of a flag, ``None`` for any other test."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = _known(test.operand, flags)
        return None if inner is None else not inner
    return flags.get(test.id) if isinstance(test, ast.Name) else None


def split_test(loop: ast.While) -> None:
    """Let ``while k < n and more: ...`` be ``while k < n: if not more: break; ...``.

    Then the counter ``k`` may be the index of a range.

    >>> (loop,) = ast.parse("while k < n and x[k]: k += 1").body
    >>> split_test(loop)
    >>> print(ast.unparse(loop))
    while k < n:
        if not x[k]:
            break
        k += 1
    """
    test = loop.test
    if not isinstance(test, ast.BoolOp) or not isinstance(test.op, ast.And) or loop.orelse:
        return
    first, *rest = test.values
    names = [n.id for n in ast.walk(first) if isinstance(n, ast.Name)]
    steps = {name for name in names for s in _all(loop.body) if _added(s, name)}
    if not isinstance(first, ast.Compare) or len(first.ops) != 1 or not steps:
        return
    more: ast.expr = rest[0] if len(rest) == 1 else ast.BoolOp(ast.And(), rest)
    leaves = ast.If(ast.UnaryOp(ast.Not(), more), [ast.Break()], [])
    loop.body.insert(0, ast.copy_location(leaves, loop))
    loop.test = first
    ast.fix_missing_locations(loop)


def _all(block: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    return (node for node in inside(block) if isinstance(node, ast.stmt))


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
    sign = 1
    while isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.USub):
        sign, value = -sign, value.operand
    if not is_own or not isinstance(value, ast.Constant) or type(value.value) is not int:
        return None
    step = sign * value.value
    steps: dict[type, int] = {ast.Add: step, ast.Sub: -step}
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
