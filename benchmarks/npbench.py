"""Compare NPBench's programs under ``sl.jit`` with NumPy, numba and ``torch.compile``.

    python -m benchmarks.npbench [--only PATTERN] [--json FILE]

numba compiles the same function with ``njit(parallel=True)``, and ``torch.compile`` takes it as it
is. Programs that ``sl.jit`` does not run as they stand have up to three changed lines, which
``computations/npbench.py`` lists; their peers run the original. ``of NumPy`` and ``of numba`` are
their times over the row's own. OpenBLAS's threads sleep as soon as a call ends, since
idle ones that spin would take a core from the next implementation.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from types import FunctionType
from typing import Any

os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")

import numpy as np  # noqa: E402

import schedlang as sl  # noqa: E402
from benchmarks.computations.npbench import Program, programs  # noqa: E402
from benchmarks.harness import Case, Column, Row, Unavailable, main  # noqa: E402


def arguments(program: Program) -> tuple[Any, ...]:
    """Return the program's arguments, the same in each call."""
    return program.inputs(np.random.default_rng(7))


def results(function: Callable[..., Any], program: Program) -> list[np.ndarray]:
    """Return what a function returns and what it writes, for new arguments."""
    given = arguments(program)
    returned = function(*given)
    made = () if returned is None else returned if isinstance(returned, tuple) else (returned,)
    return [np.asarray(a) for a in (*made, *(g for g in given if isinstance(g, np.ndarray)))]


def agrees(function: Callable[..., Any], program: Program) -> bool:
    """Return whether a function computes what the program does under NumPy."""
    pairs = zip(results(function, program), results(program.function, program))
    return all(a.shape == b.shape and np.allclose(a, b, rtol=1e-4, atol=1e-6) for a, b in pairs)


def with_numba(program: Program) -> Callable[..., Any]:
    """Return the program compiled by numba; raise ``Unavailable`` if it does not compile."""
    import numba

    from benchmarks.computations import npbench

    # the functions that a program calls are compiled too
    helpers = {
        name: numba.njit(f) for name, f in vars(npbench).items()
        if name in ("accelerations", "energies", "relu", "softmax", "spread")
    }  # fmt: skip
    function = program.function
    names = {**function.__globals__, **helpers}
    source = FunctionType(function.__code__, names, program.name)
    compiled: Callable[..., Any] = numba.njit(parallel=True)(source)
    try:
        compiled(*arguments(program))
    except Exception as error:  # noqa: BLE001 - its compiler raises assertions, too
        reason = str(error).strip().splitlines()[:1] or [type(error).__name__]
        raise Unavailable(f"numba: {reason[0]}") from None
    return compiled


def with_torch(program: Program) -> Callable[..., Any]:
    """Return the program compiled by ``torch.compile``; raise ``Unavailable`` if it is refused."""
    try:
        import torch
    except ImportError:
        raise Unavailable("torch is not installed") from None
    compiled: Callable[..., Any] = torch.compile(program.function)
    try:
        compiled(*arguments(program))
    except Exception as error:  # noqa: BLE001 - any error of its compiler means that it is refused
        raise Unavailable(f"torch.compile: {type(error).__name__}") from None
    return compiled


def with_jit(program: Program) -> Callable[..., Any]:
    """Return the program under ``sl.jit``."""
    return sl.jit(program.jitted or program.function)


IMPLEMENTATIONS: dict[str, Callable[[Program], Callable[..., Any]]] = {
    "NumPy": lambda program: program.function,
    "numba njit(parallel=True)": with_numba,
    "torch.compile": with_torch,
    "sl.jit": with_jit,
}


def cases() -> Iterator[Case]:
    """Return the cases, program by program."""
    for program in programs():
        for name, make in IMPLEMENTATIONS.items():
            yield _case(program, name, make)


def _case(
    program: Program, name: str, make: Callable[[Program], Callable[..., Any]]
) -> Case:
    made: list[Callable[..., Any]] = []

    def prepare() -> Callable[[], object]:
        function = make(program)
        made.append(function)
        given = arguments(program)
        return lambda: function(*given)

    facts = {"changed": list(program.changed)} if name == "sl.jit" else {}
    return Case(
        program.name, name, prepare, check=lambda: agrees(made[0], program), facts=facts
    )


def _over(peer: str) -> Callable[[Row, Sequence[Row]], str]:
    def text(row: Row, rows: Sequence[Row]) -> str:
        found = next((r for r in rows if r.case.implementation.startswith(peer)), None)
        return "" if found is None else f"{found.seconds / row.seconds:.2f}"

    return text


def summary(rows: Sequence[Row]) -> str:
    """Return the geometric means over the programs, and how many rows are ahead of numba."""
    times: dict[str, dict[str, float]] = {}
    for row in rows:
        times.setdefault(row.case.work, {})[row.case.implementation] = row.seconds
    lines = []
    for peer in ("NumPy", "numba njit(parallel=True)", "torch.compile"):
        ratios = [t[peer] / t["sl.jit"] for t in times.values() if peer in t and "sl.jit" in t]
        if ratios:
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            ahead = sum(r >= 1 for r in ratios)
            lines.append(
                f"sl.jit over {peer}: geometric mean {mean:.2f}, least {min(ratios):.2f}, ahead on "
                f"{ahead} of {len(ratios)} programs"
            )
    return "\n".join(lines)


COLUMNS = (Column("of NumPy", _over("NumPy")), Column("of numba", _over("numba")))

if __name__ == "__main__":
    sys.exit(main("NPBench's programs", cases(), COLUMNS, summary=summary))
