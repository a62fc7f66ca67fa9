"""Compare NPBench's programs under ``sl.jit`` with NumPy, numba and other compilers.

    python -m benchmarks.npbench [--suite CLONE [--preset S]] [--only PATTERN] [--json FILE]
                                 [--minutes N] [--resume]

numba compiles the same function with ``njit(parallel=True)``, and ``torch.compile`` takes it as it
is. Programs that ``sl.jit`` does not run as they stand have up to three changed lines, which
``computations/npbench.py`` lists; their peers run the original. ``of NumPy`` and ``of the best``
are the times of NumPy and of the fastest other compiler over the row's own, ``first call`` is the
wait for the first result. OpenBLAS's threads sleep as soon as a call ends, since idle ones that
spin would take a core from the next implementation.

``--suite`` runs NPBench's own programs from a clone of spcl/npbench, at the sizes of a preset. The
decorator ``sl.jit`` is all that changes there. Pythran and DaCe compile their own versions of it,
where they are installed. Each call has new copies of its arguments, which are not timed. Compilers
need most of the time: ``--minutes`` ends a run, and ``--resume`` goes on with it. For one
thread, set ``OMP_NUM_THREADS``, ``OPENBLAS_NUM_THREADS`` and ``NUMBA_NUM_THREADS`` to 1.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from time import perf_counter
from types import FunctionType
from typing import Any

os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")

import numpy as np  # noqa: E402

import schedlang as sl  # noqa: E402
from benchmarks.computations.npbench import Program, programs  # noqa: E402
from benchmarks.computations.npbench_suite import PRESETS, Suite  # noqa: E402
from benchmarks.harness import Case, Column, Row, Unavailable, main  # noqa: E402
from schedlang.errors import SchedlangError  # noqa: E402

# the rows that NumPy's BLAS decides
BLAS = ("gemm", "k2mm", "k3mm", "atax", "bicg", "mvt")
# seconds of the calls that make a sample with new arguments
WINDOW = 0.02
Function = Callable[..., Any]


def arguments(program: Program) -> tuple[Any, ...]:
    """Return the program's arguments, the same in each call."""
    return program.inputs(np.random.default_rng(7))


def results(function: Function, program: Program) -> list[np.ndarray]:
    """Return what a function returns and what it writes, for new arguments."""
    given = arguments(program)
    returned = function(*given)
    made = () if returned is None else returned if isinstance(returned, tuple) else (returned,)
    return [np.asarray(a) for a in (*made, *(g for g in given if isinstance(g, np.ndarray)))]


def agrees(function: Function, program: Program) -> bool:
    """Return whether a function computes what the program does under NumPy."""
    ours, theirs = results(function, program), results(program.function, program)
    close = _close if program.files is None else _close_in_norm
    return len(ours) == len(theirs) and all(map(close, ours, theirs))


