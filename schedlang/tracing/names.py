"""The names that statements assign and read: which of them go around a loop, or out of it."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Sequence

# statements and expressions whose names belong to a scope of their own
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_LEAVING = (ast.Return, ast.Raise, ast.Break, ast.Continue)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def assigned(statements: Iterable[ast.AST]) -> list[str]:
    """Return the names that statements assign, without the names of functions in them.

    >>> assigned(ast.parse("x[0] = 1; y += 2; z = [k for k in y]").body)
    ['y', 'z']
    """
    names: dict[str, None] = {}
    for node in inside(statements):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names[node.id] = None
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names[node.name] = None
    return list(names)


def plainly_assigned(statements: Sequence[ast.AST]) -> set[str]:
    """Return the names that statements assign anew, and not only by ``+=`` and its like."""
    changed = {id(node.target) for node in inside(statements) if isinstance(node, ast.AugAssign)}
    return {
        node.id
        for node in inside(statements)
        if isinstance(node, ast.Name)
        and isinstance(node.ctx, ast.Store)
        and id(node) not in changed
    }


def inside(statements: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Yield the nodes of statements, without what functions and comprehensions in them hold."""
    waiting = list(statements)[::-1]
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, (*_SCOPES, *_COMPREHENSIONS)):
            waiting += list(ast.iter_child_nodes(node))[::-1]


def read_first(statements: Sequence[ast.stmt], later: Collection[str] = ()) -> set[str]:
    """Return the names that statements may read before they assign them.

    The names ``later`` are read after the statements.

    >>> sorted(read_first(ast.parse("t = x + 1; y = t + y").body))
    ['x', 'y']
    >>> sorted(read_first(ast.parse("if x: t = 1").body, ["t"]))
    ['t', 'x']
    """
    reads: set[str] = set()
    known: set[str] = set()
    _read_first(statements, known, reads)
    return reads | ({*later} - known)


def _read_first(statements: Sequence[ast.stmt], known: set[str], reads: set[str]) -> None:
    """Add to ``reads`` the names that statements read and that are not ``known``.

    Add to ``known`` those that they assign.
    """
    for statement in statements:
        if isinstance(statement, ast.If):
            _loads([statement.test], known, reads)
            branches = []
            for block in (statement.body, statement.orelse):
                branches.append(set(known))
                if _leaves(block):
                    _read_first(block, set(known), reads)
                else:
                    _read_first(block, branches[-1], reads)
            ended = [_leaves(statement.body), _leaves(statement.orelse)]
            rest = [names for names, end in zip(branches, ended) if not end]
            known |= set.intersection(*rest) if rest else set()
        elif isinstance(statement, (ast.For, ast.AsyncFor)):
            _loads([statement.iter], known, reads)
            within = known | set(assigned([statement.target]))
            _loads([statement.target], known, reads)
            _read_first(statement.body, within, reads)
            _read_first(statement.orelse, set(known), reads)
        elif isinstance(statement, ast.While):
            _loads([statement.test], known, reads)
            _read_first(statement.body, set(known), reads)
            _read_first(statement.orelse, set(known), reads)
        elif isinstance(statement, ast.AugAssign):
            _loads([statement], known, reads)
            if isinstance(statement.target, ast.Name):
                if statement.target.id not in known:
                    reads.add(statement.target.id)
                known.add(statement.target.id)
        else:
            _loads([statement], known, reads)
            known |= set(assigned([statement]))


def read_surely(statements: Sequence[ast.stmt]) -> set[str]:
    """Return the names that statements read in any case, with the values from before them.

    >>> sorted(read_surely(ast.parse("t = x + 1; y = u if t else v").body))
    ['x']
    """
    reads: set[str] = set()
    known: set[str] = set()
    for statement in statements:
        _loads(_run_always(statement), known, reads)
        known |= set(assigned([statement]))
        if any(isinstance(node, _LEAVING) for node in inside([statement])):
            break
    return reads


def _run_always(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the names of a statement or expression that run with it in any case."""
    parts: Iterable[ast.AST] = ast.iter_child_nodes(node)
    if isinstance(node, (ast.If, ast.While, ast.IfExp)):
        parts = [node.test]
    elif isinstance(node, (ast.For, ast.AsyncFor)):
        parts = [node.iter]
    elif isinstance(node, ast.BoolOp):
        parts = node.values[:1]
    elif isinstance(node, ast.Compare):
        parts = [node.left, node.comparators[0]]
    elif isinstance(node, _COMPREHENSIONS):
        parts = [node.generators[0].iter]
    elif isinstance(node, (*_SCOPES, ast.Try, ast.Match)):
        parts = []
    for part in parts:
        if isinstance(part, ast.Name):
            yield part
        else:
            yield from _run_always(part)


def _leaves(block: Sequence[ast.stmt]) -> bool:
    """Return whether a block ends by leaving the statements around it."""
    return bool(block) and isinstance(block[-1], _LEAVING)


def _loads(nodes: Iterable[ast.AST], known: set[str], reads: set[str]) -> None:
    for node in nodes:
        for part in ast.walk(node):
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load):
                if part.id not in known:
                    reads.add(part.id)
