"""The text of a function of Python with all that it needs, so that it defines it anywhere."""

from __future__ import annotations

import ast
import builtins
import dis
import inspect
import math
import sys
from collections.abc import Iterator, Mapping
from textwrap import dedent
from types import CodeType, FunctionType, ModuleType
from typing import Any

# packages that a file may import, and those whose functions a text may name
PACKAGES = ("math", "numpy", "numba")
# options of numba.njit that a text may have; how numba keeps machine code belongs to a process
OPTIONS = ("boundscheck", "error_model", "fastmath", "forceinline", "inline", "nogil", "parallel")


class Unreadable(Exception):
    """Raised with a phrase that says why a function has no text of its own."""


def python_text(function: Any) -> str:
    """Return statements that define ``function``, a dispatcher of numba or a function of Python.

    They import from NumPy, numba and ``math`` alone. Raise :class:`Unreadable` if it needs anything
    else, and if its source cannot be read.

    >>> try:
    ...     python_text(lambda a: a)
    ... except Unreadable as why:
    ...     print(why)
    it is a lambda, whose text is part of another statement
    """
    writer = _Writer()
    writer.define(function)
    imports, rest = "\n".join(sorted(writer.imports)), "\n".join(writer.constants)
    return "\n\n\n".join(part for part in (imports, rest, *writer.functions) if part)


def _is_plain(value: Any) -> bool:
    """Return whether the text of a value means it."""
    return type(value) in (bool, int, str) or (type(value) is float and math.isfinite(value))


class _Writer:
    """Writer of functions, callees first, and of the names that they read."""

    def __init__(self) -> None:
        self.imports: dict[str, None] = {}
        self.constants: list[str] = []
        self.functions: list[str] = []
        self.known: dict[str, Any] = {}

    def define(self, function: Any) -> None:
        """Append the definition of a function, after what it needs."""
        python = getattr(function, "py_func", function)
        if not isinstance(python, FunctionType):
            raise Unreadable(f"it is {type(function).__name__}, which has no source")
        name = python.__name__
        if not name.isidentifier():
            raise Unreadable("it is a lambda, whose text is part of another statement")
        text = _definition(python)
        self.know(name, function)
        for needed, value in _needed(python):
            self.need(name, needed, value)
        if python is not function:
            self.imports["from numba import njit"] = None
            text = _decorator(function) + text
        self.functions.append(text)

    def know(self, name: str, value: Any) -> bool:
        """Return whether a name is new; raise if it has another meaning in another function."""
        if name in self.known:
            earlier = self.known[name]
            if earlier is not value and not (_is_plain(value) and repr(earlier) == repr(value)):
                raise Unreadable(f"two of its functions have a {name} of their own")
            return False
        self.known[name] = value
        return True

    def need(self, function: str, name: str, value: Any) -> None:
        """Define a name that a function reads."""
        if not self.know(name, value):
            return
        if isinstance(value, ModuleType) and value.__name__.partition(".")[0] in PACKAGES:
            as_name = f" as {name}" if value.__name__ != name else ""
            self.imports[f"import {value.__name__}{as_name}"] = None
        elif (imported := _import_of(name, value)) is not None:
            self.imports[imported] = None
        elif value is None or _is_plain(value):
            self.constants.append(f"{name} = {value!r}")
        elif type(value) is tuple and all(map(_is_plain, value)):
            self.constants.append(f"{name} = {value!r}")
        elif getattr(getattr(value, "py_func", value), "__name__", "") == name:
            self.define(value)
        else:
            kind = type(value).__name__
            raise Unreadable(f"{function} reads {name} of its program, which is {kind}")


