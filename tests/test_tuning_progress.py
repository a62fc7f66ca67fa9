"""Tests of the progress line of a search."""

from __future__ import annotations

import io
import re
import signal
import subprocess
import sys
from typing import Any

import pytest

from schedlang.autotune.record import Trial
from schedlang.autotune.report import progress as module
from schedlang.autotune.report.progress import Bar, Callback, Silent, Tally, progress_for
from schedlang.errors import MissingExtraError, TuningError

HIDE, SHOW = "\x1b[?25l", "\x1b[?25h"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    """A clock that advances by a second per reading, so that every trial is drawn."""

    now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


def bar(total: int | None = 4, width: int = 100, **options: Any) -> tuple[Bar, io.StringIO]:
    console = pytest.importorskip("rich.console")
    file = io.StringIO()
    shown = console.Console(file=file, force_terminal=True, width=width, _environ={})
    return Bar(total, console=shown, **{"clock": Clock(), **options}), file


def told(text: str) -> str:
    """Return all that was drawn as plain text."""
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text)


def test_the_line_shows_the_best_the_rate_the_rest_and_failures() -> None:
    progress, file = bar()
    with progress:
        progress.trial(Trial(0, "ok", "", seconds=0.004))
        progress.trial(Trial(1, "crashed", ""))
        progress.trial(Trial(2, "ok", "", seconds=0.002))
    text = told(file.getvalue())
    assert "0/4" in text and "1/4" in text and "3/4" in text
    assert text.index("best 4 ms") < text.index("1 crashed") < text.index("best 2 ms")
    assert "trials/s" in text and "left" in text


def test_the_line_is_one_line_and_the_cursor_comes_back() -> None:
    for width in (30, 60, 200):
        progress, file = bar(width=width)
        with progress:
            for n, outcome in enumerate(("crashed", "wrong answer", "run timed out", "invalid")):
                progress.trial(Trial(n, outcome, ""))
        written = file.getvalue()
        assert written.startswith(HIDE) and written.count("\n") == 1
        assert written.rindex(SHOW) > written.rindex(HIDE)
        lines = told(written).rstrip("\n").split("\r")
        assert len(lines) >= 5 and max(map(len, lines)) <= width and "4/4" in lines[-1]


def test_a_search_that_only_time_ends_has_a_bar_too() -> None:
    progress, file = bar(None, deadline=60.0)
    with progress:
        progress.trial(Trial(0, "ok", "", seconds=0.002))
    assert "best 2 ms" in told(file.getvalue()) and "s left" in told(file.getvalue())


def test_the_cursor_comes_back_after_an_interrupt() -> None:
    progress, file = bar()
    with pytest.raises(KeyboardInterrupt):
        with progress:
            progress.trial(Trial(0, "ok", "", seconds=1.0))
            raise KeyboardInterrupt
    assert file.getvalue().rindex(SHOW) > file.getvalue().rindex(HIDE)
    assert sys.stdout is not None and "FileProxy" not in type(sys.stdout).__name__


def test_a_note_is_above_the_line_and_is_not_markup() -> None:
    progress, file = bar()
    with progress:
        progress.note("waiting for [bold]2[/bold] workers \x1b[2J")
        progress.trial(Trial(0, "ok", "", seconds=1.0))
    assert "waiting for [bold]2[/bold] workers \\x1b[2J\n" in told(file.getvalue())


def test_the_last_line_has_the_time_of_the_race_and_one_trial_more() -> None:
    progress, file = bar(1)
    with progress:
        progress.trial(Trial(0, "ok", "", seconds=0.002))
        progress.raced(Trial(0, "ok", "", seconds=0.003, raced=True, first=0.002))
        progress.trial(Trial(1, "ok", "", seconds=0.001))
    last = told(file.getvalue()).rsplit("\r", 1)[-1]
    assert "best 3 ms when measured again" in told(file.getvalue())
    assert "measured again" not in last
    assert "2/2" in last and "best 1 ms" in last and "left" not in last


def test_outcomes_are_not_markup() -> None:
    progress, file = bar()
    with progress:
        progress.trial(Trial(0, "[/red]", ""))
    assert "1 [/red]" in told(file.getvalue())


def test_many_trials_a_second_are_not_each_drawn() -> None:
    still, file = bar(1000, clock=lambda: 5.0)
    with still:
        for n in range(1000):
            still.trial(Trial(n, "ok", "", seconds=1.0))
    # drawn at the start and at the end, since the clock stood still in between
    assert file.getvalue().count("/1000") <= 4 and "1000/1000" in told(file.getvalue())


