"""Compare the gradients of NPBench's programs with JAX's.

    python -m benchmarks.npbench_gradients --suite CLONE [--preset S] [--only PATTERN] [--json FILE]

The loss of a program is the sum of the float results that it returns, or else of the float
arguments that it changes, each element times a weight. The time is of the loss and its gradients
by all float arguments, in one call. ``sl.gradient`` differentiates the program of the clone as it
stands, traced by ``sl.trace``. JAX differentiates the clone's version for JAX under ``jax.jit``.
Rows of programs that JAX or ``sl.gradient`` does not take say so. Central differences of the NumPy
program check each row.

The times are of the processor, so that other programs on the machine disturb them less, and
``of JAX`` is the least time of JAX over the least time of the row. Both run on one thread if the
command starts under ``taskset -c 0``.
"""

from __future__ import annotations

import argparse
import importlib.util
import inspect
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

import schedlang as sl
from benchmarks.computations.npbench import Program
from benchmarks.computations.npbench_losses import Loss, loss_of
from benchmarks.computations.npbench_suite import PRESETS, Suite
from benchmarks.harness import Case, Column, Row, Unavailable, main
from benchmarks.npbench import arguments
from schedlang.errors import SchedlangError

OURS = "sl.gradient"
# seconds of the calls that make a sample
WINDOW = 0.02
# returns the loss and the gradients by all float arguments
Differentiated = Callable[[], tuple[Any, Sequence[Any]]]


def with_schedlang(loss: Loss) -> Differentiated:
    """Return what ``sl.gradient`` gives, as a call; raise ``Unavailable`` for a refusal."""
    inputs = {k: _placeholder(f"x{k}", loss.arguments[k]) for k in loss.arrays}
    weights = [_placeholder(f"w{k}", w) for k, w in enumerate(loss.weights)]

    def weighted(*arrays: Any) -> Any:
        return loss.value(arrays[: len(inputs)], arrays[len(inputs) :])

    try:
        value = sl.trace(weighted, *inputs.values(), *weights)
        read = set(sl.graph(value).nodes)
        sources = [k for k in loss.sources if inputs[k].name in read]
        by = sl.gradient(value, [inputs[k] for k in sources])
        read = set(sl.graph([value, *by]).nodes)
        kernel = sl.build(sl.autoschedule([value, *by]))
    except SchedlangError as error:
        raise Unavailable(f"refused: {str(error).splitlines()[0]}") from None
    values = dict(zip([x.name for x in (*inputs.values(), *weights)],
                      [*loss.given(), *loss.weights]))  # fmt: skip
    passed = {name: array for name, array in values.items() if name in read}

    zeros = {k: np.zeros_like(loss.arguments[k]) for k in loss.sources if k not in sources}

    def call() -> tuple[Any, Sequence[Any]]:
        result, *gradients = kernel(**passed)
        by_source = zeros | dict(zip(sources, gradients))
        return result, [by_source[k] for k in loss.sources]

    return call


def _placeholder(name: str, array: np.ndarray) -> Any:
    return sl.placeholder(array.shape, str(array.dtype), name=name)


def with_jax(loss: Loss) -> Differentiated:
    """Return JAX's gradients of the clone's version for it; raise ``Unavailable`` without one."""
    if importlib.util.find_spec("jax") is None:
        raise Unavailable("jax is not installed")
    import jax

    jax.config.update("jax_enable_x64", True)
    try:
        # under a jit of its own, its numbers would be no constants, and some loops have no gradient
        function = inspect.unwrap(loss.program.files.function("jax"))
        arrays = [jax.numpy.asarray(a) for a in loss.given()]
        weights = [jax.numpy.asarray(w) for w in loss.weights]

        def made(*arrays: Any) -> Any:
            given = dict(zip(loss.arrays, arrays))
            return jax.tree_util.tree_leaves(
                function(*(given.get(k, a) for k, a in enumerate(loss.arguments)))
            )

        # a version for JAX returns what changes, in an order of its own
        places = _places([np.asarray(a) for a in made(*arrays)], loss.results)

        def weighted(*arrays: Any) -> Any:
            results = made(*arrays)
            return sum((results[k] * w).sum() for k, w in zip(places, weights))

        by = tuple(loss.arrays.index(k) for k in loss.sources)
        compiled = jax.jit(jax.value_and_grad(weighted, argnums=by))
        jax.block_until_ready(compiled(*arrays))
    except Exception as error:  # noqa: BLE001 - a tracer and a compiler raise many kinds
        raise Unavailable(f"JAX: {_line(error)}") from None
    return lambda: jax.block_until_ready(compiled(*arrays))


