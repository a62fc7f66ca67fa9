"""The names that statements assign and read: which of them go around a loop, or out of it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import takewhile

# statements and expressions whose names belong to a scope of their own
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
# the names of flags, and of those that say that a loop ends
PREFIX = "_sl_"
LEFT = f"{PREFIX}left_"
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
    note_reads(statements, known, lambda statement, names: reads.update(names))
    return reads | ({*later} - known)


def note_reads(
    statements: Sequence[ast.stmt], known: set[str], note: Callable[[ast.stmt, set[str]], None]
) -> None:
    """Call ``note`` with each statement and the names that it may read and that are not ``known``.

    Add to ``known`` those that the statements assign.
    """
    for statement in statements:
        if isinstance(statement, ast.If):
            note(statement, names_read([statement.test]) - known)
            branches = []
            for block in (statement.body, statement.orelse):
                branches.append(set(known))
                if _leaves(block):
                    note_reads(block, set(known), note)
                else:
                    note_reads(block, branches[-1], note)
            ended = [_leaves(statement.body), _leaves(statement.orelse)]
            rest = [names for names, end in zip(branches, ended) if not end]
            known |= set.intersection(*rest) if rest else set()
        elif isinstance(statement, (ast.For, ast.AsyncFor)):
            note(statement, names_read([statement.iter, statement.target]) - known)
            targets = set(assigned([statement.target]))
            note_reads(statement.body, known | targets, note)
            if _is_nonempty(statement.iter):
                known |= targets | assigned_at_once(statement)
            note_reads(statement.orelse, set(known), note)
        elif isinstance(statement, ast.While):
            note(statement, names_read([statement.test]) - known)
            note_reads(statement.body, set(known), note)
            if isinstance(statement.test, ast.Constant) and statement.test.value:
                known |= assigned_at_once(statement)
            note_reads(statement.orelse, set(known), note)
        elif isinstance(statement, (ast.With, ast.AsyncWith)):
            note(statement, names_read(statement.items) - known)
            known |= set(assigned(statement.items))
            note_reads(statement.body, known, note)
        elif isinstance(statement, ast.Try):
            note(statement, names_read(h.type for h in statement.handlers if h.type) - known)
            within = set(known)
            note_reads(statement.body, within, note)
            note_reads(statement.orelse, within, note)
            for handler in statement.handlers:
                note_reads(handler.body, {*known, handler.name or ""}, note)
            note_reads(statement.finalbody, set(known), note)
            known |= set(assigned([statement]))
        elif isinstance(statement, ast.Match):
            tests = [part for case in statement.cases for part in _tests(case)]
            note(statement, names_read([statement.subject, *tests]) - known)
            for case in statement.cases:
                note_reads(case.body, known | _captured(case.pattern), note)
            known |= set(assigned([statement]))
        else:
            reads = names_read([statement])
            if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
                reads.add(statement.target.id)
            note(statement, reads - known)
            known |= set(assigned([statement]))


def _tests(case: ast.match_case) -> list[ast.AST]:
    """Return what a case of a ``match`` reads before its statements run."""
    return [case.pattern] if case.guard is None else [case.pattern, case.guard]


def _captured(pattern: ast.pattern) -> set[str]:
    """Return the names that a pattern assigns."""
    nodes = list(ast.walk(pattern))
    names = {node.name for node in nodes if isinstance(node, (ast.MatchAs, ast.MatchStar))}
    names |= {node.rest for node in nodes if isinstance(node, ast.MatchMapping)}
    return {name for name in names if name}


def assigned_at_once(loop: ast.For | ast.AsyncFor | ast.While) -> set[str]:
    """Return the names that the first iteration of a loop assigns before it may leave the loop.

    >>> (loop,) = ast.parse("while x: t = x; y = t if t else 0; x = f(t)").body
    >>> sorted(assigned_at_once(loop))
    ['t', 'x', 'y']
    """
    names: set[str] = set()
    kept = takewhile(
        lambda s: not any(isinstance(node, _LEAVING) for node in inside([s])), loop.body
    )
    note_reads(list(kept), names, lambda statement, names: None)
    return names


def _is_nonempty(iterable: ast.expr) -> bool:
    """Return whether an expression is a range that has an iteration, such as ``range(3)``."""
    if not isinstance(iterable, ast.Call) or iterable.keywords:
        return False
    ends = [a.value for a in iterable.args if isinstance(a, ast.Constant)]
    if len(ends) < len(iterable.args) or not all(type(end) is int for end in ends):
        return False
    is_range = isinstance(iterable.func, ast.Name) and iterable.func.id == "range"
    return is_range and 1 <= len(ends) <= 2 and len(range(*ends)) > 0  # type: ignore[arg-type]


def names_read_in_any_case(statement: ast.stmt) -> set[str]:
    """Return the names that a statement, or the head of a loop or an ``if``, always reads.

    >>> (statement,) = ast.parse("y = u if t else v").body
    >>> names_read_in_any_case(statement)
    {'t'}
    """
    names = {n.id for n in _run_always(statement) if isinstance(n.ctx, ast.Load)}
    if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
        names.add(statement.target.id)
    return names


def _run_always(node: ast.AST) -> Iterator[ast.Name]:
    """Yield the names of a statement or expression that run with it in any case."""
    parts: Iterable[ast.AST] = ast.iter_child_nodes(node)
    if isinstance(node, (ast.If, ast.While, ast.IfExp)):
        parts = [node.test]
    elif isinstance(node, (ast.For, ast.AsyncFor)):
        parts = [node.iter]
    elif isinstance(node, (ast.With, ast.AsyncWith)):
        parts = [node.items[0].context_expr]
    elif isinstance(node, ast.BoolOp):
        parts = node.values[:1]
    elif isinstance(node, ast.Compare):
        parts = [node.left, node.comparators[0]]
    elif isinstance(node, (*_SCOPES, *_COMPREHENSIONS)):
        parts = parts_around(node)
    elif isinstance(node, ast.Match):
        parts = [node.subject]
    elif isinstance(node, (ast.Try, ast.Assert)):
        parts = []
    for part in parts:
        if isinstance(part, ast.Name):
            yield part
        else:
            yield from _run_always(part)


def names_read(nodes: Iterable[ast.AST]) -> set[str]:
    """Return the names that nodes read, without the own names of functions in them.

    >>> sorted(names_read(ast.parse("[k * t for k in x]; lambda u: u + v").body))
    ['t', 'v', 'x']
    >>> sorted(names_read(ast.parse("[x for x in x]; lambda v=v: v").body))
    ['v', 'x']
    """
    names: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Name):
            names |= {node.id} if isinstance(node.ctx, ast.Load) else set()
            continue
        own: set[str] = set()
        if isinstance(node, _COMPREHENSIONS):
            own = set(assigned([part.target for part in node.generators]))
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            own = {a.arg for a in ast.walk(node.args) if isinstance(a, ast.arg)}
            if not isinstance(node, ast.Lambda):
                own |= set(assigned(node.body)) - declared_around(node.body)
        elif isinstance(node, ast.ClassDef):
            own = set(assigned(node.body))
        names |= names_read(ast.iter_child_nodes(node)) - own
        names |= names_read(parts_around(node))
    return names


def parts_around(node: ast.AST) -> list[ast.expr]:
    """Return the parts of a function, a class or a comprehension that run in the scope around it.
    """
    if isinstance(node, _COMPREHENSIONS):
        return [node.generators[0].iter]
    parts: list[ast.expr] = []
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        parts += node.decorator_list
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
        parts += [*node.args.defaults, *filter(None, node.args.kw_defaults)]
    if isinstance(node, ast.ClassDef):
        parts += [*node.bases, *(keyword.value for keyword in node.keywords)]
    return parts


def declared_around(body: Sequence[ast.stmt]) -> set[str]:
    """Return the names that the statements of a function declare global or nonlocal."""
    declared = (node for node in inside(body) if isinstance(node, (ast.Global, ast.Nonlocal)))
    return {name for node in declared for name in node.names}


def _leaves(block: Sequence[ast.stmt]) -> bool:
    """Return whether a block ends by leaving the statements around it."""
    return bool(block) and isinstance(block[-1], _LEAVING)
