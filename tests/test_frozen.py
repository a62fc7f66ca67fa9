"""Values that say that they are frozen are: nothing writes into one after it is made."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import schedlang

PACKAGE = Path(schedlang.__file__).parent
# these write names into modules, and into what each thread has of its own
NO_VALUES = {
    "callable_module.py", "commands.py", "networks/device_launch.py", "runtime/numba_compiler.py",
}  # fmt: skip
# it keeps what a value has inside: a cached_property, or none, makes lowering 3% to 5% slower
CACHED = {"machine/walks.py"}

# what writes around a frozen class goes by one of these names
NAMES = "__setattr__", "__delattr__", "__setstate__", "__dict__", "vars"


def _is_dict(node: ast.expr) -> bool:
    """Return whether an expression is ``x.__dict__`` or ``vars(x)``."""
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id == "vars"
    return isinstance(node, ast.Attribute) and node.attr == "__dict__"


def writes(text: str) -> list[int]:
    """Return the lines of a source that write around a frozen class."""
    lines: list[int] = []
    if not any(name in text for name in NAMES):
        # most files need not be parsed
        return lines
    for node in ast.walk(ast.parse(text)):
        name = node.attr if isinstance(node, ast.Attribute) else ""
        inner = node.value if isinstance(node, (ast.Attribute, ast.Subscript)) else None
        if name in ("__setattr__", "__delattr__", "__setstate__") and isinstance(inner, ast.Name):
            lines.append(inner.lineno)
        elif inner is not None and _is_dict(inner):
            stored = isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load)
            if stored or name in ("update", "setdefault", "pop", "popitem", "clear"):
                lines.append(inner.lineno)
    return lines


@pytest.mark.parametrize("text, count", [
    ("object.__setattr__(a, 'b', 1)", 1), ("vars(a).update(b=1)", 1), ("vars(a)['b'] = 1", 1),
    ("a.__dict__['b'] = 1", 1), ("a.__dict__.update(b=1)", 1), ("del a.__dict__['b']", 1),
    ("vars(a)['b']", 0), ("'b' in a.__dict__", 0), ("vars(a).get('b')", 0), ("a.b = 1", 0),
])  # fmt: skip
def test_writes(text: str, count: int) -> None:
    assert len(writes(text)) == count


def test_nothing_writes_into_a_frozen_value() -> None:
    found = {
        f"{path.relative_to(PACKAGE).as_posix()}:{line}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for line in writes(path.read_text(encoding="utf-8"))
        if path.relative_to(PACKAGE).as_posix() not in NO_VALUES | CACHED
    }
    assert not found, f"make the value with its fields, or its class not frozen: {sorted(found)}"