def _close(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape == b.shape and np.allclose(a, b, rtol=1e-4, atol=1e-6)


def _close_in_norm(a: np.ndarray, b: np.ndarray) -> bool:
    """Return whether NPBench takes a result: its check is of the error in the Euclidean norm."""
    if a.shape != b.shape:
        return False
    return bool(np.linalg.norm(np.ravel(a - b)) <= 1e-5 * np.linalg.norm(np.ravel(b)))


def with_numba(program: Program) -> Function:
    """Return the program compiled by numba; raise ``Unavailable`` if it does not compile."""
    import numba

    compiled: Function = numba.njit(parallel=True)(_with_helpers(program.function, {}))
    return _tried(compiled, program, "numba")


def _with_helpers(function: Any, compiled: dict[str, Any]) -> FunctionType:
    """Return a copy of a function that calls helpers of its module which numba compiles too."""
    import numba

    names = dict(function.__globals__)
    for name in function.__code__.co_names:
        helper = names.get(name)
        if isinstance(helper, FunctionType) and helper.__module__ == function.__module__:
            if name not in compiled:
                compiled[name] = numba.njit(_with_helpers(helper, compiled))
            names[name] = compiled[name]
    return FunctionType(function.__code__, names, function.__name__)


def with_torch(program: Program) -> Function:
    """Return the program compiled by ``torch.compile``; raise ``Unavailable`` if it is refused."""
    if importlib.util.find_spec("torch") is None:
        raise Unavailable("torch is not installed")
    import torch

    return _tried(torch.compile(program.function), program, "torch.compile")


def with_pythran(program: Program) -> Function:
    """Return Pythran's version of a program of the suite; raise ``Unavailable`` without one."""
    if importlib.util.find_spec("pythran") is None:
        raise Unavailable("pythran is not installed")
    import pythran

    source, folder = program.files.path("pythran"), Path(tempfile.mkdtemp())
    name = source.stem
    try:
        library = pythran.compile_pythranfile(
            str(source), str(folder / f"{name}.so"), module_name=name,
            extra_compile_args=["-O3", "-march=native", "-fopenmp", "-DUSE_XSIMD"],
            extra_link_args=["-fopenmp"],
        )  # fmt: skip
        spec = importlib.util.spec_from_file_location(name, library)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    except Exception as error:  # noqa: BLE001 - its compiler raises many kinds
        raise Unavailable(f"Pythran: {_line(error)}") from None
    return _tried(getattr(module, program.function.__name__), program, "Pythran")


def with_dace(program: Program) -> Function:
    """Return DaCe's version of a program of the suite; raise ``Unavailable`` without one."""
    if importlib.util.find_spec("dace") is None:
        raise Unavailable("dace is not installed")
    try:
        function = program.files.function("dace")
        function.auto_optimize = True
    except Exception as error:  # noqa: BLE001 - its parser raises many kinds
        raise Unavailable(f"DaCe: {_line(error)}") from None
    return _tried(function, program, "DaCe")


def _tried(function: Function, program: Program, tool: str) -> Function:
    """Return a function whose first call works; raise ``Unavailable`` otherwise."""
    try:
        function(*arguments(program))
    except Exception as error:  # noqa: BLE001 - any error of a compiler means that it refuses
        raise Unavailable(f"{tool}: {_line(error)}") from None
    return function


def _line(error: Exception) -> str:
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)


def with_jit(program: Program) -> Function:
    """Return the program under ``sl.jit``."""
    return sl.jit(program.jitted or program.function)


Make = Callable[[Program], Function]
IMPLEMENTATIONS: dict[str, Make] = {
    "NumPy": lambda program: program.function,
    "numba njit(parallel=True)": with_numba,
    "torch.compile": with_torch,
    "sl.jit": with_jit,
}
IN_THE_SUITE: dict[str, Make] = {
    "NumPy": lambda program: program.function,
    "numba njit(parallel=True)": with_numba,
    "Pythran": with_pythran,
    "DaCe": with_dace,
    "sl.jit": with_jit,
}


def cases() -> Iterator[Case]:
    """Return the cases, program by program."""
    for program in programs():
        for name, make in IMPLEMENTATIONS.items():
            yield _case(program, name, make)


def suite_cases(suite: Suite) -> Iterator[Case]:
    """Return the cases of the programs in a clone of NPBench."""
    for program in suite.programs():
        for name, make in IN_THE_SUITE.items():
            yield _case(program, name, make, renewed=True)


def _case(program: Program, name: str, make: Make, renewed: bool = False) -> Case:
    """Return the case of a program; with ``renewed``, each call has new arguments, untimed."""
    functions: list[Function] = []
    facts: dict[str, Any] = {"changed": list(program.changed)} if name == "sl.jit" else {}

    def prepare() -> Callable[[], object]:
        given, began = arguments(program), perf_counter()
        function = make(program)
        if name == "sl.jit":
            _call_first(function, given)
            facts["first_call_seconds"] = perf_counter() - began
        functions.append(function)
        if renewed:
            return partial(_sample, function, program)
        given = arguments(program)
        return lambda: function(*given)

    return Case(
        program.name, name, prepare, check=lambda: agrees(functions[0], program), whole=renewed,
        facts=facts,
    )  # fmt: skip