def test_the_remaining_time_is_by_the_rate_or_the_deadline() -> None:
    tally = Tally(total=10, deadline=None, start=100.0)
    assert tally.left(100.0) is None and tally.text(100.0) == "no time yet"
    tally.add(Trial(0, "ok", "", seconds=float("nan")))
    tally.add(Trial(1, "ok", "", resumed=True, seconds=0.5))
    assert tally.rate(102.0) == 0.5 and tally.left(102.0) == 16.0 and tally.best == 0.5
    tally.deadline = 105.0
    assert tally.left(102.0) == 3.0 and tally.left(106.0) == 0.0
    assert "3.0 s left" in tally.text(102.0)
    assert Tally(None, 50.0, 0.0).left(20.0) == 30.0 and Tally(None, None, 0.0).left(1.0) is None


def test_nothing_is_shown_off_a_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    for setting in (None, False):
        progress = progress_for(setting, 3)
        assert type(progress) is Silent
        with progress:
            progress.trial(Trial(0, "ok", ""))
            progress.note("hello")
    assert capfd.readouterr() == ("", "")


def test_a_terminal_gets_the_bar_unless_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rich")
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert type(progress_for(None, 3)) is Bar and type(progress_for(False, 3)) is Silent
    monkeypatch.setattr(sys, "stderr", None)
    assert type(progress_for(None, 3)) is Silent


def test_the_bar_that_is_asked_for_prints_one_line_off_a_terminal(
    capfd: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("rich")
    with progress_for(True, 2) as progress:
        progress.trial(Trial(0, "ok", "", seconds=0.002))
        progress.trial(Trial(1, "ok", "", seconds=0.001))
    out, err = capfd.readouterr()
    assert out == "" and err.count("\n") == 1 and "2/2 best 1 ms" in err


def test_without_rich_the_default_is_silent_and_true_names_the_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("rich", "rich.console", "rich.progress", "rich.table"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert type(progress_for(None, 3)) is Silent
    with pytest.raises(MissingExtraError, match=r'pip install "schedlang\[tune\]"'):
        progress_for(True, 3)


def test_rich_is_imported_only_for_a_bar() -> None:
    code = (
        "import sys; from schedlang.autotune.report import page, progress, summary\n"
        "progress.progress_for(None, 3); sys.exit('rich' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], stderr=subprocess.PIPE).returncode == 0


def test_a_function_is_called_with_each_trial() -> None:
    seen: list[Trial] = []
    trials = [Trial(0, "ok", ""), Trial(1, "crashed", "")]
    with progress_for(seen.append, 2) as progress:
        assert type(progress) is Callback
        for trial in trials:
            progress.trial(trial)
        progress.note("hello")
    assert seen == trials


@pytest.mark.parametrize("setting", [0, 1, "yes", []])
def test_an_invalid_setting_is_refused(setting: Any) -> None:
    with pytest.raises(TuningError, match="give None, True, False or a function"):
        progress_for(setting, 3)


@pytest.mark.skipif(sys.platform == "win32", reason="a pseudo-terminal is needed")
def test_an_interrupted_search_leaves_its_terminal_as_it_was() -> None:
    pytest.importorskip("rich")
    import os
    import pty
    import select
    import termios

    code = (
        "import signal, time\n"
        # background jobs of a shell ignore SIGINT
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        f"from {module.__name__} import progress_for\n"
        "from schedlang.autotune.record import Trial\n"
        "with progress_for(None, 5) as progress:\n"
        "    progress.trial(Trial(0, 'ok', '', seconds=0.002))\n"
        "    progress.note('ready')\n"
        "    time.sleep(60)\n"
    )
    here, there = pty.openpty()
    before = termios.tcgetattr(there)
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    process = subprocess.Popen([sys.executable, "-c", code], stderr=there, env=env)
    written = b""

    def read_to(wanted: bytes) -> None:
        nonlocal written
        while wanted not in written:
            assert select.select([here], [], [], 60)[0], written
            written += os.read(here, 4096)

    try:
        read_to(b"ready")
        process.send_signal(signal.SIGINT)
        process.wait(30)
        read_to(SHOW.encode())
        assert termios.tcgetattr(there) == before
    finally:
        process.kill()
        process.wait()
        os.close(here)
        os.close(there)
    assert b"best 2 ms" in written
    assert written.rindex(SHOW.encode()) > written.rindex(HIDE.encode())
