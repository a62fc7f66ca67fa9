"""The line that says what takes long: on terminals, in notebooks, in threads, and nowhere else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.course.execute import execute
from schedlang.errors import BuildError
from schedlang.markup import progress
from schedlang.markup.progress import Line, Work, tell, working
from tests.terminals import CLEAR, Clock, Terminal, drawn, use

SOON = 20.0


def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let lines appear without a wait, and be drawn often."""
    monkeypatch.setattr(progress, "QUIET", 0.0)
    monkeypatch.setattr(progress, "PAUSE", 0.0)
    monkeypatch.setattr(progress, "TICK", 0.01)


def wait_for(terminal: Terminal, text: str) -> None:
    """Wait until a line with ``text`` was drawn."""
    end = time.monotonic() + SOON
    while not any(text in line for line in drawn(terminal)):
        assert time.monotonic() < end, drawn(terminal)
        time.sleep(0.005)


def test_nothing_is_drawn_in_the_first_two_seconds(terminal: Terminal) -> None:
    clock = Clock(0.0)
    line = Line(lambda now: f"at {now:.1f}", None, False, clock)
    for clock.now in (0.0, 1.0, 1.9):
        line.draw()
    assert terminal.getvalue() == ""
    # at most ten a second
    for clock.now in (2.0, 2.05, 2.1, 2.15, 2.2):
        line.draw()
    assert drawn(terminal) == ["at 2.0", "at 2.1", "at 2.2"] and terminal.screen() == ["at 2.2"]
    line.close("")
    assert terminal.screen() == []
    line.draw()
    assert terminal.screen() == []


def test_short_work_writes_nothing_at_all(terminal: Terminal) -> None:
    with working("short"):
        tell("doing {} things", 1, 2)
    assert terminal.getvalue() == ""


def test_the_time_left_is_said_when_it_means_something() -> None:
    clock = Clock(0.0)
    work = Work("network small", clock)
    assert work.text(0.0) == "network small"
    for done, now, text in [
        (0, 0.0, "0 of 30 kernels, 0.0 s so far"),
        (1, 4.0, "1 of 30 kernels, 4.0 s so far"),
        (2, 8.0, "2 of 30 kernels, 8.0 s so far"),
        (3, 12.0, "3 of 30 kernels, about 1 min 48 s left"),
        (29, 60.0, "29 of 30 kernels, about 2.1 s left"),
        (30, 62.0, "30 of 30 kernels, 1 min 2 s so far"),
    ]:
        clock.now = now
        work.tell("scheduling {} kernels", done, 30)
        assert work.text(now) == f"network small: scheduling {text}"
    # in between the time that is left goes down, to what the others take
    clock.now = 0.0
    work.tell("linking {} kernels", 0, 4)
    clock.now = 6.0
    work.tell("linking {} kernels", 2, 4)
    left = [work.text(now).rpartition("about ")[2] for now in (6.0, 7.0, 9.0, 20.0)]
    assert left == ["6.0 s left", "5.0 s left", "3.0 s left", "3.0 s left"]
    # a new phase counts its own time
    clock.now = 60.0
    work.tell("compiling")
    assert work.text(64.5) == "network small: compiling, 4.5 s so far"


