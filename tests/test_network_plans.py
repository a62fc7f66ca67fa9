"""Random interleavings of what changes a network: each result beside NumPy, whatever came before.

The operations run alone, in several threads, and up to a random line, at which Ctrl-C ends them.
"""

from __future__ import annotations

import pickle
import random
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang import topi
from schedlang.autotune.database import Database
from schedlang.autotune.record import Trial, Where
from schedlang.networks import network
from schedlang.networks.network import Network
from schedlang.networks.tuning import Tuned, Work
from tests.marks import slow_but

# the files between whose lines an interrupt is of interest: those that change a network
CHANGING = {
    str(Path(network.__file__).with_name(f"{name}.py"))
    for name in ("network", "compiled", "present", "rescheduling", "sources")
}


class Case:
    """A network with two kernels, one of which may be of several forms, and what it computes."""

    def __init__(self, seed: int, folder: Path, kind: str) -> None:
        convolution = kind.endswith("convolution")
        self.random = random.Random(seed)
        self.folder = folder
        self.numbers = count()
        self.database = Database(folder / "trials.jsonl")
        rng = np.random.default_rng(seed)
        w = sl.placeholder((16, 16, 3, 3) if convolution else (8, 16), name="w")
        v = sl.placeholder((3, 16) if convolution else (3, 8), name="v")
        arrays = {t: rng.standard_normal(t.shape).astype("float32") / 4 for t in (w, v)}
        self.shape: tuple[int, ...] = (1, 16, 4, 4) if convolution else (2, 16)
        x = sl.placeholder(self.shape, name="x")
        if convolution:
            conv = sl.named("conv", topi.nn.conv2d_nchw(x, w, 1, 1, 1))
            body = topi.nn.flatten(topi.nn.global_pool(topi.nn.relu(conv), "avg"))
        else:
            body = topi.nn.relu(sl.named("fc", topi.nn.dense(x, w)))
        self.out = sl.named("last", topi.nn.dense(body, v))
        self.weights = {t: a.copy() for t, a in arrays.items()}
        self.arrays = arrays
        # a network for "python" runs, and one for "cpu" is saved, since it would be compiled
        self.target = "cpu" if kind.startswith("saved") else "python"
        self.net = sl.network(self.out, arrays, self.target, "planned", self.database)

    def check(self, net: Network) -> None:
        """Compare a call with NumPy."""
        seed = self.random.randrange(100)
        x = np.random.default_rng(seed).standard_normal(self.shape).astype("float32")
        wanted = sl.reference(self.out)(x, *self.weights.values())
        if self.target == "cpu":
            folder = net.save(self.folder / f"saved{next(self.numbers)}")
            net = sl.load(folder, target="python")
        np.testing.assert_allclose(net(x), wanted, rtol=1e-3, atol=1e-3)

    def check_it(self) -> None:
        self.check(self.net)

    def call(self) -> None:
        assert self.net.module.params.size
        self.check(self.net)
        # the module has copies from now on
        for array in self.arrays.values():
            array[:] = np.nan

    def reschedule(self) -> None:
        part = self.random.choice(self.net.partition.parts)
        try:
            self.net.reschedule(part.name, changed(part.group.outputs, self.random))
        except sl.errors.NetworkError as error:
            # another thread has chosen another form since
            assert "no part" in str(error) or "another computation" in str(error)

    def tune(self) -> None:
        database = self.random.choice([None, None, self.folder / f"{self.random.random()}.jsonl"])
        self.net.tune(trials=1, database=database, progress=False)

    def copy(self) -> None:
        self.check(pickle.loads(pickle.dumps(self.net)))

    def go_on_with_a_copy(self) -> None:
        self.net = pickle.loads(pickle.dumps(self.net))
        self.net.database = self.database

    def look(self) -> None:
        net = self.net
        assert net.source and net.memory and net.weights
        assert [kernel.name for kernel in net.kernels] and net.prepared.outputs

    def consistent(self) -> None:
        """Check that the module is that of the kernels, and they those of the parts."""
        kernels, source = self.net.kernels, self.net.source
        assert [k.provenance for k in kernels] == [
            line.removeprefix("# schedule: ") for line in source.splitlines()
            if line.startswith("# schedule: ")
        ]  # fmt: skip
        assert [n for k in kernels for n in k.parts] == [p.name for p in self.net.partition]
        assert self.net.module.source == source and self.net.module.machine_nest is not None
        assert self.net.source == source


