"""A trampoline: recursion without the call stack, by generators that yield their calls."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

Task = Generator[Any, Any, Any]


def run(task: Task) -> Any:
    """Run ``task`` and return its value.

    Each generator that it yields is run as well, and its value is sent back.
    """
    stack = [task]
    value: Any = None
    while stack:
        try:
            child = stack[-1].send(value)
        except StopIteration as stop:
            stack.pop()
            value = stop.value
        else:
            stack.append(child)
            value = None
    return value