def _places(made: Sequence[np.ndarray], results: Sequence[np.ndarray]) -> list[int]:
    """Return where each of the results is among the arrays ``made``."""
    places: list[int] = []
    for result in results:
        scale = 1e-4 * np.abs(result).max()
        close = [
            k for k, a in enumerate(made)
            if k not in places and a.shape == result.shape
            and np.allclose(a, result, rtol=1e-3, atol=scale, equal_nan=True)
        ]  # fmt: skip
        if not close:
            raise ValueError("it returns other results than the NumPy program")
        places.append(close[0])
    return places


def _line(error: Exception) -> str:
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)


IMPLEMENTATIONS: dict[str, Callable[[Loss], Differentiated]] = {
    "JAX": with_jax,
    OURS: with_schedlang,
}

PEERS = tuple(name for name in IMPLEMENTATIONS if name != OURS)


def cases(suite: Suite) -> Iterator[Case]:
    """Yield the cases of each program of a clone."""
    for program in suite.programs():
        loss = cache(partial(_loss_of, program))
        for name, make in IMPLEMENTATIONS.items():
            yield _case(program.name, loss, name, make)


def _loss_of(program: Program) -> Loss:
    loss = loss_of(program, arguments(program))
    if loss is None:
        raise Unavailable("it has no float arrays")
    return loss


def _case(
    work: str, loss: Callable[[], Loss], name: str, make: Callable[[Loss], Differentiated]
) -> Case:
    calls: list[Differentiated] = []

    def prepare() -> Callable[[], object]:
        calls.append(make(loss()))
        calls[0]()
        return partial(_sample, calls[0])

    return Case(work, name, prepare, check=lambda: loss().agrees(*calls[0]()), whole=True)


def _sample(call: Differentiated) -> float:
    """Return the seconds of the processor of a call, the mean of some."""
    spent, count = 0.0, 0
    while spent < WINDOW:
        began = process_time()
        call()
        spent += process_time() - began
        count += 1
    return spent / count


def _of(peer: str, row: Row, rows: Sequence[Row]) -> str:
    theirs = [r for r in rows if r.case.implementation == peer and r.correct]
    return f"{_least(theirs[0]) / _least(row):.2f}" if theirs else ""


def _least(row: Row) -> float:
    assert row.least is not None
    return row.least


def summary(rows: Sequence[Row]) -> str:
    """Return the geometric means of the peers' times over ours, and how many rows are right."""
    times: dict[str, dict[str, float]] = {}
    for row in rows:
        if row.correct:
            times.setdefault(row.case.work, {})[row.case.implementation] = _least(row)
    ours = {work: t for work, t in times.items() if OURS in t}
    lines = [f"{len(ours)} programs are differentiated"]
    for peer in PEERS:
        ratios = [t[peer] / t[OURS] for t in ours.values() if peer in t]
        if ratios:
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            lines.append(f"{len(ratios)} of them beside {peer}: {mean:.2f} times its speed in the "
                         f"geometric mean, least {min(ratios):.2f}")  # fmt: skip
    return "\n".join(lines)


def run_all(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.npbench_gradients", add_help=False)
    parser.add_argument("--suite", metavar="CLONE", type=Path, required=True,
                        help="a clone of spcl/npbench")  # fmt: skip
    parser.add_argument("--preset", default="S", choices=PRESETS, help="the sizes of its programs")
    columns = [Column(f"of {peer}", partial(_of, peer)) for peer in PEERS]
    return main("gradients of NPBench's programs, one thread",
                lambda options: cases(Suite(options.suite.resolve(), options.preset)), columns,
                arguments=given, summary=summary, own=parser)  # fmt: skip


if __name__ == "__main__":
    sys.exit(run_all())