def changed(outputs: Any, draws: random.Random) -> Any:
    """Return a schedule of outputs with a split."""
    s = sl.schedule(list(outputs))
    axis = s[s.outputs[0]].op.axis[-1]
    s[s.outputs[0]].split(axis, factor=draws.choice([2, 3, 4]))
    return s


KINDS = ("layer", "convolution", "saved layer", "saved convolution")
OPERATIONS = ("call", "reschedule", "tune", "copy", "look", "go_on_with_a_copy")


@pytest.fixture
def draws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> random.Random:
    """Make each search write one schedule with a random time; no two tests share a cache."""
    monkeypatch.setenv("SCHEDLANG_CACHE", str(tmp_path / "cache"))
    found = random.Random()

    def one(work: Work, target: Any, trials: Any, share: Any, database: Any, *rest: Any) -> Tuned:
        seconds = found.random()
        if seconds < 0.2:
            return Tuned(work, None, 1, why="none of 1 candidates worked")
        where = replace(Where.here(work.outputs, sl.Target("cpu"), {}), machine="one, 2 cores")
        trial = Trial(0, "ok", changed(work.outputs, found).to_json(), seconds=seconds)
        Database.open(database).add(where, work.name, trial, work.outputs)
        return Tuned(work, seconds, 1, kept=seconds < 0.3)

    monkeypatch.setattr("schedlang.networks.tuning._one", one)
    return found


def lines_of(work: Callable[[], None], most: int | None = None) -> int:
    """Run ``work``, and return the lines of ``CHANGING`` that ran; ``most`` of them do."""
    count = 0

    def traced(frame: FrameType, event: str, value: Any) -> Any:
        nonlocal count
        if frame.f_code.co_filename not in CHANGING:
            return None
        if event == "line":
            if count == most:
                raise KeyboardInterrupt
            count += 1
        return traced

    before = sys.gettrace()
    sys.settrace(traced)
    with suppress(KeyboardInterrupt):
        try:
            work()
        finally:
            sys.settrace(before)
    return count


@pytest.mark.parametrize("before", slow_but(["24"], range(0, 120, 12)))
def test_a_first_call_that_is_interrupted(
    tmp_path: Path, draws: random.Random, before: int
) -> None:
    """The next one packs the weights, whose arrays no later search reads again."""
    lines = lines_of(Case(before, tmp_path / "twin", "convolution").check_it)
    case = Case(before, tmp_path, "convolution")
    assert lines_of(case.check_it, lines - before) == lines - before
    case.call()
    draws.seed(before)
    case.net.tune(progress=False)
    case.call()
    case.consistent()


@pytest.mark.parametrize("kind", slow_but(["layer", "convolution", "saved layer"], KINDS))
@pytest.mark.parametrize("seed", slow_but(["0"], range(10)))
def test_interrupts_and_operations_in_any_order(
    tmp_path: Path, draws: random.Random, seed: int, kind: str
) -> None:
    draws.seed(seed)
    case = Case(seed, tmp_path, kind)
    for _ in range(12):
        work = getattr(case, case.random.choice(OPERATIONS))
        if case.random.random() < 0.6:
            lines_of(work, case.random.randrange(80))
        else:
            work()
        if case.random.random() < 0.5:
            case.consistent()
    case.call()
    case.consistent()


@pytest.mark.parametrize("kind", slow_but(["layer"], KINDS))
@pytest.mark.parametrize("seed", slow_but(["0"], range(6)))
def test_threads_and_operations_in_any_order(
    tmp_path: Path, draws: random.Random, seed: int, kind: str
) -> None:
    draws.seed(seed)
    case = Case(seed, tmp_path, kind)
    failures: list[BaseException] = []

    def run(names: list[str]) -> None:
        try:
            for name in names:
                getattr(case, name)()
        except BaseException as error:
            failures.append(error)

    orders = [[case.random.choice(OPERATIONS[:5]) for _ in range(5)] for _ in range(4)]
    threads = [threading.Thread(target=run, args=(names,)) for names in orders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    case.call()
    case.consistent()
