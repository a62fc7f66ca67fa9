"""The stage of each statement: the stage of the first element that needs what it computes."""

from __future__ import annotations

from collections.abc import Mapping

from schedlang.machine.nest import MachineNest
from schedlang.machine.nodes import Alloc, Array, Body, Invoke, Let, Prefetch, Reg, Stmt, Store
from schedlang.machine.walks import bodies, defined_names, parts, values, walk


def stages(nest: MachineNest) -> dict[Stmt, str]:
    """Return the stage of every statement that computes, loads or stores.

    A store has the stage whose elements its array holds. A register's value has the stage of the
    statement that uses it first; storage has the stage that is stored there.
    """
    stored = _stored(nest)
    stage_of: dict[Stmt, str] = {}
    for function in nest.functions:
        _backwards(function.body, {}, stored, stage_of)
    return stage_of


def _stored(nest: MachineNest) -> dict[str, str]:
    """Return the stage that each array's elements are computed by, by the array's name."""
    stage_of: dict[str, str] = {}
    for function in nest.functions:
        for stmt, _ in walk(function.body):
            if isinstance(stmt, Store):
                stage = stmt.stage or _name(stmt.array)
                if stmt.stage or stmt.array.name not in stage_of:
                    stage_of[stmt.array.name] = stage
            elif isinstance(stmt, Invoke):
                for array in stmt.given[stmt.inputs :]:
                    stage_of.setdefault(array.name, _name(array))
    return stage_of


def _name(array: Array) -> str:
    """Return the stage that an array belongs to; the outputs of a tuple belong to one."""
    tensor = array.buffer.tensor
    return array.buffer.name if tensor is None else tensor.op.name


def _backwards(
    body: Body, uses: dict[str, str], stored: Mapping[str, str], stage_of: dict[Stmt, str]
) -> str:
    """Note the stages of ``body``, last statement first; return the stage of its first statement.

    ``uses`` maps a register to the stage of its first use so far.
    """
    first = ""
    for stmt in reversed(body):
        if bodies(stmt):
            stage = ""
            for side in reversed(bodies(stmt)):
                stage = _backwards(side, uses, stored, stage_of) or stage
            for result in defined_names(stmt):
                stage = uses.get(result.name, stage)
        elif isinstance(stmt, Store):
            stage = stmt.stage or stored[stmt.array.name]
        elif isinstance(stmt, Invoke):
            stage = stored[stmt.given[stmt.inputs].name]
        elif isinstance(stmt, Let):
            stage = stmt.stage or uses.get(stmt.reg.name, first)
        elif isinstance(stmt, Alloc):
            stage = stored.get(stmt.array.name, "")
        elif isinstance(stmt, Prefetch):
            stage = first
        else:
            continue
        stage_of[stmt] = stage
        first = stage or first
        for root in values(stmt):
            for value in parts(root):
                if isinstance(value, Reg) and stage:
                    uses[value.name] = stage
    return first