def _call_first(function: Function, given: Sequence[Any]) -> None:
    """Call a function under ``sl.jit``; raise ``Unavailable`` with its words for a refusal."""
    try:
        function(*given)
    except SchedlangError as error:
        raise Unavailable(f"refused: {_line(error)}") from None


def _sample(function: Function, program: Program) -> float:
    """Return the seconds of a call, the mean of calls with new arguments."""
    spent, count = 0.0, 0
    while spent < WINDOW:
        given = arguments(program)
        began = perf_counter()
        function(*given)
        spent += perf_counter() - began
        count += 1
    return spent / count


def _of_numpy(row: Row, rows: Sequence[Row]) -> str:
    return _over([r for r in rows if r.case.implementation == "NumPy"], row)


def _of_the_best(row: Row, rows: Sequence[Row]) -> str:
    peers = [r for r in rows if r.correct and r.case.implementation not in ("NumPy", "sl.jit")]
    return _over(peers, row)


def _over(peers: Sequence[Row], row: Row) -> str:
    return f"{min(r.seconds for r in peers) / row.seconds:.2f}" if peers else ""


def _first_call(row: Row, _: Sequence[Row]) -> str:
    seconds = row.case.facts.get("first_call_seconds")
    return "" if seconds is None else f"{seconds:.2f} s"


def summary(rows: Sequence[Row]) -> str:
    """Return the geometric means over the programs, and how many rows are ahead of each peer."""
    times: dict[str, dict[str, float]] = {}
    for row in rows:
        if row.correct:
            times.setdefault(row.case.work, {})[row.case.implementation] = row.seconds
    ours = {work: t for work, t in times.items() if "sl.jit" in t}
    lines = [f"{len(ours)} of {len({row.case.work for row in rows})} programs run under sl.jit"]
    for peer in dict.fromkeys(row.case.implementation for row in rows):
        if peer != "sl.jit":
            ratios = {work: t[peer] / t["sl.jit"] for work, t in ours.items() if peer in t}
            lines += _compared(peer, ratios)
    best = {
        work: min(others) / t["sl.jit"]
        for work, t in ours.items()
        if (others := [s for name, s in t.items() if name not in ("NumPy", "sl.jit")])
    }
    lines += _compared("the best compiler of each row", best)
    waits = [
        row.case.facts["first_call_seconds"] for row in rows if row.case.implementation == "sl.jit"
    ]
    if waits:
        lines.append(f"first calls of sl.jit: median {statistics.median(waits):.2f} s")
    return "\n".join(lines)


def _compared(peer: str, ratios: dict[str, float]) -> list[str]:
    """Return a line on the ratios by program, with and without the rows that BLAS decides."""
    if not ratios:
        return []
    values = list(ratios.values())
    others = [r for work, r in ratios.items() if work not in BLAS]
    without = f", without BLAS's rows {_mean(others):.2f}" if 0 < len(others) < len(values) else ""
    return [
        f"sl.jit over {peer}: geometric mean {_mean(values):.2f}{without}, least "
        f"{min(values):.2f}, ahead on {sum(r >= 1 for r in values)} of {len(values)} programs"
    ]


def _mean(ratios: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


COLUMNS = (
    Column("of NumPy", _of_numpy),
    Column("of the best", _of_the_best),
    Column("first call", _first_call),
)


def chosen(options: argparse.Namespace) -> Iterator[Case]:
    """Return the cases of a clone, or else of our programs; raise ``ValueError`` for no clone."""
    if options.suite is None:
        return cases()
    return suite_cases(Suite(options.suite.resolve(), options.preset))


def run_all(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.npbench", add_help=False)
    parser.add_argument("--suite", metavar="CLONE", type=Path, help="run NPBench's own programs "
                        "from a clone of spcl/npbench")  # fmt: skip
    parser.add_argument("--preset", default="S", choices=PRESETS, help="their sizes")
    return main("NPBench's programs", chosen, COLUMNS, arguments=given, summary=summary, own=parser)


if __name__ == "__main__":
    sys.exit(run_all())
