"""The names in the code of a traced function: global values, closures, and their attributes."""

from __future__ import annotations

import builtins
import dis
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial
from inspect import getattr_static
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

# the packages of libraries: their functions are not the user's
LIBRARIES = ("schedlang", "numpy", "random", "secrets")
# the most functions whose code is read
_MOST_FUNCTIONS = 200


@dataclass(frozen=True)
class Use:
    """A line of a function that names ``value``; ``bare`` if it calls that without arguments."""

    code: CodeType
    line: int
    value: Any
    bare: bool


@dataclass(frozen=True)
class Uses:
    """The names in the code of functions, and of the functions that these name in turn.

    ``assigned`` are the global names and attributes of modules that it assigns, each with the names
    of its module, and ``iterators`` those from before a loop or an ``if`` that it can reach, by
    their ``id``.
    """

    uses: list[Use] = field(default_factory=list)
    assigned: list[tuple[dict[str, Any], str]] = field(default_factory=list)
    iterators: dict[int, Any] = field(default_factory=dict)

    @cached_property
    def values(self) -> list[Any]:
        """The values of the user's that may change."""
        mutable = (list, dict, set, np.ndarray, type(os.environ))
        return [
            use.value
            for use in self.uses
            if isinstance(use.value, mutable)
            or is_of_ctypes(use.value)
            or not is_plainly_of_library(use.value)
        ]


def uses_of(values: Iterable[Any]) -> Uses:
    """Return what the code of functions names, also of those that it names in turn."""
    uses: list[Use] = []
    assigned: list[tuple[dict[str, Any], str]] = []
    visited: set[CodeType] = set()
    waiting = [f for value in values for f in _functions(value)]
    while waiting and len(visited) < _MOST_FUNCTIONS:
        function = waiting.pop(0)
        if function.__code__ in visited or is_library(function):
            continue
        cells = zip(function.__code__.co_freevars, function.__closure__ or ())
        names = {**vars(builtins), **function.__globals__, **_contents(cells)}
        assigned += [(function.__globals__, name) for name in _globals_of(function.__code__)]
        for use in _uses_in(function.__code__, names, visited, assigned):
            uses.append(use)
            waiting += _functions(use.value)
    return Uses(uses, assigned)


def is_of_user(value: Any) -> bool:
    """Return whether a function or a class is of the user's code, and of no known library."""
    package = str(getattr(value, "__module__", "")).partition(".")[0]
    return package not in LIBRARIES and package not in sys.stdlib_module_names


def is_of_ctypes(value: Any) -> bool:
    """Return whether a value is storage of :mod:`ctypes`: a number, an array or a structure."""
    kinds = type(value).__mro__
    return len(kinds) > 1 and kinds[-2].__module__ == "_ctypes"


def is_plainly_of_library(value: Any) -> bool:
    """Return whether a value is a module, or of a class or a function of a library."""
    if isinstance(value, ModuleType):
        return True
    return not is_of_user(value if isinstance(value, (FunctionType, type)) else type(value))


def _globals_of(code: CodeType) -> Iterator[str]:
    """Yield the global names that code assigns, and code in it."""
    stores = (dis.opmap["STORE_GLOBAL"], dis.opmap["DELETE_GLOBAL"])
    if any(op in stores for op in code.co_code[::2]):
        steps = dis.get_instructions(code)
        yield from {s.argval for s in steps if s.opname in ("STORE_GLOBAL", "DELETE_GLOBAL")}
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _globals_of(constant)


def is_library(function: FunctionType) -> bool:
    return str(function.__module__).partition(".")[0] in LIBRARIES


def _contents(cells: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    contents = {}
    for name, cell in cells:
        try:
            contents[name] = cell.cell_contents
        except ValueError:
            # the function around did not assign this name yet
            continue
    return contents


def _functions(value: Any) -> list[FunctionType]:
    """Return the functions of Python that a call of ``value`` runs."""
    if isinstance(value, partial):
        return [f for v in (value.func, *value.args) for f in _functions(v)]
    if isinstance(value, (staticmethod, classmethod, MethodType)):
        return _functions(value.__func__)
    if isinstance(value, FunctionType):
        return [value]
    inner = attributes(value).get("__wrapped__")
    return _functions(inner) if isinstance(inner, FunctionType) else []


def _uses_in(
    code: CodeType,
    names: dict[str, Any],
    visited: set[CodeType],
    assigned: list[tuple[dict[str, Any], str]],
) -> Iterator[Use]:
    """Return what ``code`` reads by name, and attributes of that, as in ``np.random.rand``.

    Add the attributes of modules that it assigns to ``assigned``.
    """
    visited.add(code)
    value: Any = None
    line = code.co_firstlineno
    steps = [s for s in dis.get_instructions(code) if s.opname not in ("PRECALL", "PUSH_NULL")]
    for step, following in zip(steps, [*steps[1:], None]):
        line = _line_of(step) or line
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF"):
            value = names.get(step.argval)
        elif step.opname in ("LOAD_ATTR", "LOAD_METHOD"):
            value = _attribute(value, step.argval)
        elif step.opname == "IMPORT_NAME":
            value = sys.modules.get(step.argval)
        elif step.opname in ("STORE_ATTR", "DELETE_ATTR") and isinstance(value, ModuleType):
            assigned.append((vars(value), step.argval))
            value = None
        elif step.opname not in ("COPY", "DUP_TOP"):
            value = None
        after = "" if following is None else following.opname
        goes_on = after in ("LOAD_ATTR", "LOAD_METHOD")
        is_copy = step.opname in ("COPY", "DUP_TOP")
        if is_copy and isinstance(value, ModuleType) and following is not None and goes_on:
            # module.name += value
            assigned.append((vars(value), following.argval))
        if value is not None and not (goes_on and isinstance(value, ModuleType)):
            bare = after.startswith("CALL") and following is not None and following.argval == 0
            yield Use(code, line, value, bare)
    local = {*code.co_varnames, *code.co_cellvars}
    inner = {name: v for name, v in names.items() if name not in local}
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _uses_in(constant, inner, visited, assigned)


def _line_of(step: dis.Instruction) -> int | None:
    positions = getattr(step, "positions", None)
    if positions is not None and positions.lineno is not None:
        return int(positions.lineno)
    starts = step.starts_line
    return starts if isinstance(starts, int) and not isinstance(starts, bool) else None


def _attribute(value: Any, name: str) -> Any:
    """Return an attribute without running code of an object."""
    if isinstance(value, ModuleType):
        return vars(value).get(name)
    return None if value is None else getattr_static(value, name, None)


def attributes(value: Any) -> dict[str, Any]:
    """Return the attributes of an object itself."""
    try:
        return dict(vars(value))
    except TypeError:
        return {}