def test_a_thread_draws_what_does_not_tell(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once(monkeypatch)
    with working("kernel C"):
        tell("compiling")
        wait_for(terminal, "kernel C: compiling, 0.0 s so far")
        wait_for(terminal, "kernel C: compiling, 0.1 s so far")
    assert terminal.screen() == []
    written = terminal.getvalue()
    time.sleep(0.05)
    assert terminal.getvalue() == written


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_error_removes_the_line(
    error: type[BaseException], terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once(monkeypatch)
    with pytest.raises(error), working("work"):
        wait_for(terminal, "work")
        raise error
    assert terminal.screen() == []


def test_work_inside_of_work_has_no_line_of_its_own(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once(monkeypatch)
    with working("outer"):
        tell("first")
        with working("inner"):
            tell("second")
            wait_for(terminal, "outer: second")
        wait_for(terminal, "outer: first")
        tell("{} things", 1, 3)
        with working("inner"):
            # a count says more
            tell("third")
            time.sleep(0.05)
        wait_for(terminal, "outer: 1 of 3 things")
    assert not any("third" in line or "inner" in line for line in drawn(terminal))


def test_one_of_several_threads_has_the_line(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once(monkeypatch)
    ends = threading.Event()

    def other() -> None:
        with working("other"):
            ends.wait(SOON)

    with working("first"):
        wait_for(terminal, "first")
        thread = threading.Thread(target=other)
        thread.start()
        time.sleep(0.05)
    assert set(drawn(terminal)) == {"first"}
    # the line is free now
    wait_for(terminal, "other")
    ends.set()
    thread.join()
    assert terminal.screen() == []


def test_a_terminal_is_asked_for_its_width_and_gets_no_codes(terminal: Terminal) -> None:
    line = Line(lambda now: "ab\x1b[31m\n" + "界" * 60, True, False, Clock(1.0))
    line.draw()
    line.close("")
    (text,) = drawn(terminal)
    assert text.startswith("ab\\x1b[31m") and "\x1b" not in text
    columns = sum(2 if c == "界" else 1 for c in text)
    assert 78 <= columns <= 79


def test_a_process_of_a_pool_leaves_the_terminal_to_its_parent(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once(monkeypatch)
    child = SimpleNamespace(parent_process=lambda: "the parent")
    monkeypatch.setitem(sys.modules, "multiprocessing", child)
    with working("work"):
        time.sleep(0.03)
    assert terminal.getvalue() == ""


@pytest.mark.parametrize("stream", [Terminal(False), None])
def test_nothing_is_written_elsewhere(
    stream: Any, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    at_once(monkeypatch)
    use(monkeypatch, stream)
    before = threading.active_count()
    with working("work"):
        tell("doing")
        assert threading.active_count() == before
        time.sleep(0.03)
    assert stream is None or stream.getvalue() == ""
    assert capfd.readouterr() == ("", "")


def test_a_line_that_was_asked_for_is_printed_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal(False)
    use(monkeypatch, stream)
    with working("work", True):
        tell("doing")
    assert stream.getvalue() == "work: 0.0 s\n"


def test_a_dumb_terminal_and_a_closed_one_get_nothing(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once(monkeypatch)
    with working("work"):
        wait_for(terminal, "work")
        terminal.close()
    use(monkeypatch, dumb := Terminal())
    monkeypatch.setenv("TERM", "dumb")
    with working("work"):
        time.sleep(0.03)
    assert dumb.getvalue() == ""


class Cell:
    """The outputs of a notebook's cell, by their identifiers."""

    def __init__(self) -> None:
        self.outputs: list[list[str]] = []

    def display(self, data: dict[str, str], raw: bool, display_id: bool = False) -> Any:
        assert raw
        output = [data["text/plain"]]
        self.outputs.append(output)
        return SimpleNamespace(update=lambda data, raw: output.append(data["text/plain"]))


def test_a_notebook_has_an_output_that_is_updated_and_empty_at_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at_once(monkeypatch)
    cell = Cell()
    shell = SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    shown = SimpleNamespace(display=cell.display)
    monkeypatch.setitem(sys.modules, "IPython.display", shown)
    with working("kernel C"):
        tell("compiling")
        end = time.monotonic() + SOON
        while not cell.outputs or len(cell.outputs[0]) < 3:
            assert time.monotonic() < end
            time.sleep(0.005)
    (output,) = cell.outputs
    assert output[-2].startswith("kernel C: compiling, ") and output[-1] == ""
    with working("kernel C", False):
        time.sleep(0.03)
    assert len(cell.outputs) == 1


@pytest.mark.slow
def test_a_real_notebook_has_no_line_at_the_end(tmp_path: Path) -> None:
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    code = """
import time
from schedlang.markup import progress
progress.QUIET = 0.0
with progress.working("kernel C", {}):
    progress.tell("compiling")
    time.sleep(0.3)
    shown = list(progress._SHOWN.line._display._handle.display_id)
print("shown" if shown else "not shown")
"""
    cells = [nbformat.v4.new_code_cell(code.format(setting)) for setting in ("None", "True")]
    notebook = execute(nbformat.v4.new_notebook(cells=cells), tmp_path)
    first, second = ([out for out in cell.outputs] for cell in notebook["cells"])
    assert [out.text for out in first] == ["shown\n"]
    assert second[0].data["text/plain"].startswith("kernel C: ") and len(second) == 2


def small_network(**options: Any) -> Any:
    X, W = sl.placeholder((4, 8), name="X"), sl.placeholder((8, 8), name="W")
    h = sl.topi.nn.relu(sl.named("fc", sl.topi.nn.dense(X, W)))
    return sl.network(sl.topi.nn.softmax(h), {W: np.ones((8, 8), "float32")}, **options)


@pytest.fixture
def slow_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let lines appear at once, and let each thing that is told take a while."""
    at_once(monkeypatch)
    told = Work.tell

    def tell_slowly(work: Work, text: str, done: int = 0, total: int = 0) -> None:
        told(work, text, done, total)
        time.sleep(0.03)

    monkeypatch.setattr(Work, "tell", tell_slowly)


def phases(terminal: Terminal) -> list[str]:
    """Return the texts that were drawn, without times, each once."""
    texts = (line.rpartition(", ")[0] for line in drawn(terminal) if ": " in line)
    return list(dict.fromkeys(texts))


@pytest.mark.slow
@pytest.mark.usefixtures("slow_steps")
def test_a_network_tells_its_steps(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setenv("SCHEDLANG_CACHE", str(tmp_path))
    net = small_network(name="small")
    assert phases(terminal)[-1] == "network small: dividing"
    net(np.ones((4, 8), "float32"))
    seen = phases(terminal)
    for text in (
        "scheduling 0 of 2 kernels, then compiling", "scheduling 1 of 2 kernels, then compiling",
        "linking, then compiling", "computing weights, then compiling", "compiling",
    ):  # fmt: skip
        assert f"network small: {text}" in seen
    assert terminal.screen() == []
    small_network(name="other", compiler="numba")(np.ones((4, 8), "float32"))
    for count in (0, 1):
        text = f"network other: first call, which compiles: {count} of 2 kernels"
        assert text in phases(terminal)
    length = len(terminal.getvalue())
    net(np.ones((4, 8), "float32"))
    assert len(terminal.getvalue()) == length


@pytest.mark.usefixtures("slow_steps")
def test_kernels_traced_functions_and_gradients_tell_their_steps(terminal: Terminal) -> None:
    A = sl.placeholder((8,), name="A")
    B = sl.compute((8,), lambda i: sl.exp(A[i]), name="B")
    a = np.ones(8, "float32")
    for target in ("python", "cpu"):
        sl.build(sl.schedule(B), target=target)(a)
    assert phases(terminal) == ["sl.build of B: lowering", "kernel B: compiling"]
    sl.build(sl.schedule(B), compiler="numba")(a)
    assert phases(terminal)[2:] == ["kernel B: first call, which compiles"]

    @sl.jit
    def scaled(x: Any) -> Any:
        return x * 3

    np.testing.assert_array_equal(scaled(a), a * 3)
    seen = phases(terminal)
    assert "scaled under sl.jit: tracing and scheduling" in seen
    assert "scaled under sl.jit: compiling" in seen
    k = sl.reduce_axis(8, name="k")
    sl.gradient(sl.compute((), lambda: sl.sum(B[k], axis=k), name="C"), A)
    assert "gradient of C: differentiating 1 of 3 stages" in phases(terminal)
    assert terminal.screen() == []


@pytest.mark.slow
@pytest.mark.usefixtures("slow_steps")
def test_progress_false_is_silent_at_each_call(terminal: Terminal, tmp_path: Any) -> None:
    x = np.ones((4, 8), "float32")
    A = sl.placeholder((4, 8), name="A")
    B = sl.compute((4, 8), lambda i, j: sl.exp(A[i, j]), name="B")
    quiet = {"progress": False}
    sl.build(sl.schedule(B), **quiet)(x)
    sl.build(sl.schedule(B), compile="now", **quiet)
    net = small_network(target="python", **quiet)
    net(x)
    net.profile(x)
    folder = small_network(**quiet).save(tmp_path / "saved")
    sl.load(folder, "python", **quiet)(x)
    sl.jit(lambda v: v * 3, **quiet)(x)
    i, j = sl.reduce_axis(4, name="i"), sl.reduce_axis(8, name="j")
    sl.gradient(sl.compute((), lambda: sl.sum(B[i, j], axis=[i, j]), name="C"), A, **quiet)
    assert terminal.getvalue() == ""


@pytest.mark.usefixtures("slow_steps")
def test_the_thread_in_the_background_is_silent(terminal: Terminal) -> None:
    net = small_network(name="other", compile="background", progress=False)
    net(np.ones((4, 8), "float32"))
    assert terminal.getvalue() == ""


@pytest.mark.parametrize("bad", [0, 1, "yes", []])
def test_another_setting_is_refused(bad: Any, tmp_path: Any) -> None:
    A = sl.placeholder((4,), name="A")
    B = sl.compute((4,), lambda i: A[i] * 2, name="B")
    total = sl.compute((), lambda: B[0], name="total")
    for asked, call in {
        "sl.build": lambda: sl.build(sl.schedule(B), progress=bad),
        "sl.network": lambda: sl.network(B, progress=bad),
        "sl.load": lambda: sl.load(tmp_path, progress=bad),
        "sl.jit": lambda: sl.jit(lambda x: x, progress=bad),
        "sl.gradient": lambda: sl.gradient(total, A, progress=bad),
    }.items():
        with pytest.raises(BuildError) as caught:
            call()
        assert str(caught.value).startswith(f"{asked}(..., progress={bad!r}): ")


@pytest.mark.skipif(sys.platform == "win32", reason="a pseudo-terminal is needed")
def test_ctrl_c_removes_the_line_of_a_terminal() -> None:
    import pty
    import select

    code = (
        "import signal, time\n"
        # background jobs of a shell ignore SIGINT
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from schedlang.markup import progress\n"
        "progress.QUIET = 0.0\n"
        "try:\n"
        "    with progress.working('kernel C'):\n"
        "        progress.tell('compiling')\n"
        "        time.sleep(60)\n"
        "except KeyboardInterrupt:\n"
        "    pass\n"
    )
    here, there = pty.openpty()
    env = {**os.environ, "TERM": "xterm"}
    process = subprocess.Popen([sys.executable, "-c", code], stderr=there, env=env)
    written = b""
    try:
        while b"so far" not in written:
            assert select.select([here], [], [], SOON)[0], written
            written += os.read(here, 4096)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
        while select.select([here], [], [], 0.2)[0]:
            written += os.read(here, 4096)
    finally:
        process.kill()
        process.wait()
        os.close(here)
        os.close(there)
    text = written.decode()
    assert "kernel C: compiling, " in text and text.endswith(CLEAR)
