"""A function's syntax tree with its loops, branches, tests and calls passed to ``control``.

The body of each loop and each side of an ``if`` becomes a function of its own, which shares the
names that it assigns (``nonlocal``). ``control`` then decides how often to run it, and on what.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from copy import deepcopy
from itertools import takewhile
from typing import Any

from schedlang.tracing.counters import counter_of
from schedlang.tracing.leaving import PREFIX, Flags, fits, is_left
from schedlang.tracing.names import assigned, inside, names_read, plainly_assigned, read_first
from schedlang.tracing.tables import names_written
from schedlang.tracing.unassigned import Unassigned
from schedlang.tracing.walruses import has_walrus, with_statements

# the name by which rewritten code refers to schedlang.tracing.control
CONTROL = "_sl_control"

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
# functions that look at the frame that calls them
_OF_FRAMES = {"super", "locals", "globals", "vars", "dir", "eval", "exec", "__import__"}


def rewrite_function(tree: ast.FunctionDef) -> ast.FunctionDef:
    """Return a definition whose loops, branches and calls go through ``control``."""
    body = tree.body = with_statements(tree)
    rewriter = _Rewriter(tree)
    start = 1 if ast.get_docstring(tree, clean=False) is not None else 0
    own = Unassigned(tree, rewriter.fixed, CONTROL)
    flagged = Flags(rewriter.fixed).block(own.block(body[start:]))
    new = rewriter.block(own.ended(flagged, not _always_returns(flagged)), [], ends=True)
    declared = [_parsed(f"if 0: {name} = None", body[0])[0] for name in sorted(rewriter.shared)]
    tree.body = [*body[:start], *declared, *new] or body
    return tree


class _Rewriter(ast.NodeTransformer):
    """Rewrites the statements of one function.

    ``shared`` are the names that functions made here assign, and ``fixed`` those that are global
    or belong to a function around. In the elements of ``written`` the function writes.
    ``functions`` has the place of each function in this one, and the names that it reads.
    """

    def __init__(self, tree: ast.FunctionDef) -> None:
        self.shared: set[str] = set()
        self.fixed = {
            name
            for node in inside(tree.body)
            if isinstance(node, (ast.Global, ast.Nonlocal))
            for name in node.names
        }
        self.written = names_written(tree.body)
        self.functions = [
            (_place(node), names_read([node]))
            for statement in tree.body
            for node in ast.walk(statement)
            if isinstance(node, (*_FUNCTIONS, ast.GeneratorExp))
        ]
        self.count = 0

    def block(
        self, statements: Sequence[ast.stmt], after: Sequence[ast.stmt], ends: bool = False
    ) -> list[ast.stmt]:
        """Return statements rewritten; ``after`` are those that may run next.

        If the function ``ends`` with them, an ``if`` with a ``return`` takes the rest into its
        sides.
        """
        new: list[ast.stmt] = []
        for k, statement in enumerate(statements):
            rest = list(statements[k + 1 :])
            if isinstance(statement, ast.If) and _returns(statement) and ends:
                sides = _completed(statement, rest)
                if sides is not None and fits(statement, self.fixed):
                    return [*new, *self._choice(statement, *sides, [], returns=True)]
            new += self._statement(statement, [*rest, *after])
        return new

    def _statement(self, statement: ast.stmt, after: Sequence[ast.stmt]) -> list[ast.stmt]:
        if isinstance(statement, (ast.For, ast.While)):
            return self._loop(statement, after)
        if isinstance(statement, ast.If):
            plain = _returns(statement) or is_left(statement)
            if fits(statement, self.fixed) and not plain:
                return self._choice(statement, statement.body, statement.orelse, after)
            statement.test = self.visit(statement.test)
            statement.body = self.block(statement.body, after)
            statement.orelse = self.block(statement.orelse, after)
            return [statement]
        if isinstance(statement, (ast.With, ast.Try)):
            for name in ("body", "orelse", "finalbody"):
                if getattr(statement, name, None):
                    setattr(statement, name, self.block(getattr(statement, name), after))
            for handler in getattr(statement, "handlers", ()):
                handler.body = self.block(handler.body, after)
            for item in getattr(statement, "items", ()):
                item.context_expr = self.visit(item.context_expr)
            return [statement]
        if isinstance(statement, ast.FunctionDef):
            rewrite_function(statement)
            return [statement]
        if isinstance(statement, (ast.ClassDef, ast.AsyncFunctionDef)):
            return [statement]
        return [self.visit(statement)]

    def _loop(self, loop: ast.For | ast.While, after: Sequence[ast.stmt]) -> list[ast.stmt]:
        # what follows a statement of the body: the body once more, or what follows the loop
        again = [_repeated(loop), *after]
        if not fits(loop, self.fixed):
            if isinstance(loop, ast.For):
                loop.iter = self.visit(loop.iter)
            else:
                loop.test = self.visit(loop.test)
            loop.body = self.block(loop.body, again)
            loop.orelse = self.block(loop.orelse, after)
            return [loop]
        self.count += 1
        at = self.count
        target = loop.target if isinstance(loop, ast.For) else None
        counter = counter_of(loop) if isinstance(loop, ast.While) else None
        whole: list[ast.stmt] = list(loop.body)
        names = sorted({*assigned(whole), *(assigned([target]) if target is not None else ())})
        by_functions = self._read_outside(loop)
        live = read_first(list(after)) | (by_functions if _may_call(after) else set())
        reads = read_first(whole, live & set(names))
        reads |= by_functions - _assigned_before_calls(whole)
        if isinstance(loop, ast.While):
            reads |= read_first([ast.Expr(loop.test)])
        if target is not None:
            reads -= set(assigned([target]))
        # the names of `for i, row in ...` are assigned in the body
        parts = [target] if isinstance(target, (ast.Tuple, ast.List)) else []
        nested = any(isinstance(n, (ast.For, ast.While)) for s in whole for n in ast.walk(s))
        facts = {
            "names": names,
            "rebound": sorted(plainly_assigned([*whole, *parts])),
            "carried": sorted(reads & set(names)),
            "live": sorted(live & set(names)),
            "target": target.id if isinstance(target, ast.Name) else "",
            "line": loop.lineno,
            "nested": nested,
            "counter": "" if counter is None else counter.name,
            "ends": bool(getattr(loop, "left", "")),
        }
        new_body = self.block(loop.body, again, ends=True)
        if counter is not None:
            # a range gives the number of an iteration
            item = f"{PREFIX}item"
            text = f"if {item} is not None: {counter.name} = {item}"
            new_body = [*_parsed(text, loop), *new_body]
        left = getattr(loop, "left", "")
        if left:
            new_body += _parsed(f"return {left}", loop)
        functions = self._function(f"body_{at}", names, new_body, loop, target)
        functions += self._state(at, names, facts, loop)
        if isinstance(loop, ast.For):
            given: ast.expr = self.visit(loop.iter)
            word = "for_loop"
        else:
            given = ast.Lambda(_no_arguments(), self.visit(loop.test))
            word = "while_loop"
        text = f"{CONTROL}.{word}(None, {PREFIX}body_{at}, {PREFIX}state_{at})"
        if counter is not None:
            of_fixed = "".join(f", {name}" for name in counter.measured)
            # its length may be symbolic
            end = ast.unparse(self.visit(counter.stop))
            stop = f"{CONTROL}.end_of_range(lambda: {end}{of_fixed})"
            text = f"{text[:-1]}, {counter.step}, lambda: {stop})"
        ran = getattr(loop, "ran", "")
        call = _parsed(f"{ran} = {text}" if ran else text, loop)[0]
        call.value.args[0] = given  # type: ignore[attr-defined]
        return [*functions, ast.fix_missing_locations(ast.copy_location(call, loop))]

    def _choice(
        self,
        statement: ast.If,
        body: Sequence[ast.stmt],
        orelse: Sequence[ast.stmt],
        after: Sequence[ast.stmt],
        returns: bool = False,
    ) -> list[ast.stmt]:
        """Return what runs one side of an ``if``, or both."""
        self.count += 1
        at = self.count
        names = sorted({*assigned(body), *assigned(orelse)})
        live = read_first(list(after))
        live |= self._read_outside(statement) if _may_call(after) else set()
        facts = {
            "names": names,
            "live": sorted(live & set(names)),
            "line": statement.lineno,
            "word": getattr(statement, "word", "if"),
        }
        test = self.visit(statement.test)
        functions = []
        for word, side in (("then", body), ("else", orelse)):
            new = self.block(list(side), after, ends=returns)
            functions += self._function(f"{word}_{at}", names, new, statement)
        functions += self._state(at, names, facts, statement)
        text = f"{CONTROL}.branch(None, {PREFIX}then_{at}, {PREFIX}else_{at}, {PREFIX}state_{at})"
        (call,) = _parsed(f"return {text}" if returns else text, statement)
        call.value.args[0] = test  # type: ignore[attr-defined]
        return [*functions, ast.fix_missing_locations(call)]

    def _read_outside(self, statement: ast.stmt) -> set[str]:
        """Return the names that functions read that a statement does not define.

        The statement may call them, and so may all that run after it.
        """
        own = {_place(n) for n in ast.walk(statement) if isinstance(n, (ast.expr, ast.stmt))}
        return {name for place, names in self.functions if place not in own for name in names}

    def _function(
        self,
        name: str,
        names: Sequence[str],
        body: list[ast.stmt],
        at: ast.stmt,
        target: ast.expr | None = None,
    ) -> list[ast.stmt]:
        """Return the definition of a function that assigns ``names`` of the function around."""
        self.shared |= set(names)
        (new,) = _parsed(f"def {PREFIX}{name}({PREFIX}item=None): pass", at)
        assert isinstance(new, ast.FunctionDef)
        statements: list[ast.stmt] = []
        if names:
            statements.append(ast.Nonlocal(list(names)))
        if target is not None:
            statements.append(ast.Assign([target], ast.Name(f"{PREFIX}item", ast.Load())))
        for statement in statements:
            ast.copy_location(statement, at)
        new.body = [*statements, *body] or [ast.copy_location(ast.Pass(), at)]
        return [ast.fix_missing_locations(new)]

    def _state(
        self, at: int, names: Sequence[str], facts: dict[str, Any], statement: ast.stmt
    ) -> list[ast.stmt]:
        """Return the definition of what reads and sets names of this function."""
        getters = ", ".join(f"lambda: {name}" for name in names)
        lines = [f"def {PREFIX}set_{at}({PREFIX}at, {PREFIX}value):"]
        lines += [f" nonlocal {', '.join(names)}"] if names else []
        for k, name in enumerate(names):
            lines += [
                f" if {PREFIX}at == {k}:",
                f"  if {PREFIX}value is {CONTROL}.UNBOUND:",
                f"   {name} = None",
                f"   del {name}",
                f"  else: {name} = {PREFIX}value",
            ]
        lines += [" return None"]
        lines += [
            f"{PREFIX}state_{at} = {CONTROL}.State([{getters}], {PREFIX}set_{at}, **{facts!r})"
        ]
        return _parsed("\n".join(lines), statement)

    def visit_Assign(self, node: ast.Assign) -> ast.AST:  # noqa: N802
        computes = isinstance(node.value, (ast.Call, ast.BinOp, ast.UnaryOp))
        self.generic_visit(node)
        (target, *others) = node.targets
        is_written = isinstance(target, ast.Name) and target.id in self.written
        if computes and is_written and not others:
            new = ast.Call(_helper("new_array"), [node.value], [])
            node.value = ast.fix_missing_locations(ast.copy_location(new, node.value))
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:  # noqa: N802
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id in _OF_FRAMES:
            return node
        new = ast.Call(_helper("call"), [node.func, *node.args], node.keywords)
        return ast.fix_missing_locations(ast.copy_location(new, node))

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:  # noqa: N802
        self.generic_visit(node)
        if has_walrus(node):
            return node
        word = "both" if isinstance(node.op, ast.And) else "either"
        parts: list[ast.expr] = [ast.Lambda(_no_arguments(), value) for value in node.values]
        new = ast.Call(_helper(word), parts, [])
        return ast.fix_missing_locations(ast.copy_location(new, node))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:  # noqa: N802
        self.generic_visit(node)
        if not isinstance(node.op, ast.Not):
            return node
        new = ast.Call(_helper("opposite"), [node.operand], [])
        return ast.fix_missing_locations(ast.copy_location(new, node))

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:  # noqa: N802
        self.generic_visit(node)
        if has_walrus(node):
            return node
        sides: list[ast.expr] = [ast.Lambda(_no_arguments(), v) for v in (node.body, node.orelse)]
        new = ast.Call(_helper("choice"), [node.test, *sides], [])
        return ast.fix_missing_locations(ast.copy_location(new, node))

    def visit_Compare(self, node: ast.Compare) -> ast.AST:  # noqa: N802
        self.generic_visit(node)
        words = {ast.Is: "is_same", ast.IsNot: "is_other"}
        if len(node.ops) == 1 and type(node.ops[0]) in words:
            word = _helper(words[type(node.ops[0])])
            new = ast.Call(word, [node.left, node.comparators[0]], [])
            return ast.fix_missing_locations(ast.copy_location(new, node))
        if len(node.ops) == 1 or has_walrus(node):
            return node
        parts: list[ast.expr] = [node.left]
        for op, value in zip(node.ops, node.comparators):
            one, other = (ast.Name(f"{PREFIX}{side}", ast.Load()) for side in ("left", "right"))
            both = ast.arguments([], [ast.arg(one.id), ast.arg(other.id)], None, [], [], None, [])
            test: ast.expr = self.visit(ast.copy_location(ast.Compare(one, [op], [other]), node))
            parts += [ast.Lambda(both, test), ast.Lambda(_no_arguments(), value)]
        new = ast.Call(_helper("compared"), parts, [])
        return ast.fix_missing_locations(ast.copy_location(new, node))

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:  # noqa: N802
        self.generic_visit(node)
        names = (ast.Name, ast.Attribute, ast.Call, ast.NamedExpr)
        is_known = not any(isinstance(part, names) for part in ast.walk(node.slice))
        if is_known or not isinstance(node.ctx, ast.Load):
            return node
        new = ast.Call(_helper("item"), [node.value, _index(node.slice)], [])
        return ast.fix_missing_locations(ast.copy_location(new, node))

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:  # noqa: N802
        node.body = self.visit(node.body)
        return node


def _index(index: ast.expr) -> ast.expr:
    """Return the expression of an index, with calls of ``slice`` for ``a:b``."""
    if isinstance(index, ast.Tuple):
        return ast.Tuple([_index(part) for part in index.elts], ast.Load())
    if not isinstance(index, ast.Slice):
        return index
    ends = [end or ast.Constant(None) for end in (index.lower, index.upper, index.step)]
    return ast.Call(_helper("slice_of"), ends, [])


def _place(node: ast.expr | ast.stmt) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _helper(name: str) -> ast.expr:
    return ast.Attribute(ast.Name(CONTROL, ast.Load()), name, ast.Load())


def _may_call(statements: Sequence[ast.AST]) -> bool:
    """Return whether statements may run a function of the user's, or a generator."""
    kinds = (ast.Call, ast.For, ast.comprehension)
    return any(isinstance(node, kinds) for s in statements for node in ast.walk(s))


