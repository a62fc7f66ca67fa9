"""Names for the loops and buffers of a nest: the user's, made unique where they meet."""

from __future__ import annotations

from schedlang.expr.nodes import Axis
from schedlang.ir.nodes import Block, For, If


def loop_names(root: Block) -> dict[Axis, str]:
    """Return a name a loop variable; one that meets an equal name around it gains its stage's."""
    names: dict[Axis, str] = {}
    stack: list[tuple[Block, tuple[Axis, ...]]] = [(root, ())]
    while stack:
        block, around = stack.pop()
        for stmt in reversed(block.stmts):
            if isinstance(stmt, If):
                stack.append((stmt.body, around))
            elif isinstance(stmt, For):
                _name(names, stmt, around)
                stack.append((stmt.body, (*around, stmt.axis)))
    return names


def _name(names: dict[Axis, str], loop: For, around: tuple[Axis, ...]) -> None:
    taken = {names[a] for a in around if a is not loop.axis}
    name = names.get(loop.axis, loop.axis.name)
    if name in taken:
        name = f"{loop.stage}.{loop.axis.name}"
    count = 0
    base = name
    while name in taken:
        count += 1
        name = f"{base}_{count}"
    names[loop.axis] = name