def _definition(python: FunctionType) -> str:
    """Return the source of a function without its decorators and annotations."""
    try:
        text = dedent(inspect.getsource(python))
        (node,) = ast.parse(text).body
    except (OSError, TypeError, SyntaxError, ValueError):
        raise Unreadable("its source cannot be read") from None
    if not isinstance(node, ast.FunctionDef) or node.name != python.__name__:
        raise Unreadable("its source cannot be read")
    for default in (*node.args.defaults, *filter(None, node.args.kw_defaults)):
        if not isinstance(default, ast.Constant):
            raise Unreadable(f"{node.name} has a parameter whose default is not a number")
    parameters = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    docstring = ast.get_docstring(node, clean=False)
    if node.returns or any(p.annotation for p in parameters):
        node.returns = None
        for parameter in parameters:
            parameter.annotation = None
        node.decorator_list = []
        written = ast.unparse(node)
    else:
        written = "\n".join(text.splitlines()[node.lineno - 1 :])
    for part in ast.walk(node):
        if not isinstance(part, ast.Constant) or not isinstance(part.value, (str, bytes)):
            continue
        if part.value != docstring and (part.end_lineno or 0) > part.lineno:
            raise Unreadable(f"{node.name} has a text of several lines")
    _check_same(python, written)
    return written


def _check_same(python: FunctionType, written: str) -> None:
    """Raise unless ``written`` compiles to the code of a function, whose file may have changed."""
    around = ast.parse(f"def around({', '.join(python.__code__.co_freevars)}): pass").body
    assert isinstance(around[0], ast.FunctionDef)
    around[0].body = ast.parse(written).body
    # Python compiles a call of a module's function otherwise if the file imports the module
    read = [n for n in python.__code__.co_names if n.isidentifier()]
    modules = [n for n in read if isinstance(python.__globals__.get(n), ModuleType)]
    imports = [ast.parse(f"import {n}").body[0] for n in modules]
    for body in (around, [*imports, *around]):
        for code in _codes(compile(ast.Module(body, []), "<text>", "exec")):
            if code.co_name == python.__name__ and _same_code(code, python.__code__):
                return
    raise Unreadable("its source is not what was compiled: it has changed, or is decorated")


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from _codes(const)


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


def _needed(python: FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield the names of its program that a function reads, with their values."""
    for name, cell in zip(python.__code__.co_freevars, python.__closure__ or ()):
        try:
            yield name, cell.cell_contents
        except ValueError:
            raise Unreadable(f"it reads {name}, which has no value yet") from None
    space: Mapping[str, Any] = python.__globals__
    names = {
        step.argval: None
        for code in _codes(python.__code__)
        for step in dis.get_instructions(code)
        if step.opname == "LOAD_GLOBAL"
    }
    for name in names:
        if name in space:
            yield name, space[name]
        elif not hasattr(builtins, name):
            raise Unreadable(f"it reads {name}, which has no value yet")


def _import_of(name: str, value: Any) -> str | None:
    """Return the statement that imports a function or a type of one of the packages."""
    if not callable(value):
        return None
    own = str(getattr(value, "__name__", ""))
    named = str(getattr(value, "__module__", None) or "")
    for module in (named, *PACKAGES):
        known = sys.modules.get(module) if module.partition(".")[0] in PACKAGES else None
        for attribute in (own, name):
            if attribute.isidentifier() and getattr(known, attribute, None) is value:
                as_name = f" as {name}" if attribute != name else ""
                return f"from {module} import {attribute}{as_name}"
    return None


def _decorator(dispatcher: Any) -> str:
    """Return the line with ``njit`` and the options that a function was compiled with."""
    given = dict(getattr(dispatcher, "targetoptions", {}))
    listed = []
    for option in OPTIONS:
        value = given.get(option)
        if value in (None, False) or (option == "inline" and value == "never"):
            continue
        try:
            ast.literal_eval(repr(value))
        except (ValueError, SyntaxError):
            raise Unreadable(f"it is compiled with {option}={value!r}") from None
        listed.append(f"{option}={value!r}")
    return f"@njit({', '.join(listed)})\n" if listed else "@njit\n"


__all__ = ["Unreadable", "python_text"]
