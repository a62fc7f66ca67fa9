"""Functions with parallel loops as numba compiles them: their loops are calls of an intrinsic.

The file of a kernel has ``for i in prange(n): f(int64(i), A, B)``, which numba compiles by its pass
for parallel loops. That pass makes three functions of a loop, and LLVM optimizes each of them
together
with ``f``: it takes most of the time of compiling a parallel kernel. What is printed here stands in
place of such a function, line by line, and calls the intrinsics of
:mod:`schedlang.runtime.numba_parallel`. Loops of any other form are left to numba.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from schedlang.codegen.listing import AS_TEAM, PARALLEL_FOR, TEAM_FOR, Launch, Line
from schedlang.codegen.numba_printer import NumbaPrinter
from schedlang.codegen.numba_source import INDENT
from schedlang.machine.nest import MachineNest
from schedlang.machine.nodes import Body, Cast, For, Function, Run, Stmt
from schedlang.machine.walks import walk

# what the name of what a team runs begins with
RUN_BY = "__by_team_"
# the parameters of what a team runs, before its own: the team, and the number of the thread
MEMBER = ("__team", "__thread")


def launches(
    nest: MachineNest, functions: Sequence[Sequence[Line]], lines: Sequence[Line]
) -> tuple[Launch, ...]:
    """Return the functions of ``nest`` whose parallel loops are launched.

    ``functions`` are the lines of each function in the file of these ``lines``.
    """
    launching = [
        (f, part) for f, part in zip(nest.functions, functions) if len(part) > 1 and _launches(f)
    ]
    if not launching:
        return ()
    numbers = {id(line): number for number, line in enumerate(lines, 1)}
    return tuple(_launch(nest, function, numbers[id(part[-1])]) for function, part in launching)


def _launches(function: Function) -> bool:
    """Return whether a function has parallel loops, and each of them is a call alone."""
    return function.parallel and all(
        loop.from_zero and len(loop.body) == 1 and _is_iteration(loop.body[0], loop)
        for loop in _parallel(function.body)
    )


def _is_iteration(stmt: Stmt, loop: For) -> bool:
    first = stmt.args[0] if isinstance(stmt, Run) and stmt.args else None
    return isinstance(first, Cast) and first.a is loop.index


def _parallel(body: Body) -> Iterator[For]:
    return (stmt for stmt, _ in walk(body) if isinstance(stmt, For) and stmt.parallel)


def _launch(nest: MachineNest, function: Function, last: int) -> Launch:
    """Return the launch of a function, whose last line in the file is given.

    If a loop around has parallel loops, the threads start once, as a team.
    """
    serial = (s for s, _ in walk(function.body) if isinstance(s, For) and not s.parallel)
    closely = any(any(_parallel(loop.body)) for loop in serial)
    printer = _LaunchPrinter(nest, (TEAM_FOR, *MEMBER) if closely else (PARALLEL_FOR,))
    body = [line.text for line in printer.body(function.body)]
    name, parameters = function.name, [p.name for p in function.parameters]
    first = last - len(body)
    if not closely:
        return Launch(name, first, _defined(name, parameters, body))
    team = f"{RUN_BY}{name}"
    by_team = _defined(team, [*MEMBER, *parameters], body)
    call = f"{INDENT}{AS_TEAM}({', '.join([team, *parameters])})"
    return Launch(name, first, _defined(name, parameters, [call]), team, by_team)


def _defined(name: str, parameters: Sequence[str], body: Sequence[str]) -> str:
    return "\n".join([f"def {name}({', '.join(parameters)}):", *body])


class _LaunchPrinter(NumbaPrinter):
    """Printer of parallel loops as calls, which begin with the names ``launch``."""

    def __init__(self, nest: MachineNest, launch: Sequence[str]) -> None:
        super().__init__(nest.texts)
        self.name, *self.first = launch

    def loop(self, stmt: For, depth: int) -> list[Line]:
        if not stmt.parallel:
            return super().loop(stmt, depth)
        (run,) = stmt.body
        assert isinstance(run, Run)
        rest = (self.argument(a) for a in run.args[1:])
        operands = [*self.first, run.function, self(stmt.stop), str(stmt.step), *rest]
        # the call in the loop has a line of its own in the file
        return [Line(f"{INDENT * depth}{self.name}({', '.join(operands)})"), Line("")]
