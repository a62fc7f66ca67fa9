"""Kernels that run the loops of the user's source, without a schedule."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from schedlang.errors import BuildError, MissingNameError, explain
from schedlang.ir.accesses import loads, stores
from schedlang.ir.cover import check_finalised
from schedlang.ir.nest import Nest
from schedlang.ir.nodes import Block, Buffer, expressions, walk


@dataclass(frozen=True)
class LoopsOfSource:
    """The stand-in for the schedule of a kernel that runs the loops of the user's source.

    It prints as its loop ``nest``.
    """

    kernel: str
    nest: Nest = field(repr=False)
    outputs: tuple[Any, ...] = ()

    def __str__(self) -> str:
        return str(self.nest)

    def copy(self) -> LoopsOfSource:
        """Return this object, which nothing changes."""
        return self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise MissingNameError(
            explain(
                f".schedule.{name} of kernel {self.kernel}",
                "the kernel runs a serial loop of the source as it stands, without a schedule",
                "Look at its nest, print(kernel.loop_nest).",
            )
        )


def check_first_values(nest: Nest) -> None:
    """Raise :class:`~schedlang.errors.BuildError` unless outputs are written before they are read.

    The first statement that writes an output must write all its elements.
    """
    for output in nest.outputs:
        first = next((s for s in nest.body.stmts if _uses(s, output)), None)
        plain = [] if first is None else [s for s in stores(first) if output in s.stmt.buffers]
        if not plain or not check_finalised(output, plain):
            raise BuildError(
                f"sl.build of {nest.name}: {output.name} has elements without a first value"
            )


def _uses(stmt: Any, buffer: Buffer) -> bool:
    return any(
        buffer in getattr(s, "buffers", ())
        or any(x.buffer is buffer for x in loads(expressions(s)))
        for s, _ in walk(Block((stmt,)))
    )