def _assigned_before_calls(body: Sequence[ast.stmt]) -> set[str]:
    """Return the names that a body assigns before it may call a function."""
    first = takewhile(lambda s: isinstance(s, ast.Assign) and not _may_call([s]), body)
    return set(assigned(first)) if _may_call(body) else set(assigned(body))


def _no_arguments() -> ast.arguments:
    return ast.arguments([], [], None, [], [], None, [])


def _parsed(text: str, at: ast.stmt) -> list[ast.stmt]:
    """Return the statements of a text, all of them at the line of another statement."""
    body = ast.parse(text).body
    for statement in body:
        for node in ast.walk(statement):
            if hasattr(node, "lineno"):
                ast.copy_location(node, at)
                node.end_lineno = node.lineno  # type: ignore[attr-defined]
    return body


def _repeated(loop: ast.For | ast.While) -> ast.stmt:
    """Return a loop over the same body, without the iterable, which is not read again."""
    if isinstance(loop, ast.For):
        return ast.For(loop.target, ast.Constant(None), loop.body, [])
    return ast.While(loop.test, loop.body, [])


def _returns(statement: ast.stmt) -> bool:
    return any(isinstance(node, ast.Return) for node in inside([statement]))


def _always_returns(block: Sequence[ast.stmt]) -> bool:
    if not block:
        return False
    last = block[-1]
    if isinstance(last, ast.If):
        return _always_returns(last.body) and _always_returns(last.orelse)
    return isinstance(last, (ast.Return, ast.Raise))


def _completed(
    choice: ast.If, rest: list[ast.stmt]
) -> tuple[list[ast.stmt], list[ast.stmt]] | None:
    """Return both sides of an ``if`` with the statements after it; ``None`` if both need them."""
    sides = (choice.body, choice.orelse)
    open_sides = [not _always_returns(side) for side in sides]
    if all(open_sides) and rest:
        return None
    body, orelse = ([*side, *rest] if more else list(side) for side, more in zip(sides, open_sides))
    return body, deepcopy(orelse)
