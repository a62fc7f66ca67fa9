"""Check of the pass that counts: its tally agrees with what the interpreter saw."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from schedlang.counting.instrument import instrument
from schedlang.counting.regions import Runs
from schedlang.counting.rows import Instrumented
from schedlang.machine.nest import MachineNest
from schedlang.machine.verify import verify_machine
from tests.machine_interpreter import Work, interpret_machine


def check_counts(nest: MachineNest, args: Sequence[Any], work: Work) -> None:
    """Raise if the instrumented ``nest`` is wrong, or counts other accesses than ``work``.

    ``args`` are those of the interpreter; the arrays are copied.
    """
    made = instrument(nest, True)
    verify_machine(made.nest)
    given = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    tally = np.zeros(made.cells, np.int64)
    interpret_machine(made.nest, [*given, tally, np.zeros(1, np.int64)])
    for kinds, seen in ((("load",), work.loads), (("store", "stream"), work.stores)):
        found = elements(made, tally, kinds)
        wanted = {name: n for name, n in seen.items() if n}
        assert found == wanted, f"counted {kinds[0]}s {found}, but there are {wanted}"
    for before, after in zip(args, given):
        if isinstance(before, np.ndarray):
            np.testing.assert_array_equal(before.view("uint8"), after.view("uint8"))


def elements(made: Instrumented, tally: np.ndarray, kinds: Sequence[str]) -> dict[str, int]:
    """Return the elements that accesses of these kinds reach in each array, by its name."""
    runs, found = Runs(made.calls, tally), Counter[str]()
    for access in made.sites:
        if access.kind in kinds:
            counted = access.active >= 0
            each = runs.at(access.active) if counted else access.elements * runs(access.region)
            found[access.array.name] += each
    return {name: n for name, n in found.items() if n}
