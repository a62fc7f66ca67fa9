"""The lines of a random NumPy program, as data that can be made smaller."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Union


@dataclass
class Block:
    """The line of a loop or a branch, and what stands in it."""

    head: str
    body: list[Node] = field(default_factory=list)


Node = Union[str, Block]


@dataclass
class Program:
    """A function ``program`` of inputs, which ``kinds`` describe (``program_inputs.made``)."""

    kinds: dict[str, str]
    body: list[Node]
    returned: list[str]
    early: str = ""

    @property
    def source(self) -> str:
        lines = [f"def program({', '.join(self.kinds)}):", *lines_of(self.body, 1)]
        if self.returned:
            lines.append(f"    return {', '.join(self.returned)}")
        return "\n".join(lines) + "\n"


def lines_of(nodes: list[Node], depth: int) -> Iterator[str]:
    for node in nodes:
        head = node if isinstance(node, str) else node.head
        yield "    " * depth + head
        if isinstance(node, Block):
            yield from lines_of(node.body or ["pass"], depth + 1)
