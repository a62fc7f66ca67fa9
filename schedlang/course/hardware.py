"""``sl.testing.hardware``: what a processor counts while a kernel runs, by ``perf stat``.

Where no ``perf`` counts, the numbers are simulated, and say so.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
from dataclasses import dataclass
from typing import Any

from schedlang.course.exercises.requirements import count_in
from schedlang.errors import CallTypeError
from schedlang.runtime.kernel import Kernel
from schedlang.signatures import public

EVENTS = ("instructions:u", "L1-dcache-load-misses:u")
# seconds to wait for perf
PATIENCE = 10


@dataclass(frozen=True)
class HardwareCounts:
    """Counts of a call: the cache lines that loads bring into L1, and the instructions.

    ``source`` is ``"perf stat"`` or ``"simulated"``; then ``why`` says why. A simulated count is
    exact for a cache that fetches nothing in advance, and includes lines for stores. It has no
    ``instructions``: they are ``None``.
    """

    source: str
    lines: float
    instructions: float | None = None
    why: str = ""

    def __str__(self) -> str:
        """Return the counts with their source.

        >>> print(HardwareCounts("simulated", 4096, why="there is no perf"))
        4,096 L1 lines (simulated: there is no perf)
        """
        instructions = self.instructions
        more = "" if instructions is None else f", {instructions:,.0f} instructions"
        why = f": {self.why}" if self.why else ""
        return f"{self.lines:,.0f} L1 lines{more} ({self.source}{why})"


@public
def hardware(kernel: Kernel, *arrays: Any, calls: int = 20) -> HardwareCounts:
    """Return what the processor counts in a call of a kernel for a CPU, the mean of ``calls``.

    ``perf stat`` counts, of this process while the calls run. Where there is no ``perf``, or where
    it may not count, as in many containers and virtual machines, the counts are simulated by
    ``f.counters``, and their ``source`` says so.

    Raise :class:`~schedlang.errors.CallTypeError` for anything but a kernel for a CPU.

    >>> import numpy as np
    >>> import schedlang as sl
    >>> A = sl.placeholder((64,), name="A")
    >>> f = sl.build(sl.schedule(sl.compute((64,), lambda i: A[i] + 1, name="B")))
    >>> sl.testing.hardware(f, np.ones(64, "float32")).source in ("perf stat", "simulated")
    True
    """
    if not isinstance(kernel, Kernel) or not kernel.target.facts.ordered:
        raise CallTypeError("hardware(...): give a kernel for a CPU, as sl.build returns it")
    outcome = _perf(lambda: kernel(*arrays), calls)
    if isinstance(outcome, str):
        simulated = count_in(kernel.counters(*arrays), "L1")
        return HardwareCounts("simulated", simulated, why=outcome)
    instructions, lines = (count / calls for count in outcome)
    return HardwareCounts("perf stat", lines, instructions)


def _perf(call: Any, calls: int) -> list[float] | str:
    """Return the counts of ``EVENTS`` while calls run, or the reason why there are none.

    perf attaches to this process with its counters off; each command to switch them is answered.
    """
    program = shutil.which("perf")
    if program is None:
        return "there is no perf"
    call()
    (read_commands, commands), (answers, write_answers) = os.pipe(), os.pipe()
    arguments = [
        program, "stat", "-x", ",", "-e", ",".join(EVENTS), "-D", "-1", "-p", str(os.getpid()),
        "--control", f"fd:{read_commands},{write_answers}",
    ]  # fmt: skip
    try:
        process = subprocess.Popen(
            arguments,
            pass_fds=(read_commands, write_answers),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "LC_ALL": "C"},
        )
    except OSError as error:
        os.close(commands)
        os.close(answers)
        return f"perf does not start: {error.strerror or error}"
    finally:
        os.close(read_commands)
        os.close(write_answers)
    try:
        for command, work in (("enable", calls), ("disable", 0)):
            os.write(commands, f"{command}\n".encode())
            # the pipe ends without an answer if perf ends
            ready, _, _ = select.select([answers], [], [], PATIENCE)
            if not ready or not os.read(answers, 16):
                break
            for _ in range(work):
                call()
        process.send_signal(signal.SIGINT)
        _, text = process.communicate(timeout=PATIENCE)
    except (OSError, subprocess.TimeoutExpired):
        process.kill()
        _, text = process.communicate()
    finally:
        # an interrupt, or an error of the kernel, leaves no perf that watches this process
        if process.poll() is None:
            process.kill()
            process.wait()
        os.close(commands)
        os.close(answers)
    return counts_in(text)


def counts_in(text: str) -> list[float] | str:
    """Return the counts of ``EVENTS`` in what ``perf stat -x ,`` prints, or why there are none.

    >>> counts_in("1200,,instructions:u,9,100.00,,\\n30,,L1-dcache-load-misses:u,9,100.00,,\\n")
    [1200.0, 30.0]
    >>> counts_in("<not supported>,,instructions:u,0,100.00,,\\n")
    'perf cannot count instructions here'
    >>> counts_in("Error:\\nNo permission to enable instructions:u event.\\n")
    'perf cannot count instructions here'
    """
    counts = {}
    for fields in (line.split(",") for line in text.splitlines()):
        if len(fields) > 2 and fields[0].isdigit():
            counts[fields[2].removesuffix(":u")] = float(fields[0])
    names = [event.removesuffix(":u") for event in EVENTS]
    missing = [name for name in names if name not in counts]
    return f"perf cannot count {missing[0]} here" if missing else [counts[name] for name in names]


__all__ = ["HardwareCounts", "hardware"]
