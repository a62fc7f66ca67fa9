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
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from schedlang.parsing import codes, compiles_to

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


def _numpy_number(value: Any) -> str:
    """Return the text of a number of NumPy, by its dtype; empty if it is something else."""
    kinds = {np.dtype(code).type for code in "bhilqBHILQefd"}
    if type(value) not in kinds or not np.isfinite(value):
        return ""
    return f"np.{value.dtype.name}({value})"


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
        elif number := _numpy_number(value):
            self.need(function, "np", np)
            self.constants.append(f"{name} = {number}")
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
    if not compiles_to(written, python):
        raise Unreadable("its source is not what was compiled: it has changed, or is decorated")
    return written


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
        for code in codes(python.__code__)
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
    # only a function of numba loads it
    from schedlang.runtime.numba_internals import has_own_types

    given = dict(getattr(dispatcher, "targetoptions", {}))
    if getattr(dispatcher, "locals", None):
        raise Unreadable(f"{dispatcher.__name__} is compiled with locals=")
    if not has_own_types(dispatcher):
        raise Unreadable(f"{dispatcher.__name__} has a signature that converts its arguments")
    listed = []
    for option in OPTIONS:
        value = given.get(option)
        if value in (None, False) or (option == "inline" and value == "never"):
            continue
        # a set prints in another order in each process
        text = f"{{{', '.join(map(repr, sorted(value)))}}}" if type(value) is set else repr(value)
        try:
            ast.literal_eval(text)
        except (ValueError, SyntaxError):
            raise Unreadable(f"it is compiled with {option}={text}") from None
        listed.append(f"{option}={text}")
    return f"@njit({', '.join(listed)})\n" if listed else "@njit\n"


__all__ = ["Unreadable", "python_text"]
