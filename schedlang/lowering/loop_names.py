"""Names of the loops of a nest, and comments on its stages, for the printer.

The names are the user's, made unique where two collide.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Set

from schedlang.compute.tensor import ComputeOp, Tensor
from schedlang.expr.nodes import Axis
from schedlang.ir.nodes import Block, For, Stmt, bound, held_statements
from schedlang.ir.rewrite import storage
from schedlang.state.state import State


def loop_names(root: Block, given: Iterable[str] = ()) -> dict[Axis, str]:
    """Return the name of each loop variable.

    If a name is already the name of an enclosing loop, of an allocation or in ``given``, the name
    of its stage is put before it. ``given`` are the names of the arguments and sizes.
    """
    names: dict[Axis, str] = {}
    other = {*given, *(b.name for b in storage(root))}
    stack: list[tuple[Stmt, tuple[Axis, ...]]] = [(root, ())]
    while stack:
        outer, around = stack.pop()
        for stmt in reversed(held_statements(outer)):
            if isinstance(stmt, For):
                _name(names, stmt, around, other)
            stack.append((stmt, (*around, *bound(stmt))))
    return names


def _name(names: dict[Axis, str], loop: For, around: tuple[Axis, ...], other: Set[str]) -> None:
    others = other | {names[a] for a in around if a is not loop.axis}
    name = names.get(loop.axis, loop.axis.name)
    if name in others:
        name = f"{loop.stage}.{loop.axis.name}"
    count = 0
    base = name
    while name in others:
        count += 1
        name = f"{base}_{count}"
    names[loop.axis] = name


def stage_remarks(
    state: State, inline: Container[Tensor]
) -> dict[str | Axis, tuple[str, ...]]:
    """Return the remarks on each stage with loops, by its name.

    A stage has the remarks of the stages that are inlined into it, since their work is in its
    loops.
    """
    if not any(_own(stage.op) for stage in state.stages.values()):
        return {}
    passed_on: dict[Tensor, tuple[str, ...]] = {}
    remarks: dict[str | Axis, tuple[str, ...]] = {}
    for name, stage in state.stages.items():
        read = (text for t in stage.op.input_tensors for text in passed_on.get(t, ()))
        texts = tuple(dict.fromkeys([*read, *_own(stage.op)]))
        if stage.outputs[0] in inline:
            passed_on[stage.outputs[0]] = texts
        elif texts:
            remarks[name] = texts
    return remarks


def _own(op: object) -> tuple[str, ...]:
    return op.remarks if isinstance(op, ComputeOp) else ()
