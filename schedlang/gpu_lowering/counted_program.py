"""The counters of a GPU program: by kernel, and beside the lines of its program when shown."""

from __future__ import annotations

from collections.abc import Mapping

from schedlang.gpu_lowering.counted_html import counters_html
from schedlang.gpu_lowering.counted_table import Lines, kernel_text
from schedlang.gpu_lowering.counters import Counters
from schedlang.gpu_lowering.ledger import Ledger
from schedlang.gpu_lowering.printer import launch_lines
from schedlang.gpu_lowering.program import Program
from schedlang.markup.bundle import InNotebooks


class KernelCounters(InNotebooks, dict[str, Counters]):
    """The counters of each kernel by its name; ``print`` shows them beside the program.

    A notebook shows the same as a table. ``lines`` has the lines of each kernel, each with its
    counters, or ``None``.
    """

    def __init__(self, ledgers: Mapping[str, Ledger], program: Program) -> None:
        super().__init__({name: ledger.total for name, ledger in ledgers.items()})
        self.lines: dict[str, Lines] = {}
        for launch in program.launches:
            ledger = ledgers[launch.name]
            head, *rest = launch_lines(program.nest, launch)
            self.lines[launch.name] = (
                (head[0], ledger.total),
                *((text, None if stmt is None else ledger.lines[stmt]) for text, stmt in rest),
            )

    def __str__(self) -> str:
        return "\n\n".join(kernel_text(lines, self[name]) for name, lines in self.lines.items())

    def _repr_html_(self) -> str:
        return counters_html(self, self.lines)
