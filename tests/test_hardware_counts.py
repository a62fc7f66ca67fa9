"""``sl.testing.hardware``: counts by ``perf stat``, and simulated ones where it cannot count."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import CallTypeError

# a perf that answers commands as perf stat does, and counts the calls between them by a file
FAKE = """#!{python}
import os, signal, sys
def end(*_):
    print("4000,,instructions:u,9,100.00,,", file=sys.stderr)
    print("{lines},,L1-dcache-load-misses:u,9,100.00,,", file=sys.stderr, flush=True)
    os._exit(0)
signal.signal(signal.SIGINT, end)
fds = sys.argv[sys.argv.index("--control") + 1].removeprefix("fd:").split(",")
commands, answers = map(int, fds)
assert sys.argv[sys.argv.index("-p") + 1] == str(os.getppid())
while True:
    for command in os.read(commands, 64).decode().split():
        print(command, file=open("{log}", "a"))
        os.write(answers, b"ack\\n")
"""


def kernel() -> tuple[sl.Kernel, np.ndarray]:
    A = sl.placeholder((64, 64), name="A")
    T = sl.compute((64, 64), lambda i, j: A[i, j] + 1, name="T")
    return sl.build(sl.schedule(T)), np.ones((64, 64), "float32")


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    perf = folder / "perf"
    perf.write_text(text)
    perf.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


@pytest.mark.skipif(sys.platform != "linux", reason="perf is a program of Linux")
def test_perf_counts_the_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log"
    install(tmp_path, monkeypatch, FAKE.format(python=sys.executable, log=log, lines=5120))
    f, a = kernel()
    counts = sl.testing.hardware(f, a, calls=10)
    assert (counts.source, counts.lines, counts.instructions) == ("perf stat", 512, 400)
    assert log.read_text().split() == ["enable", "disable"]
    assert str(counts) == "512 L1 lines, 400 instructions (perf stat)"


@pytest.mark.skipif(sys.platform != "linux", reason="perf is a program of Linux")
@pytest.mark.parametrize("lines", ["<not supported>", "<not counted>"])
def test_a_perf_that_cannot_count_gives_simulated_counts(
    lines: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = FAKE.format(python=sys.executable, log=tmp_path / "log", lines=lines)
    f, a = kernel()
    # 64 by 64 floats are 256 lines, and so is the result
    for script in (text, "#!/bin/sh\necho 'No permission to enable events' >&2\nexit 255\n"):
        install(tmp_path, monkeypatch, script)
        counts = sl.testing.hardware(f, a)
        assert (counts.source, counts.lines, counts.instructions) == ("simulated", 512, None)
        assert "perf cannot count" in counts.why and counts.why in str(counts)


def test_without_perf_the_counts_are_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    f, a = kernel()
    counts = sl.testing.hardware(f, a)
    assert str(counts) == "512 L1 lines (simulated: there is no perf)"


def test_what_has_no_processor_is_refused() -> None:
    with pytest.raises(CallTypeError, match="give a kernel for a CPU"):
        sl.testing.hardware(3)
