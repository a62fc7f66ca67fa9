"""A trampoline: recursion without the call stack, by generators that yield their calls."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

Task = Generator[Any, Any, Any]


def run(task: Task) -> Any:
    """Run ``task`` and return its value.

    Each generator that it yields is run as well, and its value is sent back.
    """
    waiting: list[Task] = []
    value: Any = None
    while True:
        try:
            child = task.send(value)
        except StopIteration as stop:
            value = stop.value
            if not waiting:
                return value
            task = waiting.pop()
        else:
            waiting.append(task)
            task, value = child, None
