"""Assignments in expressions, ``:=``, as statements before the one that has the expression.

The functions that hold the bodies of loops take no ``:=``.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence
from itertools import chain

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def with_statements(tree: ast.FunctionDef) -> list[ast.stmt]:
    """Return the body of a function, with statements in place of ``:=`` where no order changes.

    >>> (tree,) = ast.parse("def f(x, k):\\n while k and (v := x[k]) > 0: k -= 1").body
    >>> print(ast.unparse(with_statements(tree)))
    while k:
        v = x[k]
        if not v > 0:
            break
        k -= 1
    """
    changing = {
        name
        for node in ast.walk(tree)
        if isinstance(node, (ast.Global, ast.Nonlocal))
        for name in node.names
    }
    return _block(tree.body, changing)


def has_walrus(node: ast.expr) -> bool:
    """Return whether an expression assigns a name, which a lambda would keep for itself."""
    return any(isinstance(part, ast.NamedExpr) for part in ast.walk(node))


def _block(statements: Sequence[ast.stmt], changing: Collection[str]) -> list[ast.stmt]:
    new: list[ast.stmt] = []
    for statement in statements:
        if isinstance(statement, _SCOPES):
            new.append(statement)
            continue
        if isinstance(statement, ast.While):
            _test_in_body(statement)
        of_part = (getattr(statement, name, ()) for name in ("handlers", "cases"))
        for part in (statement, *chain.from_iterable(of_part)):
            for name in ("body", "orelse", "finalbody"):
                if getattr(part, name, None):
                    setattr(part, name, _block(getattr(part, name), changing))
        first = _First(changing)
        if isinstance(statement, ast.If):
            statement.test = first.without(statement.test)
        elif isinstance(statement, (ast.Assign, ast.Expr, ast.Return)) and statement.value:
            statement.value = first.without(statement.value)
        new += [*first.assignments, statement]
    return new


def _test_in_body(loop: ast.While) -> None:
    """Let the body of a loop begin with the parts of its test that assign names."""
    if loop.orelse or not has_walrus(loop.test):
        return
    is_and = isinstance(loop.test, ast.BoolOp) and isinstance(loop.test.op, ast.And)
    parts = list(loop.test.values) if is_and else [loop.test]  # type: ignore[attr-defined]
    true = ast.copy_location(ast.Constant(True), loop.test)
    loop.test = true if has_walrus(parts[0]) else parts.pop(0)
    leaves = [ast.If(ast.UnaryOp(ast.Not(), part), [ast.Break()], []) for part in parts]
    loop.body = [*(ast.copy_location(leave, loop) for leave in leaves), *loop.body]
    ast.fix_missing_locations(loop)


class _First:
    """Takes the ``:=`` out of an expression before which it reads nothing but names.

    Other functions assign the ``changing`` names. ``assignments`` are what it took.
    """

    def __init__(self, changing: Collection[str]) -> None:
        self.changing = changing
        self.assignments: list[ast.stmt] = []
        self.names: set[str] = set()
        self.only_names = True

    def without(self, node: ast.expr) -> ast.expr:
        """Return the part of the expression that comes next, without the ``:=`` in it."""
        if not self.only_names or isinstance(node, ast.Constant):
            return node
        if isinstance(node, ast.Name):
            self.names.add(node.id)
            self.only_names = node.id not in self.changing
            return node
        if isinstance(node, ast.NamedExpr):
            return self._assigned(node)
        if isinstance(node, ast.Compare):
            node.left = self.without(node.left)
            node.comparators[0] = self.without(node.comparators[0])
        elif isinstance(node, ast.BinOp):
            node.left, node.right = self.without(node.left), self.without(node.right)
        elif isinstance(node, ast.UnaryOp):
            node.operand = self.without(node.operand)
        elif isinstance(node, ast.BoolOp):
            node.values[0] = self.without(node.values[0])
        elif isinstance(node, ast.Call) and _is_plain(node.func):
            node.args = [self.without(arg) for arg in node.args]
        elif isinstance(node, ast.Subscript):
            node.value, node.slice = self.without(node.value), self.without(node.slice)
        self.only_names = False
        return node

    def _assigned(self, node: ast.NamedExpr) -> ast.expr:
        name = node.target.id
        own = _First(self.changing)
        own.names = set(self.names)
        node.value = own.without(node.value)
        self.assignments += own.assignments
        if name in self.names | own.names or name in self.changing:
            self.only_names = False
            return node
        target = ast.copy_location(ast.Name(name, ast.Store()), node.target)
        self.assignments.append(ast.copy_location(ast.Assign([target], node.value), node))
        self.names.add(name)
        return ast.copy_location(ast.Name(name, ast.Load()), node)


def _is_plain(function: ast.expr) -> bool:
    """Return whether an expression names a function, such as ``np.max``."""
    return isinstance(function, ast.Name) or (
        isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name)
    )
