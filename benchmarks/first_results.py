"""Time the wait before a first result, in new processes, from an empty and a full cache folder.

    python -m benchmarks.first_results [--only PATTERN] [--json FILE] [--beside CHECKOUT]

Rows are the kernels of ``benchmarks.cpu`` with their schedules by hand, a pipeline of 200 stages
and a loop of 1,024 unrolled copies, NPBench's programs under ``sl.jit``, networks from their models
in PyTorch and from a saved folder, and searches, whose time is the time of one trial. The clock
starts when the process has imported NumPy, numba and, for networks, PyTorch, and has its inputs.
The table has wall times; ``processor`` is the time of all processors, the children's included.

``--beside`` names a checkout of an earlier commit, which runs the same rows in turns. ``of it`` is
its time over the row's own. Other rows are peers: numba on the same file, Halide's JIT on the same
kernel (with its schedule by hand where there is one, or its Mullapudi2016's, which is made before
the clock starts), numba and ``torch.compile`` on the same program, and ONNX Runtime.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any

from benchmarks import schedules
from benchmarks.computations.npbench import programs
from benchmarks.harness import Case, Column, Row, Unavailable, main
from benchmarks.peers.networks import NETWORK_PEERS, OURS
from benchmarks.works import TABLE

ROOT = Path(__file__).parent.parent
CHILD = Path(__file__).with_name("first_result.py")
# seconds after which a process is stopped
LONGEST = 240
TRIALS = 24
# the networks of ``benchmarks.networks``, each at one size
CHOSEN = (
    "ResNet-50 224^2", "ResNet-18 224^2", "MobileNetV2 224^2", "EfficientNet-B0 224^2",
    "ViT 12x192 224^2", "LSTM 2x512 64 steps",
)  # fmt: skip
EARLIER = "the earlier commit"


def ask(checkout: Path, cache: str, *arguments: str) -> dict[str, float]:
    """Return the facts of a new process, whose package is the one in ``checkout``."""
    path = os.pathsep.join(filter(None, (str(checkout), os.environ.get("PYTHONPATH"))))
    env = os.environ | {
        "SCHEDLANG_CACHE": cache, "PYTHONPATH": path,
        "TORCHINDUCTOR_CACHE_DIR": f"{cache}/inductor", "NUMBA_CACHE_DIR": f"{cache}/numba",
    }  # fmt: skip
    if arguments[0] in ("saved", "loaded"):
        # two checkouts would save a network in one folder
        env["SCHEDLANG_BENCHMARKS"] = f"{cache}/benchmarks"
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-c", CHILD.read_text(encoding="utf-8"), *arguments]
    try:
        done = subprocess.run(
            command, env=env, cwd=checkout, capture_output=True, text=True, timeout=LONGEST,
            check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise Unavailable(f"it takes more than {LONGEST} s") from None
    if done.returncode:
        raise Unavailable(([*done.stderr.strip().splitlines(), "it died"])[-2][:120])
    facts: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return facts


def cases(beside: Path | None) -> Iterator[Case]:
    """Yield all cases; those of a work stand together."""
    checkouts = {"schedlang": ROOT} | ({} if beside is None else {EARLIER: beside})
    for name, work in TABLE.items():
        if schedules.MAIN in schedules.of(work):
            yield from _compiled("kernel", name, checkouts)
            missing = "" if find_spec("halide") else "halide is not installed"
            yield _case(
                "halide", name, "Halide's JIT", ROOT, work=f"kernel {name}", missing=missing
            )
    for name in ("200 stages", "unrolled"):
        yield from _compiled("pipeline", name, checkouts)
    for program in programs():
        for implementation, checkout in checkouts.items():
            yield _case("npbench", program.name, implementation, checkout)
        for peer in ("numba", "torch"):
            yield _case("npbench", program.name, peer, ROOT, f"by={peer}")
    for name in CHOSEN:
        for implementation, checkout in checkouts.items():
            yield _case("network", name, implementation, checkout)
        yield _case("network", name, "torch.compile", ROOT, "by=torch")
        for implementation, checkout in checkouts.items():
            yield _full("network", name, implementation, checkout)
        for implementation, checkout in checkouts.items():
            yield _loaded(name, implementation, checkout, OURS.implementation)
        for served in NETWORK_PEERS:
            if served.implementation in ("ONNX Runtime", "OpenVINO"):
                missing, by = served.missing(), served.implementation
                yield _loaded(name, by, ROOT, by, missing)
    for name in ("product", "convolution", "softmax"):
        for implementation, checkout in checkouts.items():
            yield _case("search", name, implementation, checkout, f"trials={TRIALS}", count=TRIALS)


def _compiled(kind: str, name: str, checkouts: dict[str, Path]) -> Iterator[Case]:
    """Yield the cases of a schedule: from an empty cache, by numba, and from a full cache."""
    for implementation, checkout in checkouts.items():
        yield _case(kind, name, implementation, checkout)
    yield _case(kind, name, "numba on the file", ROOT, "compiler=numba")
    for implementation, checkout in checkouts.items():
        yield _full(kind, name, implementation, checkout)


def _case(
    kind: str,
    name: str,
    implementation: str,
    checkout: Path,
    *options: str,
    count: int = 1,
    work: str = "",
    missing: str = "",
) -> Case:
    """Return a case whose samples each have an empty cache."""
    facts: dict[str, Any] = {}

    def sample() -> float:
        with TemporaryDirectory() as cache:
            return _add(facts, ask(checkout, cache, kind, name, *options), count)

    return Case(
        work or f"{kind} {name}", implementation, partial(_same, sample), missing=missing,
        whole=True, facts=facts,
    )  # fmt: skip


def _full(kind: str, name: str, implementation: str, checkout: Path) -> Case:
    """Return a case whose samples find what an earlier process compiled."""
    facts: dict[str, Any] = {}

    def prepare() -> Callable[[], object]:
        cache = mkdtemp()
        ask(checkout, cache, kind, name)
        return lambda: _add(facts, ask(checkout, cache, kind, name))

    return Case(f"{kind} {name}", f"{implementation}, full cache", prepare, whole=True, facts=facts)


def _loaded(name: str, implementation: str, checkout: Path, by: str, missing: str = "") -> Case:
    """Return a case that loads a saved network."""
    facts: dict[str, Any] = {}
    option = f"by={by.replace(' ', '_')}"

    def prepare() -> Callable[[], object]:
        cache = mkdtemp()
        ask(checkout, cache, "saved", name, option)
        return lambda: _add(facts, ask(checkout, cache, "loaded", name, option))

    return Case(
        f"network {name}", f"{implementation}, loaded", prepare, missing=missing, whole=True,
        facts=facts,
    )  # fmt: skip


def _same(call: Callable[[], object]) -> Callable[[], object]:
    return call


def _add(facts: dict[str, Any], sample: dict[str, float], count: int = 1) -> float:
    """Note the processor time of a sample, and return its wall time, both for one of ``count``."""
    facts.setdefault("processor_seconds", []).append(sample["processor"] / count)
    return sample["wall"] / count


def _processor(row: Row) -> float:
    return statistics.median(row.case.facts["processor_seconds"])


def _earlier(row: Row, rows: Sequence[Row]) -> Row | None:
    """Return the row of the earlier commit for the same cache."""
    wanted = row.case.implementation.replace("schedlang", EARLIER)
    return next((r for r in rows if r.case.implementation == wanted and r is not row), None)


def _of_it(row: Row, rows: Sequence[Row]) -> str:
    earlier = _earlier(row, rows)
    return "" if earlier is None else f"{earlier.seconds / row.seconds:.2f}"


def _of_its_processor(row: Row, rows: Sequence[Row]) -> str:
    earlier = _earlier(row, rows)
    return "" if earlier is None else f"{_processor(earlier) / _processor(row):.2f}"


def summary(rows: Sequence[Row]) -> str:
    """Return the geometric means over the rows of each kind that have an earlier commit."""
    ratios: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for row in rows:
        same = [r for r in rows if r.case.work == row.case.work]
        earlier = _earlier(row, same)
        if earlier is not None:
            kind = (row.case.work.split()[0], row.case.implementation)
            pair = earlier.seconds / row.seconds, _processor(earlier) / _processor(row)
            ratios.setdefault(kind, []).append(pair)
    lines = []
    for (kind_name, implementation), pairs in ratios.items():
        wall, processor = (math.exp(statistics.mean(map(math.log, r))) for r in zip(*pairs))
        lines.append(
            f"{kind_name}, {implementation}: the earlier commit takes {wall:.2f} times as long and "
            f"{processor:.2f} times the processor time (geometric means of {len(pairs)})"
        )
    return "\n".join(lines)


COLUMNS = (
    Column("processor", lambda row, _: f"{_processor(row):.2f} s"),
    Column("of it", _of_it),
    Column("processor of it", _of_its_processor),
)

if __name__ == "__main__":
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--beside", metavar="CHECKOUT", type=Path)
    options, others = parser.parse_known_args()
    beside = None if options.beside is None else options.beside.resolve()
    sys.exit(main("First results", cases(beside), COLUMNS, arguments=others, summary=summary))
