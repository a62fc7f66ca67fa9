"""Python's syntax trees, which threads may ask for at the same time, and what text compiles to."""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator
from threading import Lock
from types import CodeType, FunctionType, ModuleType

_ONE_AT_A_TIME = Lock()


def parse_source(source: str, path: str = "<unknown>") -> ast.Module:
    """Return the tree of ``source``. Raise ``SyntaxError`` as :func:`ast.parse` raises it.

    >>> ast.unparse(parse_source("x=1"))
    'x = 1'
    """
    try:
        return ast.parse(source, path)
    except SystemError:
        # CPython 3.11 counts the depth of a tree for all threads together (its issue 106905);
        # other threads run inside of a tree only where garbage is collected
        with _ONE_AT_A_TIME:
            return _parsed_without_collection(source, path)


def _parsed_without_collection(source: str, path: str) -> ast.Module:
    if not gc.isenabled():
        return ast.parse(source, path)
    gc.disable()
    try:
        return ast.parse(source, path)
    finally:
        gc.enable()


def compiles_to(written: str, python: FunctionType) -> bool:
    """Return whether the text of a definition compiles to a function, whose file may have changed.

    >>> def half(x): return x / 2
    >>> compiles_to("def half(x): return x / 2", half)
    True
    >>> compiles_to("def half(x): return x / 3", half)
    False
    """
    definition = parse_source(written).body
    if python.__code__.co_freevars:
        around = parse_source(f"def around({', '.join(python.__code__.co_freevars)}): pass").body
        assert isinstance(around[0], ast.FunctionDef)
        around[0].body, definition = definition, around
    # Python compiles a call of a module's function otherwise if the file imports the module
    read = [n for n in python.__code__.co_names if n.isidentifier()]
    modules = [n for n in read if isinstance(python.__globals__.get(n), ModuleType)]
    imports = [parse_source(f"import {n}").body[0] for n in modules]
    for body in (definition, [*imports, *definition]):
        for code in codes(compile(ast.Module(body, []), "<text>", "exec")):
            if code.co_name == python.__name__ and _same_code(code, python.__code__):
                return True
    return False


def codes(code: CodeType) -> Iterator[CodeType]:
    """Yield a code object and the ones inside of it."""
    yield code
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from codes(const)


def _same_code(a: CodeType, b: CodeType) -> bool:
    fields = ("co_code", "co_names", "co_varnames", "co_freevars", "co_cellvars")
    if any(getattr(a, f) != getattr(b, f) for f in fields):
        return False
    pairs = list(zip(a.co_consts, b.co_consts))
    return len(a.co_consts) == len(b.co_consts) and all(
        _same_code(x, y)
        if isinstance(x, CodeType) and isinstance(y, CodeType)
        else (type(x), repr(x)) == (type(y), repr(y))
        for x, y in pairs
    )
