"""The registers counted in a machine nest are those that the warnings about tiles predict."""

from __future__ import annotations

import pytest

import schedlang as sl
from schedlang.diagnostics.spills import spills
from schedlang.diagnostics.tiles import need, tile_of, updates
from schedlang.lowering.lower import lower_state
from schedlang.machine.loops.job import LoopJob
from schedlang.machine.lower import machine_nest
from schedlang.machine.nodes import Type
from tests.graphs import product
from tests.vector_registers import pressures, taken


def counted(rows: int, columns: int, target: sl.Target) -> tuple[int, list[int], list[str]]:
    """Return the registers that a tile needs, those of the machine nest, and the warnings."""
    _, _, C = product(rows * 4, columns * 4, 24)
    s = sl.schedule(C)
    _, _, ii, ji = s[C].tile(*C.op.axis, rows, columns)
    s[C].reorder(C.op.reduce_axis[0], ii, ji)
    s[C].unroll(ii)
    s[C].vectorize(ji)
    nest = lower_state(s.state)
    tiles = [update for update in updates(nest) if tile_of(update, target) is not None]
    made = machine_nest(nest, target, "C", [])
    found = [p.registers for f in made.functions for p in pressures(f, target)]
    return sum(need(tiles[0], LoopJob(nest, target))), found, spills(nest, target)


@pytest.mark.parametrize("vector_bytes", [32, 64])
@pytest.mark.parametrize(("rows", "columns"), [(1, 16), (4, 8), (4, 16), (6, 16), (2, 32)])
def test_a_tile_that_fits(vector_bytes: int, rows: int, columns: int) -> None:
    target = sl.Target("cpu", vector_bytes=vector_bytes)
    needed, found, warnings = counted(rows, columns, target)
    assert found == [needed] and not warnings
    assert needed <= target.vector_registers


def test_sums_that_do_not_fit_take_no_registers() -> None:
    target = sl.Target("cpu", vector_bytes=32)
    needed, found, warnings = counted(12, 32, target)
    assert needed > target.vector_registers >= max(found) and len(warnings) == 1


@pytest.mark.parametrize(("lanes", "registers"), [(0, 0), (8, 1), (16, 2), (12, 2), (7, 3)])
def test_the_registers_of_a_vector(lanes: int, registers: int) -> None:
    assert taken(Type("float32", lanes), sl.Target("cpu", vector_bytes=32)) == registers
