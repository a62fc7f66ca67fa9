"""The source of a function as code that asks :mod:`schedlang.tracing.control` at each branch."""

from __future__ import annotations

import ast
import inspect
from types import CellType, CodeType, FunctionType
from typing import Any

from schedlang.parsing import parse_source
from schedlang.tracing.rewriting import CONTROL, PREFIX, rewrite_function
from schedlang.tracing.statements import lines_of

# functions that suspend themselves keep their own control flow
_SUSPENDED = (
    inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
    | inspect.CO_ITERABLE_COROUTINE
)  # fmt: skip


def from_source(function: FunctionType, control: Any) -> FunctionType | None:
    """Return ``function`` with its loops, branches and calls passed to ``control``.

    Its lines, its globals and its closure stay. Return ``None`` for a function whose source cannot
    be read, such as one typed at a prompt, for a lambda and for a generator.
    """
    code = function.__code__
    if code.co_flags & _SUSPENDED or CONTROL in code.co_freevars or code.co_name == "<lambda>":
        return None
    tree = _tree(code)
    if tree is None:
        return None
    new = _compiled(rewrite_function(tree), code)
    if new is None:
        return None
    cells = dict(zip(code.co_freevars, function.__closure__ or ()))
    cells[CONTROL] = CellType(control)
    closure = tuple(cells[name] for name in new.co_freevars)
    defaults = function.__defaults__
    rewritten = FunctionType(new, function.__globals__, function.__name__, defaults, closure)
    rewritten.__kwdefaults__ = function.__kwdefaults__
    rewritten.__qualname__, rewritten.__module__ = function.__qualname__, function.__module__
    return rewritten


def _tree(code: CodeType) -> ast.FunctionDef | None:
    """Return the definition of a function, at its own lines; ``None`` if it is not found."""
    lines, first = lines_of(code)
    text = "".join(lines)
    # a block around it keeps the columns of a method or of an inner function
    indented = text[:1].isspace()
    try:
        tree = parse_source(f"if 1:\n{text}" if indented else text, code.co_filename)
    except (SyntaxError, ValueError):
        return None
    ast.increment_lineno(tree, first - (2 if indented else 1))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == code.co_name:
            start = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            names = [a.arg for a in (*node.args.posonlyargs, *node.args.args)]
            if start == code.co_firstlineno and list(code.co_varnames[: len(names)]) == names:
                return node
    return None


def _compiled(tree: ast.FunctionDef, code: CodeType) -> CodeType | None:
    """Return the code of a definition with the free names of ``code``."""
    # a name of its own, so that the function's own name stays a name around it
    name, tree.name = tree.name, f"{PREFIX}function"
    tree.decorator_list = []
    tree.returns = None
    names = dict.fromkeys((*code.co_freevars, CONTROL))
    text = f"def _factory({', '.join(n for n in names if n != '__class__')}):\n pass"
    module = ast.parse(text)
    (factory,) = module.body
    assert isinstance(factory, ast.FunctionDef)
    factory.body = [tree]
    try:
        outer = compile(ast.fix_missing_locations(module), code.co_filename, "exec")
    except (SyntaxError, ValueError):
        return None
    inner = next(c for c in outer.co_consts if isinstance(c, CodeType))
    new = next(c for c in inner.co_consts if isinstance(c, CodeType) and c.co_name == tree.name)
    return new.replace(co_name=name)
