"""``python -m tests.fuzz.programs --cases N --seed S``: random NumPy programs under ``sl.jit``.

Each has loops, branches, views, masks and writes into arrays (``program_text.py``), and is called
twice, with the same shapes and other elements. Results and arguments are compared with NumPy's. A
program that fails is printed with as few lines as fail in the same way. Every hundred cases a line
says how far the run is, and ``--start K`` goes on from case ``K`` of the same seed.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

import numpy as np

import schedlang as sl
from schedlang.errors import LoweringError, SchedlangError, ScheduleError, VerifyError
from schedlang.tracing import specialization
from tests.fuzz.coverage import report
from tests.fuzz.program_coverage import FEATURES, features_of
from tests.fuzz.program_inputs import function_of, made, process_time
from tests.fuzz.program_nodes import Block, Node, Program
from tests.fuzz.program_text import HELPERS, random_program

# the processor time of a call under sl.jit, and of NumPy's, which is long where a counter was left
# out
SECONDS, NUMPY_SECONDS = 120, 2
# the candidates that are tried to make a failing program smaller
MOST_TRIES = 150
# the calls of a program, each with elements of its own
SEEDS = (1, 2)
# errors about schedules and nests, which the user of a program did not write
DEFECTS = (VerifyError, LoweringError, ScheduleError)
# what differs between refusals for the same reason
# a number that is one of several, each with a dtype of its own
_CHOICES = re.compile(r"\bif\b|\bwhile\b|\bm(?:ax|in)\(|capped|longer")
NAMES = re.compile(r"`.*`|'.*?'|\bat line \d+|\bline \d+|\b[a-z]+\d+\b|\([\d, ]*\)|\d+(\.\d+)?")


@dataclass(frozen=True)
class Outcome:
    """The outcome of a program: ``right``, ``refused`` or ``failed``; ``text`` says why.

    ``loops`` says what the loops of one that is right became.
    """

    kind: str
    text: str = ""
    loops: str = ""

    @property
    def reason(self) -> str:
        """The text, without what differs between programs of one reason."""
        return NAMES.sub("_", " / ".join(self.text.splitlines()[:2]))[:220]


def outcome_of(
    source: str, kinds: dict[str, str], target: str = "python", scheduled: bool = False
) -> Outcome:
    """Run a program by NumPy and under ``sl.jit``, with plain schedules unless ``scheduled``.

    ``source`` has the function ``program`` of arguments of these ``kinds``.
    """
    plain = mock.patch.object(specialization, "schedule_for", lambda out, *_: sl.schedule(out))
    traced = sl.jit(function_of(source, HELPERS, read=True), target=target)
    for seed in SEEDS:
        theirs, ours = made(kinds, seed), made(kinds, seed)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            with process_time(NUMPY_SECONDS):
                wanted = function_of(source, HELPERS)(**theirs)
            try:
                with process_time(SECONDS):
                    if scheduled:
                        found = traced(**ours)
                    else:
                        with plain:
                            found = traced(**ours)
            except DEFECTS as error:
                return Outcome("failed", f"{type(error).__name__}: {error}")
            except SchedlangError as error:
                return Outcome("refused", f"{type(error).__name__}: {error}")
            except Exception as error:  # noqa: BLE001 - any other error is a fault of schedlang
                last = traceback.extract_tb(error.__traceback__)[-1]
                where = f"{last.filename.rpartition('/')[2]}:{last.name}"
                return Outcome("failed", f"{type(error).__name__} in {where}: {error}")
        coarse = any("float32" in k or "complex64" in k for k in [*kinds.values(), source])
        chosen = _CHOICES.search(source) is not None
        problem = difference(found, wanted, coarse, chosen) or difference(ours, theirs, coarse)
        if problem:
            return Outcome("failed", f"differs: {problem} (call {seed})")
    return Outcome("right", loops=traced.loops)


def difference(
    found: Any, wanted: Any, coarse: bool, chosen: bool = False, name: str = "result"
) -> str:
    """Return where a result or an argument differs from NumPy's, or nothing.

    A number that may be ``chosen`` among numbers of several dtypes has one dtype in a trace.
    """
    if isinstance(wanted, (tuple, list)):
        if type(found) is not type(wanted) or len(found) != len(wanted):
            return f"{name} is {found!r}, not {wanted!r}"
        parts = [(f"{name}[{k}]", a, b) for k, (a, b) in enumerate(zip(found, wanted))]
        return next(filter(None, (difference(a, b, coarse, chosen, n) for n, a, b in parts)), "")
    if isinstance(wanted, dict):
        parts = [(k, found[k], wanted[k]) for k in wanted]
        return next(filter(None, (difference(a, b, coarse, chosen, n) for n, a, b in parts)), "")
    a, b = np.asarray(found), np.asarray(wanted)
    free = type(wanted) in (int, float) or (chosen and not b.ndim)
    if a.shape != b.shape or (a.dtype != b.dtype and not free):
        return f"{name} is {a.dtype}{a.shape}, not {b.dtype}{b.shape}"
    if a.dtype.kind in "fc":
        tolerance = 1e-4 if coarse or a.dtype.itemsize == 4 else 1e-9
        scale = float(np.abs(b[np.isfinite(b)]).max(initial=1.0))
        good = np.isclose(a, b, rtol=tolerance, atol=tolerance * scale, equal_nan=True)
    else:
        good = np.asarray(a == b)
    if good.all():
        return ""
    at = tuple(int(k) for k in np.argwhere(~good)[0])
    return f"{name}{list(at)} is {a[at]}, not {b[at]} ({int((~good).sum())} of {good.size} differ)"


def shrunk(program: Program, outcome: Outcome, target: str, scheduled: bool) -> Program:
    """Return the program without the lines, results and arguments that its failure needs not."""

    def fails(candidate: Program) -> bool:
        try:
            found = outcome_of(candidate.source, candidate.kinds, target, scheduled)
        except Exception:  # noqa: BLE001 - NumPy cannot run what is left
            return False
        return found.kind == "failed" and found.reason[:24] == outcome.reason[:24]

    smaller, tries = True, 0
    while smaller:
        smaller = False
        for candidate in candidates(program):
            tries += 1
            if tries > MOST_TRIES:
                return program
            if fails(candidate):
                program, smaller = candidate, True
                break
    return program


def candidates(program: Program) -> Iterator[Program]:
    """Yield programs with one part less."""
    for body in without_one(program.body):
        yield replace(program, body=body)
    for k in range(len(program.returned)):
        yield replace(program, returned=program.returned[:k] + program.returned[k + 1 :])
    for name in program.kinds:
        if re.search(rf"\b{name}\b", program.source.partition("\n")[2]) is None:
            yield replace(program, kinds={k: v for k, v in program.kinds.items() if k != name})


def without_one(nodes: list[Node]) -> Iterator[list[Node]]:
    """Yield lists of nodes without one of them, or with a block replaced by a smaller one."""
    for k, node in enumerate(nodes):
        before, after = nodes[:k], nodes[k + 1 :]
        yield before + after
        if isinstance(node, Block):
            yield before + node.body + after
            for body in without_one(node.body):
                yield [*before, Block(node.head, body), *after]


def described(program: Program, outcome: Outcome) -> str:
    return f"# {program.kinds}\n{program.source}# {outcome.kind}: {outcome.text}\n"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.programs", description=__doc__)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", default="0")
    parser.add_argument("--start", type=int, default=0, help="the first case")
    parser.add_argument("--failures", type=int, default=1, help="stop after this many failures")
    parser.add_argument("--target", default="python", help="the target of the kernels")
    parser.add_argument("--scheduled", action="store_true", help="schedule as sl.jit does")
    parser.add_argument("--replay", metavar="SEED:INDEX", help="run one case and print it")
    parser.add_argument("--refused", metavar="WORDS", help="print programs refused by these words")
    options = parser.parse_args(argv)
    if options.replay:
        seed, _, index = options.replay.rpartition(":")
        program = random_program(seed, int(index))
        outcome = outcome_of(program.source, program.kinds, options.target, options.scheduled)
        print(described(program, outcome))
        return int(outcome.kind == "failed")
    return fuzz(options)


def fuzz(options: argparse.Namespace) -> int:
    started = time.monotonic()
    outcomes: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    features: Counter[str] = Counter()
    for index in range(options.start, options.start + options.cases):
        program = random_program(options.seed, index)
        outcome = outcome_of(program.source, program.kinds, options.target, options.scheduled)
        outcomes[outcome.kind] += 1
        features.update(features_of(program, outcome.loops) if outcome.kind == "right" else ())
        if outcome.kind == "refused":
            reasons[outcome.reason] += 1
            if options.refused and re.search(options.refused, outcome.text):
                print(f"--- case {options.seed}:{index}\n{described(program, outcome)}", flush=True)
        if outcome.kind == "failed":
            print(f"--- case {options.seed}:{index}\n{described(program, outcome)}", flush=True)
            small = shrunk(program, outcome, options.target, options.scheduled)
            again = outcome_of(small.source, small.kinds, options.target, options.scheduled)
            print(f"shrunk:\n{described(small, again)}", flush=True)
            if outcomes["failed"] >= options.failures:
                break
        if (index + 1) % 100 == 0:
            print(f"through case {options.seed}:{index}: {dict(outcomes)}", flush=True)
    total = sum(outcomes.values())
    print(
        f"{total} programs in {time.monotonic() - started:.0f} s: "
        + ", ".join(f"{n} {k}" for k, n in outcomes.most_common())
    )
    print(report(features, FEATURES))
    for reason, n in reasons.most_common():
        print(f"refused, {n} times: {reason}")
    return int(outcomes["failed"] > 0)


if __name__ == "__main__":
    sys.exit(main())
