"""A process for each implementation, which prepares, times and checks one work at a time.

Thread pools spin after a call (OpenBLAS for 0.1 s, GNU OpenMP for 5 ms) and take a core from the
next implementation: in one process, calls in turns ran up to 90 times slower than alone. So each
implementation has a process. A turn starts with calls that are not timed, then times calls back to
back, and ends when the worker's threads sleep. Each then runs as fast as it does alone.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path
from select import select
from time import perf_counter
from typing import Any

from benchmarks import clock
from benchmarks.cache import folder
from benchmarks.harness import Unavailable

ROOT = Path(__file__).parent.parent
# seconds of untimed calls before a sample, and of the calls of a sample
WARMUP = 0.005
WINDOW = 0.02
# a call that takes longer than this (seconds) needs no warm-up and is not repeated
LONG = 0.25
# seconds to wait for a reply: the first Adams2019 schedule takes minutes
REPLY_TIMEOUT = 1800.0
# how often an interrupted sample is repeated
RETRIES = 2
# seconds between two checks whether the threads sleep, and until the checks stop
SETTLE_STEP, SETTLE_TIMEOUT = 0.005, 1.0


def environment() -> dict[str, str]:
    """Return the environment of all workers: their threads, and a malloc that keeps its memory."""
    return threads_and_caches() | {
        "MALLOC_MMAP_MAX_": "0",
        "MALLOC_TRIM_THRESHOLD_": str(8 << 30),
        "MALLOC_TOP_PAD_": str(64 << 20),
    }


def threads_and_caches() -> dict[str, str]:
    """Return an environment with the threads of all implementations, and caches of our own.

    Python keeps bytecode, as it does by default: without, each process compiles all source anew.
    """
    made = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    for name in ("OMP", "OPENBLAS", "MKL", "NUMBA", "HL", "TVM"):
        made[f"{name}_NUM_THREADS"] = str(clock.threads())
    return made | {
        "NUMBA_CACHE_DIR": str(folder("numba")),
        "TORCHINDUCTOR_CACHE_DIR": str(folder("inductor")),
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
    }


class Worker:
    """The parent's end of a worker. The first command starts the process, also after a crash."""

    def __init__(self, module: str, implementation: str, extra: dict[str, str]) -> None:
        self.module, self.implementation, self.extra = module, implementation, extra
        self.process: subprocess.Popen[bytes] | None = None
        self.interrupted = self.samples = 0

    def ask(self, **command: Any) -> dict[str, Any]:
        """Return the reply to a command, or raise :class:`Unavailable` if it failed."""
        process = self.process or self._start()
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps(command).encode() + b"\n")
        process.stdin.flush()
        ready, _, _ = select([process.stdout], [], [], REPLY_TIMEOUT)
        line = process.stdout.readline() if ready else b""
        if not line:
            self.close()
            raise Unavailable("it takes too long" if not ready else f"it died, see {self._log()}")
        reply: dict[str, Any] = json.loads(line)
        if "failed" in reply:
            raise Unavailable(reply["failed"])
        return reply

    def sample(self) -> float:
        """Return the seconds of one call. Repeat a sample that other processes interrupted."""
        self.samples += 1
        found = []
        for _ in range(1 + RETRIES):
            reply = self.ask(do="sample")
            found.append(float(reply["seconds"]))
            if not reply["interrupted"]:
                return found[-1]
            if found[-1] > LONG:
                break
        self.interrupted += 1
        return min(found)

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def _log(self) -> Path:
        return folder("logs") / f"{self.implementation.replace(' ', '_')}.txt"

    def _start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "benchmarks.worker", self.module, self.implementation]
        with self._log().open("wb") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
                env=environment() | self.extra, cwd=ROOT,
            )  # fmt: skip
        return self.process


class Server:
    """The child's end of a worker, which holds one work at a time."""

    def __init__(self, module: str, implementation: str) -> None:
        self.module, self.implementation = module, implementation
        self.outs: Any = None
        self.call: Any = None

    def prepare(self, work: str) -> dict[str, Any]:
        from benchmarks.works import ALL

        # Free the arrays of the last work first.
        self.outs = self.call = None
        chosen = self.work = ALL[work]
        self.outs = chosen.empty()
        peer = import_module(f"benchmarks.peers.{self.module}")
        if hasattr(peer, "start_worker"):
            peer.start_worker()
        made = peer.prepare(self.implementation, chosen, chosen.arrays(), self.outs)
        self.call, facts = made if isinstance(made, tuple) else (made, {})
        self.call()
        start = clock.now()
        self.call()
        self.each = clock.now() - start
        return {"facts": facts}

    def sample(self) -> dict[str, Any]:
        call = self.call
        if self.each < LONG:
            count, start = 0, clock.now()
            while not count or clock.now() - start < WARMUP:
                call()
                count += 1
            self.each = (clock.now() - start) / count
        count = max(1, round(WINDOW / self.each))
        before = _interruptions()
        start = clock.now()
        for _ in range(count):
            call()
        seconds = (clock.now() - start) / count
        interrupted = 0 if clock.by_processor() else _interruptions() - before
        return {"seconds": seconds, "interrupted": interrupted}

    def check(self, expected: list[str]) -> dict[str, Any]:
        import numpy as np

        for array in self.outs.values():
            array.fill(np.nan)
        result = self.call()
        if result is None:
            result = tuple(self.outs.values())
        got = result if isinstance(result, tuple) else (result,)
        want = tuple(np.load(path) for path in expected)
        return {"wrong": self.work.wrong(tuple(np.asarray(g) for g in got), want)}

    def ceilings(self) -> dict[str, Any]:
        from schedlang.runtime.ceilings import copy_rates, fma_rate

        plain, streaming = copy_rates()
        return {"FMA GFLOP/s": fma_rate("float32"), "copy GB/s": plain, "streaming GB/s": streaming}


def _settle() -> None:
    """Wait until this process' threads sleep."""
    used, deadline = time.process_time(), perf_counter() + SETTLE_TIMEOUT
    while perf_counter() < deadline:
        time.sleep(SETTLE_STEP)
        before, used = used, time.process_time()
        if used - before < SETTLE_STEP / 10:
            return


def _interruptions() -> int:
    """Return how often other processes took a core from this one."""
    try:
        import resource
    except ImportError:
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw


def serve(module: str, implementation: str) -> None:
    """Answer commands until the pipe closes. Libraries print into the log."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    server = Server(module, implementation)
    for line in sys.stdin:
        command = json.loads(line)
        try:
            reply = getattr(server, command.pop("do"))(**command)
            _settle()
        except Exception as error:
            print(f"{command}: {error!r}", file=sys.stderr, flush=True)
            reply = {"failed": f"{type(error).__name__}: {error}".splitlines()[0][:120]}
        answers.write(json.dumps(reply) + "\n")
        answers.flush()


if __name__ == "__main__":
    serve(*sys.argv[1:])
